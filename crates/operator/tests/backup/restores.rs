//! Restores: from one's own backup, into one's own namespace.

use anyhow::Result;
use croft_api::{
    backup::{NAR_FINALIZER, NonAdminBackup, NonAdminRestore},
    velero::Restore,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::json;

use crate::plot::{Plot, message, told};

#[tokio::test]
async fn a_restore_brings_a_deleted_config_map_back() -> Result<()> {
    let plot = Plot::furnished("restore").await?;
    plot.completed_backup().await?;
    plot.delete::<ConfigMap>("prices").await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let status = plot.restore_phase("back", "Completed").await;
    assert_eq!(status["phase"], "Created");
    assert_eq!(told(&status), ["Accepted=True RestoreAccepted", "Queued=True RestoreScheduled"]);
    assert_eq!(status["queueInfo"]["estimatedQueuePosition"], 0);
    let prices = plot.api::<ConfigMap>().get("prices").await?;
    assert_eq!(prices.data.unwrap_or_default()["price"], "7");

    let velero = plot.veleros::<Restore>().get(status["veleroRestore"]["name"].as_str().unwrap_or_default()).await?;
    assert_eq!(velero.spec.included_namespaces(), Some(vec![plot.namespace.as_str()]));
    let excluded = velero.spec.texts("excludedResources").unwrap_or_default();
    assert!(excluded.contains(&"clusterrolebindings") && excluded.contains(&"volumesnapshotclasses"), "{excluded:?}");
    Ok(())
}

#[tokio::test]
async fn a_restore_waits_for_its_backup_and_runs_by_itself() -> Result<()> {
    let plot = Plot::furnished("before").await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let waiting = plot.status::<NonAdminRestore>("back", "to wait", |s| s["phase"] == "BackingOff").await;
    assert!(message(&waiting, "Accepted").contains("not found"), "{waiting}");
    plot.completed_backup().await?;
    plot.restore_phase("back", "Completed").await;
    Ok(())
}

#[tokio::test]
async fn deleting_a_restore_removes_the_velero_restore_and_keeps_the_backup() -> Result<()> {
    let plot = Plot::furnished("undo").await?;
    plot.completed_backup().await?;
    let restore: NonAdminRestore = plot.create("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let status = plot.restore_phase("back", "Completed").await;
    let name = status["veleroRestore"]["name"].as_str().unwrap_or_default().to_owned();
    assert!(name.ends_with(&restore.uid().unwrap_or_default()));
    let held = plot.api::<NonAdminRestore>().get("back").await?;
    assert!(held.finalizers().iter().any(|finalizer| finalizer == NAR_FINALIZER));
    plot.delete::<NonAdminRestore>("back").await?;
    plot.vanishes(&plot.api::<NonAdminRestore>(), "back").await?;
    plot.vanishes(&plot.veleros::<Restore>(), &name).await?;
    plot.backup_completes("nightly").await?;
    assert!(plot.api::<NonAdminBackup>().get("nightly").await?.metadata.deletion_timestamp.is_none());
    Ok(())
}

#[tokio::test]
async fn a_restore_that_reaches_out_of_its_namespace_is_refused() -> Result<()> {
    let plot = Plot::furnished("reach").await?;
    plot.completed_backup().await?;
    let spec = json!({ "restoreSpec": { "backupName": "nightly", "includeClusterResources": true } });
    plot.create::<NonAdminRestore>("back", spec).await?;
    let refused = plot.status::<NonAdminRestore>("back", "to be refused", |s| s["phase"] == "BackingOff").await;
    assert_eq!(told(&refused), ["Accepted=False InvalidRestoreSpec"]);
    assert!(refused.get("veleroRestore").is_none(), "{refused}");
    Ok(())
}
