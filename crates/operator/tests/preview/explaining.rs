//! `croft explain`.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    desk::{class, config_map, define, explain, furnished, label, run, says, versions, with_policy, world},
    support::eventually,
};

#[tokio::test]
async fn an_object_of_a_class_tells_where_it_is_from_and_what_would_remove_it() -> Result<()> {
    let world = world().await;
    let mut class = class(
        "explain-made",
        &json!([config_map("other", &json!({})), config_map("made", &json!({"size": "{{ params.size }}"}))]),
    );
    class["spec"]["params"] = json!([{"name": "size", "default": "small"}, {"name": "unused", "default": "x"}]);
    let namespace = furnished(world, "made", &class).await?;
    let before = versions(world, &namespace).await?;
    let expected = format!(
        "ConfigMap/made in namespace {namespace} is of class explain-made\n  from        spec.resources[1] in generation 1 of the class\n  \
         parameters  size=small\n  inventory   Applied\n  now         as the class wants it\n  what would remove it\n    \
         removing the class label of the namespace: it is deleted\n    taking it out of the class: it is deleted\n    \
         deleting the class: it is deleted\n    deleting the namespace: it goes with it\n"
    );
    for kind in ["ConfigMap", "configmaps", "cm"] {
        assert_eq!(explain(world, &format!("{kind}/made"), &namespace).await?.ends_with_code(0).text, expected);
    }
    assert_eq!(versions(world, &namespace).await?, before);
    Ok(())
}

#[tokio::test]
async fn the_policies_of_the_class_decide_what_becomes_of_an_object() -> Result<()> {
    let world = world().await;
    let class = class("explain-policy", &json!([config_map("made", &json!({}))]));
    let class = with_policy(class, &json!({"onUnbind": "Orphan", "onClassDelete": "Block"}));
    let namespace = furnished(world, "policy", &class).await?;
    explain(world, "cm/made", &namespace).await?.ends_with_code(0).mentions(&[
        "removing the class label of the namespace: it stays and is of no class any more",
        "deleting the class: it stays: the class is held",
    ]);
    Ok(())
}

#[tokio::test]
async fn a_drifted_object_says_so() -> Result<()> {
    let world = world().await;
    let class = with_policy(
        class("explain-drift", &json!([config_map("made", &json!({"key": "1"}))])),
        &json!({"onDrift": "Report"}),
    );
    let namespace = furnished(world, "drift", &class).await?;
    let api: Api<ConfigMap> = Api::namespaced(world.client(), &namespace);
    api.patch("made", &PatchParams::default(), &Patch::Merge(json!({"data": {"key": "2"}}))).await?;
    says(world, &namespace, "Drifted").await;
    explain(world, "cm/made", &namespace)
        .await?
        .ends_with_code(0)
        .mentions(&["inventory   Drifted", " changed data.key; left as it is"]);
    Ok(())
}

#[tokio::test]
async fn a_failure_that_is_over_is_not_told_any_more() -> Result<()> {
    let world = world().await;
    let secret = |kind: &str| {
        class("explain-over", &json!([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": kind}]))
    };
    let namespace = furnished(world, "over", &secret("croft.dev/one")).await?;
    define(world, &secret("croft.dev/two")).await?;
    says(world, &namespace, "ApplyFailed").await;
    explain(world, "secret/s", &namespace)
        .await?
        .ends_with_code(0)
        .mentions(&["inventory   Failed: cannot be changed in place", "now         immutable: "]);
    define(world, &secret("croft.dev/one")).await?;
    says(world, &namespace, "ReconcileSuccess").await;
    explain(world, "secret/s", &namespace)
        .await?
        .ends_with_code(0)
        .mentions(&["inventory   Applied\n", "now         as the class wants it"]);
    Ok(())
}

#[tokio::test]
async fn an_object_of_nobody_is_of_no_class_and_says_why() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("foreign").await?;
    let api: Api<ConfigMap> = Api::namespaced(world.client(), &namespace);
    let mine: ConfigMap = serde_json::from_value(config_map("taken", &json!({})))?;
    api.create(&PostParams::default(), &mine).await?;
    explain(world, "cm/taken", &namespace).await?.ends_with_code(1).mentions(&["is of no class", "has no class"]);

    define(world, &class("explain-foreign", &json!([config_map("taken", &json!({}))]))).await?;
    label(world, &namespace, "explain-foreign").await?;
    says(world, &namespace, "Conflict").await;
    explain(world, "cm/taken", &namespace).await?.ends_with_code(1).mentions(&[
        "it does not carry the label namespaceclass.akuity.io/class",
        "class explain-foreign of the namespace wants an object of this name",
    ]);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_told_ends_with_code_2() -> Result<()> {
    let world = world().await;
    let namespace = world.bed.namespace("unknown").await?;
    explain(world, "cm/nothing", &namespace).await?.ends_with_code(2).mentions(&["there is no ConfigMap/nothing"]);
    explain(world, "gadget/x", &namespace).await?.ends_with_code(2).mentions(&["knows no kind gadget"]);
    explain(world, "nothing", &namespace).await?.ends_with_code(2).mentions(&["KIND/NAME"]);
    explain(world, "cm/x", "no-such-namespace").await?.ends_with_code(2).mentions(&["there is no namespace"]);
    explain(world, "clusterrole/view", &namespace).await?.ends_with_code(1).mentions(&["cluster-scoped"]);
    Ok(())
}

#[tokio::test]
async fn a_tenant_who_may_not_read_classes_is_told_what_the_binding_tells() -> Result<()> {
    let world = world().await;
    let class = class("explain-tenant", &json!([config_map("made", &json!({}))]));
    let namespace = furnished(world, "tenant", &class).await?;
    let name = format!("viewer-of-{namespace}");
    let granted = ["create", "rolebinding", &name, "--clusterrole", "view", "--user", &name, "-n", &namespace];
    world.bed.admin().kubectl(&granted).await?;
    let tenant = world.bed.tenant(&name, &namespace, vec![]).await?;
    let expected = format!(
        "ConfigMap/made in namespace {namespace} is of class explain-tenant\n  from        generation 1 of the class\n  \
         inventory   Applied\n  now         only who may read class explain-tenant can compare it with the class\n  \
         what would remove it\n    removing the class label of the namespace: that depends on the policy of class \
         explain-tenant, which you may not read\n    deleting the namespace: it goes with it\n"
    );
    eventually("the right to look", || async {
        let said = run(&tenant.kubeconfig, &["explain", "cm/made", "-n", &namespace], "").await?;
        if said.text == expected { Ok(Some(())) } else { anyhow::bail!("{said:#?}") }
    })
    .await;
    run(&tenant.kubeconfig, &["explain", "cm/kube-root-ca.crt", "-n", &namespace], "")
        .await?
        .mentions(&["is of no class", "the binding of the namespace neither owns it nor recorded making it"]);
    Ok(())
}

#[tokio::test]
async fn an_object_is_compared_with_the_revision_its_namespace_has() -> Result<()> {
    let world = world().await;
    let staged = |value: &str| {
        let mut class = class("explain-revision", &json!([config_map("made", &json!({"key": value}))]));
        class["spec"]["rollout"] = json!({"batch": 1, "paused": true});
        class
    };
    let mut first = staged("1");
    first["spec"]["rollout"]["paused"] = json!(false);
    let namespace = furnished(world, "explain-revision", &first).await?;
    define(world, &staged("2")).await?;
    eventually("the newest revision to be kept", || async {
        let said = explain(world, "cm/made", &namespace).await?.ends_with_code(0);
        Ok(said.text.contains("the class is at generation 2").then_some(said))
    })
    .await
    .mentions(&["the namespace has revision 1, not what the class says now", "now         as the class wants it"]);
    Ok(())
}

#[tokio::test]
async fn what_a_class_has_set_on_a_namespace_is_told_with_what_was_there_before() -> Result<()> {
    let world = world().await;
    let mut class = with_policy(class("explain-labels", &json!([])), &json!({"onConflict": "Adopt"}));
    class["spec"]["namespaceMetadata"] =
        json!({"labels": {"example.com/tier": "gold"}, "annotations": {"example.com/a": "1"}});
    let namespace = world.bed.namespace("explain-labels").await?;
    explain(world, &format!("ns/{namespace}"), &namespace).await?.ends_with_code(1).mentions(&["has no class"]);
    world.bed.admin().kubectl(&["label", "namespace", &namespace, "example.com/tier=tin"]).await?;
    define(world, &class).await?;
    label(world, &namespace, "explain-labels").await?;
    says(world, &namespace, "ReconcileSuccess").await;
    explain(world, &format!("namespace/{namespace}"), &namespace).await?.ends_with_code(0).mentions(&[
        "has class explain-labels, which has set",
        "label example.com/tier = gold; tin before",
        "annotation example.com/a = 1",
    ]);
    Ok(())
}

#[tokio::test]
async fn what_only_looks_like_an_object_of_a_class_is_told_from_one_that_is() -> Result<()> {
    let world = world().await;
    let before = class("explain-before", &json!([config_map("old", &json!({}))]));
    let namespace = furnished(world, "explain-forged", &before).await?;
    let api: Api<ConfigMap> = Api::namespaced(world.client(), &namespace);
    let mut forged = config_map("forged", &json!({}));
    forged["metadata"]["labels"] = json!({"namespaceclass.akuity.io/class": "explain-before"});
    api.create(&PostParams::default(), &serde_json::from_value(forged)?).await?;
    explain(world, "cm/forged", &namespace).await?.ends_with_code(1).mentions(&[
        "is of no class",
        "it carries the label of class explain-before, but the binding neither owns it nor recorded making it",
    ]);
    // What the new class does not take over is still of the old one.
    api.create(&PostParams::default(), &serde_json::from_value(config_map("taken", &json!({})))?).await?;
    define(world, &class("explain-after", &json!([config_map("taken", &json!({}))]))).await?;
    label(world, &namespace, "explain-after").await?;
    says(world, &namespace, "Conflict").await;
    explain(world, "cm/old", &namespace)
        .await?
        .ends_with_code(0)
        .mentions(&["ConfigMap/old", "is of class explain-before"]);
    Ok(())
}

#[tokio::test]
async fn a_kind_that_can_only_be_created_keeps_nothing_from_being_explained() -> Result<()> {
    let world = world().await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "classes-ask", "labels": {"croft.dev/aggregate-to-namespace-classes": "true"}},
        "rules": [{
            "apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        }],
    });
    define(world, &role).await?;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"name": "asked"},
        "spec": {"user": "somebody", "resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    define(world, &class("explain-asked", &json!([review, config_map("made", &json!({}))]))).await?;
    let namespace = world.bed.namespace("asked").await?;
    label(world, &namespace, "explain-asked").await?;
    says(world, &namespace, "Unobservable").await;
    explain(world, "cm/made", &namespace).await?.ends_with_code(0).mentions(&["as the class wants it"]);
    let admin = &world.bed.admin().kubeconfig;
    let planned = run(admin, &["plan", "--unlabel", "-n", &namespace], "").await?;
    planned.mentions(&["ConfigMap/made"]);
    Ok(())
}
