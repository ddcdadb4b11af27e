//! A vault whose key Ceph lost in a crash.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use croft_api::backup::BackupVault;
use croft_testbed::{Testbed, wait};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{SETTINGS, VELERO_PATIENCE},
    support::World,
};

/// Access keys of the vault's user in Ceph.
async fn keys(world: &World, namespace: &str) -> Result<Vec<String>> {
    let uid = format!("--uid=croft_{}_VAULT$safe", namespace.replace('-', "_"));
    let user: Value = serde_json::from_str(&world.bed.ceph().admin(&["user", "info", &uid]).await?)?;
    let keys = user["keys"].as_array().context("keys")?.iter();
    Ok(keys.filter_map(|key| key["access_key"].as_str().map(str::to_owned)).collect())
}

/// What Velero has to get in with.
async fn published(world: &World) -> Result<String> {
    let secrets: Api<Secret> = Api::namespaced(world.client(), "velero");
    let secrets = secrets.list(&ListParams::default().labels("croft.dev/vault-nacuuid")).await?;
    let data = secrets.items.into_iter().next().and_then(|secret| secret.data).context("a Secret")?;
    let ByteString(cloud) = data.get("cloud").context("credentials")?;
    Ok(String::from_utf8(cloud.clone())?)
}

async fn is_ready(vaults: &Api<BackupVault>) -> Result<bool> {
    let told = json!(vaults.get("safe").await?.status);
    let ready = told["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == "Ready");
    Ok(ready.is_some_and(|ready| ready["status"] == "True"))
}

#[tokio::test]
async fn a_vault_whose_key_ceph_lost_gets_another_one_and_velero_with_it() -> Result<()> {
    let world = World::own_with(Testbed::kubernetes().with_velero(), SETTINGS).await?;
    let namespace = world.bed.namespace("lostvault").await?;
    let vaults: Api<BackupVault> = Api::namespaced(world.client(), &namespace);
    let vault = json!({ "apiVersion": "croft.dev/v1alpha1", "kind": "BackupVault", "metadata": { "name": "safe" },
                        "spec": { "quota": { "size": "1Gi", "objects": "1k" } } });
    vaults.create(&PostParams::default(), &serde_json::from_value(vault)?).await?;
    wait::until_true("the vault to be ready", VELERO_PATIENCE, || is_ready(&vaults)).await?;
    let before = keys(&world, &namespace).await?;
    ensure!(before.len() == 1 && published(&world).await?.contains(&before[0]), "{before:?}");
    world.bed.ceph().stop_gateway();
    world.bed.ceph().lose("default.rgw.meta", "users.keys", &before[0]).await?;
    world.bed.ceph().start_gateway().await?;
    // Velero looks at its locations once a minute, and what it cannot get in with is refused for a while before it is given up.
    let long = VELERO_PATIENCE + Duration::from_secs(150);
    wait::until_true("the user to have another key, and Velero that one", long, || async {
        let after = keys(&world, &namespace).await?;
        Ok(after.len() == 1 && after != before && published(&world).await?.contains(&after[0]))
    })
    .await?;
    wait::until_true("the vault to be ready again", VELERO_PATIENCE, || is_ready(&vaults)).await?;
    Ok(())
}
