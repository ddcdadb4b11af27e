//! Velero stands still, or the policies around it are away: nobody waits for ever, and nothing is taken in unjudged.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    velero::{Backup, DeleteBackupRequest, Restore},
};
use jiff::{SignedDuration, Timestamp};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, SETTINGS, told, velero_name},
    support::{apply, eventually},
};

/// Times are told in whole seconds.
const SETTLED: SignedDuration = SignedDuration::from_secs(9);

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

    /// Takes the binding of a policy away; gives what brings it back.
    async fn take_away_binding(&self, policy: &str) -> Result<String> {
        let (admin, kind) = (self.world.bed.admin(), "validatingadmissionpolicybinding");
        let mut kept: Value = serde_json::from_str(&admin.kubectl(&["get", kind, policy, "-o", "json"]).await?)?;
        for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields", "generation"] {
            kept["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
        }
        admin.kubectl(&["delete", kind, policy]).await?;
        Ok(kept.to_string())
    }

    /// Whether every Restore is younger than the binding of a policy, by so much.
    async fn restores_came_after(&self, policy: &str, by: SignedDuration) -> Result<bool> {
        let made = ["get", "validatingadmissionpolicybinding", policy, "-o", "jsonpath={.metadata.creationTimestamp}"];
        let made: Timestamp = self.world.bed.admin().kubectl(&made).await?.parse()?;
        let restores = self.veleros::<Restore>().list(&ListParams::default()).await?;
        let came_after = |restore: &Restore| {
            restore.creation_timestamp().is_some_and(|created| created.0.duration_since(made) >= by)
        };
        Ok(!restores.items.is_empty() && restores.iter().all(came_after))
    }

    async fn change_restore(&self, name: &str, change: Value) -> Result<()> {
        self.veleros::<Restore>().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }
}

#[tokio::test]
async fn an_own_bucket_is_not_synchronised_while_a_policy_around_it_is_away() -> Result<()> {
    let plot = Box::pin(Plot::alone("unfenced", SETTINGS)).await?;
    plot.add_location(json!({ "backupSyncPeriod": "5s" })).await?;
    plot.location_is_available().await;
    plot.velero_synchronises_every("5s").await;
    let kept = plot.take_away_binding("croft-own-bucket-findings").await?;
    plot.velero_synchronises_every("0s").await;
    plot.status::<NonAdminBackupStorageLocation>("here", "to say why", |status| {
        told(status).contains(&"Accepted=False PoliciesMissing".to_owned())
    })
    .await;
    apply(plot.world.bed.admin(), &kept).await?;
    plot.velero_synchronises_every("5s").await;
    Ok(())
}

#[tokio::test]
async fn a_restore_waits_while_a_policy_around_it_is_away_and_while_one_of_the_administrators_runs() -> Result<()> {
    let plot = Box::pin(Plot::alone("unjudged", SETTINGS)).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    let (backup, _) = plot.completed_backup().await?;
    let restore = json!({ "restoreSpec": { "backupName": "nightly" } });
    let says = |reason: &str| {
        let wanted = format!("Accepted=False {reason}");
        move |status: &Value| told(status).contains(&wanted)
    };
    let kept = plot.take_away_binding("croft-restored-objects").await?;
    plot.create::<NonAdminRestore>("unjudged", restore.clone()).await?;
    plot.status::<NonAdminRestore>("unjudged", "to wait for the policy", says("PoliciesMissing")).await;
    ensure!(plot.veleros::<Restore>().list(&ListParams::default()).await?.items.is_empty(), "it is with Velero");
    apply(plot.world.bed.admin(), &kept).await?;
    plot.restore_phase("unjudged", "Completed").await;
    ensure!(
        plot.restores_came_after("croft-restored-objects", SETTLED).await?,
        "the policy may not have been in force"
    );

    // In progress from the beginning, so that Velero itself leaves it alone.
    let disaster = json!({
        "apiVersion": "velero.io/v1", "kind": "Restore", "metadata": { "name": "disaster", "namespace": "velero" },
        "spec": { "backupName": velero_name(&backup) }, "status": { "phase": "InProgress" },
    });
    apply(plot.world.bed.admin(), &disaster.to_string()).await?;
    plot.create::<NonAdminRestore>("patient", restore).await?;
    plot.status::<NonAdminRestore>("patient", "to wait for the other", says("AnotherRestoreRuns")).await;
    plot.veleros::<Restore>().delete("disaster", &DeleteParams::default()).await?;
    plot.restore_phase("patient", "Completed").await;
    Ok(())
}

#[tokio::test]
async fn while_velero_stands_still_what_it_has_not_begun_with_is_let_go_and_what_it_never_finishes_is_ended()
-> Result<()> {
    let plot = Box::pin(Plot::alone("standing", SETTINGS)).await?;
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
