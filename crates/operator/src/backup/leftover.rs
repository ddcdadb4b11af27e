//! What is left in Velero's namespace of requests that are gone: observes for [`croft_core::backup::leftover`] and carries out its
//! steps. Keyed by Velero's objects, woken by their coming and by the going of requests.

use std::{fmt, marker::PhantomData, sync::Arc};

use croft_api::{
    backup::{NAB_SYNCED_FROM_NACUUID_LABEL, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    velero::{Backup, BackupStorageLocation, Restore},
};
use croft_core::{
    backup::{
        Fields, Presence, Progress, Victim,
        leftover::{self, Hands, Observed, Step},
        location::InQueue,
        names::nacuuid,
        ownership::{Lies, Marks},
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Resource, ResourceExt, api::PartialObjectMeta, core::NamespaceResourceScope};
use serde_json::json;

use super::{
    BACKUPS, BACKUPS_IN_LOCATION, Caches, fences::UNFINISHED_LABEL, key, location, marks, marks::Tags, request,
    vaults::velero_name,
};
use crate::engine::{
    Cache, Change, Key, Reconciler, Report, Target, Work, Writer, Written, is_deleting, timestamp,
    write::{Object as Kind, gone_is_done, read},
};

/// A kind of Velero's that is made for requests.
pub(super) trait Left: Resource + Send + Sync + Sized + 'static {
    const WORK: Work;
    const TAGS: Tags;
    /// What is deleted, where it is watched in another form.
    type Whole: Kind;
    /// Whom it is made for.
    type Request: Kind + Resource<Scope = NamespaceResourceScope> + 'static;

    fn cache(caches: &Caches) -> &Arc<Cache<Self>>;
    fn requests(caches: &Caches) -> &Arc<Cache<Self::Request>>;
    /// The name on record.
    fn recorded(request: &Self::Request) -> Option<String>;

    fn lies(&self, _: &Caches) -> Option<Lies> {
        None
    }

    /// Backups in it that Velero has not begun with.
    fn in_queue(&self, _: &Caches) -> Vec<InQueue> {
        Vec::new()
    }

    fn hands(&self) -> Hands {
        Hands::Off
    }

    /// The API server judges by it what Velero writes.
    fn counts_as_unfinished(&self) -> bool {
        false
    }
}

/// On a Restore whose request is gone: since when Velero finishes it.
const FINISHING_ANNOTATION: &str = "croft.dev/finishing-since";

impl Left for Restore {
    const WORK: Work = BACKUPS.work("leftover-restore");
    const TAGS: Tags = marks::RESTORE;
    type Whole = Self;
    type Request = NonAdminRestore;

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.velero_restores
    }

    fn requests(caches: &Caches) -> &Arc<Cache<NonAdminRestore>> {
        &caches.restores
    }

    fn recorded(request: &NonAdminRestore) -> Option<String> {
        request.status.as_ref()?.velero_restore.as_ref()?.nacuuid.clone()
    }

    fn hands(&self) -> Hands {
        let unsaid = Fields::new();
        let status = self.status.as_ref().map_or(&unsaid, |status| &status.0.0);
        let noted =
            || self.annotations().get(FINISHING_ANNOTATION).and_then(|at| request::since(&Timestamp(at.clone())));
        match Progress(status) {
            progress if progress.is_being_finished() => Hands::Finishing(noted()),
            progress if progress.is_at_work() => Hands::AtWork,
            _ => Hands::Off,
        }
    }

    fn counts_as_unfinished(&self) -> bool {
        self.labels().contains_key(UNFINISHED_LABEL)
    }
}

impl Left for Backup {
    const WORK: Work = BACKUPS.work("leftover-backup");
    const TAGS: Tags = marks::BACKUP;
    type Whole = Self;
    type Request = NonAdminBackup;

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.velero_backups
    }

    fn requests(caches: &Caches) -> &Arc<Cache<NonAdminBackup>> {
        &caches.backups
    }

    fn recorded(request: &NonAdminBackup) -> Option<String> {
        let recorded = request.status.as_ref().and_then(|status| status.velero_backup.as_ref()?.nacuuid.clone());
        recorded.or_else(|| request.labels().get(NAB_SYNCED_FROM_NACUUID_LABEL).cloned())
    }

    fn lies(&self, caches: &Caches) -> Option<Lies> {
        Some(caches.lies(&self.spec.0.0))
    }

    fn hands(&self) -> Hands {
        let unsaid = Fields::new();
        let status = self.status.as_ref().map_or(&unsaid, |status| &status.0.0);
        match Progress(status) {
            progress if progress.is_waiting() => Hands::Waiting,
            progress if progress.is_at_work() => Hands::AtWork,
            _ => Hands::Off,
        }
    }
}

impl Left for BackupStorageLocation {
    const WORK: Work = BACKUPS.work("leftover-location");
    const TAGS: Tags = marks::LOCATION;
    type Whole = Self;
    type Request = NonAdminBackupStorageLocation;

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.velero_locations
    }

    fn requests(caches: &Caches) -> &Arc<Cache<NonAdminBackupStorageLocation>> {
        &caches.locations
    }

    fn recorded(request: &NonAdminBackupStorageLocation) -> Option<String> {
        velero_name(request).map(str::to_owned)
    }

    fn in_queue(&self, caches: &Caches) -> Vec<InQueue> {
        let backups = caches.velero_backups.by(BACKUPS_IN_LOCATION, &self.name_any());
        backups.iter().filter_map(|backup| location::in_queue(backup)).collect()
    }
}

impl Left for PartialObjectMeta<Secret> {
    const WORK: Work = BACKUPS.work("leftover-secret");
    const TAGS: Tags = marks::LOCATION;
    type Whole = Secret;
    type Request = NonAdminBackupStorageLocation;

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.secrets
    }

    fn requests(caches: &Caches) -> &Arc<Cache<NonAdminBackupStorageLocation>> {
        &caches.locations
    }

    fn recorded(request: &NonAdminBackupStorageLocation) -> Option<String> {
        velero_name(request).map(str::to_owned)
    }
}

/// The name we chose for a request.
fn name_of<K: Left>(request: &K::Request) -> String {
    let made =
        || nacuuid(&request.namespace().unwrap_or_default(), &request.name_any(), &request.uid().unwrap_or_default());
    K::recorded(request).filter(|recorded| !recorded.is_empty()).unwrap_or_else(made)
}

/// Whether it is of ours, as far as it says itself.
fn is_marked<K: Left>(object: &K) -> bool {
    matches!(K::TAGS.marks(object.meta()), Marks { managed: true, nacuuid: Some(_), .. })
}

impl Caches {
    /// What may be left is looked at when it comes, when Velero finishes it or is done with it, when its request goes, and a Backup
    /// when its location goes.
    pub(super) fn wake_on_leftovers(&self) {
        self.wake_leftovers::<Restore>();
        self.wake_leftovers::<Backup>();
        self.wake_leftovers::<BackupStorageLocation>();
        self.wake_leftovers::<PartialObjectMeta<Secret>>();
        let backups = self.velero_backups.clone();
        self.velero_locations.wakes(move |change: Change<'_, BackupStorageLocation>| {
            if change.after.is_some() {
                return Vec::new();
            }
            let found = backups.by(BACKUPS_IN_LOCATION, &change.object().name_any());
            found.iter().filter(|backup| is_marked(&***backup)).map(|backup| key(Backup::WORK, &**backup)).collect()
        });
    }

    fn wake_leftovers<K: Left>(&self) {
        let velero = self.velero_namespace.clone();
        K::cache(self).wakes(move |change: Change<'_, K>| {
            let ours = change
                .after
                .filter(|object| change.before.map(K::hands) != Some(object.hands()) && object.hands() != Hands::AtWork)
                .filter(|object| object.namespace().as_ref() == Some(&velero) && is_marked(*object));
            ours.map(|object| key(K::WORK, object)).into_iter().collect()
        });
        let velero = self.velero_namespace.clone();
        K::requests(self).wakes(move |change: Change<'_, K::Request>| {
            let gone = change.before.filter(|_| change.after.is_none());
            gone.map(|gone| Key::new(K::WORK, velero.clone(), name_of::<K>(gone))).into_iter().collect()
        });
    }
}

pub(super) struct LeftoverReconciler<K> {
    caches: Caches,
    writer: Writer,
    kind: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for LeftoverReconciler<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LeftoverReconciler").finish_non_exhaustive()
    }
}

impl<K: Left> LeftoverReconciler<K> {
    pub(super) fn new(caches: Caches, writer: Writer) -> Self {
        Self { caches, writer, kind: PhantomData }
    }

    fn seen(&self, object: &K, request: Option<&K::Request>) -> Observed {
        Observed {
            object: Victim { name: object.name_any(), uid: object.uid().unwrap_or_default() },
            version: object.resource_version().unwrap_or_default(),
            marks: K::TAGS.marks(object.meta()),
            is_deleting: is_deleting(object.meta()),
            request: request.map(name_of::<K>),
            lies: object.lies(&self.caches),
            in_queue: object.in_queue(&self.caches),
            hands: object.hands(),
            counts_as_unfinished: object.counts_as_unfinished(),
        }
    }
}

impl<K: Left> Reconciler for LeftoverReconciler<K> {
    type Seen = Observed;
    type Step = Step;

    fn work(&self) -> Work {
        K::WORK
    }

    fn all(&self) -> Vec<Key> {
        let all = K::cache(&self.caches).in_namespace(&self.caches.velero_namespace);
        all.iter().filter(|object| is_marked(&***object)).map(|object| key(K::WORK, &**object)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Observed>, Failure> {
        let Some(object) = K::cache(&self.caches).get(&key.namespace, &key.name) else { return Ok(None) };
        let Some(owner) = K::TAGS.request(K::WORK, object.meta()) else { return Ok(None) };
        if self.caches.velero_presence() != Presence::Here {
            return Ok(None);
        }
        let cached = K::requests(&self.caches).get(&owner.namespace, &owner.name);
        let seen = self.seen(&object, cached.as_deref());
        if leftover::plan(&seen).is_settled() {
            return Ok(Some(seen));
        }
        // An old picture of the request must not cost it what it has.
        let requests: Api<K::Request> = Api::namespaced(self.writer.client(), &owner.namespace);
        let live = read(requests.get_opt(&owner.name)).await?;
        Ok(Some(self.seen(&object, live.as_ref())))
    }

    fn plan(&self, seen: &Observed, _: &Timestamp) -> Plan<Step> {
        leftover::plan(seen)
    }

    async fn execute(&self, _: &Observed, step: &Step) -> Result<Written, Failure> {
        let (Step::Delete { object, .. }
        | Step::TakeFromQueue { backup: object, .. }
        | Step::End { object, .. }
        | Step::NoteFinishing(object)
        | Step::CountAsFinished(object)) = step;
        let target = Target { namespace: &self.caches.velero_namespace, name: &object.name, uid: &object.uid };
        match step {
            Step::Delete { version, .. } => self.writer.delete::<K::Whole>(target, Some(version)).await,
            Step::TakeFromQueue { version, .. } => self.writer.delete::<Backup>(target, Some(version)).await,
            Step::NoteFinishing(_) => {
                let note = json!({ "metadata": { "annotations": { FINISHING_ANNOTATION: timestamp() } } });
                gone_is_done(self.writer.merge::<Restore>(target, None, note).await)
            }
            Step::End { version, .. } => request::end(&self.writer, target, version).await,
            Step::CountAsFinished(_) => request::count_as_finished(&self.writer, target).await,
        }
    }

    fn report(&self, _: &Observed, _: &[(&Step, Outcome)], _: &Timestamp) -> Report {
        Report::default()
    }
}
