//! The story itself, one function per chapter.

use std::time::Duration;

use anyhow::{Result, ensure};
use croft_api::{
    backup::{BackupSchedule, BackupVault, NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore},
    namespaces::NamespaceClassBinding,
    storage::{S3TeamQuota, S3UserClaim, TEAM_LABEL},
};
use croft_testbed::{Identity, wait};
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::ResourceQuota, networking::v1::NetworkPolicy};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{compare::Snapshot, tenant};
use crate::{
    story::{Actor, Story, Watched, show_command, show_output},
    world::{World, write_file},
};

pub(super) const NAMESPACE: &str = "blue";
pub(super) const TENANT: &str = "maria";
const SHOP: &str = "app=shop";
/// Of the vault: no namespace can have it.
const VAULT_TENANT: &str = "croft_blue_VAULT";
const CEPH_USER: &str = "croft_blue$storage";
const LABEL: &str = "namespaceclass.akuity.io/name";
pub(super) const SOON: Duration = Duration::from_secs(30);
/// Everything the class gives, as kubectl names it.
const FURNITURE: &str = "networkpolicy,resourcequota,s3userclaim,backupvault,nonadminbackupstoragelocation";

pub(super) struct Demo<'a> {
    pub(super) world: &'a World,
    pub(super) admin: Actor<'a>,
}

impl<'a> Demo<'a> {
    pub(super) fn new(world: &'a World) -> Self {
        Self { world, admin: Actor { name: "admin", identity: world.bed.admin() } }
    }

    pub(super) async fn tell(&self, story: &mut Story) -> Result<()> {
        self.define_the_class(story).await?;
        self.label_a_namespace(story).await?;
        self.look_at_the_storage(story).await?;
        self.look_at_the_vault(story).await?;
        let tenant = self.world.bed.tenant(TENANT, NAMESPACE, tenant::rules()).await?;
        let maria = Actor { name: TENANT, identity: &tenant };
        self.ask_for_too_much(story, &maria).await?;
        let before = self.deploy(story, &maria).await?;
        self.back_up(story, &maria).await?;
        self.fetch_the_files(story, &maria).await?;
        self.look_from_next_door(story).await?;
        self.schedule(story, &maria).await?;
        self.lose_everything(story, &maria).await?;
        self.restore(story, &maria).await?;
        self.compare(story, &tenant, &before).await?;
        self.delete_the_backup(story, &maria).await?;
        self.bring_her_own_bucket(story, &maria).await?;
        self.unlabel(story).await
    }

    async fn define_the_class(&self, story: &mut Story) -> Result<()> {
        story.begin("An administrator defines the class `team`: a fence, limits, storage, and a vault for backups.");
        let file = World::write_class()?;
        show_command(self.admin.name, &format!("kubectl apply -f {}", file.display()));
        show_output(&self.world.apply_class(&file).await?);
        self.admin
            .kubectl("get namespaceclass team -o jsonpath='{range .spec.resources[*]}{.kind}/{.metadata.name} {end}'")
            .await
    }

    async fn label_a_namespace(&self, story: &mut Story) -> Result<()> {
        story.begin("A label makes a namespace one of that class: Croft binds it and puts everything in.");
        self.admin.kubectl(&format!("create namespace {NAMESPACE}")).await?;
        self.admin.kubectl(&format!("label namespace {NAMESPACE} {LABEL}=team")).await?;
        self.watched(NAMESPACE).is_ready::<NamespaceClassBinding>().await?;
        self.admin.kubectl(&format!("get namespaceclassbinding -n {NAMESPACE}")).await?;
        self.admin.kubectl(&format!("get {FURNITURE} -n {NAMESPACE} -o name")).await
    }

    async fn look_at_the_storage(&self, story: &mut Story) -> Result<()> {
        story.begin("The claim became a user in Ceph with that quota, and its keys two Secrets.");
        self.watched("storage").is_ready::<S3UserClaim>().await?;
        self.admin.kubectl(&format!("get s3userclaim storage -n {NAMESPACE}")).await?;
        self.admin.kubectl(&format!("get secret storage-admin storage-read -n {NAMESPACE}")).await?;
        self.show_ceph_user().await
    }

    async fn show_ceph_user(&self) -> Result<()> {
        show_command(
            "ceph",
            &format!("radosgw-admin user info --uid='{CEPH_USER}' | jq -cS '{{user_id, user_quota}}'"),
        );
        let info = self.world.bed.ceph().admin(&["user", "info", &format!("--uid={CEPH_USER}")]).await?;
        let info: Value = serde_json::from_str(&info)?;
        show_output(&json!({ "user_id": info["user_id"], "user_quota": info["user_quota"] }).to_string());
        Ok(())
    }

    async fn look_at_the_vault(&self, story: &mut Story) -> Result<()> {
        story.begin("The vault became a bucket whose keys only Velero has, and a location backups can name.");
        self.watched("backups").is_ready::<BackupVault>().await?;
        self.admin.kubectl(&format!("get backupvault -n {NAMESPACE}")).await?;
        self.admin.kubectl(&format!("get nonadminbackupstoragelocation -n {NAMESPACE}")).await
    }

    async fn ask_for_too_much(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin(
            "Her team may have 15Gi, and 12Gi are taken: Maria, a tenant of this namespace only, asks for 6Gi more.",
        );
        let file = write_file("quota.yaml", include_str!("quota.yaml"))?;
        self.admin.kubectl(&format!("apply -f {}", file.display())).await?;
        self.admin.kubectl(&format!("label namespace {NAMESPACE} {TEAM_LABEL}=blues")).await?;
        let quotas: Api<S3TeamQuota> = Api::all(self.admin.identity.client.clone());
        wait::until_true("the team's books to be kept", SOON, || async {
            let status = quotas.get("blues").await?.status.unwrap_or_default();
            Ok(status.namespaces.iter().any(|namespace| namespace.name == NAMESPACE))
        })
        .await?;
        self.admin.kubectl("get s3teamquota blues").await?;
        let file = write_file("more.yaml", include_str!("more.yaml"))?;
        wait::until_true("Maria's rights to count", SOON, || async {
            maria.identity.can("create", "s3.snappcloud.io/s3userclaims", Some(NAMESPACE)).await
        })
        .await?;
        maria.is_refused(&format!("apply -n {NAMESPACE} -f {}", file.display()), "exceeded cluster quota").await
    }

    async fn deploy(&self, story: &mut Story, maria: &Actor<'_>) -> Result<Snapshot> {
        story.begin("She deploys her shop. What is not in her namespace is not for her to see.");
        let file = write_file("shop.yaml", include_str!("shop.yaml"))?;
        maria.is_refused("get secrets -n velero", "Forbidden").await?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        self.replica_sets_are(1).await?;
        Snapshot::take(&maria.identity.client, NAMESPACE, SHOP).await
    }

    async fn back_up(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin("She backs up her namespace; Velero does the work, the vault keeps the result.");
        let file = write_file("backup.yaml", include_str!("backup.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        self.watched("before-upgrade").has::<NonAdminBackup>("/status/veleroBackup/status/phase", "Completed").await?;
        maria.kubectl(&format!("get nonadminbackup -n {NAMESPACE}")).await?;
        let stored = self.show_bucket().await?;
        ensure!(stored > 0, "the backup is complete and the bucket is empty");
        Ok(())
    }

    async fn schedule(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin("From now on that happens every night, and the last seven are kept.");
        let file = write_file("schedule.yaml", include_str!("schedule.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        self.watched("nightly").is_ready::<BackupSchedule>().await?;
        maria.kubectl(&format!("get backupschedule -n {NAMESPACE}")).await
    }

    async fn lose_everything(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin("Disaster: the shop is deleted, with its settings and its secrets.");
        maria.kubectl(&format!("delete deployment,configmap,secret -n {NAMESPACE} -l {SHOP}")).await?;
        self.replica_sets_are(0).await?;
        let left = Snapshot::take(&maria.identity.client, NAMESPACE, SHOP).await?;
        ensure!(left.is_empty(), "something of the shop is still there: {left:?}");
        Ok(())
    }

    async fn restore(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin("She restores it from her backup.");
        let file = write_file("restore.yaml", include_str!("restore.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        self.watched("undo").has::<NonAdminRestore>("/status/veleroRestore/status/phase", "Completed").await?;
        maria.kubectl(&format!("get nonadminrestore -n {NAMESPACE}")).await?;
        maria.kubectl(&format!("get deployment,configmap,secret -n {NAMESPACE} -l {SHOP} -o name")).await
    }

    async fn compare(&self, story: &mut Story, tenant: &Identity, before: &Snapshot) -> Result<()> {
        story.begin("Every field of labels, spec and data is compared with what was there before.");
        let after = Snapshot::take(&tenant.client, NAMESPACE, SHOP).await?;
        show_output(&before.compare(&after)?);
        Ok(())
    }

    async fn delete_the_backup(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin("She deletes the backup: what Velero stored in the vault goes with it.");
        maria
            .kubectl(&format!(
                r#"patch nonadminbackup before-upgrade -n {NAMESPACE} --type=merge -p '{{"spec":{{"deleteBackup":true}}}}'"#
            ))
            .await?;
        self.watched("before-upgrade").is_gone::<NonAdminBackup>().await?;
        let stored = self.show_bucket().await?;
        ensure!(stored == 0, "the backup is gone and its data is not: {stored} objects are left in the bucket");
        Ok(())
    }

    async fn unlabel(&self, story: &mut Story) -> Result<()> {
        story.begin("The label is removed: the class's things leave, Maria's own things stay.");
        self.admin.kubectl(&format!("label namespace {NAMESPACE} {LABEL}-")).await?;
        self.watched(NAMESPACE).is_gone::<NamespaceClassBinding>().await?;
        self.watched("same-namespace-only").is_gone::<NetworkPolicy>().await?;
        self.watched("backups").is_gone::<NonAdminBackupStorageLocation>().await?;
        self.watched("backups").is_gone::<BackupVault>().await?;
        self.watched("storage").is_gone::<S3UserClaim>().await?;
        self.watched("team").is_gone::<ResourceQuota>().await?;
        self.admin.kubectl(&format!("get {FURNITURE},deployment,configmap -n {NAMESPACE} -o name")).await?;
        show_command("ceph", "radosgw-admin user list | jq -c .");
        let users = self.world.bed.ceph().admin(&["user", "list"]).await?;
        show_output(&serde_json::from_str::<Value>(&users)?.to_string());
        ensure!(!users.contains(CEPH_USER), "the claim is gone and its user in Ceph is not");
        ensure!(!users.contains(VAULT_TENANT), "the vault is gone, was empty, and its user in Ceph is not");
        Ok(())
    }

    /// Shows how many objects the vault holds, as Ceph sees it.
    async fn show_bucket(&self) -> Result<usize> {
        let bucket = format!("--bucket={VAULT_TENANT}/vault-backups");
        show_command("ceph", &format!("radosgw-admin bucket list {bucket} | jq length"));
        let listing = self.world.bed.ceph().admin(&["bucket", "list", &bucket]).await?;
        let objects: Vec<Value> = serde_json::from_str(&listing)?;
        show_output(&objects.len().to_string());
        Ok(objects.len())
    }

    async fn replica_sets_are(&self, wanted: usize) -> Result<()> {
        let api = Api::<ReplicaSet>::namespaced(self.admin.identity.client.clone(), NAMESPACE);
        wait::until_true(&format!("the shop to have {wanted} replica sets"), SOON, || async {
            Ok(api.list(&ListParams::default().labels(SHOP)).await?.items.len() == wanted)
        })
        .await
    }

    pub(super) fn watched<'b>(&'b self, name: &'b str) -> Watched<'b> {
        Watched { client: &self.admin.identity.client, namespace: NAMESPACE, name }
    }
}
