//! The walk: label, storage, backup, disaster, restore, deletion, unlabel.

use std::time::Duration;

use anyhow::{Result, ensure};
use croft_api::{
    backup::{BackupVault, NonAdminBackup, NonAdminRestore},
    namespaces::CLASS_LABEL,
    storage::{S3User, S3UserClaim},
    velero,
};
use croft_testbed::{Testbed, wait};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    regime::{Regime, reign},
    support::{World, apply},
};

const NAMESPACE: &str = "walker";

/// Much of the time the operator is dead, and Velero takes its own.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn walk(regime: Regime) -> Result<()> {
    let (bed, installed) = World::installed(Testbed::kubernetes().with_velero()).await?;
    let (end, ended) = watch::channel(false);
    let story = async {
        let result = tell(&bed).await;
        end.send_replace(true);
        result
    };
    let (story, deaths) = tokio::join!(story, reign(&bed, &installed, regime, ended));
    story?;
    let deaths = deaths?;
    ensure!(deaths >= 15, "the operator died only {deaths} times: the faults did not bite");
    Ok(())
}

async fn tell(bed: &Testbed) -> Result<()> {
    let client = bed.admin().client.clone();
    furnish(bed, &client).await?;
    back_up(&client).await?;
    lose_and_restore(&client).await?;
    delete_backup(bed, &client).await?;
    unlabel(bed, &client).await
}

/// Until `probe` says yes; failed requests (the webhook may be down with the operator) are tried again.
async fn until<F: Future<Output = Result<bool>>>(what: &str, probe: impl Fn() -> F) -> Result<()> {
    wait::until_true(what, PATIENCE, probe).await
}

async fn furnish(bed: &Testbed, client: &Client) -> Result<()> {
    let class = class().to_string();
    until("the class to be accepted", || async { apply(bed.admin(), &class).await.map(|_| true) }).await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"metadata": {"name": NAMESPACE, "labels": {CLASS_LABEL: "walk"}}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;

    let claims: Api<S3UserClaim> = Api::namespaced(client.clone(), NAMESPACE);
    let vaults: Api<BackupVault> = Api::namespaced(client.clone(), NAMESPACE);
    until("the claim to be ready", || async {
        let status = claims.get("storage").await?.status.unwrap_or_default();
        Ok(status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    })
    .await?;
    until("the vault to be ready", || async {
        let status = vaults.get("backups").await?.status.unwrap_or_default();
        Ok(status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    })
    .await?;
    let users = ceph_users(bed).await?;
    ensure!(users.len() == 2, "exactly one Ceph user for the claim and one for the vault: {users:?}");
    Ok(())
}

async fn back_up(client: &Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mine = json!({"metadata": {"name": "mine"}, "data": {"k": "precious"}});
    maps.create(&PostParams::default(), &serde_json::from_value(mine)?).await?;
    let backups: Api<NonAdminBackup> = Api::namespaced(client.clone(), NAMESPACE);
    let backup = json!({"metadata": {"name": "keep"}, "spec": {"backupSpec": {"includedResources": ["configmaps"]}}});
    backups.create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
    until("the backup to be completed", || async {
        let status = serde_json::to_value(backups.get("keep").await?.status)?;
        Ok(status.pointer("/veleroBackup/status/phase") == Some(&json!("Completed"))
            && status["queueInfo"]["estimatedQueuePosition"] == 0)
    })
    .await?;
    let made: Api<velero::Backup> = Api::namespaced(client.clone(), "velero");
    let made = made.list(&ListParams::default()).await?.items;
    ensure!(
        made.len() == 1,
        "one request, one Velero Backup: {:?}",
        made.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    );
    Ok(())
}

async fn lose_and_restore(client: &Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    maps.delete("mine", &DeleteParams::default()).await?;
    let restores: Api<NonAdminRestore> = Api::namespaced(client.clone(), NAMESPACE);
    let restore = json!({"metadata": {"name": "undo"}, "spec": {"restoreSpec": {"backupName": "keep"}}});
    restores.create(&PostParams::default(), &serde_json::from_value(restore)?).await?;
    until("the restore to be completed", || async {
        let status = serde_json::to_value(restores.get("undo").await?.status)?;
        Ok(status.pointer("/veleroRestore/status/phase") == Some(&json!("Completed")))
    })
    .await?;
    let back = maps.get("mine").await?;
    ensure!(back.data.is_some_and(|data| data["k"] == "precious"), "what was lost is back");
    Ok(())
}

async fn delete_backup(bed: &Testbed, client: &Client) -> Result<()> {
    let backups: Api<NonAdminBackup> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({"spec": {"deleteBackup": true}});
    backups.patch("keep", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    until("the backup to be gone", || async { Ok(backups.get_opt("keep").await?.is_none()) }).await?;
    let made: Api<velero::Backup> = Api::namespaced(client.clone(), "velero");
    ensure!(made.list(&ListParams::default()).await?.items.is_empty(), "its Velero Backup went with it");
    let stats = bed.ceph().admin(&["bucket", "stats"]).await?;
    let stats: Value = serde_json::from_str(&stats)?;
    let left = stats
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|bucket| bucket.pointer("/usage/rgw.main/num_objects"))
        .any(|count| count != 0);
    ensure!(!left, "and so did its data: {stats}");
    Ok(())
}

async fn unlabel(bed: &Testbed, client: &Client) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let patch = json!({"metadata": {"labels": {CLASS_LABEL: null}}});
    namespaces.patch(NAMESPACE, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    until("the Ceph users to be gone", || async { Ok(ceph_users(bed).await?.is_empty()) }).await?;
    let users: Api<S3User> = Api::all(client.clone());
    until("their records to be gone", || async { Ok(users.list(&ListParams::default()).await?.items.is_empty()) })
        .await?;
    let locations: Api<velero::BackupStorageLocation> = Api::namespaced(client.clone(), "velero");
    until("Velero's location to be gone", || async {
        Ok(locations.list(&ListParams::default()).await?.items.is_empty())
    })
    .await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "velero");
    let ours = ListParams::default().labels("app.kubernetes.io/managed-by=oadp-nac-controller");
    until("its credentials to be gone", || async { Ok(secrets.list(&ours).await?.items.is_empty()) }).await?;
    // The tenant's own work is untouched.
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    ensure!(maps.get_opt("mine").await?.is_some());
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
    until("the namespace to be gone", || async { Ok(namespaces.get_opt(NAMESPACE).await?.is_none()) }).await
}

/// Users of tenants, as Ceph itself lists them.
async fn ceph_users(bed: &Testbed) -> Result<Vec<String>> {
    let users: Vec<String> = serde_json::from_str(&bed.ceph().admin(&["user", "list"]).await?)?;
    Ok(users.into_iter().filter(|user| user.contains('$')).collect())
}

fn class() -> Value {
    json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "walk"},
        "spec": {"resources": [
            {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "own"}, "spec": {"podSelector": {}}},
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "own"}, "spec": {"hard": {"pods": "10"}}},
            {"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": {"name": "storage"},
             "spec": {"readSecretName": "storage-read", "adminSecretName": "storage-admin", "quota": {"size": "1Gi", "objects": 1000, "buckets": 2}}},
            {"apiVersion": "croft.dev/v1alpha1", "kind": "BackupVault", "metadata": {"name": "backups"}, "spec": {"quota": {"size": "1Gi"}}},
        ]},
    })
}
