//! How much one namespace may have at a time: what comes after that waits and goes on by itself.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Result, ensure};
use croft_api::{
    backup::{
        BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminDownloadRequest,
        NonAdminRestore,
    },
    velero::DownloadRequest,
};
use croft_testbed::{
    Testbed,
    fault::{Action, FaultProxy, Match, Seen},
};
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, SETTINGS, message},
    support::{Held, PATIENCE, Shared, World, eventually},
};

/// A backup that is finished, in a world of its own where the operator can be disturbed.
async fn disturbed(prefix: &str, downloads: u64) -> Result<(Plot, FaultProxy)> {
    let (bed, installed) = World::installed(Testbed::kubernetes().with_velero()).await?;
    let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
    let config = bed.dir().join("settings.yaml");
    std::fs::write(&config, SETTINGS.replace("schedules: 2", &format!("unansweredDownloads: {downloads}")))?;
    let config = config.display().to_string();
    let operator =
        installed.start(&bed, "disturbed", proxy.kubeconfig(), &["--log", "info,croft=debug", "--config", &config])?;
    operator.ready(PATIENCE).await?;
    let world = Shared { operator, bed: Held::BySome(Arc::new(bed)), installed };
    let plot = Plot::within(Held::BySome(Arc::new(world)), prefix).await?;
    plot.world.bed.ceph().create_bucket(&plot.namespace).await?;
    plot.add_secret("cloud").await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    plot.completed_backup().await?;
    Ok((plot, proxy))
}

impl Plot {
    async fn asks_for_its_log(&self, name: &str) -> Result<String> {
        let spec = json!({ "target": { "kind": "BackupLog", "name": "nightly" } });
        let asked = self.create::<NonAdminDownloadRequest>(name, spec).await?;
        Ok(format!("nadr-{}", asked.uid().unwrap_or_default()))
    }

    async fn has_its_log(&self, name: &str) {
        let signed = |status: &Value| status["velero"]["status"]["downloadURL"].is_string();
        self.status::<NonAdminDownloadRequest>(name, "to have its URL", signed).await;
    }

    async fn asked_of_velero(&self) -> Result<BTreeSet<String>> {
        let asked = self.veleros::<DownloadRequest>().list(&ListParams::default()).await?;
        Ok(asked.items.iter().map(ResourceExt::name_any).collect())
    }
}

#[tokio::test]
async fn a_namespace_has_never_more_unanswered_downloads_than_its_limit() -> Result<()> {
    let (plot, proxy) = Box::pin(disturbed("curious", 3)).await?;
    plot.world.bed.velero().process().stop();
    proxy.pause_watches();
    let mut asked = Vec::new();
    for number in 10..30 {
        asked.push(plot.asks_for_its_log(&format!("d{number}")).await?);
    }
    // All are heard of at a time.
    proxy.resume_watches();
    let waits = |status: &Value| {
        message(status, "Processed") == "3 downloads without an answer in this namespace, the limit is 3"
    };
    for number in 13..30 {
        plot.status::<NonAdminDownloadRequest>(&format!("d{number}"), "to wait", waits).await;
    }
    assert_eq!(plot.asked_of_velero().await?, asked[..3].iter().cloned().collect(), "the first, and no more");
    plot.world.bed.velero().process().cont();
    for number in 10..30 {
        plot.has_its_log(&format!("d{number}")).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_download_whose_wait_is_not_told_yet_is_woken_all_the_same() -> Result<()> {
    let (plot, proxy) = Box::pin(disturbed("forgotten", 1)).await?;
    plot.world.bed.velero().process().stop();
    let first = plot.asks_for_its_log("first").await?;
    eventually("Velero to be asked", || async {
        ensure!(plot.asked_of_velero().await?.contains(&first));
        Ok(Some(()))
    })
    .await;
    let telling = Match::write().resource("nonadmindownloadrequests").name("second");
    let untold = proxy.on(telling).before(Action::Hold);
    plot.asks_for_its_log("second").await?;
    eventually("the operator to be about to tell", || async { Ok((untold.fired() > 0).then_some(())) }).await;
    plot.world.bed.velero().process().cont();
    plot.has_its_log("first").await;
    // The operator hears of what it told only once it knows that it was its own.
    proxy.pause_watches();
    untold.release();
    eventually("the wait to be told", || async {
        let is_told = |seen: &Seen| {
            seen.request.name.as_deref() == Some("second") && seen.status.is_some_and(|status| status < 300)
        };
        Ok(proxy.writes().iter().any(is_told).then_some(()))
    })
    .await;
    proxy.resume_watches();
    plot.has_its_log("second").await;
    Ok(())
}

#[tokio::test]
async fn who_waits_for_a_download_that_is_taken_back_goes_on() -> Result<()> {
    let (plot, proxy) = Box::pin(disturbed("withdrawn", 1)).await?;
    // Velero is not asked for the first one, and the second comes after it.
    let refused = Match::verb("create").resource("downloadrequests");
    let refused = proxy.on(refused).before(Action::Status(503)).always();
    plot.asks_for_its_log("first").await?;
    eventually("Velero not to be asked", || async { Ok((refused.fired() > 0).then_some(())) }).await;
    plot.asks_for_its_log("second").await?;
    let waits = |status: &Value| message(status, "Processed").contains("the limit is 1");
    plot.status::<NonAdminDownloadRequest>("second", "to wait", waits).await;
    plot.delete::<NonAdminDownloadRequest>("first").await?;
    plot.vanishes(&plot.api::<NonAdminDownloadRequest>(), "first").await?;
    let asks = |status: &Value| !message(status, "Processed").contains("the limit is 1");
    plot.status::<NonAdminDownloadRequest>("second", "to have its turn", asks).await;
    refused.remove();
    plot.has_its_log("second").await;
    Ok(())
}

#[tokio::test]
async fn no_more_than_so_many_backups_of_a_namespace_are_with_velero() -> Result<()> {
    let plot = Plot::with_vault("greedy").await?;
    plot.add_config_map("prices").await?;
    for number in 1..=5 {
        plot.back_up_somewhere(&format!("b{number}")).await?;
    }
    let waits = |status: &Value| {
        let said = message(status, "Accepted");
        status["phase"] == "New" && said == "3 unfinished backups in this namespace, the limit is 3"
    };
    plot.status::<NonAdminBackup>("b5", "to wait", waits).await;
    for number in 1..=5 {
        plot.backup_completes(&format!("b{number}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_waits_for_a_location_that_is_not_ready_costs_nobody_else_a_turn() -> Result<()> {
    let plot = Plot::with_vault("stuck").await?;
    plot.add_config_map("prices").await?;
    // Its keys never come.
    plot.add_location(json!({})).await?;
    let waits =
        |status: &Value| status["phase"] == "New" && message(status, "Accepted").contains("not in created state");
    for number in 1..=3 {
        plot.add_backup(&format!("w{number}")).await?;
        plot.status::<NonAdminBackup>(&format!("w{number}"), "to wait for the location", waits).await;
    }
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    let status = json!(plot.api::<NonAdminBackup>().get("w1").await?.status);
    assert!(waits(&status), "{status}");
    Ok(())
}

#[tokio::test]
async fn no_more_than_so_many_restores_of_a_namespace_are_with_velero() -> Result<()> {
    let plot = Plot::with_vault("impatient").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;
    for number in 1..=5 {
        let spec = json!({ "restoreSpec": { "backupName": "nightly" } });
        plot.create::<NonAdminRestore>(&format!("r{number}"), spec).await?;
    }
    let waits = |status: &Value| {
        let said = message(status, "Accepted");
        status["phase"] == "New" && said == "2 unfinished restores in this namespace, the limit is 2"
    };
    plot.status::<NonAdminRestore>("r5", "to wait", waits).await;
    for number in 1..=5 {
        plot.restore_phase(&format!("r{number}"), "Completed").await;
    }
    Ok(())
}

#[tokio::test]
async fn who_waits_for_a_place_is_left_alone_until_it_is_its_turn() -> Result<()> {
    let plot = Plot::with_vault("patient").await?;
    plot.add_config_map("prices").await?;
    for number in 1..=6 {
        plot.back_up_somewhere(&format!("b{number}")).await?;
    }
    let waits =
        |status: &Value| message(status, "Accepted") == "3 unfinished backups in this namespace, the limit is 3";
    plot.status::<NonAdminBackup>("b6", "to wait", waits).await;
    let before = plot.api::<NonAdminBackup>().get("b6").await?;
    plot.backup_completes("b1").await?;
    plot.status::<NonAdminBackup>("b4", "to have its turn", |status| status["phase"] == "Created").await;
    let after = plot.api::<NonAdminBackup>().get("b6").await?;
    if waits(&json!(after.status)) {
        assert_eq!(after.resource_version(), before.resource_version(), "written to although it only waits");
    }
    Ok(())
}

#[tokio::test]
async fn a_location_beyond_the_limit_waits_until_another_goes() -> Result<()> {
    let plot = Plot::bare("spread").await?;
    for number in 1..=4 {
        let spec = plot
            .location_spec(json!({ "objectStorage": { "bucket": plot.namespace, "prefix": format!("p{number}") } }));
        plot.create::<NonAdminBackupStorageLocation>(&format!("l{number}"), spec).await?;
    }
    let waits = |status: &Value| message(status, "Accepted") == "3 storage locations in this namespace, the limit is 3";
    let status = plot.status::<NonAdminBackupStorageLocation>("l4", "to wait", waits).await;
    assert_eq!(status["phase"], "New");
    plot.delete::<NonAdminBackupStorageLocation>("l1").await?;
    let goes_on = |status: &Value| message(status, "Accepted").contains("credentials secret not found");
    plot.status::<NonAdminBackupStorageLocation>("l4", "to go on", goes_on).await;
    Ok(())
}

#[tokio::test]
async fn a_schedule_beyond_the_limit_waits_until_another_goes() -> Result<()> {
    let plot = Plot::empty("scheduled").await?;
    for number in 1..=3 {
        let spec = json!({ "schedule": "@yearly", "template": { "backupSpec": {} } });
        plot.create::<BackupSchedule>(&format!("s{number}"), spec).await?;
    }
    let waits = |status: &Value| message(status, "Ready") == "2 schedules in this namespace, the limit is 2";
    plot.status::<BackupSchedule>("s3", "to wait", waits).await;
    plot.delete::<BackupSchedule>("s1").await?;
    plot.status::<BackupSchedule>("s3", "to go on", |status| status["nextScheduleTime"].is_string()).await;
    Ok(())
}

#[tokio::test]
async fn a_vault_beyond_the_limit_waits_until_another_goes() -> Result<()> {
    let plot = Plot::empty("vaulted").await?;
    for number in 1..=4 {
        plot.create::<BackupVault>(&format!("v{number}"), json!({})).await?;
    }
    let waits = |status: &Value| message(status, "Ready") == "3 vaults in this namespace, the limit is 3";
    plot.status::<BackupVault>("v4", "to wait", waits).await;
    plot.delete::<BackupVault>("v1").await?;
    plot.status::<BackupVault>("v4", "to go on", |status| status["bucket"].is_string()).await;
    Ok(())
}
