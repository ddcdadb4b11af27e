//! Options of `croft manifests` and `croft values`.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;

use crate::{
    engine::Part,
    manifests::{
        Installation,
        values::{Values, is_plain},
        values_yaml,
    },
    parts,
};

/// Flags count more than the file.
#[derive(Debug, Args)]
pub struct ManifestOptions {
    /// The operator's own namespace
    #[arg(long, default_value = "croft-system", value_name = "NAME")]
    pub namespace: String,

    /// YAML file with choices, as the Helm chart takes them; `croft values` prints all there are
    #[arg(long, short = 'f', value_name = "FILE")]
    pub values: Option<PathBuf>,

    /// The parts to run, and so the rights to grant; default: all
    #[arg(long, value_delimiter = ',', value_parser = parts::value_parser(), value_name = "PARTS")]
    pub enable: Vec<Part>,

    /// The operator's image where you pushed it; needed unless the operator runs outside the cluster
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// The namespace Velero runs in; default: velero
    #[arg(long, value_parser = plain_name, value_name = "NAME")]
    pub velero_namespace: Option<String>,

    /// Print Velero's namespace, too, so that Croft can be installed before Velero; `kubectl delete` then takes it away with Croft
    #[arg(long)]
    pub create_velero_namespace: bool,

    /// A user the fences around classes trust like the operator, such as that of a deployer; may be given several times
    #[arg(long, value_parser = plain_name, value_name = "USER")]
    pub trusted_user: Vec<String>,

    /// A namespace that takes no class, besides those the settings name; may be given several times
    #[arg(long, value_parser = plain_name, value_name = "NAME")]
    pub system_namespace: Vec<String>,

    /// Let no namespace with this label be without a class
    #[arg(long, value_parser = key_and_value, value_name = "LABEL=VALUE")]
    pub class_required: Option<(String, String)>,

    /// A class that will do for `--class-required`; may be given several times; default: any
    #[arg(long, value_parser = plain_name, value_name = "NAME", requires = "class_required")]
    pub required_class: Vec<String>,

    /// Let no backup run commands in pods, and keep the annotations by which Velero does off all pods
    #[arg(long)]
    pub without_hooks: bool,

    /// Point the webhook at this URL instead of the Service: for an operator outside the cluster
    #[arg(long, value_name = "URL")]
    pub webhook_url: Option<String>,
}

impl ManifestOptions {
    /// What was chosen, in the file and by flags.
    pub fn installation(&self) -> Result<Installation> {
        let mut values = match &self.values {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("cannot read {}", path.display()))?;
                Values::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?
            }
            None => Values::default(),
        };
        self.over(&mut values);
        let installation =
            Installation { namespace: self.namespace.clone(), webhook_url: self.webhook_url.clone(), values };
        ensure!(
            self.webhook_url.is_some() || !installation.values.image.repository.is_empty(),
            "which image? Say where you pushed it, for example --image registry.example.com/platform/croft:{}; \
             `make image` builds it and says how to push it",
            env!("CARGO_PKG_VERSION")
        );
        ensure!(!installation.parts().is_empty(), "parts: all are switched off; leave one of them on");
        Ok(installation)
    }

    fn over(&self, values: &mut Values) {
        if !self.enable.is_empty() {
            let is_on = |name: &str| self.enable.iter().any(|part| part.name() == name);
            values.parts.namespaces = is_on("namespaces");
            values.parts.storage = is_on("storage");
            values.parts.backup = is_on("backup");
        }
        if let Some(image) = &self.image {
            let (repository, tag, digest) = split(image);
            (values.image.repository, values.image.tag, values.image.digest) = (repository, tag, digest);
        }
        if let Some(namespace) = &self.velero_namespace {
            values.velero.namespace.clone_from(namespace);
        }
        values.velero.create_namespace |= self.create_velero_namespace;
        values.trusted_users.extend(self.trusted_user.iter().cloned());
        values.system_namespaces.extend(self.system_namespace.iter().cloned());
        if let Some((label, value)) = &self.class_required {
            values.class_required.label.clone_from(label);
            values.class_required.value.clone_from(value);
            values.class_required.classes.clone_from(&self.required_class);
        }
        if self.without_hooks {
            let backup = values.settings.entry("backup").or_insert_with(|| serde_json::json!({}));
            backup["hooks"] = false.into();
        }
    }
}

/// Where it is, its tag and its digest. What follows a colon in front of a slash is a port.
fn split(image: &str) -> (String, String, String) {
    let (image, digest) = image.split_once('@').unwrap_or((image, ""));
    let (repository, tag) = match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (image, ""),
    };
    (repository.to_owned(), tag.to_owned(), digest.to_owned())
}

#[derive(Debug, Args)]
pub struct ValueOptions {
    /// Print the JSON schema instead
    #[arg(long)]
    pub schema: bool,
}

impl ValueOptions {
    /// What is printed.
    pub fn text(&self) -> String {
        if self.schema { format!("{:#}\n", Values::schema()) } else { values_yaml() }
    }
}

fn plain_name(text: &str) -> Result<String, String> {
    if is_plain(text) { Ok(text.to_owned()) } else { Err("give letters, digits and - _ . / : @ only".to_owned()) }
}

/// `key=value` of a label.
fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if is_plain(key) && is_plain(value) => Ok((key.to_owned(), value.to_owned())),
        _ => Err("give a label and its value, such as example.com/tenant=yes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_told_apart_from_its_tag_and_the_port_of_its_registry() {
        let of = |image: &str| split(image);
        let expected = |repository: &str, tag: &str, digest: &str| (repository.into(), tag.into(), digest.into());
        assert_eq!(of("r:5000/croft"), expected("r:5000/croft", "", ""));
        assert_eq!(of("r:5000/croft:1"), expected("r:5000/croft", "1", ""));
        assert_eq!(of("r/croft@sha256:ab"), expected("r/croft", "", "sha256:ab"));
    }
}
