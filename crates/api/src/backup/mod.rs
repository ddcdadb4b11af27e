//! Backups and restores for tenants: `oadp.openshift.io/v1alpha1`, and of our own `croft.dev/v1alpha1`.
//!
//! Specs and statuses of Velero appear inside these kinds as they are, in the types of [`crate::velero`].

mod data_protection;
mod download;
mod location;
mod location_request;
mod names;
mod non_admin_backup;
mod non_admin_restore;
mod schedule;
mod status;
pub mod validate;
mod vault;

pub use data_protection::{DataProtectionApplication, DataProtectionApplicationSpec};
pub use download::{
    DownloadTarget, DownloadTargetKind, NonAdminDownloadRequest, NonAdminDownloadRequestSpec,
    NonAdminDownloadRequestStatus, VeleroDownload,
};
pub use location::{
    NonAdminBackupStorageLocation, NonAdminBackupStorageLocationSpec, NonAdminBackupStorageLocationStatus, SecretCopy,
    VeleroLocationReference,
};
pub use location_request::{
    ApprovalDecision, NonAdminBackupStorageLocationRequest, NonAdminBackupStorageLocationRequestSpec,
    NonAdminBackupStorageLocationRequestStatus, RequestPhase, RequestedLocation,
};
pub use names::*;
pub use non_admin_backup::{
    NonAdminBackup, NonAdminBackupSpec, NonAdminBackupStatus, VeleroBackupReference, VeleroDeletionReference,
};
pub use non_admin_restore::{NonAdminRestore, NonAdminRestoreSpec, NonAdminRestoreStatus, VeleroRestoreReference};
pub use schedule::{BackupSchedule, BackupScheduleSpec, BackupScheduleStatus, BackupTemplate, KeptBackups};
pub use status::{DataMoverCounts, FileSystemCounts, NonAdminPhase, QueueInfo};
pub use vault::{BackupVault, BackupVaultSpec, BackupVaultStatus, LastBackup, VaultOnDelete, VaultQuota};
