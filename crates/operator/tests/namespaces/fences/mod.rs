//! The fences, tried by real users with real rights, in every way the API offers to write an object.

mod author;
mod bindings;
mod choice;
mod gate;
mod marks;
mod metadata;
mod operator_down;
mod protection;
mod rights;

use anyhow::{Result, ensure};
use croft::namespaces::fences::CHOICE;
use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding};
use croft_testbed::{Identity, Testbed};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, ResourceQuota},
    rbac::v1::PolicyRule,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{self, eventually};

/// Everything inside the namespace; Kubernetes counts the Namespace object itself as inside.
fn everything() -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec!["*".into()]),
        resources: Some(vec!["*".into()]),
        verbs: vec!["*".into()],
        ..PolicyRule::default()
    }
}

/// A namespace of a class, and somebody who may do everything in it but was not given the class.
struct Plot {
    namespace: String,
    owner: Identity,
    admin: Client,
}

impl Plot {
    async fn new(bed: &Testbed, prefix: &str) -> Result<Self> {
        let namespace = bed.namespace(prefix).await?;
        let owner = bed.tenant(&format!("owner-of-{namespace}"), &namespace, vec![everything()]).await?;
        let plot = Self { namespace, owner, admin: bed.admin().client.clone() };
        plot.wait_for_the_fences().await;
        Ok(plot)
    }

    /// A policy is enforced a moment after it was accepted, and rights count a moment after they were granted.
    async fn wait_for_the_fences(&self) {
        let target = Target::namespace(&self.owner.client, &self.namespace);
        eventually("the fences to stand", || async {
            let refused = target.dry_run().write(Way::Merge, CLASS_LABEL, Some("nobody-may-use-this")).await;
            Ok(is_fence(CHOICE, &refused).then_some(()))
        })
        .await;
    }

    /// Labels the namespace as an administrator.
    async fn bind(&self, class: &str) -> Result<()> {
        let target = Target::namespace(&self.admin, &self.namespace);
        Ok(target.write(Way::Apply, CLASS_LABEL, Some(class)).await?)
    }

    async fn label(&self) -> Result<Option<String>> {
        let api: Api<Namespace> = Api::all(self.admin.clone());
        Ok(api.get(&self.namespace).await?.labels().get(CLASS_LABEL).cloned())
    }

    async fn ready(&self) -> NamespaceClassBinding {
        self.ready_reason("ReconcileSuccess").await.0
    }

    /// Waits for the reason of the binding's `Ready` condition; gives the message too.
    async fn ready_reason(&self, reason: &str) -> (NamespaceClassBinding, String) {
        let api: Api<NamespaceClassBinding> = Api::namespaced(self.admin.clone(), &self.namespace);
        eventually(&format!("the binding of {} to say {reason}", self.namespace), || async {
            let binding = api.get(&self.namespace).await?;
            let status = binding.status.clone().unwrap_or_default();
            let ready = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
            let ready = ready.ok_or_else(|| anyhow::anyhow!("no condition yet"))?;
            ensure!(ready.reason == reason, "it says {}: {}", ready.reason, ready.message);
            Ok(Some((binding, ready.message)))
        })
        .await
    }
}

/// Defines a class; with `protect`, each of its objects carries the mark.
async fn define(admin: &Client, name: &str, protect: bool, resources: Vec<Value>) -> Result<()> {
    let class = json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass",
        "metadata": {"name": name}, "spec": {"protect": protect, "resources": resources},
    });
    let api: Api<NamespaceClass> = Api::all(admin.clone());
    eventually("the class to be accepted", || async {
        Ok(Some(api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&class)).await?))
    })
    .await;
    Ok(())
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": "from the class"}})
}

fn quota(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": {"pods": "5"}}})
}

/// Lets `user` use and leave the classes, wherever it may write namespaces.
async fn let_use(world: &Testbed, user: &Identity, classes: &[&str]) -> Result<()> {
    let_do(world, user, classes, &["use", "leave"]).await
}

/// Lets `user` do this with the classes.
async fn let_do(world: &Testbed, user: &Identity, classes: &[&str], verbs: &[&str]) -> Result<()> {
    let name = format!("use-{}", user.name);
    let rights = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
            "rules": [{"apiGroups": ["akuity.io"], "resources": ["namespaceclasses"], "resourceNames": classes, "verbs": verbs}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user.name}],
        },
    ]});
    support::apply(world.admin(), &rights.to_string()).await?;
    Ok(())
}

/// The ways to write an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Replace,
    Merge,
    Json,
    Strategic,
    Apply,
}

impl Way {
    const ALL: [Way; 5] = [Way::Replace, Way::Merge, Way::Json, Way::Strategic, Way::Apply];
}

/// One object, in the hands of somebody.
#[derive(Clone)]
struct Target {
    api: Api<DynamicObject>,
    resource: ApiResource,
    name: String,
    subresource: Option<String>,
    dry_run: bool,
}

impl Target {
    fn namespace(client: &Client, name: &str) -> Self {
        let resource = ApiResource::erase::<Namespace>(&());
        Self::new(Api::all_with(client.clone(), &resource), resource, name)
    }

    fn config_map(client: &Client, namespace: &str, name: &str) -> Self {
        Self::namespaced::<ConfigMap>(client, namespace, name)
    }

    fn quota(client: &Client, namespace: &str, name: &str) -> Self {
        Self::namespaced::<ResourceQuota>(client, namespace, name)
    }

    fn namespaced<K: Resource<DynamicType = ()>>(client: &Client, namespace: &str, name: &str) -> Self {
        let resource = ApiResource::erase::<K>(&());
        Self::new(Api::namespaced_with(client.clone(), namespace, &resource), resource, name)
    }

    fn new(api: Api<DynamicObject>, resource: ApiResource, name: &str) -> Self {
        Self { api, resource, name: name.to_owned(), subresource: None, dry_run: false }
    }

    fn through(&self, subresource: &str) -> Self {
        Self { subresource: Some(subresource.to_owned()), ..self.clone() }
    }

    fn dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    /// Sets or removes one label.
    async fn write(&self, way: Way, label: &str, value: Option<&str>) -> kube::Result<()> {
        let labels = json!({"metadata": {"labels": {label: value}}});
        match way {
            Way::Replace => self.replace(label, value).await,
            Way::Merge => self.patch(&Patch::Merge(labels)).await,
            Way::Strategic => self.patch(&Patch::Strategic(labels)).await,
            Way::Json => {
                let path = format!("/metadata/labels/{}", label.replace('/', "~1"));
                let step = match value {
                    Some(value) => json!([{"op": "add", "path": path, "value": value}]),
                    None => json!([{"op": "remove", "path": path}]),
                };
                self.patch(&Patch::Json::<Value>(serde_json::from_value(step).map_err(kube::Error::SerdeError)?)).await
            }
            Way::Apply => {
                // Removed means: no longer in what the same manager applies.
                let labels = value.map_or(json!({}), |value| json!({label: value}));
                let object = json!({
                    "apiVersion": self.resource.api_version, "kind": self.resource.kind,
                    "metadata": {"name": self.name, "labels": labels},
                });
                self.patch(&Patch::Apply(object)).await
            }
        }
    }

    async fn patch(&self, patch: &Patch<Value>) -> kube::Result<()> {
        let force = matches!(patch, Patch::Apply(_));
        let params = PatchParams {
            dry_run: self.dry_run,
            force,
            field_manager: Some("somebody".into()),
            ..PatchParams::default()
        };
        match &self.subresource {
            None => self.api.patch(&self.name, &params, patch).await?,
            Some(subresource) => self.api.patch_subresource(subresource, &self.name, &params, patch).await?,
        };
        Ok(())
    }

    async fn replace(&self, label: &str, value: Option<&str>) -> kube::Result<()> {
        let mut object = self.api.get(&self.name).await?;
        match value {
            Some(value) => object.labels_mut().insert(label.to_owned(), value.to_owned()),
            None => object.labels_mut().remove(label),
        };
        let params = PostParams { dry_run: self.dry_run, ..PostParams::default() };
        match &self.subresource {
            None => self.api.replace(&self.name, &params, &object).await?,
            Some(subresource) => self.api.replace_subresource(subresource, &self.name, &params, &object).await?,
        };
        Ok(())
    }
}

fn is_fence<T>(fence: &str, answer: &kube::Result<T>) -> bool {
    matches!(answer, Err(kube::Error::Api(status))
        if status.code == 403 && status.message.contains(&format!("ValidatingAdmissionPolicy '{fence}'")))
}

/// Fails unless the fence itself refused: a lack of other rights does not count.
#[track_caller]
fn assert_refused<T: std::fmt::Debug>(fence: &str, answer: &kube::Result<T>, what: &str) -> String {
    assert!(is_fence(fence, answer), "{what}: {fence} should refuse it, but: {answer:?}");
    match answer {
        Err(kube::Error::Api(status)) => status.message.clone(),
        _ => String::new(),
    }
}

#[test]
fn every_test_that_the_page_about_fences_names_exists() -> Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../../docs/fences.md"))?;
    let mut sources = String::new();
    for folder in ["tests/namespaces", "tests/namespaces/fences"] {
        for entry in std::fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&std::fs::read_to_string(path)?);
            }
        }
    }
    // Names of tests are sentences: nothing else on the page has so many words in it.
    let named: Vec<_> = page.split('`').filter(|text| text.matches('_').count() > 3 && !text.contains(' ')).collect();
    ensure!(named.len() > 20, "the page names its tests");
    for name in named {
        ensure!(sources.contains(&format!("fn {name}(")), "{name} is no test");
    }
    Ok(())
}
