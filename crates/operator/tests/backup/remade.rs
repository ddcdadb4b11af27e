//! A namespace that was deleted and made again: its vault has the backups of before once an administrator says so, and nobody else has.

use anyhow::{Context, Result, ensure};
use croft_api::{backup::NonAdminRestore, storage::S3User};
use croft_testbed::S3Call;
use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::plot::{Plot, message, owner_of, velero_name};

/// What the gateway answers who lists the vault with these keys.
async fn listed(plot: &Plot, (access_key, secret_key): &(String, String)) -> Result<StatusCode> {
    let call = S3Call { method: Method::GET, path: "/vault-safe", ..S3Call::default() };
    Ok(plot.world.bed.ceph().call((access_key, secret_key), &call).await?.0)
}

/// The one key of the vault, as Velero has it.
async fn key(plot: &Plot) -> Result<(String, String)> {
    let name = plot.vault_secrets().await?.pop().context("a Secret")?;
    let data = plot.veleros::<Secret>().get(&name).await?.data.unwrap_or_default();
    let file = data.get("cloud").map(|file| String::from_utf8_lossy(&file.0).into_owned()).context("a file")?;
    let said = |what: &str| {
        let mut lines = file.lines().filter_map(|line| line.split_once('='));
        lines.find(|(key, _)| key.trim() == what).map(|(_, value)| value.trim().to_owned()).context("a key")
    };
    Ok((said("aws_access_key_id")?, said("aws_secret_access_key")?))
}

#[tokio::test]
async fn a_vault_made_again_in_a_namespace_made_again_has_its_backups_once_an_administrator_says_so() -> Result<()> {
    let plot = Plot::with_vault("remade").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let before = velero_name(&plot.backup_completes("nightly").await?);
    let old_key = key(&plot).await?;
    ensure!(listed(&plot, &old_key).await?.is_success(), "the key of the vault is none");
    plot.is_deleted().await;

    let Plot { world, namespace, .. } = plot;
    let space = serde_json::from_value(json!({ "metadata": { "name": namespace } }))?;
    Api::<Namespace>::all(world.client()).create(&PostParams::default(), &space).await?;
    let owner = owner_of(&world.bed, &namespace).await?;
    let plot = Plot { world, namespace, owner };
    plot.add_vault(json!({})).await?;
    let taken = plot.vault_says("False", "UserTaken").await;
    let says = message(&taken, "Ready");
    ensure!(says.contains("of an earlier namespace of this name"), "{says:?}");
    ensure!(plot.vault_secrets().await?.is_empty(), "Velero has a key to what is not given");

    let (users, record) = (Api::<S3User>::all(plot.world.client()), plot.vault_record());
    let given = Patch::Merge(json!({ "spec": { "claimRef": { "uid": null } } }));
    users.patch(&record, &PatchParams::default(), &given).await?;
    plot.vault_says("True", "Provisioned").await;
    let new_key = key(&plot).await?;
    ensure!(new_key.0 != old_key.0 && listed(&plot, &new_key).await?.is_success(), "the new key is none");
    ensure!(listed(&plot, &old_key).await? == StatusCode::FORBIDDEN, "whoever had the old key is still in");

    let back = plot.comes_back("nightly").await?;
    assert_eq!(velero_name(&back), before);
    plot.create::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("undo", "Completed").await;
    ensure!(plot.api::<ConfigMap>().get("prices").await?.data.unwrap_or_default()["price"] == "7");
    Ok(())
}
