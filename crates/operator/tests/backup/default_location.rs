//! Velero's default location, where the administrator lets tenants use it: their backups lie in it, and nothing of it is handed out.

use anyhow::{Context, Result, ensure};
use croft_api::{
    backup::{NonAdminBackup, NonAdminDownloadRequest, NonAdminRestore},
    velero::Backup,
};
use croft_testbed::{Testbed, Velero, wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    plot::{Plot, VELERO_PATIENCE, message, told, velero_name},
    support::{Held, Shared, apply},
};

/// The administrator's own location, Velero's default, and the bucket it is in.
pub(crate) const DEFAULT: &str = "default";
const BUCKET: &str = "everybodys";

static OPEN: OnceCell<(Shared, Velero)> = OnceCell::const_new();

/// A world where tenants' backups may go into Velero's default location, and a plain deletion lets them go. Its Velero was started
/// after Croft was installed: it looks for new kinds at its start, and then every five minutes.
pub(crate) async fn open() -> &'static Shared {
    const SETTINGS: &str = "backup: { ownBuckets: Allow, defaultLocation: Allow, onDelete: Release }";
    let start = Box::pin(async {
        let world = Shared::of_its_own(Testbed::kubernetes().with_velero(), SETTINGS).await?;
        world.bed.velero().process().kill();
        let velero = world.bed.another_velero().await?;
        let ceph = world.bed.ceph();
        ceph.create_bucket(BUCKET).await?;
        let cloud =
            format!("[default]\naws_access_key_id={}\naws_secret_access_key={}\n", ceph.access_key, ceph.secret_key);
        let keys = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "everybodys", "namespace": "velero" },
                           "stringData": { "cloud": cloud } });
        let location = json!({
            "apiVersion": "velero.io/v1", "kind": "BackupStorageLocation",
            "metadata": { "name": DEFAULT, "namespace": "velero" },
            "spec": { "provider": "aws", "default": true, "objectStorage": { "bucket": BUCKET },
                      "credential": { "name": "everybodys", "key": "cloud" },
                      "config": { "region": ceph.region, "s3ForcePathStyle": "true", "s3Url": ceph.endpoint } },
        });
        for object in [keys, location] {
            apply(world.bed.admin(), &object.to_string()).await?;
        }
        anyhow::Ok((world, velero))
    });
    &OPEN.get_or_try_init(|| start).await.expect("the world starts").0
}

impl Plot {
    /// Nothing at all, in that world.
    pub(crate) async fn in_the_open(prefix: &str) -> Result<Self> {
        Self::within(Held::ByAll(open().await), prefix).await
    }
}

#[tokio::test]
async fn a_backup_goes_to_veleros_default_location_where_that_is_allowed_and_no_file_of_it_is_handed_out() -> Result<()>
{
    let plot = Plot::in_the_open("unplaced").await?;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let name = velero_name(&plot.backup_completes("nightly").await?);
    let velero = plot.veleros::<Backup>().get(&name).await?;
    assert_eq!(velero.spec.storage_location(), Some(DEFAULT));
    let stored = plot.world.bed.ceph().admin(&["bucket", "list", "--bucket", BUCKET]).await?;
    ensure!(stored.contains(&format!("backups/{name}/velero-backup.json")), "{stored}");

    plot.ask_for("log", "BackupLog", "nightly").await?;
    let refused = |status: &Value| {
        message(status, "NonAdminBackupStorageLocationNotUsed")
            == "backup does not use nonadminbackupstoragelocation, recreate nadr to process"
    };
    let status = plot.status::<NonAdminDownloadRequest>("log", "to be refused", refused).await;
    assert_eq!((&status["phase"], &status["velero"]), (&json!("BackingOff"), &Value::Null));

    plot.delete::<ConfigMap>("prices").await?;
    plot.create::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "nightly" } })).await?;
    plot.restore_phase("undo", "Completed").await;
    plot.api::<ConfigMap>().get("prices").await?;
    Ok(())
}

#[tokio::test]
async fn what_velero_finds_again_in_its_default_location_is_given_back_to_nobody() -> Result<()> {
    let plot = Plot::in_the_open("unclaimed").await?;
    plot.add_config_map("prices").await?;
    for backup in ["lost", "forced"] {
        plot.back_up_somewhere(backup).await?;
    }
    let (lost, forced) = (plot.backup_completes("lost").await?, plot.backup_completes("forced").await?);
    let before = plot.veleros::<Backup>().get(&velero_name(&lost)).await?;
    plot.patch::<NonAdminBackup>("forced", json!({ "spec": { "forceDeleteBackup": true } })).await?;
    plot.vanishes(&plot.api::<NonAdminBackup>(), "forced").await?;
    plot.veleros::<Backup>().delete(&before.name_any(), &DeleteParams::default()).await?;
    for backup in [&lost, &forced] {
        wait::until("Velero to find it in the bucket", VELERO_PATIENCE, || async {
            let found = plot.veleros::<Backup>().get_opt(&velero_name(backup)).await?;
            Ok(found.filter(|found| found.uid() != before.uid()))
        })
        .await?;
    }
    let gone = |status: &Value| told(status).contains(&"Accepted=False VeleroBackupNotFound".to_owned());
    plot.status::<NonAdminBackup>("lost", "to say that it is lost", gone).await;
    plot.create::<NonAdminRestore>("undo", json!({ "restoreSpec": { "backupName": "lost" } })).await?;
    let refused = plot.status::<NonAdminRestore>("undo", "to be refused", |s| s["phase"] == "BackingOff").await;
    ensure!(message(&refused, "Accepted").ends_with("stored is gone"), "{refused}");
    // Whoever comes later has been looked at by now.
    plot.back_up_somewhere("later").await?;
    plot.backup_completes("later").await?;
    ensure!(plot.api::<NonAdminBackup>().get_opt("forced").await?.is_none(), "it was given back");
    let status = json!(plot.api::<NonAdminBackup>().get("lost").await?.status);
    ensure!(gone(&status) && status["veleroBackup"].get("status").is_none(), "{status}");
    Ok(())
}

#[tokio::test]
async fn a_plain_deletion_that_lets_go_leaves_the_data_and_a_vault_brings_the_backup_back() -> Result<()> {
    let plot = Plot::in_the_open("released").await?;
    plot.add_vault(json!({})).await?;
    plot.vault_says("True", "Provisioned").await;
    plot.add_config_map("prices").await?;
    plot.back_up_somewhere("nightly").await?;
    let before = plot.backup_completes("nightly").await?;
    let stored = plot.in_vault().await?;
    plot.delete::<NonAdminBackup>("nightly").await?;
    let back = wait::until("the backup to go, and to come back", VELERO_PATIENCE, || async {
        let found = plot.api::<NonAdminBackup>().get_opt("nightly").await?;
        Ok(found.filter(|found| found.uid() != before.uid()))
    })
    .await?;
    plot.backup_completes("nightly").await?;
    let left = plot.in_vault().await?;
    ensure!(stored.iter().all(|file| left.contains(file)), "{left:?}");
    let from = back.labels().get("openshift.io/oadp-nab-synced-from-nacuuid").context("it says nothing of it")?;
    assert_eq!(*from, velero_name(&before));
    Ok(())
}
