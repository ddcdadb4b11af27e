//! What the tests here share: classes, namespaces, and the command line.

use std::{collections::BTreeMap, path::Path, process::Stdio};

use anyhow::{Context, Result};
use croft_api::namespaces::{CLASS_LABEL, NamespaceClassBinding};
use croft_testbed::Testbed;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::{Shared, croft, eventually, shared};

pub(crate) async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) complaint: String,
    pub(crate) code: i32,
}

impl Said {
    #[track_caller]
    pub(crate) fn ends_with_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    #[track_caller]
    pub(crate) fn mentions(self, words: &[&str]) -> Self {
        for word in words {
            assert!(
                self.text.contains(word) || self.complaint.contains(word),
                "{word:?} is missing in\n{}{}",
                self.text,
                self.complaint
            );
        }
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

pub(crate) async fn run(kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<Said> {
    let mut command = tokio::process::Command::new(croft());
    command
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // It may end without reading; its code tells the rest.
    let _ = child.stdin.take().context("no stdin")?.write_all(input.as_bytes()).await;
    let output = child.wait_with_output().await?;
    Ok(Said {
        text: String::from_utf8(output.stdout)?,
        complaint: String::from_utf8(output.stderr)?,
        code: output.status.code().context("killed")?,
    })
}

/// Plans `class` as the administrator.
pub(crate) async fn plan(world: &Shared, class: &Value, arguments: &[&str]) -> Result<Said> {
    let arguments: Vec<_> = ["plan", "-"].into_iter().chain(arguments.iter().copied()).collect();
    run(&world.bed.admin().kubeconfig, &arguments, &class.to_string()).await
}

pub(crate) async fn explain(world: &Shared, object: &str, namespace: &str) -> Result<Said> {
    run(&world.bed.admin().kubeconfig, &["explain", object, "-n", namespace], "").await
}

pub(crate) fn class(name: &str, resources: &Value) -> Value {
    json!({"apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": name}, "spec": {"resources": resources}})
}

/// The same class with another policy.
pub(crate) fn with_policy(mut class: Value, policy: &Value) -> Value {
    class["spec"]["policy"] = policy.clone();
    class
}

pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub(crate) async fn define(world: &Shared, class: &Value) -> Result<()> {
    crate::support::apply(world.bed.admin(), &class.to_string()).await?;
    Ok(())
}

pub(crate) async fn label(world: &Shared, namespace: &str, class: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(world.client());
    let patch = json!({"metadata": {"labels": {CLASS_LABEL: class}}});
    api.patch(namespace, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// A new namespace that has the class, all of it.
pub(crate) async fn furnished(world: &Shared, prefix: &str, class: &Value) -> Result<String> {
    let namespace = world.bed.namespace(prefix).await?;
    define(world, class).await?;
    label(world, &namespace, class["metadata"]["name"].as_str().context("a class has a name")?).await?;
    says(world, &namespace, "ReconcileSuccess").await;
    Ok(namespace)
}

/// Waits until the binding of a namespace has this reason.
pub(crate) async fn says(world: &Shared, namespace: &str, reason: &str) {
    let api: Api<NamespaceClassBinding> = Api::namespaced(world.client(), namespace);
    eventually(&format!("the binding of {namespace} to say {reason}"), || async {
        let status = api.get_opt(namespace).await?.and_then(|binding| binding.status).unwrap_or_default();
        let found = status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready")
            .map(|condition| condition.reason);
        if found.as_deref() == Some(reason) { Ok(Some(())) } else { anyhow::bail!("it says {found:?}") }
    })
    .await;
}

/// The version of everything in a namespace that a class could touch, and of the namespace itself.
pub(crate) async fn versions(world: &Shared, namespace: &str) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let kinds = [
        ("", "v1", "ConfigMap"),
        ("", "v1", "Secret"),
        ("", "v1", "ResourceQuota"),
        ("akuity.io", "v1alpha1", "NamespaceClassBinding"),
    ];
    for (group, version, kind) in kinds {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(world.client(), namespace, &resource);
        // Kubernetes brings this one to a new namespace when it gets round to it.
        let objects = api.list_metadata(&ListParams::default()).await?;
        for object in objects.into_iter().filter(|object| object.name_any() != "kube-root-ca.crt") {
            found.insert(format!("{kind}/{}", object.name_any()), object.resource_version().unwrap_or_default());
        }
    }
    let namespaces: Api<Namespace> = Api::all(world.client());
    found.insert("Namespace".into(), namespaces.get(namespace).await?.resource_version().unwrap_or_default());
    Ok(found)
}

/// The effects in the first namespace of a JSON plan, as `action object`.
pub(crate) fn effects(plan: &Value) -> Vec<String> {
    let effects = plan["namespaces"][0]["effects"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    effects.iter().map(|effect| format!("{} {}", text(&effect["action"]), text(&effect["object"]))).collect()
}
