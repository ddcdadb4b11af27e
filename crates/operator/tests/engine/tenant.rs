//! The smallest piece of work: a labelled namespace gets one ConfigMap.

use anyhow::Result;
use croft_api::namespaces::{CLASS_LABEL, NamespaceClass};
use croft_testbed::Testbed;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::support::eventually;

/// The class every namespace of these tests asks for.
pub(crate) async fn define_class(bed: &Testbed) -> Result<()> {
    let class: NamespaceClass = serde_json::from_value(json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "small"},
        "spec": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"k": "v"}}]},
    }))?;
    let api: Api<NamespaceClass> = Api::all(bed.admin().client.clone());
    eventually("the class to be accepted", || async {
        let applied = api.patch("small", &PatchParams::apply("test").force(), &Patch::Apply(&class)).await;
        Ok(Some(applied?))
    })
    .await;
    Ok(())
}

/// A new namespace born with the label.
pub(crate) async fn ask(bed: &Testbed, name: &str) -> Result<()> {
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {CLASS_LABEL: "small"}}}))?;
    let api: Api<Namespace> = Api::all(bed.admin().client.clone());
    api.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// Waits until the namespace has its object.
pub(crate) async fn served(bed: &Testbed, name: &str) {
    let api: Api<ConfigMap> = Api::namespaced(bed.admin().client.clone(), name);
    eventually(&format!("the object of {name}"), || async { Ok(api.get_opt("made").await?) }).await;
}
