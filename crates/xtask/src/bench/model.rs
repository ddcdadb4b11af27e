//! What the operator has left behind in one namespace: texts that fit any other once its names and UIDs are filled in.
//!
//! Taken from the API server, so the generator needs to know nothing of how the operator makes them.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, ObjectMeta},
    core::DynamicObject,
};
use serde_json::{Value, json};

use super::{
    cluster::ITEM_SELECTOR,
    twin::{original_binding, renamed},
};

/// The names and UIDs in the texts are those of the namespace they were taken from.
pub(super) struct Model {
    namespace: String,
    namespace_uid: String,
    binding_uid: String,
    binding: String,
    status: String,
    pub(super) items: Vec<Item>,
}

/// One object of the class.
pub(super) struct Item {
    pub(super) name: String,
    uid: String,
    manifest: String,
}

/// UIDs of what a namespace has: its binding, and its objects in the order of the items.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) binding: String,
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
            status: renamed(&binding.data["status"].to_string()),
            binding: bare_binding(&binding),
            items: items.into_iter().map(Item::of).collect(),
        })
    }

    pub(super) fn binding(&self, namespace: &str, namespace_uid: &str) -> String {
        self.binding.replace(&self.namespace, namespace).replace(&self.namespace_uid, namespace_uid)
    }

    pub(super) fn manifest(&self, item: &Item, namespace: &str, binding_uid: &str) -> String {
        item.manifest.replace(&self.namespace, namespace).replace(&self.binding_uid, binding_uid)
    }

    pub(super) fn status(&self, owned: &Owned) -> String {
        let uids = self.items.iter().map(|item| item.uid.as_str()).zip(&owned.objects);
        uids.fold(self.status.clone(), |status, (model, own)| status.replace(model, own))
    }
}

impl Item {
    fn of(mut object: ConfigMap) -> Self {
        let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
        object.metadata = bare(object.metadata);
        Self { name, uid, manifest: renamed(&json!(object).to_string()) }
    }
}

fn bare_binding(binding: &DynamicObject) -> String {
    let (api_version, kind) = (&original_binding().api_version, &original_binding().kind);
    let metadata = bare(binding.meta().clone());
    let spec: &Value = &binding.data["spec"];
    renamed(&json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec }).to_string())
}

/// What the one who makes an object says, without what the API server adds.
fn bare(full: ObjectMeta) -> ObjectMeta {
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
