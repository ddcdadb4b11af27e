//! `NonAdminDownloadRequest`: observes for [`croft_core::backup::download`] and carries out its steps.

use std::sync::Arc;

use croft_api::{
    backup::{NonAdminBackup, NonAdminDownloadRequest, NonAdminRestore},
    velero::{BackupStorageLocation, DownloadRequest, DownloadRequestSpec, DownloadRequestStatus, RESTORE_NAME_LABEL},
};
use croft_core::{
    backup::{
        Phase, Progress, Reference, backup,
        download::{
            self, Answer, BackupFound, Observed, RestoreFound, Status, Step, Subject, VeleroDownload, velero_name,
        },
        restore,
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use kube::ResourceExt;
use serde_json::json;

use super::{BACKUP, Caches, DOWNLOAD, LOCATION, RESTORE, key, marks, request, wakes::own};
use crate::{
    engine::{Change, Key, Reconciler, Report, Work, Writer, Written, is_deleting},
    objects,
    settings::SharedSettings,
};

/// Index: what is asked for -> the requests that name it.
const OF_TARGET: &str = "of-target";
/// Index: a backup -> the restores of it.
const RESTORES_OF_BACKUP: &str = "restores-of-backup";
/// Index: a namespace -> what Velero is asked for by it and has not answered.
const ASKED_FOR: &str = "asked-for";

#[derive(Debug)]
pub(super) struct DownloadReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
}

#[derive(Debug)]
pub(super) struct Seen {
    request: Arc<NonAdminDownloadRequest>,
    observed: Observed,
}

impl DownloadReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings }
    }
}

impl Caches {
    /// What the request names, and whether it is proven to be of this namespace.
    fn subject(&self, asked: &NonAdminDownloadRequest) -> Subject {
        let (namespace, target) = (asked.namespace().unwrap_or_default(), &asked.spec.target);
        if !target.kind.is_of_restore() {
            let Some(backup) = self.backups.get(&namespace, &target.name) else { return Subject::NoBackup };
            return self.backup_subject(&backup);
        }
        let Some(restore) = self.restores.get(&namespace, &target.name) else { return Subject::NoRestore };
        let backup = restore.spec.restore_spec.backup_name().and_then(|name| self.backups.get(&namespace, name));
        let Some(backup) = backup else { return Subject::NoBackup };
        self.backup_subject(&backup).or_of_restore(self.restore_subject(&restore))
    }

    fn backup_subject(&self, backup: &NonAdminBackup) -> Subject {
        let status: backup::Status = objects::status(backup.status.as_ref());
        let is_recorded = status.phase == Some(Phase::Created) && is_recorded(status.velero_backup.as_ref());
        let found = self.backup_found(backup, &status);
        Subject::of_backup(found.map(|found| BackupFound {
            name: found.velero.name_any(),
            is_proven: is_recorded && found.is_own,
            lies: found.lies,
            is_finished: found.velero.status.as_ref().is_some_and(|status| Progress(&status.0.0).is_finished()),
        }))
    }

    fn restore_subject(&self, restore: &NonAdminRestore) -> Option<RestoreFound> {
        let status: restore::Status = objects::status(restore.status.as_ref());
        let found = self.restore_found(restore, &status)?;
        Some(RestoreFound {
            name: found.velero.name_any(),
            is_proven: is_recorded(status.velero_restore.as_ref()) && found.is_own,
            from: found.velero.spec.backup_name().map(str::to_owned),
            is_finished: found.velero.status.as_ref().is_some_and(|status| Progress(&status.0.0).is_finished()),
        })
    }

    fn velero_download(&self, uid: &str) -> Option<VeleroDownload> {
        let velero = self.velero_downloads.get(&self.velero_namespace, &velero_name(uid))?;
        let status = velero.status.clone().unwrap_or_default();
        Some(VeleroDownload {
            uid: velero.uid().unwrap_or_default(),
            marks: marks::DOWNLOAD.marks(&velero.metadata),
            kind: velero.spec.target_kind().unwrap_or_default().to_owned(),
            target: velero.spec.target_name().unwrap_or_default().to_owned(),
            is_expired: status.expiration().is_some_and(|expiration| request::left_until(expiration).is_zero()),
            answer: Answer(status.0.0),
        })
    }

    /// The world around a request, but for the others of its namespace.
    pub(super) fn download_seen(&self, asked: &NonAdminDownloadRequest, limit: u64) -> Observed {
        let copied = asked.status.as_ref().and_then(|status| status.velero.as_ref()?.status.as_ref());
        let uid = asked.uid().unwrap_or_default();
        Observed {
            namespace: asked.namespace().unwrap_or_default(),
            name: asked.name_any(),
            generation: asked.metadata.generation.unwrap_or_default(),
            is_deleting: is_deleting(&asked.metadata),
            is_brought_back: asked.labels().contains_key(RESTORE_NAME_LABEL),
            kind: json!(asked.spec.target.kind).as_str().unwrap_or_default().to_owned(),
            subject: self.subject(asked),
            expires_in: copied.and_then(DownloadRequestStatus::expiration).map(request::left_until),
            velero: self.velero_download(&uid),
            status: objects::status(asked.status.as_ref()),
            ahead: 0,
            limit,
            uid,
        }
    }
}

/// Which object it is, is on record.
fn is_recorded(reference: Option<&Reference>) -> bool {
    reference.is_some_and(|reference| reference.uid.is_some())
}

/// Whether Velero still has to answer.
pub(super) fn is_unanswered_by_velero(download: &DownloadRequest) -> bool {
    download::is_unanswered(download.status.as_ref().and_then(|status| status.text("phase")))
}

fn place_of(object: &impl ResourceExt) -> String {
    place(&object.namespace().unwrap_or_default(), &object.name_any())
}

/// `<namespace>/<name>`
fn place(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

pub(super) fn is_unanswered(asked: &NonAdminDownloadRequest) -> bool {
    asked.status.as_ref().is_none_or(|status| status.velero.is_none())
}

impl Caches {
    /// A download request wakes itself, as does Velero's answer; those that wait are woken by what they wait for.
    pub(super) fn wake_downloads(&self) {
        self.downloads.index(OF_TARGET, |asked: &NonAdminDownloadRequest| {
            vec![place(&asked.namespace().unwrap_or_default(), &asked.spec.target.name)]
        });
        self.restores.index(RESTORES_OF_BACKUP, |restore: &NonAdminRestore| {
            let backup = restore.spec.restore_spec.backup_name();
            backup.map(|backup| place(&restore.namespace().unwrap_or_default(), backup)).into_iter().collect()
        });
        self.velero_downloads.index(ASKED_FOR, |download: &DownloadRequest| {
            let asked = marks::DOWNLOAD.request(DOWNLOAD, &download.metadata);
            asked.filter(|_| is_unanswered_by_velero(download)).map(|asked| asked.namespace).into_iter().collect()
        });
        self.downloads.wakes(|change: Change<'_, NonAdminDownloadRequest>| own(DOWNLOAD, change));
        self.velero_downloads.wakes(|change: Change<'_, DownloadRequest>| {
            marks::DOWNLOAD.request(DOWNLOAD, &change.object().metadata).into_iter().collect()
        });
        let seen = self.clone();
        self.velero_locations.wakes(move |change: Change<'_, BackupStorageLocation>| {
            // What lies in it is in reach, or out of it.
            let is_news = change.before.is_none() || change.after.is_none();
            let owner = marks::LOCATION.request(LOCATION, &change.object().metadata).filter(|_| is_news);
            owner.map(|owner| seen.unanswered_in(&owner.namespace)).unwrap_or_default()
        });
        let seen = self.clone();
        self.backups.wakes(move |change: Change<'_, NonAdminBackup>| seen.downloads_of(&key(BACKUP, change.object())));
        let seen = self.clone();
        self.restores
            .wakes(move |change: Change<'_, NonAdminRestore>| seen.downloads_of(&key(RESTORE, change.object())));
    }

    /// Requests without an answer that name a backup or restore, or a restore of the backup.
    fn downloads_of(&self, subject: &Key) -> Vec<Key> {
        let place = place(&subject.namespace, &subject.name);
        let of_backup = self.restores.by(RESTORES_OF_BACKUP, &place).into_iter();
        let restored = of_backup.flat_map(|restore| self.downloads.by(OF_TARGET, &place_of(&*restore)));
        let restored = restored.filter(|asked| asked.spec.target.kind.is_of_restore());
        let waiting = self.downloads.by(OF_TARGET, &place).into_iter().chain(restored);
        waiting.filter(|asked| is_unanswered(asked)).map(|asked| key(DOWNLOAD, &*asked)).collect()
    }

    /// What Velero has been asked for by a namespace and has not answered.
    pub(super) fn asked_for(&self, namespace: &str) -> Vec<Arc<DownloadRequest>> {
        self.velero_downloads.by(ASKED_FOR, namespace)
    }

    fn unanswered_in(&self, namespace: &str) -> Vec<Key> {
        let downloads = self.downloads.in_namespace(namespace);
        downloads.iter().filter(|asked| is_unanswered(asked)).map(|asked| key(DOWNLOAD, &**asked)).collect()
    }
}

impl Reconciler for DownloadReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        DOWNLOAD
    }

    fn all(&self) -> Vec<Key> {
        self.caches.downloads.all().iter().map(|object| key(DOWNLOAD, &**object)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(asked) = self.caches.downloads.get(&key.namespace, &key.name) else { return Ok(None) };
        let limit = self.settings.load().backup.limits.unanswered_downloads;
        let mut observed = self.caches.download_seen(&asked, limit);
        if observed.is_to_be_asked_for() {
            observed.ahead = self.caches.downloads_ahead(&asked, limit);
        }
        Ok(Some(Seen { request: asked, observed }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        download::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let velero = self.caches.velero_namespace.as_str();
        match step {
            Step::CreateDownload { name, origin, kind, target } => {
                let mut metadata = marks::DOWNLOAD.metadata(origin, velero);
                metadata.name = Some(name.clone());
                let spec = DownloadRequestSpec::for_target(kind, target);
                self.writer.create(&DownloadRequest { metadata, spec, status: None }).await
            }
            Step::DeleteDownload(victim) => request::delete::<DownloadRequest>(&self.writer, velero, victim).await,
            Step::DeleteSelf { .. } => {
                self.writer.delete::<NonAdminDownloadRequest>(objects::target(&seen.request.metadata), None).await
            }
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let before: &Status = &seen.observed.status;
        match download::report(&seen.observed, outcomes, now) {
            Some(after) => request::told(&*seen.request, (before, &before.conditions), (&after, &after.conditions)),
            None => Report::default(),
        }
    }
}
