//! Who waits for what: for Velero, for a location, for a backup.

use std::sync::Arc;

use croft_api::{
    Condition,
    backup::NonAdminBackup,
    velero::{Backup, Restore},
};
use croft_core::backup::Progress;
use kube::ResourceExt;

use super::{BACKUP, BACKUPS_IN_LOCATION, Caches, RESTORE, key, marks};
use crate::engine::Key;

/// Index: Velero Restores nobody asked us for that are not done yet.
const OF_THE_ADMINISTRATOR: &str = "of-the-administrator";
/// The one value of an index that only tells whether.
const IT_IS: &str = "";

/// Velero has had it.
pub(super) fn was_queued(conditions: Option<&Vec<Condition>>) -> bool {
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Queued" && condition.status == "True")
}

/// It is deleted, or its time has come, and it says so.
fn is_to_go(backup: &NonAdminBackup) -> bool {
    let mut told = backup.status.iter().flat_map(|status| &status.conditions);
    told.any(|condition| matches!(condition.type_.as_str(), "Deleting" | "Expired"))
}

pub(super) fn is_unfinished_and_not_ours(restore: &Restore) -> bool {
    let finished = restore.status.as_ref().is_some_and(|status| Progress(&status.0.0).is_finished());
    !finished && !marks::RESTORE.marks(&restore.metadata).managed
}

fn is_unqueued(backup: &NonAdminBackup) -> bool {
    !was_queued(backup.status.as_ref().map(|status| &status.conditions))
}

impl Caches {
    pub(super) fn index_waiting(&self) {
        self.velero_restores.index(OF_THE_ADMINISTRATOR, |restore: &Restore| {
            is_unfinished_and_not_ours(restore).then(|| IT_IS.to_owned()).into_iter().collect()
        });
    }

    /// Backups of a namespace that Velero has not had.
    pub(super) fn unqueued_backups(&self, namespace: &str) -> Vec<Arc<NonAdminBackup>> {
        let mut backups = self.backups.in_namespace(namespace);
        backups.retain(|backup| is_unqueued(backup));
        backups
    }

    /// Backups of a namespace that wait for the location of that name: to be made, or to be deleted.
    pub(super) fn waiting_backups(&self, namespace: &str, location: &str) -> Vec<Key> {
        let home = self.home_of(namespace);
        let backups = self.backups.in_namespace(namespace).into_iter();
        backups
            .filter(|backup| is_unqueued(backup) || is_to_go(backup))
            .filter(|backup| self.place_of(backup, &home).is_at(location))
            .map(|backup| key(BACKUP, &*backup))
            .collect()
    }

    /// Backups that name no location and wait: to be made, or to be deleted.
    pub(super) fn placeless_backups(&self) -> Vec<Key> {
        let backups = self.backups.all().into_iter();
        backups
            .filter(|backup| backup.spec.backup_spec.storage_location().is_none())
            .filter(|backup| is_unqueued(backup) || is_to_go(backup))
            .map(|backup| key(BACKUP, &*backup))
            .collect()
    }

    /// Backups that wait for Velero to store them in its location of that name.
    pub(super) fn queued_in(&self, velero_location: &str) -> Vec<Key> {
        let is_waiting =
            |backup: &Backup| backup.status.as_ref().is_none_or(|status| Progress(&status.0.0).is_waiting());
        let backups = self.velero_backups.by(BACKUPS_IN_LOCATION, velero_location);
        let waiting = backups.iter().filter(|backup| is_waiting(backup));
        waiting.filter_map(|backup| marks::BACKUP.request(BACKUP, &backup.metadata)).collect()
    }

    /// Backups that are not deleted although they should be.
    pub(super) fn withheld_backups(&self) -> Vec<Key> {
        let backups = self.backups.all().into_iter();
        backups.filter(|backup| is_to_go(backup)).map(|backup| key(BACKUP, &*backup)).collect()
    }

    /// Restores of a namespace that wait: for the backup of that name, or for any.
    pub(super) fn waiting_restores(&self, namespace: &str, backup: Option<&str>) -> Vec<Key> {
        let restores = self.restores.in_namespace(namespace).into_iter();
        restores
            .filter(|restore| backup.is_none() || restore.spec.restore_spec.backup_name() == backup)
            .filter(|restore| !was_queued(restore.status.as_ref().map(|status| &status.conditions)))
            .map(|restore| key(RESTORE, &*restore))
            .collect()
    }

    /// All restores that Velero has not had.
    pub(super) fn all_waiting_restores(&self) -> Vec<Key> {
        let restores = self.restores.all().into_iter();
        restores
            .filter(|restore| !was_queued(restore.status.as_ref().map(|status| &status.conditions)))
            .map(|restore| key(RESTORE, &*restore))
            .collect()
    }

    /// A Velero Restore nobody asked us for that is not done yet.
    pub(super) fn restore_of_the_administrator(&self) -> Option<String> {
        self.velero_restores.by(OF_THE_ADMINISTRATOR, IT_IS).first().map(|restore| restore.name_any())
    }
}
