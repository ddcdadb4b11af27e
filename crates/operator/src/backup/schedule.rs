//! `BackupSchedule`: observes for [`croft_core::backup::schedule`] and carries out its steps.

use std::{collections::BTreeSet, sync::Arc};

use croft_api::backup::{
    BackupSchedule, NonAdminBackup, NonAdminBackupSpec, SCHEDULE_UID_LABEL, SCHEDULED_AT_ANNOTATION, validate,
};
use croft_core::{
    backup::{
        Policy, backup,
        schedule::{self, Backup, Observed, State, Status, Step},
        sync::Scheduled,
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use kube::{ResourceExt, api::ObjectMeta};
use serde_json::json;

use super::{Caches, SCHEDULE, key, request};
use crate::{
    conditions,
    engine::{Change, Key, Reconciler, Report, Target, Work, Writer, Written, is_deleting, write::gone_is_done},
    objects,
    settings::SharedSettings,
};

/// Index: UID of a schedule -> the backups it made.
const OF_SCHEDULE: &str = "schedule";

#[derive(Debug)]
pub(super) struct ScheduleReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
}

#[derive(Debug)]
pub(super) struct Seen {
    raw: Arc<BackupSchedule>,
    observed: Observed,
}

impl ScheduleReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings }
    }

    fn policy(&self) -> Policy {
        request::policy(&self.caches, &self.settings)
    }

    /// The backups of a schedule in its namespace; labels of others mean nothing.
    fn backups(&self, schedule: &BackupSchedule) -> Vec<Backup> {
        let made = self.caches.backups.by(OF_SCHEDULE, &schedule.uid().unwrap_or_default());
        let made = made.iter().filter(|backup| backup.namespace() == schedule.namespace());
        made.filter_map(|backup| backup_seen(backup)).collect()
    }

    /// Names it could want that are not among `own`.
    fn others(&self, schedule: &BackupSchedule, own: &[Backup]) -> BTreeSet<String> {
        let all = self.caches.backups.in_namespace(&schedule.namespace().unwrap_or_default());
        let names = all.iter().map(|backup| backup.name_any());
        let wanted = names.filter(|name| schedule::is_named_by(&schedule.name_any(), name));
        let own: BTreeSet<_> = own.iter().map(|backup| backup.name.as_str()).collect();
        wanted.filter(|name| !own.contains(name.as_str())).collect()
    }
}

/// Notes on a backup that a schedule made it.
pub(super) fn note(metadata: &mut ObjectMeta, Scheduled { by, at }: Scheduled) {
    metadata.labels.get_or_insert_default().insert(SCHEDULE_UID_LABEL.into(), by);
    metadata.annotations.get_or_insert_default().insert(SCHEDULED_AT_ANNOTATION.into(), at);
}

/// What is noted on a backup of the schedule that made it.
pub(super) fn noted(backup: &impl ResourceExt) -> Option<Scheduled> {
    Scheduled::noted(backup.labels().get(SCHEDULE_UID_LABEL)?, backup.annotations().get(SCHEDULED_AT_ANNOTATION)?)
}

/// The backup that is made for a time.
fn made_for(
    seen: &Seen,
    name: &str,
    due: jiff::Timestamp,
    spec: &serde_json::Map<String, serde_json::Value>,
) -> NonAdminBackup {
    let mut metadata =
        ObjectMeta { namespace: seen.raw.namespace(), name: Some(name.to_owned()), ..ObjectMeta::default() };
    note(&mut metadata, Scheduled { by: seen.raw.uid().unwrap_or_default(), at: due.to_string() });
    NonAdminBackup {
        metadata,
        spec: NonAdminBackupSpec { backup_spec: spec.clone().into(), ..NonAdminBackupSpec::default() },
        status: None,
    }
}

/// One that does not tell its time was not made by us.
fn backup_seen(backup: &NonAdminBackup) -> Option<Backup> {
    let status: backup::Status = objects::status(backup.status.as_ref());
    let velero = status.velero_backup.as_ref().and_then(|velero| velero.status.as_ref());
    let state = State::of(status.phase, &status.conditions, velero);
    Some(Backup {
        name: backup.name_any(),
        uid: backup.uid().unwrap_or_default(),
        due: backup.annotations().get(SCHEDULED_AT_ANNOTATION)?.parse().ok()?,
        state,
        is_going: is_deleting(&backup.metadata) || backup.spec.delete_backup || backup.spec.force_delete_backup,
    })
}

impl Caches {
    /// A schedule wakes itself; what became of its backups wakes it too.
    pub(super) fn wake_schedules(&self) {
        self.backups.index(OF_SCHEDULE, |backup: &NonAdminBackup| {
            backup.labels().get(SCHEDULE_UID_LABEL).cloned().into_iter().collect()
        });
        self.schedules.wakes(|change: Change<'_, BackupSchedule>| {
            let view = |schedule: &BackupSchedule| (schedule.metadata.generation, is_deleting(&schedule.metadata));
            let is_news = change.before.map(view) != change.after.map(view);
            is_news.then(|| key(SCHEDULE, change.object())).into_iter().collect()
        });
        let seen = self.clone();
        self.backups.wakes(move |change: Change<'_, NonAdminBackup>| {
            let backup = change.object();
            let (uid, name) = (backup.labels().get(SCHEDULE_UID_LABEL), backup.name_any());
            let is_anothers = uid.is_none() && change.after.is_some();
            if is_anothers || change.before.map(backup_seen) == change.after.map(backup_seen) {
                return Vec::new();
            }
            let schedules = seen.schedules.in_namespace(&backup.namespace().unwrap_or_default());
            let concerns = |schedule: &BackupSchedule| {
                // Whatever had a name it wanted has made room.
                let is_left = change.after.is_none() && schedule::is_named_by(&schedule.name_any(), &name);
                (uid.is_some() && schedule.uid().as_ref() == uid) || is_left
            };
            schedules.iter().filter(|schedule| concerns(schedule)).map(|schedule| key(SCHEDULE, &**schedule)).collect()
        });
    }
}

impl Reconciler for ScheduleReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        SCHEDULE
    }

    fn all(&self) -> Vec<Key> {
        self.caches.schedules.all().iter().map(|object| key(SCHEDULE, &**object)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(raw) = self.caches.schedules.get(&key.namespace, &key.name) else { return Ok(None) };
        let (backups, policy) = (self.backups(&raw), self.policy());
        let observed = Observed {
            name: key.name.clone(),
            uid: raw.uid().unwrap_or_default(),
            generation: raw.metadata.generation.unwrap_or_default(),
            created: raw.creation_timestamp().map_or(jiff::Timestamp::UNIX_EPOCH, |time| time.0),
            is_deleting: is_deleting(&raw.metadata),
            spec: validate::schedule(&raw, &policy),
            status: objects::status(raw.status.as_ref()),
            others: self.others(&raw, &backups),
            backups,
            ahead: self.caches.schedules_ahead(&raw, policy.limits.schedules),
            now: jiff::Timestamp::now(),
        };
        Ok(Some(Seen { raw, observed }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        schedule::plan(&seen.observed, &self.policy())
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        match step {
            Step::CreateBackup { name, due, spec } => self.writer.create(&made_for(seen, name, *due, spec)).await,
            Step::DeleteBackup(victim) => {
                let namespace = seen.raw.namespace().unwrap_or_default();
                let target = Target { namespace: &namespace, name: &victim.name, uid: &victim.uid };
                let asked = json!({ "spec": { "deleteBackup": true } });
                gone_is_done(self.writer.merge::<NonAdminBackup>(target, None, asked).await)
            }
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let before: &Status = &seen.observed.status;
        let status = schedule::report(&seen.observed, &self.policy(), outcomes, now);
        let events = conditions::news(&before.conditions, &status.conditions);
        let status = (seen.raw.status.is_none() || *before != status)
            .then(|| objects::status_over(seen.raw.status.as_ref(), &status))
            .flatten();
        Report::on(&*seen.raw, status.as_ref(), events)
    }
}
