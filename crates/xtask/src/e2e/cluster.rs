//! Everything running inside the enclosure, and how Croft gets there.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use croft_testbed::{
    Testbed,
    node::{BUSYBOX, Node},
    wait,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::json;

use crate::{
    story::Actor,
    terminal::seconds,
    tools::{root, target},
};

pub(super) const SOON: Duration = Duration::from_secs(60);
pub(super) const OPERATOR: &str = "croft-system";

/// Dropped in this order: what uses before what is used.
pub(super) struct Cluster {
    pub(super) node: Node,
    pub(super) bed: Testbed,
    timings: Vec<(&'static str, Duration)>,
}

impl Cluster {
    pub(super) async fn start() -> Result<Self> {
        let clock = Instant::now();
        let bed = Testbed::kubernetes().with_ceph().on_a_node().start().await?;
        let mut timings: Vec<_> = bed.timings().iter().map(|timing| (timing.part, timing.took)).collect();
        timings.retain(|(part, _)| *part != "all");
        let lap = Instant::now();
        let node = Node::start(&bed).await?;
        timings.push(("node ready", lap.elapsed()));
        timings.push(("all together", clock.elapsed()));
        Ok(Self { node, bed, timings })
    }

    pub(super) fn print_timings(&self) {
        for (part, took) in &self.timings {
            println!("   {part:<16} {:>7}", seconds(*took));
        }
    }

    pub(super) fn admin(&self) -> Actor<'_> {
        Actor { name: "admin", identity: self.bed.admin() }
    }

    /// The least that shows that pods run.
    pub(super) async fn run_one_pod(&self) -> Result<()> {
        let labels = json!({ "app": "one" });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "one", "namespace": "default" },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "one", "image": BUSYBOX }] },
                },
            },
        });
        self.bed.admin().kubectl_stdin(&["apply", "-f", "-"], &deployment.to_string()).await?;
        self.deployment_is_ready("default", "one").await
    }

    pub(super) async fn deployment_is_ready(&self, namespace: &str, name: &str) -> Result<()> {
        let deployments = Api::<Deployment>::namespaced(self.bed.admin().client.clone(), namespace);
        wait::until_true(&format!("all pods of {name} to be ready"), SOON, || async {
            let deployment = deployments.get(name).await?;
            let wanted = deployment.spec.and_then(|spec| spec.replicas);
            let status = deployment.status.unwrap_or_default();
            let is_current = status.observed_generation == deployment.metadata.generation;
            Ok(is_current
                && status.updated_replicas == wanted
                && status.available_replicas == wanted
                && status.replicas == wanted)
        })
        .await
    }

    /// What tells why something went wrong, copied to where it stays.
    pub(super) async fn keep_logs(&self) -> Result<PathBuf> {
        let logs = root().join(target()?).join("e2e");
        let _ = std::fs::remove_dir_all(&logs);
        std::fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
        copy_logs(self.bed.dir(), &logs);
        copy_logs(Path::new("/var/log/pods"), &logs);
        for (file, line) in [
            ("objects.txt", ["get", "all,pvc,events", "-A", "-o", "wide"]),
            ("pods.yaml", ["get", "pods", "-A", "-o", "yaml"]),
        ] {
            let told = self.bed.admin().kubectl(&line).await.unwrap_or_else(|error| format!("{error:#}"));
            std::fs::write(logs.join(file), told)?;
        }
        Ok(logs)
    }
}

/// Every file called `*.log` below `from`, with its path for a name.
fn copy_logs(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            copy_logs(&path, to);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            let name: String = path.display().to_string().replace('/', "_");
            let _ = std::fs::copy(&path, to.join(name));
        }
    }
}
