//! What Velero has under the name of a request's, and whether that is proven to be it; see [`croft_core::backup::ownership`].

use std::sync::Arc;

use croft_api::{
    backup::{NonAdminBackup, NonAdminRestore},
    velero::{Backup, Restore},
};
use croft_core::backup::{
    Reference, backup,
    ownership::{Claimant, Lies, Origin},
    restore,
};
use kube::ResourceExt;

use super::{Caches, marks, request};

/// A Velero Backup under the name of a backup's.
pub(super) struct BackupFound {
    pub(super) velero: Arc<Backup>,
    pub(super) lies: Lies,
    pub(super) is_own: bool,
}

/// A Velero Restore under the name of a restore's.
pub(super) struct RestoreFound {
    pub(super) velero: Arc<Restore>,
    pub(super) is_own: bool,
}

/// UID of the Velero object on record.
fn recorded(reference: Option<&Reference>) -> Option<&str> {
    reference.and_then(|reference| reference.uid.as_deref())
}

impl Caches {
    pub(super) fn backup_found(&self, request: &NonAdminBackup, status: &backup::Status) -> Option<BackupFound> {
        let reference = status.velero_backup.as_ref();
        let origin = request::object(self, request, "").origin(reference);
        let names_location = request.spec.backup_spec.storage_location().is_some();
        self.backup_claimed(Claimant { origin: &origin, recorded: recorded(reference), names_location })
    }

    pub(super) fn backup_claimed(&self, claimant: Claimant<'_>) -> Option<BackupFound> {
        let velero = self.velero_backups.get(&self.velero_namespace, &claimant.origin.nacuuid)?;
        let (uid, lies) = (velero.uid().unwrap_or_default(), self.lies(&velero.spec.0.0));
        let is_own = claimant.owns(&uid, &marks::BACKUP.marks(&velero.metadata), Some(&lies));
        Some(BackupFound { velero, lies, is_own })
    }

    pub(super) fn restore_found(&self, request: &NonAdminRestore, status: &restore::Status) -> Option<RestoreFound> {
        let reference = status.velero_restore.as_ref();
        let origin: Origin = request::object(self, request, "").origin(reference);
        let velero = self.velero_restores.get(&self.velero_namespace, &origin.nacuuid)?;
        let claimant = Claimant { origin: &origin, recorded: recorded(reference), names_location: false };
        let uid = velero.uid().unwrap_or_default();
        let is_own = claimant.owns(&uid, &marks::RESTORE.marks(&velero.metadata), None);
        Some(RestoreFound { velero, is_own })
    }
}
