//! The bare generator: sends what the operator would leave behind, and nothing else. No watches, no decisions, no queue.
//!
//! It is the floor, so each of its requests is the cheapest that has the effect: what is not there is made, what is there is
//! patched in the one field that changes, and nothing is made sure of by a precondition. The same client library and account,
//! and per namespace the same order: the binding, whose UID the objects name as their owner; the objects side by side; the
//! binding's status, which names their UIDs.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use http::{Method, Request, header::CONTENT_TYPE};
use kube::{Client, Config};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{
    cluster::{IN_FLIGHT, client},
    model::{Item, Model, Owned},
    twin::twin_binding,
};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

#[derive(Clone)]
pub(super) struct Generator {
    client: Client,
    /// Requests that may be under way.
    permits: Arc<Semaphore>,
    models: Arc<Models>,
}

/// Both states of the class.
pub(super) struct Models {
    pub(super) before: Model,
    /// With another value in its first item.
    pub(super) after: Model,
    pub(super) value_after: &'static str,
}

/// All that is read of an answer.
#[derive(Deserialize)]
struct Made {
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    uid: String,
}

impl Generator {
    /// Acts with the rights of `config`.
    pub(super) fn new(config: Config, models: Models) -> Result<Self> {
        Ok(Self { client: client(config)?, permits: Arc::new(Semaphore::new(IN_FLIGHT)), models: Arc::new(models) })
    }

    /// 12 requests: the binding, ten objects, the status.
    pub(super) async fn onboard(&self, namespace: &str, namespace_uid: &str) -> Result<Owned> {
        let model = &self.models.before;
        let path = format!("{}?fieldManager=croft-operator", bindings(namespace));
        let made: Made = self.send(Method::POST, path, JSON, model.binding(namespace, namespace_uid)).await?;
        self.fill(model, namespace, made.metadata.uid).await
    }

    /// 11 requests: ten objects and the status.
    pub(super) async fn refill(&self, namespace: &str, owned: Owned) -> Result<Owned> {
        self.fill(&self.models.after, namespace, owned.binding).await
    }

    /// 2 requests: the first object and the status.
    pub(super) async fn change(&self, namespace: &str, owned: Owned) -> Result<Owned> {
        let model = &self.models.after;
        let item = model.items.first().context("a class without items")?;
        let path = format!("{}/{}?fieldManager=croft", objects(namespace), item.name);
        let change = json!({ "data": { "value": self.models.value_after } });
        self.send::<Made>(Method::PATCH, path, MERGE_PATCH, change.to_string()).await?;
        self.status(model, namespace, &owned).await?;
        Ok(owned)
    }

    /// 11 requests: each object and the binding.
    pub(super) async fn remove(&self, namespace: &str) -> Result<()> {
        let items = &self.models.after.items;
        try_join_all(items.iter().map(|item| self.delete(format!("{}/{}", objects(namespace), item.name)))).await?;
        self.delete(format!("{}/{namespace}", bindings(namespace))).await
    }

    async fn fill(&self, model: &Model, namespace: &str, binding: String) -> Result<Owned> {
        let made = try_join_all(model.items.iter().map(|item| self.make(model, item, namespace, &binding))).await?;
        let objects = made.into_iter().map(|made| made.metadata.uid).collect();
        let owned = Owned { binding, objects };
        self.status(model, namespace, &owned).await?;
        Ok(owned)
    }

    async fn make(&self, model: &Model, item: &Item, namespace: &str, binding_uid: &str) -> Result<Made> {
        let path = format!("{}?fieldManager=croft", objects(namespace));
        self.send(Method::POST, path, JSON, model.manifest(item, namespace, binding_uid)).await
    }

    async fn delete(&self, path: String) -> Result<()> {
        self.send::<Value>(Method::DELETE, path, JSON, String::new()).await?;
        Ok(())
    }

    async fn status(&self, model: &Model, namespace: &str, owned: &Owned) -> Result<()> {
        let path = format!("{}/{namespace}/status?fieldManager=croft-operator", bindings(namespace));
        let addition = format!(r#"[{{"op":"add","path":"/status","value":{}}}]"#, model.status(owned));
        self.send::<Made>(Method::PATCH, path, JSON_PATCH, addition).await?;
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

fn objects(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

fn bindings(namespace: &str) -> String {
    let kind = twin_binding();
    format!("/apis/{}/namespaces/{namespace}/{}", kind.api_version, kind.plural)
}
