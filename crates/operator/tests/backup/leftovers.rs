//! What is left with Velero of requests that are gone: it goes, and nothing else does.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{
        MANAGED_BY_LABEL, MANAGED_BY_VALUE, NAB_ORIGIN_NACUUID_LABEL, NAB_ORIGIN_NAME_ANNOTATION,
        NAB_ORIGIN_NAMESPACE_ANNOTATION, NABSL_ORIGIN_NACUUID_LABEL, NABSL_ORIGIN_NAME_ANNOTATION,
        NABSL_ORIGIN_NAMESPACE_ANNOTATION, NAR_ORIGIN_NACUUID_LABEL, NAR_ORIGIN_NAME_ANNOTATION,
        NAR_ORIGIN_NAMESPACE_ANNOTATION, NonAdminBackup, NonAdminRestore, OADP_LABEL, OADP_LABEL_VALUE,
    },
    velero::{Backup, BackupStorageLocation, Restore},
};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::plot::{Kind, Plot};

/// Keys of a label and two annotations.
type Tags = [&'static str; 3];

const OF_BACKUP: Tags = [NAB_ORIGIN_NACUUID_LABEL, NAB_ORIGIN_NAMESPACE_ANNOTATION, NAB_ORIGIN_NAME_ANNOTATION];
const OF_RESTORE: Tags = [NAR_ORIGIN_NACUUID_LABEL, NAR_ORIGIN_NAMESPACE_ANNOTATION, NAR_ORIGIN_NAME_ANNOTATION];
const OF_LOCATION: Tags = [NABSL_ORIGIN_NACUUID_LABEL, NABSL_ORIGIN_NAMESPACE_ANNOTATION, NABSL_ORIGIN_NAME_ANNOTATION];

impl Plot {
    /// An object in Velero's namespace with the marks of one made for a request of this namespace, or without.
    async fn leave<K: Kind>(&self, name: &str, tags: Option<(Tags, &str)>, content: Value) -> Result<()> {
        let mut object =
            json!({ "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": { "name": name } });
        if let Some(([nacuuid, namespace, of], request)) = tags {
            object["metadata"]["labels"] =
                json!({ OADP_LABEL: OADP_LABEL_VALUE, MANAGED_BY_LABEL: MANAGED_BY_VALUE, nacuuid: name });
            object["metadata"]["annotations"] = json!({ namespace: self.namespace, of: request });
        }
        for (field, value) in content.as_object().into_iter().flatten() {
            object[field] = value.clone();
        }
        self.veleros::<K>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    fn named(&self, what: &str) -> String {
        format!("{}-{what}", self.namespace)
    }
}

#[tokio::test]
async fn what_requests_that_are_gone_have_left_with_velero_goes_and_nothing_else_does() -> Result<()> {
    let plot = Plot::furnished("leftover").await?;
    let (backup, _) = plot.completed_backup().await?;
    plot.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let kept = plot.restore_phase("back", "Completed").await;

    let (gone, unmarked) = (plot.named("gone"), plot.named("unmarked"));
    let restore = json!({ "spec": { "backupName": "nowhere", "includedNamespaces": [plot.namespace] } });
    // Finished already: Velero loses count of backups that fail as soon as their turn comes.
    let nowhere = json!({
        "spec": { "storageLocation": plot.named("nowhere"), "includedNamespaces": [plot.namespace] },
        "status": { "phase": "Failed" },
    });
    let location = json!({ "spec": { "provider": "aws", "objectStorage": { "bucket": plot.namespace } } });
    plot.leave::<Restore>(&unmarked, None, restore.clone()).await?;
    plot.leave::<Backup>(&unmarked, None, nowhere.clone()).await?;
    plot.leave::<Secret>(&unmarked, None, json!({})).await?;
    // One of the name is there, but it is another one.
    plot.leave::<Restore>(&gone, Some((OF_RESTORE, "back")), restore).await?;
    plot.leave::<Backup>(&gone, Some((OF_BACKUP, "nightly")), nowhere).await?;
    plot.leave::<BackupStorageLocation>(&gone, Some((OF_LOCATION, "gone")), location).await?;
    plot.leave::<Secret>(&gone, Some((OF_LOCATION, "here")), json!({})).await?;
    plot.vanishes(&plot.veleros::<Restore>(), &gone).await?;
    plot.vanishes(&plot.veleros::<Backup>(), &gone).await?;
    plot.vanishes(&plot.veleros::<BackupStorageLocation>(), &gone).await?;
    plot.vanishes(&plot.veleros::<Secret>(), &gone).await?;

    plot.veleros::<Restore>().get(&unmarked).await?;
    plot.veleros::<Backup>().get(&unmarked).await?;
    plot.veleros::<Secret>().get(&unmarked).await?;
    plot.veleros::<Restore>().get(kept["veleroRestore"]["name"].as_str().unwrap_or_default()).await?;
    plot.veleros::<Backup>().get(&crate::plot::velero_name(&backup)).await?;
    let location = plot.velero_location().await?;
    ensure!(location.phase() == Some("Available"), "{location:?}");
    plot.api::<NonAdminBackup>().get("nightly").await?;
    Ok(())
}
