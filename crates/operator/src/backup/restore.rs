//! `NonAdminRestore`: observes for [`croft_core::backup::restore`] and carries out its steps.

use std::sync::Arc;

use croft_api::{
    backup::{NAR_FINALIZER, NonAdminRestore},
    velero::Restore,
};
use croft_core::{
    backup::{
        Phase, Progress,
        backup::Status as BackupStatus,
        ownership::Origin,
        restore::{self, Observed, Source, Status, Step, VeleroRestore},
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use kube::ResourceExt;

use super::{Caches, RESTORE, marks, request};
use crate::{
    engine::{Key, Reconciler, Report, Work, Writer, Written, is_deleting},
    objects,
    settings::SharedSettings,
};

#[derive(Debug)]
pub(super) struct RestoreReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
}

#[derive(Debug)]
pub(super) struct Seen {
    request: Arc<NonAdminRestore>,
    observed: Observed,
}

impl RestoreReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings }
    }

    fn source(&self, restore: &NonAdminRestore) -> Source {
        let namespace = restore.namespace().unwrap_or_default();
        let name = restore.spec.restore_spec.backup_name().unwrap_or_default();
        match self.caches.backups.get(&namespace, name) {
            Some(backup) => {
                let status: BackupStatus = objects::status(backup.status.as_ref());
                self.usable(namespace, name, &status).unwrap_or(Source::NotReady)
            }
            None if self.caches.backups.exists(&namespace, name) => Source::NotReady,
            None => Source::Missing,
        }
    }

    /// The Velero Backup of a `NonAdminBackup`, if Velero is done with it and it is proven to be that one's.
    fn usable(&self, namespace: String, name: &str, status: &BackupStatus) -> Option<Source> {
        let nacuuid = status.velero_backup.as_ref().and_then(|reference| reference.nacuuid.clone())?;
        let origin = Origin { namespace, name: name.to_owned(), nacuuid };
        let velero = self.caches.velero_backups.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        let finished = velero.status.as_ref().is_some_and(|status| Progress(&status.0.0).is_finished());
        let usable =
            status.phase == Some(Phase::Created) && finished && origin.owns(&marks::BACKUP.marks(&velero.metadata));
        usable.then_some(Source::Ready { velero_backup: origin.nacuuid })
    }

    fn velero(&self, origin: &Origin) -> Option<VeleroRestore> {
        let restore = self.caches.velero_restores.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        Some(VeleroRestore {
            uid: restore.uid().unwrap_or_default(),
            marks: marks::RESTORE.marks(&restore.metadata),
            status: restore.status.as_ref().map(|status| status.0.0.clone()).unwrap_or_default(),
            is_deleting: is_deleting(&restore.metadata),
            position: self.caches.restore_queue.position(&*restore),
        })
    }
}

impl Reconciler for RestoreReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        RESTORE
    }

    fn all(&self) -> Vec<Key> {
        self.caches.restores.all().iter().map(|object| super::key(RESTORE, &**object)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(cached) = self.caches.restores.get(&key.namespace, &key.name) else { return Ok(None) };
        let known: Status = objects::status(cached.status.as_ref());
        let Some(restore) = request::newest(&self.writer, cached, &known.conditions).await? else { return Ok(None) };
        let mut observed = Observed {
            object: request::object(&self.caches, &*restore, NAR_FINALIZER),
            spec: restore.spec.restore_spec.0.0.clone(),
            status: objects::status(restore.status.as_ref()),
            source: self.source(&restore),
            velero: None,
        };
        observed.velero = self.velero(&observed.origin());
        Ok(Some(Seen { request: restore, observed }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<Step> {
        restore::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let velero = self.caches.velero_namespace.as_str();
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.request, NAR_FINALIZER).await,
            Step::CreateRestore { origin, spec } => {
                let metadata = marks::RESTORE.metadata(origin, velero);
                self.writer.create(&Restore { metadata, spec: spec.clone().into(), status: None }).await
            }
            Step::DeleteRestore(victim) => request::delete::<Restore>(&self.writer, velero, victim).await,
            Step::ReleaseFinalizer { .. } => self.writer.release_finalizer(&*seen.request, NAR_FINALIZER).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let before = &seen.observed.status;
        match restore::report(&seen.observed, &request::current(&self.caches, &self.settings), outcomes, now) {
            Some(after) => request::told(&*seen.request, (before, &before.conditions), (&after, &after.conditions)),
            None => Report::default(),
        }
    }
}
