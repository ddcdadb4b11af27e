//! What lies beside the archive, rewritten by whoever owns the bucket: Velero reads it, and acts on it, with all rights. Whatever it
//! says, nothing foreign appears, is changed or goes.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    velero::{Backup, DeleteBackupRequest, PodVolumeBackup, Restore},
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    fences::told,
    hostile::{came_with, ended},
    own_buckets::stored,
    plot::{Plot, VELERO_PATIENCE, velero_name},
    support::eventually,
};

/// On everything foreign that such a file speaks of.
const CAME_BESIDE: &str = "test.croft.dev/came-beside";

/// Somebody else's, as it is now.
async fn belongings(bystander: &Plot, backup: &str) -> Result<Value> {
    let volumes: Api<PersistentVolume> = Api::all(bystander.world.client());
    let volume = volumes.get(&bystander.namespace).await?;
    let claim = bystander.api::<PersistentVolumeClaim>().get("data").await?;
    let map = bystander.api::<ConfigMap>().get("prices").await?;
    let velero = bystander.veleros::<Backup>().get(backup).await?;
    Ok(json!({
        "volume": [volume.metadata.uid, volume.metadata.labels, volume.spec], "claim": [claim.metadata.uid, claim.metadata.labels, claim.spec],
        "map": [map.metadata.uid, map.metadata.labels, map.data], "backup": [velero.metadata.uid, velero.metadata.labels, velero.spec],
    }))
}

/// What Velero may find beside an archive, by the end of the file's name: every object in it is another namespace's.
fn beside(backup: &str, foreign: &str) -> Vec<(&'static str, Value)> {
    let group = "snapshot.storage.k8s.io";
    let (mark, of_backup) = (json!({ CAME_BESIDE: "x" }), json!({ CAME_BESIDE: "x", "velero.io/backup-name": backup }));
    let data = json!({ "group": "", "resource": "persistentvolumeclaims", "namespace": foreign, "name": "data" });
    let secret = json!({ "group": "", "resource": "secrets", "namespace": "velero", "name": "keys" });
    let volume = |method: &str| {
        json!({
            "pvcName": "data", "pvcNamespace": foreign, "pvName": foreign, "backupMethod": method, "snapshotDataMoved": false,
            "preserveLocalSnapshot": true, "skipped": false, "pvInfo": { "reclaimPolicy": "Delete", "labels": mark },
            "csiSnapshotInfo": { "snapshotHandle": "theirs", "driver": "d", "vscName": "theirs", "volumeGroupSnapshotHandle": "theirs" },
            "pvbInfo": { "snapshotHandle": "theirs", "podName": "web", "podNamespace": foreign, "volumeName": "data" },
        })
    };
    let named = |name: &str| json!({ "name": name, "namespace": foreign, "labels": of_backup });
    vec![
        (
            "-itemoperations.json.gz",
            json!([{
                "spec": { "backupName": backup, "backupUID": "x", "backupItemAction": "velero.io/csi-pvc-backupper", "operationID": "x",
                          "resourceIdentifier": data, "postOperationItems": [data, secret] },
                "status": { "operationPhase": "InProgress" },
            }]),
        ),
        ("-volumeinfo.json.gz", json!([volume("PodVolumeBackup"), volume("CSISnapshot"), volume("NativeSnapshot")])),
        (
            "-podvolumebackups.json.gz",
            json!([{
                "apiVersion": "velero.io/v1", "kind": "PodVolumeBackup", "metadata": named(&format!("{foreign}-theirs")),
                "spec": { "backupStorageLocation": "l", "node": "n", "repoIdentifier": "", "volume": "data",
                          "pod": { "kind": "Pod", "namespace": foreign, "name": "web" } },
                "status": { "phase": "Completed", "snapshotID": "theirs" },
            }]),
        ),
        (
            "-csi-volumesnapshots.json.gz",
            json!([{ "apiVersion": format!("{group}/v1"), "kind": "VolumeSnapshot", "metadata": named("theirs"),
                     "spec": { "source": { "persistentVolumeClaimName": "data" } },
                     "status": { "boundVolumeSnapshotContentName": "theirs" } }]),
        ),
        (
            "-csi-volumesnapshotcontents.json.gz",
            json!([{ "apiVersion": format!("{group}/v1"), "kind": "VolumeSnapshotContent", "metadata": named("theirs"),
                     "spec": { "driver": "d", "deletionPolicy": "Delete", "source": { "snapshotHandle": "theirs" },
                               "volumeSnapshotRef": { "namespace": foreign, "name": "theirs" } },
                     "status": { "snapshotHandle": "theirs" } }]),
        ),
        (
            "-csi-volumesnapshotclasses.json.gz",
            json!([{ "apiVersion": format!("{group}/v1"), "kind": "VolumeSnapshotClass", "metadata": named("theirs"),
                     "driver": "d", "deletionPolicy": "Delete" }]),
        ),
        (
            "-resource-list.json.gz",
            json!({ "v1/Namespace": [foreign], "v1/PersistentVolume": [foreign],
                    "v1/PersistentVolumeClaim": [format!("{foreign}/data(created)")], "v1/Secret": ["velero/keys"] }),
        ),
    ]
}

/// What Velero deletes with a backup, wherever it is.
fn snapshots(backup: &str, foreign: &str) -> Value {
    json!([{
        "spec": { "backupName": backup, "backupUID": "x", "location": "theirs", "persistentVolumeName": foreign,
                  "providerVolumeID": "theirs", "volumeType": "gp3" },
        "status": { "providerSnapshotID": "theirs", "phase": "Completed" },
    }])
}

fn zipped(content: &Value) -> Result<Vec<u8>> {
    let mut gzip =
        Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("running gzip")?;
    gzip.stdin.take().context("its input")?.write_all(content.to_string().as_bytes())?;
    let answer = gzip.wait_with_output()?;
    ensure!(answer.status.success(), "gzip: {}", answer.status);
    Ok(answer.stdout)
}

impl Plot {
    /// Writes a file beside the archive of a backup, or beside the log of a restore.
    async fn lay(&self, of: &str, file: &str, content: &Value) -> Result<()> {
        self.put(&format!("/{0}/{0}/{of}/{file}", self.namespace), &zipped(content)?).await
    }

    async fn lay_all(&self, backup: &str, foreign: &str) -> Result<()> {
        for (end, content) in beside(backup, foreign) {
            self.lay(&format!("backups/{backup}"), &format!("{backup}{end}"), &content).await?;
        }
        Ok(())
    }

    /// A location that Velero looks through from end to end all the time.
    async fn synchronised(prefix: &str) -> Result<Self> {
        let plot = Self::bare(prefix).await?;
        plot.add_secret("cloud").await?;
        plot.add_location(json!({ "backupSyncPeriod": "1s" })).await?;
        plot.location_is_available().await;
        Ok(plot)
    }

    /// A namespace that has a volume, a claim and a backup of its own, what there is of it, and the name of that backup.
    async fn bystander(prefix: &str) -> Result<(Self, Value, String)> {
        let plot = Self::furnished(prefix).await?;
        plot.add_bound_claim().await?;
        let (_, velero) = plot.completed_backup().await?;
        let name = velero.name_any();
        let before = belongings(&plot, &name).await?;
        Ok((plot, before, name))
    }

    /// Nothing that is not its own has come of the bucket of `self`, and whatever `bystander` had is as it was.
    async fn is_left_alone(&self, (bystander, before, backup): &(Self, Value, String)) -> Result<()> {
        ensure!(belongings(bystander, backup).await? == *before, "{:?}", belongings(bystander, backup).await?);
        let (foreign, hers) = came_with(self, CAME_BESIDE).await?;
        ensure!(foreign.is_empty() && hers == 0, "{foreign:?}, and {hers} of hers");
        let repositories = ["get", "backuprepositories.velero.io", "-n", "velero", "-o", "json"];
        let repositories: Value = serde_json::from_str(&self.world.bed.admin().kubectl(&repositories).await?)?;
        let mut repositories = repositories["items"].as_array().into_iter().flatten();
        ensure!(
            !repositories.any(|repository| repository["spec"]["volumeNamespace"] == bystander.namespace.as_str()),
            "Velero has opened the repository of {}",
            bystander.namespace
        );
        Ok(())
    }
}

#[tokio::test]
async fn of_files_beside_an_archive_that_speak_of_others_nothing_comes_with_a_restore_or_goes_with_a_deletion()
-> Result<()> {
    let (bystander, plot) = (Plot::bystander("bystander").await?, Plot::furnished("beside").await?);
    let (backup, _) = plot.completed_backup().await?;
    let name = velero_name(&backup);
    plot.lay_all(&name, &bystander.0.namespace).await?;
    plot.lay(&format!("backups/{name}"), &format!("{name}-volumesnapshots.json.gz"), &json!([])).await?;
    plot.delete::<ConfigMap>("prices").await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    ended(&plot, "back").await?;
    plot.api::<ConfigMap>().get("prices").await?;
    plot.is_left_alone(&bystander).await?;

    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    let left = plot.stored().await?;
    ensure!(!left.iter().any(|file| file.contains("/backups/")), "{left:?}");
    plot.is_left_alone(&bystander).await
}

#[tokio::test]
async fn snapshots_that_a_bucket_names_are_not_taken_up_by_a_deletion_which_says_why() -> Result<()> {
    let (bystander, plot) = (Plot::bystander("bystander").await?, Plot::furnished("naming").await?);
    let (backup, _) = plot.completed_backup().await?;
    let name = velero_name(&backup);
    let theirs = snapshots(&name, &bystander.0.namespace);
    plot.lay(&format!("backups/{name}"), &format!("{name}-volumesnapshots.json.gz"), &theirs).await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    let is_told = |status: &Value| {
        let asked = &status["veleroDeleteBackupRequest"]["status"];
        asked["phase"] == "Processed" && asked["errors"].to_string().contains("theirs")
    };
    plot.status_within::<NonAdminBackup>(VELERO_PATIENCE, "nightly", "to say what is in its way", is_told).await;
    plot.is_left_alone(&bystander).await?;
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await
}

#[tokio::test]
async fn of_what_a_bucket_says_of_an_expired_backup_nothing_foreign_comes_or_goes_with_it() -> Result<()> {
    let (bystander, plot) = (Plot::bystander("bystander").await?, Plot::synchronised("overdue").await?);
    let name = format!("{}-old", plot.namespace);
    plot.lay_all(&name, &bystander.0.namespace).await?;
    let mut copies = beside(&name, &bystander.0.namespace);
    let copies = copies.iter_mut().find(|(end, _)| end.contains("podvolume")).context("copies of volumes")?;
    let mut hers = copies.1[0].clone();
    hers["metadata"]["name"] = json!(format!("{name}-hers"));
    hers["metadata"]["labels"] = json!({ "velero.io/backup-name": name });
    hers["spec"]["pod"]["namespace"] = json!(plot.namespace);
    hers["status"] = json!({ "phase": "Completed" });
    let both = json!([copies.1[0], hers]);
    plot.lay(&format!("backups/{name}"), &format!("{name}-podvolumebackups.json.gz"), &both).await?;
    let theirs = snapshots(&name, &bystander.0.namespace);
    plot.lay(&format!("backups/{name}"), &format!("{name}-volumesnapshots.json.gz"), &theirs).await?;
    let path = format!("/{0}/{0}/backups/{name}/velero-backup.json", plot.namespace);
    plot.put(&path, stored(&plot.namespace, &name).to_string().as_bytes()).await?;

    wait::until("what says it is hers to be taken in", VELERO_PATIENCE, || async {
        Ok(plot.veleros::<PodVolumeBackup>().get_opt(&format!("{name}-hers")).await?)
    })
    .await?;
    let foreign = format!("{}-theirs", bystander.0.namespace);
    ensure!(plot.veleros::<PodVolumeBackup>().get_opt(&foreign).await?.is_none(), "what is not hers was, too");
    wait::until("Velero to have been asked to delete it", VELERO_PATIENCE, || async {
        let asked = json!(plot.veleros::<DeleteBackupRequest>().get(&name).await?);
        ensure!(asked["status"]["phase"] == "Processed", "{asked}");
        ensure!(asked["status"]["errors"].to_string().contains("theirs"), "{asked}");
        Ok(Some(()))
    })
    .await?;
    plot.is_left_alone(&bystander).await?;
    plot.delete::<NonAdminBackupStorageLocation>("here").await
}

#[tokio::test]
async fn a_restore_that_velero_finishes_as_the_bucket_says_changes_nobody_elses_volume() -> Result<()> {
    let (bystander, plot) = (Plot::bystander("bystander").await?, Plot::furnished("finishing").await?);
    let foreign = bystander.0.namespace.as_str();
    let (backup, _) = plot.completed_backup().await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let restore = plot.restore_phase("back", "Completed").await;
    let restore = restore["veleroRestore"]["name"].as_str().context("no name")?.to_owned();
    plot.lay_all(&velero_name(&backup), foreign).await?;
    let created = json!({ "v1/PersistentVolumeClaim": [format!("{foreign}/data(created)")] });
    let of = format!("restores/{restore}");
    plot.lay(&of, &format!("restore-{restore}-resource-list.json.gz"), &created).await?;
    plot.lay(&of, &format!("restore-{restore}-itemoperations.json.gz"), &json!([])).await?;

    // Velero finishes a restore within moments, so that its word is written for it once more.
    let restores = plot.veleros::<Restore>();
    let says = |status: Value| {
        let said = json!({ "metadata": { "labels": { "croft.dev/unfinished": "true" } }, "status": status });
        let (restores, restore) = (&restores, &restore);
        async move { restores.patch(restore, &PatchParams::default(), &Patch::Merge(&said)).await }
    };
    says(json!({ "phase": "InProgress", "completionTimestamp": null })).await?;
    let velero = plot.world.bed.cluster_admin("velero", "velero").await?;
    let elsewhere = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "made-by-velero", "namespace": "default", "labels": { "velero.io/restore-name": restore } },
    });
    eventually("the API server to know of the Restore", || async { Ok(told(&velero, &elsewhere).await) }).await;
    says(json!({ "phase": "Finalizing" })).await?;
    plot.restore_phase("back", "PartiallyFailed").await;
    let log = plot.world.bed.velero().log();
    let refused = format!("PVC: data, PV: {foreign}");
    let refused = log.lines().find(|line| line.contains("fail to patch dynamic PV") && line.contains(&refused));
    ensure!(
        refused.is_some_and(|line| line.contains("Velero changes no PersistentVolume")),
        "it did not try: {refused:?}"
    );
    plot.is_left_alone(&bystander).await
}
