//! Velero's queue: everybody is told his place, and nobody has more of it than he may.

use anyhow::Result;
use croft_api::{
    backup::{NonAdminBackup, NonAdminRestore},
    velero::Backup,
};
use serde_json::{Value, json};

use crate::plot::{Kind, Plot, SETTINGS, VELERO_PATIENCE};

impl Plot {
    async fn has_place<K: Kind>(&self, name: &str, place: u64) -> Value {
        let what = format!("to have place {place}");
        self.status::<K>(name, &what, |status| status["queueInfo"]["estimatedQueuePosition"] == place).await
    }

    async fn has_left_the_queue<K: Kind>(&self, name: &str, has_ended: impl Fn(&Value) -> bool) {
        let has_left = |status: &Value| has_ended(status) && status["queueInfo"]["estimatedQueuePosition"] == 0;
        self.status_within::<K>(VELERO_PATIENCE, name, "to have ended, without a place", has_left).await;
    }
}

#[tokio::test]
async fn places_in_the_queue_are_told_and_advance_and_who_leaves_keeps_none() -> Result<()> {
    let plot = Box::pin(Plot::alone("queue", SETTINGS)).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    plot.completed_backup().await?;
    plot.has_place::<NonAdminBackup>("nightly", 0).await;
    plot.world.bed.velero().process().stop();
    for (name, place) in [("b1", 1), ("b2", 2), ("b3", 3)] {
        plot.add_backup(name).await?;
        plot.has_place::<NonAdminBackup>(name, place).await;
    }
    for (name, place) in [("r1", 1), ("r2", 2)] {
        plot.create::<NonAdminRestore>(name, json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
        plot.has_place::<NonAdminRestore>(name, place).await;
    }
    // Whoever takes her request away by hand does not leave it with Velero, to make room for the next.
    let status = plot.has_place::<NonAdminBackup>("b2", 2).await;
    let velero = status["veleroBackup"]["name"].as_str().unwrap_or_default().to_owned();
    plot.delete::<NonAdminBackup>("b2").await?;
    plot.patch::<NonAdminBackup>("b2", json!({ "metadata": { "finalizers": null } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "b2").await?;
    plot.vanishes(&plot.veleros::<Backup>(), &velero).await?;
    plot.has_place::<NonAdminBackup>("b3", 2).await;

    plot.world.bed.velero().process().cont();
    // However they end: Velero writes the credentials of one location anew for each of these four, beside whoever reads them.
    let has_ended = |velero: &Value| velero["status"]["completionTimestamp"].is_string();
    for name in ["b1", "b3"] {
        plot.has_left_the_queue::<NonAdminBackup>(name, |status| has_ended(&status["veleroBackup"])).await;
    }
    for name in ["r1", "r2"] {
        plot.has_left_the_queue::<NonAdminRestore>(name, |status| has_ended(&status["veleroRestore"])).await;
    }
    Ok(())
}
