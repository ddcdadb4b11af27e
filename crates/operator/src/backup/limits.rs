//! Who comes before whom in a namespace, where only so many may at a time; see [`croft_core::backup::turn`].

use std::sync::Arc;

use croft_api::{
    Condition,
    backup::{
        BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminDownloadRequest,
        NonAdminPhase, NonAdminRestore,
    },
    velero::DownloadRequest,
};
use croft_core::{
    backup::{
        Fields, Phase, Progress, download, is_denied,
        turn::{self, HELD_BACK, Member, Room, Said, Turn},
    },
    conditions::Truth,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{
    BACKUP, Caches, DOWNLOAD, LOCATION, RESTORE, SCHEDULE, VAULT,
    download::{is_unanswered, is_unanswered_by_velero},
    key, marks, request,
    waiting::was_queued,
};
use crate::{
    engine::{Cache, Change, Key, Work, is_deleting, write::Object as Kind},
    settings::SharedSettings,
};

/// Downloads that wait for others of their namespace, by it.
const HELD_BACK_DOWNLOADS: &str = "held back downloads";

fn phase(phase: NonAdminPhase) -> Phase {
    match phase {
        NonAdminPhase::New => Phase::New,
        NonAdminPhase::BackingOff => Phase::BackingOff,
        NonAdminPhase::Created => Phase::Created,
        NonAdminPhase::Deleting => Phase::Deleting,
    }
}

/// It waits for something of its own.
fn waits_elsewhere(conditions: Option<&Vec<Condition>>) -> bool {
    let refused = |condition: &&Condition| condition.type_ == "Accepted" && condition.status != "True";
    conditions.into_iter().flatten().find(refused).is_some_and(|refused| turn::is_of_its_own(&refused.reason))
}

fn is_accepted(conditions: Option<&Vec<Condition>>) -> bool {
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Accepted" && condition.status == "True")
}

fn queued(conditions: Option<&Vec<Condition>>) -> Option<(Truth, &Condition)> {
    let queued = conditions.into_iter().flatten().find(|condition| condition.type_ == "Queued")?;
    Some((if queued.status == "False" { Truth::False } else { Truth::Unknown }, queued))
}

/// Whether it may be with Velero although it does not say so.
fn is_tried<K: Kind>(request: &K, conditions: Option<&Vec<Condition>>) -> bool {
    request::tried(request).is_some_and(|tried| {
        let queued = queued(conditions);
        let since = queued.map(|(_, queued)| queued.last_transition_time.0.to_string()).unwrap_or_default();
        turn::is_tried(&tried, queued.map(|(truth, queued)| (truth, queued.reason.as_str(), since.as_str())))
    })
}

/// A request that Velero works on.
trait Limited: Kind {
    fn phase(&self) -> Option<NonAdminPhase>;
    fn conditions(&self) -> Option<&Vec<Condition>>;
    /// What Velero says of it.
    fn told(&self) -> Option<&Fields>;
    /// What it may have to wait for: the location of a backup, the backup of a restore.
    fn needs(&self) -> Option<&str>;

    fn turn(&self) -> Turn {
        Turn::of(Said {
            phase: self.phase().map(phase),
            is_deleting: is_deleting(self.meta()),
            is_accepted: is_accepted(self.conditions()),
            waits_elsewhere: waits_elsewhere(self.conditions()),
            was_queued: was_queued(self.conditions()),
            is_denied: queued(self.conditions()).is_some_and(|(truth, queued)| is_denied(truth, &queued.reason)),
            is_tried: is_tried(self, self.conditions()),
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

    fn needs(&self) -> Option<&str> {
        self.spec.backup_spec.storage_location()
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

    fn needs(&self) -> Option<&str> {
        self.spec.restore_spec.backup_name()
    }
}

/// The order of coming; of those that came in one second, by name.
fn came(object: &impl ResourceExt) -> (Option<Time>, String) {
    (object.creation_timestamp(), object.name_any())
}

fn member<K: Limited>(request: &K) -> Member<'_, (Option<Time>, String)> {
    Member { turn: request.turn(), needs: request.needs(), came: came(request) }
}

/// How many of its namespace count before `own`; see [`turn::ahead`].
fn ahead<K: Limited>(own: &K, all: &[Arc<K>], limit: u64) -> u64 {
    let seen = member(own);
    if limit == 0 || !seen.turn.is_to_come() {
        return 0;
    }
    let others = all.iter().filter(|other| other.uid() != own.uid());
    turn::ahead(&seen, others.map(|other| member(&**other)), limit)
}

/// How many came before `own`, as far as that matters; see [`turn::earlier`].
fn earlier<'a, K: ResourceExt + 'a>(own: &K, all: impl Iterator<Item = &'a Arc<K>>, limit: u64) -> u64 {
    let staying = all.filter(|other| !is_deleting(other.meta()));
    turn::earlier(&came(own), staying.map(|other| came(&**other)), limit)
}

/// Those to whom no URL was given.
fn unanswered(
    all: &[Arc<NonAdminDownloadRequest>],
) -> impl Iterator<Item = ((Option<Time>, String), &Arc<NonAdminDownloadRequest>)> {
    all.iter().filter(|asked| is_unanswered(asked)).map(|asked| (came(&**asked), asked))
}

fn is_held_back(conditions: Option<&Vec<Condition>>, kind: &str) -> bool {
    let is_reason = |condition: &Condition| condition.type_ == kind && condition.reason == HELD_BACK;
    conditions.into_iter().flatten().any(is_reason)
}

/// Those of a kind that are held back and may have the place of one that leaves.
fn next_held_back<K: ResourceExt>(
    work: Work,
    change: Change<'_, K>,
    cache: &Cache<K>,
    waits: impl Fn(&K) -> bool,
    limit: u64,
) -> Vec<Key> {
    if change.after.is_some_and(|after| !is_deleting(after.meta())) {
        return Vec::new();
    }
    let namespace = change.object().namespace().unwrap_or_default();
    let all = cache.in_namespace(&namespace);
    let waiting = all.iter().filter(|one| waits(one));
    let next = turn::next_of(waiting.map(|one| came(&**one)), limit);
    next.into_iter().map(|(_, name)| Key::new(work, namespace.clone(), name)).collect()
}

/// It waits for others of its namespace to go.
pub(super) fn is_location_held_back(location: &NonAdminBackupStorageLocation) -> bool {
    is_held_back(location.status.as_ref().map(|status| &status.conditions), "Accepted")
}

/// Those of a namespace whose turn has come, where the change has made room.
fn next_in_line<K: Limited>(work: Work, change: Change<'_, K>, cache: &Cache<K>, limit: u64) -> Vec<Key> {
    let room = Turn::room(change.before.map(K::turn), change.after.map(K::turn));
    if room == Room::Nobody {
        return Vec::new();
    }
    let namespace = change.object().namespace().unwrap_or_default();
    let all = cache.in_namespace(&namespace);
    let next = turn::whose_turn(room, &member(change.object()), all.iter().map(|one| member(&**one)), limit);
    next.into_iter().map(|(_, name)| Key::new(work, namespace.clone(), name)).collect()
}

impl Caches {
    pub(super) fn backups_ahead(&self, own: &NonAdminBackup, limit: u64) -> u64 {
        ahead(own, &self.backups.in_namespace(&own.namespace().unwrap_or_default()), limit)
    }

    pub(super) fn restores_ahead(&self, own: &NonAdminRestore, limit: u64) -> u64 {
        ahead(own, &self.restores.in_namespace(&own.namespace().unwrap_or_default()), limit)
    }

    /// Backups of a namespace that Velero is not done with, or has not had.
    pub(super) fn unfinished_backups(&self, namespace: &str) -> Vec<Key> {
        let backups = self.backups.in_namespace(namespace).into_iter();
        backups.filter(|backup| backup.turn() != Turn::Over).map(|backup| key(BACKUP, &*backup)).collect()
    }

    pub(super) fn locations_ahead(&self, own: &NonAdminBackupStorageLocation, limit: u64) -> u64 {
        let all = self.locations.in_namespace(&own.namespace().unwrap_or_default());
        earlier(own, all.iter().filter(|other| self.vault_of(other).is_none()), limit)
    }

    pub(super) fn schedules_ahead(&self, own: &BackupSchedule, limit: u64) -> u64 {
        earlier(own, self.schedules.in_namespace(&own.namespace().unwrap_or_default()).iter(), limit)
    }

    pub(super) fn vaults_ahead(&self, own: &BackupVault, limit: u64) -> u64 {
        earlier(own, self.vaults.in_namespace(&own.namespace().unwrap_or_default()).iter(), limit)
    }

    /// How many of its namespace count before `own`, for which Velero has not been asked; see [`download::ahead`].
    pub(super) fn downloads_ahead(&self, own: &NonAdminDownloadRequest, limit: u64) -> u64 {
        let namespace = own.namespace().unwrap_or_default();
        let (asked, all) = (self.asked_for(&namespace).len() as u64, self.downloads.in_namespace(&namespace));
        let is_in_line = |other: &&Arc<NonAdminDownloadRequest>| self.is_in_line(other, limit);
        download::ahead(&came(own), asked, unanswered(&all), is_in_line, limit)
    }

    fn is_in_line(&self, asked: &NonAdminDownloadRequest, limit: u64) -> bool {
        self.download_seen(asked, limit).is_in_line()
    }

    /// Those of a namespace that say that they wait and do not have to any more. Whoever is about to say it looks once more when he has:
    /// of those that wait for something else there may be very many.
    fn next_downloads(&self, namespace: &str, limit: u64) -> Vec<Key> {
        let asked = self.asked_for(namespace).len() as u64;
        if asked >= limit {
            return Vec::new();
        }
        let waiting = self.downloads.by(HELD_BACK_DOWNLOADS, namespace);
        let is_in_line = |other: &&Arc<NonAdminDownloadRequest>| self.is_in_line(other, limit);
        let next = download::whose_turn(asked, unanswered(&waiting), is_in_line, limit);
        next.into_iter().map(|(_, name)| Key::new(DOWNLOAD, namespace, name)).collect()
    }

    /// Those of the namespace that wait until Velero has answered others, once it has.
    fn downloads_after_answer(&self, change: Change<'_, DownloadRequest>, limit: u64) -> Vec<Key> {
        let is_busy = |download: Option<&DownloadRequest>| download.is_some_and(is_unanswered_by_velero);
        let namespace = marks::DOWNLOAD.request(DOWNLOAD, &change.object().metadata).map(|asked| asked.namespace);
        let namespace = namespace.filter(|_| is_busy(change.before) && !is_busy(change.after));
        namespace.map(|namespace| self.next_downloads(&namespace, limit)).unwrap_or_default()
    }

    /// The same where one may have left the line without Velero having been asked for it.
    fn downloads_after_leaving(&self, change: Change<'_, NonAdminDownloadRequest>, limit: u64) -> Vec<Key> {
        let conditions =
            |asked: &NonAdminDownloadRequest| asked.status.as_ref().map(|status| status.conditions.clone());
        let says_otherwise = |after: &NonAdminDownloadRequest| {
            let (before, after) = (change.before.and_then(conditions), conditions(after));
            before != after && !is_held_back(after.as_ref(), "Processed")
        };
        let has_left = |after: &NonAdminDownloadRequest| is_deleting(&after.metadata) || says_otherwise(after);
        if change.before.is_none_or(|before| !is_unanswered(before)) || !change.after.is_none_or(has_left) {
            return Vec::new();
        }
        self.next_downloads(&change.object().namespace().unwrap_or_default(), limit)
    }

    /// Whoever leaves makes room for those who wait.
    pub(super) fn wake_held_back(&self, settings: &SharedSettings) {
        self.downloads.index(HELD_BACK_DOWNLOADS, |asked: &NonAdminDownloadRequest| {
            let conditions = asked.status.as_ref().map(|status| &status.conditions);
            let waits = is_held_back(conditions, "Processed") && is_unanswered(asked) && !is_deleting(&asked.metadata);
            asked.namespace().filter(|_| waits).into_iter().collect()
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.backups.wakes(move |change: Change<'_, NonAdminBackup>| {
            next_in_line(BACKUP, change, &seen.backups, shared.load().backup.limits.unfinished_backups)
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.restores.wakes(move |change: Change<'_, NonAdminRestore>| {
            next_in_line(RESTORE, change, &seen.restores, shared.load().backup.limits.unfinished_restores)
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.locations.wakes(move |change: Change<'_, NonAdminBackupStorageLocation>| {
            let limit = shared.load().backup.limits.locations;
            next_held_back(LOCATION, change, &seen.locations, is_location_held_back, limit)
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.velero_downloads.wakes(move |change: Change<'_, DownloadRequest>| {
            seen.downloads_after_answer(change, shared.load().backup.limits.unanswered_downloads)
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.downloads.wakes(move |change: Change<'_, NonAdminDownloadRequest>| {
            seen.downloads_after_leaving(change, shared.load().backup.limits.unanswered_downloads)
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.vaults.wakes(move |change: Change<'_, BackupVault>| {
            let waits =
                |vault: &BackupVault| is_held_back(vault.status.as_ref().map(|status| &status.conditions), "Ready");
            next_held_back(VAULT, change, &seen.vaults, waits, shared.load().backup.limits.vaults)
        });
        let (seen, shared) = (self.clone(), settings.clone());
        self.schedules.wakes(move |change: Change<'_, BackupSchedule>| {
            let waits = |schedule: &BackupSchedule| {
                is_held_back(schedule.status.as_ref().map(|status| &status.conditions), "Ready")
            };
            next_held_back(SCHEDULE, change, &seen.schedules, waits, shared.load().backup.limits.schedules)
        });
    }
}
