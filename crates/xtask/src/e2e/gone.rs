//! What a run leaves on the machine when it is killed: nothing.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use croft_testbed::{process, wait};

use super::cluster::Cluster;
use crate::{story::Story, terminal::green};

const READY: &str = "a pod runs";
const GONE_LIMIT: Duration = Duration::from_secs(60);

/// Inside: a node with one pod, until somebody ends it.
pub(super) async fn idle() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.run_one_pod().await?;
    println!("{READY}");
    std::future::pending().await
}

/// Outside: starts another run, kills it with its pod running, and compares the machine with what it was before.
pub(super) fn tell() -> Result<()> {
    let mut story = Story::new();
    story.begin("A run is killed in the middle, without a chance to clean up.");
    let before = Traces::look()?;
    let mut run = Command::new(std::env::current_exe()?);
    run.args(["e2e", "idle"]);
    // It never ends by itself: whoever kills this one must not leave it behind.
    let mut run = process::leash(&run).stdout(Stdio::piped()).spawn().context("starting another run")?;
    let lines = BufReader::new(run.stdout.take().context("it has no output")?).lines();
    if !lines.map_while(Result::ok).any(|line| line == READY) {
        bail!("the run ended before its pod ran: {}", run.wait()?);
    }
    let during = Traces::look()?;
    ensure!(during.count() > before.count(), "a running node cannot be told from none: {during:?}");
    println!("   a pod runs: {}", during.without(&before).told());
    run.kill().context("killing it")?;
    run.wait()?;
    let gone =
        tokio::runtime::Runtime::new()?.block_on(wait::until("everything of it to be gone", GONE_LIMIT, || async {
            let left = Traces::look()?.without(&before);
            ensure!(left.count() == 0, "still there: {left:?}");
            Ok(Some(()))
        }));
    gone?;
    println!("   {} no process, network, mount, file or control group of it is left", green("ok"));
    story.end();
    Ok(())
}

/// What a node makes on a machine, as seen from outside.
#[derive(Debug, Default)]
struct Traces {
    /// In other pid namespaces than ours.
    processes: BTreeSet<String>,
    networks: BTreeSet<String>,
    mounts: BTreeSet<String>,
    cgroups: BTreeSet<String>,
    /// Places that daemons write to without being asked.
    files: BTreeSet<String>,
}

impl Traces {
    fn look() -> Result<Self> {
        let mut traces = Self::default();
        let ours = fs::read_link("/proc/self/ns/pid")?;
        for process in fs::read_dir("/proc")?.flatten().map(|entry| entry.path()) {
            let namespace = |name: &str| fs::read_link(process.join("ns").join(name));
            if let Ok(pid) = namespace("pid")
                && pid != ours
            {
                traces.processes.insert(process.display().to_string());
            }
            if let Ok(network) = namespace("net") {
                traces.networks.insert(network.display().to_string());
            }
        }
        traces.mounts = fs::read_to_string("/proc/self/mountinfo")?.lines().map(str::to_owned).collect();
        traces.cgroups = found("/sys/fs/cgroup", &["-type", "d"])?;
        for place in
            ["/run", "/var/lib/cni", "/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods", "/var/log/containers"]
        {
            if fs::exists(place)? {
                traces.files.extend(found(place, &["-maxdepth", "3"])?);
            }
        }
        Ok(traces)
    }

    fn without(&self, before: &Self) -> Self {
        let new = |now: &BTreeSet<String>, then: &BTreeSet<String>| now.difference(then).cloned().collect();
        Self {
            processes: new(&self.processes, &before.processes),
            networks: new(&self.networks, &before.networks),
            mounts: new(&self.mounts, &before.mounts),
            cgroups: new(&self.cgroups, &before.cgroups),
            files: new(&self.files, &before.files),
        }
    }

    fn count(&self) -> usize {
        [&self.processes, &self.networks, &self.mounts, &self.cgroups, &self.files].map(BTreeSet::len).iter().sum()
    }

    fn told(&self) -> String {
        format!(
            "{} processes, {} networks, {} control groups",
            self.processes.len(),
            self.networks.len(),
            self.cgroups.len()
        )
    }
}

fn found(place: &str, more: &[&str]) -> Result<BTreeSet<String>> {
    // What goes away while it looks is no error of ours.
    let output = Command::new("find").arg(place).args(more).output().context("running find")?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}
