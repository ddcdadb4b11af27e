//! `NonAdminBackup`: observes for [`croft_core::backup::backup`] and carries out its steps.

use std::{sync::Arc, time::Duration};

use croft_api::{
    backup::{
        NAB_FINALIZER, NAB_SYNCED_FROM_NACUUID_LABEL, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore,
        let_go_annotation,
    },
    velero::{
        BACKUP_NAME_LABEL, BACKUP_UID_LABEL, Backup, BackupStorageLocation, DeleteBackupRequest,
        DeleteBackupRequestSpec,
    },
};
use croft_core::{
    backup::{
        Handed, OwnBucket, Progress, Victim,
        backup::{self, Deletion, Location, LocationPhase, Observed, Status, Step},
        location,
        ownership::{Claimant, Lies, Origin},
        place::Place,
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use kube::{ResourceExt, api::ObjectMeta};
use serde_json::json;

use super::{
    BACKUP, Caches, DELETIONS_OF_BACKUP,
    fences::{OWN_BUCKET_LABEL, OWN_BUCKET_VALUE},
    marks, request, schedule, stored,
};
use crate::{
    engine::{Key, Reconciler, Report, Target, Work, Writer, Written, is_deleting, timestamp, write::gone_is_done},
    objects,
    settings::SharedSettings,
};

#[derive(Debug)]
pub(super) struct BackupReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
}

#[derive(Debug)]
pub(super) struct Seen {
    request: Arc<NonAdminBackup>,
    observed: Observed,
}

impl BackupReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings }
    }

    async fn location(&self, backup: &NonAdminBackup, place: Place) -> Result<Location, Failure> {
        let namespace = backup.namespace().unwrap_or_default();
        let location = match place {
            Place::Location(name) => {
                let locations = &self.caches.locations;
                let found = stored::named(&self.writer, locations, &namespace, &name, is_decided(backup)).await?;
                found.ok_or(Location::Missing { name })
            }
            Place::Vault(vault) => {
                let found = self.caches.locations.get(&namespace, &vault);
                found.filter(|found| self.caches.vault_of(found).is_some()).ok_or(Location::OfVaultToCome { vault })
            }
            Place::Gone(name) => Err(Location::Missing { name }),
            Place::Default => Err(Location::Default { velero: self.administrators_phase(backup) }),
        };
        let location = match location {
            Ok(location) => location,
            Err(none) => return Ok(none),
        };
        let status: location::Status = objects::status(location.status.as_ref());
        let nacuuid = status.velero_backup_storage_location.and_then(|reference| reference.nacuuid);
        let origin = |nacuuid: &String| Origin { namespace, name: location.name_any(), nacuuid: nacuuid.clone() };
        let velero = nacuuid.as_ref().map(origin).and_then(|origin| self.location_phase(&origin));
        Ok(Location::Found { phase: status.phase, nacuuid, velero })
    }

    /// Where the backup is in a location of its namespace that is not proven to be a vault's, or is to be.
    fn own_bucket(&self, place: &Place, origin: &Origin) -> Result<Option<OwnBucket>, Failure> {
        let (Place::Location(name) | Place::Gone(name)) = place else { return Ok(None) };
        let location = self.caches.locations.get(&origin.namespace, name);
        let velero = self.caches.velero_backups.get(&self.caches.velero_namespace, &origin.nacuuid);
        let expires = velero.as_ref().and_then(|velero| velero.status.as_ref()?.expiration());
        let expires_in = expires.map(request::left_until);
        let lacks_label = velero.is_some_and(|velero| !is_labelled(&*velero) && self.is_in_labelled(&velero));
        let is_vaults = location.is_some_and(|location| self.caches.vault_of(&location).is_some());
        if is_vaults {
            return Ok(None);
        }
        Ok(Some(OwnBucket { reach: self.caches.reach()?, expires_in, lacks_label }))
    }

    /// Whether Velero has it in a location that is labelled as that of a tenant's own bucket.
    fn is_in_labelled(&self, velero: &Backup) -> bool {
        let location = velero.spec.storage_location();
        let location = location.and_then(|name| self.caches.velero_locations.get(&self.caches.velero_namespace, name));
        location.is_some_and(|location| is_labelled(&*location))
    }

    /// For how long it should have been gone.
    fn overdue(&self, backup: &NonAdminBackup, origin: &Origin) -> Duration {
        let velero = self.caches.velero_backups.get(&self.caches.velero_namespace, &origin.nacuuid);
        let expired = velero.and_then(|velero| velero.status.as_ref()?.expiration());
        let deleted = backup.metadata.deletion_timestamp.as_ref().map(|deleted| deleted.0);
        deleted.or(expired).map(request::passed_since).unwrap_or_default()
    }

    /// The location of a backup that does not say yet that the backup is let go.
    fn unnoted_in(&self, place: &Place, origin: &Origin) -> Option<Victim> {
        let Place::Location(name) = place else { return None };
        let location = self.caches.locations.get(&origin.namespace, name)?;
        let is_noted = location.annotations().contains_key(&let_go_annotation(&origin.nacuuid));
        (!is_noted).then(|| Victim { name: name.clone(), uid: location.uid().unwrap_or_default() })
    }

    fn is_proven(&self, said: &Origin) -> bool {
        self.caches.backup_claimed(Claimant::by_its_own_word(said)).is_some_and(|found| found.is_own)
    }

    fn location_phase(&self, origin: &Origin) -> Option<LocationPhase> {
        let (all, namespace) = (&self.caches.velero_locations, self.caches.velero_namespace.as_str());
        let location = all.get(namespace, &origin.nacuuid)?;
        // What Velero says of it now may be too long to be read: its server may have written that.
        let is_readable = all.as_stored(namespace, &origin.nacuuid).is_some();
        let is_ours = origin.owns(&marks::LOCATION.marks(&location.metadata));
        is_ours.then(|| if is_readable { phase_of(&location) } else { LocationPhase::Other })
    }

    /// Of the location of the administrator's that the backup lies in, or would go to.
    fn administrators_phase(&self, backup: &NonAdminBackup) -> Option<LocationPhase> {
        let locations = self.caches.velero_locations.in_namespace(&self.caches.velero_namespace);
        let made = backup.status.as_ref().and_then(|status| status.velero_backup.as_ref()?.spec.as_ref());
        let location = administrators(&locations, made.and_then(|made| made.storage_location()));
        location.map(phase_of)
    }

    fn velero(&self, origin: &Origin) -> Option<Handed> {
        let backup = self.caches.velero_backups.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        let transfers = self.caches.transfers.of_backup(&origin.nacuuid);
        Some(request::handed(&*backup, marks::BACKUP, &backup.spec.0.0, &self.caches.backup_queue, transfers))
    }

    fn deletions(&self, origin: &Origin) -> Vec<Deletion> {
        let deletions = self.caches.velero_deletions.by(DELETIONS_OF_BACKUP, &origin.nacuuid);
        deletions
            .iter()
            .filter(|deletion| !is_deleting(&deletion.metadata))
            .map(|deletion| deletion_seen(deletion))
            .collect()
    }

    fn restores(&self, backup: &NonAdminBackup) -> Vec<Victim> {
        let name = backup.name_any();
        let restores = self.caches.restores.in_namespace(&backup.namespace().unwrap_or_default()).into_iter();
        restores
            .filter(|restore| restore.spec.restore_spec.backup_name() == Some(&name) && !is_deleting(&restore.metadata))
            .map(|restore| Victim { name: restore.name_any(), uid: restore.uid().unwrap_or_default() })
            .collect()
    }

    /// Metadata of what is made in Velero's namespace.
    fn metadata(&self, seen: &Seen, origin: &Origin) -> ObjectMeta {
        let mut metadata = marks::BACKUP.metadata(origin, &self.caches.velero_namespace);
        if seen.observed.own_bucket.is_some() {
            metadata.labels.get_or_insert_default().insert(OWN_BUCKET_LABEL.into(), OWN_BUCKET_VALUE.into());
        }
        metadata
    }

    fn deletion(&self, seen: &Seen, name: &str, origin: &Origin, backup: &Victim) -> DeleteBackupRequest {
        let mut metadata = self.metadata(seen, origin);
        metadata.name = Some(name.to_owned());
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(BACKUP_NAME_LABEL.into(), backup.name.clone());
        labels.insert(BACKUP_UID_LABEL.into(), backup.uid.clone());
        DeleteBackupRequest { metadata, spec: DeleteBackupRequestSpec::for_backup(&backup.name), status: None }
    }
}

/// The location a backup `lies_in`, whichever is Velero's default by now; of one that lies nowhere yet the one that says it is the
/// default. Velero may have been told otherwise that one is.
fn administrators<'a>(
    locations: &'a [Arc<BackupStorageLocation>],
    lies_in: Option<&str>,
) -> Option<&'a BackupStorageLocation> {
    let is_it = |location: &&Arc<BackupStorageLocation>| match lies_in {
        Some(name) => location.metadata.name.as_deref() == Some(name),
        None => location.spec.is_default(),
    };
    locations.iter().find(is_it).map(|location| &**location)
}

fn phase_of(location: &BackupStorageLocation) -> LocationPhase {
    match location.phase() {
        Some("Available") if location.spec.access_mode() == Some("ReadOnly") => LocationPhase::ReadOnly,
        Some("Available") => LocationPhase::Available,
        _ => LocationPhase::Other,
    }
}

/// Where it is stays open as long as it may be made, or is to go.
fn is_decided(backup: &NonAdminBackup) -> bool {
    let status: Status = objects::status(backup.status.as_ref());
    let is_to_go = is_deleting(&backup.metadata) || backup.spec.delete_backup || backup.spec.force_delete_backup;
    let generation = backup.metadata.generation.unwrap_or_default();
    !is_to_go && croft_core::backup::is_decided(status.phase, &status.conditions, generation)
}

fn is_labelled(object: &impl ResourceExt) -> bool {
    object.labels().get(OWN_BUCKET_LABEL).is_some_and(|value| value == OWN_BUCKET_VALUE)
}

/// What the request says it was made for, if it says so.
fn said_to_be(backup: &NonAdminBackup) -> Option<Origin> {
    let nacuuid = backup.labels().get(NAB_SYNCED_FROM_NACUUID_LABEL).filter(|nacuuid| !nacuuid.is_empty())?;
    let namespace = backup.namespace().unwrap_or_default();
    Some(Origin { namespace, name: backup.name_any(), nacuuid: nacuuid.clone() })
}

fn deletion_seen(deletion: &DeleteBackupRequest) -> Deletion {
    Deletion {
        name: deletion.name_any(),
        uid: deletion.uid().unwrap_or_default(),
        version: deletion.resource_version().unwrap_or_default(),
        marks: marks::BACKUP.marks(&deletion.metadata),
        age: request::age(deletion),
        status: deletion.status.as_ref().map(|status| status.0.0.clone()).unwrap_or_default(),
    }
}

impl Reconciler for BackupReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        BACKUP
    }

    fn all(&self) -> Vec<Key> {
        self.caches.backups.all().iter().map(|object| super::key(BACKUP, &**object)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(cached) = stored::known(&self.writer, &self.caches.backups, key).await? else { return Ok(None) };
        let known: Status = objects::status(cached.status.as_ref());
        let origin = request::object(&self.caches, &*cached, NAB_FINALIZER).origin(known.velero_backup.as_ref());
        let is_with_velero = self.caches.velero_backups.exists(&self.caches.velero_namespace, &origin.nacuuid);
        let newest = stored::newest(&self.writer, cached, &known.conditions, is_with_velero, NAB_FINALIZER).await?;
        let Some(backup) = newest else { return Ok(None) };
        let place = self.caches.place_of(&backup, &self.caches.home_of(&key.namespace));
        let mut observed = Observed {
            object: request::object(&self.caches, &*backup, NAB_FINALIZER),
            spec: backup.spec.backup_spec.0.0.clone(),
            delete_backup: backup.spec.delete_backup,
            force_delete_backup: backup.spec.force_delete_backup,
            status: objects::status(backup.status.as_ref()),
            location: self.location(&backup, place.clone()).await?,
            velero: None,
            lies: Lies::Nowhere,
            deletions: Vec::new(),
            restores: self.restores(&backup),
            is_synced: false,
            unnoted_in: None,
            own_bucket: None,
            missing_fences: self.caches.missing_around_hooks(self.settings.load().backup.hooks)?,
            overdue: Duration::ZERO,
            ended: None,
        };
        if let Some(said) = said_to_be(&backup) {
            observed.is_synced = true;
            if self.is_proven(&said) {
                observed.status.velero_backup.get_or_insert_default().nacuuid.get_or_insert(said.nacuuid);
            }
        }
        observed.object.ahead =
            self.caches.backups_ahead(&backup, self.settings.load().backup.limits.unfinished_backups);
        let origin = observed.origin();
        observed.velero = self.velero(&origin);
        if let Some(velero) = observed.velero.as_mut().filter(|_| observed.is_synced) {
            // It was made for another request: this one is told from it.
            velero.made_for = None;
        }
        observed.lies = observed.velero.as_ref().map(|velero| self.caches.lies(&velero.spec)).unwrap_or_default();
        observed.deletions = self.deletions(&origin);
        observed.unnoted_in = self.unnoted_in(&place, &origin);
        observed.own_bucket = self.own_bucket(&place, &origin)?;
        observed.overdue = self.overdue(&backup, &origin);
        let completed = observed.velero.as_ref().and_then(|velero| Progress(&velero.status).completed());
        observed.ended = completed.and_then(|completed| request::since(&completed));
        Ok(Some(Seen { request: backup, observed }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<Step> {
        backup::plan(&seen.observed, &request::policy(&self.caches, &self.settings))
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let object = &seen.observed.object;
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.request, NAB_FINALIZER).await,
            Step::Hold { .. } => request::hold(&self.writer, &*seen.request, NAB_FINALIZER).await,
            Step::CreateBackup { origin, spec, made_for } => {
                let mut metadata = request::made_for(self.metadata(seen, origin), made_for);
                if let Some(scheduled) = schedule::noted(&*seen.request) {
                    // Whoever finds the Backup in the bucket knows whose it is to keep.
                    schedule::note(&mut metadata, scheduled);
                }
                self.writer.create(&Backup { metadata, spec: spec.clone().into(), status: None }).await
            }
            Step::Label(Victim { name, uid }) => {
                let patch = json!({ "metadata": { "labels": { OWN_BUCKET_LABEL: OWN_BUCKET_VALUE } } });
                let target = Target { namespace: &self.caches.velero_namespace, name, uid };
                self.writer.merge::<Backup>(target, None, patch).await
            }
            Step::DeleteSelf { .. } => {
                self.writer.delete::<NonAdminBackup>(objects::target(&seen.request.metadata), None).await
            }
            Step::DeleteRestore(victim) => {
                request::delete::<NonAdminRestore>(&self.writer, &seen.observed.object.namespace, victim).await
            }
            Step::CreateDeletion { name, origin, backup } => {
                match self.writer.create(&self.deletion(seen, name, origin, backup)).await {
                    Err(failure) if object.leaves_behind(&failure) => Ok(Written::elsewhere()),
                    result => result,
                }
            }
            Step::DeleteDeletion { deletion, version } => {
                request::remove::<DeleteBackupRequest>(&self.writer, &self.caches, object, deletion, Some(version))
                    .await
            }
            Step::NoteLetGo { location: Victim { name, uid }, nacuuid } => {
                let patch = json!({ "metadata": { "annotations": { let_go_annotation(nacuuid): timestamp() } } });
                let target = Target { namespace: &object.namespace, name, uid };
                gone_is_done(self.writer.merge::<NonAdminBackupStorageLocation>(target, None, patch).await)
            }
            Step::DeleteBackup { backup, version } => {
                request::remove::<Backup>(&self.writer, &self.caches, object, backup, Some(version)).await
            }
            Step::ReleaseFinalizer { .. } => self.writer.release_finalizer(&*seen.request, NAB_FINALIZER).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let before = &seen.observed.status;
        match backup::report(&seen.observed, &request::policy(&self.caches, &self.settings), outcomes, now) {
            Some(after) => request::told(&*seen.request, (before, &before.conditions), (&after, &after.conditions)),
            None => Report::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_judged_by_the_location_it_lies_in_and_not_by_the_default_of_today() {
        let location = |name: &str, is_default: bool| {
            let location = json!({ "metadata": { "name": name }, "spec": { "default": is_default } });
            Arc::new(serde_json::from_value::<BackupStorageLocation>(location).unwrap())
        };
        let locations = [location("old", false), location("new", true)];
        let found = |lies_in| administrators(&locations, lies_in).map(ResourceExt::name_any);
        assert_eq!(found(Some("old")).as_deref(), Some("old"));
        assert_eq!(found(None).as_deref(), Some("new"));
        assert_eq!(found(Some("gone")), None);
    }
}
