//! A real node: kubelet, containerd and runc, scheduler and kube-proxy, for pods that really run.
//!
//! All of it lives inside an [`enclosure`]: network, mounts and process numbers of its own. Guarantee: when the
//! enclosure ends, in whichever way, its processes, networks, mounts, files and control groups are gone.

pub mod enclosure;
pub mod image;
mod kubelet;
pub mod velero;

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Node as KubernetesNode;
use kube::Api;

pub use self::image::BUSYBOX;
use crate::{
    Testbed,
    parts::NodeParts,
    process::{self, Process},
    runtime, wait,
};

/// Of the bridge all pods are on: the node's own, the API server's and Ceph's.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
pub const NAME: &str = "node-1";
const PODS: &str = "10.88.0.0/24";
const BRIDGE: &str = "croft0";
const SOCKET: &str = "/run/containerd/containerd.sock";
const START_LIMIT: Duration = Duration::from_secs(60);
const IMPORT_LIMIT: Duration = Duration::from_secs(120);

/// One running node of a [`Testbed`] that was started with [`crate::Want::on_a_node`].
#[derive(Debug)]
pub struct Node {
    proxy: Process,
    scheduler: Process,
    kubelet: Process,
    containerd: Process,
    dir: PathBuf,
}

impl Node {
    /// Starts everything and waits until the node is ready; the image [`BUSYBOX`] is there for pods.
    pub async fn start(bed: &Testbed) -> Result<Self> {
        enclosure::ensure_inside()?;
        let dir = bed.run.sub("node")?;
        let kubeconfig = bed.admin().kubeconfig.clone();
        let node = runtime::run_blocking(move || Self::spawn(&NodeParts::ensure()?, dir, &kubeconfig)).await?;
        let busybox = node.dir.join("busybox.tar");
        image::busybox()?.write(&busybox)?;
        node.import(&busybox).await?;
        node.wait_until_ready(bed).await?;
        Ok(node)
    }

    fn spawn(parts: &NodeParts, dir: PathBuf, kubeconfig: &Path) -> Result<Self> {
        kubelet::write_files(&dir)?;
        let start = |name: &str, command: &Command| process::spawn(name, command, &dir.join(format!("{name}.log")));
        let containerd =
            start("containerd", Command::new("containerd").arg("--config").arg(dir.join("containerd.toml")))?;
        Ok(Self {
            kubelet: start("kubelet", &kubelet::command(parts, &dir, kubeconfig))?,
            scheduler: start("kube-scheduler", &scheduler_command(parts, kubeconfig))?,
            proxy: start("kube-proxy", &proxy_command(parts, kubeconfig))?,
            containerd,
            dir,
        })
    }

    /// Makes the image of an OCI archive one that pods can name.
    pub async fn import(&self, archive: &Path) -> Result<()> {
        let log = self.dir.join("import.log");
        let mut command = Command::new("ctr");
        command.args(["--address", SOCKET, "--namespace", "k8s.io", "images", "import"]).arg(archive);
        let name = archive.display().to_string();
        wait::until("containerd to answer", START_LIMIT, || async { Ok(Path::new(SOCKET).exists().then_some(())) })
            .await
            .map_err(|error| anyhow!("{error:#}\n{}", self.containerd.log_tail()))?;
        runtime::run_blocking(move || process::run("ctr images import", &command, &log, IMPORT_LIMIT))
            .await
            .with_context(|| format!("importing {name}"))
    }

    async fn wait_until_ready(&self, bed: &Testbed) -> Result<()> {
        let nodes = Api::<KubernetesNode>::all(bed.admin().client.clone());
        wait::until("the node to be ready", START_LIMIT, || async {
            for daemon in [&self.containerd, &self.kubelet, &self.scheduler, &self.proxy] {
                if let Err(ended) = daemon.ensure_running() {
                    return Ok(Some(Err(ended)));
                }
            }
            let status = nodes.get(NAME).await?.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default();
            let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
            Ok(ready.then_some(Ok(())))
        })
        .await
        .map_err(|error| anyhow!("{error:#}\n{}", self.kubelet.log_tail()))?
    }

    /// Resident memory by program.
    pub fn rss_kib(&self) -> Vec<(&str, u64)> {
        [&self.kubelet, &self.containerd, &self.scheduler, &self.proxy]
            .map(|daemon| (daemon.name(), daemon.rss_kib()))
            .to_vec()
    }
}

fn scheduler_command(parts: &NodeParts, kubeconfig: &Path) -> Command {
    let mut command = Command::new(&parts.kube_scheduler);
    command.arg("--kubeconfig").arg(kubeconfig).args([
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--authentication-skip-lookup",
    ]);
    command
}

/// Leaves the settings of the machine's connection tracking alone.
fn proxy_command(parts: &NodeParts, kubeconfig: &Path) -> Command {
    let mut command = Command::new(&parts.kube_proxy);
    command
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .arg(format!("--hostname-override={NAME}"))
        .arg(format!("--cluster-cidr={PODS}"))
        .args(["--proxy-mode=iptables", "--conntrack-max-per-core=0", "--conntrack-min=0"])
        .args(["--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s"])
        .args(["--healthz-bind-address=127.0.0.1:10256", "--metrics-bind-address=127.0.0.1:10249"]);
    command
}
