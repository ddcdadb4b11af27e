//! What the tests of this program start from: a class, a namespace, and what is to be seen in it.

use std::{fmt::Debug, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use croft_api::namespaces::{AppliedResource, CLASS_LABEL, NamespaceClass, NamespaceClassBinding};
use croft_testbed::{
    FaultProxy, Installed, Operator, Testbed,
    fault::{Action, Match},
};
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::support::{PATIENCE, Shared, World, eventually, shared};

/// The cluster and the operator all tests share that neither kill nor restart anything.
pub(crate) async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

pub(crate) fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

pub(crate) fn config_maps(items: &[(&str, &str)]) -> Value {
    json!({"resources": items.iter().map(|(name, value)| config_map(name, value)).collect::<Vec<_>>()})
}

/// A kind of somebody else's, `Namespaced` or `Cluster`, of any content.
pub(crate) fn crd(group: &str, kind: &str, plural: &str, scope: &str) -> String {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": scope,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    crd.to_string()
}

/// What an administrator grants so that classes may contain a kind.
pub(crate) fn may_be_in_classes(group: &str, plural: &str) -> String {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": format!("classes-contain-{plural}"),
            "labels": {"croft.dev/aggregate-to-namespace-classes": "true"},
        },
        "rules": [{
            "apiGroups": [group],
            "resources": [plural],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }],
    });
    role.to_string()
}

/// A class, in the hands of an administrator.
pub(crate) struct Class {
    pub(crate) api: Api<NamespaceClass>,
    pub(crate) name: String,
}

impl Class {
    pub(crate) fn named(client: Client, name: &str) -> Self {
        Self { api: Api::all(client), name: name.to_owned() }
    }

    /// A class of config maps.
    pub(crate) async fn define(client: Client, name: &str, items: &[(&str, &str)]) -> Result<Self> {
        Self::with_spec(client, name, config_maps(items)).await
    }

    pub(crate) async fn with_spec(client: Client, name: &str, spec: Value) -> Result<Self> {
        let class = Self::named(client, name);
        // Right after the start the API server may not trust the operator's certificate yet.
        eventually(&format!("class {name} to be judged"), || async {
            match class.set_spec(spec.clone()).await {
                Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook") => Ok(None),
                judged => Ok(Some(judged)),
            }
        })
        .await?;
        Ok(class)
    }

    pub(crate) async fn set(&self, items: &[(&str, &str)]) -> Result<()> {
        self.set_spec(config_maps(items)).await?;
        Ok(())
    }

    pub(crate) async fn set_spec(&self, spec: Value) -> kube::Result<NamespaceClass> {
        let class = json!({
            "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": self.name}, "spec": spec,
        });
        self.api.patch(&self.name, &PatchParams::apply("test").force(), &Patch::Apply(&class)).await
    }

    /// Gone, finalizers and all.
    pub(crate) async fn delete(&self) -> Result<()> {
        self.api.delete(&self.name, &DeleteParams::default()).await?;
        gone(&self.api, &self.name).await;
        Ok(())
    }

    /// Waits until its status is as `check` wants it.
    pub(crate) async fn status(
        &self,
        what: &str,
        check: impl Fn(&croft_api::namespaces::NamespaceClassStatus) -> bool,
    ) -> NamespaceClass {
        eventually(&format!("class {} to have {what}", self.name), || async {
            let class = self.api.get(&self.name).await?;
            let status = class.status.clone().unwrap_or_default();
            if check(&status) { Ok(Some(class)) } else { bail!("it says {}", json!(status)) }
        })
        .await
    }
}

/// What the API server says to a class like this.
pub(crate) async fn refusal(name: &str, spec: Value) -> String {
    let class = Class::named(world().await.client(), name);
    // Without its certificate in place the webhook lets everything pass.
    eventually(&format!("class {name} to be refused"), || async {
        match class.set_spec(spec.clone()).await {
            Err(kube::Error::Api(status)) if status.code == 422 => Ok(Some(status.message)),
            Err(error) => Err(error.into()),
            Ok(_) => {
                class.api.delete(name, &DeleteParams::default()).await?;
                anyhow::bail!("it was let in")
            }
        }
    })
    .await
}

/// A namespace, as an administrator sees it.
pub(crate) struct Space {
    pub(crate) client: Client,
    pub(crate) name: String,
}

impl Space {
    pub(crate) async fn new(bed: &Testbed, prefix: &str) -> Result<Self> {
        let name = bed.namespace(prefix).await?;
        Ok(Self { client: bed.admin().client.clone(), name })
    }

    /// A new namespace that asks for `class`.
    pub(crate) async fn of(bed: &Testbed, prefix: &str, class: &str) -> Result<Self> {
        let space = Self::new(bed, prefix).await?;
        space.label(Some(class)).await?;
        Ok(space)
    }

    pub(crate) fn namespaces(&self) -> Api<v1::Namespace> {
        Api::all(self.client.clone())
    }

    /// Objects of one kind in it.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    pub(crate) fn config_maps(&self) -> Api<v1::ConfigMap> {
        self.api()
    }

    pub(crate) fn bindings(&self) -> Api<NamespaceClassBinding> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Chooses a class, or none.
    pub(crate) async fn label(&self, class: Option<&str>) -> Result<()> {
        self.merge(json!({"metadata": {"labels": {CLASS_LABEL: class}}})).await
    }

    pub(crate) async fn annotate(&self, key: &str, value: Option<&str>) -> Result<()> {
        self.merge(json!({"metadata": {"annotations": {key: value}}})).await
    }

    /// Changes the Namespace itself.
    pub(crate) async fn merge(&self, patch: Value) -> Result<()> {
        self.namespaces().patch(&self.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Somebody makes an object that has nothing to do with any class.
    pub(crate) async fn stranger_makes(&self, manifest: Value) -> Result<v1::ConfigMap> {
        Ok(self.config_maps().create(&PostParams::default(), &serde_json::from_value(manifest)?).await?)
    }

    /// Somebody called `manager` changes a config map.
    pub(crate) async fn edit(&self, name: &str, manager: &str, patch: Value) -> Result<v1::ConfigMap> {
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        Ok(self.config_maps().patch(name, &params, &Patch::Merge(&patch)).await?)
    }

    /// Waits for a config map.
    pub(crate) async fn has(&self, name: &str) -> v1::ConfigMap {
        let api = self.config_maps();
        eventually(&format!("ConfigMap {}/{name}", self.name), || async { Ok(api.get_opt(name).await?) }).await
    }

    /// Waits for a config map whose `key` is `value`.
    pub(crate) async fn has_value(&self, name: &str, value: &str) -> v1::ConfigMap {
        let api = self.config_maps();
        eventually(&format!("ConfigMap {}/{name} with {value}", self.name), || async {
            let Some(object) = api.get_opt(name).await? else { bail!("there is none") };
            let found = object.data.iter().flatten().find(|(key, _)| *key == "key").map(|(_, value)| value.clone());
            if found.as_deref() == Some(value) { Ok(Some(object)) } else { bail!("it has {found:?}") }
        })
        .await
    }

    /// Waits until a config map is gone.
    pub(crate) async fn lacks(&self, name: &str) {
        gone(&self.config_maps(), name).await;
    }

    /// Names of the config maps in it, without the one Kubernetes keeps everywhere.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let list = self.config_maps().list(&ListParams::default()).await?;
        Ok(list.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt").collect())
    }

    /// Waits until its binding gives this reason.
    pub(crate) async fn says(&self, reason: &str) -> NamespaceClassBinding {
        eventually(&format!("the binding of {} to say {reason}", self.name), || async {
            let Some(binding) = self.bindings().get_opt(&self.name).await? else { bail!("no binding") };
            let ready = condition(&binding, "Ready").context("no condition yet")?;
            if ready.reason == reason {
                Ok(Some(binding))
            } else {
                bail!("it says {}: {}", ready.reason, ready.message)
            }
        })
        .await
    }

    /// Waits until everything of `class` in its present form stands.
    pub(crate) async fn follows(&self, class: &Class) -> NamespaceClassBinding {
        eventually(&format!("{} to have all of {}", self.name, class.name), || async {
            let wanted = class.api.get(&class.name).await?;
            let Some(binding) = self.bindings().get_opt(&self.name).await? else { bail!("no binding") };
            let ready = condition(&binding, "Ready").context("no condition yet")?;
            let status = binding.status.clone().unwrap_or_default();
            let same = status.observed_class_uid == wanted.uid()
                && status.observed_class_generation == wanted.metadata.generation;
            if same && ready.status == "True" {
                return Ok(Some(binding));
            }
            bail!("it says {}: {}", ready.reason, ready.message)
        })
        .await
    }

    pub(crate) async fn is_unbound(&self) {
        gone(&self.bindings(), &self.name).await;
    }

    /// Waits for an event about the namespace or its binding; gives its text.
    pub(crate) async fn event(&self, reason: &str) -> String {
        let events: Api<Event> = Api::all(self.client.clone());
        let about_us =
            |event: &&Event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(&self.name);
        eventually(&format!("an event {reason} about {}", self.name), || async {
            let list = events.list(&ListParams::default().fields(&format!("reason={reason}"))).await?;
            Ok(list.iter().find(about_us).map(|event| event.note.clone().unwrap_or_default()))
        })
        .await
    }
}

/// One operator behind a proxy, for tests that look at, or disturb, their own namespace only.
pub(crate) async fn proxied() -> &'static Proxied {
    static PROXIED: OnceCell<(Proxied, Operator)> = OnceCell::const_new();
    let start = Box::pin(async {
        let proxied = Proxied::new().await?;
        let operator = proxied.started().await?;
        anyhow::Ok((proxied, operator))
    });
    &PROXIED.get_or_try_init(|| start).await.expect("the proxied operator starts").0
}

/// Waits until an object is gone.
pub(crate) async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + Debug,
{
    eventually(&format!("{name} to go"), || async { Ok(api.get_opt(name).await?.is_none().then_some(())) }).await;
}

/// Makes an object of any kind.
pub(crate) async fn make<K>(api: &Api<K>, manifest: Value) -> Result<K>
where
    K: Clone + DeserializeOwned + Debug + Serialize,
{
    Ok(api.create(&PostParams::default(), &serde_json::from_value(manifest)?).await?)
}

pub(crate) fn condition(binding: &NamespaceClassBinding, kind: &str) -> Option<Condition> {
    let conditions = &binding.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == kind).map(|condition| {
        // Both are the standard condition.
        serde_json::from_value(json!(condition)).expect("a condition")
    })
}

/// What the binding says about one object.
pub(crate) fn applied(binding: &NamespaceClassBinding, name: &str) -> Option<AppliedResource> {
    binding.status.as_ref()?.applied_resources.iter().find(|applied| applied.name == name).cloned()
}

/// A cluster of one's own with the operator behind a proxy that sees and can disturb all it asks for.
pub(crate) struct Proxied {
    pub(crate) bed: Testbed,
    pub(crate) installed: Installed,
    pub(crate) proxy: FaultProxy,
}

impl Proxied {
    pub(crate) async fn new() -> Result<Self> {
        let (bed, installed) = World::installed(Testbed::kubernetes()).await?;
        let proxy = FaultProxy::kubernetes(&bed, &installed.identity).await?;
        Ok(Self { bed, installed, proxy })
    }

    pub(crate) fn client(&self) -> Client {
        self.bed.admin().client.clone()
    }

    /// Starts a replica, without waiting for it.
    pub(crate) fn start(&self) -> Result<Operator> {
        self.start_with(self.proxy.kubeconfig())
    }

    fn start_with(&self, kubeconfig: &Path) -> Result<Operator> {
        self.installed.start(&self.bed, "own", kubeconfig, &["--log", "info,croft=debug"])
    }

    /// A replica that is ready and leads.
    pub(crate) async fn started(&self) -> Result<Operator> {
        let operator = self.start()?;
        operator.ready(PATIENCE).await?;
        Ok(operator)
    }

    /// The dead do not give their lease back: without this the next replica waits until it has run out.
    pub(crate) async fn forget_leader(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client(), &self.installed.namespace);
        if leases.get_opt("croft").await?.is_some() {
            leases.delete("croft", &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// The next list of a kind takes a while: decisions made before it would be made on half a picture.
    pub(crate) fn slow_to_tell(&self, resource: &str) {
        self.proxy.on(Match::verb("list").resource(resource)).before(Action::Delay(Duration::from_secs(1)));
    }

    /// Kills the replica and starts another one.
    pub(crate) async fn restart(&self, operator: Operator) -> Result<Operator> {
        operator.process.kill();
        operator.process.wait(PATIENCE).context("it is dead")?;
        self.forget_leader().await?;
        self.started().await
    }

    /// Waits until a whole `window` has passed without a write.
    pub(crate) async fn quiet(&self, window: Duration) {
        eventually("a window without writes", || async {
            let before = self.proxy.writes().len();
            tokio::time::sleep(window).await;
            Ok((self.proxy.writes().len() == before).then_some(()))
        })
        .await;
    }
}
