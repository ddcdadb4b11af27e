//! Backups that are to go with what is stored of them, and why they do not.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation},
    velero::{Backup, BackupStorageLocation, DeleteBackupRequest},
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, SETTINGS, VELERO_PATIENCE, message},
    support::eventually,
};

#[tokio::test]
async fn a_backup_whose_location_is_gone_says_that_only_force_helps_and_then_goes() -> Result<()> {
    let plot = Box::pin(Plot::alone("placeless", SETTINGS)).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    let (_, velero) = plot.completed_backup().await?;
    let place = plot.velero_location().await?.name_any();
    // Somebody takes it away by hand while nobody sees it: its backups are not asked to go with it.
    plot.world.operator.process.stop();
    let locations = plot.administrators::<NonAdminBackupStorageLocation>();
    locations.delete("here", &DeleteParams::default()).await?;
    let by_hand = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    locations.patch("here", &PatchParams::default(), &by_hand).await?;
    plot.world.operator.process.cont();
    plot.vanishes(&plot.veleros::<BackupStorageLocation>(), &place).await?;

    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    let told_so = |status: &Value| {
        message(status, "Deleting").contains("the storage location of this backup is gone")
            && message(status, "Deleting").contains("only spec.forceDeleteBackup helps")
    };
    plot.status::<NonAdminBackup>("nightly", "to say what helps", told_so).await;
    plot.veleros::<Backup>().get(&velero.name_any()).await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    plot.vanishes(&plot.veleros::<Backup>(), &velero.name_any()).await
}

#[tokio::test]
async fn why_velero_did_not_delete_what_is_stored_is_told() -> Result<()> {
    let plot = Plot::bare("undeletable").await?;
    plot.add_secret("cloud").await?;
    // So seldom that nobody finds out that the bucket is gone but whoever deletes something in it.
    plot.add_location(json!({ "validationFrequency": "1h" })).await?;
    plot.location_is_available().await;
    let (_, velero) = plot.completed_backup().await?;
    plot.world.bed.ceph().admin(&["bucket", "rm", "--bucket", &plot.namespace, "--purge-objects"]).await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    let is_told = |status: &Value| {
        let asked = &status["veleroDeleteBackupRequest"]["status"];
        asked["phase"] == "Processed" && asked["errors"].as_array().is_some_and(|errors| !errors.is_empty())
    };
    let status = plot
        .status_within::<NonAdminBackup>(VELERO_PATIENCE, "nightly", "to tell why it is still there", is_told)
        .await;
    let request = &status["veleroDeleteBackupRequest"];
    ensure!(request["name"] == velero.name_any() && status["phase"] == "Deleting", "{status}");
    ensure!(request["status"]["errors"].to_string().contains("NoSuchBucket"), "{request}");
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await
}

impl Plot {
    /// Nothing of a backup is asked to be deleted, which says why, and is there.
    async fn is_not_asked_for(&self, velero: &str, why: &str) -> Result<()> {
        let says_why = |status: &Value| message(status, "Deleting").contains(why);
        self.status_within::<NonAdminBackup>(VELERO_PATIENCE, "nightly", "to say why it is there", says_why).await;
        let asked = self.veleros::<DeleteBackupRequest>().list(&ListParams::default()).await?;
        let asked = asked.iter().find(|asked| json!(asked)["spec"]["backupName"] == velero);
        ensure!(asked.is_none(), "Velero is asked: {:?}", asked.map(|asked| json!(asked)));
        ensure!(self.veleros::<Backup>().get(velero).await?.metadata.deletion_timestamp.is_none(), "it goes");
        Ok(())
    }
}

#[tokio::test]
async fn velero_is_not_asked_to_delete_what_it_says_it_works_on_before_it_is_done() -> Result<()> {
    let plot = Plot::furnished("unfinished").await?;
    let name = plot.backup_velero_works_on().await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    plot.is_not_asked_for(&name, "Velero is working on this backup").await?;
    plot.velero_is_done_with(&name).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    let left = plot.stored().await?;
    ensure!(!left.iter().any(|file| file.contains("/backups/")), "{left:?}");
    Ok(())
}

#[tokio::test]
async fn velero_is_not_asked_to_delete_where_it_would_refuse_until_that_is_over() -> Result<()> {
    let plot = Plot::furnished("barred").await?;
    let (_, velero) = plot.completed_backup().await?;
    let name = velero.name_any();
    let access = |mode: &str| json!({ "spec": { "backupStorageLocationSpec": { "accessMode": mode } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", access("ReadOnly")).await?;
    eventually("Velero to have heard of it", || async {
        Ok((json!(plot.velero_location().await?)["spec"]["accessMode"] == "ReadOnly").then_some(()))
    })
    .await;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    plot.is_not_asked_for(&name, "the storage location of this backup is read-only").await?;

    // Now it can be written, and not be reached.
    let wrong = "[default]\naws_access_key_id=WRONG\naws_secret_access_key=wrong\n";
    plot.patch::<Secret>("keys", json!({ "stringData": { "cloud": wrong } })).await?;
    wait::until("Velero not to get in any more", VELERO_PATIENCE, || async {
        Ok((plot.velero_location().await?.phase() == Some("Unavailable")).then_some(()))
    })
    .await?;
    plot.patch::<NonAdminBackupStorageLocation>("here", access("ReadWrite")).await?;
    plot.is_not_asked_for(&name, "the storage location of this backup cannot be reached").await?;
    plot.add_secret("cloud").await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    let left = plot.stored().await?;
    ensure!(!left.iter().any(|file| file.contains("/backups/")), "{left:?}");
    Ok(())
}
