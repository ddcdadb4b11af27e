//! Somebody else's name and marks, synchronised from one's own bucket.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminRestore},
    velero::Backup,
};
use croft_testbed::S3Call;
use http::Method;
use kube::{
    ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::plot::{Plot, message};

#[tokio::test]
async fn a_backup_that_comes_out_of_another_tenants_bucket_is_nobodys() -> Result<()> {
    let victim = Plot::bare("victim").await?;
    victim.add_secret("cloud").await?;
    victim.add_location(json!({ "backupSyncPeriod": "0s" })).await?;
    victim.location_is_available().await;
    let (_, original) = victim.completed_backup().await?;
    let name = original.name_any();
    victim.veleros::<Backup>().delete(&name, &DeleteParams::default()).await?;
    let lost = |status: &serde_json::Value| message(status, "Accepted").contains("has been removed");
    victim.status::<NonAdminBackup>("nightly", "to be lost", lost).await;

    let attacker = Plot::bare("attacker").await?;
    attacker.add_secret("cloud").await?;
    attacker.add_location(json!({ "backupSyncPeriod": "10s" })).await?;
    attacker.location_is_available().await;
    let file = format!("backups/{name}/velero-backup.json");
    let ceph = attacker.world.bed.ceph();
    let keys = (ceph.access_key.as_str(), ceph.secret_key.as_str());
    let from = format!("/{0}/{0}/{file}", victim.namespace);
    let (status, stolen) = ceph.call(keys, &S3Call { method: Method::GET, path: &from, ..S3Call::default() }).await?;
    ensure!(status.is_success(), "{status}");
    attacker.put(&format!("/{0}/{0}/{file}", attacker.namespace), stolen.as_bytes()).await?;
    attacker.is_synchronised().await?;
    assert!(victim.veleros::<Backup>().get_opt(&name).await?.is_none(), "Velero took it in");

    // As if Velero had taken it in all the same.
    let hers = attacker.velero_location().await?.name_any();
    let mut stolen: serde_json::Value = serde_json::from_str(&stolen)?;
    stolen["spec"]["storageLocation"] = json!(hers);
    for field in ["resourceVersion", "uid", "managedFields", "creationTimestamp"] {
        stolen["metadata"].as_object_mut().context("metadata")?.remove(field);
    }
    let injected = victim.veleros::<Backup>().create(&PostParams::default(), &serde_json::from_value(stolen)?).await?;
    assert_eq!(injected.labels().get("openshift.io/oadp-nab-origin-nacuuid"), Some(&name), "with the victim's marks");

    victim.create::<NonAdminRestore>("back", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    let refused = victim.status::<NonAdminRestore>("back", "to be refused", |s| s["phase"] == "BackingOff").await;
    assert!(message(&refused, "Accepted").ends_with("stored is gone"), "{refused}");
    let status = serde_json::to_value(victim.api::<NonAdminBackup>().get("nightly").await?.status)?;
    assert!(lost(&status) && status["veleroBackup"].get("status").is_none(), "{status}");

    victim.patch::<NonAdminBackup>("nightly", json!({ "spec": { "deleteBackup": true } })).await?;
    victim.vanishes(&victim.api::<NonAdminBackup>(), "nightly").await?;
    let left = victim.veleros::<Backup>().get_opt(&name).await?.context("it is not hers to delete")?;
    assert_eq!((left.uid(), left.metadata.deletion_timestamp), (injected.uid(), None));
    Ok(())
}
