//! What Velero finds in a location: given back to the namespace it was made in, and to nobody else.

use anyhow::Result;
use croft_api::{
    backup::{
        BackupSchedule, BackupVault, NAB_SYNCED_FROM_NACUUID_LABEL, NonAdminBackup, NonAdminBackupStorageLocation,
        NonAdminRestore, SCHEDULE_UID_LABEL, SCHEDULED_AT_ANNOTATION, let_go_annotation,
    },
    velero::Backup,
};
use croft_testbed::wait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, api::PostParams};
use serde_json::{Value, json};

use crate::plot::{Plot, VELERO_PATIENCE, told, velero_name};

impl Plot {
    /// A request that says it was made for what Velero has.
    async fn claim_found(&self, name: &str, nacuuid: &str) -> Result<()> {
        let backup = json!({
            "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
            "metadata": { "name": name, "labels": { NAB_SYNCED_FROM_NACUUID_LABEL: nacuuid } },
            "spec": { "backupSpec": { "includedNamespaces": ["kube-system"] } },
        });
        self.api::<NonAdminBackup>().create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
        Ok(())
    }

    pub(crate) async fn comes_back(&self, name: &str) -> Result<NonAdminBackup> {
        wait::until("the backup to come back", VELERO_PATIENCE, || async {
            Ok(self.api::<NonAdminBackup>().get_opt(name).await?)
        })
        .await?;
        self.backup_completes(name).await
    }
}

#[tokio::test]
async fn the_backups_of_a_vault_that_is_made_again_come_back_and_can_be_restored() -> Result<()> {
    let plot = Plot::with_vault("found").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let before = plot.backup_completes("nightly").await?;
    plot.delete::<BackupVault>("safe").await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    plot.vanishes(&plot.api::<BackupVault>(), "safe").await?;
    plot.vanishes(&plot.veleros::<Backup>(), &velero_name(&before)).await?;

    plot.add_vault(json!({})).await?;
    let after = plot.comes_back("nightly").await?;
    assert_eq!((velero_name(&after), after.uid() == before.uid()), (velero_name(&before), false));
    assert_eq!(after.labels().get(NAB_SYNCED_FROM_NACUUID_LABEL), Some(&velero_name(&before)));
    let status = json!(after.status);
    assert_eq!(told(&status), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]);
    assert_eq!(json!(after.spec)["backupSpec"]["storageLocation"], "safe");
    plot.delete::<ConfigMap>("prices").await?;
    plot.create::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("undo", "Completed").await;
    plot.api::<ConfigMap>().get("prices").await?;
    Ok(())
}

#[tokio::test]
async fn a_backup_that_comes_back_is_still_its_schedules() -> Result<()> {
    let plot = Plot::with_vault("kept").await?;
    plot.add_config_map("prices").await?;
    let yearly = json!({ "schedule": "@yearly", "template": { "backupSpec": {} }, "keep": { "last": 1 } });
    let schedule = plot.create::<BackupSchedule>("yearly", yearly).await?;
    let (by, at) = (schedule.uid().unwrap_or_default(), "2026-01-01T00:00:00Z");
    // As the schedule would have made it then.
    let made = json!({
        "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup",
        "metadata": { "name": "yearly-202601010000", "labels": { SCHEDULE_UID_LABEL: by },
                      "annotations": { SCHEDULED_AT_ANNOTATION: at } },
        "spec": { "backupSpec": { "includedResources": ["configmaps"] } },
    });
    plot.api::<NonAdminBackup>().create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    plot.backup_completes("yearly-202601010000").await?;
    plot.delete::<BackupVault>("safe").await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "yearly-202601010000").await?;
    plot.vanishes(&plot.api::<BackupVault>(), "safe").await?;

    plot.add_vault(json!({})).await?;
    let back = plot.comes_back("yearly-202601010000").await?;
    assert_eq!(back.labels().get(SCHEDULE_UID_LABEL), Some(&by));
    assert_eq!(back.annotations().get(SCHEDULED_AT_ANNOTATION).map(String::as_str), Some(at));
    Ok(())
}

#[tokio::test]
async fn a_backup_that_was_deleted_by_force_comes_back_only_to_who_asks_for_it() -> Result<()> {
    let plot = Plot::with_vault("forced").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let velero = velero_name(&plot.backup_completes("nightly").await?);
    plot.patch::<NonAdminBackup>("nightly", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "nightly").await?;
    let location = plot.api::<NonAdminBackupStorageLocation>().get("safe").await?;
    assert!(location.annotations().contains_key(&let_go_annotation(&velero)));
    wait::until("Velero to find it in the bucket", VELERO_PATIENCE, || async {
        Ok(plot.veleros::<Backup>().get_opt(&velero).await?)
    })
    .await?;
    // Whoever comes later has been looked at by now.
    plot.back_up_somewhere("later").await?;
    plot.backup_completes("later").await?;
    assert!(plot.api::<NonAdminBackup>().get_opt("nightly").await?.is_none());
    plot.claim_found("nightly", &velero).await?;
    plot.backup_completes("nightly").await?;
    Ok(())
}

#[tokio::test]
async fn a_forged_claim_to_what_velero_has_is_refused() -> Result<()> {
    let (hers, his) = (Plot::with_vault("robbed").await?, Plot::with_vault("robber").await?);
    hers.add_config_map("prices").await?;
    hers.back_up_somewhere("nightly").await?;
    let velero = velero_name(&hers.backup_completes("nightly").await?);
    his.claim_found("nothing", "malicious-injection").await?;
    let refused = |status: &Value| told(status) == ["Accepted=False VeleroBackupNotFound"];
    let status = his.status::<NonAdminBackup>("nothing", "to be refused", refused).await;
    assert_eq!((&status["phase"], &status["veleroBackup"]["status"]), (&json!("BackingOff"), &Value::Null));
    his.claim_found("nightly", &velero).await?;
    let status = his.status::<NonAdminBackup>("nightly", "to be refused", refused).await;
    assert_eq!(status["veleroBackup"], Value::Null, "he learns nothing of what is there");
    his.delete::<NonAdminBackup>("nothing").await?;
    his.vanishes(&his.api::<NonAdminBackup>(), "nothing").await?;
    his.delete::<NonAdminBackup>("nightly").await?;
    his.vanishes(&his.api::<NonAdminBackup>(), "nightly").await?;
    assert!(hers.veleros::<Backup>().get(&velero).await?.metadata.deletion_timestamp.is_none());
    Ok(())
}

#[tokio::test]
async fn a_name_beside_velero_is_never_the_tenants_to_choose() -> Result<()> {
    let plot = Plot::with_vault("chosen").await?;
    plot.add_config_map("prices").await?;
    let chosen = format!("{}-chosen", plot.namespace);
    plot.claim_found("nightly", &chosen).await?;
    let refused = |status: &Value| told(status) == ["Accepted=False VeleroBackupNotFound"];
    plot.status::<NonAdminBackup>("nightly", "to be refused", refused).await;
    // Without the label it is a request like any other.
    let changed = json!({ "metadata": { "labels": { NAB_SYNCED_FROM_NACUUID_LABEL: null } },
                          "spec": { "backupSpec": { "includedNamespaces": null, "includedResources": ["configmaps"] } } });
    plot.patch::<NonAdminBackup>("nightly", changed).await?;
    let backup = plot.backup_completes("nightly").await?;
    assert!(velero_name(&backup).ends_with(&backup.uid().unwrap_or_default()), "{}", velero_name(&backup));
    assert!(plot.veleros::<Backup>().get_opt(&chosen).await?.is_none());
    Ok(())
}
