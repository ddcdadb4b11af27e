//! `NonAdminBackupStorageLocation`: observes for [`croft_core::backup::location`] and carries out its steps.

use std::{collections::BTreeMap, sync::Arc};

use croft_api::{
    backup::{
        NABSL_FINALIZER, NonAdminBackup, NonAdminBackupStorageLocation, REGISTRY_LABEL, REGISTRY_LABEL_FALSE,
        REGISTRY_LABEL_TRUE, validate,
    },
    velero::{BackupStorageLocation, BackupStorageLocationSpec},
};
use croft_core::{
    backup::{
        Store, Victim,
        approval::Standing,
        location::{self, Claim, Copy, Observed, Status, Step, VeleroLocation, Version, copy_mark},
        ownership::Origin,
        validate::SecretKey,
    },
    plan::{Failure, FailureClass, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, ResourceExt, api::ObjectMeta};
use serde_json::json;

use super::{Caches, LOCATION, marks, request};
use crate::{
    engine::{Key, Reconciler, Report, Target, Work, Writer, Written, is_deleting, write::read},
    objects,
    settings::SharedSettings,
};

/// On a copied Secret: of what it is a copy. Lets us see from metadata alone whether it is up to date.
const COPY_OF_ANNOTATION: &str = "croft.dev/copy-of";

#[derive(Debug)]
pub(super) struct LocationReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
}

#[derive(Debug)]
pub(super) struct Seen {
    request: Arc<NonAdminBackupStorageLocation>,
    observed: Observed,
    velero_namespace: String,
    /// Where the Secret is that the spec names.
    secret_namespace: String,
}

impl LocationReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings }
    }

    /// The spec to work with, and the namespace of the Secret it names. What others write into the location of a vault counts
    /// for nothing: it is what the vault says, and its Secret is Velero's.
    fn spec(
        &self,
        location: &NonAdminBackupStorageLocation,
        standing: &Standing,
    ) -> (BackupStorageLocationSpec, String) {
        let Some(vault) = self.caches.vault_of(location) else {
            let mut spec = match standing {
                Standing::InForce { spec, .. } => spec.clone().into(),
                _ => location.spec.backup_storage_location_spec.clone(),
            };
            // What others put into a bucket appears in the cluster only where that was asked for in so many words.
            if spec.get("backupSyncPeriod").is_none() {
                spec.set("backupSyncPeriod", "0s");
            }
            return (spec, location.namespace().unwrap_or_default());
        };
        let spec = self.caches.warehouse.as_ref().and_then(|warehouse| warehouse.location_spec(&vault));
        (spec.unwrap_or_default().into(), self.caches.velero_namespace.clone())
    }

    /// State of the Secret the spec names.
    fn secret(&self, spec: &BackupStorageLocationSpec, namespace: &str) -> Option<Version> {
        let secret = self.caches.secrets.get(namespace, spec.credential()?.name)?;
        Some(version(&secret.metadata)).filter(|_| !is_deleting(&secret.metadata))
    }

    fn copy(&self, origin: &Origin) -> Option<Copy> {
        let secret = self.caches.secrets.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        Some(Copy {
            uid: secret.uid().unwrap_or_default(),
            marks: marks::LOCATION.marks(&secret.metadata),
            copy_of: secret.annotations().get(COPY_OF_ANNOTATION).cloned(),
        })
    }

    fn velero(&self, origin: &Origin) -> Option<VeleroLocation> {
        let location = self.caches.velero_locations.get(&self.caches.velero_namespace, &origin.nacuuid)?;
        Some(VeleroLocation {
            uid: location.uid().unwrap_or_default(),
            marks: marks::LOCATION.marks(&location.metadata),
            spec: location.spec.0.0.clone(),
            status: location.status.as_ref().map(|status| status.0.0.clone()).unwrap_or_default(),
        })
    }

    fn twin(&self, location: &NonAdminBackupStorageLocation) -> Option<String> {
        let all = self.caches.locations.in_namespace(&location.namespace()?);
        let all: Vec<Claim> = all.iter().map(|other| self.claim(other)).collect();
        location::twin(&self.claim(location), &all).map(str::to_owned)
    }

    fn claim(&self, location: &NonAdminBackupStorageLocation) -> Claim {
        let object = request::object(&self.caches, location, NABSL_FINALIZER);
        let status: Status = objects::status(location.status.as_ref());
        let origin = object.origin(status.velero_backup_storage_location.as_ref());
        let velero = self.velero(&origin).filter(|velero| origin.owns(&velero.marks));
        Claim {
            name: object.name,
            uid: object.uid,
            created: request::time(location.creation_timestamp().as_ref()),
            wanted: validate::location(location).ok().map(|spec| spec.store()),
            in_force: velero.map(|velero| Store::of(&velero.spec)),
        }
    }

    /// The backups stored in a location that are not yet being deleted.
    fn backups(&self, location: &NonAdminBackupStorageLocation, origin: &Origin) -> Vec<Victim> {
        let name = location.name_any();
        let is_here = |backup: &NonAdminBackup| {
            let named = backup.spec.backup_spec.storage_location();
            let stored = backup.status.as_ref().and_then(|status| status.velero_backup.as_ref()?.spec.as_ref());
            let stored = stored.and_then(|spec| spec.storage_location());
            named == Some(&name) || (named.is_none() && stored == Some(&origin.nacuuid))
        };
        let backups = self.caches.backups.in_namespace(&location.namespace().unwrap_or_default()).into_iter();
        backups
            .filter(|backup| is_here(backup) && !is_deleting(&backup.metadata))
            .map(|backup| Victim { name: backup.name_any(), uid: backup.uid().unwrap_or_default() })
            .collect()
    }

    /// The one key of the tenant's Secret, read now, and what the copy of it is marked with.
    async fn read_secret(&self, namespace: &str, source: &SecretKey) -> Result<(ByteString, String), Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.writer.client(), namespace);
        let Some(secret) = read(secrets.get_opt(&source.name)).await? else {
            return Err(Failure::new(FailureClass::Stale, "NotFound", format!("Secret {} is gone", source.name)));
        };
        let mark = copy_mark(&version(&secret.metadata), &source.key);
        let content = secret.data.and_then(|mut data| data.remove(&source.key));
        content.map(|content| (content, mark)).ok_or_else(|| {
            Failure::new(
                FailureClass::Rejected,
                "SecretKeyMissing",
                format!("Secret {} has no key {}", source.name, source.key),
            )
        })
    }

    async fn create_secret(&self, seen: &Seen, origin: &Origin, source: &SecretKey) -> Result<Written, Failure> {
        let (content, mark) = self.read_secret(&seen.secret_namespace, source).await?;
        let mut metadata = marks::LOCATION.metadata(origin, &seen.velero_namespace);
        metadata.annotations.get_or_insert_default().insert(COPY_OF_ANNOTATION.into(), mark);
        let data = Some(BTreeMap::from([(source.key.clone(), content)]));
        self.writer.create(&Secret { metadata, data, ..Secret::default() }).await
    }

    async fn update_secret(
        &self,
        seen: &Seen,
        origin: &Origin,
        uid: &str,
        source: &SecretKey,
    ) -> Result<Written, Failure> {
        let (content, mark) = self.read_secret(&seen.secret_namespace, source).await?;
        let mut annotations = marks::LOCATION.metadata(origin, &seen.velero_namespace).annotations.unwrap_or_default();
        annotations.insert(COPY_OF_ANNOTATION.into(), mark);
        let target = Target { namespace: &seen.velero_namespace, name: &origin.nacuuid, uid };
        let secrets: Api<Secret> = Api::namespaced(self.writer.client(), target.namespace);
        let fields = [("/metadata/annotations", json!(annotations)), ("/data", json!({ &source.key: content }))];
        request::replace(secrets, target, fields).await
    }
}

fn version(metadata: &ObjectMeta) -> Version {
    Version {
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

impl Reconciler for LocationReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        LOCATION
    }

    fn all(&self) -> Vec<Key> {
        self.caches.locations.all().iter().map(|object| super::key(LOCATION, &**object)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(location) = self.caches.locations.get(&key.namespace, &key.name) else { return Ok(None) };
        let standing = self.caches.standing(&location, &self.settings);
        let (spec, secret_namespace) = self.spec(&location, &standing);
        let mut observed = Observed {
            object: request::object(&self.caches, &*location, NABSL_FINALIZER),
            secret: self.secret(&spec, &secret_namespace),
            spec: spec.0.0,
            status: objects::status(location.status.as_ref()),
            copy: None,
            velero: None,
            twin: self.twin(&location),
            backups: Vec::new(),
            standing,
        };
        let origin = observed.origin();
        observed.backups = self.backups(&location, &origin);
        observed.copy = self.copy(&origin);
        observed.velero = self.velero(&origin);
        let velero_namespace = self.caches.velero_namespace.clone();
        Ok(Some(Seen { request: location, observed, velero_namespace, secret_namespace }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<Step> {
        location::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let velero = seen.velero_namespace.as_str();
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.request, NABSL_FINALIZER).await,
            Step::CreateSecret { origin, source } => self.create_secret(seen, origin, source).await,
            Step::UpdateSecret { origin, uid, source } => self.update_secret(seen, origin, uid, source).await,
            Step::CreateLocation { origin, spec, serves_registry } => {
                let mut metadata = marks::LOCATION.metadata(origin, velero);
                let registry = if *serves_registry { REGISTRY_LABEL_TRUE } else { REGISTRY_LABEL_FALSE };
                metadata.labels.get_or_insert_default().insert(REGISTRY_LABEL.into(), registry.into());
                self.writer.create(&BackupStorageLocation { metadata, spec: spec.clone().into(), status: None }).await
            }
            Step::UpdateLocation { name, uid, spec } => {
                let locations: Api<BackupStorageLocation> = Api::namespaced(self.writer.client(), velero);
                request::replace(locations, Target { namespace: velero, name, uid }, [("/spec", json!(spec))]).await
            }
            Step::DeleteSecret(victim) => request::delete::<Secret>(&self.writer, velero, victim).await,
            Step::DeleteLocation(victim) => {
                request::delete::<BackupStorageLocation>(&self.writer, velero, victim).await
            }
            Step::DeleteBackup(victim) => {
                request::delete::<NonAdminBackup>(&self.writer, &seen.observed.object.namespace, victim).await
            }
            Step::ReleaseFinalizer { .. } => self.writer.release_finalizer(&*seen.request, NABSL_FINALIZER).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let before = &seen.observed.status;
        match location::report(&seen.observed, &request::current(&self.caches, &self.settings), outcomes, now) {
            Some(after) => request::told(&*seen.request, (before, &before.conditions), (&after, &after.conditions)),
            None => Report::default(),
        }
    }
}
