//! Who gets what of a backup: the files for its owner, nothing for anybody else, and a bucket of her own by approval.

use anyhow::{Context, Result, ensure};
use croft_api::backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminDownloadRequest};
use croft_testbed::wait;
use kube::Api;
use tokio::process::Command;

use super::{
    steps::{Demo, NAMESPACE, SOON, TENANT},
    tenant,
};
use crate::{
    story::{Actor, Story, Watched, show_command, show_output},
    world::write_file,
};

const NEIGHBOUR: &str = "green";

impl Demo<'_> {
    pub(super) async fn fetch_the_files(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin(
            "She fetches its log and its contents: signed URLs for ten minutes, for files of her own backups only.",
        );
        let file = write_file("download.yaml", include_str!("download.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        for (name, look) in [("log", "gunzip | wc -l"), ("contents", "tar -tz | grep configmaps/namespaces")] {
            self.watched(name).has::<NonAdminDownloadRequest>("/status/phase", "Created").await?;
            let requests: Api<NonAdminDownloadRequest> = Api::namespaced(maria.identity.client.clone(), NAMESPACE);
            let status = requests.get(name).await?.status.and_then(|status| status.velero?.status);
            let url = status.as_ref().and_then(|status| status.text("downloadURL")).context("no URL")?.to_owned();
            show_command(TENANT, &format!("curl -s \"$URL\" | {look}"));
            let line = format!("set -o pipefail; curl -sf \"$URL\" | {look}");
            let output = Command::new("bash").args(["-c", &line]).env("URL", url).output().await?;
            ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            show_output(&String::from_utf8_lossy(&output.stdout));
        }
        Ok(())
    }

    pub(super) async fn look_from_next_door(&self, story: &mut Story) -> Result<()> {
        story.begin("Paul, a tenant of the namespace next door, sees nothing of it and gets nothing of it.");
        self.admin.kubectl(&format!("create namespace {NEIGHBOUR}")).await?;
        let tenant = self.world.bed.tenant("paul", NEIGHBOUR, tenant::rules()).await?;
        let paul = Actor { name: "paul", identity: &tenant };
        wait::until_true("Paul's rights to count", SOON, || async {
            tenant.can("create", "oadp.openshift.io/nonadmindownloadrequests", Some(NEIGHBOUR)).await
        })
        .await?;
        paul.is_refused(&format!("get nonadminbackups -n {NAMESPACE}"), "Forbidden").await?;
        let file = write_file("download.yaml", include_str!("download.yaml"))?;
        paul.kubectl(&format!("apply -n {NEIGHBOUR} -f {}", file.display())).await?;
        let asked = Watched { client: &self.admin.identity.client, namespace: NEIGHBOUR, name: "contents" };
        asked.has::<NonAdminDownloadRequest>("/status/conditions/0/type", "NonAdminBackupNotAvailable").await?;
        paul.kubectl(&format!("get nonadmindownloadrequest -n {NEIGHBOUR}")).await
    }

    pub(super) async fn bring_her_own_bucket(&self, story: &mut Story, maria: &Actor<'_>) -> Result<()> {
        story.begin(
            "She has a bucket of her own, too: Velero is told of it once an administrator trusts her with that.",
        );
        let ceph = self.world.bed.ceph();
        ceph.create_bucket("marias-own").await?;
        let location = include_str!("elsewhere.yaml")
            .replace("ACCESS_KEY", &ceph.access_key)
            .replace("SECRET_KEY", &ceph.secret_key)
            .replace("REGION", &ceph.region)
            .replace("ENDPOINT", &ceph.endpoint);
        let file = write_file("elsewhere.yaml", &location)?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        let place = self.watched("elsewhere");
        place.has::<NonAdminBackupStorageLocation>("/status/conditions/1/reason", "BslSpecApprovalPending").await?;
        maria.kubectl(&format!("get nonadminbackupstoragelocation elsewhere -n {NAMESPACE}")).await?;
        let locations: Api<NonAdminBackupStorageLocation> =
            Api::namespaced(self.admin.identity.client.clone(), NAMESPACE);
        let reference = locations.get("elsewhere").await?.status.and_then(|it| it.velero_backup_storage_location);
        let name = reference.and_then(|reference| reference.name).context("it has no name on record")?;
        let velero = &self.world.bed.velero().namespace;
        self.admin
            .kubectl(&format!(
                r#"patch nonadminbackupstoragelocationrequest {name} -n {velero} --type=merge -p '{{"spec":{{"approvalDecision":"approve"}}}}'"#
            ))
            .await?;
        let phase = "/status/veleroBackupStorageLocation/status/phase";
        place.has::<NonAdminBackupStorageLocation>(phase, "Available").await?;
        let file = write_file("copy.yaml", include_str!("copy.yaml"))?;
        maria.kubectl(&format!("apply -n {NAMESPACE} -f {}", file.display())).await?;
        self.watched("copy").has::<NonAdminBackup>("/status/veleroBackup/status/phase", "Completed").await?;
        maria.kubectl(&format!("get nonadminbackupstoragelocation,nonadminbackup -n {NAMESPACE}")).await
    }
}
