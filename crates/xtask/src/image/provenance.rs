//! What the image is made of: a release, and a commit.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::jiff::Timestamp;

use crate::tools::root;

const COMMIT: &str = "CROFT_COMMIT";
const DATE: &str = "CROFT_COMMIT_DATE";

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
    /// As it is told, for example where there is no checkout; else of what is checked out here.
    pub(super) fn here() -> Result<Self> {
        let told = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (told(COMMIT), told(DATE)) {
            (Some(commit), Some(date)) => Self::told(commit, date),
            (None, None) => Self::of_checkout(),
            _ => bail!("give {COMMIT} and {DATE}, or none of them"),
        }
    }

    fn told(commit: String, date: String) -> Result<Self> {
        let time: Timestamp =
            date.parse().with_context(|| format!("{DATE}={date}: give it as 2026-01-31T12:00:00Z"))?;
        let seconds = u64::try_from(time.as_second()).with_context(|| format!("{DATE}={date} is before 1970"))?;
        Ok(Self { version: env!("CARGO_PKG_VERSION").to_owned(), commit, date, seconds })
    }

    fn of_checkout() -> Result<Self> {
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
    // Whoever builds here, for example as root in the clone of somebody else, runs what is in it anyway.
    let trusted = format!("safe.directory={}", root().display());
    let output =
        Command::new("git").args(["-c", &trusted]).args(arguments).env("TZ", "UTC").current_dir(root()).output();
    let output = output.context("the image tells its commit, and git cannot be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the image tells its commit: build it in a git checkout, or give {COMMIT} and {DATE} ({})",
        said.trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_without_git_tells_its_commit_as_it_is_told() {
        let told = Provenance::told("abc".into(), "2026-01-31T12:00:00Z".into()).unwrap();
        assert_eq!((told.commit.as_str(), told.seconds), ("abc", 1_769_860_800));
        let wrong = Provenance::told("abc".into(), "yesterday".into()).unwrap_err();
        assert!(wrong.to_string().contains("CROFT_COMMIT_DATE=yesterday"), "{wrong}");
    }
}
