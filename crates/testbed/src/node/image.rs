//! Container images made by hand: one layer of a few files, in an archive of the OCI layout.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::parts::program;

/// The one image that is always there: a shell and its tools; by itself it does nothing, for as long as it is let.
pub const BUSYBOX: &str = "croft.test/busybox:1";

/// What goes into an image.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// With registry and tag, as pods name it.
    pub name: String,
    /// Where in the image, and what of this machine is there.
    pub files: Vec<(String, PathBuf)>,
    /// Where in the image, and where that leads.
    pub links: Vec<(String, String)>,
    pub command: Vec<String>,
}

/// With the libraries it is linked with, where it is not Debian's static one.
pub(crate) fn busybox() -> Result<Image> {
    let tools = ["sh", "cat", "cp", "dd", "echo", "mkdir", "sha256sum", "sleep", "sync", "test", "wget"];
    let busybox = program("busybox")?;
    let mut files = vec![("bin/busybox".to_owned(), PathBuf::from(&busybox))];
    files
        .extend(libraries(&busybox)?.into_iter().map(|place| (place.trim_start_matches('/').to_owned(), place.into())));
    Ok(Image {
        name: BUSYBOX.to_owned(),
        files,
        links: tools.iter().map(|tool| (format!("bin/{tool}"), "busybox".to_owned())).collect(),
        command: vec!["/bin/sleep".to_owned(), "2147483647".to_owned()],
    })
}

/// What a program is linked with, each at the place where it is looked for; nothing for a static one.
fn libraries(program: &str) -> Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).env("LC_ALL", "C").output().context("running ldd")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if let Some(lacking) = said.lines().find(|line| line.contains("not found")) {
        bail!("{program} lacks a library: {}", lacking.trim());
    }
    // A static one is an error to it.
    Ok(if output.status.success() { linked(&said) } else { Vec::new() })
}

fn linked(said: &str) -> Vec<String> {
    let place = |line: &str| {
        let place = line.split_once("=>").map_or(line, |(_, place)| place);
        let place = place.split_whitespace().next()?;
        place.starts_with('/').then(|| place.to_owned())
    };
    said.lines().filter_map(place).collect()
}

impl Image {
    /// Writes the archive; beside it there is room for its parts while that lasts.
    pub fn write(&self, archive: &Path) -> Result<()> {
        let stage = archive.with_extension("parts");
        let (root, layout) = (stage.join("root"), stage.join("layout"));
        let blobs = layout.join("blobs/sha256");
        fs::create_dir_all(&blobs)?;
        self.stage(&root)?;
        let layer = blobs.join("layer");
        pack(&root, &layer)?;
        let layer = Blob::of_file(&blobs, &layer)?;
        let config = Blob::of_json(&blobs, &self.config(&layer.digest))?;
        let manifest = Blob::of_json(&blobs, &manifest(&config, &layer))?;
        let index = self.index(&manifest);
        fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
        fs::write(layout.join("index.json"), index.to_string())?;
        pack(&layout, archive)?;
        fs::remove_dir_all(&stage).with_context(|| format!("removing {}", stage.display()))
    }

    fn stage(&self, root: &Path) -> Result<()> {
        // Where programs expect to be able to write.
        fs::create_dir_all(root.join("tmp"))?;
        for (place, file) in &self.files {
            let place = in_new_dir(root, place)?;
            fs::copy(file, &place).with_context(|| format!("copying {}", file.display()))?;
        }
        for (place, target) in &self.links {
            symlink(target, in_new_dir(root, place)?)?;
        }
        Ok(())
    }

    fn config(&self, layer: &str) -> Value {
        json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": { "Cmd": self.command, "Env": ["PATH=/bin:/"], "WorkingDir": "/" },
            "rootfs": { "type": "layers", "diff_ids": [layer] },
        })
    }

    fn index(&self, manifest: &Blob) -> Value {
        let mut entry = manifest.describe("application/vnd.oci.image.manifest.v1+json");
        entry["annotations"] = json!({ "io.containerd.image.name": self.name });
        json!({ "schemaVersion": 2, "manifests": [entry] })
    }
}

fn manifest(config: &Blob, layer: &Blob) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.describe("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.describe("application/vnd.oci.image.layer.v1.tar")],
    })
}

struct Blob {
    digest: String,
    size: u64,
}

impl Blob {
    fn of_json(blobs: &Path, value: &Value) -> Result<Self> {
        let path = blobs.join("unnamed");
        fs::write(&path, value.to_string())?;
        Self::of_file(blobs, &path)
    }

    /// Renames the file to its digest. By the system's own program: ours, not optimised, takes seconds for Velero.
    fn of_file(blobs: &Path, file: &Path) -> Result<Self> {
        let output = Command::new("sha256sum").arg(file).output().context("running sha256sum")?;
        let digest = String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap_or_default().to_owned();
        ensure!(digest.len() == 64, "sha256sum of {} said nothing", file.display());
        let size = fs::metadata(file)?.len();
        fs::rename(file, blobs.join(&digest))?;
        Ok(Self { digest: format!("sha256:{digest}"), size })
    }

    fn describe(&self, kind: &str) -> Value {
        json!({ "mediaType": kind, "digest": self.digest, "size": self.size })
    }
}

fn in_new_dir(root: &Path, place: &str) -> Result<PathBuf> {
    let path = root.join(place);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    Ok(path)
}

/// The same files give the same bytes.
fn pack(dir: &Path, archive: &Path) -> Result<()> {
    let status = Command::new("tar")
        .args(["--create", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(dir)
        .arg(".")
        .status()
        .context("running tar")?;
    ensure!(status.success(), "tar of {} failed", dir.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_static_comes_with_what_it_is_linked_with() {
        let said = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(linked(said), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(linked("\tstatically linked\n").is_empty());
        assert!(!libraries("/bin/sh").unwrap().is_empty(), "Debian's own shell is not static");
    }
}
