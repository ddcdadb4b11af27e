//! Fences 5, 6 and 8: buckets of tenants' own. Whatever Velero reads there a tenant may have written.

use croft_api::{
    backup::{
        MANAGED_BY_LABEL, MANAGED_BY_VALUE, NAB_ORIGIN_NACUUID_LABEL, NAB_ORIGIN_NAMESPACE_ANNOTATION,
        NABSL_ORIGIN_NAMESPACE_ANNOTATION, OADP_LABEL, OADP_LABEL_VALUE,
    },
    velero::SCHEDULE_NAME_LABEL,
};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};

use super::{OWN_BUCKET_LABEL, OWN_BUCKET_VALUE, by_each};
use crate::policies::{by_velero, condition, denied_unless, label_of, matched, quoted, variable};

pub(super) const SNAPSHOTS: &str = "croft-own-bucket-deletions";
pub(super) const REQUESTS: &str = "croft-own-bucket-expiry";
pub(super) const FINDINGS: &str = "croft-own-bucket-findings";

pub(super) const NAMES: [&str; 3] = [SNAPSHOTS, REQUESTS, FINDINGS];

pub(super) fn all(velero_namespace: &str) -> [ValidatingAdmissionPolicy; 3] {
    [snapshots(velero_namespace), requests(), findings(velero_namespace)]
}

/// Whether an object has all of these labels.
fn is_labelled(labels: &[(&str, &str)]) -> String {
    let has = |(key, value): &(&str, &str)| format!("{} == {}", label_of("object", key), quoted(value));
    labels.iter().map(has).collect::<Vec<_>>().join(" && ")
}

/// Fence 5.
fn snapshots(velero_namespace: &str) -> ValidatingAdmissionPolicy {
    // By such a one Velero makes a snapshot that an archive names its own, to delete it.
    let of_a_snapshot = "has(object.spec.source.snapshotHandle)";
    by_each(
        "DeleteBackupRequest",
        SNAPSHOTS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("snapshot.storage.k8s.io", &["volumesnapshotcontents"], &["CREATE"], None)),
            match_conditions: Some(vec![condition("by-velero", by_velero(velero_namespace))]),
            validations: Some(vec![denied_unless(
                format!("params.?status.?phase.orValue('') != 'InProgress' || !{of_a_snapshot}"),
                "'Velero takes up no snapshot while it deletes from the bucket of a tenant'".into(),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// Fence 6. An administrator's own request is known by the same labels as the operator's.
fn requests() -> ValidatingAdmissionPolicy {
    let labels = [(MANAGED_BY_LABEL, MANAGED_BY_VALUE), (OWN_BUCKET_LABEL, OWN_BUCKET_VALUE)];
    let wanted = labels.map(|(key, value)| format!("{key}={value}")).join(" and ");
    by_each(
        "Backup",
        REQUESTS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("velero.io", &["deletebackuprequests"], &["CREATE", "UPDATE"], None)),
            // Once, and not for every Backup there is.
            match_conditions: Some(vec![condition("not-labelled", format!("!({})", is_labelled(&labels)))]),
            validations: Some(vec![denied_unless(
                "object.?spec.?backupName.orValue('') != params.metadata.name".into(),
                format!(
                    "'what is in the bucket of a tenant is deleted by the operator, when its time has come, and by requests with the \
                     labels {wanted} only'"
                ),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// Fence 8. Velero copies into the cluster what a bucket says of its backups: whose they are, when they expire, what belongs to
/// them, which schedule made them. That it found them in this location it says itself.
fn findings(velero_namespace: &str) -> ValidatingAdmissionPolicy {
    let labels =
        [(MANAGED_BY_LABEL, MANAGED_BY_VALUE), (OADP_LABEL, OADP_LABEL_VALUE), (OWN_BUCKET_LABEL, OWN_BUCKET_VALUE)];
    let annotation = |object: &str, key: &str| format!("{object}.metadata.?annotations[?{}].orValue('')", quoted(key));
    let is_hers = format!("{} == variables.tenant", annotation("object", NAB_ORIGIN_NAMESPACE_ANNOTATION));
    // Of a long namespace the names of its backups have only the beginning.
    let begins_with_hers = "object.metadata.name.startsWith(size(variables.tenant) > 20 ? variables.tenant.substring(0, 20) : variables.tenant + '-')";
    let is_under_its_name =
        format!("{} == object.metadata.name && {begins_with_hers}", label_of("object", NAB_ORIGIN_NACUUID_LABEL));
    // One that is not finished Velero would carry out, with whatever it asks for, or hold everybody's up behind it.
    let is_finished = "object.?status.?phase.orValue('') in ['Completed', 'PartiallyFailed', 'Failed'] && \
                       object.?status.?completionTimestamp.orValue(null) != null";
    let is_of_her_namespace = "object.?spec.?includedNamespaces.orValue([]) == [variables.tenant]";
    let holds_nothing_up = format!(
        "object.metadata.?finalizers.orValue([]).size() == 0 && object.metadata.?ownerReferences.orValue([]).size() == 0 && \
         {} == ''",
        label_of("object", SCHEDULE_NAME_LABEL)
    );
    by_each(
        "BackupStorageLocation",
        FINDINGS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("velero.io", &["backups", "podvolumebackups"], &["CREATE"], None)),
            match_conditions: Some(vec![condition("by-velero", by_velero(velero_namespace))]),
            variables: Some(vec![
                variable("tenant", annotation("params", NABSL_ORIGIN_NAMESPACE_ANNOTATION)),
                variable("backup", "request.resource.resource == 'backups'".into()),
                variable(
                    "place",
                    "variables.backup ? object.?spec.?storageLocation.orValue('') : \
                     object.?spec.?backupStorageLocation.orValue('')"
                        .into(),
                ),
                variable("concerned", "variables.place == params.metadata.name".into()),
            ]),
            validations: Some(vec![
                denied_unless(
                    format!(
                        "!variables.concerned || !variables.backup || ({} && {is_under_its_name} && {is_hers})",
                        is_labelled(&labels)
                    ),
                    "'the bucket of namespace ' + variables.tenant + ' has no backups but those that were made for it'".into(),
                ),
                denied_unless(
                    format!("!variables.concerned || !variables.backup || ({is_finished} && {is_of_her_namespace})"),
                    "'a backup in the bucket of namespace ' + variables.tenant + ' is finished, and of that namespace'".into(),
                ),
                denied_unless(
                    "!variables.concerned || !variables.backup || params.?spec.?backupSyncPeriod.orValue('') != '0s'".into(),
                    "'the bucket of namespace ' + variables.tenant + ' is not synchronised'".into(),
                ),
                denied_unless(
                    format!("!variables.concerned || !variables.backup || ({holds_nothing_up})"),
                    "'a backup in the bucket of namespace ' + variables.tenant + ' has no finalizers, no owners and no schedule'"
                        .into(),
                ),
                denied_unless(
                    "!variables.concerned || variables.backup || object.?spec.?pod.?namespace.orValue('') == variables.tenant"
                        .into(),
                    "'volumes of pods in namespace ' + variables.tenant + ' only are copied to its bucket'".into(),
                ),
            ]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
