//! Velero's queue: everybody is told his place, and nobody has more of it than he may.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminRestore},
    velero::Backup,
};
use serde_json::{Value, json};

use crate::plot::{Kind, Plot, SETTINGS};

impl Plot {
    async fn has_place<K: Kind>(&self, name: &str, place: u64) -> Value {
        let what = format!("to have place {place}");
        self.status::<K>(name, &what, |status| status["queueInfo"]["estimatedQueuePosition"] == place).await
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
    for name in ["b1", "b3"] {
        let done = json!(plot.backup_completes(name).await?.status);
        ensure!(done["queueInfo"]["estimatedQueuePosition"] == 0, "{done}");
    }
    for name in ["r1", "r2"] {
        plot.restore_phase(name, "Completed").await;
        plot.has_place::<NonAdminRestore>(name, 0).await;
    }
    Ok(())
}
