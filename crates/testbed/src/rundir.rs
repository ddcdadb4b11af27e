//! Where things live on disk: the cache root, and one directory per instance.
//!
//! Guarantee: an instance's directory is removed when it is dropped; one whose owner died without dropping it is
//! removed by the next instance that starts.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// `CROFT_CACHE`, or `croft` in the user's cache directory.
pub fn cache_root() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("CROFT_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("croft")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/croft")))
        .context("no place for built parts: set CROFT_CACHE to a directory")
}

/// A directory of one instance, private to its user because it holds keys.
#[derive(Debug)]
pub(crate) struct RunDir(PathBuf);

impl RunDir {
    pub(crate) fn create() -> Result<Self> {
        let runs = cache_root()?.join("run");
        sweep(&runs);
        let path = runs.join(format!("{}-{:08x}", std::process::id(), rand::random::<u32>()));
        private_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A new subdirectory.
    pub(crate) fn sub(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        private_dir(&path)?;
        Ok(path)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // Whatever stays behind is swept by the next instance.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a file only its user can read.
pub(crate) fn write_private(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    use std::io::Write;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content.as_ref()))
        .with_context(|| format!("writing {}", path.display()))
}

fn private_dir(path: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("creating {}", path.display()))
}

fn sweep(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        if owner_of(&entry.file_name().to_string_lossy()).is_some_and(|pid| !is_alive(pid)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn owner_of(directory: &str) -> Option<u32> {
    directory.split_once('-')?.0.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
