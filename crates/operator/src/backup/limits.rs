//! Who comes before whom in a namespace, where only so many may at a time; see [`croft_core::backup::Limits`].

use std::sync::Arc;

use croft_api::{
    Condition,
    backup::{BackupSchedule, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminPhase, NonAdminRestore},
};
use croft_core::backup::{Fields, Progress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{BACKUP, Caches, LOCATION, RESTORE, SCHEDULE, key, was_queued};
use crate::{
    conditions,
    engine::{Change, Key, Work, is_deleting},
};

/// How a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Velero has it and is not done with it.
    Running,
    /// It waits to be handed over.
    Waiting,
    /// It is done, refused, or goes.
    Over,
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
        let is_finished = self.told().is_some_and(|status| Progress(status).is_finished());
        // Velero has it no more.
        let is_lost = self.phase() == Some(NonAdminPhase::Created) && !is_accepted(self.conditions());
        match self.phase() {
            _ if is_deleting(self.meta()) || is_finished || is_lost => Turn::Over,
            Some(NonAdminPhase::BackingOff | NonAdminPhase::Deleting) => Turn::Over,
            _ if was_queued(self.conditions()) => Turn::Running,
            _ => Turn::Waiting,
        }
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

/// How many of its namespace count before `own`, which waits: those at work, and those that wait longer.
fn ahead<K: Limited>(own: &K, all: &[Arc<K>]) -> u64 {
    if own.turn() != Turn::Waiting {
        return 0;
    }
    let counts = |other: &Arc<K>| match other.turn() {
        Turn::Running => true,
        Turn::Waiting => came(&**other) < came(own),
        Turn::Over => false,
    };
    all.iter().filter(|other| other.uid() != own.uid() && counts(other)).count() as u64
}

/// How many came before `own`.
fn earlier<'a, K: ResourceExt + 'a>(own: &K, all: impl Iterator<Item = &'a Arc<K>>) -> u64 {
    all.filter(|other| !is_deleting(other.meta()) && came(&***other) < came(own)).count() as u64
}

fn is_held_back(conditions: Option<&Vec<Condition>>, kind: &str) -> bool {
    conditions.is_some_and(|told| conditions::from_api(told).reason(kind) == Some("LimitReached"))
}

/// Those of a namespace that wait because of a limit.
fn held_back<K: Limited>(work: Work, all: &[Arc<K>]) -> Vec<Key> {
    let held_back = all.iter().filter(|one| is_held_back(one.conditions(), "Accepted"));
    held_back.map(|one| key(work, &**one)).collect()
}

/// Whether a place has become free by the change.
fn is_freed<K: Limited>(change: Change<'_, K>) -> bool {
    let counts = |side: Option<&K>| side.is_some_and(|request| request.turn() != Turn::Over);
    counts(change.before) && !counts(change.after)
}

impl Caches {
    pub(super) fn backups_ahead(&self, own: &NonAdminBackup) -> u64 {
        ahead(own, &self.backups.in_namespace(&own.namespace().unwrap_or_default()))
    }

    pub(super) fn restores_ahead(&self, own: &NonAdminRestore) -> u64 {
        ahead(own, &self.restores.in_namespace(&own.namespace().unwrap_or_default()))
    }

    pub(super) fn locations_ahead(&self, own: &NonAdminBackupStorageLocation) -> u64 {
        let all = self.locations.in_namespace(&own.namespace().unwrap_or_default());
        earlier(own, all.iter().filter(|other| self.vault_of(other).is_none()))
    }

    pub(super) fn schedules_ahead(&self, own: &BackupSchedule) -> u64 {
        earlier(own, self.schedules.in_namespace(&own.namespace().unwrap_or_default()).iter())
    }

    /// Whoever leaves makes room for those who wait.
    pub(super) fn wake_held_back(&self) {
        let seen = self.clone();
        self.backups.wakes(move |change: Change<'_, NonAdminBackup>| {
            let all = || seen.backups.in_namespace(&change.object().namespace().unwrap_or_default());
            if is_freed(change) { held_back(BACKUP, &all()) } else { Vec::new() }
        });
        let seen = self.clone();
        self.restores.wakes(move |change: Change<'_, NonAdminRestore>| {
            let all = || seen.restores.in_namespace(&change.object().namespace().unwrap_or_default());
            if is_freed(change) { held_back(RESTORE, &all()) } else { Vec::new() }
        });
        let seen = self.clone();
        self.locations.wakes(move |change: Change<'_, NonAdminBackupStorageLocation>| {
            if change.after.is_some_and(|after| !is_deleting(&after.metadata)) {
                return Vec::new();
            }
            let all = seen.locations.in_namespace(&change.object().namespace().unwrap_or_default());
            let waits = |location: &NonAdminBackupStorageLocation| {
                is_held_back(location.status.as_ref().map(|status| &status.conditions), "Accepted")
            };
            all.iter().filter(|location| waits(location)).map(|location| key(LOCATION, &**location)).collect()
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
