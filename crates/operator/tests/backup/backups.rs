//! Backups: handed to Velero once, followed to the end, deleted as their owner says.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{
        NAB_FINALIZER, NAB_ORIGIN_NACUUID_LABEL, NonAdminBackup, NonAdminDownloadRequest, NonAdminPhase,
        NonAdminRestore,
    },
    velero::{Backup, DeleteBackupRequest},
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{
    plot::{Plot, VELERO_PATIENCE, message, phase, told, velero_name},
    support::eventually,
};

#[tokio::test]
async fn a_backup_completes_in_the_tenants_own_bucket() -> Result<()> {
    let plot = Plot::furnished("backup").await?;
    let (backup, velero) = plot.completed_backup().await?;
    let status = plot
        .status::<NonAdminBackup>("nightly", "to be served", |s| s["queueInfo"]["estimatedQueuePosition"] == 0)
        .await;
    assert_eq!(status["phase"], "Created");
    assert_eq!(told(&status), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]);
    assert_eq!(status["veleroBackup"]["spec"]["includedNamespaces"], json!([plot.namespace]));
    assert_eq!(status["veleroBackup"]["nacuuid"], velero.name_any());
    assert!(backup.finalizers().iter().any(|finalizer| finalizer == NAB_FINALIZER));
    assert_eq!(velero.labels().get(NAB_ORIGIN_NACUUID_LABEL), Some(&velero.name_any()));
    let stored = plot.stored().await?;
    assert!(!stored.is_empty() && stored.iter().all(|name| name.starts_with(&plot.namespace)), "{stored:?}");
    Ok(())
}

#[tokio::test]
async fn delete_backup_removes_the_backup_its_restores_and_its_data() -> Result<()> {
    let plot = Plot::furnished("delete").await?;
    let (_, velero) = plot.completed_backup().await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("back", "Completed").await;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    plot.vanishes(&plot.api::<NonAdminRestore>(), "back").await?;
    plot.vanishes(&plot.veleros::<Backup>(), &velero.name_any()).await?;
    eventually("the data to go", || async {
        let stored = plot.stored().await?;
        let left: Vec<_> = stored.iter().filter(|name| name.contains("/backups/")).collect();
        ensure!(left.is_empty(), "there is still {left:?}");
        Ok(Some(()))
    })
    .await;
    plot.vanishes(&plot.veleros::<DeleteBackupRequest>(), &velero.name_any()).await?;
    Ok(())
}

#[tokio::test]
async fn plain_deletion_holds_until_the_owner_says_what_is_to_become_of_it() -> Result<()> {
    let plot = Plot::furnished("hold").await?;
    let (_, velero) = plot.completed_backup().await?;
    plot.delete::<NonAdminBackup>("nightly").await?;
    let held = plot.status::<NonAdminBackup>("nightly", "to be held", |s| s["phase"] == "Deleting").await;
    assert_eq!(
        message(&held, "Deleting"),
        "backup deletion requires setting spec.deleteBackup or spec.forceDeleteBackup to true or finalizer removal"
    );
    assert_eq!(plot.veleros::<Backup>().get(&velero.name_any()).await?.uid(), velero.uid());

    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    let stored = plot.stored().await?;
    assert!(stored.iter().any(|name| name.contains("/backups/")), "forced deletion leaves the data: {stored:?}");
    Ok(())
}

#[tokio::test]
async fn a_namespace_with_held_backups_and_restores_is_never_held_up() -> Result<()> {
    let plot = Plot::furnished("terminate").await?;
    plot.completed_backup().await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("back", "Completed").await;
    plot.delete::<NonAdminBackup>("nightly").await?;
    plot.status::<NonAdminBackup>("nightly", "to be held", |s| s["phase"] == "Deleting").await;
    let namespaces: Api<Namespace> = Api::all(plot.world.client());
    namespaces.delete(&plot.namespace, &DeleteParams::default()).await?;
    eventually("the namespace to go", || async {
        let left = namespaces.get_opt(&plot.namespace).await?;
        ensure!(left.is_none(), "{:?}", left.and_then(|namespace| namespace.status));
        Ok(Some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_backup_waits_for_its_location_and_runs_by_itself() -> Result<()> {
    let plot = Plot::bare("ahead").await?;
    plot.add_location(json!({})).await?;
    plot.add_backup("nightly").await?;
    let waiting = plot.status::<NonAdminBackup>("nightly", "to wait", |s| s["phase"] == "New").await;
    assert_eq!(told(&waiting), ["Accepted=False LocationNotReady"]);
    plot.add_secret("cloud").await?;
    plot.backup_completes("nightly").await?;
    Ok(())
}

#[tokio::test]
async fn a_backup_that_names_what_is_not_there_runs_only_after_an_edit() -> Result<()> {
    let plot = Plot::bare("nowhere").await?;
    plot.add_backup("nightly").await?;
    let refused = plot.status::<NonAdminBackup>("nightly", "to be refused", |s| s["phase"] == "BackingOff").await;
    assert_eq!(told(&refused), ["Accepted=False InvalidBackupSpec"]);
    assert!(message(&refused, "Accepted").starts_with("NonAdminBackupStorageLocation not found in the namespace"));
    plot.add_secret("cloud").await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    plot.add_backup("weekly").await?;
    plot.backup_completes("weekly").await?;
    let still = plot.api::<NonAdminBackup>().get("nightly").await?;
    assert_eq!(phase(&still), Some(NonAdminPhase::BackingOff), "what was refused does not run by itself");
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "backupSpec": { "ttl": "5h" } } })).await?;
    plot.backup_completes("nightly").await?;
    Ok(())
}

#[tokio::test]
async fn what_reaches_out_of_its_namespace_is_refused_at_the_door() -> Result<()> {
    let plot = Plot::furnished("refuse").await?;
    for (field, value, told) in [
        ("includedNamespaces", json!(["kube-system"]), "can not contain namespaces other than"),
        ("excludedNamespaces", json!([]), "spec.backupSpec.excludedNamespaces is restricted"),
        ("resourcePolicy", json!({ "kind": "configmap", "name": "x" }), "spec.backupSpec.resourcePolicy is restricted"),
        ("ttl", json!("banana"), "spec.backupSpec.ttl must be a duration"),
        ("ofTomorrow", json!(1), "spec.backupSpec.ofTomorrow is not known to this operator and is restricted"),
    ] {
        let spec = json!({ "backupSpec": { "storageLocation": "here", field: value } });
        let refusal = plot.refusal::<NonAdminBackup>("nightly", spec).await?;
        assert!(refusal.contains(told), "{refusal}");
    }
    Ok(())
}

#[tokio::test]
async fn a_backup_that_velero_has_is_not_changed_any_more() -> Result<()> {
    let plot = Plot::furnished("fixed").await?;
    plot.completed_backup().await?;
    let change =
        |ttl: &str| json!({ "spec": { "backupSpec": { "ttl": ttl, "hooks": {}, "csiSnapshotTimeout": "0s" } } });
    plot.patch::<NonAdminBackup>("nightly", change("0s")).await?;
    let refused = plot.patch::<NonAdminBackup>("nightly", change("5h")).await.expect_err("a change").to_string();
    assert!(refused.contains("changes to backupSpec have no effect; create a new NonAdminBackup"), "{refused}");
    let settled = plot.api::<NonAdminBackup>().get("nightly").await?;
    let status = serde_json::to_value(&settled.status)?;
    assert_eq!(told(&status), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]);
    Ok(())
}

#[tokio::test]
async fn a_request_that_a_restore_brought_back_is_not_carried_out_again() -> Result<()> {
    let plot = Plot::furnished("revenant").await?;
    let backup = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
        "metadata": { "name": "nightly", "labels": { "velero.io/restore-name": "disaster" } },
        "spec": { "backupSpec": { "storageLocation": "here" } },
    });
    plot.administrators::<NonAdminBackup>().create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
    let told_so = |status: &serde_json::Value| told(status) == ["Accepted=False BroughtBackByRestore"];
    let status = plot.status::<NonAdminBackup>("nightly", "to be left alone", told_so).await;
    assert!(message(&status, "Accepted").contains("create a new one"), "{status}");
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "backupSpec": { "ttl": "5h" } } })).await?;
    plot.add_backup("weekly").await?;
    plot.backup_completes("weekly").await?;
    let status = serde_json::to_value(plot.api::<NonAdminBackup>().get("nightly").await?.status)?;
    assert!(told_so(&status) && status.get("veleroBackup").is_none(), "{status}");

    let brought_back = json!({ "velero.io/restore-name": "disaster" });
    let restore = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminRestore",
        "metadata": { "name": "undo", "labels": brought_back }, "spec": { "restoreSpec": { "backupName": "weekly" } },
    });
    plot.administrators::<NonAdminRestore>().create(&PostParams::default(), &serde_json::from_value(restore)?).await?;
    let status = plot.status::<NonAdminRestore>("undo", "to be left alone", told_so).await;
    assert!(status.get("veleroRestore").is_none(), "{status}");
    let log = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminDownloadRequest",
        "metadata": { "name": "log", "labels": brought_back }, "spec": { "target": { "kind": "BackupLog", "name": "weekly" } },
    });
    let logs = plot.administrators::<NonAdminDownloadRequest>();
    logs.create(&PostParams::default(), &serde_json::from_value(log)?).await?;
    let told_so = |status: &serde_json::Value| told(status) == ["Processed=False BroughtBackByRestore"];
    let status = plot.status::<NonAdminDownloadRequest>("log", "to be left alone", told_so).await;
    assert!(status["phase"] == "BackingOff" && status.get("velero").is_none(), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_backup_that_velero_has_lost_is_told_and_never_run_again() -> Result<()> {
    let plot = Plot::bare("lost").await?;
    plot.add_secret("cloud").await?;
    // Without it Velero finds the backup in the bucket and makes it anew.
    plot.add_location(json!({ "backupSyncPeriod": "0s" })).await?;
    plot.location_is_available().await;
    let (_, velero) = plot.completed_backup().await?;
    plot.veleros::<Backup>().delete(&velero.name_any(), &DeleteParams::default()).await?;
    let lost = plot
        .status::<NonAdminBackup>("nightly", "to be lost", |s| message(s, "Accepted").contains("has been removed"))
        .await;
    assert_eq!(lost["phase"], "Created");
    assert_eq!(told(&lost), ["Accepted=False VeleroBackupNotFound", "Queued=True BackupScheduled"]);
    assert!(lost["veleroBackup"].get("status").is_none() && lost.get("queueInfo").is_none(), "{lost}");
    plot.delete::<NonAdminBackup>("nightly").await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    assert!(plot.veleros::<Backup>().get_opt(&velero.name_any()).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn somebody_elses_velero_backup_is_never_touched() -> Result<()> {
    let plot = Plot::furnished("foreign").await?;
    let (backup, velero) = plot.completed_backup().await?;
    // The same label, another origin: what a bucket can make Velero create.
    let mut forged = Backup::new(&format!("{}-forged", plot.namespace), velero.spec.clone());
    forged.metadata.labels = velero.metadata.labels.clone();
    let origin = velero.annotations().keys().map(|key| (key.clone(), "bank".to_owned()));
    forged.metadata.annotations = Some(origin.collect());
    let forged = plot.veleros::<Backup>().create(&PostParams::default(), &forged).await?;
    wait::until("the forged one to finish", VELERO_PATIENCE, || async {
        let forged = plot.veleros::<Backup>().get(&forged.name_any()).await?;
        ensure!(forged.status.is_some_and(|status| status.completion_timestamp().is_some()), "it has not");
        Ok(Some(()))
    })
    .await?;
    assert_eq!(phase(&backup), Some(NonAdminPhase::Created));
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    let left = plot.veleros::<Backup>().get(&forged.name_any()).await?;
    assert_eq!((left.uid(), left.metadata.deletion_timestamp), (forged.uid(), None));
    assert!(plot.veleros::<Backup>().get_opt(&velero_name(&backup)).await?.is_none());
    Ok(())
}
