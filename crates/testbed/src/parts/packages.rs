//! Programs of Debian's: found where they are, installed where they are missing.
//!
//! Guarantee: only what is missing is installed, and nothing that is there is removed for it. What somebody installed from elsewhere,
//! such as Docker's own containerd, serves as well.

use std::{
    collections::BTreeSet,
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::create_dir;
use crate::rundir::cache_root;

/// On a fresh machine the system's own upgrades hold the lock for minutes.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=600";

/// As many lines of what it said are told where it fails.
const TAIL: usize = 20;

/// Programs, in `PATH` or at their place, each with the package that has it.
pub(super) struct Packages(pub(super) &'static [(&'static str, &'static str)]);

impl Packages {
    pub(super) fn ensure(&self) -> Result<()> {
        let is_there = |program: &str| find_program(program).is_some();
        if self.missing(is_there).is_empty() {
            return Ok(());
        }
        let place = cache_root()?;
        create_dir(&place)?;
        let lock = File::create(place.join("apt-get.lock")).context("creating the lock for apt-get")?;
        lock.lock().context("waiting for another process that installs packages")?;
        let missing = self.missing(is_there);
        if missing.is_empty() {
            return Ok(());
        }
        let programs = self.absent(is_there).join(", ");
        let names: Vec<_> = missing.iter().copied().collect();
        let line = format!("apt-get {}", install(&names).join(" "));
        ensure!(
            is_there("apt-get"),
            "{programs} not found and there is no apt-get: install what Debian has in {}",
            names.join(" ")
        );
        ensure!(rustix::process::geteuid().is_root(), "{programs} not found: run `{line}` as root");
        apt_get(&names, &place.join("apt-get.log")).with_context(|| {
            format!("{programs} not found, and `{line}` does not bring it: make that possible first")
        })?;
        let absent = self.absent(is_there).join(", ");
        ensure!(absent.is_empty(), "{} is installed, and {absent} still not found", names.join(" "));
        Ok(())
    }

    fn absent(&self, is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
        self.0.iter().map(|(program, _)| *program).filter(|program| !is_there(program)).collect()
    }

    fn missing(&self, is_there: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
        self.0.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect()
    }
}

fn apt_get(names: &[&str], log: &Path) -> Result<()> {
    eprintln!("testbed: installing {} (about 30 s)", names.join(" "));
    // In a group of its own and on no leash: ended in the midst of it, the machine's packages would have to be repaired.
    let apt_get = |arguments: &[&str]| {
        let out = File::options().create(true).append(true).open(log).context("opening the log of apt-get")?;
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).process_group(0);
        let status = command.stdout(out.try_clone()?).stderr(out).status().context("starting apt-get")?;
        ensure!(status.success(), "apt-get failed ({status}), see {}:\n{}", log.display(), tail(log));
        Ok(())
    };
    apt_get(&["-o", LOCK_TIMEOUT, "update"])?;
    apt_get(&install(names))
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(TAIL)).copied().collect::<Vec<_>>().join("\n")
}

/// Rather nothing than that what somebody works with is taken away.
fn install<'a>(names: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["-o", LOCK_TIMEOUT, "install", "-y", "--no-install-recommends", "--no-remove"];
    arguments.extend(names);
    arguments
}

/// A name with slashes is a place of its own.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|candidate| candidate.is_file())
}

/// Where a program is that was found or installed.
pub(crate) fn program(name: &str) -> Result<String> {
    let place = find_program(name).with_context(|| format!("{name} is not there any more"))?;
    Ok(place.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Packages =
        Packages(&[("containerd", "containerd"), ("ctr", "containerd"), ("busybox", "busybox-static")]);

    #[test]
    fn only_packages_whose_programs_are_missing_are_installed() {
        let docker_has = |program: &str| program != "busybox";
        assert_eq!(ALL.missing(docker_has), ["busybox-static"].into());
        assert_eq!(ALL.absent(|_| false), ["containerd", "ctr", "busybox"]);
        assert!(ALL.missing(|_| true).is_empty());
    }

    #[test]
    fn nothing_is_removed_for_what_is_installed() {
        assert!(install(&["runc"]).contains(&"--no-remove"));
    }
}
