//! What the operator has left behind in one namespace: texts that fit any other once its names and UIDs are filled in.
//!
//! Taken from the API server, so the generator needs to know nothing of how the operator makes them.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectMeta},
    core::DynamicObject,
};
use serde_json::{Value, json};

use super::{
    cluster::ITEM_SELECTOR,
    twin::{original_binding, renamed},
};

/// Stands for the version that is known only when a text is sent.
const VERSION: &str = "version-to-be";

/// The names and UIDs in the texts are those of the namespace they were taken from.
pub(super) struct Model {
    namespace: String,
    namespace_uid: String,
    binding_uid: String,
    binding: String,
    /// The binding with its status, as a PUT of the status wants it.
    status: String,
    pub(super) items: Vec<Item>,
}

/// One object of the class.
pub(super) struct Item {
    pub(super) name: String,
    uid: String,
    manifest: String,
}

/// What a namespace has: UIDs of its binding and of its objects, in the order of the items.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) binding: String,
    /// The binding's resourceVersion.
    pub(super) version: String,
    pub(super) objects: Vec<String>,
}

impl Model {
    pub(super) async fn of(admin: &Client, namespace: &str) -> Result<Self> {
        let home = Api::<Namespace>::all(admin.clone()).get(namespace).await?;
        let bindings: Api<DynamicObject> = Api::namespaced_with(admin.clone(), namespace, &original_binding());
        let binding = bindings.get(namespace).await?;
        let items = Api::<ConfigMap>::namespaced(admin.clone(), namespace);
        let items = items.list(&ListParams::default().labels(ITEM_SELECTOR)).await?;
        Ok(Self {
            namespace: namespace.to_owned(),
            namespace_uid: home.uid().context("a namespace without UID")?,
            binding_uid: binding.uid().context("a binding without UID")?,
            status: binding_with("status", &binding, &at_a_version(&binding.metadata)),
            binding: binding_with("spec", &binding, &bare(&binding.metadata)),
            items: items.into_iter().map(Item::of).collect(),
        })
    }

    pub(super) fn binding(&self, namespace: &str, namespace_uid: &str) -> String {
        self.binding.replace(&self.namespace, namespace).replace(&self.namespace_uid, namespace_uid)
    }

    pub(super) fn manifest(&self, item: &Item, namespace: &str, binding_uid: &str) -> String {
        item.manifest.replace(&self.namespace, namespace).replace(&self.binding_uid, binding_uid)
    }

    pub(super) fn status(&self, namespace: &str, owned: &Owned) -> String {
        let status = self.status.replace(&self.namespace, namespace).replace(VERSION, &owned.version);
        let uids = self.items.iter().map(|item| item.uid.as_str()).zip(&owned.objects);
        uids.fold(status, |status, (model, own)| status.replace(model, own))
    }
}

impl Item {
    fn of(mut object: ConfigMap) -> Self {
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        object.metadata = bare(&object.metadata);
        Self { name, uid, manifest: renamed(&json!(object).to_string()) }
    }
}

/// The binding with one of its parts.
fn binding_with(part: &str, binding: &DynamicObject, metadata: &ObjectMeta) -> String {
    let (api_version, kind) = (&original_binding().api_version, &original_binding().kind);
    let value: &Value = &binding.data[part];
    renamed(&json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, part: value }).to_string())
}

/// All that a PUT of the status needs to know.
fn at_a_version(full: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: full.name.clone(),
        namespace: full.namespace.clone(),
        resource_version: Some(VERSION.to_owned()),
        ..ObjectMeta::default()
    }
}

/// What the one who makes an object says, without what the API server adds.
fn bare(full: &ObjectMeta) -> ObjectMeta {
    let full = full.clone();
    ObjectMeta {
        name: full.name,
        namespace: full.namespace,
        labels: full.labels,
        annotations: full.annotations,
        owner_references: full.owner_references,
        finalizers: full.finalizers,
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_another_namespace_name_nothing_of_the_model() {
        let item = Item { name: "a".into(), uid: "uid-a".into(), manifest: r#"{"in":"model","owner":"uid-b"}"#.into() };
        let model = Model {
            namespace: "model".into(),
            namespace_uid: "uid-n".into(),
            binding_uid: "uid-b".into(),
            binding: r#"{"in":"model","owner":"uid-n"}"#.into(),
            status: format!(r#"{{"in":"model","version":"{VERSION}","object":"uid-a"}}"#),
            items: vec![item],
        };
        let owned = Owned { binding: "B".into(), version: "7".into(), objects: vec!["A".into()] };
        assert_eq!(model.binding("plot", "N"), r#"{"in":"plot","owner":"N"}"#);
        assert_eq!(model.manifest(&model.items[0], "plot", "B"), r#"{"in":"plot","owner":"B"}"#);
        assert_eq!(model.status("plot", &owned), r#"{"in":"plot","version":"7","object":"A"}"#);
    }
}
