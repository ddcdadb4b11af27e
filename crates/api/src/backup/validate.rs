//! The checks of [`croft_core::backup::validate`], on the kinds themselves.

use croft_core::backup::{
    Policy,
    validate::{self, BackupSpec, Invalid, LocationSpec, RestoreSpec},
};
use kube::ResourceExt;

use super::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore};

pub fn backup(object: &NonAdminBackup, policy: &Policy) -> Result<BackupSpec, Invalid> {
    validate::backup(&object.spec.backup_spec.0.0, &object.namespace().unwrap_or_default(), policy)
}

pub fn restore(object: &NonAdminRestore, policy: &Policy) -> Result<RestoreSpec, Invalid> {
    validate::restore(&object.spec.restore_spec.0.0, &object.namespace().unwrap_or_default(), policy)
}

pub fn location(object: &NonAdminBackupStorageLocation, policy: &Policy) -> Result<LocationSpec, Invalid> {
    let namespace = object.namespace().unwrap_or_default();
    validate::location(&object.spec.backup_storage_location_spec.0.0, &namespace, policy)
}
