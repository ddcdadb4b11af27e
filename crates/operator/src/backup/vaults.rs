//! Which vault is whose, and which change wakes which vault.

use std::sync::Arc;

use croft_api::{
    backup::{BackupVault, NonAdminBackup, NonAdminBackupStorageLocation},
    velero::Backup,
};
use croft_core::{
    backup::{
        Progress,
        place::{self, Home, Place, Stored},
    },
    storage::Reason,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt, api::ObjectMeta};

use super::{BACKUP, Caches, LOCATION, VAULT, key, marks, vault::vault_seen};
use crate::{
    engine::{Change, Key, is_deleting},
    objects::controlling,
    storage::Warehouse,
};

/// Index: what Velero knows a location by -> the location.
const KNOWN_AS: &str = "known-as";

/// What Velero knows a location by.
pub(super) fn velero_name(location: &NonAdminBackupStorageLocation) -> Option<&str> {
    location.status.as_ref()?.velero_backup_storage_location.as_ref()?.nacuuid.as_deref()
}

/// UID of the vault that controls a location of its own name. Others may write any UID into a reference.
pub(super) fn vault_owner(location: &ObjectMeta) -> Option<String> {
    let owner = controlling(location)?;
    let is_vault = owner.kind == BackupVault::kind(&()) && owner.api_version == BackupVault::api_version(&());
    (is_vault && Some(&owner.name) == location.name.as_ref()).then(|| owner.uid.clone())
}

impl Caches {
    /// See [`Home`].
    pub(super) fn home_of<'a>(&'a self, namespace: &'a str) -> Home<'a> {
        Home::found_by(move || {
            let vaults = self.vaults.in_namespace(namespace);
            place::home(vaults.iter().map(|vault| place::Vault {
                name: vault.metadata.name.as_deref().unwrap_or_default(),
                created: vault.metadata.creation_timestamp.as_ref().map(|created| created.0),
                is_deleting: is_deleting(&vault.metadata),
            }))
        })
    }

    /// `home`: that of the backup's namespace.
    pub(super) fn place_of(&self, backup: &NonAdminBackup, home: &Home<'_>) -> Place {
        let made = backup.status.as_ref().and_then(|status| status.velero_backup.as_ref()?.spec.as_ref());
        let stored = made.map(|spec| {
            let known_as = spec.storage_location().map(str::to_owned);
            let own =
                known_as.as_ref().and_then(|known_as| self.known_as(backup.metadata.namespace.as_ref()?, known_as));
            Stored { lies: self.lies(&spec.0.0), own: own.map(|location| location.name_any()), known_as }
        });
        Place::of(backup.spec.backup_spec.storage_location(), stored, home)
    }

    /// The location of a namespace that Velero knows by that name.
    pub(super) fn known_as(&self, namespace: &str, name: &str) -> Option<Arc<NonAdminBackupStorageLocation>> {
        let mut found = self.locations.by(KNOWN_AS, name).into_iter();
        found.find(|location| location.metadata.namespace.as_deref() == Some(namespace))
    }

    /// Backups of a namespace that name no location and wait: which vault is theirs may have changed.
    fn homeless_backups(&self, namespace: &str) -> Vec<Key> {
        let backups = self.unqueued_backups(namespace);
        let homeless = backups.iter().filter(|backup| backup.spec.backup_spec.storage_location().is_none());
        homeless.map(|backup| key(BACKUP, &**backup)).collect()
    }

    /// The vault behind a location, if there is one.
    pub(super) fn vault_of(&self, location: &NonAdminBackupStorageLocation) -> Option<Arc<BackupVault>> {
        let vault = self.vaults.get(&location.namespace()?, &location.name_any())?;
        (vault_owner(&location.metadata) == vault.uid()).then_some(vault)
    }

    pub(super) fn wake_vaults(&self) {
        self.vaults.looked_after_by(VAULT);
        self.locations.index(KNOWN_AS, |location| velero_name(location).map(str::to_owned).into_iter().collect());
        let seen = self.clone();
        self.vaults.wakes(move |change: Change<'_, BackupVault>| {
            let view = |vault: &BackupVault| {
                (vault.metadata.generation, is_deleting(&vault.metadata), vault.finalizers().to_vec())
            };
            if change.before.map(view) == change.after.map(view) {
                return Vec::new();
            }
            let mut keys = seen.homeless_backups(&change.object().namespace().unwrap_or_default());
            keys.push(key(VAULT, change.object()));
            keys
        });
        let seen = self.clone();
        self.namespaces.wakes(move |change: Change<'_, Namespace>| {
            // Its team, and the classes it is offered.
            if change.before.map(ResourceExt::labels) == change.after.map(ResourceExt::labels) {
                return Vec::new();
            }
            let vaults = seen.vaults.in_namespace(&change.object().name_any());
            vaults.iter().map(|vault| key(VAULT, &**vault)).collect()
        });
        let seen = self.clone();
        self.locations.wakes(move |change: Change<'_, NonAdminBackupStorageLocation>| {
            let vault = Key::new(VAULT, change.object().namespace().unwrap_or_default(), change.object().name_any());
            if seen.vaults.exists(&vault.namespace, &vault.name) { vec![vault] } else { Vec::new() }
        });
        let seen = self.clone();
        self.velero_backups.wakes(move |change: Change<'_, Backup>| seen.vault_filled_by(change).into_iter().collect());
        let Some(warehouse) = &self.warehouse else { return };
        let (of_class, short) = (self.clone(), self.clone());
        warehouse.wakes(
            |namespace, name| [VAULT, LOCATION].map(|work| Key::new(work, namespace, name)).into(),
            move |class| of_class.vaults_of_class(class),
            move |namespace| short.vaults_short_of_quota(namespace),
        );
    }

    /// The vault a backup was stored in, when it is finished or gone.
    fn vault_filled_by(&self, change: Change<'_, Backup>) -> Option<Key> {
        let is_finished = |backup: &Backup| {
            let status = backup.status.as_ref();
            status.is_some_and(|status| Progress(&status.0.0).is_finished())
        };
        if change.before.is_some_and(is_finished) == change.after.is_some_and(is_finished) {
            return None;
        }
        let location = self.velero_locations.get(&self.velero_namespace, change.object().spec.storage_location()?)?;
        let vault = marks::LOCATION.request(VAULT, &location.metadata)?;
        self.vaults.exists(&vault.namespace, &vault.name).then_some(vault)
    }

    /// Those in the class, and those that may wait for one.
    fn vaults_of_class(&self, class: &str) -> Vec<Key> {
        let vaults = self.vaults.all();
        let concerned = vaults.iter().filter(|vault| {
            let seen = vault_seen(vault);
            !seen.is_settled() || seen.status.s3_class_name.as_deref() == Some(class)
        });
        let left = |warehouse: &Arc<Warehouse>| {
            let records = warehouse.records().into_iter();
            let left = records.filter(|((namespace, name), record)| {
                let is_in_class = record.body.class.as_deref() == Some(class);
                is_in_class && !warehouse.rests(record) && !self.vaults.exists(namespace, name)
            });
            left.collect::<Vec<_>>()
        };
        let gone = self.warehouse.iter().flat_map(left);
        let gone = gone.map(|((namespace, name), _)| Key::new(VAULT, namespace, name));
        concerned.map(|vault| key(VAULT, &**vault)).chain(gone).collect()
    }

    fn vaults_short_of_quota(&self, namespace: &str) -> Vec<Key> {
        let vaults = self.vaults.in_namespace(namespace);
        let short = vaults.iter().filter(|vault| {
            vault_seen(vault).status.conditions.reason("Ready") == Some(Reason::QuotaExceeded.as_str())
        });
        short.map(|vault| key(VAULT, &**vault)).collect()
    }
}
