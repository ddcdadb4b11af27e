//! Restores: from one's own backup, into one's own namespace.

use anyhow::Result;
use croft_api::{
    backup::{NAR_FINALIZER, NonAdminBackup, NonAdminRestore},
    velero::{DownloadRequest, Restore},
};
use croft_core::backup::left_out::List;
use k8s_openapi::api::{core::v1::ConfigMap, networking::v1::NetworkPolicy};
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, VELERO_PATIENCE, message, told, velero_name},
    support::eventually,
};

#[tokio::test]
async fn a_restore_brings_what_was_deleted_back_the_tenants_own_network_policies_included() -> Result<()> {
    let plot = Plot::furnished("restore").await?;
    plot.add_config_map("prices").await?;
    plot.create::<NetworkPolicy>("closed", json!({ "podSelector": {}, "policyTypes": ["Ingress"] })).await?;
    plot.create::<NonAdminBackup>("nightly", json!({ "backupSpec": { "storageLocation": "here" } })).await?;
    plot.backup_completes("nightly").await?;
    plot.delete::<ConfigMap>("prices").await?;
    plot.delete::<NetworkPolicy>("closed").await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let status = plot.restore_phase("back", "Completed").await;
    assert_eq!(status["phase"], "Created");
    assert_eq!(told(&status), ["Accepted=True RestoreAccepted", "Queued=True RestoreScheduled"]);
    assert_eq!(status["queueInfo"]["estimatedQueuePosition"], 0);
    let prices = plot.api::<ConfigMap>().get("prices").await?;
    assert_eq!(prices.data.unwrap_or_default()["price"], "7");
    plot.api::<NetworkPolicy>().get("closed").await?;

    let velero = plot.veleros::<Restore>().get(status["veleroRestore"]["name"].as_str().unwrap_or_default()).await?;
    assert_eq!(velero.spec.included_namespaces(), Some(vec![plot.namespace.as_str()]));
    let kinds = velero.spec.texts("includedResources").unwrap_or_default();
    assert!(kinds.contains(&"configmaps") && !kinds.contains(&"*") && !kinds.contains(&"roles"), "{kinds:?}");
    assert_eq!((velero.spec.include_cluster_resources(), velero.spec.flag("restorePVs")), (Some(false), Some(false)));
    assert_eq!(velero.annotations().get("velero.io/pod-volume-timeout").map(String::as_str), Some("30m"));
    eventually("the finished one to judge nothing any more", || async {
        let restore = plot.veleros::<Restore>().get(&velero.name_any()).await?;
        Ok((!restore.labels().contains_key("croft.dev/unfinished")).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_restore_waits_for_its_backup_and_runs_by_itself() -> Result<()> {
    let plot = Plot::bare("before").await?;
    plot.add_location(json!({})).await?;
    plot.add_config_map("prices").await?;
    plot.add_backup("nightly").await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let waiting = plot.status::<NonAdminRestore>("back", "to wait", |s| s["phase"] == "New").await;
    assert_eq!(told(&waiting), ["Accepted=False BackupNotReady"]);
    plot.add_secret("cloud").await?;
    plot.backup_completes("nightly").await?;
    plot.restore_phase("back", "Completed").await;
    Ok(())
}

#[tokio::test]
async fn a_refused_restore_never_runs_later_by_itself() -> Result<()> {
    let plot = Plot::furnished("never").await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let refused = plot.status::<NonAdminRestore>("back", "to be refused", |s| s["phase"] == "BackingOff").await;
    assert!(message(&refused, "Accepted").contains("\"nightly\" not found"), "{refused}");
    plot.completed_backup().await?;
    plot.create::<NonAdminRestore>("again", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("again", "Completed").await;
    let status = serde_json::to_value(plot.api::<NonAdminRestore>().get("back").await?.status)?;
    assert_eq!((&status["phase"], status.get("veleroRestore")), (&json!("BackingOff"), None));
    Ok(())
}

#[tokio::test]
async fn deleting_a_restore_removes_the_velero_restore_and_keeps_the_backup() -> Result<()> {
    let plot = Plot::furnished("undo").await?;
    plot.completed_backup().await?;
    let restore: NonAdminRestore = plot.create("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let status = plot.restore_phase("back", "Completed").await;
    let name = status["veleroRestore"]["name"].as_str().unwrap_or_default().to_owned();
    assert!(name.ends_with(&restore.uid().unwrap_or_default()));
    let held = plot.api::<NonAdminRestore>().get("back").await?;
    assert!(held.finalizers().iter().any(|finalizer| finalizer == NAR_FINALIZER));
    plot.delete::<NonAdminRestore>("back").await?;
    plot.vanishes(&plot.api::<NonAdminRestore>(), "back").await?;
    plot.vanishes(&plot.veleros::<Restore>(), &name).await?;
    plot.backup_completes("nightly").await?;
    assert!(plot.api::<NonAdminBackup>().get("nightly").await?.metadata.deletion_timestamp.is_none());
    Ok(())
}

#[tokio::test]
async fn what_velero_says_has_failed_is_not_restored_from_and_what_it_says_has_failed_in_part_is() -> Result<()> {
    let plot = Plot::furnished("partly").await?;
    let (backup, _) = plot.completed_backup().await?;
    let says = |phase: &'static str| {
        let (plot, name) = (&plot, velero_name(&backup));
        async move {
            plot.velero_says(&name, json!({ "phase": phase })).await?;
            let is_told = |status: &Value| status["veleroBackup"]["status"]["phase"] == phase;
            plot.status::<NonAdminBackup>("nightly", &format!("to be {phase}"), is_told).await;
            anyhow::Ok(())
        }
    };
    let restore = json!({ "restoreSpec": { "backupName": "nightly" } });
    for phase in ["Failed", "FailedValidation"] {
        says(phase).await?;
        let name = phase.to_lowercase();
        plot.create::<NonAdminRestore>(&name, restore.clone()).await?;
        let refused = plot.status::<NonAdminRestore>(&name, "to be refused", |s| s["phase"] == "BackingOff").await;
        assert!(message(&refused, "Accepted").ends_with("NonAdminBackup is not ready to be restored"), "{refused}");
        assert_eq!(told(&refused), ["Accepted=False InvalidRestoreSpec"]);
    }
    says("PartiallyFailed").await?;
    plot.delete::<ConfigMap>("prices").await?;
    plot.create::<NonAdminRestore>("back", restore).await?;
    plot.restore_phase("back", "Completed").await;
    plot.api::<ConfigMap>().get("prices").await?;
    for refused in ["failed", "failedvalidation"] {
        let status = serde_json::to_value(plot.api::<NonAdminRestore>().get(refused).await?.status)?;
        assert_eq!((&status["phase"], status.get("veleroRestore")), (&json!("BackingOff"), None), "it ran later");
    }
    Ok(())
}

#[tokio::test]
async fn a_restore_that_velero_has_lost_is_told_and_never_run_again() -> Result<()> {
    let plot = Plot::furnished("mislaid").await?;
    plot.completed_backup().await?;
    let restore: NonAdminRestore = plot.create("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let before = plot.restore_phase("back", "Completed").await;
    let name = before["veleroRestore"]["name"].as_str().unwrap_or_default().to_owned();
    plot.veleros::<Restore>().delete(&name, &DeleteParams::default()).await?;
    let lost = |status: &Value| {
        message(status, "Accepted").contains("its associated Velero Restore has been removed")
            && status["veleroRestore"].get("status").is_none()
    };
    let status = plot.status::<NonAdminRestore>("back", "to be lost", lost).await;
    assert_eq!(told(&status)[0], "Accepted=False VeleroRestoreNotFound");
    assert_eq!((&status["phase"], &status["queueInfo"]), (&json!("Created"), &Value::Null));
    // Whoever comes later has been looked at by now, and an edit is no second request.
    plot.patch::<NonAdminRestore>("back", json!({ "metadata": { "labels": { "tier": "gold" } } })).await?;
    plot.create::<NonAdminRestore>("later", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("later", "Completed").await;
    assert!(plot.veleros::<Restore>().get_opt(&name).await?.is_none(), "it was made again");
    let of_hers = plot.veleros::<Restore>().list(&ListParams::default()).await?;
    let uid = restore.uid().unwrap_or_default();
    assert!(!of_hers.iter().any(|it| it.name_any().contains(&uid)), "it was made under another name");
    assert!(lost(&json!(plot.api::<NonAdminRestore>().get("back").await?.status)), "it is told no more");
    plot.delete::<NonAdminRestore>("back").await?;
    plot.vanishes(&plot.api::<NonAdminRestore>(), "back").await
}

#[tokio::test]
async fn a_restore_that_reaches_out_of_its_namespace_is_refused_at_the_door() -> Result<()> {
    let plot = Plot::furnished("reach").await?;
    for (field, value) in [
        ("includeClusterResources", json!(true)),
        ("restorePVs", json!(true)),
        ("includedNamespaces", json!(["kube-system"])),
        ("namespaceMapping", json!({ "a": "b" })),
        ("scheduleName", json!("s")),
        ("restoreStatus", json!({ "includedResources": ["*"] })),
        ("resourceModifier", json!({ "kind": "configmap", "name": "x" })),
    ] {
        let spec = json!({ "restoreSpec": { "backupName": "nightly", field: value } });
        let refusal = plot.refusal::<NonAdminRestore>("back", spec).await?;
        assert!(refusal.contains(&format!("spec.restoreSpec.{field} is restricted")), "{refusal}");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_restore_leaves_out_is_told_by_kind_with_the_reason() -> Result<()> {
    let plot = Plot::furnished("left").await?;
    plot.add_config_map("prices").await?;
    plot.add_config_map("staying").await?;
    plot.create::<NonAdminBackup>("nightly", json!({ "backupSpec": { "storageLocation": "here" } })).await?;
    plot.backup_completes("nightly").await?;
    plot.delete::<ConfigMap>("prices").await?;
    plot.patch::<ConfigMap>("staying", json!({ "data": { "price": "8" } })).await?;
    let spec = json!({ "restoreSpec": { "backupName": "nightly", "excludedResources": ["serviceaccounts"] } });
    plot.create::<NonAdminRestore>("back", spec).await?;
    let tells = |status: &Value| !status["leftOut"].is_null();
    let status = plot.status_within::<NonAdminRestore>(VELERO_PATIENCE, "back", "to tell", tells).await;
    let told = |kind: &str| {
        let shares = status["leftOut"]["kinds"].as_array().into_iter().flatten();
        let shares = shares.filter(|share| share["kind"] == kind);
        shares.map(|share| (share["count"].as_u64(), share["reason"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(told("rbac.authorization.k8s.io/v1/RoleBinding"), [(Some(1), json!("NotForTenants"))], "{status}");
    assert_eq!(told("v1/ServiceAccount"), [(Some(2), json!("NotSelected"))], "{status}");
    let not_written = told("v1/ConfigMap");
    assert!(not_written.len() == 1 && not_written.iter().all(|(_, reason)| reason == "NotWritten"), "{status}");
    assert_eq!(status["leftOut"].get("unknown"), None);
    for list in List::ALL {
        plot.vanishes(&plot.veleros::<DownloadRequest>(), &list.request(&plot.uid_of_restore("back").await?)).await?;
    }
    Ok(())
}
