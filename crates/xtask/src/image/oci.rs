//! An image as one archive, in the two forms there are: OCI's index, and docker's `manifest.json` beside it. Both name the same blobs.

use std::{fmt::Write as _, io::Write as _};

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    provenance::Provenance,
    tar::{self, File, Files},
};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Who runs in it: nobody with any rights, by number, so that Kubernetes can tell that it is not root.
const USER: &str = "65532:65532";

/// What the archive is, before anybody has pushed it anywhere.
pub(super) const NAME: &str = "croft";

/// An image in one file.
#[derive(Debug)]
pub(super) struct Archive {
    pub(super) bytes: Vec<u8>,
    /// Of the manifest: by it a registry knows the image.
    pub(super) digest: String,
    /// What is pulled: the layers as they are stored.
    pub(super) pulled: usize,
}

/// Of layers, the lowest first, each with what it is for.
pub(super) fn archive(layers: &[(&str, Files)], provenance: &Provenance) -> Result<Archive> {
    let mut blobs = Blobs::default();
    let (mut stored, mut ids, mut history) = (Vec::new(), Vec::new(), Vec::new());
    for (what, files) in layers {
        let plain = tar::archive(files, provenance.seconds)?;
        ids.push(digest(&plain));
        stored.push(blobs.add(LAYER, packed(&plain)?));
        history.push(json!({ "created": provenance.date, "created_by": "make image", "comment": what }));
    }
    let config = blobs.add(CONFIG, bytes(&config(provenance, &ids, &history))?);
    let pulled = blobs.size();
    let manifest = blobs.add(
        MANIFEST,
        bytes(&json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": config, "layers": stored, "annotations": labels(provenance),
        }))?,
    );
    let digest = manifest["digest"].as_str().unwrap_or_default().to_owned();
    let docker = docker_manifest(&config, &stored, provenance);
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [named(manifest, provenance)] });
    let mut files = blobs.0;
    files.insert("oci-layout".into(), File::plain(bytes(&json!({ "imageLayoutVersion": "1.0.0" }))?));
    files.insert("index.json".into(), File::plain(bytes(&index)?));
    files.insert("manifest.json".into(), File::plain(bytes(&docker)?));
    Ok(Archive { bytes: tar::archive(&files, provenance.seconds)?, digest, pulled })
}

fn config(provenance: &Provenance, ids: &[String], history: &[Value]) -> Value {
    json!({
        "created": provenance.date,
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": ["/croft"],
            "Cmd": ["--help"],
            "Env": ["PATH=/"],
            "WorkingDir": "/",
            "ExposedPorts": { "8080/tcp": {}, "9443/tcp": {} },
            "Labels": labels(provenance),
        },
        "rootfs": { "type": "layers", "diff_ids": ids },
        "history": history,
    })
}

fn labels(provenance: &Provenance) -> Value {
    json!({
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.description": "Namespaces from classes, storage on Ceph and backups on Velero, by self-service",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": provenance.version,
        "org.opencontainers.image.revision": provenance.commit,
        "org.opencontainers.image.created": provenance.date,
    })
}

/// How containerd, and who reads OCI layouts, call it once it is loaded.
fn named(mut manifest: Value, provenance: &Provenance) -> Value {
    let version = &provenance.version;
    manifest["platform"] = json!({ "architecture": architecture(), "os": "linux" });
    manifest["annotations"] = json!({
        "io.containerd.image.name": tag(provenance),
        "org.opencontainers.image.ref.name": version,
    });
    manifest
}

fn docker_manifest(config: &Value, layers: &[Value], provenance: &Provenance) -> Value {
    let path = |blob: &Value| blob_path(blob["digest"].as_str().unwrap_or_default());
    let layers: Vec<_> = layers.iter().map(path).collect();
    json!([{ "Config": path(config), "RepoTags": [tag(provenance)], "Layers": layers }])
}

/// By which everybody finds it who loads it, whichever of both lists he reads.
fn tag(provenance: &Provenance) -> String {
    format!("localhost/{NAME}:{}", provenance.version)
}

/// What images call the machine this runs on.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Everything that is known by its digest.
#[derive(Default)]
struct Blobs(Files);

impl Blobs {
    /// Takes it in; what others name it by.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let (digest, size) = (digest(&bytes), bytes.len());
        self.0.insert(blob_path(&digest), File::plain(bytes));
        json!({ "mediaType": media_type, "digest": digest, "size": size })
    }

    fn size(&self) -> usize {
        self.0.values().map(|blob| blob.bytes.len()).sum()
    }
}

fn blob_path(digest: &str) -> String {
    format!("blobs/{}", digest.replace(':', "/"))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold("sha256:".to_owned(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packer = GzBuilder::new().write(Vec::new(), Compression::default());
    packer.write_all(bytes)?;
    Ok(packer.finish()?)
}

fn bytes(value: &Value) -> Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(bytes: &str) -> Archive {
        let provenance = Provenance {
            version: "1.2.3".into(),
            commit: "abc".into(),
            date: "2001-09-09T01:46:40Z".into(),
            seconds: 1_000_000_000,
        };
        let layer = |path: &str, bytes: &str| Files::from([(path.to_owned(), File::program(bytes))]);
        archive(&[("libraries", layer("lib/c", "c")), ("the operator", layer("croft", bytes))], &provenance).unwrap()
    }

    #[test]
    fn the_same_input_gives_the_same_digest_and_another_one_another() {
        let (one, again, other) = (built("a"), built("a"), built("b"));
        assert_eq!((&one.digest, &one.bytes), (&again.digest, &again.bytes));
        assert_ne!(one.digest, other.digest);
    }

    #[test]
    fn both_indexes_call_the_image_the_same_and_name_blobs_that_are_there() {
        let path = std::env::temp_dir().join(format!("croft-oci-{}", std::process::id()));
        std::fs::write(&path, built("a").bytes).unwrap();
        let read = |name: &str| -> Vec<u8> {
            std::process::Command::new("tar").args(["-xOf"]).arg(&path).arg(name).output().unwrap().stdout
        };
        let json = |name: &str| -> Value { serde_json::from_slice(&read(name)).unwrap() };
        let held = |blob: &Value| {
            let name = blob["digest"].as_str().unwrap();
            let bytes = read(&blob_path(name));
            assert_eq!(
                (digest(&bytes), bytes.len()),
                (name.to_owned(), usize::try_from(blob["size"].as_u64().unwrap()).unwrap())
            );
            bytes
        };
        let name = &json("index.json")["manifests"][0]["annotations"]["io.containerd.image.name"];
        assert_eq!((name, name.as_str()), (&json("manifest.json")[0]["RepoTags"][0], Some("localhost/croft:1.2.3")));
        let manifest: Value = serde_json::from_slice(&held(&json("index.json")["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&held(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], USER);
        for (layer, docker) in
            manifest["layers"].as_array().unwrap().iter().zip(json("manifest.json")[0]["Layers"].as_array().unwrap())
        {
            held(layer);
            assert_eq!(docker.as_str().unwrap(), blob_path(layer["digest"].as_str().unwrap()));
        }
        std::fs::remove_file(&path).unwrap();
    }
}
