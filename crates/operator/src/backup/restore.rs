//! `NonAdminRestore`: observes for [`croft_core::backup::restore`] and carries out its steps.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Caches, RESTORE,
    fences::{UNFINISHED_LABEL, UNFINISHED_VALUE},
    lists, marks, request, stored,
};
use crate::{
    engine::{Key, Reconciler, Report, Target, Work, Writer, Written, write::read},
    objects,
    settings::SharedSettings,
};
use croft_api::{
    backup::{NAR_FINALIZER, NonAdminRestore},
    velero::{Backup, DownloadRequest, Restore, VOLUME_TIMEOUT_ANNOTATION},
};
use croft_core::{
    backup::{
        Handed, MODIFIERS, Progress, VOLUME_TIMEOUT, Victim,
        backup::Status as BackupStatus,
        is_decided,
        left_out::{List, Listing},
        modifiers,
        ownership::Origin,
        restore::{self, FINISHING, Observed, Source, Status, Step},
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt, api::ObjectMeta};

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

    async fn source(&self, restore: &NonAdminRestore) -> Result<Source, Failure> {
        let namespace = restore.namespace().unwrap_or_default();
        let Some(name) = restore.spec.restore_spec.backup_name() else { return Ok(Source::Missing) };
        let told: Status = objects::status(restore.status.as_ref());
        let is_decided = is_decided(told.phase, &told.conditions, restore.metadata.generation.unwrap_or_default());
        let found = stored::named(&self.writer, &self.caches.backups, &namespace, name, is_decided).await?;
        let Some(backup) = found else { return Ok(Source::Missing) };
        let status: BackupStatus = objects::status(backup.status.as_ref());
        let found = self.caches.backup_found(&backup, &status).filter(|found| found.is_own);
        let progress = found.as_ref().and_then(|found| found.velero.status.as_ref());
        let (accepted, velero_name) =
            (status.conditions.reason("Accepted"), found.as_ref().map(|found| found.velero.name_any()));
        let is_reachable = found.as_ref().is_some_and(|found| self.is_reachable(&found.velero));
        Ok(Source::of(status.phase, accepted, velero_name, progress.map(|progress| &progress.0.0), is_reachable))
    }

    /// Whether Velero can read what is stored of a Backup. Where it stores unasked only Velero knows.
    fn is_reachable(&self, backup: &Backup) -> bool {
        let Some(name) = backup.spec.storage_location().filter(|name| !name.is_empty()) else { return true };
        let location = self.caches.velero_locations.get(&self.caches.velero_namespace, name);
        location.is_some_and(|location| location.phase() == Some("Available"))
    }

    /// Whether Velero would find the rules for tenants' restores.
    async fn has_modifiers(&self) -> Result<bool, Failure> {
        let maps: Api<ConfigMap> = Api::namespaced(self.writer.client(), &self.caches.velero_namespace);
        let found = read(maps.get_opt(MODIFIERS)).await?;
        Ok(found.is_some_and(|map| map.data == self.rules().data && map.binary_data.is_none()))
    }

    /// See [`croft_core::backup::modifiers`].
    fn rules(&self) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some(MODIFIERS.into()),
            namespace: Some(self.caches.velero_namespace.clone()),
            ..ObjectMeta::default()
        };
        let rules = modifiers(!self.settings.load().backup.hooks);
        ConfigMap { metadata, data: Some(BTreeMap::from([("rules.json".to_owned(), rules)])), ..ConfigMap::default() }
    }

    fn counts_as_unfinished(&self, origin: &Origin) -> bool {
        let restore = self.caches.velero_restores.get(&self.caches.velero_namespace, &origin.nacuuid);
        restore.is_some_and(|restore| restore.labels().contains_key(UNFINISHED_LABEL))
    }

    fn velero(&self, origin: &Origin) -> Option<Handed> {
        let restore = self.caches.velero_restores.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        let transfers = self.caches.transfers.of_restore(&origin.nacuuid);
        Some(request::handed(&*restore, marks::RESTORE, &restore.spec.0.0, &self.caches.restore_queue, transfers))
    }
}

/// Metadata of a tenant's Velero Restore.
fn metadata(origin: &Origin, velero_namespace: &str, made_for: &str) -> ObjectMeta {
    let mut metadata = request::made_for(marks::RESTORE.metadata(origin, velero_namespace), made_for);
    metadata.labels.get_or_insert_default().insert(UNFINISHED_LABEL.into(), UNFINISHED_VALUE.into());
    metadata.annotations.get_or_insert_default().insert(VOLUME_TIMEOUT_ANNOTATION.into(), VOLUME_TIMEOUT.into());
    metadata
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
        let Some(cached) = stored::known(&self.writer, &self.caches.restores, key).await? else { return Ok(None) };
        let known: Status = objects::status(cached.status.as_ref());
        let origin = request::object(&self.caches, &*cached, NAR_FINALIZER).origin(known.velero_restore.as_ref());
        let is_with_velero = self.caches.velero_restores.exists(&self.caches.velero_namespace, &origin.nacuuid);
        let newest = stored::newest(&self.writer, cached, &known.conditions, is_with_velero, NAR_FINALIZER).await?;
        let Some(restore) = newest else { return Ok(None) };
        let mut observed = Observed {
            object: request::object(&self.caches, &*restore, NAR_FINALIZER),
            spec: restore.spec.restore_spec.0.0.clone(),
            status: objects::status(restore.status.as_ref()),
            source: self.source(&restore).await?,
            velero: None,
            counts_as_unfinished: false,
            missing_fences: self.caches.missing_fences()?,
            ahead: self.caches.restore_of_the_administrator(),
            has_modifiers: true,
            lists: List::ALL.map(Listing::unasked),
            ended: None,
            finishing: known.conditions.get(FINISHING).and_then(|it| request::since(&it.last_transition_time)),
        };
        observed.object.ahead =
            self.caches.restores_ahead(&restore, self.settings.load().backup.limits.unfinished_restores);
        let origin = observed.origin();
        observed.velero = self.velero(&origin);
        observed.counts_as_unfinished = self.counts_as_unfinished(&origin);
        observed.lists = self.caches.listings(&origin, &observed.object.uid);
        let completed = observed.velero.as_ref().and_then(|velero| Progress(&velero.status).completed());
        observed.ended = completed.and_then(|completed| request::since(&completed));
        let policy = request::policy(&self.caches, &self.settings);
        if observed.wants_modifiers(&policy) {
            observed.has_modifiers = self.has_modifiers().await?;
        }
        if observed.wants_lists(&policy) {
            self.caches.read_lists(&mut observed.lists, &origin, &observed.object.uid, &policy.hosts).await;
        }
        Ok(Some(Seen { request: restore, observed }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<Step> {
        restore::plan(&seen.observed, &request::policy(&self.caches, &self.settings))
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let velero = self.caches.velero_namespace.as_str();
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.request, NAR_FINALIZER).await,
            Step::Hold { .. } => request::hold(&self.writer, &*seen.request, NAR_FINALIZER).await,
            // ConfigMaps are not watched: there is no echo to wait for.
            Step::WriteModifiers => self.writer.apply_object(&self.rules()).await.map(|_| Written::elsewhere()),
            Step::CountAsFinished(Victim { name, uid }) => {
                request::count_as_finished(&self.writer, Target { namespace: velero, name, uid }).await
            }
            Step::End { restore: Victim { name, uid }, version } => {
                request::end(&self.writer, Target { namespace: velero, name, uid }, version).await
            }
            Step::CreateRestore { origin, spec, made_for } => {
                let metadata = metadata(origin, velero, made_for);
                self.writer.create(&Restore { metadata, spec: spec.clone().into(), status: None }).await
            }
            Step::AskForList { list, origin, of } => {
                self.writer.create(&lists::asking(*list, origin, &seen.observed.object.uid, of, velero)).await
            }
            Step::ForgetList(victim) => {
                request::remove::<DownloadRequest>(&self.writer, &self.caches, &seen.observed.object, victim, None)
                    .await
            }
            Step::DeleteRestore { restore, version } => {
                let object = &seen.observed.object;
                request::remove::<Restore>(&self.writer, &self.caches, object, restore, Some(version)).await
            }
            Step::ReleaseFinalizer { .. } => self.writer.release_finalizer(&*seen.request, NAR_FINALIZER).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let before = &seen.observed.status;
        match restore::report(&seen.observed, &request::policy(&self.caches, &self.settings), outcomes, now) {
            Some(after) => request::told(&*seen.request, (before, &before.conditions), (&after, &after.conditions)),
            None => Report::default(),
        }
    }
}
