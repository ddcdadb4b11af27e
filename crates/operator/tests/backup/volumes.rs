//! Volumes: a claim comes back without the volume it had, and what Velero copies into the new one is counted.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminRestore},
    velero::{PodVolumeRestore, RESTORE_NAME_LABEL, Restore},
};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::json;

use crate::{plot::Plot, support::eventually};

impl Plot {
    /// The claim `data`, bound to a volume of the cluster, which is called as the namespace is.
    async fn add_bound_claim(&self) -> Result<()> {
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
