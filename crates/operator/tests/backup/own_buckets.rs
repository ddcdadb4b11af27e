//! A bucket a tenant can write says what she likes: Velero hears of nothing in it but her own backups, and deletes nobody else's
//! snapshots for it.

use anyhow::{Result, ensure};
use croft_api::{
    backup::NonAdminBackup,
    velero::{Backup, DeleteBackupRequest},
};
use croft_testbed::{Testbed, product::Installed, wait};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    fences::told,
    plot::{Plot, VELERO_PATIENCE},
    support::{apply, croft, eventually},
};

impl Plot {
    /// Puts what Velero reads of a backup into the bucket.
    async fn store(&self, backup: &Value) -> Result<()> {
        let name = backup["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/{0}/{0}/backups/{name}/velero-backup.json", self.namespace);
        self.put(&path, backup.to_string().as_bytes()).await
    }

    /// Waits until Velero has looked through the location from end to end, from now on.
    pub(crate) async fn is_synchronised(&self) -> Result<()> {
        let last = || async {
            let location = json!(self.velero_location().await?);
            anyhow::Ok(location["status"]["lastSyncedTime"].as_str().unwrap_or_default().to_owned())
        };
        // The one that is under way may have listed the bucket before.
        for _ in 0..2 {
            let before = last().await?;
            wait::until("Velero to look through the location", VELERO_PATIENCE, || async {
                Ok((last().await? != before).then_some(()))
            })
            .await?;
        }
        Ok(())
    }
}

/// A backup as the operator would have stored it for the namespace, long expired.
pub(crate) fn stored(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "velero.io/v1", "kind": "Backup",
        "metadata": {
            "name": name,
            "labels": {
                "openshift.io/oadp": "True", "app.kubernetes.io/managed-by": "oadp-nac-controller",
                "openshift.io/oadp-nab-origin-nacuuid": name, "croft.dev/own-bucket": "true",
            },
            "annotations": {
                "openshift.io/oadp-nab-origin-namespace": namespace, "openshift.io/oadp-nab-origin-name": "nightly",
            },
        },
        "spec": { "includedNamespaces": [namespace] },
        "status": {
            "phase": "Completed", "version": 1, "formatVersion": "1.1.0", "expiration": "2026-01-02T00:00:00Z",
            "startTimestamp": "2026-01-01T00:00:00Z", "completionTimestamp": "2026-01-01T00:00:01Z",
        },
    })
}

/// Every way in which a bucket can say that something else is in it.
fn hostile(namespace: &str) -> Vec<Value> {
    let changed = |what: &str, pointer: &str, value: Value| {
        let mut backup = stored(namespace, &format!("{namespace}-{what}"));
        let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(Value::Object(parent)) = backup.pointer_mut(parent) {
            parent.insert(field.replace("~1", "/"), value);
        }
        backup
    };
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x" }]);
    vec![
        stored(namespace, "somebody-elses-nightly"),
        changed("unlabelled", "/metadata/labels", json!({})),
        changed("unfenced", "/metadata/labels/croft.dev~1own-bucket", json!("no")),
        changed("renamed", "/metadata/labels/openshift.io~1oadp-nab-origin-nacuuid", json!("another")),
        changed("foreign", "/metadata/annotations/openshift.io~1oadp-nab-origin-namespace", json!("kube-system")),
        changed("scheduled", "/metadata/labels/velero.io~1schedule-name", json!("daily")),
        changed("immortal", "/metadata/finalizers", json!(["example.com/never"])),
        changed("owned", "/metadata/ownerReferences", owner),
        changed("wide", "/spec/includedNamespaces", json!(["*"])),
        changed("boundless", "/spec", json!({})),
        changed("silent", "/status", Value::Null),
        changed("endless", "/status/completionTimestamp", Value::Null),
        changed("blank", "/status/phase", json!("")),
        changed("new", "/status/phase", json!("New")),
        changed("queued", "/status/phase", json!("Queued")),
        changed("ready", "/status/phase", json!("ReadyToStart")),
        changed("running", "/status/phase", json!("InProgress")),
        changed("deleting", "/status/phase", json!("Deleting")),
    ]
}

#[tokio::test]
async fn velero_takes_nothing_in_from_a_tenants_bucket_but_her_own_backups() -> Result<()> {
    let plot = Plot::bare("findings").await?;
    plot.add_secret("cloud").await?;
    plot.add_location(json!({ "backupSyncPeriod": "1s" })).await?;
    plot.location_is_available().await;
    let hers = stored(&plot.namespace, &format!("{}-nightly", plot.namespace));
    let hostile = hostile(&plot.namespace);
    for backup in hostile.iter().chain([&hers]) {
        plot.store(backup).await?;
    }
    wait::until("what is hers to come back", VELERO_PATIENCE, || async {
        Ok(plot.api::<NonAdminBackup>().get_opt("nightly").await?)
    })
    .await?;
    plot.is_synchronised().await?;
    let taken_in = plot.veleros::<Backup>().list(&ListParams::default()).await?;
    let requests = plot.veleros::<DeleteBackupRequest>().list(&ListParams::default()).await?;
    for backup in &hostile {
        let name = backup["metadata"]["name"].as_str().unwrap_or_default();
        ensure!(!taken_in.iter().any(|it| it.name_any() == name), "{name} was taken in");
        ensure!(!requests.iter().any(|it| json!(it)["spec"]["backupName"] == name), "{name} is deleted");
    }
    // Whoever watches the API server sees that somebody tries.
    let metrics = plot.world.bed.admin().kubectl(&["get", "--raw", "/metrics"]).await?;
    let refused = metrics.lines().filter(|line| {
        line.starts_with("apiserver_validating_admission_policy_check_total{")
            && line.contains("enforcement_action=\"deny\"")
            && line.contains("policy=\"croft-own-bucket-findings\"")
    });
    let refused: f64 = refused.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    ensure!(refused >= 10.0, "{refused} refusals are counted");
    Ok(())
}

#[tokio::test]
async fn a_backup_in_a_tenants_bucket_is_not_said_to_be_in_her_vault_to_be_deleted_there() -> Result<()> {
    let plot = Plot::with_vault("moved").await?;
    plot.world.bed.ceph().create_bucket(&plot.namespace).await?;
    plot.add_secret("cloud").await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    plot.completed_backup().await?;
    let moved = json!({ "spec": { "deleteBackup": true, "backupSpec": { "storageLocation": "safe" } } });
    let refused = |answer: Result<NonAdminBackup>| answer.err().map(|error| error.to_string()).unwrap_or_default();
    let told = refused(plot.patch("nightly", moved.clone()).await);
    assert!(told.contains("changes to backupSpec have no effect"), "while it is there: {told:?}");
    plot.delete::<NonAdminBackup>("nightly").await?;
    plot.status::<NonAdminBackup>("nightly", "to be on its way out", |status| status["phase"] == "Deleting").await;
    let told = refused(plot.patch("nightly", moved).await);
    assert!(told.contains("changes to backupSpec have no effect"), "on its way out: {told:?}");
    Ok(())
}

#[tokio::test]
async fn a_backup_in_a_tenants_bucket_from_before_there_was_a_label_gets_it() -> Result<()> {
    let plot = Plot::furnished("older").await?;
    let (_, velero) = plot.completed_backup().await?;
    let (backups, name) = (plot.veleros::<Backup>(), velero.name_any());
    let older = Patch::Merge(json!({ "metadata": { "labels": { "croft.dev/own-bucket": null } } }));
    let older = backups.patch(&name, &PatchParams::default(), &older).await?;
    ensure!(!older.labels().contains_key("croft.dev/own-bucket"), "it is labelled: {:?}", older.labels());
    eventually("the backup to be labelled", || async {
        Ok(backups.get(&name).await?.labels().contains_key("croft.dev/own-bucket").then_some(()))
    })
    .await;
    Ok(())
}

/// What is refused of what concerns a tenant's own bucket, whoever asks.
#[tokio::test]
async fn what_velero_does_for_a_tenants_own_bucket_is_judged_while_no_operator_runs() -> Result<()> {
    let bed = Testbed::kubernetes().start().await?;
    bed.install_velero_crds().await?;
    let _installed = Installed::new(&bed, croft()).await?;
    let (admin, velero) = (bed.admin(), bed.cluster_admin("velero", "velero").await?);
    apply(admin, include_str!("snapshots.yaml")).await?;
    let ours = json!({ "app.kubernetes.io/managed-by": "oadp-nac-controller", "croft.dev/own-bucket": "true" });
    let made = |kind: &str, name: &str, more: Value| {
        let mut made = json!({ "apiVersion": "velero.io/v1", "kind": kind,
                               "metadata": { "name": name, "namespace": "velero", "labels": ours } });
        for (field, value) in more.as_object().into_iter().flatten() {
            made[field] = value.clone();
        }
        made
    };
    let mut location = made(
        "BackupStorageLocation",
        "hers",
        json!({ "spec": {
        "provider": "aws", "objectStorage": { "bucket": "b" },
    } }),
    );
    location["metadata"]["annotations"] = json!({ "openshift.io/oadp-nabsl-origin-namespace": "shop" });
    let deletion = made(
        "DeleteBackupRequest",
        "under-way",
        json!({
            "spec": { "backupName": "kept" }, "status": { "phase": "InProgress" },
        }),
    );
    let backup = made("Backup", "kept", json!({ "spec": { "storageLocation": "hers" } }));
    for object in [&location, &backup, &deletion] {
        apply(admin, &object.to_string()).await?;
    }
    let content = |source: Value| {
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent", "metadata": { "name": "content" },
            "spec": { "driver": "d", "deletionPolicy": "Delete", "source": source,
                      "volumeSnapshotRef": { "namespace": "n", "name": "s" } },
        })
    };
    let of_a_snapshot = content(json!({ "snapshotHandle": "somebody-elses" }));
    eventually("the API server to know of the deletion", || async { Ok(told(&velero, &of_a_snapshot).await) }).await;
    let copying = |namespace: &str, location: &str| {
        json!({
            "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": { "name": "copying", "namespace": "velero" },
            "spec": { "backupStorageLocation": location, "node": "n", "pod": { "namespace": namespace, "name": "p" },
                      "repoIdentifier": "", "volume": "v" },
        })
    };
    let asked = |labels: Value| {
        let mut asked = made("DeleteBackupRequest", "asked", json!({ "spec": { "backupName": "kept" } }));
        asked["metadata"]["labels"] = labels;
        asked
    };
    eventually("the API server to know of the location", || async {
        Ok(told(&velero, &copying("bank", "hers")).await)
    })
    .await;
    eventually("the API server to know of the backup", || async { Ok(told(&velero, &asked(json!({}))).await) }).await;
    for (what, who, object, because) in [
        ("a snapshot by its handle", &velero, of_a_snapshot.clone(), Some("takes up no snapshot")),
        ("a snapshot of a volume", &velero, content(json!({ "volumeHandle": "v" })), None),
        ("somebody else's", admin, of_a_snapshot, None),
        ("a volume of another namespace", &velero, copying("bank", "hers"), Some("volumes of pods in namespace shop")),
        ("a volume of hers", &velero, copying("shop", "hers"), None),
        ("a volume that goes elsewhere", &velero, copying("bank", "elsewhere"), None),
        ("a deletion of Velero's own", &velero, asked(json!({})), Some("is deleted by the operator")),
        ("a deletion nobody would judge", admin, asked(json!({})), Some("is deleted by the operator")),
        ("a deletion that is judged", admin, asked(ours.clone()), None),
    ] {
        let told = told(who, &object).await;
        match because {
            None => ensure!(told.is_none(), "{what}: {told:?}"),
            Some(why) => ensure!(told.as_ref().is_some_and(|told| told.contains(why)), "{what}: {told:?}"),
        }
    }
    Ok(())
}
