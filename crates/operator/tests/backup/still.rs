//! Velero stands still, or the policies around it are away: nobody waits for ever, and nothing is taken in unjudged.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    velero::{Backup, DeleteBackupRequest, Restore},
};
use croft_testbed::Testbed;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, SETTINGS, told, velero_name},
    support::{Shared, apply, eventually},
};

/// A namespace with a bucket in a world of its own.
async fn alone(prefix: &str) -> Result<Plot> {
    let bed: &'static Testbed = Box::leak(Box::new(Testbed::kubernetes().with_velero().start().await?));
    let world: &'static Shared = Box::leak(Box::new(Shared::on(bed, SETTINGS).await?));
    let plot = Plot::within(world, prefix).await?;
    bed.ceph().create_bucket(&plot.namespace).await?;
    plot.add_secret("cloud").await?;
    Ok(plot)
}

impl Plot {
    async fn velero_synchronises_every(&self, period: &str) {
        eventually(&format!("Velero to synchronise every {period}"), || async {
            let location = self.velero_location().await?;
            let found = location.spec.backup_sync_period();
            ensure!(found == Some(period), "it is {found:?}");
            Ok(Some(()))
        })
        .await;
    }

    async fn change_restore(&self, name: &str, change: Value) -> Result<()> {
        self.veleros::<Restore>().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }
}

#[tokio::test]
async fn an_own_bucket_is_not_synchronised_while_a_policy_around_it_is_away() -> Result<()> {
    let plot = Box::pin(alone("unfenced")).await?;
    plot.add_location(json!({ "backupSyncPeriod": "5s" })).await?;
    plot.location_is_available().await;
    plot.velero_synchronises_every("5s").await;
    let admin = plot.world.bed.admin();
    let binding = ["validatingadmissionpolicybinding", "croft-own-bucket-findings"];
    let kept = admin.kubectl(&["get", binding[0], binding[1], "-o", "json"]).await?;
    admin.kubectl(&["delete", binding[0], binding[1]]).await?;
    plot.velero_synchronises_every("0s").await;
    plot.status::<NonAdminBackupStorageLocation>("here", "to say why", |status| {
        told(status).contains(&"Accepted=False PoliciesMissing".to_owned())
    })
    .await;
    let mut kept: Value = serde_json::from_str(&kept)?;
    for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"] {
        kept["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
    }
    apply(admin, &kept.to_string()).await?;
    plot.velero_synchronises_every("5s").await;
    Ok(())
}

#[tokio::test]
async fn while_velero_stands_still_what_it_has_not_begun_with_is_let_go_and_what_it_never_finishes_is_ended()
-> Result<()> {
    let plot = Box::pin(alone("standing")).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    let (backup, _) = plot.completed_backup().await?;
    plot.create::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let undo = plot.restore_phase("undo", "Completed").await;
    let undo = undo["veleroRestore"]["name"].as_str().context("no name")?.to_owned();
    plot.world.bed.velero().process().stop();

    // As it is while Velero finishes it; its owner takes the request away by hand.
    let finishing = json!({ "metadata": { "labels": { "croft.dev/unfinished": "true" } },
                            "status": { "phase": "Finalizing", "completionTimestamp": null } });
    plot.change_restore(&undo, finishing).await?;
    plot.delete::<NonAdminRestore>("undo").await?;
    plot.patch::<NonAdminRestore>("undo", json!({ "metadata": { "finalizers": null } })).await?;
    plot.vanishes(&plot.api::<NonAdminRestore>(), "undo").await?;
    eventually("it to be noted since when Velero finishes the restore", || async {
        let restore = json!(plot.veleros::<Restore>().get(&undo).await?);
        ensure!(restore["status"]["phase"] == "Finalizing", "ended before its time: {restore}");
        Ok(restore["metadata"]["annotations"]["croft.dev/finishing-since"].as_str().map(drop))
    })
    .await;
    let long_ago = json!({ "metadata": { "annotations": { "croft.dev/finishing-since": "2026-01-01T00:00:00Z" } } });
    plot.change_restore(&undo, long_ago).await?;
    eventually("the restore to be ended, and to judge nothing any more", || async {
        let Some(restore) = plot.veleros::<Restore>().get_opt(&undo).await? else { return Ok(Some(())) };
        let restore = json!(restore);
        let is_over =
            restore["status"]["phase"] == "PartiallyFailed" && restore["metadata"]["deletionTimestamp"].is_string();
        ensure!(is_over && restore["metadata"]["labels"]["croft.dev/unfinished"].is_null(), "it is {restore}");
        Ok(Some(()))
    })
    .await;

    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    let asked = || async {
        let requests = plot.veleros::<DeleteBackupRequest>().list(&ListParams::default()).await?;
        let name = velero_name(&backup);
        anyhow::Ok(requests.iter().any(|request| json!(request)["spec"]["backupName"] == name.as_str()))
    };
    eventually("Velero to be asked", || async { Ok(asked().await?.then_some(())) }).await;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    plot.vanishes(&plot.veleros::<Backup>(), &velero_name(&backup)).await?;
    ensure!(!asked().await?, "the request to delete is left");
    plot.world.bed.velero().process().cont();
    Ok(())
}
