//! What the image consists of, as `CycloneDX`: every crate that is linked into the program, and this machine's files beside it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::provenance::Provenance;

/// The program whose crates count.
const ROOT: &str = "croft";

/// The bill of materials of the image with this digest.
pub(super) fn bill(
    metadata: &Value,
    lock: &str,
    files: &[PathBuf],
    provenance: &Provenance,
    digest: &str,
) -> Result<Value> {
    let crates = Crates::of(metadata)?;
    let linked = crates.linked();
    let checksums = checksums(lock);
    let mut components: Vec<_> =
        linked.iter().filter(|id| **id != crates.root).map(|id| crates.component(id, &checksums)).collect();
    components.extend(packages(files));
    let mut dependencies: Vec<_> = linked.iter().map(|id| crates.dependencies(id)).collect();
    dependencies.sort_by_key(Value::to_string);
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "serialNumber": serial(digest),
        "metadata": {
            "timestamp": provenance.date,
            "component": {
                "type": "container",
                "bom-ref": crates.purl(crates.root),
                "name": ROOT,
                "version": provenance.version,
                "licenses": [{ "expression": "Apache-2.0" }],
                "purl": format!("pkg:oci/{ROOT}@{}", digest.replace(':', "%3A")),
                "properties": [{ "name": "croft:commit", "value": provenance.commit }],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// What `cargo metadata` tells.
struct Crates<'a> {
    root: &'a str,
    packages: BTreeMap<&'a str, &'a Value>,
    nodes: BTreeMap<&'a str, &'a Value>,
}

impl<'a> Crates<'a> {
    fn of(metadata: &'a Value) -> Result<Self> {
        let by_id = |list: &'a Value| -> BTreeMap<&'a str, &'a Value> {
            let items = list.as_array().into_iter().flatten();
            items.filter_map(|item| Some((item["id"].as_str()?, item))).collect()
        };
        let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
        let root = packages.iter().find(|(_, package)| package["name"] == ROOT);
        let root = *root.context("cargo metadata does not know the operator")?.0;
        Ok(Self { root, packages, nodes })
    }

    fn package(&self, id: &str) -> &'a Value {
        self.packages.get(id).copied().unwrap_or(&Value::Null)
    }

    /// Macros and what build scripts use are left behind when the program is built.
    fn is_linked(&self, id: &str) -> bool {
        let targets = self.package(id)["targets"].as_array().into_iter().flatten();
        targets.into_iter().all(|target| target["kind"] != json!(["proc-macro"]))
    }

    fn direct(&self, id: &str) -> Vec<&'a str> {
        let node = self.nodes.get(id).copied().unwrap_or(&Value::Null);
        let is_normal =
            |dep: &&Value| dep["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null());
        let deps = node["deps"].as_array().into_iter().flatten().filter(is_normal);
        deps.filter_map(|dep| dep["pkg"].as_str()).filter(|id| self.is_linked(id)).collect()
    }

    fn linked(&self) -> BTreeSet<&'a str> {
        let (mut linked, mut left) = (BTreeSet::from([self.root]), vec![self.root]);
        while let Some(id) = left.pop() {
            left.extend(self.direct(id).into_iter().filter(|dependency| linked.insert(dependency)));
        }
        linked
    }

    fn purl(&self, id: &str) -> String {
        let package = self.package(id);
        format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
    }

    fn component(&self, id: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
        let (package, purl) = (self.package(id), self.purl(id));
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let mut component =
            json!({ "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl });
        if let Some(license) = package["license"].as_str() {
            component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
        }
        if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    }

    fn dependencies(&self, id: &str) -> Value {
        let mut on: Vec<_> = self.direct(id).into_iter().map(|id| self.purl(id)).collect();
        on.sort();
        on.dedup();
        json!({ "ref": self.purl(id), "dependsOn": on })
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Of each crate that was fetched, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{name} = \""))?.strip_suffix('"'));
        line.map(str::to_owned)
    };
    let blocks = lock.split("[[package]]");
    blocks
        .filter_map(|block| Some(((field(block, "name")?, field(block, "version")?), field(block, "checksum")?)))
        .collect()
}

/// The packages of this machine's distribution that the files are from, where it can tell.
fn packages(files: &[PathBuf]) -> Vec<Value> {
    let found: BTreeSet<_> = files.iter().filter_map(|file| package_of(file)).collect();
    let component = |(name, version): &(String, String)| {
        let purl = format!("pkg:deb/debian/{name}@{}", version.replace('+', "%2B").replace(':', "%3A"));
        json!({ "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl })
    };
    found.iter().map(component).collect()
}

fn package_of(file: &Path) -> Option<(String, String)> {
    let file = file.to_string_lossy();
    // The bundle is made on the machine and is in no package's list.
    let owner = if file.ends_with("ca-certificates.crt") {
        "ca-certificates".to_owned()
    } else {
        // Where /lib is a link, packages may list either of the two.
        let told = said("dpkg-query", &["--search", &file])
            .or_else(|| said("dpkg-query", &["--search", &format!("/usr{file}")]))?;
        told.split_once(": ")?.0.to_owned()
    };
    let version = said("dpkg-query", &["--show", "--showformat=${Version}", &owner])?;
    Some((owner.split(':').next().unwrap_or_default().to_owned(), version))
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// A name of its own for each image, and the same one for the same image.
fn serial(digest: &str) -> String {
    let digits: Vec<_> = digest.chars().filter(char::is_ascii_hexdigit).rev().take(32).collect();
    let part = |from: usize, to: usize| digits.iter().take(to).skip(from).collect::<String>();
    format!("urn:uuid:{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_is_listed_and_what_only_builds_is_not() {
        let package = |name: &str, kind: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "targets": [{ "kind": [kind] }] });
        let dep = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [package("croft", "bin"), package("serde", "lib"), package("derive", "proc-macro"),
                         package("cc", "lib"), package("itoa", "lib"), package("xtask", "bin")],
            "resolve": { "nodes": [
                { "id": "croft", "deps": [dep("serde", Value::Null), dep("cc", json!("build"))] },
                { "id": "serde", "deps": [dep("derive", Value::Null), dep("itoa", Value::Null)] },
            ] },
        });
        let lock = "[[package]]\nname = \"itoa\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let provenance =
            Provenance { version: "0".into(), commit: "c".into(), date: "2001-09-09T01:46:40Z".into(), seconds: 0 };
        let bill = bill(&metadata, lock, &[], &provenance, "sha256:00112233445566778899aabbccddeeff00").unwrap();
        let names: Vec<_> =
            bill["components"].as_array().unwrap().iter().map(|component| text(&component["name"])).collect();
        assert_eq!(names, ["itoa", "serde"]);
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "abc");
        assert_eq!(bill["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["dependencies"].as_array().unwrap().len(), 3);
    }
}
