//! Objects no sensible program would make: nobody waits for them, and they disturb nobody.

use anyhow::{Result, ensure};
use croft_api::backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{
    fences,
    plot::{Kind, Plot, SETTINGS, message, told},
    support::eventually,
};

#[tokio::test]
async fn a_request_that_asks_for_nothing_is_refused_at_the_door() -> Result<()> {
    let plot = Plot::empty("nothing").await?;
    for kind in ["NonAdminBackup", "NonAdminRestore", "NonAdminBackupStorageLocation"] {
        let metadata = json!({ "name": "empty", "namespace": plot.namespace });
        let nothing = json!({ "apiVersion": "oadp.openshift.io/v1alpha1", "kind": kind, "metadata": metadata });
        let mut hollow = nothing.clone();
        hollow["spec"] = json!({});
        for object in [nothing, hollow] {
            let told = fences::told(&plot.owner, &object).await.unwrap_or_default();
            ensure!(told.contains("Required value"), "{object}: {told:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_location_that_names_no_secret_says_so_and_is_not_disturbed_by_any() -> Result<()> {
    let plot = Box::pin(Plot::alone("nameless", SETTINGS)).await?;
    let mut nameless = plot.location_spec(json!({}));
    nameless["backupStorageLocationSpec"].as_object_mut().map(|spec| spec.remove("credential"));
    let told = plot.refusal::<NonAdminBackupStorageLocation>("here", nameless.clone()).await?;
    ensure!(told.contains("spec.bslSpec.credential is not set"), "{told}");
    // Made before there was a door, say.
    plot.world.bed.admin().kubectl(&["delete", "validatingwebhookconfigurations", "--all"]).await?;
    eventually("the door to be gone", || async {
        Ok(plot.create::<NonAdminBackupStorageLocation>("here", nameless.clone()).await.ok())
    })
    .await;
    let says = |status: &Value| message(status, "Accepted").contains("spec.bslSpec.credential is not set");
    let status = plot.status::<NonAdminBackupStorageLocation>("here", "to be refused", says).await;
    ensure!(status["phase"] == "BackingOff", "{status}");
    for round in ["first", "second"] {
        plot.patch::<Secret>("keys", json!({ "stringData": { "diary": round } })).await?;
    }
    plot.delete::<Secret>("keys").await?;
    plot.add_secret("cloud").await?;
    let named =
        json!({ "spec": { "backupStorageLocationSpec": { "credential": { "name": "keys", "key": "cloud" } } } });
    plot.patch::<NonAdminBackupStorageLocation>("here", named).await?;
    plot.location_is_available().await;
    ensure!(!plot.world.operator.process.log().contains("panicked"), "it broke over it");
    Ok(())
}

#[tokio::test]
async fn a_finalizer_without_anything_to_clean_up_holds_nothing_up() -> Result<()> {
    let plot = Plot::bare("finalized").await?;
    for (kind, finalizer, spec) in [
        (
            "NonAdminBackup",
            "nonadminbackup.oadp.openshift.io/finalizer",
            json!({ "backupSpec": { "storageLocation": "none" } }),
        ),
        (
            "NonAdminRestore",
            "nonadminrestore.oadp.openshift.io/finalizer",
            json!({ "restoreSpec": { "backupName": "none" } }),
        ),
        (
            "NonAdminBackupStorageLocation",
            "nonadminbackupstoragelocation.oadp.openshift.io/finalizer",
            plot.location_spec(json!({})),
        ),
    ] {
        let object = json!({
            "apiVersion": "oadp.openshift.io/v1alpha1", "kind": kind,
            "metadata": { "name": "odd", "finalizers": [finalizer] }, "spec": spec,
        });
        match kind {
            "NonAdminBackup" => comes_and_goes::<NonAdminBackup>(&plot, object).await?,
            "NonAdminRestore" => comes_and_goes::<NonAdminRestore>(&plot, object).await?,
            _ => comes_and_goes::<NonAdminBackupStorageLocation>(&plot, object).await?,
        }
    }
    Ok(())
}

async fn comes_and_goes<K: Kind>(plot: &Plot, object: Value) -> Result<()> {
    plot.api::<K>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    plot.delete::<K>("odd").await?;
    plot.vanishes(&plot.api::<K>(), "odd").await
}

#[tokio::test]
async fn a_backup_that_says_it_was_made_and_of_which_nothing_is_there_is_told_and_goes_when_asked() -> Result<()> {
    let plot = Plot::bare("imagined").await?;
    plot.create::<NonAdminBackup>("odd", json!({ "backupSpec": { "storageLocation": "none" } })).await?;
    plot.status::<NonAdminBackup>("odd", "to be looked at", |status| status["phase"] == "BackingOff").await;
    let made = json!({ "status": { "phase": "Created", "conditions": [] } });
    let backups = plot.administrators::<NonAdminBackup>();
    backups.patch_status("odd", &PatchParams::default(), &Patch::Merge(&made)).await?;
    let says = |status: &Value| told(status) == ["Accepted=False VeleroBackupNotFound"];
    let status = plot.status::<NonAdminBackup>("odd", "to be told", says).await;
    ensure!(status["phase"] == "Created", "{status}");
    plot.patch::<NonAdminBackup>("odd", json!({ "spec": { "deleteBackup": true } })).await?;
    plot.vanishes(&backups, "odd").await
}

#[tokio::test]
async fn what_becomes_of_a_request_is_told_by_events_that_its_owner_can_read() -> Result<()> {
    let plot = Plot::bare("eventful").await?;
    plot.create::<NonAdminBackup>("lost", json!({ "backupSpec": { "storageLocation": "none" } })).await?;
    eventually("an Event", || async {
        let events = plot.api::<Event>().list(&ListParams::default()).await?;
        let is_of_it = |event: &&Event| event.involved_object.name.as_deref() == Some("lost");
        Ok(events
            .iter()
            .filter(is_of_it)
            .find(|event| {
                let says = event.message.as_deref().is_some_and(|message| message.contains("\"none\" not found"));
                event.reason.as_deref() == Some("InvalidBackupSpec")
                    && event.type_.as_deref() == Some("Warning")
                    && says
            })
            .map(drop))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn what_veleros_own_schema_refuses_is_told_and_tried_again_only_when_it_was_edited() -> Result<()> {
    let plot = Plot::alone("strict", SETTINGS).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    let rule = json!([{ "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations",
                        "value": [{ "rule": "!has(self.csiSnapshotTimeout) || self.csiSnapshotTimeout != '7m0s'", "message": "never 7 minutes" }] }]);
    let admin = plot.world.bed.admin();
    admin.kubectl(&["patch", "crd", "backups.velero.io", "--type=json", "-p", &rule.to_string()]).await?;
    let with_timeout =
        |timeout: &str| json!({ "backupSpec": { "storageLocation": "here", "csiSnapshotTimeout": timeout } });
    let refused = |status: &Value| status["phase"] == "BackingOff" && status.to_string().contains("never 7 minutes");
    // The API server may judge by the schema of before for a moment.
    let mut number = 0;
    let name = loop {
        number += 1;
        let name = format!("odd-{number}");
        plot.create::<NonAdminBackup>(&name, with_timeout("7m0s")).await?;
        let status = plot.status::<NonAdminBackup>(&name, "to be decided about", |status| {
            refused(status) || status["phase"] == "Created"
        });
        if refused(&status.await) {
            break name;
        }
    };
    plot.patch::<NonAdminBackup>(&name, json!({ "spec": with_timeout("8m0s") })).await?;
    plot.status::<NonAdminBackup>(&name, "to be handed over", |status| status["phase"] == "Created").await;
    Ok(())
}
