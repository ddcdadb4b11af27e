//! The part of Velero's API that Croft drives: `velero.io/v1`, and the data movers of `velero.io/v2alpha1`.
//!
//! Specs and statuses are open objects, so that a newer Velero loses nothing by passing through us, and phases are text,
//! so that a new phase is no error. No Velero kind has a status subresource: writers update the object itself.

mod kinds;
mod names;
mod specs;
mod statuses;

pub use kinds::{
    Backup, BackupStorageLocation, DataDownload, DataUpload, DeleteBackupRequest, DownloadRequest, PodVolumeBackup,
    PodVolumeRestore, Restore, VolumeSnapshotLocation,
};
pub use names::*;
pub use specs::{
    BackupSpec, BackupStorageLocationSpec, CredentialKey, DeleteBackupRequestSpec, DownloadRequestSpec, RestoreSpec,
    WorkSpec,
};
pub use statuses::{
    BackupStatus, BackupStorageLocationStatus, DeleteBackupRequestStatus, DownloadRequestStatus, RestoreStatus,
    WorkStatus,
};
