//! The bare generator: sends what the operator would leave behind, and nothing else. No watches, no decisions, no queue.
//!
//! The same client library, account and field managers, the same bytes, and per namespace the same order: the binding, whose
//! UID the objects name as their owner; the objects side by side; the binding's status, which names their UIDs.

use std::sync::Arc;

use anyhow::{Context, Result};
use croft_api::namespaces::{NamespaceClass, NamespaceClassSpec, validate::validate};
use croft_core::namespaces::{manifest::Stamp, template::Facts};
use futures::future::try_join_all;
use http::{Method, Request, header::CONTENT_TYPE};
use kube::{Client, Config};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::cluster::{CLASS, IN_FLIGHT, client, items};

const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
/// Stand in the rendered texts for what is known only when they are sent.
const NAMESPACE: &str = "namespace-to-be";
const OWNER: &str = "00000000-0000-0000-0000-000000000000";
const NOW: &str = "2026-01-01T00:00:00Z";

#[derive(Clone)]
pub(super) struct Generator {
    client: Client,
    /// Requests that may be under way.
    permits: Arc<Semaphore>,
    items: Arc<[Item]>,
    generation: i64,
}

/// One object of the class, rendered by the operator's own code.
struct Item {
    name: String,
    manifest: String,
}

/// All that is read of an answer.
#[derive(Deserialize)]
struct Made {
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    uid: String,
}

impl Generator {
    /// Acts with the rights of `config`; `value` is what the class has in its first item at `generation`.
    pub(super) fn new(config: Config, value: &str, generation: i64) -> Result<Self> {
        Ok(Self {
            client: client(config)?,
            permits: Arc::new(Semaphore::new(IN_FLIGHT)),
            items: rendered(value)?.into(),
            generation,
        })
    }

    /// The same generator at another state of the class.
    pub(super) fn at(&self, value: &str, generation: i64) -> Result<Self> {
        Ok(Self { items: rendered(value)?.into(), generation, ..self.clone() })
    }

    /// 12 requests: the binding, ten objects, the status.
    pub(super) async fn onboard(&self, namespace: &str, namespace_uid: &str) -> Result<Owned> {
        let binding = binding(namespace, namespace_uid).to_string();
        let path = format!("{}?fieldManager=croft-operator", bindings(namespace));
        let made: Made = self.send(Method::POST, path, JSON, binding).await?;
        self.refill(namespace, &made.metadata.uid).await
    }

    /// 11 requests: ten objects and the status.
    pub(super) async fn refill(&self, namespace: &str, owner: &str) -> Result<Owned> {
        let made = try_join_all(self.items.iter().map(|item| self.apply(namespace, owner, item))).await?;
        let objects = made.into_iter().map(|made| (made.metadata.name, made.metadata.uid)).collect();
        let plot = Owned { binding: owner.to_owned(), objects };
        self.status(namespace, &plot).await?;
        Ok(plot)
    }

    /// 2 requests: the first object and the status.
    pub(super) async fn change(&self, namespace: &str, owned: &Owned) -> Result<()> {
        let item = self.items.first().context("a class without items")?;
        self.apply(namespace, &owned.binding, item).await?;
        self.status(namespace, owned).await
    }

    /// 11 requests: each object and the binding, and only exactly these.
    pub(super) async fn remove(&self, namespace: &str, owned: &Owned) -> Result<()> {
        let objects = owned.objects.iter().map(|(name, uid)| {
            let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
            self.delete(path, uid)
        });
        try_join_all(objects).await?;
        self.delete(format!("{}/{namespace}", bindings(namespace)), &owned.binding).await
    }

    async fn delete(&self, path: String, uid: &str) -> Result<()> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": { "uid": uid },
        });
        self.send::<Value>(Method::DELETE, path, JSON, options.to_string()).await?;
        Ok(())
    }

    async fn apply(&self, namespace: &str, owner: &str, item: &Item) -> Result<Made> {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{}?fieldManager=croft&force=true", item.name);
        let manifest = item.manifest.replace(NAMESPACE, namespace).replace(OWNER, owner);
        self.send(Method::PATCH, path, APPLY, manifest).await
    }

    async fn status(&self, namespace: &str, owned: &Owned) -> Result<()> {
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": owned.binding },
            { "op": "add", "path": "/status", "value": status(self.generation, owned) },
        ]);
        let status = format!("{}/{namespace}/status?fieldManager=croft-operator", bindings(namespace));
        self.send::<Made>(Method::PATCH, status, JSON_PATCH, patch.to_string()).await?;
        Ok(())
    }

    async fn send<Answer: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        content: &'static str,
        body: String,
    ) -> Result<Answer> {
        let _permit = self.permits.acquire().await?;
        let request = Request::builder().method(method).uri(&path).header(CONTENT_TYPE, content);
        self.client.request(request.body(body.into_bytes())?).await.with_context(|| format!("sending {path}"))
    }
}

/// What a namespace has: its binding's UID, and name and UID of its objects.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    binding: String,
    objects: Vec<(String, String)>,
}

impl Owned {
    pub(super) fn binding(&self) -> &str {
        &self.binding
    }
}

fn bindings(namespace: &str) -> String {
    format!("/apis/akuity.io/v1alpha1/namespaces/{namespace}/namespaceclassbindings")
}

fn rendered(value: &str) -> Result<Vec<Item>> {
    let class = NamespaceClass::new(CLASS, NamespaceClassSpec { resources: items(value), ..Default::default() });
    let facts = Facts { name: NAMESPACE.into(), ..Facts::default() };
    let items = validate(&class).and_then(|blueprint| blueprint.items(&facts));
    let items = items.map_err(|problems| anyhow::anyhow!("the class is not well formed: {problems:?}"))?;
    let stamp = Stamp { namespace: NAMESPACE, class: CLASS, binding_uid: OWNER, protect: false };
    let items = items.iter().map(|item| {
        let rendered = item.stamped(&stamp);
        Item { name: rendered.identity.name, manifest: rendered.manifest.to_string() }
    });
    Ok(items.collect())
}

fn binding(namespace: &str, namespace_uid: &str) -> Value {
    json!({
        "apiVersion": "akuity.io/v1alpha1",
        "kind": "NamespaceClassBinding",
        "metadata": {
            "name": namespace,
            "namespace": namespace,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Namespace", "name": namespace, "uid": namespace_uid,
                "controller": true, "blockOwnerDeletion": false,
            }],
        },
        "spec": { "className": CLASS },
    })
}

fn status(generation: i64, owned: &Owned) -> Value {
    let applied = owned.objects.iter().map(|(name, uid)| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "state": "Applied",
            "digest": "0123456789abcdef.0123456789abcdef.0123456789abcdef",
        })
    });
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "observedGeneration": 1, "lastTransitionTime": NOW,
            "reason": "ReconcileSuccess",
            "message": format!("Successfully applied {} resources from class {CLASS}", owned.objects.len()),
        })
    };
    json!({
        "observedGeneration": 1,
        "observedClassName": CLASS,
        "observedClassUID": owned.binding,
        "observedClassGeneration": generation,
        "appliedResources": applied.collect::<Vec<_>>(),
        "conditions": [condition("Ready", "True"), condition("Reconciling", "False"), condition("Stalled", "False")],
    })
}
