//! The checks of [`croft_core::backup::validate`], on the kinds themselves.

use croft_core::backup::validate::{self, LocationSpec, Refusal};
use kube::ResourceExt;

use super::NonAdminBackupStorageLocation;

pub fn location(object: &NonAdminBackupStorageLocation) -> Result<LocationSpec, Refusal> {
    let namespace = object.namespace().unwrap_or_default();
    validate::location(&object.spec.backup_storage_location_spec.0.0, &namespace)
}
