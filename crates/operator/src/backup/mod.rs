//! Backups and restores for tenants, on Velero: what is watched, and which change wakes whom.
//!
//! Velero's own kinds are watched and written in Velero's namespace only. Secrets are watched as metadata; the one key a
//! location names is read when it is copied, and kept nowhere.

mod approval;
#[expect(clippy::module_inception, reason = "the part and one of its kinds have the same name")]
mod backup;
mod download;
mod fences;
mod hooks;
mod limits;
mod location;
mod marks;
mod queue;
mod request;
mod restore;
mod schedule;
mod sync;
mod transfers;
mod vault;
mod vaults;

use std::sync::Arc;

use croft_api::{
    backup::{
        BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation,
        NonAdminBackupStorageLocationRequest, NonAdminDownloadRequest, NonAdminRestore,
    },
    storage::S3Class,
    velero::{BACKUP_NAME_LABEL, Backup, BackupStorageLocation, DeleteBackupRequest, DownloadRequest, Restore},
    yaml_document,
};
use croft_core::{
    backup::{
        Fields, Presence, Progress,
        ownership::{Lies, Marks},
    },
    watching::Standing,
};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{Namespace, Secret},
};
use kube::{Resource, ResourceExt, api::PartialObjectMeta};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch::Receiver;

use self::{
    approval::ApprovalReconciler, backup::BackupReconciler, download::DownloadReconciler, hooks::Door,
    location::LocationReconciler, queue::Queue, restore::RestoreReconciler, schedule::ScheduleReconciler,
    sync::SyncReconciler, transfers::Transfers, vault::VaultReconciler,
};
use crate::{
    engine::{Cache, Change, EngineBuilder, Key, Part, Scope, Work, is_deleting},
    manifests::operator,
    parts::{Definition, Ground},
    rbac::{Use, Within},
    roles::TenantKinds,
    storage::Warehouse,
};

/// Of the kinds that are our own.
const GROUP: &str = "croft.dev";

const BACKUPS: Part = Part("backup");

const LOCATION: Work = BACKUPS.work("nonadminbackupstoragelocation");
const BACKUP: Work = BACKUPS.work("nonadminbackup");
const RESTORE: Work = BACKUPS.work("nonadminrestore");
const DOWNLOAD: Work = BACKUPS.work("nonadmindownloadrequest");
const APPROVAL: Work = BACKUPS.work("nonadminbackupstoragelocationrequest");
const SCHEDULE: Work = BACKUPS.work("backupschedule");
const VAULT: Work = BACKUPS.work("backupvault");
const SYNC: Work = BACKUPS.work("velerobackup");

/// Index: name of a Velero location -> Velero Backups in it.
const BACKUPS_IN_LOCATION: &str = "location";
/// Index: name of a Velero Backup -> requests to delete it.
const DELETIONS_OF_BACKUP: &str = "backup";

const fn ours(resource: &'static str, verbs: &'static [&'static str]) -> Use {
    Use { group: "oadp.openshift.io", resource, verbs, within: Within::Cluster }
}

const fn crofts(resource: &'static str, verbs: &'static [&'static str]) -> Use {
    Use { group: GROUP, resource, verbs, within: Within::Cluster }
}

const fn veleros(resource: &'static str, verbs: &'static [&'static str]) -> Use {
    Use { group: "velero.io", resource, verbs, within: Within::VeleroNamespace }
}

const fn policies(resource: &'static str) -> Use {
    Use { group: "admissionregistration.k8s.io", resource, verbs: &["list", "watch"], within: Within::Cluster }
}

/// The rights this part uses.
pub const USES: &[Use] = &[
    Use { group: "", resource: "namespaces", verbs: &["list", "watch"], within: Within::Cluster },
    Use { group: "", resource: "secrets", verbs: &["get", "list", "watch"], within: Within::Cluster },
    Use { group: "", resource: "secrets", verbs: &["create", "delete", "patch"], within: Within::VeleroNamespace },
    ours("nonadminbackups", &["create", "delete", "get", "list", "patch", "watch"]),
    ours("nonadminbackups/status", &["patch"]),
    ours("nonadminrestores", &["delete", "get", "list", "patch", "watch"]),
    ours("nonadminrestores/status", &["patch"]),
    ours("nonadminbackupstoragelocations", &["create", "delete", "get", "list", "patch", "watch"]),
    ours("nonadminbackupstoragelocations/status", &["patch"]),
    ours("nonadmindownloadrequests", &["delete", "list", "watch"]),
    ours("nonadmindownloadrequests/status", &["patch"]),
    crofts("backupschedules", &["create", "delete", "get", "list", "patch", "watch"]),
    crofts("backupschedules/status", &["patch"]),
    crofts("backupvaults", &["create", "delete", "get", "list", "patch", "watch"]),
    crofts("backupvaults/status", &["patch"]),
    Use {
        group: "oadp.openshift.io",
        resource: "nonadminbackupstoragelocationrequests",
        verbs: &["create", "delete", "list", "patch", "watch"],
        within: Within::VeleroNamespace,
    },
    Use {
        group: "oadp.openshift.io",
        resource: "nonadminbackupstoragelocationrequests/status",
        verbs: &["update"],
        within: Within::VeleroNamespace,
    },
    Use { group: "", resource: "configmaps", verbs: &["create", "get", "patch"], within: Within::VeleroNamespace },
    policies("validatingadmissionpolicies"),
    policies("validatingadmissionpolicybindings"),
    Use { group: "s3.snappcloud.io", resource: "s3classes", verbs: &["list", "watch"], within: Within::Cluster },
    veleros("backups", &["create", "delete", "get", "list", "watch"]),
    veleros("podvolumebackups", &["list", "watch"]),
    veleros("podvolumerestores", &["list", "watch"]),
    veleros("datauploads", &["list", "watch"]),
    veleros("datadownloads", &["list", "watch"]),
    veleros("restores", &["create", "delete", "list", "patch", "watch"]),
    veleros("deletebackuprequests", &["create", "delete", "list", "watch"]),
    veleros("downloadrequests", &["create", "delete", "list", "watch"]),
    veleros("backupstoragelocations", &["create", "delete", "list", "patch", "watch"]),
];

/// The part as a whole.
pub(crate) const PART: Definition = Definition {
    part: BACKUPS,
    groups: &["oadp.openshift.io", GROUP],
    uses: USES,
    // Only those who edit see a `NonAdminDownloadRequest`: its status holds a signed URL to everything in a backup.
    tenants: &[
        TenantKinds {
            group: "oadp.openshift.io",
            viewed: &["nonadminbackups", "nonadminbackupstoragelocations", "nonadminrestores"],
            edited: &[
                "nonadminbackups",
                "nonadminbackupstoragelocations",
                "nonadmindownloadrequests",
                "nonadminrestores",
            ],
        },
        TenantKinds {
            group: GROUP,
            viewed: &["backupschedules", "backupvaults"],
            edited: &["backupschedules", "backupvaults"],
        },
    ],
    hooks: hooks::HOOKS,
    manifests: |options| {
        let fences = fences::all(&options.velero_namespace, &operator(&options.namespace));
        fences.iter().flat_map(|(policy, binding)| [yaml_document(policy), yaml_document(binding)]).collect()
    },
    install,
};

/// What the reconcilers read.
#[derive(Clone, Debug)]
struct Caches {
    velero_namespace: String,
    namespaces: Arc<Cache<Namespace>>,
    secrets: Arc<Cache<PartialObjectMeta<Secret>>>,
    locations: Arc<Cache<NonAdminBackupStorageLocation>>,
    backups: Arc<Cache<NonAdminBackup>>,
    restores: Arc<Cache<NonAdminRestore>>,
    downloads: Arc<Cache<NonAdminDownloadRequest>>,
    requests: Arc<Cache<NonAdminBackupStorageLocationRequest>>,
    schedules: Arc<Cache<BackupSchedule>>,
    vaults: Arc<Cache<BackupVault>>,
    /// Nothing if storage is switched off.
    warehouse: Option<Arc<Warehouse>>,
    velero_locations: Arc<Cache<BackupStorageLocation>>,
    velero_backups: Arc<Cache<Backup>>,
    velero_restores: Arc<Cache<Restore>>,
    velero_deletions: Arc<Cache<DeleteBackupRequest>>,
    velero_downloads: Arc<Cache<DownloadRequest>>,
    transfers: Transfers,
    /// How the watches in Velero's namespace stand.
    velero_stands: [Receiver<Standing>; 6],
    policies: Arc<Cache<ValidatingAdmissionPolicy>>,
    bindings: Arc<Cache<ValidatingAdmissionPolicyBinding>>,
    /// Their endpoints are servers the administrator chose.
    classes: Arc<Cache<S3Class>>,
    backup_queue: Queue,
    restore_queue: Queue,
}

impl Caches {
    fn open(engine: &mut EngineBuilder, velero_namespace: String) -> Self {
        let velero = Scope::Namespace(velero_namespace.clone());
        let (velero_locations, locations_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_backups, backups_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_restores, restores_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_deletions, deletions_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_downloads, downloads_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (requests, requests_stand) = engine.dispensable_objects(BACKUPS, &velero);
        Self {
            velero_namespace,
            namespaces: engine.cluster_objects(BACKUPS),
            secrets: engine.metadata(BACKUPS),
            locations: engine.objects(BACKUPS, &Scope::Cluster),
            backups: engine.objects(BACKUPS, &Scope::Cluster),
            restores: engine.objects(BACKUPS, &Scope::Cluster),
            downloads: engine.objects(BACKUPS, &Scope::Cluster),
            requests,
            schedules: engine.objects(BACKUPS, &Scope::Cluster),
            vaults: engine.objects(BACKUPS, &Scope::Cluster),
            warehouse: engine.grounds().get().cloned(),
            velero_locations,
            velero_backups,
            velero_restores,
            velero_deletions,
            velero_downloads,
            transfers: Transfers::open(engine, &velero),
            velero_stands: [
                locations_stand,
                backups_stand,
                restores_stand,
                deletions_stand,
                downloads_stand,
                requests_stand,
            ],
            policies: engine.cluster_objects(BACKUPS),
            bindings: engine.cluster_objects(BACKUPS),
            classes: engine.cluster_objects(BACKUPS),
            backup_queue: Queue::default(),
            restore_queue: Queue::default(),
        }
    }

    /// Backups of a namespace that wait for the location of that name.
    fn waiting_backups(&self, namespace: &str, location: &str) -> Vec<Key> {
        let backups = self.backups.in_namespace(namespace).into_iter();
        backups
            .filter(|backup| self.place_of(backup).is_at(location))
            .filter(|backup| !was_queued(backup.status.as_ref().map(|status| &status.conditions)))
            .map(|backup| key(BACKUP, &*backup))
            .collect()
    }

    /// Restores of a namespace that wait for the backup of that name.
    fn waiting_restores(&self, namespace: &str, backup: &str) -> Vec<Key> {
        let restores = self.restores.in_namespace(namespace).into_iter();
        restores
            .filter(|restore| restore.spec.restore_spec.backup_name() == Some(backup))
            .filter(|restore| !was_queued(restore.status.as_ref().map(|status| &status.conditions)))
            .map(|restore| key(RESTORE, &*restore))
            .collect()
    }

    /// Where a Velero Backup lies, by the location Velero says it is in.
    fn lies(&self, spec: &Fields) -> Lies {
        let Some(name) = spec.get("storageLocation").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
            return Lies::WithAdministrator;
        };
        let Some(location) = self.velero_locations.get(&self.velero_namespace, name) else { return Lies::Nowhere };
        match marks::LOCATION.marks(&location.metadata) {
            Marks { managed: true, namespace: Some(namespace), .. } => Lies::WithTenant(namespace),
            _ => Lies::WithAdministrator,
        }
    }

    fn velero_presence(&self) -> Presence {
        let namespace = self.namespaces.get("", &self.velero_namespace);
        let is_gone = |standing: &Receiver<Standing>| *standing.borrow() == Standing::NotServed;
        if namespace.is_none() || self.velero_stands.iter().any(is_gone) {
            return Presence::Gone;
        }
        let is_seen = self.velero_stands.iter().all(|standing| standing.borrow().is_synced());
        let is_going = namespace.is_some_and(|namespace| is_deleting(&namespace.metadata));
        if is_seen && !is_going { Presence::Here } else { Presence::Hidden }
    }

    /// Everybody who works with Velero.
    fn everybody(&self) -> Vec<Key> {
        let locations = self.locations.all().into_iter().map(|location| key(LOCATION, &*location));
        let backups = self.backups.all().into_iter().map(|backup| key(BACKUP, &*backup));
        let restores = self.restores.all().into_iter().map(|restore| key(RESTORE, &*restore));
        let requests = self.locations.all().into_iter().map(|location| key(APPROVAL, &*location));
        let downloads = self.downloads.all().into_iter().map(|download| key(DOWNLOAD, &*download));
        let vaults = self.vaults.all().into_iter().map(|vault| key(VAULT, &*vault));
        locations.chain(backups).chain(restores).chain(requests).chain(downloads).chain(vaults).collect()
    }

    /// All restores that Velero has not had.
    fn all_waiting_restores(&self) -> Vec<Key> {
        let restores = self.restores.all().into_iter();
        restores
            .filter(|restore| !was_queued(restore.status.as_ref().map(|status| &status.conditions)))
            .map(|restore| key(RESTORE, &*restore))
            .collect()
    }

    /// Names of the policies around tenants' restores that are not in force exactly as they should be.
    fn missing_fences(&self) -> Vec<String> {
        let missing = fences::around_restores(&self.velero_namespace).into_iter().filter(|(policy, binding)| {
            let name = policy.name_any();
            let there = self.policies.get("", &name).is_some_and(|found| found.spec == policy.spec);
            !there || self.bindings.get("", &name).is_none_or(|found| found.spec != binding.spec)
        });
        missing.map(|(policy, _)| policy.name_any()).collect()
    }

    /// A Velero Restore nobody asked us for that is not done yet.
    fn restore_of_the_administrator(&self) -> Option<String> {
        let restores = self.velero_restores.all().into_iter();
        let mut others = restores.filter(|restore| is_unfinished_and_not_ours(restore));
        others.next().map(|restore| restore.name_any())
    }

    /// Locations of a namespace: one of them may wait for the place another one leaves.
    fn locations_in(&self, namespace: &str) -> Vec<Key> {
        self.locations.in_namespace(namespace).iter().map(|location| key(LOCATION, &**location)).collect()
    }

    /// Locations of a namespace that name this Secret.
    fn locations_of_secret(&self, namespace: &str, secret: &str) -> Vec<Key> {
        let locations = self.locations.in_namespace(namespace).into_iter();
        locations
            .filter(|location| {
                let credential = location.spec.backup_storage_location_spec.credential();
                credential.is_some_and(|credential| credential.name == secret)
            })
            .map(|location| key(LOCATION, &*location))
            .collect()
    }
}

fn key<K: ResourceExt>(work: Work, object: &K) -> Key {
    Key::new(work, object.namespace().unwrap_or_default(), object.name_any())
}

fn was_queued(conditions: Option<&Vec<croft_api::Condition>>) -> bool {
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Queued" && condition.status == "True")
}

fn is_unfinished_and_not_ours(restore: &Restore) -> bool {
    let finished = restore.status.as_ref().is_some_and(|status| Progress(&status.0.0).is_finished());
    !finished && !marks::RESTORE.marks(&restore.metadata).managed
}

fn install(engine: &mut EngineBuilder, ground: &Ground) {
    let Ground { writer, settings, .. } = ground;
    let caches = Caches::open(engine, settings.load().backup.velero_namespace.clone());
    caches.velero_deletions.index(DELETIONS_OF_BACKUP, |deletion: &DeleteBackupRequest| {
        deletion.labels().get(BACKUP_NAME_LABEL).cloned().into_iter().collect()
    });
    engine.at_the_door(Arc::new(Door { caches: caches.clone(), settings: settings.clone() }));
    wake_on_requests(&caches);
    wake_on_velero(&caches);
    wake_on_surroundings(&caches);
    caches.velero_backups.index(BACKUPS_IN_LOCATION, |backup: &Backup| {
        backup.spec.storage_location().map(str::to_owned).into_iter().collect()
    });
    caches.wake_vaults();
    caches.wake_downloads();
    caches.wake_schedules();
    caches.wake_approvals();
    caches.wake_held_back();
    caches.wake_sync();
    engine.reconciler(LocationReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(BackupReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(DownloadReconciler::new(caches.clone(), writer.clone()));
    engine.reconciler(ScheduleReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(SyncReconciler::new(caches.clone(), writer.clone()));
    engine.reconciler(ApprovalReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(VaultReconciler::new(caches.clone(), writer.clone()));
    engine.reconciler(RestoreReconciler::new(caches, writer.clone(), settings.clone()));
}

/// A request wakes itself and what waits for it.
fn wake_on_requests(caches: &Caches) {
    let seen = caches.clone();
    caches.locations.wakes(move |change: Change<'_, NonAdminBackupStorageLocation>| {
        let (namespace, name) = (change.object().namespace().unwrap_or_default(), change.object().name_any());
        let mut keys = own(LOCATION, change);
        keys.extend(seen.waiting_backups(&namespace, &name));
        let generation = |side: Option<&NonAdminBackupStorageLocation>| side.and_then(|side| side.metadata.generation);
        if generation(change.before) != generation(change.after) {
            keys.extend(seen.locations_in(&namespace));
        }
        keys
    });
    let seen = caches.clone();
    caches.backups.wakes(move |change: Change<'_, NonAdminBackup>| {
        let (namespace, name) = (change.object().namespace().unwrap_or_default(), change.object().name_any());
        let mut keys = seen.waiting_restores(&namespace, &name);
        keys.extend(own(BACKUP, change));
        keys
    });
    caches.restores.wakes(|change: Change<'_, NonAdminRestore>| own(RESTORE, change));
}

/// The request itself, unless only the wording of its status has changed: what we say about a failure is no reason to try again
/// at once.
fn own<K: ResourceExt + Serialize>(work: Work, change: Change<'_, K>) -> Vec<Key> {
    let is_reworded = change.before.map(meaning) == change.after.map(meaning);
    if is_reworded { Vec::new() } else { vec![key(work, change.object())] }
}

/// The object without its version and without the words and times of its conditions.
fn meaning(object: &impl Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    for condition in object.pointer_mut("/status/conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("message");
            condition.remove("lastTransitionTime");
        }
    }
    object
}

/// What Velero does wakes the request it is done for, and whoever waits for it.
fn wake_on_velero(caches: &Caches) {
    let queue = caches.backup_queue.clone();
    caches.velero_backups.wakes(move |change: Change<'_, Backup>| queue.woken(BACKUP, marks::BACKUP, change));
    let (queue, seen) = (caches.restore_queue.clone(), caches.clone());
    caches.velero_restores.wakes(move |change: Change<'_, Restore>| {
        let mut keys = queue.woken(RESTORE, marks::RESTORE, change);
        let is_ahead = |restore: Option<&Restore>| restore.is_some_and(is_unfinished_and_not_ours);
        if is_ahead(change.before) && !is_ahead(change.after) {
            keys.extend(seen.all_waiting_restores());
        }
        keys
    });
    let (backups, restores) = (caches.clone(), caches.clone());
    caches.transfers.wake(
        move |name| {
            let backup = backups.velero_backups.get(&backups.velero_namespace, name)?;
            marks::BACKUP.request(BACKUP, &backup.metadata)
        },
        move |name| {
            let restore = restores.velero_restores.get(&restores.velero_namespace, name)?;
            marks::RESTORE.request(RESTORE, &restore.metadata)
        },
    );
    let seen = caches.clone();
    caches.velero_locations.wakes(move |change: Change<'_, BackupStorageLocation>| {
        let Some(owner) = marks::LOCATION.request(LOCATION, &change.object().metadata) else { return Vec::new() };
        let mut keys = Vec::new();
        if change.before.map(BackupStorageLocation::phase) != change.after.map(BackupStorageLocation::phase) {
            keys.extend(seen.waiting_backups(&owner.namespace, &owner.name));
        }
        if change.before.map(|before| &before.spec) == change.after.map(|after| &after.spec) {
            keys.push(owner);
        } else {
            keys.extend(seen.locations_in(&owner.namespace));
        }
        keys
    });
    let seen = caches.clone();
    caches.velero_deletions.wakes(move |change: Change<'_, DeleteBackupRequest>| {
        // An administrator's own request carries no marks of ours, but the Backup it is for does.
        let backup = change.object().labels().get(BACKUP_NAME_LABEL);
        let backup = backup.and_then(|name| seen.velero_backups.get(&seen.velero_namespace, name));
        backup.and_then(|backup| marks::BACKUP.request(BACKUP, &backup.metadata)).into_iter().collect()
    });
}

/// Secrets that locations name or were copied to, servers they may name, and namespaces that must not be held up.
fn wake_on_surroundings(caches: &Caches) {
    let seen = caches.clone();
    caches.policies.wakes(move |_: Change<'_, ValidatingAdmissionPolicy>| seen.all_waiting_restores());
    let seen = caches.clone();
    caches.bindings.wakes(move |_: Change<'_, ValidatingAdmissionPolicyBinding>| seen.all_waiting_restores());
    let seen = caches.clone();
    caches.classes.wakes(move |change: Change<'_, S3Class>| {
        let endpoint = |class: Option<&S3Class>| class.map(|class| class.spec.endpoint.clone());
        if endpoint(change.before) == endpoint(change.after) {
            return Vec::new();
        }
        seen.locations.all().iter().map(|location| key(LOCATION, &**location)).collect()
    });
    let seen = caches.clone();
    caches.secrets.wakes(move |change: Change<'_, PartialObjectMeta<Secret>>| {
        let secret = change.object();
        let namespace = secret.namespace().unwrap_or_default();
        let mut keys = seen.locations_of_secret(&namespace, &secret.name_any());
        if namespace == seen.velero_namespace {
            keys.extend(marks::LOCATION.request(LOCATION, &secret.metadata));
            keys.extend(marks::VAULT.request(LOCATION, &secret.metadata));
            keys.extend(marks::VAULT.request(VAULT, &secret.metadata));
        }
        keys
    });
    let seen = caches.clone();
    caches.namespaces.wakes(move |change: Change<'_, Namespace>| {
        let goes = |namespace: Option<&Namespace>| namespace.is_none_or(|namespace| is_deleting(namespace.meta()));
        if change.object().name_any() == seen.velero_namespace && goes(change.before) != goes(change.after) {
            return seen.everybody();
        }
        if !goes(change.after) || (change.before.is_some() && goes(change.before)) {
            return Vec::new();
        }
        let namespace = change.object().name_any();
        let backups = seen.backups.in_namespace(&namespace).into_iter().map(|backup| key(BACKUP, &*backup));
        let restores = seen.restores.in_namespace(&namespace).into_iter().map(|restore| key(RESTORE, &*restore));
        let vaults = seen.vaults.in_namespace(&namespace).into_iter().map(|vault| key(VAULT, &*vault));
        backups.chain(restores).chain(vaults).collect()
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_whose_status_was_only_reworded_is_not_looked_at_again() {
        let backup = |phase: &str, reason: &str, message: &str| -> NonAdminBackup {
            let condition = json!({"type": "Accepted", "status": "False", "reason": reason, "message": message,
                                   "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let backup = json!({
                "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
                "metadata": {"namespace": "shop", "name": "nightly", "resourceVersion": message.len().to_string()},
                "spec": {"backupSpec": {}}, "status": {"phase": phase, "conditions": [condition]},
            });
            serde_json::from_value(backup).unwrap()
        };
        let before = backup("New", "ApiServerError", "read tcp 10.0.0.5:40312: reset");
        let woken = |after: &NonAdminBackup| {
            own(BACKUP, Change { before: Some(&before), after: Some(after), live: true }).len()
        };
        assert_eq!(woken(&backup("New", "ApiServerError", "read tcp 10.0.0.5:412: reset")), 0);
        assert_eq!(woken(&backup("New", "Rejected", "read tcp 10.0.0.5:40312: reset")), 1);
        assert_eq!(woken(&backup("Created", "ApiServerError", "read tcp 10.0.0.5:40312: reset")), 1);
    }
}
