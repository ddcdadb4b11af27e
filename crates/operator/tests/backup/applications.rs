//! A DataProtectionApplication as a source of what is enforced, where there is such a kind.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    velero::Backup,
};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::{
    plot::{Plot, told, velero_name},
    support::{Shared, apply, eventually},
};

/// As much of the kind as is read.
fn definition() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "dataprotectionapplications.oadp.openshift.io" },
        "spec": {
            "group": "oadp.openshift.io", "scope": "Namespaced",
            "names": { "kind": "DataProtectionApplication", "plural": "dataprotectionapplications" },
            "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

/// What an administrator says, in Velero's namespace.
async fn say(world: &Shared, non_admin: Value) -> Result<()> {
    let application = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "DataProtectionApplication",
        "metadata": { "name": "velero", "namespace": world.bed.velero().namespace }, "spec": { "nonAdmin": non_admin },
    });
    eventually("the kind to be served", || async { Ok(apply(world.bed.admin(), &application.to_string()).await.ok()) })
        .await;
    Ok(())
}

/// Waits until whoever asks for a backup that is kept this long is told so; `None`: is let in.
async fn is_told(plot: &Plot, ttl: &str, wanted: Option<&str>) -> Result<()> {
    let backup = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup", "metadata": { "name": "tried" },
        "spec": { "backupSpec": { "storageLocation": "here", "ttl": ttl } },
    });
    let backup: NonAdminBackup = serde_json::from_value(backup)?;
    let trying = PostParams { dry_run: true, ..PostParams::default() };
    eventually("the administrator's word to count", || async {
        let told = plot.api::<NonAdminBackup>().create(&trying, &backup).await.err().map(|error| error.to_string());
        match (&told, wanted) {
            (None, None) => {}
            (Some(told), Some(wanted)) if told.contains(wanted) => {}
            _ => anyhow::bail!("it is {told:?}"),
        }
        Ok(Some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn what_an_application_says_counts_at_once_and_only_as_long_as_it_says_so() -> Result<()> {
    let plot = Box::pin(Plot::alone("decreed", "")).await?;
    let world = &*plot.world;
    let bed = &*world.bed;
    plot.add_location(json!({})).await?;
    let waits = |status: &Value| told(status).iter().any(|it| it.contains("ClusterAdminApproved=False"));
    plot.status::<NonAdminBackupStorageLocation>("here", "to wait for approval", waits).await;

    apply(bed.admin(), &definition().to_string()).await?;
    say(world, json!({ "requireApprovalForBSL": false, "enforceBackupSpec": { "ttl": "36h" } })).await?;
    plot.location_is_available().await;
    let restricted = "the administrator has restricted spec.backupSpec.ttl field value to";
    is_told(&plot, "1h", Some(&format!("{restricted} 36h0m0s"))).await?;
    plot.add_backup("nightly").await?;
    let status = plot.status::<NonAdminBackup>("nightly", "to be handed over", |s| s["phase"] == "Created").await;
    let backup = plot.api::<NonAdminBackup>().get("nightly").await?;
    let velero = json!(plot.veleros::<Backup>().get(&velero_name(&backup)).await?);
    ensure!(velero["spec"]["ttl"] == "36h" || velero["spec"]["ttl"] == "36h0m0s", "{status} {velero}");

    say(world, json!({ "requireApprovalForBSL": false, "enforceBackupSpec": { "ttl": "48h" } })).await?;
    is_told(&plot, "36h", Some(&format!("{restricted} 48h0m0s"))).await?;

    say(world, json!({ "requireApprovalForBSL": false, "enforceBackupSpec": { "storageLocation": "x" } })).await?;
    is_told(&plot, "36h", None).await?;
    plot.add_backup("late").await?;
    let unclear = |status: &Value| told(status) == ["Accepted=False PolicyUnclear"];
    plot.status::<NonAdminBackup>("late", "to wait until it is clear what is enforced", unclear).await;
    say(world, json!({ "requireApprovalForBSL": false })).await?;
    plot.status::<NonAdminBackup>("late", "to go on by itself", |status| status["phase"] == "Created").await;

    say(world, json!(["nobody", "knows"])).await?;
    is_told(&plot, "36h", None).await?;
    plot.add_backup("later").await?;
    plot.status::<NonAdminBackup>("later", "to wait until the application can be read", unclear).await;
    say(world, json!({ "requireApprovalForBSL": false })).await?;
    plot.status::<NonAdminBackup>("later", "to go on by itself", |status| status["phase"] == "Created").await;
    let (ready, detail) = world.operator.readiness().await?;
    ensure!(ready, "{detail}");
    it_says_so_of_places_and_restores_too(&plot).await
}

/// Also over settings that trust everybody.
async fn it_says_so_of_places_and_restores_too(plot: &Plot) -> Result<()> {
    plot.settle("backup: { ownBuckets: Allow, enforceBSLSpec: { validationFrequency: 10s } }")?;
    let word = json!({
        "requireApprovalForBSL": true, "enforceRestoreSpec": { "preserveNodePorts": false },
        "enforceBSLSpec": { "validationFrequency": "30s" },
    });
    say(&plot.world, word).await?;
    let place = |prefix: &str| json!({ "objectStorage": { "bucket": plot.namespace, "prefix": prefix } });
    let mut often = place("often");
    often["validationFrequency"] = json!("1s");
    let often = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackupStorageLocation",
        "metadata": { "name": "often" }, "spec": plot.location_spec(often),
    });
    let often: NonAdminBackupStorageLocation = serde_json::from_value(often)?;
    let trying = PostParams { dry_run: true, ..PostParams::default() };
    let restricted = "the administrator has restricted spec";
    eventually("the administrator's word on places to count", || async {
        let told = plot.api().create(&trying, &often).await.err().map(|error| error.to_string()).unwrap_or_default();
        let wanted = format!("{restricted}.backupStorageLocationSpec.validationFrequency field to: 30s");
        ensure!(told.contains(&wanted), "{told:?}");
        Ok(Some(()))
    })
    .await;
    let other = json!({ "restoreSpec": { "backupName": "nightly", "preserveNodePorts": true } });
    let said = plot.refusal::<NonAdminRestore>("other", other).await?;
    ensure!(said.contains(&format!("{restricted}.restoreSpec.preserveNodePorts field value to false")), "{said}");
    plot.create::<NonAdminBackupStorageLocation>("there", plot.location_spec(place("there"))).await?;
    let waits = |status: &Value| told(status).contains(&"ClusterAdminApproved=False BslSpecApprovalPending".to_owned());
    plot.status::<NonAdminBackupStorageLocation>("there", "to wait for approval", waits).await;
    // What was in force before stays so, as is enforced.
    eventually("what is enforced to be in force", || async {
        let location = plot.velero_location().await?;
        ensure!(location.spec.text("validationFrequency") == Some("30s"), "{:?}", location.spec);
        Ok(Some(()))
    })
    .await;
    plot.location_is_available().await;
    Ok(())
}
