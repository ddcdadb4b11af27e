//! What Velero is working on is not deleted under its hands: it would look for it, and serve nobody else meanwhile.

use anyhow::{Result, ensure};
use croft_api::{backup::NonAdminBackup, velero::Backup};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::plot::{Plot, VELERO_PATIENCE, message, velero_name};

impl Plot {
    /// Velero's Backup as it is while Velero works on it, or once that is done. Here that lasts for moments only, so its word is
    /// written for it.
    pub(crate) async fn velero_says(&self, backup: &str, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "status": status }));
        self.veleros::<Backup>().patch(backup, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Its name in Velero's namespace.
    pub(crate) async fn backup_velero_works_on(&self) -> Result<String> {
        let (backup, _) = self.completed_backup().await?;
        let name = velero_name(&backup);
        self.velero_says(&name, json!({ "phase": "InProgress", "completionTimestamp": null })).await?;
        self.status::<NonAdminBackup>("nightly", "to say that Velero works", |status| {
            status["veleroBackup"]["status"]["phase"] == "InProgress"
        })
        .await;
        Ok(name)
    }

    pub(crate) async fn velero_is_done_with(&self, backup: &str) -> Result<()> {
        self.velero_says(backup, json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z" })).await
    }
}

#[tokio::test]
async fn a_forced_deletion_waits_until_velero_says_it_is_done_with_the_backup() -> Result<()> {
    let plot = Plot::furnished("busy").await?;
    let name = plot.backup_velero_works_on().await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.status::<NonAdminBackup>("nightly", "to say what it waits for", |status| {
        message(status, "Deleting").starts_with("Velero is working on this backup")
    })
    .await;
    ensure!(plot.veleros::<Backup>().get(&name).await?.metadata.deletion_timestamp.is_none(), "deleted meanwhile");
    plot.velero_is_done_with(&name).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await
}

#[tokio::test]
async fn backups_that_are_taken_back_while_their_turn_comes_do_not_stop_veleros_queue() -> Result<()> {
    let plot = Plot::furnished("fickle").await?;
    for round in 0..12 {
        let (name, wish) = (format!("b{round}"), ["deleteBackup", "forceDeleteBackup"][round % 2]);
        plot.add_backup(&name).await?;
        plot.status::<NonAdminBackup>(&name, "to be with Velero", |status| status["phase"] == "Created").await;
        plot.patch::<NonAdminBackup>(&name, json!({ "spec": { wish: true } })).await?;
        plot.vanishes(&plot.api::<NonAdminBackup>(), &name).await?;
    }
    plot.completed_backup().await?;
    Ok(())
}

#[tokio::test]
async fn a_namespace_goes_while_velero_says_it_works_on_its_backup_which_goes_when_that_is_done() -> Result<()> {
    let plot = Plot::furnished("busily").await?;
    let name = plot.backup_velero_works_on().await?;
    let namespaces: Api<Namespace> = Api::all(plot.world.client());
    namespaces.delete(&plot.namespace, &DeleteParams::default()).await?;
    wait::until("the namespace to go", VELERO_PATIENCE, || async {
        let left = namespaces.get_opt(&plot.namespace).await?;
        ensure!(left.is_none(), "its status is {:?}", left.and_then(|left| left.status));
        Ok(Some(()))
    })
    .await?;
    ensure!(plot.veleros::<Backup>().get(&name).await?.metadata.deletion_timestamp.is_none(), "deleted meanwhile");
    plot.velero_is_done_with(&name).await?;
    plot.vanishes(&plot.veleros::<Backup>(), &name).await
}
