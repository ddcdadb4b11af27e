//! An administrator may forbid hooks: commands that Velero runs in tenants' pods.

use anyhow::Result;
use croft_api::{
    backup::{BackupSchedule, NonAdminBackup},
    velero::Backup,
};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{
    fences::printed,
    plot::{Plot, message, told},
    support::apply,
};

#[tokio::test]
async fn where_hooks_are_forbidden_no_backup_runs_a_command_and_none_is_made_before_that_is_certain() -> Result<()> {
    let settings = "backup: { ownBuckets: Allow, hooks: false }";
    let plot = Box::pin(Plot::alone("unhooked", settings)).await?;
    plot.add_location(json!({})).await?;
    plot.location_is_available().await;
    let hooked = json!({ "storageLocation": "here", "hooks": { "resources": [
        { "name": "x", "pre": [{ "exec": { "command": ["sync"] } }] },
    ] } });
    let refused = plot.refusal::<NonAdminBackup>("hooked", json!({ "backupSpec": hooked })).await?;
    assert!(refused.contains("spec.backupSpec.hooks is restricted"), "{refused}");
    let often = json!({ "schedule": "@daily", "template": { "backupSpec": hooked } });
    let refused = plot.refusal::<BackupSchedule>("often", often).await?;
    assert!(refused.contains("hooks is restricted"), "{refused}");

    // Annotations of pods are hooks as well: only the policy keeps them off.
    plot.add_config_map("prices").await?;
    plot.add_backup("nightly").await?;
    let waits = |status: &Value| told(status).contains(&"Accepted=False PoliciesMissing".to_owned());
    let status = plot.status::<NonAdminBackup>("nightly", "to wait for the policy", waits).await;
    assert!(message(&status, "Accepted").contains("croft-velero-hooks"), "{status}");
    assert!(plot.veleros::<Backup>().list(&ListParams::default()).await?.items.is_empty());
    apply(plot.world.bed.admin(), &printed("croft-velero-hooks", &["--without-hooks"]).await?).await?;
    plot.backup_completes("nightly").await?;
    Ok(())
}
