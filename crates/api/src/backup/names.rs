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
pub const NABSL_FINALIZER: &str = "nonadminbackupstoragelocation.oadp.openshift.io/finalizer";
