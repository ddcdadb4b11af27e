//! A network, mounts and process numbers of one's own, in which this program runs once more.
//!
//! Guarantee: when the run ends, or whoever started it, `SIGKILL` included, everything of it is gone. The kernel does it:
//! the first process of a pid namespace takes all others with it, and with the last of them go network and mounts. A
//! shell outside removes the control groups; one that was killed as well has them removed by the next run.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{ADDRESS, BRIDGE};
use crate::{parts::ensure_node_packages, process, rundir::cache_root};

/// Names the control group of the enclosure one is in.
const INSIDE: &str = "CROFT_ENCLOSURE";
const CGROUPS: &str = "/sys/fs/cgroup";
const PREFIX: &str = "croft-node-";
/// Of the processors' time, for all pods: where processes of the machine are in no group, each has 1024 by itself.
const SHARES: &str = "16384";

/// Controllers without which there are no pods, and those that kubelet uses besides where there are any.
const NEEDED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
const USED: [&str; 2] = ["hugetlb", "io"];

/// Whether this process runs in an enclosure.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

pub(super) fn ensure_inside() -> Result<()> {
    ensure!(is_inside(), "a node runs only in an enclosure: what belongs to the machine would become its own");
    Ok(())
}

/// The control group below which everything of the node's pods is.
pub(super) fn cgroup() -> Result<String> {
    Ok(format!("/{}", std::env::var(INSIDE).context("not in an enclosure")?))
}

/// Fails with one sentence that says what this machine does not allow.
pub fn ensure_possible() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "a real node needs root: run this as root");
    // What is tried then is tried with them.
    ensure_node_packages()?;
    let tried = Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--mount-proc", "--propagation", "private", "ip", "link"])
        .output()
        .context("a real node needs `unshare`: install the package util-linux")?;
    ensure!(
        tried.status.success(),
        "a real node needs CAP_SYS_ADMIN and CAP_NET_ADMIN, which this root lacks ({}): run this on a machine or in a \
         virtual machine of your own",
        String::from_utf8_lossy(&tried.stderr).trim()
    );
    bridges()?;
    let trial = Cgroups::make(&format!("{PREFIX}{}-trial", std::process::id()))
        .context("a real node needs control groups it can write to, below /sys/fs/cgroup")?;
    let lacking = trial.lacking();
    trial.remove()?;
    ensure!(
        lacking.is_empty(),
        "a real node needs the controllers {} in its control group, and this machine gives none of its own below {CGROUPS}: run \
         this on a machine or in a virtual machine of your own",
        lacking.join(", ")
    );
    Ok(())
}

/// Packets between pods on one bridge pass the rules of Services. The module that sees to it would do the same to every bridge of the
/// machine: where it was not loaded before, they are left as they were.
fn bridges() -> Result<()> {
    let settings = Path::new("/proc/sys/net/bridge");
    if settings.exists() {
        return Ok(());
    }
    let tried = Command::new("modprobe").arg("br_netfilter").output();
    let why = match &tried {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    ensure!(
        settings.exists(),
        "a real node needs the kernel module br_netfilter, which cannot be loaded ({why}): install the kernel's modules and kmod"
    );
    for setting in ["iptables", "ip6tables", "arptables"] {
        let setting = settings.join(format!("bridge-nf-call-{setting}"));
        fs::write(&setting, "0").with_context(|| format!("writing {}", setting.display()))?;
    }
    Ok(())
}

/// Runs this very program with `arguments` in a new enclosure, to its end. It dies with the thread that called this.
pub fn run_inside(arguments: &[&str]) -> Result<ExitStatus> {
    sweep();
    let name = format!("{PREFIX}{}", std::process::id());
    let cgroups = Cgroups::make(&name)?;
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--propagation", "private"])
        .args(["--", "sh", "-c", include_str!("inside.sh"), "sh"])
        .arg(std::env::current_exe().context("finding this program")?)
        .args(arguments)
        .env(INSIDE, &name)
        .env("RUNS", cache_root()?.join("run"))
        .env("ADDRESS", ADDRESS.to_string())
        .env("BRIDGE", BRIDGE);
    let status = process::leash(&command).status().context("starting unshare")?;
    cgroups.remove()?;
    Ok(status)
}

/// One directory in every hierarchy of control groups, and the shell that removes them.
#[derive(Debug)]
struct Cgroups {
    name: String,
    cleaner: Child,
}

impl Cgroups {
    fn make(name: &str) -> Result<Self> {
        // The cleaner first: from here on nothing that is made can stay.
        let cleaner = cleaner(name)?;
        for hierarchy in hierarchies()? {
            let path = hierarchy.join(name);
            delegate(&hierarchy);
            fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
            inherit_cpus(&hierarchy, &path)?;
            let shares = path.join("cpu.shares");
            if shares.exists() {
                fs::write(&shares, SHARES).with_context(|| format!("writing {}", shares.display()))?;
            }
        }
        Ok(Self { name: name.to_owned(), cleaner })
    }

    /// What kubelet needs of a hierarchy of version 2 and this group does not have.
    fn lacking(&self) -> Vec<&'static str> {
        let had = fs::read_to_string(Path::new(CGROUPS).join(&self.name).join("cgroup.controllers"));
        let Ok(had) = had else { return Vec::new() };
        NEEDED.iter().copied().filter(|needed| !had.split_whitespace().any(|has| has == *needed)).collect()
    }

    fn remove(mut self) -> Result<()> {
        drop(self.cleaner.stdin.take());
        let status = self.cleaner.wait().context("waiting for the control groups to be removed")?;
        ensure!(status.success(), "control groups named {} could not be removed: somebody is in them", self.name);
        Ok(())
    }
}

/// In version 2 a group has the controllers that the one above it passes on; which of them that could not, [`Cgroups::lacking`] tells.
fn delegate(hierarchy: &Path) {
    let passed_on = hierarchy.join("cgroup.subtree_control");
    if passed_on.exists() {
        for controller in NEEDED.iter().chain(&USED) {
            let _ = fs::write(&passed_on, format!("+{controller}"));
        }
    }
}

/// In a group of its own: it must outlive whatever ends its owner.
fn cleaner(name: &str) -> Result<Child> {
    let mut command = Command::new("sh");
    command
        .args(["-c", include_str!("clean.sh"), name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn().context("starting the shell that removes control groups")
}

/// One of version 2, or one for each controller of version 1.
fn hierarchies() -> Result<Vec<PathBuf>> {
    let root = Path::new(CGROUPS);
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.to_owned()]);
    }
    let entries = fs::read_dir(root).with_context(|| format!("reading {CGROUPS}"))?;
    let found: Vec<_> = entries.flatten().filter(is_hierarchy).map(|entry| entry.path()).collect();
    if found.is_empty() {
        bail!("nothing is mounted below {CGROUPS}");
    }
    Ok(found)
}

/// Not the links by which some controllers have a second name.
fn is_hierarchy(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path().join("cgroup.procs").exists()
}

/// A group of version 1 has no processors until it is given some.
fn inherit_cpus(hierarchy: &Path, group: &Path) -> Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if group.join(file).exists() && !group.join("cgroup.controllers").exists() {
            let all = fs::read_to_string(hierarchy.join(file))?;
            fs::write(group.join(file), all).with_context(|| format!("writing {file} of {}", group.display()))?;
        }
    }
    Ok(())
}

/// Removes the control groups of runs that were killed together with their cleaner.
fn sweep() {
    let names = hierarchies().into_iter().flatten().flat_map(|hierarchy| fs::read_dir(hierarchy).into_iter().flatten());
    let names = names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let dead: std::collections::BTreeSet<_> = names.filter(|name| belongs_to_the_dead(name)).collect();
    for name in dead {
        if let Ok(mut cleaner) = cleaner(&name) {
            drop(cleaner.stdin.take());
            let _ = cleaner.wait();
        }
    }
}

fn belongs_to_the_dead(name: &str) -> bool {
    let owner = name.strip_prefix(PREFIX).map(|rest| rest.split('-').next().unwrap_or(rest));
    owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_whose_owner_has_died_are_swept() {
        assert!(!belongs_to_the_dead(&format!("{PREFIX}{}", std::process::id())));
        assert!(!belongs_to_the_dead(&format!("{PREFIX}{}-trial", std::process::id())));
        assert!(belongs_to_the_dead(&format!("{PREFIX}4194999")));
        assert!(!belongs_to_the_dead("kubepods"));
    }
}
