//! Who comes before whom in a namespace, where only so many may at a time; see [`croft_core::backup::turn`].

use std::sync::Arc;

use croft_api::{
    Condition,
    backup::{
        BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminPhase, NonAdminRestore,
    },
};
use croft_core::backup::{
    Fields, Phase, Progress,
    turn::{self, Said, Turn},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{BACKUP, Caches, LOCATION, RESTORE, SCHEDULE, VAULT, key, waiting::was_queued};
use crate::{
    conditions,
    engine::{Cache, Change, Key, Work, is_deleting},
    settings::SharedSettings,
};

fn phase(phase: NonAdminPhase) -> Phase {
    match phase {
        NonAdminPhase::New => Phase::New,
        NonAdminPhase::BackingOff => Phase::BackingOff,
        NonAdminPhase::Created => Phase::Created,
        NonAdminPhase::Deleting => Phase::Deleting,
    }
}

fn is_accepted(conditions: Option<&Vec<Condition>>) -> bool {
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Accepted" && condition.status == "True")
}

/// A request that Velero works on.
trait Limited: ResourceExt {
    fn phase(&self) -> Option<NonAdminPhase>;
    fn conditions(&self) -> Option<&Vec<Condition>>;
    /// What Velero says of it.
    fn told(&self) -> Option<&Fields>;

    fn turn(&self) -> Turn {
        Turn::of(Said {
            phase: self.phase().map(phase),
            is_deleting: is_deleting(self.meta()),
            is_accepted: is_accepted(self.conditions()),
            was_queued: was_queued(self.conditions()),
            is_finished: self.told().is_some_and(|status| Progress(status).is_finished()),
        })
    }
}

impl Limited for NonAdminBackup {
    fn phase(&self) -> Option<NonAdminPhase> {
        self.status.as_ref()?.phase
    }

    fn conditions(&self) -> Option<&Vec<Condition>> {
        Some(&self.status.as_ref()?.conditions)
    }

    fn told(&self) -> Option<&Fields> {
        Some(&self.status.as_ref()?.velero_backup.as_ref()?.status.as_ref()?.0.0)
    }
}

impl Limited for NonAdminRestore {
    fn phase(&self) -> Option<NonAdminPhase> {
        self.status.as_ref()?.phase
    }

    fn conditions(&self) -> Option<&Vec<Condition>> {
        Some(&self.status.as_ref()?.conditions)
    }

    fn told(&self) -> Option<&Fields> {
        Some(&self.status.as_ref()?.velero_restore.as_ref()?.status.as_ref()?.0.0)
    }
}

/// The order of coming; of those that came in one second, by name.
fn came(object: &impl ResourceExt) -> (Option<Time>, String) {
    (object.creation_timestamp(), object.name_any())
}

/// How many of its namespace count before `own`; see [`turn::ahead`].
fn ahead<K: Limited>(own: &K, all: &[Arc<K>], limit: u64) -> u64 {
    if limit == 0 || own.turn() != Turn::Waiting {
        return 0;
    }
    let others = all.iter().filter(|other| other.uid() != own.uid());
    turn::ahead(&came(own), others.map(|other| (other.turn(), came(&**other))), limit)
}

/// How many came before `own`.
fn earlier<'a, K: ResourceExt + 'a>(own: &K, all: impl Iterator<Item = &'a Arc<K>>) -> u64 {
    all.filter(|other| !is_deleting(other.meta()) && came(&***other) < came(own)).count() as u64
}

fn is_held_back(conditions: Option<&Vec<Condition>>, kind: &str) -> bool {
    conditions.is_some_and(|told| conditions::from_api(told).reason(kind) == Some("LimitReached"))
}

/// It waits for others of its namespace to go.
pub(super) fn is_location_held_back(location: &NonAdminBackupStorageLocation) -> bool {
    is_held_back(location.status.as_ref().map(|status| &status.conditions), "Accepted")
}

/// Those of a namespace whose turn has come, where the change has made room.
fn next_in_line<K: Limited>(work: Work, change: Change<'_, K>, cache: &Cache<K>, limit: u64) -> Vec<Key> {
    if !Turn::is_freed(change.before.map(K::turn), change.after.map(K::turn)) {
        return Vec::new();
    }
    let namespace = change.object().namespace().unwrap_or_default();
    let all = cache.in_namespace(&namespace);
    let next = turn::whose_turn(all.iter().map(|one| (one.turn(), came(&**one))), limit);
    next.into_iter().map(|(_, name)| Key::new(work, namespace.clone(), name)).collect()
}

impl Caches {
    pub(super) fn backups_ahead(&self, own: &NonAdminBackup, limit: u64) -> u64 {
        ahead(own, &self.backups.in_namespace(&own.namespace().unwrap_or_default()), limit)
    }

    pub(super) fn restores_ahead(&self, own: &NonAdminRestore, limit: u64) -> u64 {
        ahead(own, &self.restores.in_namespace(&own.namespace().unwrap_or_default()), limit)
    }

    pub(super) fn locations_ahead(&self, own: &NonAdminBackupStorageLocation) -> u64 {
        let all = self.locations.in_namespace(&own.namespace().unwrap_or_default());
        earlier(own, all.iter().filter(|other| self.vault_of(other).is_none()))
    }

    pub(super) fn schedules_ahead(&self, own: &BackupSchedule) -> u64 {
        earlier(own, self.schedules.in_namespace(&own.namespace().unwrap_or_default()).iter())
    }

    pub(super) fn vaults_ahead(&self, own: &BackupVault) -> u64 {
        earlier(own, self.vaults.in_namespace(&own.namespace().unwrap_or_default()).iter())
    }

    /// Whoever leaves makes room for those who wait.
    pub(super) fn wake_held_back(&self, settings: &SharedSettings) {
        let (seen, shared) = (self.clone(), settings.clone());
        self.backups.wakes(move |change: Change<'_, NonAdminBackup>| {
            next_in_line(BACKUP, change, &seen.backups, shared.load().backup.limits.unfinished_backups)
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.restores.wakes(move |change: Change<'_, NonAdminRestore>| {
            next_in_line(RESTORE, change, &seen.restores, shared.load().backup.limits.unfinished_restores)
        });
        let seen = self.clone();
        self.locations.wakes(move |change: Change<'_, NonAdminBackupStorageLocation>| {
            if change.after.is_some_and(|after| !is_deleting(&after.metadata)) {
                return Vec::new();
            }
            let all = seen.locations.in_namespace(&change.object().namespace().unwrap_or_default());
            all.iter()
                .filter(|location| is_location_held_back(location))
                .map(|location| key(LOCATION, &**location))
                .collect()
        });
        let seen = self.clone();
        self.vaults.wakes(move |change: Change<'_, BackupVault>| {
            if change.after.is_some_and(|after| !is_deleting(&after.metadata)) {
                return Vec::new();
            }
            let all = seen.vaults.in_namespace(&change.object().namespace().unwrap_or_default());
            let waits =
                |vault: &BackupVault| is_held_back(vault.status.as_ref().map(|status| &status.conditions), "Ready");
            all.iter().filter(|vault| waits(vault)).map(|vault| key(VAULT, &**vault)).collect()
        });
        let seen = self.clone();
        self.schedules.wakes(move |change: Change<'_, BackupSchedule>| {
            if change.after.is_some_and(|after| !is_deleting(&after.metadata)) {
                return Vec::new();
            }
            let all = seen.schedules.in_namespace(&change.object().namespace().unwrap_or_default());
            let waits = |schedule: &BackupSchedule| {
                is_held_back(schedule.status.as_ref().map(|status| &status.conditions), "Ready")
            };
            all.iter().filter(|schedule| waits(schedule)).map(|schedule| key(SCHEDULE, &**schedule)).collect()
        });
    }
}
