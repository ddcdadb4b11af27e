//! How Croft gets into the cluster, and how the next one does: by its chart.

use std::{path::PathBuf, time::Instant};

use anyhow::{Result, ensure};
use croft_testbed::{parts, product, wait};
use tokio::process::Command;

use super::cluster::{Cluster, OPERATOR, SOON};
use crate::{
    story::{Story, show_command, show_output},
    terminal::seconds,
    tools::{root, target},
    world::World,
};

/// As `make image` names it.
const REPOSITORY: &str = "localhost/croft";

/// Where `make image` puts it.
fn archive() -> Result<PathBuf> {
    Ok(root().join(target()?).join("image/croft.tar"))
}

impl Cluster {
    pub(super) async fn install_croft(&self, story: &mut Story) -> Result<()> {
        story.begin("Croft is installed by its chart with two replicas, and told of the Ceph.");
        let clock = Instant::now();
        self.node.import(&archive()?).await?;
        show_output(&format!("image imported in {}", seconds(clock.elapsed())));
        self.helm(&format!(
            "install croft deploy/chart --namespace {OPERATOR} --create-namespace --set image.repository={REPOSITORY}"
        ))
        .await?;
        product::make_class(&self.bed, self.bed.ceph()).await?;
        self.deployment_is_ready(OPERATOR, "croft").await?;
        self.admission_answers().await?;
        self.admin().kubectl(&format!("get pods,poddisruptionbudget -n {OPERATOR}")).await
    }

    /// The API server's way to new pods leads through kube-proxy, which hears of them a moment later.
    async fn admission_answers(&self) -> Result<()> {
        let class = World::write_class()?.display().to_string();
        wait::until("admission to be reached", SOON, || async {
            self.bed.admin().kubectl(&["apply", "--dry-run=server", "-f", &class]).await.map(Some)
        })
        .await
        .map(drop)
    }

    /// Every replica is replaced, because each is told something else.
    pub(super) async fn upgrade_croft(&self) -> Result<()> {
        self.helm(&format!(
            "upgrade croft deploy/chart --namespace {OPERATOR} --reset-then-reuse-values --set log.format=json"
        ))
        .await?;
        self.replicas_are_settled().await
    }

    async fn helm(&self, line: &str) -> Result<()> {
        show_command("admin", &format!("helm {line}"));
        let home = self.bed.dir().join("helm");
        let output = Command::new(parts::helm()?)
            .args(line.split(' '))
            .env("KUBECONFIG", &self.bed.admin().kubeconfig)
            .env("HELM_CACHE_HOME", &home)
            .env("HELM_CONFIG_HOME", &home)
            .env("HELM_DATA_HOME", &home)
            .current_dir(root())
            .output()
            .await?;
        ensure!(output.status.success(), "helm {line}: {}", String::from_utf8_lossy(&output.stderr).trim());
        let told = String::from_utf8_lossy(&output.stdout);
        show_output(told.lines().filter(|line| line.starts_with("STATUS")).collect::<Vec<_>>().join("\n").as_str());
        Ok(())
    }
}
