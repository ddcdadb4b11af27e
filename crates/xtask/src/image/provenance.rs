//! What the image is made of: a release, and a commit.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::tools::root;

/// Where an image comes from. Its time is that of the commit: whoever builds it again gets the same bytes.
#[derive(Clone, Debug)]
pub(super) struct Provenance {
    pub(super) version: String,
    pub(super) commit: String,
    /// As everybody writes it, and in seconds since 1970.
    pub(super) date: String,
    pub(super) seconds: u64,
}

impl Provenance {
    /// Of what is checked out here.
    pub(super) fn here() -> Result<Self> {
        let show = |format: &str| {
            git(&[
                "show",
                "--no-patch",
                "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
                &format!("--format={format}"),
                "HEAD",
            ])
        };
        // What is changed and not committed is nobody's to find again.
        let is_changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let changed = if is_changed { "-changed" } else { "" };
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: show("%H")? + changed,
            date: show("%cd")?,
            seconds: show("%ct")?.parse().context("git tells no date")?,
        })
    }
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).env("TZ", "UTC").current_dir(root()).output();
    let output = output.context("the image tells its commit, and git cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the image tells its commit: build it in a git checkout ({})", said.trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
