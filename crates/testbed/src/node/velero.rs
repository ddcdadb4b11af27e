//! Velero as administrators run it: its own installer's Deployment and node agents, with the AWS plugin.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::Api;

use super::{Node, image::Image};
use crate::{
    Testbed,
    parts::{NodeParts, VeleroParts},
    product, runtime, wait,
};

pub const NAMESPACE: &str = "velero";
const IMAGE: &str = "croft.test/velero:1";
const PLUGIN_IMAGE: &str = "croft.test/velero-plugin-for-aws:1";
const START_LIMIT: Duration = Duration::from_secs(120);

impl Node {
    /// Imports the images, applies what `velero install` prints and waits until server and node agent run.
    pub async fn install_velero(&self, bed: &Testbed) -> Result<()> {
        for image in images().await? {
            let archive = self.dir.join("velero.tar");
            image.write(&archive)?;
            self.import(&archive).await?;
        }
        product::apply(bed, &printed(bed.admin().kubeconfig.clone()).await?).await?;
        let client = bed.admin().client.clone();
        let deployments = Api::<Deployment>::namespaced(client.clone(), NAMESPACE);
        let agents = Api::<DaemonSet>::namespaced(client, NAMESPACE);
        wait::until_true("Velero's server and node agent to be ready", START_LIMIT, || async {
            let server = deployments.get("velero").await?.status.and_then(|status| status.ready_replicas);
            let agent = agents.get("node-agent").await?.status.map_or(0, |status| status.number_ready);
            ensure!(
                server == Some(1) && agent == 1,
                "ready: {} of the server, {agent} of the agent",
                server.unwrap_or(0)
            );
            Ok(true)
        })
        .await
    }
}

async fn images() -> Result<Vec<Image>> {
    let (velero, node) = runtime::run_blocking(|| Ok((VeleroParts::ensure()?, NodeParts::ensure()?))).await?;
    let mut plugin = Image { name: PLUGIN_IMAGE.to_owned(), ..super::image::busybox()? };
    plugin.files.push(("plugins/velero-plugin-for-aws".to_owned(), velero.aws_plugin));
    plugin.command = ["/bin/cp", "/plugins/velero-plugin-for-aws", "/target/"].map(str::to_owned).to_vec();
    let files =
        vec![("velero".to_owned(), velero.server), ("velero-restore-helper".to_owned(), node.velero_restore_helper)];
    Ok(vec![Image { name: IMAGE.to_owned(), files, ..Image::default() }, plugin])
}

/// Small requests: on two processors there would be no room for anything else.
async fn printed(kubeconfig: PathBuf) -> Result<String> {
    let program = runtime::run_blocking(VeleroParts::ensure).await?.server;
    let output = runtime::run_blocking(move || {
        Command::new(program)
            .args(["install", "--dry-run", "-o", "json", "--namespace", NAMESPACE])
            .args(["--image", IMAGE, "--plugins", PLUGIN_IMAGE, "--use-node-agent", "--no-secret"])
            .args(["--no-default-backup-location", "--use-volume-snapshots=false"])
            .args(["--velero-pod-cpu-request=50m", "--node-agent-pod-cpu-request=50m"])
            .env("KUBECONFIG", kubeconfig)
            .output()
            .context("running velero install")
    })
    .await?;
    ensure!(output.status.success(), "velero install: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
