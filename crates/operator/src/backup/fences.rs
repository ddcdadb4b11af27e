//! The fences around Velero's account: admission policies the API server evaluates itself, so they stand while the operator is
//! down. What Velero restores for a tenant comes out of a bucket, and Velero has all rights: here the API server judges each
//! object by the tenant's Restore, not by what the archive says.
//!
//! 1. What a tenant's Restore makes carries its name: it goes into the tenant's namespace, is of a kind the Restore lists, and
//!    brings no status and no note of fence 3.
//! 2. What Velero makes without a name on it (Namespaces, volumes of the cluster, accounts it merges into) it does not make while
//!    a tenant's Restore is in progress; accounts of hers it merges into get no note of fence 3 from it.
//! 3. Notes by which an object tells Velero to pass its own filters by stay off the objects of tenants.
//! 4. The location of a vault is written by the operator alone. What counts is the object as it is stored, controlled by a vault: a
//!    copy of one (a restored backup, say) locks nobody out.
//!
//! 5. While Velero deletes a backup from a tenant's own bucket it takes up no snapshot of a volume: whose they are the bucket says.
//! 6. A backup in a tenant's own bucket is deleted by requests that fence 5 knows, whoever makes them. Velero makes none by itself: the
//!    operator does when the backup's time has come.
//! 7. Annotations of pods make Velero run nothing for long, and where the administrator says so nothing at all.
//! 8. What Velero finds in a tenant's own bucket it takes in as a backup of hers that fence 6 knows, or not at all.
//!
//! Guarantees: every expression is total; an administrator's own restores and backups never come near fences 1 and 2; where
//! Velero's kinds are gone, so are its restores, and nobody is held up.

mod hooks;
mod own_buckets;

use croft_api::{
    backup::{MANAGED_BY_LABEL, MANAGED_BY_VALUE},
    velero::RESTORE_NAME_LABEL,
};
use croft_core::backup::BYPASS_ANNOTATIONS;
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchResources, NamedRuleWithOperations, ParamKind, ParamRef, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicySpec,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

use crate::policies::{
    self, Fence, by_velero, condition, denied_unless, label_of, matched, plain, policy, quoted, trusted, variable,
};

pub(super) const RESTORED: &str = "croft-restored-objects";
pub(super) const UNMARKED: &str = "croft-restores-in-progress";
pub(super) const BYPASSES: &str = "croft-velero-bypasses";
pub(super) const VAULT_LOCATIONS: &str = "croft-vault-locations";

/// On the location of a bucket of a tenant's own, on a Velero Backup in it, and on the request to delete that.
pub(super) const OWN_BUCKET_LABEL: &str = "croft.dev/own-bucket";
pub(super) const OWN_BUCKET_VALUE: &str = "true";

/// On a tenant's Velero Restore until Velero is done with it: by it the API server finds those that count.
pub(super) const UNFINISHED_LABEL: &str = "croft.dev/unfinished";
pub(super) const UNFINISHED_VALUE: &str = "true";

/// Those that judge nobody but Velero, for what it does in the name of a tenant.
pub(crate) const GUARDS: [&str; 5] =
    [RESTORED, UNMARKED, own_buckets::SNAPSHOTS, own_buckets::REQUESTS, own_buckets::FINDINGS];

/// Without all of these no tenant's Restore is made.
pub(super) fn around_restores(velero_namespace: &str) -> [Fence; 2] {
    let unfinished = (UNFINISHED_LABEL, UNFINISHED_VALUE);
    [restored(velero_namespace), unmarked(velero_namespace)].map(|policy| bound(policy, velero_namespace, unfinished))
}

/// Without all of these nothing is deleted from a tenant's own bucket, and nothing found in one.
pub(super) fn around_own_buckets(velero_namespace: &str) -> [Fence; 3] {
    let own = (OWN_BUCKET_LABEL, OWN_BUCKET_VALUE);
    own_buckets::all(velero_namespace).map(|policy| bound(policy, velero_namespace, own))
}

/// Whether somebody may wait for a policy of this name. There are others in a cluster.
pub(super) fn is_waited_for(policy: &str) -> bool {
    [RESTORED, UNMARKED, hooks::HOOKS].contains(&policy) || is_around_own_buckets(policy)
}

/// Whether a policy of this name is one of these.
pub(super) fn is_around_own_buckets(policy: &str) -> bool {
    own_buckets::NAMES.contains(&policy)
}

/// In force with those of our objects beside Velero that carry the label.
fn bound(policy: ValidatingAdmissionPolicy, velero_namespace: &str, label: (&str, &str)) -> Fence {
    let mut binding = policies::in_force(&policy);
    if let Some(spec) = &mut binding.spec {
        spec.param_ref = Some(labelled(velero_namespace, label));
    }
    (policy, binding)
}

/// Without this no backup of a tenant is made where hooks are not allowed.
pub(super) fn around_hooks(velero_namespace: &str, are_allowed: bool) -> Fence {
    plain(hooks::hooks(velero_namespace, are_allowed))
}

/// Everything of this part.
pub(super) fn all(velero_namespace: &str, operator: &str, hooks_are_allowed: bool) -> Vec<Fence> {
    let others = [bypasses(velero_namespace), vault_locations(operator)].map(plain);
    let around = around_restores(velero_namespace).into_iter().chain(around_own_buckets(velero_namespace));
    around.chain(others).chain([around_hooks(velero_namespace, hooks_are_allowed)]).collect()
}

fn labelled(velero_namespace: &str, label: (&str, &str)) -> ParamRef {
    let labels = [(MANAGED_BY_LABEL, MANAGED_BY_VALUE), label];
    ParamRef {
        name: None,
        namespace: Some(velero_namespace.to_owned()),
        parameter_not_found_action: Some("Allow".into()),
        selector: Some(LabelSelector {
            match_labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
            ..LabelSelector::default()
        }),
    }
}

/// A policy that is judged once for every unfinished Restore of a tenant.
fn by_restore(name: &str, spec: ValidatingAdmissionPolicySpec) -> ValidatingAdmissionPolicy {
    by_each("Restore", name, spec)
}

/// A policy that is judged once for every object of one of Velero's kinds that its binding selects. Where that kind does not exist,
/// there are none: a policy that failed then would hold up the whole cluster.
fn by_each(kind: &str, name: &str, spec: ValidatingAdmissionPolicySpec) -> ValidatingAdmissionPolicy {
    let mut policy = policy(name, spec);
    if let Some(spec) = &mut policy.spec {
        spec.failure_policy = Some("Ignore".into());
        spec.param_kind = Some(ParamKind { api_version: Some("velero.io/v1".into()), kind: Some(kind.into()) });
    }
    policy
}

/// Somebody else than Velero and the administrators of last resort.
fn by_others(velero_namespace: &str) -> String {
    let masters = "request.userInfo.?groups.orValue([]).exists(group, group == 'system:masters')";
    format!("!(({}) || {masters})", by_velero(velero_namespace))
}

/// Fence 1. What Velero's own helpers are called is not for the archive to choose.
fn restored(velero_namespace: &str) -> ValidatingAdmissionPolicy {
    let marked = LabelSelector {
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: RESTORE_NAME_LABEL.to_owned(),
            operator: "Exists".into(),
            values: None,
        }]),
        ..LabelSelector::default()
    };
    let kind = "request.resource.group == '' ? request.resource.resource : \
                request.resource.resource + '.' + request.resource.group";
    let helpers =
        "request.resource.group == 'velero.io' && request.resource.resource in ['podvolumerestores', 'datadownloads']";
    let subject = "'Velero restores for the tenant of ' + variables.tenant + ': '";
    by_restore(
        RESTORED,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(MatchResources {
                resource_rules: Some(vec![rule("*", &["*/*"])]),
                object_selector: Some(marked),
                ..matched("*", &["*/*"], &["CREATE", "UPDATE"], None)
            }),
            match_conditions: Some(vec![condition("by-velero", by_velero(velero_namespace))]),
            variables: Some(vec![
                variable(
                    "concerned",
                    format!("{} == params.metadata.name", label_of("object", RESTORE_NAME_LABEL)),
                ),
                variable("tenant", "params.?spec.?includedNamespaces[?0].orValue('')".into()),
                variable("place", "request.?namespace.orValue('')".into()),
                variable(
                    "helper",
                    format!("variables.place == {} && {helpers}", quoted(velero_namespace)),
                ),
                variable("kind", kind.into()),
            ]),
            validations: Some(vec![
                denied_unless(
                    "!variables.concerned || variables.helper || (variables.tenant != '' && variables.place == variables.tenant)"
                        .into(),
                    format!(
                        "{subject} + variables.kind + ' ' + (variables.place == '' ? 'of the cluster' : 'in namespace ' + \
                         variables.place) + ' is not hers'"
                    ),
                ),
                denied_unless(
                    "!variables.concerned || variables.helper || \
                     variables.kind in params.?spec.?includedResources.orValue([])"
                        .into(),
                    format!("{subject} + 'kind ' + variables.kind + ' is not restored for tenants'"),
                ),
                denied_unless(
                    "!variables.concerned || variables.helper || request.?subResource.orValue('') == ''".into(),
                    format!("{subject} + '/' + request.?subResource.orValue('') + ' is not restored for tenants'"),
                ),
                denied_unless(
                    format!("!variables.concerned || variables.helper || !{}", brings_a_bypass()),
                    format!("{subject} + 'annotations {} are not restored for tenants'", BYPASS_ANNOTATIONS.join(", ")),
                ),
                denied_unless(
                    format!("!variables.concerned || variables.kind != 'pods' || !{}", hooks::brings_a_lasting()),
                    format!("{subject} + '{}'", hooks::TOO_LONG),
                ),
            ]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// Fence 2. One restore is in progress at a time; what follows it (`Finalizing`) overlaps the next and changes volumes only.
fn unmarked(velero_namespace: &str) -> ValidatingAdmissionPolicy {
    let in_progress = "params.?status.?phase.orValue('') == 'InProgress'";
    let unfinished = "params.?status.?phase.orValue('') in ['InProgress', 'Finalizing', 'FinalizingPartiallyFailed']";
    let tenant = "params.?spec.?includedNamespaces[?0].orValue('')";
    by_restore(
        UNMARKED,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(MatchResources {
                resource_rules: Some(vec![
                    rule("", &["namespaces", "persistentvolumes", "serviceaccounts"]),
                    rule("snapshot.storage.k8s.io", &["volumesnapshotcontents"]),
                ]),
                ..matched("", &["namespaces"], &["CREATE", "UPDATE"], None)
            }),
            match_conditions: Some(vec![condition("by-velero", by_velero(velero_namespace))]),
            variables: Some(vec![
                variable("resource", "request.resource.resource".into()),
                variable("creates", "request.operation == 'CREATE'".into()),
            ]),
            validations: Some(vec![
                denied_unless(
                    format!("variables.resource != 'namespaces' || !({in_progress})"),
                    "'Velero changes no Namespace while it restores for a tenant'".into(),
                ),
                denied_unless(
                    format!(
                        "variables.resource != 'persistentvolumes' || !(variables.creates ? {in_progress} : {unfinished})"
                    ),
                    "'Velero changes no PersistentVolume while it restores for a tenant'".into(),
                ),
                denied_unless(
                    format!("variables.resource != 'volumesnapshotcontents' || !variables.creates || !({in_progress})"),
                    "'Velero makes no VolumeSnapshotContent while it restores for a tenant'".into(),
                ),
                denied_unless(
                    format!(
                        "variables.resource != 'serviceaccounts' || !({in_progress}) || \
                         request.?namespace.orValue('') in [{tenant}, {}]",
                        quoted(velero_namespace)
                    ),
                    "'Velero changes no ServiceAccount elsewhere while it restores for a tenant'".into(),
                ),
                denied_unless(
                    format!(
                        "variables.resource != 'serviceaccounts' || !({in_progress}) || \
                         request.?namespace.orValue('') != {tenant} || !{}",
                        brings_a_bypass()
                    ),
                    format!(
                        "'Velero merges no annotations {} into a ServiceAccount while it restores for a tenant'",
                        BYPASS_ANNOTATIONS.join(", ")
                    ),
                ),
            ]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

fn rule(group: &str, resources: &[&str]) -> NamedRuleWithOperations {
    let constraints = matched(group, resources, &["CREATE", "UPDATE"], None);
    constraints.resource_rules.unwrap_or_default().pop().unwrap_or_default()
}

/// Whether an object gets this annotation, or another value of it. What it costs to find out does not grow with the annotations: an
/// archive may have as many as it likes.
fn brings(annotation: &str) -> String {
    let of = |object: &str| format!("{object}.metadata.?annotations[?{}]", quoted(annotation));
    let (before, after) = (of("oldObject"), of("object"));
    format!("({after}.hasValue() && (oldObject == null || {before} != {after}))")
}

/// Whether an object gets a note of fence 3.
fn brings_a_bypass() -> String {
    format!("({})", BYPASS_ANNOTATIONS.map(brings).join(" || "))
}

/// Fence 3. Velero itself and the administrators of last resort may bring such notes back. What is written of an object by way of
/// a subresource may be its annotations, too.
fn bypasses(velero_namespace: &str) -> ValidatingAdmissionPolicy {
    policy(
        BYPASSES,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(MatchResources {
                resource_rules: Some(vec![NamedRuleWithOperations {
                    scope: Some("Namespaced".into()),
                    ..rule("*", &["*/*"])
                }]),
                ..matched("*", &["*/*"], &["CREATE", "UPDATE"], None)
            }),
            match_conditions: Some(vec![
                condition("brings-a-note", format!("object != null && has(object.metadata) && {}", brings_a_bypass())),
                condition("by-others", by_others(velero_namespace)),
            ]),
            validations: Some(vec![denied_unless(
                "false".into(),
                format!("'annotations {} are the administrator\\'s to set'", BYPASS_ANNOTATIONS.join(", ")),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// Fence 4.
fn vault_locations(operator: &str) -> ValidatingAdmissionPolicy {
    let of_a_vault = "oldObject != null && oldObject.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'BackupVault' \
                      && owner.apiVersion.startsWith('croft.dev/') && owner.?controller.orValue(false))";
    policy(
        VAULT_LOCATIONS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched(
                "oadp.openshift.io",
                &["nonadminbackupstoragelocations"],
                &["UPDATE", "DELETE"],
                None,
            )),
            match_conditions: Some(vec![condition("of-a-vault", of_a_vault.to_owned())]),
            validations: Some(vec![denied_unless(
                trusted(operator),
                "'this location belongs to BackupVault ' + oldObject.metadata.name + ' and is written by the operator only: \
                 change or delete the vault'"
                    .to_owned(),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
