//! Velero Backups without a `NonAdminBackup`: observes for [`croft_core::backup::sync`] and carries out its steps.

use std::sync::Arc;

use croft_api::{
    backup::{
        NAB_SYNCED_FROM_NACUUID_LABEL, NonAdminBackup, NonAdminBackupSpec, NonAdminBackupStorageLocation,
        let_go_annotation,
    },
    velero::Backup,
};
use croft_core::{
    backup::{
        ownership::Lies,
        sync::{self, Observed, Step},
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use kube::{Api, ResourceExt, api::ObjectMeta};

use super::{BACKUPS_IN_LOCATION, Caches, SYNC, key, marks, schedule, vaults::velero_name};
use crate::engine::{Change, Key, Reconciler, Report, Work, Writer, Written, is_deleting, write::read};

/// Index: the request a Velero Backup says it was made for -> the Velero Backups that say so.
const OF_REQUEST: &str = "request";

fn request_of(backup: &Backup) -> Option<String> {
    let request = marks::BACKUP.request(SYNC, &backup.metadata)?;
    Some(format!("{}/{}", request.namespace, request.name))
}

#[derive(Debug)]
pub(super) struct SyncReconciler {
    caches: Caches,
    writer: Writer,
}

impl SyncReconciler {
    pub(super) fn new(caches: Caches, writer: Writer) -> Self {
        Self { caches, writer }
    }

    fn seen(&self, backup: &Backup, location: Option<&NonAdminBackupStorageLocation>) -> Observed {
        let marks = marks::BACKUP.marks(&backup.metadata);
        let is_taken = |namespace: &String, name: &String| {
            let stays = self.caches.namespaces.get("", namespace).is_some_and(|it| !is_deleting(&it.metadata));
            !stays || self.caches.backups.exists(namespace, name)
        };
        Observed {
            name: backup.name_any(),
            is_taken: marks
                .namespace
                .as_ref()
                .zip(marks.name.as_ref())
                .is_some_and(|(namespace, name)| is_taken(namespace, name)),
            marks,
            spec: backup.spec.0.0.clone(),
            status: backup.status.as_ref().map(|status| status.0.0.clone()).unwrap_or_default(),
            is_deleting: is_deleting(&backup.metadata),
            scheduled: schedule::noted(backup),
            lies: self.caches.lies(&backup.spec.0.0),
            location: location.filter(|location| !is_deleting(&location.metadata)).map(ResourceExt::name_any),
            is_let_go: location.is_some_and(|it| it.annotations().contains_key(&let_go_annotation(&backup.name_any()))),
        }
    }
}

impl Caches {
    /// The tenant's location a Velero Backup lies in.
    fn location_holding(&self, backup: &Backup) -> Option<Arc<NonAdminBackupStorageLocation>> {
        let Lies::WithTenant(namespace) = self.lies(&backup.spec.0.0) else { return None };
        self.known_as(&namespace, backup.spec.storage_location()?)
    }

    /// A Velero Backup is looked at when it changes, when its location comes, and when its `NonAdminBackup` goes.
    pub(super) fn wake_sync(&self) {
        self.velero_backups.index(OF_REQUEST, |backup: &Backup| request_of(backup).into_iter().collect());
        self.velero_backups.wakes(|change: Change<'_, Backup>| {
            let is_marked = marks::BACKUP.marks(&change.object().metadata).managed;
            is_marked.then(|| key(SYNC, change.object())).into_iter().collect()
        });
        let seen = self.clone();
        self.locations.wakes(move |change: Change<'_, NonAdminBackupStorageLocation>| {
            let (before, after) = (change.before.and_then(velero_name), change.after.and_then(velero_name));
            let Some(place) = after.filter(|_| before != after) else { return Vec::new() };
            let found = seen.velero_backups.by(BACKUPS_IN_LOCATION, place);
            found.iter().map(|backup| key(SYNC, &**backup)).collect()
        });
        let seen = self.clone();
        self.backups.wakes(move |change: Change<'_, NonAdminBackup>| {
            let Some(gone) = change.before.filter(|_| change.after.is_none()) else { return Vec::new() };
            let request = format!("{}/{}", gone.namespace().unwrap_or_default(), gone.name_any());
            // Of several that had the name in their time the next may come back now.
            seen.velero_backups.by(OF_REQUEST, &request).iter().map(|backup| key(SYNC, &**backup)).collect()
        });
    }
}

impl Reconciler for SyncReconciler {
    type Seen = Observed;
    type Step = Step;

    fn work(&self) -> Work {
        SYNC
    }

    fn all(&self) -> Vec<Key> {
        let backups = self.caches.velero_backups.all();
        let marked = backups.iter().filter(|backup| marks::BACKUP.marks(&backup.metadata).managed);
        marked.map(|backup| key(SYNC, &**backup)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Observed>, Failure> {
        let Some(backup) = self.caches.velero_backups.get(&key.namespace, &key.name) else { return Ok(None) };
        let Some(location) = self.caches.location_holding(&backup) else { return Ok(None) };
        let seen = self.seen(&backup, Some(&location));
        if sync::plan(&seen).is_settled() {
            return Ok(Some(seen));
        }
        // Who deletes a backup deletes it here and there: an old picture of either must not bring it back.
        let backups: Api<Backup> = Api::namespaced(self.writer.client(), &key.namespace);
        let locations: Api<NonAdminBackupStorageLocation> =
            Api::namespaced(self.writer.client(), &location.namespace().unwrap_or_default());
        let Some(backup) = read(backups.get_opt(&key.name)).await? else { return Ok(None) };
        let location = read(locations.get_opt(&location.name_any())).await?;
        Ok(Some(self.seen(&backup, location.as_ref())))
    }

    fn plan(&self, seen: &Observed, _: &Timestamp) -> Plan<Step> {
        sync::plan(seen)
    }

    async fn execute(&self, _: &Observed, step: &Step) -> Result<Written, Failure> {
        let Step::CreateBackup { namespace, name, synced_from, spec, scheduled } = step;
        let mut metadata = ObjectMeta {
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            labels: Some([(NAB_SYNCED_FROM_NACUUID_LABEL.to_owned(), synced_from.clone())].into()),
            ..ObjectMeta::default()
        };
        if let Some(scheduled) = scheduled {
            schedule::note(&mut metadata, scheduled.clone());
        }
        let backup = NonAdminBackup {
            metadata,
            spec: NonAdminBackupSpec { backup_spec: spec.clone().into(), ..NonAdminBackupSpec::default() },
            status: None,
        };
        self.writer.create(&backup).await
    }

    fn report(&self, _: &Observed, _: &[(&Step, Outcome)], _: &Timestamp) -> Report {
        Report::default()
    }
}
