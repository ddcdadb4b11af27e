//! How much one namespace may have at a time: what comes after that waits and goes on by itself.

use anyhow::Result;
use croft_api::backup::{BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::plot::{Plot, message};

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
