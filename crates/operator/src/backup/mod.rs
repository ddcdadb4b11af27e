//! Backups and restores for tenants, on Velero: what is watched, and who works on it.
//!
//! Velero's own kinds are watched and written in Velero's namespace only. Secrets are watched as metadata; the one key a
//! location names is read when it is copied, and kept nowhere.

mod approval;
#[expect(clippy::module_inception, reason = "the part and one of its kinds have the same name")]
mod backup;
mod download;
mod fences;
mod hooks;
mod leftover;
mod limits;
mod lists;
mod location;
mod marks;
mod ownership;
mod password;
mod queue;
mod request;
mod restore;
mod schedule;
mod standing;
mod stored;
mod sync;
mod transfers;
mod vault;
mod vaults;
mod waiting;
mod wakes;

use std::sync::Arc;

use croft_api::{
    backup::{
        BackupSchedule, BackupVault, DataProtectionApplication, LET_GO_ANNOTATIONS, NAB_SYNCED_FROM_NACUUID_LABEL,
        NonAdminBackup, NonAdminBackupStorageLocation, NonAdminBackupStorageLocationRequest, NonAdminDownloadRequest,
        NonAdminRestore, SCHEDULE_UID_LABEL, SCHEDULED_AT_ANNOTATION,
    },
    storage::S3Class,
    velero::{
        BACKUP_NAME_LABEL, Backup, BackupStorageLocation, BackupStorageLocationSpec, DeleteBackupRequest,
        DownloadRequest, RESTORE_NAME_LABEL, Restore, VolumeSnapshotLocation,
    },
};
use croft_core::{
    backup::{
        Fields, Presence, Reach,
        location::CONFIRM_MOVE,
        ownership::{Lies, Marks},
    },
    plan::Failure,
    watching::Standing,
};
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::{Namespace, Secret},
};
use kube::{ResourceExt, api::PartialObjectMeta};
use serde_json::Value;
use tokio::sync::watch::Receiver;

pub(crate) use self::fences::GUARDS;
use self::{
    approval::ApprovalReconciler,
    backup::BackupReconciler,
    download::DownloadReconciler,
    fences::OWN_BUCKET_LABEL,
    hooks::Door,
    leftover::LeftoverReconciler,
    lists::Shelf,
    location::LocationReconciler,
    password::PasswordReconciler,
    queue::Queue,
    request::{MADE_FOR_ANNOTATION, TRIED_ANNOTATION},
    restore::RestoreReconciler,
    schedule::ScheduleReconciler,
    standing::Since,
    sync::SyncReconciler,
    transfers::Transfers,
    vault::VaultReconciler,
    wakes::{wake_on_requests, wake_on_surroundings, wake_on_velero},
};
use crate::{
    engine::{Cache, EngineBuilder, Key, Part, Scope, Work, is_deleting},
    manifests::operator,
    parts::{Definition, Ground},
    policies,
    rbac::{Use, Within},
    roles::TenantKinds,
    storage::Warehouse,
};

/// On what lies in, or belongs to, a bucket of a tenant's own.
pub(crate) const OWN_BUCKET: (&str, &str) = (OWN_BUCKET_LABEL, fences::OWN_BUCKET_VALUE);
/// On a tenant's Restore that Velero has not ended with.
pub(crate) const UNFINISHED: (&str, &str) = (fences::UNFINISHED_LABEL, fences::UNFINISHED_VALUE);

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
const PASSWORD: Work = BACKUPS.work("velerorepositorypassword");

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
    Use {
        group: "oadp.openshift.io",
        resource: "dataprotectionapplications",
        verbs: &["list", "watch"],
        within: Within::VeleroNamespace,
    },
    Use { group: "", resource: "configmaps", verbs: &["create", "get", "patch"], within: Within::VeleroNamespace },
    policies("validatingadmissionpolicies"),
    policies("validatingadmissionpolicybindings"),
    Use { group: "s3.snappcloud.io", resource: "s3classes", verbs: &["list", "watch"], within: Within::Cluster },
    veleros("backups", &["create", "delete", "get", "list", "patch", "watch"]),
    veleros("podvolumebackups", &["list", "watch"]),
    veleros("podvolumerestores", &["list", "watch"]),
    veleros("datauploads", &["list", "watch"]),
    veleros("datadownloads", &["list", "watch"]),
    veleros("restores", &["create", "delete", "list", "patch", "watch"]),
    veleros("deletebackuprequests", &["create", "delete", "list", "watch"]),
    veleros("downloadrequests", &["create", "delete", "list", "watch"]),
    veleros("backupstoragelocations", &["create", "delete", "list", "patch", "watch"]),
    veleros("volumesnapshotlocations", &["list", "watch"]),
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
    manifests: |chosen| {
        let fences = fences::all(chosen.velero_namespace(), &operator(&chosen.namespace), chosen.allows_hooks());
        fences.iter().flat_map(policies::documents).collect()
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
    snapshot_locations: Arc<Cache<VolumeSnapshotLocation>>,
    transfers: Transfers,
    /// How the watches in Velero's namespace stand.
    velero_stands: [Receiver<Standing>; 6],
    /// How that of the places of snapshots stands.
    snapshots_stand: Receiver<Standing>,
    policies: Arc<Cache<ValidatingAdmissionPolicy>>,
    bindings: Arc<Cache<ValidatingAdmissionPolicyBinding>>,
    /// Of these two.
    since: Since,
    /// What whoever installs Velero says about tenants' backups, where there is such a kind.
    applications: Arc<Cache<DataProtectionApplication>>,
    /// How their watch stands.
    applications_stand: Receiver<Standing>,
    /// Their endpoints are servers the administrator chose.
    classes: Arc<Cache<S3Class>>,
    backup_queue: Queue,
    restore_queue: Queue,
    shelf: Shelf,
}

impl Caches {
    fn open(engine: &mut EngineBuilder, velero_namespace: String) -> Self {
        let velero = Scope::Namespace(velero_namespace.clone());
        let (velero_locations, locations_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_backups, backups_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_restores, restores_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_deletions, deletions_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (velero_downloads, downloads_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (applications, applications_stand) = engine.optional_objects(BACKUPS, &velero);
        let (requests, requests_stand) = engine.dispensable_objects(BACKUPS, &velero);
        let (snapshot_locations, snapshots_stand) = engine.dispensable_objects(BACKUPS, &velero);
        Self {
            velero_namespace,
            namespaces: engine.namespaces(BACKUPS),
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
            snapshot_locations,
            transfers: Transfers::open(engine, &velero),
            velero_stands: [
                locations_stand,
                backups_stand,
                restores_stand,
                deletions_stand,
                downloads_stand,
                requests_stand,
            ],
            snapshots_stand,
            since: Since::default(),
            applications,
            applications_stand,
            policies: engine.cluster_objects(BACKUPS),
            bindings: engine.cluster_objects(BACKUPS),
            classes: engine.cluster_objects(BACKUPS),
            backup_queue: Queue::default(),
            restore_queue: Queue::default(),
            shelf: Shelf::default(),
        }
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
        let schedules = self.schedules.all().into_iter().map(|schedule| key(SCHEDULE, &*schedule));
        let requests = requests.chain(downloads).chain(vaults).chain(schedules);
        locations.chain(backups).chain(restores).chain(requests).collect()
    }

    /// Names of the policies around tenants' restores that are not in force.
    fn missing_fences(&self) -> Result<Vec<String>, Failure> {
        self.missing(fences::around_restores(&self.velero_namespace))
    }

    /// Names of the policies that are not in force although hooks are not allowed.
    fn missing_around_hooks(&self, are_allowed: bool) -> Result<Vec<String>, Failure> {
        if are_allowed { Ok(Vec::new()) } else { self.missing([fences::around_hooks(&self.velero_namespace, false)]) }
    }

    /// What Velero could delete with a backup in a tenant's own bucket.
    fn reach(&self) -> Result<Reach, Failure> {
        let places = self.snapshot_locations.all();
        let standing = self.snapshots_stand.borrow().clone();
        Ok(Reach {
            snapshot_locations: places.iter().map(|place| place.name_any()).collect(),
            snapshots_are_hidden: !standing.is_synced() && standing != Standing::NotServed,
            missing_fences: self.missing_around_own_buckets()?,
        })
    }

    /// Names of the policies around tenants' own buckets that are not in force.
    fn missing_around_own_buckets(&self) -> Result<Vec<String>, Failure> {
        self.missing(fences::around_own_buckets(&self.velero_namespace))
    }

    /// Locations of a namespace, one of which may wait for the place another one leaves: without those that wait for a place among
    /// the first, of which there may be any number.
    fn contenders_in(&self, namespace: &str) -> Vec<Arc<NonAdminBackupStorageLocation>> {
        let mut locations = self.locations.in_namespace(namespace);
        locations.retain(|location| !limits::is_location_held_back(location));
        locations
    }

    fn locations_in(&self, namespace: &str) -> Vec<Key> {
        self.contenders_in(namespace).iter().map(|location| key(LOCATION, &**location)).collect()
    }

    /// Locations of a namespace that name this Secret, in what they ask for or in what was approved of them.
    fn locations_of_secret(&self, namespace: &str, secret: &str) -> Vec<Key> {
        let names = |spec: &BackupStorageLocationSpec| spec.credential().is_some_and(|it| it.name == secret);
        let locations = self.locations.in_namespace(namespace).into_iter();
        locations
            .filter(|location| {
                let approved = self.approved_spec(location);
                names(&location.spec.backup_storage_location_spec) || approved.as_ref().is_some_and(names)
            })
            .map(|location| key(LOCATION, &*location))
            .collect()
    }
}

fn key<K: ResourceExt>(work: Work, object: &K) -> Key {
    Key::new(work, object.namespace().unwrap_or_default(), object.name_any())
}

impl Caches {
    /// What is read of the notes on objects that tenants make, or that Velero finds in their buckets.
    fn reads(&self) {
        let scheduled = [SCHEDULE_UID_LABEL, SCHEDULED_AT_ANNOTATION];
        self.downloads.reads(&[RESTORE_NAME_LABEL]);
        self.backups.reads(&[RESTORE_NAME_LABEL, TRIED_ANNOTATION, NAB_SYNCED_FROM_NACUUID_LABEL]);
        self.backups.reads(&scheduled);
        self.restores.reads(&[RESTORE_NAME_LABEL, TRIED_ANNOTATION]);
        self.locations.reads(&[RESTORE_NAME_LABEL, CONFIRM_MOVE, LET_GO_ANNOTATIONS]);
        self.schedules.reads(&[RESTORE_NAME_LABEL]);
        self.vaults.reads(&[RESTORE_NAME_LABEL]);
        self.velero_backups.reads(&marks::BACKUP.names());
        self.velero_backups.reads(&[MADE_FOR_ANNOTATION, OWN_BUCKET_LABEL]);
        self.velero_backups.reads(&scheduled);
    }
}

fn install(engine: &mut EngineBuilder, ground: &Ground) {
    let Ground { writer, settings, .. } = ground;
    let caches = Caches::open(engine, settings.load().backup.velero_namespace.clone());
    caches.reads();
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
    caches.index_waiting();
    caches.wake_vaults();
    caches.wake_downloads();
    caches.wake_on_lists();
    caches.wake_schedules();
    caches.wake_approvals();
    caches.wake_held_back(settings);
    caches.wake_sync();
    caches.wake_on_leftovers();
    caches.wake_password();
    engine.reconciler(LocationReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(BackupReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(DownloadReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(ScheduleReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(SyncReconciler::new(caches.clone(), writer.clone()));
    engine.reconciler(LeftoverReconciler::<Restore>::new(caches.clone(), writer.clone()));
    engine.reconciler(LeftoverReconciler::<Backup>::new(caches.clone(), writer.clone()));
    engine.reconciler(LeftoverReconciler::<BackupStorageLocation>::new(caches.clone(), writer.clone()));
    engine.reconciler(LeftoverReconciler::<PartialObjectMeta<Secret>>::new(caches.clone(), writer.clone()));
    engine.reconciler(ApprovalReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(PasswordReconciler::new(caches.clone(), writer.clone(), engine.remarks()));
    engine.reconciler(VaultReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(RestoreReconciler::new(caches, writer.clone(), settings.clone()));
}
