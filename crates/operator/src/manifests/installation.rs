//! An installation as it was chosen: values, and what follows from them.

use serde_json::{Map, Value, json};

use super::{
    around::CERTIFICATE,
    values::{ClassRequired, Values},
};
use crate::{
    engine::Part,
    parts,
    settings::{BackupSettings, NamespacesSettings, Settings, StorageSettings},
    version,
};

/// Everything the manifests are made from.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The operator's own namespace.
    pub namespace: String,
    /// How the API server reaches an operator that runs outside of the cluster: nothing of it is then installed inside.
    pub webhook_url: Option<String>,
    pub values: Values,
}

impl Installation {
    /// The parts that run.
    pub fn parts(&self) -> Vec<Part> {
        let chosen = &self.values.parts;
        let is_chosen = |part: &Part| match part.name() {
            "namespaces" => chosen.namespaces,
            "storage" => chosen.storage,
            "backup" => chosen.backup,
            _ => false,
        };
        parts::PARTS.iter().map(|definition| definition.part).filter(is_chosen).collect()
    }

    pub fn velero_namespace(&self) -> &str {
        &self.values.velero.namespace
    }

    /// Which namespaces must have a class, if any.
    pub fn class_required(&self) -> Option<&ClassRequired> {
        Some(&self.values.class_required).filter(|required| !required.label.is_empty())
    }

    /// Whether tenants' backups may run commands in pods.
    pub fn allows_hooks(&self) -> bool {
        self.set("backup", "hooks").and_then(Value::as_bool).unwrap_or(BackupSettings::default().hooks)
    }

    /// The namespaces no class is applied to, sorted.
    pub fn system_namespaces(&self) -> Vec<String> {
        let mut names = NamespacesSettings::default().system_namespaces;
        names.extend([self.namespace.clone(), self.velero_namespace().to_owned()]);
        names.extend(self.values.system_namespaces.iter().cloned());
        let set = self.set("namespaces", "systemNamespaces").and_then(Value::as_array);
        names.extend(set.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
        names.sort();
        names.dedup();
        names
    }

    /// The image, as pods name it.
    pub fn image(&self) -> String {
        let image = &self.values.image;
        let tag = if image.tag.is_empty() { version::VERSION } else { &image.tag };
        match image.digest.as_str() {
            "" => format!("{}:{tag}", image.repository),
            digest => format!("{}@{digest}", image.repository),
        }
    }

    /// The settings file: what was set, and what follows from the other values.
    pub fn settings(&self) -> Value {
        let mut settings = self.values.settings.clone();
        put(&mut settings, "namespaces", "systemNamespaces", json!(self.system_namespaces()));
        put(&mut settings, "backup", "veleroNamespace", json!(self.velero_namespace()));
        if self.set("storage", "restorers").is_none() {
            put(&mut settings, "storage", "restorers", json!(self.restorers()));
        }
        if self.values.cert_manager.enabled {
            put(&mut settings, "admission", "certificateSecret", json!(CERTIFICATE));
        }
        Value::Object(settings)
    }

    /// Settings that are read at the start only: where they change, the operator has to start anew.
    pub fn read_at_start(&self) -> String {
        let concurrency = self.values.settings.get("concurrency").cloned();
        let concurrency = concurrency.unwrap_or_else(|| json!(Settings::default().concurrency));
        format!("concurrency={concurrency} veleroNamespace={}", self.velero_namespace())
    }

    fn restorers(&self) -> Vec<String> {
        let mut restorers = StorageSettings::default().restorers;
        let velero = format!("system:serviceaccount:{}:velero", self.velero_namespace());
        if !restorers.contains(&velero) {
            restorers.push(velero);
        }
        restorers
    }

    fn set(&self, part: &str, key: &str) -> Option<&Value> {
        self.values.settings.get(part)?.get(key)
    }
}

fn put(settings: &mut Map<String, Value>, part: &str, key: &str, value: Value) {
    let part = settings.entry(part).or_insert_with(|| Value::Object(Map::new()));
    if let Some(part) = part.as_object_mut() {
        part.insert(key.to_owned(), value);
    }
}
