//! Everything running: Kubernetes, Ceph, Velero and the operator with its own rights.

use std::{
    fmt::Write,
    future::Future,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use croft_testbed::{Installed, Operator, Testbed, parts::Parts, wait};
use tokio::signal::unix::{SignalKind, signal};

use crate::{terminal::seconds, tools::target};

const READY_LIMIT: Duration = Duration::from_secs(30);
const CLASS_LIMIT: Duration = Duration::from_secs(20);
const CLASS: &str = include_str!("demo/team.yaml");

/// Dropped in this order: what uses before what is used.
pub(crate) struct World {
    pub(crate) operator: Operator,
    pub(crate) installed: Installed,
    pub(crate) bed: Testbed,
    pub(crate) timings: Vec<(String, Duration)>,
}

impl World {
    pub(crate) async fn start(croft: &Path, arguments: &[&str]) -> Result<Self> {
        let clock = Instant::now();
        let bed = Testbed::kubernetes().with_ceph().with_velero().start().await?;
        let parts = bed.timings().into_iter().filter(|timing| timing.part != "all");
        let mut timings: Vec<_> = parts.map(|timing| (timing.part.to_owned(), timing.took)).collect();

        let lap = Instant::now();
        let installed = Installed::new(&bed, croft).await?;
        timings.push(("croft installed".to_owned(), lap.elapsed()));

        let lap = Instant::now();
        let operator = installed.start(&bed, "croft-0", &installed.identity.kubeconfig, arguments)?;
        operator.ready(READY_LIMIT).await?;
        timings.push(("croft ready".to_owned(), lap.elapsed()));
        timings.push(("all together".to_owned(), clock.elapsed()));
        Ok(Self { operator, installed, bed, timings })
    }

    pub(crate) fn print_timings(&self) {
        for (part, took) in &self.timings {
            println!("   {part:<16} {:>7}", seconds(*took));
        }
    }

    /// The class of the demo in a file.
    pub(crate) fn write_class() -> Result<PathBuf> {
        write_file("team.yaml", CLASS)
    }

    /// Applies the class as the administrator. The first attempts may be too early: the API server learns to trust the
    /// webhook a moment after it serves.
    pub(crate) async fn apply_class(&self, file: &Path) -> Result<String> {
        let file = file.display().to_string();
        wait::until("the class `team` to be accepted", CLASS_LIMIT, || async {
            self.bed.admin().kubectl(&["apply", "-f", &file]).await.map(Some)
        })
        .await
    }

    /// Copies the operator's log to where it stays when this world is gone.
    pub(crate) fn keep_log(&self) -> Result<PathBuf> {
        write_file("croft.log", &self.operator.process.log())
    }

    /// Lasts as long as the operator does: it never ends well. [`until_stopped`] ends the waiting.
    pub(crate) async fn watch_over(&self) -> Result<()> {
        while self.operator.process.is_running() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let log = self.keep_log()?;
        bail!("croft ended by itself; its whole log is in {}\n{}", log.display(), self.operator.process.log_tail())
    }
}

/// How something came to its end without failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    ByItself,
    /// By Ctrl-C or SIGTERM.
    Stopped,
}

/// Runs `work`; Ctrl-C or SIGTERM ends it early, and all that it started.
pub(crate) fn until_stopped(work: impl Future<Output = Result<()>>) -> Result<Ended> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            result = work => return result.map(|()| Ended::ByItself),
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        println!();
        Ok(Ended::Stopped)
    })
}

/// For work that is worth nothing before its end.
pub(crate) fn to_the_end(ended: Ended) -> Result<()> {
    ensure!(ended == Ended::ByItself, "stopped before the end");
    Ok(())
}

/// Writes a file of the demo, `target/demo/<name>`.
pub(crate) fn write_file(name: &str, content: &str) -> Result<PathBuf> {
    let dir = target()?.join("demo");
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    let path = dir.join(name);
    std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The administrator's kubeconfig in a place that is easy to name; gone with the cluster it is for.
pub(crate) struct Kubeconfig(PathBuf);

impl Kubeconfig {
    pub(crate) fn write(world: &World, path: &Path) -> Result<Self> {
        let path = std::path::absolute(path)?;
        copy_private(&world.bed.admin().kubeconfig, &path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Shell commands after which `kubectl` talks to the cluster.
    pub(crate) fn shell_setup(&self) -> Result<String> {
        let mut commands = format!("export KUBECONFIG={}", self.0.display());
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|dir| dir.join("kubectl").is_file()) {
            let kubectl = Parts::ensure(&Testbed::kubernetes())?.kubectl;
            let dir = kubectl.parent().unwrap_or(&kubectl);
            let _ = write!(commands, "\n   export PATH=$PATH:{}", dir.display());
        }
        Ok(commands)
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Copies a kubeconfig, readable by its owner only.
fn copy_private(from: &Path, to: &Path) -> Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt};
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    let content = std::fs::read(from).with_context(|| format!("reading {}", from.display()))?;
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(to)
        .and_then(|mut file| file.write_all(&content))
        .with_context(|| format!("writing {}", to.display()))
}
