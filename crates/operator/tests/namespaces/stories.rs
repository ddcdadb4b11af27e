//! Define, apply, unlabel, switch, update, delete.

use anyhow::Result;
use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding};
use croft_testbed::Testbed;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{Shared, eventually, shared};

/// A class of config maps under a name of its own.
struct Class {
    api: Api<NamespaceClass>,
    name: String,
}

impl Class {
    async fn define(world: &Shared, name: &str, items: &[(&str, &str)]) -> Result<Self> {
        let class = Self { api: Api::all(world.client()), name: name.to_owned() };
        class.set(items).await?;
        Ok(class)
    }

    async fn set(&self, items: &[(&str, &str)]) -> Result<()> {
        let items: Vec<Value> = items.iter().map(|(name, value)| config_map(name, value)).collect();
        self.set_raw(&json!(items)).await
    }

    async fn set_raw(&self, resources: &Value) -> Result<()> {
        let class = json!({
            "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass",
            "metadata": {"name": self.name}, "spec": {"resources": resources},
        });
        self.api.patch(&self.name, &PatchParams::apply("test").force(), &Patch::Apply(&class)).await?;
        Ok(())
    }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

async fn label(world: &Shared, namespace: &str, class: Option<&str>) -> Result<()> {
    let api: Api<Namespace> = Api::all(world.client());
    let patch = json!({"metadata": {"labels": {CLASS_LABEL: class}}});
    api.patch(namespace, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

fn config_maps(world: &Shared, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(world.client(), namespace)
}

async fn appears(world: &Shared, namespace: &str, name: &str) -> ConfigMap {
    let api = config_maps(world, namespace);
    eventually(&format!("ConfigMap {namespace}/{name}"), || async { Ok(api.get_opt(name).await?) }).await
}

async fn vanishes(world: &Shared, namespace: &str, name: &str) {
    let api = config_maps(world, namespace);
    eventually(&format!("ConfigMap {namespace}/{name} to go"), || async {
        Ok(api.get_opt(name).await?.is_none().then_some(()))
    })
    .await;
}

async fn ready_reason(world: &Shared, namespace: &str, reason: &str) -> NamespaceClassBinding {
    let api: Api<NamespaceClassBinding> = Api::namespaced(world.client(), namespace);
    eventually(&format!("binding of {namespace} to say {reason}"), || async {
        let Some(binding) = api.get_opt(namespace).await? else { anyhow::bail!("no binding") };
        let status = binding.status.clone().unwrap_or_default();
        let found = status.conditions.iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.reason.clone());
        if found.as_deref() == Some(reason) { Ok(Some(binding)) } else { anyhow::bail!("it says {found:?}") }
    })
    .await
}

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

#[tokio::test]
async fn a_labelled_namespace_gets_every_object_of_its_class_owned_by_its_binding() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("apply").await?;
    Class::define(world, "apply-all", &[("one", "1"), ("two", "2")]).await?;
    label(world, &namespace, Some("apply-all")).await?;
    for name in ["one", "two"] {
        let object = appears(world, &namespace, name).await;
        let owner = &object.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("NamespaceClassBinding", Some(true)));
    }
    let binding = ready_reason(world, &namespace, "ReconcileSuccess").await;
    let status = binding.status.clone().unwrap();
    assert_eq!(status.observed_class_name.as_deref(), Some("apply-all"));
    assert_eq!(status.applied_resources.len(), 2);
    assert!(status.applied_resources.iter().all(|applied| applied.uid.is_some() && applied.digest.is_some()));
    assert_eq!(binding.owner_references()[0].kind, "Namespace");
    Ok(())
}

#[tokio::test]
async fn unlabelling_takes_away_what_the_class_made_and_nothing_else() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("unlabel").await?;
    let mine: ConfigMap = serde_json::from_value(config_map("mine", "x"))?;
    config_maps(world, &namespace).create(&PostParams::default(), &mine).await?;
    Class::define(world, "unlabel", &[("made", "1")]).await?;
    label(world, &namespace, Some("unlabel")).await?;
    appears(world, &namespace, "made").await;
    label(world, &namespace, None).await?;
    vanishes(world, &namespace, "made").await;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(world.client(), &namespace);
    eventually("the binding to go", || async { Ok(bindings.get_opt(&namespace).await?.is_none().then_some(())) }).await;
    assert!(config_maps(world, &namespace).get_opt("mine").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn switching_class_keeps_the_shared_object_and_replaces_the_rest() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("switch").await?;
    Class::define(world, "switch-a", &[("shared", "same"), ("only-a", "1")]).await?;
    Class::define(world, "switch-b", &[("shared", "same"), ("only-b", "1")]).await?;
    label(world, &namespace, Some("switch-a")).await?;
    let before = appears(world, &namespace, "shared").await;
    appears(world, &namespace, "only-a").await;
    label(world, &namespace, Some("switch-b")).await?;
    appears(world, &namespace, "only-b").await;
    vanishes(world, &namespace, "only-a").await;
    assert_eq!(appears(world, &namespace, "shared").await.uid(), before.uid(), "never deleted and made anew");
    Ok(())
}

#[tokio::test]
async fn an_edited_class_reaches_its_namespaces_in_place_and_prunes_what_it_dropped() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("update").await?;
    let class = Class::define(world, "update", &[("keep", "old"), ("drop", "1")]).await?;
    label(world, &namespace, Some("update")).await?;
    let before = appears(world, &namespace, "keep").await;
    appears(world, &namespace, "drop").await;
    class.set(&[("keep", "new"), ("add", "1")]).await?;
    appears(world, &namespace, "add").await;
    vanishes(world, &namespace, "drop").await;
    let after = appears(world, &namespace, "keep").await;
    assert_eq!((after.uid(), after.data.unwrap()["key"].as_str()), (before.uid(), "new"));
    Ok(())
}

#[tokio::test]
async fn deleting_a_class_removes_its_objects_and_making_it_again_brings_them_back() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("delete").await?;
    let class = Class::define(world, "delete-me", &[("made", "1")]).await?;
    label(world, &namespace, Some("delete-me")).await?;
    appears(world, &namespace, "made").await;
    class.api.delete("delete-me", &DeleteParams::default()).await?;
    vanishes(world, &namespace, "made").await;
    class.set(&[("made", "2")]).await?;
    let again = eventually("the object of the new class", || async {
        let object = config_maps(world, &namespace).get_opt("made").await?;
        Ok(object.filter(|object| object.data.as_ref().is_some_and(|data| data["key"] == "2")))
    })
    .await;
    assert_eq!(again.name_any(), "made");
    Ok(())
}

#[tokio::test]
async fn a_class_that_comes_later_than_its_label_is_applied_at_once() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("late").await?;
    label(world, &namespace, Some("late-class")).await?;
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(world.client());
    eventually("a ClassNotFound event on the namespace", || async {
        let list = events.list(&kube::api::ListParams::default().fields("reason=ClassNotFound")).await?;
        let about_us = list.items.iter().any(|event| event.regarding.as_ref().and_then(|about| about.name.as_deref()) == Some(&namespace));
        Ok(about_us.then_some(()))
    })
    .await;
    Class::define(world, "late-class", &[("made", "1")]).await?;
    appears(world, &namespace, "made").await;
    Ok(())
}

#[tokio::test]
async fn a_typo_in_the_label_keeps_what_is_there_and_says_so() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("typo").await?;
    Class::define(world, "typo-right", &[("made", "1")]).await?;
    label(world, &namespace, Some("typo-right")).await?;
    let before = appears(world, &namespace, "made").await;
    label(world, &namespace, Some("typo-wrong")).await?;
    ready_reason(world, &namespace, "ClassNotFound").await;
    assert_eq!(appears(world, &namespace, "made").await.uid(), before.uid());
    Ok(())
}

#[tokio::test]
async fn an_object_that_was_there_before_is_never_overwritten_nor_deleted() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("conflict").await?;
    let mine: ConfigMap = serde_json::from_value(config_map("taken", "mine"))?;
    let before = config_maps(world, &namespace).create(&PostParams::default(), &mine).await?;
    Class::define(world, "conflict", &[("taken", "theirs"), ("free", "1")]).await?;
    label(world, &namespace, Some("conflict")).await?;
    appears(world, &namespace, "free").await;
    ready_reason(world, &namespace, "Conflict").await;
    label(world, &namespace, None).await?;
    vanishes(world, &namespace, "free").await;
    let after = appears(world, &namespace, "taken").await;
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()), "untouched");
    Ok(())
}

#[tokio::test]
async fn a_cluster_scoped_object_in_a_class_is_refused_and_never_made() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("scope").await?;
    let class = Class { api: Api::all(world.client()), name: "scope".into() };
    class
        .set_raw(&json!([
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "croft-scope-test"}, "rules": []},
            config_map("fine", "1"),
        ]))
        .await?;
    label(world, &namespace, Some("scope")).await?;
    appears(world, &namespace, "fine").await;
    ready_reason(world, &namespace, "InvalidClass").await;
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(world.client());
    assert!(roles.get_opt("croft-scope-test").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn the_text_of_a_secret_arrives_and_a_key_taken_out_of_the_class_goes() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("secret").await?;
    let class = Class { api: Api::all(world.client()), name: "secret".into() };
    let secret = |data: Value| json!([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": data}]);
    class.set_raw(&secret(json!({"a": "1", "b": "2"}))).await?;
    label(world, &namespace, Some("secret")).await?;
    let secrets: Api<Secret> = Api::namespaced(world.client(), &namespace);
    let keys = |wanted: usize| {
        let secrets = secrets.clone();
        async move {
            eventually("the keys of the secret", || async {
                let found = secrets.get_opt("s").await?.and_then(|secret| secret.data).unwrap_or_default();
                Ok((found.len() == wanted).then_some(found))
            })
            .await
        }
    };
    assert_eq!(keys(2).await["a"].0, b"1");
    class.set_raw(&secret(json!({"a": "1"}))).await?;
    assert!(keys(1).await.contains_key("a"));
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_installed_later_is_applied_when_it_appears() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("kind").await?;
    let class = Class { api: Api::all(world.client()), name: "late-kind".into() };
    class
        .set_raw(&json!([
            {"apiVersion": "late.croft.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}},
            config_map("now", "1"),
        ]))
        .await?;
    label(world, &namespace, Some("late-kind")).await?;
    appears(world, &namespace, "now").await;
    ready_reason(world, &namespace, "KindNotInstalled").await;
    crate::support::apply(world.bed.admin(), GADGETS).await?;
    // The operator was given no right to gadgets: it says exactly that.
    ready_reason(world, &namespace, "Forbidden").await;
    crate::support::apply(world.bed.admin(), GADGET_RIGHTS).await?;
    ready_reason(world, &namespace, "ReconcileSuccess").await;
    Ok(())
}

const GADGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.late.croft.dev}
spec:
  group: late.croft.dev
  names: {kind: Gadget, plural: gadgets}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";

const GADGET_RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: croft-gadgets}
rules: [{apiGroups: [late.croft.dev], resources: [gadgets], verbs: [create, delete, get, list, patch, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: croft-gadgets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: croft-gadgets}
subjects: [{kind: ServiceAccount, name: croft, namespace: croft-system}]
";

#[tokio::test]
async fn a_namespace_with_a_class_is_deleted_without_hanging() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("dying").await?;
    Class::define(world, "dying", &[("made", "1")]).await?;
    label(world, &namespace, Some("dying")).await?;
    appears(world, &namespace, "made").await;
    let namespaces: Api<Namespace> = Api::all(world.client());
    namespaces.delete(&namespace, &DeleteParams::default()).await?;
    eventually("the namespace to be gone", || async { Ok(namespaces.get_opt(&namespace).await?.is_none().then_some(())) }).await;
    Ok(())
}
