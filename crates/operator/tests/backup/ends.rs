//! The operator dies where something is changed or comes to its end: all ends as it does without.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{
        BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminDownloadRequest,
        NonAdminRestore, SCHEDULE_UID_LABEL, SCHEDULED_AT_ANNOTATION,
    },
    storage::S3User,
    velero::{BackupStorageLocation, Restore},
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    kill::{Death, NAMESPACE, Person, READY, Rough},
    plot::{Kind, VELERO_PATIENCE},
};

impl Person {
    async fn changes<K: Kind>(&self, name: &str, change: Value) -> Result<()> {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    async fn deletes<K: Kind>(&self, name: &str) -> Result<()> {
        self.api::<K>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until something says what is wanted, while nobody dies.
    async fn gets<K: Kind>(&self, name: &str, pointer: &str, wanted: &str) -> Result<()> {
        wait::until(&format!("{} {name} to be {wanted}", K::kind(&())), VELERO_PATIENCE, || async {
            self.says::<K>(name, pointer, wanted).await.map(Some)
        })
        .await
    }

    /// A backup of a schedule, as that would have made it then.
    async fn has_backup_of(&self, schedule: &BackupSchedule, name: &str, at: &str) -> Result<()> {
        let made = json!({
            "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
            "metadata": { "name": name, "labels": { SCHEDULE_UID_LABEL: schedule.uid() },
                          "annotations": { SCHEDULED_AT_ANNOTATION: at } },
            "spec": { "backupSpec": { "storageLocation": "here", "includedResources": ["configmaps"] } },
        });
        self.api::<NonAdminBackup>().patch(name, &PatchParams::apply("person"), &Patch::Apply(&made)).await?;
        self.gets::<NonAdminBackup>(name, COMPLETED, "Completed").await
    }

    /// What Velero has of the one location that is not a vault's: location and copy of the keys.
    async fn place(&self) -> Result<(Value, Secret)> {
        let labelled = ListParams::default().labels("croft.dev/own-bucket=true");
        let location = self.veleros::<BackupStorageLocation>().list(&labelled).await?.items.pop().context("none")?;
        let copy = self.veleros::<Secret>().get(&location.name_any()).await?;
        Ok((json!(location), copy))
    }
}

/// Where it stands how far Velero is.
const COMPLETED: &str = "/status/veleroBackup/status/phase";

/// A location is edited and its keys change; a restore, what a schedule does not keep and a download end; a vault is purged.
async fn changes_and_ends_are_as_they_should_be(death: Death) -> Result<()> {
    let mut rough = Box::pin(Rough::new(death)).await?;
    let (one, admin) = (rough.furnished_person().await?, rough.bed.admin().client.clone());
    let yearly = json!({ "schedule": "@yearly", "template": { "backupSpec": {} } });
    one.make::<BackupSchedule>("yearly", yearly).await?;
    let schedule = one.api::<BackupSchedule>().get("yearly").await?;
    for (name, at) in [("first", "2026-01-01T00:00:00Z"), ("second", "2026-01-02T00:00:00Z")] {
        one.has_backup_of(&schedule, name, at).await?;
    }
    one.make::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "second" } })).await?;
    one.gets::<NonAdminRestore>("undo", "/status/veleroRestore/status/phase", "Completed").await?;
    let log = json!({ "target": { "kind": "BackupLog", "name": "second" } });
    one.make::<NonAdminDownloadRequest>("log", log).await?;
    one.gets::<NonAdminDownloadRequest>("log", "/status/phase", "Created").await?;

    rough
        .path("the restore to go", one.deletes::<NonAdminRestore>("undo"), || async {
            one.is_gone::<NonAdminRestore>("undo").await?;
            ensure!(one.with_velero::<Restore>().await? == 0, "Velero has it yet");
            Ok(())
        })
        .await?;
    let keep = one.changes::<BackupSchedule>("yearly", json!({ "spec": { "keep": { "last": 1 } } }));
    rough.path("what the schedule does not keep to go", keep, || one.is_gone::<NonAdminBackup>("first")).await?;
    one.says::<NonAdminBackup>("second", COMPLETED, "Completed").await?;
    let expired = async {
        // Ten minutes are long: the end is brought nearer.
        let soon =
            json!({ "status": { "velero": { "status": { "expiration": jiff::Timestamp::now().to_string() } } } });
        let requests: Api<NonAdminDownloadRequest> = Api::namespaced(admin.clone(), NAMESPACE);
        requests.patch_status("log", &PatchParams::default(), &Patch::Merge(&soon)).await?;
        Ok(())
    };
    // It is looked at again when something of it changes.
    rough.path("the download to expire", expired, || one.is_gone::<NonAdminDownloadRequest>("log")).await?;

    let (_, before) = one.place().await?;
    let rotated = one.changes::<Secret>("keys", json!({ "metadata": { "labels": { "rotated": "yes" } } }));
    rough
        .path("the copy of the keys to follow", rotated, || async {
            let (_, copy) = one.place().await?;
            ensure!(copy.annotations().get("croft.dev/copy-of") != before.annotations().get("croft.dev/copy-of"));
            ensure!(copy.data == before.data, "it holds something else");
            Ok(())
        })
        .await?;
    let moved = json!({ "metadata": { "annotations": { "croft.dev/confirm-move": "true" } },
                        "spec": { "backupStorageLocationSpec": { "objectStorage": { "prefix": "deeper" } } } });
    let moved = one.changes::<NonAdminBackupStorageLocation>("here", moved);
    rough
        .path("the location to move", moved, || async {
            let (location, _) = one.place().await?;
            let prefix = &location["spec"]["objectStorage"]["prefix"];
            ensure!(*prefix == format!("{NAMESPACE}/deeper"), "it is {prefix}");
            Ok(())
        })
        .await?;
    ensure!(one.with_velero::<BackupStorageLocation>().await? == 1, "it was made more than once");

    one.make::<BackupVault>("safe", json!({ "onDelete": "Purge" })).await?;
    one.gets::<BackupVault>("safe", READY, "Provisioned").await?;
    one.make::<NonAdminBackup>("kept", json!({ "backupSpec": { "includedResources": ["configmaps"] } })).await?;
    one.gets::<NonAdminBackup>("kept", COMPLETED, "Completed").await?;
    rough
        .path("the vault to go with all that is in it", one.deletes::<BackupVault>("safe"), || async {
            one.is_gone::<BackupVault>("safe").await?;
            let users: Api<S3User> = Api::all(admin.clone());
            let left: Vec<_> = users.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await
}

#[tokio::test]
async fn changes_and_ends_are_as_they_should_be_although_the_operator_dies_before_every_write() -> Result<()> {
    Box::pin(changes_and_ends_are_as_they_should_be(Death::BeforeTheWrite)).await
}

#[tokio::test]
async fn changes_and_ends_are_as_they_should_be_although_the_operator_dies_after_every_write() -> Result<()> {
    Box::pin(changes_and_ends_are_as_they_should_be(Death::AfterTheWrite)).await
}
