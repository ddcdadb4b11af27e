//! What an administrator does with Velero himself: his own restore of a tenant's namespace goes on as it would without Croft.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{BackupVault, NonAdminBackup},
    namespaces::NamespaceClassBinding,
    storage::{S3Bucket, S3User, S3UserClaim},
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    default_location::DEFAULT,
    plot::{Kind, Plot, VELERO_PATIENCE},
    support::{apply, eventually},
};

/// Fails unless an object says that it is ready.
async fn readiness<K: Kind>(plot: &Plot, name: &str) -> Result<()> {
    let object = json!(plot.administrators::<K>().get(name).await?);
    let mut told = object["status"]["conditions"].as_array().into_iter().flatten();
    let ready = told.any(|it| it["type"] == "Ready" && it["status"] == "True");
    ensure!(ready, "{} {name} is not ready: {}", K::kind(&()), object["status"]);
    Ok(())
}

async fn is_ready<K: Kind>(plot: &Plot, name: &str) -> Result<()> {
    let what = format!("{} {name} to be ready", K::kind(&()));
    wait::until(&what, VELERO_PATIENCE, || async { readiness::<K>(plot, name).await.map(Some) }).await
}

/// Waits until one of Velero's objects that nobody made for a tenant has ended, and gives how.
async fn ended(plot: &Plot, kind: &str, name: &str) -> Result<Value> {
    wait::until(&format!("{kind} {name} to end"), VELERO_PATIENCE, || async {
        let found = plot.world.bed.admin().kubectl(&["get", kind, name, "-n", "velero", "-o", "json"]).await?;
        let status = serde_json::from_str::<Value>(&found)?["status"].clone();
        ensure!(status["completionTimestamp"].is_string() || status["validationErrors"].is_array(), "it is {status}");
        Ok(Some(status))
    })
    .await
}

impl Plot {
    /// Deletes the namespace and waits until it is gone.
    pub(crate) async fn is_deleted(&self) {
        let namespaces: Api<Namespace> = Api::all(self.world.client());
        let _ = namespaces.delete(&self.namespace, &DeleteParams::default()).await;
        eventually("the namespace to go", || async {
            let left = namespaces.get_opt(&self.namespace).await?;
            ensure!(left.is_none(), "it is there: {:?}", left.and_then(|left| left.status));
            Ok(Some(()))
        })
        .await;
    }

    /// As an administrator does after a disaster: whoever has the names of before gets what is kept for them.
    pub(crate) async fn give_back_what_is_kept(&self) -> Result<()> {
        let users: Api<S3User> = Api::all(self.world.client());
        for user in users.list(&ListParams::default()).await? {
            let said = json!(user);
            let is_kept = said["status"]["phase"] == "Released" && !said["spec"]["claimRef"]["uid"].is_null();
            if is_kept && said["spec"]["claimRef"]["namespace"] == self.namespace.as_str() {
                let freed = Patch::Merge(json!({ "spec": { "claimRef": { "uid": null } } }));
                users.patch(&user.name_any(), &PatchParams::default(), &freed).await?;
            }
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_administrators_own_restore_brings_a_classed_namespace_back_with_binding_claim_bucket_and_vault()
-> Result<()> {
    let plot = Plot::in_the_open("disaster").await?;
    let class = json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": { "name": plot.namespace },
        "spec": { "resources": [
            { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "house-rules" }, "data": { "quiet": "yes" } },
            { "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": { "name": "storage" },
              "spec": { "readSecretName": "storage-read", "adminSecretName": "storage-admin" } },
            { "apiVersion": "croft.dev/v1alpha1", "kind": "BackupVault", "metadata": { "name": "safe" }, "spec": {} },
        ] },
    });
    let admin = plot.world.bed.admin();
    apply(admin, &class.to_string()).await?;
    let namespaces: Api<Namespace> = Api::all(plot.world.client());
    let classed = json!({ "metadata": { "labels": { "namespaceclass.akuity.io/name": plot.namespace } } });
    namespaces.patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&classed)).await?;
    is_ready::<S3UserClaim>(&plot, "storage").await?;
    is_ready::<BackupVault>(&plot, "safe").await?;
    plot.create::<S3Bucket>("photos", json!({ "s3UserRef": "storage", "s3DeletionPolicy": "retain" })).await?;
    is_ready::<S3Bucket>(&plot, "photos").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    plot.backup_completes("nightly").await?;

    let name = format!("{}-all", plot.namespace);
    let backup = json!({
        "apiVersion": "velero.io/v1", "kind": "Backup", "metadata": { "name": name, "namespace": "velero" },
        "spec": { "storageLocation": DEFAULT, "includedNamespaces": [plot.namespace], "snapshotVolumes": false },
    });
    apply(admin, &backup.to_string()).await?;
    let taken = ended(&plot, "backups.velero.io", &name).await?;
    ensure!(taken["phase"] == "Completed", "{taken}");
    plot.is_deleted().await;

    // As the guide for administrators has it.
    let left_out = ["nonadminbackups", "nonadminrestores", "nonadminbackupstoragelocations"];
    let restore = json!({
        "apiVersion": "velero.io/v1", "kind": "Restore", "metadata": { "name": name, "namespace": "velero" },
        "spec": { "backupName": name, "excludedResources": left_out.map(|kind| format!("{kind}.oadp.openshift.io")) },
    });
    apply(admin, &restore.to_string()).await?;
    let restored = ended(&plot, "restores.velero.io", &name).await?;
    ensure!(restored["phase"] == "Completed", "{restored}\n{}", plot.world.bed.velero().process().log_tail());

    ensure!(plot.administrators::<ConfigMap>().get("prices").await?.data.is_some(), "what the tenant made came back");
    eventually("the class to be bound", || async {
        let bindings = plot.administrators::<NamespaceClassBinding>().list(&ListParams::default()).await?;
        let bound = json!(bindings.items);
        ensure!(bound.to_string().contains(&plot.namespace), "{bound}");
        Ok(Some(()))
    })
    .await;
    wait::until("claim and vault to have what is kept for them", VELERO_PATIENCE, || async {
        plot.give_back_what_is_kept().await?;
        readiness::<S3UserClaim>(&plot, "storage").await?;
        readiness::<BackupVault>(&plot, "safe").await.map(Some)
    })
    .await?;
    is_ready::<S3Bucket>(&plot, "photos").await?;
    wait::until("what lies in the vault to come back", VELERO_PATIENCE, || async {
        Ok(plot.administrators::<NonAdminBackup>().get_opt("nightly").await?)
    })
    .await?;
    Ok(())
}
