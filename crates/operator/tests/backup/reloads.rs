//! The administrator changes the settings: whoever they concern goes on, or stops, by itself.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    velero::{Backup, BackupStorageLocation},
};
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::{
    plot::{Plot, told, velero_name},
    support::eventually,
};

impl Plot {
    pub(crate) fn settle(&self, settings: &str) -> Result<()> {
        Ok(std::fs::write(self.world.bed.dir().join("settings.yaml"), settings)?)
    }
}

#[tokio::test]
async fn what_the_settings_deny_allow_and_enforce_counts_from_then_on_for_whoever_it_concerns() -> Result<()> {
    let plot = Box::pin(Plot::alone("settled", "backup: { ownBuckets: Deny }")).await?;
    plot.add_location(json!({})).await?;
    let denied = |status: &Value| told(status).contains(&"ClusterAdminApproved=False OwnBucketsDenied".to_owned());
    let status = plot.status::<NonAdminBackupStorageLocation>("here", "to be denied", denied).await;
    ensure!(status["phase"] == "BackingOff", "{status}");
    ensure!(plot.veleros::<BackupStorageLocation>().list(&ListParams::default()).await?.items.is_empty());

    plot.settle(
        "backup: { ownBuckets: Allow, enforceBackupSpec: { ttl: 36h }, enforceRestoreSpec: { preserveNodePorts: false }, \
         enforceBSLSpec: { validationFrequency: 30s } }",
    )?;
    plot.location_is_available().await;
    ensure!(plot.velero_location().await?.spec.text("validationFrequency") == Some("30s"), "it is enforced");
    plot.add_config_map("prices").await?;
    plot.add_backup("nightly").await?;
    let velero = velero_name(&plot.backup_completes("nightly").await?);
    let made = plot.veleros::<Backup>().get(&velero).await?;
    ensure!(made.spec.text("ttl").is_some_and(|ttl| ttl.starts_with("36h")), "{:?}", made.spec);
    let brief = json!({ "backupSpec": { "storageLocation": "here", "ttl": "1h" } });
    let said = plot.refusal::<NonAdminBackup>("brief", brief).await?;
    ensure!(said.contains("the administrator has restricted spec.backupSpec.ttl field value to 36h0m0s"), "{said}");
    let other = json!({ "restoreSpec": { "backupName": "nightly", "preserveNodePorts": true } });
    let said = plot.refusal::<NonAdminRestore>("other", other).await?;
    ensure!(said.contains("restricted spec.restoreSpec.preserveNodePorts field value to false"), "{said}");

    let location = plot.velero_location().await?.name_any();
    plot.settle("backup: { ownBuckets: Deny }")?;
    plot.status::<NonAdminBackupStorageLocation>("here", "to be denied again", denied).await;
    plot.vanishes(&plot.veleros::<BackupStorageLocation>(), &location).await?;
    eventually("what is stored to stay", || async {
        Ok(plot.stored().await?.iter().any(|name| name.contains(&velero)).then_some(()))
    })
    .await;
    Ok(())
}
