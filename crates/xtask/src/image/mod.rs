//! `make image`: the operator as an image, in one file that containerd, podman and docker load, made without any of them.
//!
//! Guarantee: the same commit, toolchain and C library give the same digest.

mod content;
mod oci;
mod provenance;
mod sbom;
mod tar;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use self::provenance::Provenance;
use crate::{
    terminal::timed,
    tools::{self, Profile, root, target},
};

/// More than this is not what an operator should take to pull.
const LARGEST: usize = 40 << 20;

/// A built image.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) archive: PathBuf,
    pub(crate) bill: PathBuf,
    pub(crate) digest: String,
    /// What is pulled, in bytes.
    pub(crate) size: usize,
    version: String,
}

/// Builds it and says what to do with it.
pub(crate) fn image(profile: Profile) -> Result<()> {
    let image = timed("image", || build(profile))?;
    let (archive, version) = (image.archive.display(), &image.version);
    println!("   {archive}  {:.1} MB to pull, {}", megabytes(image.size), image.digest);
    println!("   {}", image.bill.display());
    println!(
        "\nPush it to a registry of yours with one of\n   \
         skopeo copy oci-archive:{archive} docker://REGISTRY/croft:{version}\n   \
         docker load --input {archive} && docker tag localhost/croft:{version} REGISTRY/croft:{version} && docker push REGISTRY/croft:{version}\n   \
         podman load --input {archive} && podman push localhost/croft:{version} REGISTRY/croft:{version}\n\
         and install it from there with\n   \
         helm install croft deploy/chart --namespace croft-system --create-namespace --set image.repository=REGISTRY/croft"
    );
    ensure!(profile == Profile::Debug || image.size <= LARGEST, "the image is larger than {} MB", megabytes(LARGEST));
    Ok(())
}

/// Of the release, or, where a test wants it soon, of what tests run.
pub(crate) fn build(profile: Profile) -> Result<Image> {
    let provenance = Provenance::here()?;
    let folder = root().join(target()?).join("image");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let program = match profile {
        Profile::Debug => without_symbols(&tools::croft(Profile::Debug)?, &folder)?,
        Profile::Release => tools::croft_auditable(&provenance.commit, &provenance.date)?,
    };
    let content = content::content(&program)?;
    let layers = [("C library, certificates", content.base), ("the operator", content.program)];
    let archive = oci::archive(&layers, &provenance)?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("reading Cargo.lock")?;
    let metadata = tools::metadata()?;
    let bill = sbom::bill(&metadata, &lock, &content.of_the_machine, &provenance, &archive.digest)?;
    let image = Image {
        archive: folder.join("croft.tar"),
        bill: folder.join("croft.cdx.json"),
        digest: archive.digest,
        size: archive.pulled,
        version: provenance.version,
    };
    write(&image.archive, &archive.bytes)?;
    write(&image.bill, &serde_json::to_vec_pretty(&bill)?)?;
    Ok(image)
}

/// What tests run is five times as large with what debuggers want.
fn without_symbols(program: &Path, folder: &Path) -> Result<PathBuf> {
    let stripped = folder.join("croft");
    let mut strip = Command::new("strip");
    strip.arg("--strip-debug").arg("-o").arg(&stripped).arg(program);
    let status = strip.status().context("`strip` is missing: install it with `apt-get install -y binutils`")?;
    ensure!(status.success(), "strip {} failed", program.display());
    Ok(stripped)
}

/// Under another name first: whoever finds it finds all of it.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let unfinished = path.with_extension("tmp");
    fs::write(&unfinished, bytes).with_context(|| format!("writing {}", unfinished.display()))?;
    fs::rename(&unfinished, path).with_context(|| format!("writing {}", path.display()))
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
