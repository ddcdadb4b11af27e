//! `croft uninstall` where Velero has something of tenants in its hands.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation},
    velero::{Backup, BackupStorageLocation, Restore},
};
use croft_testbed::{Testbed, product::Installed, wait};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, SETTINGS, VELERO_PATIENCE},
    support::{PATIENCE, apply, croft},
};

async fn uninstall(kubeconfig: &std::path::Path, arguments: &[&str]) -> Result<Output> {
    let mut command = tokio::process::Command::new(croft());
    command.arg("uninstall").args(arguments).arg("--kubeconfig").arg(kubeconfig).kill_on_drop(true);
    Ok(command.output().await?)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const GUARDS: [&str; 5] = [
    "croft-restored-objects",
    "croft-restores-in-progress",
    "croft-own-bucket-deletions",
    "croft-own-bucket-expiry",
    "croft-own-bucket-findings",
];

/// Which of the policies around Velero are there.
async fn guards(admin: &kube::Client) -> Result<Vec<String>> {
    let policies = Api::<ValidatingAdmissionPolicy>::all(admin.clone()).list(&ListParams::default()).await?;
    let names = policies.items.into_iter().filter_map(|policy| policy.metadata.name);
    Ok(names.filter(|name| GUARDS.contains(&name.as_str())).collect())
}

#[tokio::test]
async fn a_purge_deletes_what_is_in_a_bucket_of_a_tenants_own_and_what_it_cannot_reach_it_lets_go_of() -> Result<()> {
    let plot = Box::pin(Plot::alone("purged", SETTINGS)).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    plot.completed_backup().await?;
    let hostile = Plot::within(plot.world.clone(), "purged-out-of-reach").await?;
    hostile.world.bed.ceph().create_bucket(&hostile.namespace).await?;
    hostile.add_secret("cloud").await?;
    hostile.add_location(json!({})).await?;
    hostile.location_is_available().await;
    hostile.completed_backup().await?;
    let read_only = json!({ "spec": { "backupStorageLocationSpec": { "accessMode": "ReadOnly" } } });
    hostile.patch::<NonAdminBackupStorageLocation>("here", read_only).await?;
    let kubeconfig = plot.world.bed.admin().kubeconfig.clone();
    let running = tokio::spawn(async move { uninstall(&kubeconfig, &["--purge", "--timeout", "60"]).await });
    let backups = plot.veleros::<Backup>();
    let gone = wait::until_true("Velero to have no backup any more", VELERO_PATIENCE, || async {
        let left = backups.list(&ListParams::default()).await?.items;
        let own = plot.administrators::<NonAdminBackup>().list(&ListParams::default()).await?.items;
        ensure!(!running.is_finished(), "it has ended");
        ensure!(left.is_empty(), "{} are left, {} {}", left.len(), json!(left), json!(own));
        Ok(true)
    })
    .await;
    if let Err(error) = gone {
        let told = if running.is_finished() { said(&running.await??) } else { "it goes on".to_owned() };
        return Err(error.context(told));
    }
    ensure!(!plot.stored().await?.iter().any(|key| key.contains("/backups/")), "what she stored is deleted");
    let locations = plot.veleros::<BackupStorageLocation>();
    wait::until_true("Velero to have no location any more", VELERO_PATIENCE, || async {
        Ok(locations.list(&ListParams::default()).await?.items.is_empty())
    })
    .await?;
    plot.world.operator.process.terminate();
    plot.world.operator.process.wait(PATIENCE);
    let done = running.await.context("croft uninstall")??;
    ensure!(guards(&plot.world.client()).await?.is_empty(), "{}", said(&done));
    Ok(())
}

/// Something of Velero's in the name of a tenant.
fn veleros(kind: &str, name: &str, label: &str, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "velero.io/v1", "kind": kind,
        "metadata": { "name": name, "namespace": "velero",
                      "labels": { "app.kubernetes.io/managed-by": "oadp-nac-controller", label: "true" } },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
    object
}

#[tokio::test]
async fn policies_around_velero_go_once_it_does_nothing_for_tenants_any_more() -> Result<()> {
    let bed = Testbed::kubernetes().start().await?;
    bed.install_velero_crds().await?;
    let _installed = Installed::new(&bed, croft()).await?;
    let admin = bed.admin();
    let spec = json!({ "spec": { "provider": "aws", "backupSyncPeriod": "1m", "objectStorage": { "bucket": "b" } } });
    let restore = |phase: &str| {
        let status = if phase.is_empty() { json!({}) } else { json!({ "phase": phase }) };
        json!({ "spec": { "backupName": "b", "includedNamespaces": ["shop"] }, "status": status })
    };
    for object in [
        veleros("BackupStorageLocation", "hers", "croft.dev/own-bucket", &spec),
        veleros("BackupStorageLocation", "vault", "croft.dev/vault", &spec),
        veleros("Restore", "begun", "croft.dev/unfinished", &restore("InProgress")),
        veleros("Restore", "not-begun", "croft.dev/unfinished", &restore("")),
    ] {
        apply(admin, &object.to_string()).await?;
    }
    let stuck = uninstall(&admin.kubeconfig, &["--keep-data", "--timeout", "3"]).await?;
    ensure!(!stuck.status.success() && said(&stuck).contains("restores of tenants"), "{}", said(&stuck));
    ensure!(guards(&admin.client).await?.len() == GUARDS.len(), "while a restore is under way: {}", said(&stuck));
    let restores = Api::<Restore>::namespaced(admin.client.clone(), "velero");
    ensure!(restores.get_opt("not-begun").await?.is_none(), "what was not begun is begun by nobody later");
    let over = json!({ "status": { "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z" } });
    restores.patch("begun", &PatchParams::default(), &Patch::Merge(&over)).await?;
    let done = uninstall(&admin.kubeconfig, &["--keep-data", "--timeout", "60"]).await?;
    ensure!(done.status.success() && guards(&admin.client).await?.is_empty(), "{}", said(&done));
    let locations = Api::<BackupStorageLocation>::namespaced(admin.client.clone(), "velero");
    let rests = |location: BackupStorageLocation| {
        let spec = json!(location)["spec"].clone();
        (spec["accessMode"] == "ReadOnly", spec["backupSyncPeriod"] == "0s")
    };
    ensure!(rests(locations.get("hers").await?) == (true, true), "nobody judges any more what she writes");
    ensure!(rests(locations.get("vault").await?) == (false, false), "what only Velero writes is as it was");
    Ok(())
}
