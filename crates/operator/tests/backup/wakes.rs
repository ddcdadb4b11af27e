//! Whoever waits goes on by itself when what it waits for has come.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{
        BackupVault, NAB_ORIGIN_NACUUID_LABEL, NAB_SYNCED_FROM_NACUUID_LABEL, NonAdminBackup,
        NonAdminBackupStorageLocation,
    },
    storage::{S3TeamQuota, TEAM_LABEL},
    velero::Backup,
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, VELERO_PATIENCE, message, velero_name},
    support::eventually,
};

impl Plot {
    /// Puts the namespace into a team of its own that may have so much.
    async fn join_team(&self, name: &str, size: &str) -> Result<()> {
        let team = format!("{name}-{}", self.namespace);
        let quotas: Api<S3TeamQuota> = Api::all(self.world.client());
        let quota = json!({ "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3TeamQuota",
                            "metadata": { "name": team }, "spec": { "hard": { "size": size } } });
        quotas.patch(&team, &PatchParams::apply("test"), &Patch::Apply(quota)).await?;
        eventually("the team's quota to be known", || async { Ok(quotas.get(&team).await?.status.map(drop)) }).await;
        let namespaces: Api<Namespace> = Api::all(self.world.client());
        let label = json!({ "metadata": { "labels": { TEAM_LABEL: team } } });
        namespaces.patch(&self.namespace, &PatchParams::default(), &Patch::Merge(&label)).await?;
        Ok(())
    }

    async fn vault_is(&self, name: &str, reason: &str) -> Value {
        self.status::<BackupVault>(name, &format!("to be {reason}"), |told| {
            let mut conditions = told["conditions"].as_array().into_iter().flatten();
            conditions.any(|condition| condition["type"] == "Ready" && condition["reason"] == reason)
        })
        .await
    }
}

#[tokio::test]
async fn a_vault_that_is_short_of_quota_goes_on_when_another_one_gives_it_back() -> Result<()> {
    let plot = Plot::empty("crowded").await?;
    plot.join_team("crowd", "3Gi").await?;
    plot.create::<BackupVault>("first", json!({ "quota": { "size": "2Gi" } })).await?;
    plot.vault_is("first", "Provisioned").await;
    plot.create::<BackupVault>("second", json!({ "quota": { "size": "2Gi" } })).await?;
    plot.vault_is("second", "QuotaExceeded").await;
    plot.delete::<BackupVault>("first").await?;
    plot.vault_is("second", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_vault_that_is_short_of_quota_goes_on_when_its_namespace_joins_another_team() -> Result<()> {
    let plot = Plot::empty("moved").await?;
    plot.join_team("poor", "1Gi").await?;
    plot.add_vault(json!({ "quota": { "size": "2Gi" } })).await?;
    plot.vault_says("False", "QuotaExceeded").await;
    plot.join_team("rich", "9Gi").await?;
    plot.vault_says("True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_backup_that_waits_for_the_oldest_vault_takes_the_next_when_that_goes() -> Result<()> {
    let plot = Plot::empty("orphaned").await?;
    // Of a class that nobody has made: it is never ready.
    plot.create::<BackupVault>("oldest", json!({ "s3ClassName": "nobody-made-it" })).await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let waits = |status: &Value| message(status, "Accepted").contains("\"oldest\" has no storage location");
    plot.status::<NonAdminBackup>("nightly", "to wait", waits).await;
    // It is a second younger at least.
    let oldest = plot.api::<BackupVault>().get("oldest").await?.creation_timestamp().context("a time")?;
    wait::until_true("a second to pass", VELERO_PATIENCE, || async {
        Ok(jiff::Timestamp::now().as_second() > oldest.0.as_second())
    })
    .await?;
    plot.add_vault(json!({})).await?;
    plot.vault_says("True", "Provisioned").await;
    plot.status::<NonAdminBackup>("nightly", "to wait for the oldest", waits).await;
    plot.delete::<BackupVault>("oldest").await?;
    plot.backup_completes("nightly").await?;
    Ok(())
}

#[tokio::test]
async fn of_two_backups_that_had_one_name_the_other_comes_back_when_the_first_is_deleted() -> Result<()> {
    let plot = Plot::with_vault("twice").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let first = plot.backup_completes("nightly").await?;
    let mut twin = plot.veleros::<Backup>().get(&velero_name(&first)).await?;
    // As Velero finds it in the bucket: made for the request that had the name in a lost cluster.
    let name = format!("{}-before", plot.namespace);
    let labels = twin.metadata.labels.get_or_insert_default();
    labels.insert(NAB_ORIGIN_NACUUID_LABEL.into(), name.clone());
    let marks = json!({ "metadata": { "labels": twin.metadata.labels, "annotations": twin.metadata.annotations } });
    plot.veleros::<Backup>().create(&PostParams::default(), &Backup::new(&name, twin.spec)).await?;
    wait::until("the other one to be there", VELERO_PATIENCE, || async {
        let before = plot.veleros::<Backup>().get(&name).await?;
        ensure!(before.status.is_some_and(|status| status.completion_timestamp().is_some()), "it is not done");
        Ok(Some(()))
    })
    .await?;
    // Only now: one that waits for its turn goes with its request.
    plot.veleros::<Backup>().patch(&name, &PatchParams::default(), &Patch::Merge(&marks)).await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    let back = wait::until("the other one to come back", VELERO_PATIENCE, || async {
        let found = plot.api::<NonAdminBackup>().get_opt("nightly").await?;
        Ok(found.filter(|found| found.uid() != first.uid()))
    })
    .await?;
    assert_eq!(back.labels().get(NAB_SYNCED_FROM_NACUUID_LABEL), Some(&name));
    Ok(())
}

#[tokio::test]
async fn the_secret_of_a_vault_is_put_right_whatever_somebody_does_to_it() -> Result<()> {
    let plot = Plot::with_vault("robust").await?;
    let secrets = plot.veleros::<Secret>();
    let name = plot.vault_secrets().await?.pop().context("a Secret")?;
    let right = secrets.get(&name).await?.data;
    let is_right = || async {
        let data = secrets.get_opt(&name).await?.and_then(|secret| secret.data);
        ensure!(data == right, "it is not");
        Ok(Some(()))
    };
    let wrong = json!({ "stringData": { "cloud": "nothing" } });
    secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&wrong)).await?;
    eventually("the Secret to be put right", is_right).await;
    secrets.delete(&name, &DeleteParams::default()).await?;
    eventually("the Secret to come back", is_right).await;
    plot.vault_says("True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_vault_that_is_deleted_without_what_it_owns_goes_and_can_be_made_again() -> Result<()> {
    let plot = Plot::with_vault("disowned").await?;
    let orphan = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    plot.api::<BackupVault>().delete("safe", &orphan).await?;
    plot.vanishes(&plot.api::<BackupVault>(), "safe").await?;
    assert_eq!(plot.vault_secrets().await?, [""; 0]);
    // Where Kubernetes was faster than we the location is nobody's now, and hers to delete.
    let locations = plot.api::<NonAdminBackupStorageLocation>();
    if locations.get_opt("safe").await?.is_some() {
        locations.delete("safe", &DeleteParams::default()).await?;
    }
    plot.vanishes(&locations, "safe").await?;
    plot.add_vault(json!({})).await?;
    plot.vault_says("True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_location_that_may_not_move_for_its_backups_moves_when_they_are_gone() -> Result<()> {
    let plot = Plot::furnished("tied").await?;
    plot.completed_backup().await?;
    let moved = json!({ "objectStorage": { "bucket": plot.namespace, "prefix": "elsewhere" } });
    plot.patch::<NonAdminBackupStorageLocation>("here", json!({ "spec": plot.location_spec(moved) })).await?;
    let is_tied = |status: &Value| message(status, "Accepted").contains("has 1 backups where it stores now");
    plot.status::<NonAdminBackupStorageLocation>("here", "to stay", is_tied).await;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    eventually("Velero's location to move", || async {
        let spec = json!(plot.velero_location().await?.spec);
        ensure!(spec["objectStorage"]["prefix"] == format!("{}/elsewhere", plot.namespace), "{spec}");
        Ok(Some(()))
    })
    .await;
    Ok(())
}
