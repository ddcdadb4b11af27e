//! One fresh API server with the operator installed on it and many namespaces, and what the administrator does there.

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use croft_api::namespaces::NamespaceClass;
use croft_testbed::{Installed, Operator, Testbed, wait};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{
    Api, Client, Config, Resource,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
    client::{Body, ClientBuilder},
};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::twin;

/// As many as the operator works on at once by default.
pub(super) const IN_FLIGHT: usize = 32;
pub(super) const ITEMS: usize = 10;
const PART_OF: &str = "app.kubernetes.io/part-of";
/// Finds the objects of both sides.
pub(super) const ITEM_SELECTOR: &str = "app.kubernetes.io/part-of=bench";
/// Of one item, as the class has it.
const ITEM_BYTES: usize = 450;
const SETTLE_LIMIT: Duration = Duration::from_secs(120);
const CLASS_LIMIT: Duration = Duration::from_secs(20);
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Dropped in this order: what uses before what is used.
pub(super) struct Cluster {
    pub(super) admin: Client,
    pub(super) installed: Installed,
    pub(super) bed: Testbed,
}

impl Cluster {
    pub(super) async fn start(program: &Path) -> Result<Self> {
        let bed = Testbed::kubernetes().collecting_on_request().start().await?;
        let installed = Installed::new(&bed, program).await?;
        twin::install(&bed.admin().client, &installed.identity.name).await?;
        Ok(Self { admin: client(bed.admin().config())?, installed, bed })
    }

    pub(super) async fn start_operator(&self, name: &str) -> Result<Operator> {
        let operator = self.installed.start(&self.bed, name, &self.installed.identity.kubeconfig, &[])?;
        operator.ready(READY_LIMIT).await?;
        Ok(operator)
    }

    /// Makes namespaces without a class and waits until Kubernetes has furnished them itself.
    pub(super) async fn make_namespaces(&self, names: &[String]) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.admin.clone());
        in_flight(names, move |name| {
            let api = api.clone();
            async move {
                let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
                api.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await?;
                Ok(())
            }
        })
        .await?;
        let all = self.count::<Namespace>("").await?;
        wait::until("the new namespaces to settle", SETTLE_LIMIT, || async {
            let accounts = self.count::<ServiceAccount>("metadata.name=default").await?;
            let roots = self.count::<ConfigMap>("metadata.name=kube-root-ca.crt").await?;
            Ok((accounts >= all && roots >= all).then_some(()))
        })
        .await
    }

    async fn count<K>(&self, fields: &str) -> Result<usize>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let params = if fields.is_empty() { ListParams::default() } else { ListParams::default().fields(fields) };
        Ok(Api::<K>::all(self.admin.clone()).list_metadata(&params).await?.items.len())
    }

    /// Applies a class with `value` in its first item; tells its generation. The first attempts may be too early for the
    /// webhook.
    pub(super) async fn apply_class(&self, name: &str, value: &str) -> Result<i64> {
        let api: Api<NamespaceClass> = Api::all(self.admin.clone());
        let class = class_of(name, &items(value));
        let class = wait::until("the class to be accepted", CLASS_LIMIT, || async {
            Ok(Some(api.patch(name, &PatchParams::apply("bench").force(), &Patch::Apply(&class)).await?))
        })
        .await?;
        Ok(class.metadata.generation.unwrap_or_default())
    }

    /// Waits until the operator says that the class is in force everywhere.
    pub(super) async fn class_is_settled(&self, name: &str) -> Result<()> {
        let api: Api<NamespaceClass> = Api::all(self.admin.clone());
        wait::until("the class to be rolled out", CLASS_LIMIT, || async {
            let class = api.get(name).await?;
            let conditions = class.status.map(|status| status.conditions).unwrap_or_default();
            Ok(conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True").then_some(()))
        })
        .await
    }

    pub(super) async fn delete_class(&self, name: &str) -> Result<()> {
        let api: Api<NamespaceClass> = Api::all(self.admin.clone());
        api.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Sets or removes a label of many namespaces.
    pub(super) async fn label(&self, names: &[String], label: &str, value: Option<&str>) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.admin.clone());
        let patch = Arc::new(json!({ "metadata": { "labels": { label: value } } }));
        in_flight(names, move |name| {
            let (api, patch) = (api.clone(), patch.clone());
            async move {
                api.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&*patch)).await?;
                Ok(())
            }
        })
        .await
    }

    /// Lets the API server collect its garbage now, so that it does not have to during the next lap: one collection more or
    /// less, by chance, is a third of it. A server that offers no profiles answers that, and collects when it likes.
    pub(super) async fn collect_garbage(&self) -> Result<()> {
        self.admin.send(Request::get("/debug/pprof/heap?gc=1").body(Body::empty())?).await?;
        Ok(())
    }

    /// Deletes all objects of a class, or of its twin, in one namespace.
    pub(super) async fn delete_items(admin: Client, namespace: &str) -> Result<()> {
        let api: Api<ConfigMap> = Api::namespaced(admin, namespace);
        api.delete_collection(&DeleteParams::default(), &ListParams::default().labels(ITEM_SELECTOR)).await?;
        Ok(())
    }
}

/// A client of the kind the operator has: the same library, no retries.
pub(super) fn client(mut config: Config) -> Result<Client> {
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.build())
}

/// A class with `value` in all of its items.
pub(super) fn class_with(name: &str, value: &str) -> Value {
    class_of(name, &(0..ITEMS).map(|index| item(index, value)).collect::<Vec<_>>())
}

fn class_of(name: &str, items: &[Map<String, Value>]) -> Value {
    json!({
        "apiVersion": "akuity.io/v1alpha1",
        "kind": "NamespaceClass",
        "metadata": { "name": name },
        "spec": { "resources": items },
    })
}

/// The objects of a class; `value` is in the first.
fn items(value: &str) -> Vec<Map<String, Value>> {
    (0..ITEMS).map(|index| item(index, if index == 0 { value } else { "same" })).collect()
}

fn item(index: usize, value: &str) -> Map<String, Value> {
    let body = |filling: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": format!("item-{index}"), "labels": { PART_OF: "bench" } },
            "data": { "value": value, "namespace": "{{ namespace.name }}", "filling": filling },
        })
    };
    let filling = "x".repeat(ITEM_BYTES.saturating_sub(body("").to_string().len()));
    body(&filling).as_object().cloned().unwrap_or_default()
}

/// Does `work` for every name, [`IN_FLIGHT`] at once, on all threads; ends at the first error.
pub(super) async fn in_flight<Work, Done>(names: &[String], work: Work) -> Result<()>
where
    Work: Fn(String) -> Done + Clone + Send + Sync + 'static,
    Done: Future<Output = Result<()>> + Send + 'static,
{
    let names: Arc<[String]> = names.into();
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (names, next, work) = (names.clone(), next.clone(), work.clone());
        workers.spawn(async move {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                work(name.clone()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(())
}
