//! Programs written for the published API: they write whole objects back, zero values and all, with labels of their own.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{
        NonAdminBackup, NonAdminBackupStorageLocation, NonAdminBackupStorageLocationRequest, NonAdminDownloadRequest,
        NonAdminRestore,
    },
    velero::Backup,
};
use croft_testbed::{Testbed, wait};
use kube::{Api, Resource, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::{
    approvals::asking,
    away::{furnish, is_handed_over},
    plot::{Kind, Plot, SETTINGS, VELERO_PATIENCE, told},
    support::{Held, World, apply, eventually},
};

/// What programs in Go write for a `backupSpec` that says nothing but the place.
fn zeroes() -> Value {
    json!({
        "metadata": {}, "ttl": "0s", "hooks": {}, "storageLocation": "here", "csiSnapshotTimeout": "0s", "itemOperationTimeout": "0s",
        "includedNamespaces": null, "labelSelector": null,
    })
}

impl Plot {
    /// Makes it as such a program does.
    async fn make<K: Kind>(&self, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": { "name": name, "creationTimestamp": null, "labels": { "app.kubernetes.io/managed-by": "oadp-cli" } },
            "spec": spec, "status": {},
        });
        self.api::<K>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    async fn update<K: Kind>(&self, name: &str, change: impl Fn(&mut Value)) -> Result<K> {
        update(&self.api::<K>(), name, change).await
    }

    /// Decides about the location as such a program does for an administrator.
    async fn replace_decision(&self, decision: &str) -> Result<()> {
        let name = self.request().await?.name_any();
        let requests = self.veleros::<NonAdminBackupStorageLocationRequest>();
        update(&requests, &name, |request| request["spec"]["approvalDecision"] = json!(decision)).await?;
        Ok(())
    }
}

/// Reads it, changes it, and writes back all of it.
async fn update<K: Kind>(api: &Api<K>, name: &str, change: impl Fn(&mut Value)) -> Result<K> {
    loop {
        let mut object = json!(api.get(name).await?);
        change(&mut object);
        match api.replace(name, &PostParams::default(), &serde_json::from_value(object)?).await {
            Err(kube::Error::Api(refused)) if refused.code == 409 => {}
            other => return Ok(other?),
        }
    }
}

#[tokio::test]
async fn a_client_of_the_published_api_works_with_whole_objects_and_zero_values() -> Result<()> {
    let plot = Plot::furnished("client").await?;
    plot.add_config_map("prices").await?;
    plot.make::<NonAdminBackup>("nightly", json!({ "backupSpec": zeroes() })).await?;
    let made = plot.backup_completes("nightly").await?;
    let labels = made.meta().labels.clone().unwrap_or_default();
    ensure!(labels.get("app.kubernetes.io/managed-by").is_some_and(|value| value == "oadp-cli"), "{labels:?}");
    plot.update::<NonAdminBackup>("nightly", |backup| backup["spec"]["backupSpec"] = zeroes()).await?;
    plot.update::<NonAdminBackup>("nightly", |backup| backup["spec"]["backupSpec"]["uploaderConfig"] = Value::Null)
        .await?;

    let spec =
        json!({ "backupName": "nightly", "hooks": {}, "itemOperationTimeout": "0s", "includedNamespaces": null });
    plot.make::<NonAdminRestore>("back", json!({ "restoreSpec": spec })).await?;
    plot.restore_phase("back", "Completed").await;
    plot.update::<NonAdminRestore>("back", |restore| restore["metadata"]["labels"]["seen"] = json!("yes")).await?;
    let before = plot.velero_location().await?;
    plot.update::<NonAdminBackupStorageLocation>("here", |location| {
        location["spec"]["backupStorageLocationSpec"]["validationFrequency"] = Value::Null;
    })
    .await?;
    let after = plot.velero_location().await?;
    ensure!(after.spec == before.spec, "{after:?}");
    let status =
        plot.status::<NonAdminBackup>("nightly", "to be as it was", |status| status["phase"] == "Created").await;
    ensure!(told(&status) == ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"], "{status}");

    let velero = status["veleroBackup"]["name"].as_str().unwrap_or_default();
    plot.update::<NonAdminBackup>("nightly", |backup| backup["spec"]["deleteBackup"] = json!(true)).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    plot.vanishes(&plot.veleros::<Backup>(), velero).await
}

#[tokio::test]
async fn places_are_asked_for_approved_and_rejected_and_logs_fetched_by_whole_objects_as_well() -> Result<()> {
    let world = asking().await;
    let plot = Plot::within(Held::ByAll(world), "whole").await?;
    world.bed.ceph().create_bucket(&plot.namespace).await?;
    plot.add_secret("cloud").await?;
    let mut spec = plot.location_spec(json!({ "default": false, "validationFrequency": null }));
    spec["backupStorageLocationSpec"]["objectStorage"]["caCert"] = Value::Null;
    plot.make::<NonAdminBackupStorageLocation>("here", spec).await?;
    plot.is_asked_for(|request| request["status"]["phase"] == "Pending").await;
    plot.replace_decision("approve").await?;
    plot.location_is_available().await;
    plot.completed_backup().await?;

    let request = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminDownloadRequest",
        "metadata": { "generateName": "nightly-logs-", "creationTimestamp": null,
                      "labels": { "app.kubernetes.io/managed-by": "oadp-cli" } },
        "spec": { "target": { "kind": "BackupLog", "name": "nightly" } }, "status": {},
    });
    let requests = plot.api::<NonAdminDownloadRequest>();
    let name = requests.create(&PostParams::default(), &serde_json::from_value(request)?).await?.name_any();
    let signed = |status: &Value| {
        told(status) == ["Processed=True Success"] && status["velero"]["status"]["downloadURL"].is_string()
    };
    plot.status::<NonAdminDownloadRequest>(&name, "to have its URL", signed).await;
    plot.delete::<NonAdminDownloadRequest>(&name).await?;

    plot.replace_decision("reject").await?;
    plot.location_says("ClusterAdminApproved=False BslSpecRejected").await;
    plot.velero_has(0).await;
    plot.replace_decision("approve").await?;
    plot.location_is_available().await;
    Ok(())
}

#[tokio::test]
async fn whoever_changes_a_backup_or_a_restore_past_the_door_is_told_that_it_has_no_effect() -> Result<()> {
    let world = World::own_with(Testbed::kubernetes().with_velero(), SETTINGS).await?;
    let admin = world.bed.admin();
    let owner = furnish(&world, "bypassed").await?;
    is_handed_over(&world, "bypassed").await;
    let restore = json!({ "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminRestore",
                          "metadata": { "name": "back", "namespace": "bypassed" },
                          "spec": { "restoreSpec": { "backupName": "nightly" } } });
    apply(&owner, &restore.to_string()).await?;
    wait::until("Velero to have the restore", VELERO_PATIENCE, || async {
        let path = "jsonpath={.status.phase}";
        let phase = admin.kubectl(&["get", "nonadminrestore", "back", "-n", "bypassed", "-o", path]).await?;
        Ok((phase == "Created").then_some(()))
    })
    .await?;
    admin.kubectl(&["delete", "validatingwebhookconfigurations", "--all"]).await?;
    for (kind, name, change, spec) in [
        ("nonadminbackup", "nightly", r#"{"spec":{"backupSpec":{"ttl":"5h"}}}"#, "backupSpec"),
        ("nonadminrestore", "back", r#"{"spec":{"restoreSpec":{"excludedResources":["pods"]}}}"#, "restoreSpec"),
    ] {
        let changed = ["patch", kind, name, "-n", "bypassed", "--type=merge", "-p", change];
        eventually("the door to be gone", || async { Ok(owner.kubectl(&changed).await.ok()) }).await;
        eventually("it to be told", || async {
            let path = "jsonpath={.status.conditions[?(@.type=='SpecUpdateApproved')].message}";
            let told = admin.kubectl(&["get", kind, name, "-n", "bypassed", "-o", path]).await?;
            ensure!(told.contains(&format!("changes to {spec} have no effect; create a new NonAdmin")), "{told:?}");
            Ok(Some(()))
        })
        .await;
    }
    Ok(())
}
