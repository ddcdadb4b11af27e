//! `BackupVault`: observes for [`croft_core::backup::vault`] and carries out its steps.

use std::sync::Arc;

use croft_api::{
    backup::{
        BackupVault, NonAdminBackupStorageLocation, NonAdminBackupStorageLocationSpec, VAULT_FINALIZER, validate,
    },
    storage::S3User,
};
use croft_core::{
    backup::{
        Progress,
        ownership::Origin,
        vault::{self, CLOUD, KeysSeen, LastBackup, LocationSeen, Observed, Status, Step, Vault},
    },
    plan::{Failure, FailureClass, Outcome, Plan},
    storage::{
        NoClass,
        claim::{Backend, Books, ClaimIdentity, Record},
    },
    time::Timestamp,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::{BACKUPS_IN_LOCATION, Caches, VAULT, marks, request, vaults::vault_owner};
use crate::{
    conditions,
    engine::{Key, Reconciler, Report, Target, Work, Writer, Written, is_deleting, write::read},
    objects,
    settings::SharedSettings,
    storage::{Ceph, Looked, Warehouse},
};

#[derive(Debug)]
pub(super) struct VaultReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
}

#[derive(Debug)]
pub(super) struct Seen {
    raw: Option<Arc<BackupVault>>,
    user: Option<Arc<S3User>>,
    ceph: Option<Ceph>,
    observed: Observed,
}

impl VaultReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings }
    }

    fn warehouse(&self) -> Result<&Warehouse, Failure> {
        self.caches.warehouse.as_deref().ok_or_else(no_longer_there)
    }

    fn user(&self, key: &Key) -> Option<Arc<S3User>> {
        self.caches.warehouse.as_ref()?.user(&key.namespace, &key.name)
    }

    /// The vault from the cache, or from the API server itself: if it could not be read, or what it has is about to be taken down
    /// because it is missing.
    async fn vault(&self, key: &Key) -> Result<Option<Arc<BackupVault>>, Failure> {
        if let Some(vault) = self.caches.vaults.as_stored(&key.namespace, &key.name) {
            return Ok(Some(vault));
        }
        let api: Api<BackupVault> = Api::namespaced(self.writer.client(), &key.namespace);
        Ok(read(api.get_opt(&key.name)).await?.map(Arc::new))
    }

    /// The Secret of a vault in Velero's namespace, with its content.
    async fn keys(&self, vault: Option<&ClaimIdentity>) -> Result<Option<KeysSeen>, Failure> {
        let Some(vault) = vault else { return Ok(None) };
        let name = vault::keys_origin(vault).nacuuid;
        if !self.caches.secrets.exists(&self.caches.velero_namespace, &name) {
            return Ok(None);
        }
        let secrets: Api<Secret> = Api::namespaced(self.writer.client(), &self.caches.velero_namespace);
        let Some(secret) = read(secrets.get_opt(&name)).await? else { return Ok(None) };
        let cloud = secret.data.as_ref().and_then(|data| data.get(CLOUD));
        let text = |value: &ByteString| croft_core::secret::Secret::new(String::from_utf8_lossy(&value.0));
        Ok(Some(KeysSeen {
            target: objects::seen(&secret.metadata),
            marks: marks::VAULT.marks(&secret.metadata),
            cloud: cloud.map(text),
        }))
    }

    fn location(&self, key: &Key) -> Option<LocationSeen> {
        let location = self.caches.locations.get(&key.namespace, &key.name)?;
        let conditions = location.status.as_ref().map(|status| conditions::from_api(&status.conditions));
        let velero = location.status.as_ref().and_then(|status| status.velero_backup_storage_location.as_ref());
        let velero = velero.and_then(|velero| velero.status.as_ref());
        let is_available = velero.and_then(|status| status.text("phase")) == Some("Available");
        let refused = conditions.as_ref().and_then(|conditions| conditions.get("Accepted"));
        let refused = refused.filter(|accepted| accepted.status != croft_core::conditions::Truth::True);
        let told = refused.map(|accepted| accepted.message.clone());
        Some(LocationSeen {
            target: objects::seen(&location.metadata),
            owner: vault_owner(&location.metadata),
            deleting: is_deleting(&location.metadata),
            spec: location.spec.backup_storage_location_spec.0.0.clone(),
            is_available,
            told: told.or_else(|| velero.and_then(|status| status.text("message")).map(str::to_owned)),
        })
    }

    /// The backup in the vault that was finished last.
    fn last_backup(&self, key: &Key) -> Option<LastBackup> {
        let location = self.caches.locations.get(&key.namespace, &key.name)?;
        let place = location.status.as_ref()?.velero_backup_storage_location.as_ref()?.name.clone()?;
        let backups = self.caches.velero_backups.by(BACKUPS_IN_LOCATION, &place);
        let finished = backups.iter().filter_map(|backup| {
            let progress = Progress(&backup.status.as_ref()?.0.0);
            let is_good = matches!(progress.phase(), Some("Completed" | "PartiallyFailed"));
            let marks = marks::BACKUP.marks(&backup.metadata);
            let name = marks.name.filter(|_| is_good && marks.namespace.as_ref() == Some(&key.namespace))?;
            Some(LastBackup { name, completion_time: progress.completed()? })
        });
        finished.max_by(|one, other| one.completion_time.cmp(&other.completion_time))
    }

    fn keys_secret(&self, origin: &Origin, cloud: &croft_core::secret::Secret) -> Secret {
        Secret {
            metadata: marks::VAULT.metadata(origin, &self.caches.velero_namespace),
            data: Some([(CLOUD.to_owned(), ByteString(cloud.expose().into()))].into()),
            ..Secret::default()
        }
    }

    /// One step is one call.
    async fn carry_out(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let velero = self.caches.velero_namespace.as_str();
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(seen.raw()?, VAULT_FINALIZER).await,
            Step::RemoveFinalizer { .. } => self.writer.release_finalizer(seen.raw()?, VAULT_FINALIZER).await,
            Step::Confirm { vault, generation, units } => self.warehouse()?.confirm(vault, *generation, *units).await,
            Step::Settle { vault, generation, seen, has } => {
                self.warehouse()?.settle(vault, *generation, seen, *has).await
            }
            Step::ReleaseQuota { namespace, vault, seen } => self.warehouse()?.release(namespace, vault, seen).await,
            Step::CreateRecord { name, body } => self.warehouse()?.create_record(name, body).await,
            Step::UpdateRecord { name, seen, body } => self.warehouse()?.update_record(name, seen, body).await,
            Step::MarkRecord { name, seen: version, mark } => {
                self.warehouse()?.mark_record(seen.user.as_deref(), name, version, mark).await
            }
            Step::DeleteRecord { name, seen } => self.warehouse()?.delete_record(name, seen).await,
            Step::Ceph(step) => seen.ceph()?.carry_out(step).await,
            Step::CreateBucket { bucket, key, .. } => seen.ceph()?.create_bucket(bucket, key).await,
            Step::CreateKeys { origin, cloud } => self.writer.create(&self.keys_secret(origin, cloud)).await,
            Step::UpdateKeys { keys, origin, cloud } => {
                let secrets: Api<Secret> = Api::namespaced(self.writer.client(), velero);
                let data = self.keys_secret(origin, cloud).data;
                let target = Target { namespace: velero, name: &keys.name, uid: &keys.uid };
                request::replace(secrets, target, [("/data", json!(data))]).await
            }
            Step::DeleteKeys(victim) => match request::delete::<Secret>(&self.writer, velero, victim).await {
                // Nobody's namespace is held up because we are not let near Velero's.
                Err(failure) if seen.observed.namespace_terminating && failure.class == FailureClass::Forbidden => {
                    Ok(Written::elsewhere())
                }
                result => result,
            },
            Step::CreateLocation { vault, spec } => {
                let metadata = ObjectMeta {
                    namespace: Some(vault.namespace.clone()),
                    name: Some(vault.name.clone()),
                    owner_references: Some(vec![owner(vault)]),
                    ..ObjectMeta::default()
                };
                let spec = NonAdminBackupStorageLocationSpec { backup_storage_location_spec: spec.clone().into() };
                self.writer.create(&NonAdminBackupStorageLocation { metadata, spec, status: None }).await
            }
            Step::UpdateLocation { location, spec } => {
                let namespace = location.namespace.as_str();
                let locations: Api<NonAdminBackupStorageLocation> = Api::namespaced(self.writer.client(), namespace);
                let target = Target { namespace, name: &location.name, uid: &location.uid };
                request::replace(locations, target, [("/spec/backupStorageLocationSpec", json!(spec))]).await
            }
            Step::DeleteLocation(victim) => {
                let namespace = seen.raw()?.namespace().unwrap_or_default();
                request::delete::<NonAdminBackupStorageLocation>(&self.writer, &namespace, victim).await
            }
        }
    }
}

impl Seen {
    fn raw(&self) -> Result<&BackupVault, Failure> {
        self.raw.as_deref().ok_or_else(no_longer_there)
    }

    fn ceph(&self) -> Result<&Ceph, Failure> {
        self.ceph.as_ref().ok_or_else(no_longer_there)
    }
}

/// A vault as stored.
pub(super) fn vault_seen(vault: &BackupVault) -> Vault {
    Vault {
        target: objects::seen(&vault.metadata),
        generation: vault.metadata.generation.unwrap_or_default(),
        deleting: is_deleting(&vault.metadata),
        finalizer: objects::has_finalizer(&vault.metadata, VAULT_FINALIZER),
        spec: validate::vault(vault),
        status: objects::status::<Status>(vault.status.as_ref()),
    }
}

/// It goes with its vault, whatever becomes of us.
fn owner(vault: &croft_core::storage::Target) -> OwnerReference {
    OwnerReference {
        api_version: BackupVault::api_version(&()).into_owned(),
        kind: BackupVault::kind(&()).into_owned(),
        name: vault.name.clone(),
        uid: vault.uid.clone(),
        controller: Some(true),
        // Kubernetes may ask for a right on the owner's finalizers otherwise.
        block_owner_deletion: Some(false),
    }
}

/// A step that needs what was not observed: the next look will tell.
fn no_longer_there() -> Failure {
    Failure::new(FailureClass::Stale, "Stale", "not as it was seen")
}

impl Reconciler for VaultReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        VAULT
    }

    fn all(&self) -> Vec<Key> {
        let vaults = self.caches.vaults.all();
        let unsettled = vaults.iter().filter(|vault| !vault_seen(vault).is_settled());
        unsettled.map(|vault| super::key(VAULT, &**vault)).chain(self.left_behind()).collect()
    }

    /// All of them: what others change in Ceph tells nobody.
    fn resync(&self) -> Vec<Key> {
        let vaults = self.caches.vaults.all();
        vaults.iter().map(|vault| super::key(VAULT, &**vault)).chain(self.left_behind()).collect()
    }

    fn lane(&self, key: &Key) -> Option<String> {
        let vault = self.caches.vaults.get(&key.namespace, &key.name).map(|vault| vault_seen(&vault));
        let record = self.user(key).map(|user| Warehouse::record(&user));
        self.caches.warehouse.as_ref()?.address(vault::class_of(vault.as_ref(), record.as_ref()))
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let user = self.user(key);
        if user.is_none() && !self.caches.vaults.exists(&key.namespace, &key.name) {
            return Ok(None);
        }
        let raw = self.vault(key).await?;
        let seen = raw.as_deref().map(vault_seen);
        let record = user.as_deref().map(Warehouse::record);
        let (Looked { backend, ceph, ca_bundle, lost }, books) =
            self.backend(key, seen.as_ref(), record.as_ref()).await?;
        let recorded = record.as_ref().and_then(|record| record.body.claim.clone());
        let own = seen.as_ref().map(Vault::identity).or_else(|| recorded.clone());
        let earlier = recorded.filter(|recorded| Some(recorded) != own.as_ref());
        let namespace = self.caches.namespaces.get("", &key.namespace);
        let limit = self.settings.load().backup.limits.vaults;
        let mut observed = Observed {
            vault: seen,
            namespace_terminating: namespace.as_ref().is_none_or(|namespace| is_deleting(&namespace.metadata)),
            namespace_uid: namespace.and_then(|namespace| namespace.uid()),
            record,
            backend,
            ca_bundle,
            books,
            keys: self.keys(own.as_ref()).await?,
            earlier_keys: self.keys(earlier.as_ref()).await?,
            location: self.location(key),
            last_backup: self.last_backup(key),
            lost,
            is_key_refused: false,
            fresh: Warehouse::fresh_keys(),
            ahead: raw.as_deref().map_or(0, |vault| self.caches.vaults_ahead(vault, limit)),
            limit,
        };
        if let (Some(ceph), Some(warehouse), Some(tried)) =
            (&ceph, &self.caches.warehouse, vault::key_to_try(&observed))
        {
            observed.is_key_refused = warehouse.refuses(ceph, &tried, key.clone()).await;
        }
        Ok(Some(Seen { raw, user, ceph, observed }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        vault::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let done = self.carry_out(seen, step).await;
        let (Backend::Reached(reached), Some(warehouse)) = (&seen.observed.backend, &self.caches.warehouse) else {
            return done;
        };
        warehouse.heed(&reached.class.name, &done);
        if let (Step::CreateBucket { user, key, .. }, Some(ceph), Some(raw)) = (step, &seen.ceph, &seen.raw) {
            warehouse.heed_key(done.as_ref().err(), ceph, (user, key), super::key(VAULT, &**raw)).await;
        }
        done
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let retry = vault::must_retry(&seen.observed);
        let (Some(raw), Some(status)) = (&seen.raw, vault::report(&seen.observed, outcomes, now)) else {
            return Report { retry, ..Report::default() };
        };
        let before: Status = objects::status(raw.status.as_ref());
        let events = conditions::news(&before.conditions, &status.conditions);
        let status = (raw.status.is_none() || before != status)
            .then(|| objects::status_over(raw.status.as_ref(), &status))
            .flatten();
        Report { retry, ..Report::on(&**raw, status.as_ref(), events) }
    }

    fn unseen(&self, key: &Key, failure: &Failure, now: &Timestamp) -> Report {
        let vault = self.caches.vaults.get(&key.namespace, &key.name);
        vault.map_or_else(Report::default, |vault| conditions::unseen(&*vault, vault.status.as_ref(), failure, now))
    }
}

impl VaultReconciler {
    /// Vaults that are gone and whose S3User still needs looking after.
    fn left_behind(&self) -> Vec<Key> {
        let Some(warehouse) = &self.caches.warehouse else { return Vec::new() };
        let left = warehouse.records().into_iter().filter(|((namespace, name), record)| {
            !warehouse.rests(record) && !self.caches.vaults.exists(namespace, name)
        });
        left.map(|((namespace, name), _)| Key::new(VAULT, namespace, name)).collect()
    }

    async fn backend(
        &self,
        key: &Key,
        vault: Option<&Vault>,
        record: Option<&Record>,
    ) -> Result<(Looked, Books), Failure> {
        let Some(warehouse) = &self.caches.warehouse else {
            return Ok((Looked::blind(Backend::NoClass(NoClass::Disabled)), Books::default()));
        };
        let choice = vault::class_of(vault, record);
        let recorded = record.and_then(|record| record.body.user.clone());
        let called = |class: &croft_core::storage::Class| {
            let named = || vault::names::ceph_user(&class.tenant_prefix, &key.namespace, &key.name);
            recorded.clone().unwrap_or_else(named)
        };
        let looked = warehouse.look(&key.namespace, choice, vault::is_new(vault, record), called).await;
        let asked = vault.filter(|vault| !vault.deleting).and_then(|vault| vault.spec.as_ref().ok());
        let books =
            warehouse.books(&key.namespace, &key.name, asked.map(|spec| &spec.quota), record, &looked.backend).await?;
        Ok((looked, books))
    }
}
