//! Volumes: a claim comes back without the volume it had, and what Velero copies into the new one is counted.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminRestore},
    velero::{
        BACKUP_NAME_LABEL, DataDownload, DataUpload, PodVolumeBackup, PodVolumeRestore, RESTORE_NAME_LABEL, Restore,
    },
};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::{
    plot::{Kind, Plot, velero_name},
    support::eventually,
};

impl Plot {
    /// The claim `data`, bound to a volume of the cluster, which is called as the namespace is.
    pub(crate) async fn add_bound_claim(&self) -> Result<()> {
        let size = json!({ "storage": "1Mi" });
        let volume = json!({
            "metadata": { "name": self.namespace },
            "spec": {
                "capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/nowhere" },
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "",
                "claimRef": { "kind": "PersistentVolumeClaim", "namespace": self.namespace, "name": "data" },
            },
        });
        let volumes: Api<PersistentVolume> = Api::all(self.world.client());
        volumes.create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
        let spec =
            json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": { "requests": size } });
        self.create::<PersistentVolumeClaim>("data", spec).await?;
        eventually("the claim to be bound", || async {
            let claim = self.api::<PersistentVolumeClaim>().get("data").await?;
            ensure!(claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some()), "{claim:?}");
            Ok(Some(()))
        })
        .await;
        Ok(())
    }
}

#[tokio::test]
async fn a_claim_comes_back_without_its_volume_and_copies_are_counted_as_the_node_agent_would_report_them() -> Result<()>
{
    let plot = Plot::furnished("volume").await?;
    plot.add_bound_claim().await?;
    plot.create::<NonAdminBackup>("nightly", json!({ "backupSpec": { "storageLocation": "here" } })).await?;
    plot.backup_completes("nightly").await?;
    plot.delete::<PersistentVolumeClaim>("data").await?;
    plot.vanishes(&plot.api::<PersistentVolumeClaim>(), "data").await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let status = plot.restore_phase("back", "Completed").await;
    let claim = plot.api::<PersistentVolumeClaim>().get("data").await?;
    ensure!(claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_none()), "{claim:?}");
    ensure!(!claim.annotations().contains_key("pv.kubernetes.io/bind-completed"), "{claim:?}");

    let name = status["veleroRestore"]["name"].as_str().unwrap_or_default();
    let velero = plot.veleros::<Restore>().get(name).await?;
    let copying = json!({
        "metadata": { "generateName": "copy-", "labels": { RESTORE_NAME_LABEL: velero.name_any() } },
        "spec": {
            "backupStorageLocation": "l", "pod": { "kind": "Pod", "namespace": plot.namespace, "name": "p" },
            "repoIdentifier": "", "snapshotID": "s", "sourceNamespace": plot.namespace, "volume": "v",
        },
        "status": { "phase": "Completed" },
    });
    plot.veleros::<PodVolumeRestore>().create(&PostParams::default(), &serde_json::from_value(copying)?).await?;
    let counted = |status: &serde_json::Value| status["fileSystemPodVolumeRestores"]["total"] == 1;
    let status = plot.status::<NonAdminRestore>("back", "to count what is copied", counted).await;
    ensure!(status["fileSystemPodVolumeRestores"]["completed"] == 1, "{status}");
    Ok(())
}

impl Plot {
    /// A transfer of a volume that is so far, as Velero's node agent would say. None runs here.
    async fn transfers<K: Kind>(&self, label: &str, of: &str, phase: &str, spec: Value) -> Result<()> {
        let transfer = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": { "generateName": "transfer-", "labels": { label: of } }, "spec": spec, "status": { "phase": phase },
        });
        self.veleros::<K>().create(&PostParams::default(), &serde_json::from_value(transfer)?).await?;
        Ok(())
    }
}

#[tokio::test]
async fn transfers_of_volumes_are_counted_as_the_node_agent_would_report_them() -> Result<()> {
    let plot = Plot::furnished("transfers").await?;
    let (backup, _) = plot.completed_backup().await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let status = plot.restore_phase("back", "Completed").await;
    let restore = status["veleroRestore"]["name"].as_str().unwrap_or_default();

    let pod = json!({ "kind": "Pod", "namespace": plot.namespace, "name": "p" });
    for phase in ["Completed", "Failed", "InProgress"] {
        let copied =
            json!({ "backupStorageLocation": "l", "node": "n", "pod": pod, "repoIdentifier": "", "volume": "v" });
        plot.transfers::<PodVolumeBackup>(BACKUP_NAME_LABEL, &velero_name(&backup), phase, copied).await?;
    }
    for phase in ["Prepared", "Completed", "Canceled"] {
        let up = json!({
            "backupStorageLocation": "l", "operationTimeout": "1m", "snapshotType": "CSI", "sourceNamespace": plot.namespace,
            "sourcePVC": "data", "csiSnapshot": { "volumeSnapshot": "s", "storageClass": "c", "snapshotClass": "sc" },
        });
        plot.transfers::<DataUpload>(BACKUP_NAME_LABEL, &velero_name(&backup), phase, up).await?;
        let down = json!({
            "backupStorageLocation": "l", "operationTimeout": "1m", "snapshotID": "s", "sourceNamespace": plot.namespace,
            "targetVolume": { "namespace": plot.namespace, "pv": "v", "pvc": "data" },
        });
        plot.transfers::<DataDownload>(RESTORE_NAME_LABEL, restore, phase, down).await?;
    }
    let moved = json!({ "total": 3, "prepared": 1, "completed": 1, "canceled": 1 });
    let copied = json!({ "total": 3, "completed": 1, "failed": 1, "inProgress": 1 });
    plot.status::<NonAdminBackup>("nightly", "to count what is transferred", |status| {
        status["dataMoverDataUploads"] == moved && status["fileSystemPodVolumeBackups"] == copied
    })
    .await;
    plot.status::<NonAdminRestore>("back", "to count what is transferred", |status| {
        status["dataMoverDataDownloads"] == moved
    })
    .await;
    Ok(())
}
