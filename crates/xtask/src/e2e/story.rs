//! The story of one tenant whose pods really run, one function per chapter.

use anyhow::{Result, ensure};
use croft_api::{
    backup::{BackupVault, NonAdminBackup, NonAdminRestore},
    namespaces::NamespaceClassBinding,
    storage::S3UserClaim,
};
use croft_testbed::{Identity, node, wait};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Api, api::ListParams};

use super::{
    Chapter,
    cluster::{Cluster, SOON},
};
use crate::{
    demo::tenant,
    story::{Actor, Story, Watched, show_output},
    world::{World, write_file},
};

const NAMESPACE: &str = "blue";
const NEIGHBOUR: &str = "green";
const SHOP: &str = "app=shop";
const FILES: &str = "/orders/book /basket/notes";

impl Cluster {
    pub(super) async fn tell(&self, chapter: Chapter, story: &mut Story) -> Result<()> {
        self.install_velero(story).await?;
        self.install_croft(story).await?;
        match chapter {
            Chapter::NeverDown => self.never_down(story).boxed().await,
            _ => self.tell_of_a_tenant(story).boxed().await,
        }
    }

    async fn tell_of_a_tenant(&self, story: &mut Story) -> Result<()> {
        self.furnish(story).await?;
        let (maria, paul) = tokio::try_join!(self.tenant("maria", NAMESPACE), self.tenant("paul", NEIGHBOUR))?;
        let maria = Actor { name: "maria", identity: &maria };
        let paul = Actor { name: "paul", identity: &paul };
        let before = self.deploy(story, &maria).await?;
        self.back_up(story, &maria).await?;
        self.look_from_next_door(story, &paul).await?;
        self.lose_everything(story, &maria).await?;
        self.restore(story, &maria).await?;
        self.compare(story, &maria, &before).await
    }

    async fn install_velero(&self, story: &mut Story) -> Result<()> {
        story.begin("Velero is installed as its own installer does it, with the AWS plugin and its node agent.");
        let (admin, velero) = (self.admin(), node::velero::NAMESPACE);
        admin.kubectl(&format!("create namespace {velero}")).await?;
        // Before Velero comes, which else makes one that everybody knows.
        admin
            .kubectl(&format!(
                "create secret generic velero-repo-credentials -n {velero} --from-literal=repository-password=of-our-own"
            ))
            .await?;
        self.node.install_velero(&self.bed).await?;
        admin.kubectl(&format!("get pods -n {velero}")).await
    }

    async fn furnish(&self, story: &mut Story) -> Result<()> {
        story.begin("An administrator puts up two disks, defines the class `team`, and labels a namespace.");
        let admin = self.admin();
        let shelves = self.bed.dir().join("shelves");
        for shelf in ["1", "2"] {
            std::fs::create_dir_all(shelves.join(shelf))?;
        }
        let disks = include_str!("shelves.yaml").replace("SHELVES", &shelves.display().to_string());
        admin.kubectl(&format!("apply -f {}", write_file("shelves.yaml", &disks)?.display())).await?;
        admin.kubectl(&format!("apply -f {}", World::write_class()?.display())).await?;
        admin.kubectl(&format!("create namespace {NAMESPACE}")).await?;
        admin.kubectl(&format!("label namespace {NAMESPACE} namespaceclass.akuity.io/name=team")).await?;
        self.watched(NAMESPACE).is_ready::<NamespaceClassBinding>().await?;
        self.watched("storage").is_ready::<S3UserClaim>().await?;
        self.watched("backups").is_ready::<BackupVault>().await?;
        admin.kubectl(&format!("get s3userclaim,backupvault -n {NAMESPACE}")).await
    }

    /// Somebody who may work in one namespace, look into pods there, and ask for disks.
    async fn tenant(&self, name: &str, namespace: &str) -> Result<Identity> {
        let mut rules = tenant::rules();
        rules.push(tenant::rule("", &["persistentvolumeclaims", "pods/exec"], &["*"]));
        let tenant = self.bed.tenant(name, namespace, rules).await?;
        wait::until_true("a tenant's rights to count", SOON, || async {
            tenant.can("create", "persistentvolumeclaims", Some(namespace)).await
        })
        .await?;
        Ok(tenant)
    }

    /// What is in the files, as the pod itself sees it.
    async fn deploy(&self, story: &mut Story, maria: &Actor<'_>) -> Result<String> {
        story.begin(
            "Maria's shop runs: it writes random bytes into a volume that outlives its pod, and one that does not.",
        );
        let file = write_file("shop.yaml", include_str!("shop.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        self.deployment_is_ready(NAMESPACE, "shop").await?;
        maria.kubectl(&format!("get pods,pvc -n {NAMESPACE}")).await?;
        maria.told(&format!("exec -n {NAMESPACE} deployment/shop -- sha256sum {FILES}")).await
    }

    async fn back_up(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin("She backs up her namespace with what is in the volumes.");
        let file = write_file("backup.yaml", include_str!("backup.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        let backup = self.watched("before-upgrade");
        backup.has::<NonAdminBackup>("/status/veleroBackup/status/phase", "Completed").await?;
        maria.kubectl(&format!("get nonadminbackup -n {NAMESPACE}")).await?;
        backup
            .until::<NonAdminBackup>("counted", |backup| copied(&backup["status"]["fileSystemPodVolumeBackups"]))
            .await?;
        maria
            .kubectl(&format!(
                "get nonadminbackup before-upgrade -n {NAMESPACE} -o jsonpath='{{.status.fileSystemPodVolumeBackups}}'"
            ))
            .await
    }

    async fn look_from_next_door(&self, story: &mut Story, paul: &Actor<'_>) -> Result<()> {
        story.begin("Paul, a tenant of the namespace next door, gets nothing of it.");
        let exec = format!("exec -n {NAMESPACE} deployment/shop -- sha256sum {FILES}");
        paul.is_refused(&exec, "Forbidden").await?;
        paul.is_refused(&format!("get nonadminbackups -n {NAMESPACE}"), "Forbidden").await?;
        paul.is_refused("get podvolumebackups.velero.io,secrets -n velero", "Forbidden").await?;
        let file = write_file("restore.yaml", include_str!("../demo/restore.yaml"))?;
        paul.kubectl(&format!("apply -n {NEIGHBOUR} -f {}", file.display())).await?;
        let asked = Watched { client: &self.bed.admin().client, namespace: NEIGHBOUR, name: "undo" };
        asked.has::<NonAdminRestore>("/status/phase", "BackingOff").await?;
        let told = "get nonadminrestore undo -n green -o jsonpath='{.status.conditions[*].message}'";
        paul.kubectl(told).await
    }

    async fn lose_everything(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin("Disaster: the shop is deleted with its claim, and its disk is wiped.");
        maria.kubectl(&format!("delete deployment,pvc -n {NAMESPACE} -l {SHOP}")).await?;
        let client = &self.bed.admin().client;
        let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
        let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), NAMESPACE);
        wait::until_true("pod and claim to be gone", SOON, || async {
            let left = pods.list(&ListParams::default()).await?.items.len();
            Ok(left + claims.list(&ListParams::default()).await?.items.len() == 0)
        })
        .await?;
        std::fs::remove_file(self.bed.dir().join("shelves/1/book"))?;
        self.admin().kubectl("get pv").await
    }

    async fn restore(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story
            .begin("She restores it from her backup: the claim finds another disk, and the pod waits for its volumes.");
        let file = write_file("restore.yaml", include_str!("../demo/restore.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        let restore = self.watched("undo");
        restore.has::<NonAdminRestore>("/status/veleroRestore/status/phase", "Completed").await?;
        restore.until::<NonAdminRestore>("counted", |it| copied(&it["status"]["fileSystemPodVolumeRestores"])).await?;
        self.deployment_is_ready(NAMESPACE, "shop").await?;
        maria.kubectl(&format!("get nonadminrestore,pods,pvc -n {NAMESPACE}")).await
    }

    async fn compare(&self, story: &mut Story, maria: &Actor<'_>, before: &str) -> Result<()> {
        story.begin("The pod runs again, and its files are the same to the byte.");
        let after = maria.told(&format!("exec -n {NAMESPACE} deployment/shop -- sha256sum {FILES}")).await?;
        ensure!(before == after, "the files were different before:\n{before}");
        show_output("identical");
        Ok(())
    }

    fn watched<'b>(&'b self, name: &'b str) -> Watched<'b> {
        Watched { client: &self.bed.admin().client, namespace: NAMESPACE, name }
    }
}

/// The two volumes of the shop.
fn copied(counted: &serde_json::Value) -> bool {
    counted["total"] == 2 && counted["completed"] == 2
}
