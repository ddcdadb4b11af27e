//! What waits for Velero in a place that cannot be used: it does not wait there at everybody's cost, and goes on by itself where it can.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    velero::{Backup, BackupStorageLocation, Restore},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, SETTINGS, message, told},
    support::eventually,
};

/// Less than Velero lets everybody wait after a backup that failed when its turn came.
const NO_MINUTE_LOST: Duration = Duration::from_secs(45);

impl Plot {
    /// Backups that are with Velero, by their names there. Velero is not running.
    async fn queue(&self, names: &[&str]) -> Result<Vec<String>> {
        let mut queued = Vec::new();
        for name in names {
            self.add_backup(name).await?;
            let is_made = |status: &Value| status["veleroBackup"]["uid"].is_string();
            let status = self.status::<NonAdminBackup>(name, "to be with Velero", is_made).await;
            queued.push(status["veleroBackup"]["name"].as_str().unwrap_or_default().to_owned());
        }
        Ok(queued)
    }

    async fn are_out_of_the_queue(&self, queued: &[String]) {
        eventually("what waits to be out of Velero's queue", || async {
            let all = self.veleros::<Backup>().list(&ListParams::default()).await?;
            let left: Vec<_> = all.iter().map(ResourceExt::name_any).filter(|name| queued.contains(name)).collect();
            ensure!(left.is_empty(), "{left:?}");
            Ok(Some(()))
        })
        .await;
    }

    /// Says of the location what Velero would say of one it cannot reach.
    async fn velero_cannot_reach_it(&self) -> Result<()> {
        let name = self.velero_location().await?.name_any();
        let patch = Patch::Merge(json!({ "status": { "phase": "Unavailable" } }));
        self.veleros::<BackupStorageLocation>().patch(&name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

#[tokio::test]
async fn what_waits_in_a_bucket_that_is_taken_back_costs_nobody_else_a_turn() -> Result<()> {
    let hers = Box::pin(Plot::alone("taken-back", "")).await?;
    let his = Plot::within(hers.world.clone(), "next-in-line").await?;
    his.add_vault(json!({})).await?;
    his.vault_says("True", "Provisioned").await;
    his.add_config_map("prices").await?;
    hers.add_location(json!({})).await?;
    hers.is_asked_for(|_| true).await;
    hers.decide("approve").await?;
    hers.location_is_available().await;
    his.back_up_somewhere("before").await?;
    his.backup_completes("before").await?;

    hers.world.bed.velero().process().stop();
    let queued = hers.queue(&["b1", "b2", "b3"]).await?;
    his.back_up_somewhere("after").await?;
    let is_made = |status: &Value| status["veleroBackup"]["uid"].is_string();
    his.status::<NonAdminBackup>("after", "to be with Velero", is_made).await;
    hers.decide("reject").await?;
    hers.velero_has(0).await;
    let left = hers.veleros::<Backup>().list(&ListParams::default()).await?;
    let left: Vec<_> = left.iter().map(ResourceExt::name_any).filter(|name| queued.contains(name)).collect();
    ensure!(left.is_empty(), "its location is gone, and they wait for it: {left:?}");
    for name in ["b1", "b2", "b3"] {
        let lost = |status: &Value| told(status).contains(&"Accepted=False VeleroBackupNotFound".to_owned());
        hers.status::<NonAdminBackup>(name, "to tell of it", lost).await;
    }
    let since = Instant::now();
    hers.world.bed.velero().process().cont();
    his.backup_completes("after").await?;
    ensure!(since.elapsed() < NO_MINUTE_LOST, "it took {:?}", since.elapsed());

    // The same where she takes it away herself.
    hers.decide("approve").await?;
    hers.location_is_available().await;
    hers.world.bed.velero().process().stop();
    let queued = hers.queue(&["c1", "c2"]).await?;
    hers.delete::<NonAdminBackupStorageLocation>("here").await?;
    hers.vanishes(&hers.api::<NonAdminBackupStorageLocation>(), "here").await?;
    hers.are_out_of_the_queue(&queued).await;
    his.back_up_somewhere("at-last").await?;
    his.status::<NonAdminBackup>("at-last", "to be with Velero", is_made).await;
    let since = Instant::now();
    hers.world.bed.velero().process().cont();
    his.backup_completes("at-last").await?;
    ensure!(since.elapsed() < NO_MINUTE_LOST, "it took {:?}", since.elapsed());

    // And where she does so past the finalizer, so that only what is left tells of it.
    hers.add_location(json!({})).await?;
    hers.is_asked_for(|_| true).await;
    hers.decide("approve").await?;
    hers.location_is_available().await;
    hers.world.bed.velero().process().stop();
    let queued = hers.queue(&["d1", "d2"]).await?;
    let place = hers.velero_location().await?.name_any();
    hers.patch::<NonAdminBackupStorageLocation>("here", json!({ "metadata": { "finalizers": null } })).await?;
    hers.delete::<NonAdminBackupStorageLocation>("here").await?;
    hers.vanishes(&hers.veleros::<BackupStorageLocation>(), &place).await?;
    let left = hers.veleros::<Backup>().list(&ListParams::default()).await?;
    let left: Vec<_> = left.iter().map(ResourceExt::name_any).filter(|name| queued.contains(name)).collect();
    ensure!(left.is_empty(), "its location is gone, and they wait for it: {left:?}");
    hers.world.bed.velero().process().cont();
    Ok(())
}

#[tokio::test]
async fn while_velero_says_that_a_location_is_unavailable_restores_wait_for_it_and_backups_do_not_wait_in_its_queue()
-> Result<()> {
    let plot = Box::pin(Plot::alone("unavailable", SETTINGS)).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    plot.completed_backup().await?;
    plot.world.bed.velero().process().stop();
    let queued = plot.queue(&["b1", "b2"]).await?;
    plot.velero_cannot_reach_it().await?;
    plot.are_out_of_the_queue(&queued).await;
    for name in ["b1", "b2"] {
        let told_so = |status: &Value| {
            message(status, "Accepted").contains("create a new NonAdminBackup once the location is available")
        };
        plot.status::<NonAdminBackup>(name, "to tell of it", told_so).await;
    }
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let waits = |status: &Value| told(status) == ["Accepted=False LocationNotReady"];
    let status = plot.status::<NonAdminRestore>("back", "to wait for the location", waits).await;
    ensure!(status["phase"] == "New", "{status}");
    ensure!(plot.veleros::<Restore>().list(&ListParams::default()).await?.items.is_empty(), "Velero would refuse it");

    plot.world.bed.velero().process().cont();
    plot.restore_phase("back", "Completed").await;
    plot.add_backup("b3").await?;
    plot.backup_completes("b3").await?;
    Ok(())
}

#[tokio::test]
async fn nothing_of_a_namespace_that_velero_passes_over_is_handed_over_until_it_does_not_any_more() -> Result<()> {
    // Before there is a place for backups: whoever asked in the same moment might be heard before the label is.
    let plot = Plot::bare("passed-over").await?;
    let namespaces: Api<Namespace> = Api::all(plot.world.client());
    let label =
        |value: Value| Patch::Merge(json!({ "metadata": { "labels": { "velero.io/exclude-from-backup": value } } }));
    namespaces.patch(&plot.namespace, &PatchParams::default(), &label(json!("true"))).await?;
    plot.add_config_map("prices").await?;
    plot.add_secret("cloud").await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    plot.add_backup("nightly").await?;
    let told_so = |status: &Value| told(status) == ["Accepted=False NamespaceExcluded"];
    let status = plot.status::<NonAdminBackup>("nightly", "to wait", told_so).await;
    ensure!(status["phase"] == "New", "{status}");
    namespaces.patch(&plot.namespace, &PatchParams::default(), &label(Value::Null)).await?;
    plot.backup_completes("nightly").await?;
    Ok(())
}
