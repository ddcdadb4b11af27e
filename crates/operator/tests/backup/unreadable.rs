//! Requests that have grown beyond what is read: they hold nobody up.

use anyhow::{Result, ensure};
use croft_testbed::{Testbed, wait};
use serde_json::json;

use crate::{
    away::{furnish, is_handed_over, namespace_goes},
    plot::{SETTINGS, VELERO_PATIENCE},
    support::{PATIENCE, World, eventually},
};

/// As much as the API server lets anybody note on one object, which with the object itself is more than is read.
fn very_much() -> String {
    json!({ "metadata": { "annotations": { "tenant.example/note": "x".repeat((256 << 10) - 500) } } }).to_string()
}

const REQUESTS: [(&str, &str); 2] = [("nonadminbackup", "nightly"), ("nonadminbackupstoragelocation", "here")];

impl World {
    /// Nobody is at the door, and the requests of the namespace grow.
    async fn grow(&self, namespace: &str) -> Result<()> {
        let file = self.bed.dir().join("very-much.json");
        std::fs::write(&file, very_much())?;
        let file = file.display().to_string();
        for (kind, name) in REQUESTS {
            let grown = ["patch", kind, name, "-n", namespace, "--type=merge", "--patch-file", &file];
            eventually("the door to be open", || async { Ok(self.bed.admin().kubectl(&grown).await.ok()) }).await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_namespace_goes_although_its_requests_have_grown_beyond_what_is_read() -> Result<()> {
    let mut world = World::own_with(Testbed::kubernetes().with_velero(), SETTINGS).await?;
    for namespace in ["grown", "overgrown"] {
        furnish(&world, namespace).await?;
        is_handed_over(&world, namespace).await;
    }
    world.bed.admin().kubectl(&["delete", "validatingwebhookconfigurations", "--all"]).await?;
    world.grow("grown").await?;
    namespace_goes(&world, "grown").await?;

    // Whoever starts finds them as they are, and has never seen them otherwise.
    world.operator.process.terminate();
    world.operator.process.wait(PATIENCE);
    world.grow("overgrown").await?;
    let config = world.bed.dir().join("settings.yaml").display().to_string();
    let kubeconfig = &world.installed.identity.kubeconfig;
    world.operator = world.installed.start(&world.bed, "after", kubeconfig, &["--config", &config])?;
    world.operator.ready(PATIENCE).await?;
    namespace_goes(&world, "overgrown").await?;
    wait::until("nothing to be left with Velero", VELERO_PATIENCE, || async {
        let kinds = "backups.velero.io,backupstoragelocations.velero.io,secrets";
        let left = world.bed.admin().kubectl(&["get", kinds, "-n", "velero", "-o", "name"]).await?;
        let left: Vec<_> = left.lines().filter(|name| name.contains("grown-")).collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(Some(()))
    })
    .await
}
