//! Whether what came back is what was lost, field by field.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kube::{Api, Client, ResourceExt, api::ListParams};
use serde_json::Value;

use crate::story::Kind;

/// Every value of every object, by `kind/name` and path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<String, Fields>);

type Fields = BTreeMap<String, String>;

impl Snapshot {
    /// What the tenant's own Deployment, `ConfigMap`s and Secrets say right now.
    pub(super) async fn take(client: &Client, namespace: &str, label: &str) -> Result<Self> {
        let mut objects = BTreeMap::new();
        collect::<Deployment>(client, namespace, label, &mut objects).await?;
        collect::<ConfigMap>(client, namespace, label, &mut objects).await?;
        collect::<Secret>(client, namespace, label, &mut objects).await?;
        Ok(Self(objects))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One line per object, or an error that names every difference. Values are never shown: some are secret.
    pub(super) fn compare(&self, now: &Self) -> Result<String> {
        ensure!(!self.is_empty(), "there was nothing to compare with");
        let mut report = String::new();
        for (name, before) in &self.0 {
            let Some(after) = now.0.get(name) else { bail!("{name} did not come back") };
            let paths: BTreeSet<_> = before.keys().chain(after.keys()).map(String::as_str).collect();
            let differing: Vec<_> = paths.into_iter().filter(|path| before.get(*path) != after.get(*path)).collect();
            ensure!(differing.is_empty(), "{name} came back different in {}", differing.join(", "));
            let _ = writeln!(report, "{name:<24} {:>3} fields identical", before.len());
        }
        Ok(report)
    }
}

async fn collect<K: Kind>(
    client: &Client,
    namespace: &str,
    label: &str,
    objects: &mut BTreeMap<String, Fields>,
) -> Result<()> {
    let api = Api::<K>::namespaced(client.clone(), namespace);
    for object in api.list(&ListParams::default().labels(label)).await? {
        let mut fields = Fields::new();
        flatten(&what_matters(&object)?, String::new(), &mut fields);
        objects.insert(format!("{}/{}", K::kind(&()).to_lowercase(), object.name_any()), fields);
    }
    Ok(())
}

/// The object without its status and without what the API server and Velero note on every object.
fn what_matters<K: Kind>(object: &K) -> Result<Value> {
    let mut value = serde_json::to_value(object)?;
    let mut labels = value["metadata"]["labels"].take();
    if let Some(labels) = labels.as_object_mut() {
        labels.retain(|name, _| !name.starts_with("velero.io/"));
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("status");
        fields.insert("metadata".to_owned(), serde_json::json!({ "labels": labels }));
    }
    Ok(value)
}

fn flatten(value: &Value, path: String, fields: &mut Fields) {
    match value {
        Value::Object(inner) => inner.iter().for_each(|(name, value)| flatten(value, format!("{path}.{name}"), fields)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| flatten(value, format!("{path}[{index}]"), fields));
        }
        leaf => {
            fields.insert(path, leaf.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn snapshot(data: &Value) -> Snapshot {
        let mut fields = Fields::new();
        flatten(data, String::new(), &mut fields);
        Snapshot(BTreeMap::from([("secret/shop".to_owned(), fields)]))
    }

    #[test]
    fn a_difference_is_named_by_its_path_and_not_by_its_value() {
        let before = snapshot(&json!({ "data": { "password": "old", "user": "a" } }));
        let after = snapshot(&json!({ "data": { "password": "new", "user": "a" } }));
        let error = before.compare(&after).unwrap_err().to_string();
        assert_eq!(error, "secret/shop came back different in .data.password");
        assert!(before.compare(&before).unwrap().contains("2 fields identical"));
    }

    #[test]
    fn an_object_that_did_not_come_back_is_named() {
        let error = snapshot(&json!({})).compare(&Snapshot(BTreeMap::new())).unwrap_err().to_string();
        assert_eq!(error, "secret/shop did not come back");
    }
}
