//! Labels, annotations and finalizers of the backup part.

/// On every Velero object we make.
pub const OADP_LABEL: &str = "openshift.io/oadp";
pub const OADP_LABEL_VALUE: &str = "True";
/// On every Velero object we make.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
pub const MANAGED_BY_VALUE: &str = "oadp-nac-controller";

/// On a Velero Backup and its DeleteBackupRequest: the name we chose for the Backup.
pub const NAB_ORIGIN_NACUUID_LABEL: &str = "openshift.io/oadp-nab-origin-nacuuid";
/// On a Velero Restore: the name we chose for it.
pub const NAR_ORIGIN_NACUUID_LABEL: &str = "openshift.io/oadp-nar-origin-nacuuid";
/// On a Velero BackupStorageLocation, its Secret and its approval request: the name we chose for them.
pub const NABSL_ORIGIN_NACUUID_LABEL: &str = "openshift.io/oadp-nabsl-origin-nacuuid";
/// On a Velero DownloadRequest: UID of the NonAdminDownloadRequest.
pub const NADR_ORIGIN_NACUUID_LABEL: &str = "openshift.io/oadp-nadr-origin-nacuuid";
/// On a NonAdminBackup that was made from a Velero Backup: the name of that Backup.
pub const NAB_SYNCED_FROM_NACUUID_LABEL: &str = "openshift.io/oadp-nab-synced-from-nacuuid";

/// On Velero objects: whose they are.
pub const NAB_ORIGIN_NAMESPACE_ANNOTATION: &str = "openshift.io/oadp-nab-origin-namespace";
pub const NAB_ORIGIN_NAME_ANNOTATION: &str = "openshift.io/oadp-nab-origin-name";
pub const NAR_ORIGIN_NAMESPACE_ANNOTATION: &str = "openshift.io/oadp-nar-origin-namespace";
pub const NAR_ORIGIN_NAME_ANNOTATION: &str = "openshift.io/oadp-nar-origin-name";
pub const NABSL_ORIGIN_NAMESPACE_ANNOTATION: &str = "openshift.io/oadp-nabsl-origin-namespace";
pub const NABSL_ORIGIN_NAME_ANNOTATION: &str = "openshift.io/oadp-nabsl-origin-name";
pub const NADR_ORIGIN_NAMESPACE_ANNOTATION: &str = "openshift.io/oadp-nadr-origin-namespace";
pub const NADR_ORIGIN_NAME_ANNOTATION: &str = "openshift.io/oadp-nadr-origin-name";

/// On a Velero BackupStorageLocation, at creation: whether it can serve an image registry.
pub const REGISTRY_LABEL: &str = "openshift.io/oadp-registry";
pub const REGISTRY_LABEL_TRUE: &str = "True";
pub const REGISTRY_LABEL_FALSE: &str = "False";

pub const NAB_FINALIZER: &str = "nonadminbackup.oadp.openshift.io/finalizer";
pub const NAR_FINALIZER: &str = "nonadminrestore.oadp.openshift.io/finalizer";
/// On the Secret of a vault in Velero's namespace: its name, and whose it is.
pub const VAULT_NACUUID_LABEL: &str = "croft.dev/vault-nacuuid";
pub const VAULT_NAMESPACE_ANNOTATION: &str = "croft.dev/vault-namespace";
pub const VAULT_NAME_ANNOTATION: &str = "croft.dev/vault-name";

/// On a NonAdminBackup that a BackupSchedule made: UID of the schedule, and the time it was made for.
pub const SCHEDULE_UID_LABEL: &str = "croft.dev/schedule-uid";
pub const SCHEDULED_AT_ANNOTATION: &str = "croft.dev/scheduled-at";

/// What such annotations begin with.
pub const LET_GO_ANNOTATIONS: &str = "let-go.croft.dev/";

/// On a NonAdminBackupStorageLocation: this backup in it was deleted by force, and when. What Velero finds of it is not given back.
pub fn let_go_annotation(nacuuid: &str) -> String {
    format!("{LET_GO_ANNOTATIONS}{nacuuid}")
}

/// The backup such an annotation is about.
pub fn let_go_of(annotation: &str) -> Option<&str> {
    annotation.strip_prefix(LET_GO_ANNOTATIONS)
}

/// On a NonAdminBackupStorageLocationRequest that is pending because the spec has changed since it was approved.
pub const AWAITS_CHANGE_ANNOTATION: &str = "croft.dev/awaits-change";

/// On a NonAdminBackupStorageLocationRequest: what who approves it trusts.
pub const APPROVING_MEANS_ANNOTATION: &str = "croft.dev/approving-means";

/// On a BackupVault, until what it has in Ceph is looked after.
pub const VAULT_FINALIZER: &str = "croft.dev/backupvault";
pub const NABSL_FINALIZER: &str = "nonadminbackupstoragelocation.oadp.openshift.io/finalizer";
