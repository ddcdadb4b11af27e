//! Clusters in trouble are those that need it most.

use anyhow::Result;
use croft_testbed::{Identity, Testbed};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::ResourceQuota, networking::v1::NetworkPolicy,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::{
    furnished, goes, names, nothing_is_left, said,
    support::{World, apply, eventually},
    uninstall,
};

fn crd(stored: &str) -> Value {
    let version = |name: &str| {
        json!({ "name": name, "served": true, "storage": name == stored,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
    };
    let nowhere = json!({ "service": { "name": "nowhere", "namespace": "default" } });
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "widgets.example.com" },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
                      "versions": [version("v1"), version("v2")],
                      "conversion": { "strategy": "Webhook",
                                      "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": nowhere } } } })
}

/// One object of a kind that nobody can read any more, since who converted it is gone.
async fn a_kind_nobody_can_list(admin: &Identity) -> Result<()> {
    apply(admin, &crd("v1").to_string()).await?;
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w", "namespace": "default" } });
    eventually("the kind to be served", || async { apply(admin, &widget.to_string()).await.map(Some) }).await;
    apply(admin, &crd("v2").to_string()).await?;
    eventually("the kind to be unreadable", || async {
        Ok(admin.kubectl(&["get", "widgets.v2.example.com", "-A"]).await.is_err().then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_listed_or_changed_keeps_no_policy_alive_and_no_namespace_from_going() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let (client, admin) = (world.client(), world.bed.admin());
    let namespace = furnished(&world.bed).await?;
    a_kind_nobody_can_list(admin).await?;
    let rule = json!({ "apiGroups": ["networking.k8s.io"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["networkpolicies"] });
    let webhook = json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "dead" }, "webhooks": [{ "name": "dead.example.com", "rules": [rule], "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/" } }] });
    apply(admin, &webhook.to_string()).await?;
    drop(world.operator);
    let kubeconfig = admin.kubeconfig.clone();

    let stuck = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(!stuck.status.success() && said(&stuck).contains("NetworkPolicy"), "{}", said(&stuck));
    assert!(said(&stuck).contains("widgets.example.com"), "{}", said(&stuck));
    let webhooks = names::<ValidatingWebhookConfiguration>(&client).await?;
    assert!(!webhooks.iter().any(|name| name == "croft"), "{webhooks:?}");
    let quota = Api::<ResourceQuota>::namespaced(client.clone(), &namespace).get("team").await?;
    assert_eq!(quota.owner_references().len(), 0, "the others are let go of");
    let held = ["get", "namespaceclassbinding", "-A", "-o", "jsonpath={.items[*].metadata.finalizers}"];
    assert_eq!(admin.kubectl(&held).await?, "", "nothing is held");

    admin.kubectl(&["delete", "validatingwebhookconfiguration", "dead"]).await?;
    let stuck = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(!stuck.status.success() && said(&stuck).contains("cannot be listed"), "{}", said(&stuck));
    admin.kubectl(&["delete", "crd", "widgets.example.com", "--wait=false"]).await?;
    admin
        .kubectl(&["patch", "crd", "widgets.example.com", "--type=merge", "-p", "{\"metadata\":{\"finalizers\":null}}"])
        .await?;
    let done = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(done.status.success(), "{}", said(&done));
    nothing_is_left(&client).await?;
    Api::<NetworkPolicy>::namespaced(client.clone(), &namespace).get("deny-all").await?;
    goes(&client, &namespace).await
}
