//! Whoever writes a class could do himself what it does.

use anyhow::{Context, Result};
use croft_api::namespaces::NamespaceClass;
use croft_testbed::{Identity, Testbed};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::config_map;
use crate::support::{self, Shared, eventually, shared};

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

/// An account that may write classes, and on the whole cluster these rules.
async fn author(name: &str, mut rules: Vec<Value>) -> Result<Identity> {
    let world = world().await;
    rules.push(json!({"apiGroups": ["akuity.io"], "resources": ["namespaceclasses"], "verbs": ["get", "create", "patch", "delete"]}));
    let rights = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": "fence-tests", "name": name}],
        },
    ]});
    let account = world.bed.service_account("fence-tests", name).await?;
    support::apply(world.bed.admin(), &rights.to_string()).await?;
    Ok(account)
}

async fn write(who: &Identity, name: &str, class: Value) -> kube::Result<NamespaceClass> {
    let mut class = class;
    class["apiVersion"] = "akuity.io/v1alpha1".into();
    class["kind"] = "NamespaceClass".into();
    class["metadata"]["name"] = name.into();
    let api: Api<NamespaceClass> = Api::all(who.client.clone());
    api.patch(name, &PatchParams::apply("author").force(), &Patch::Apply(&class)).await
}

fn class(resources: Vec<Value>) -> Value {
    json!({"spec": {"resources": resources}})
}

fn config_maps() -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]})
}

/// Waits until the author may write what it may, and gives what is said to the rest.
async fn refusal(who: &Identity, name: &str, resource: Value) -> Result<String> {
    eventually("the rights to count", || async { Ok(Some(write(who, name, class(vec![config_map("made")])).await?)) })
        .await;
    match write(who, name, class(vec![config_map("made"), resource])).await {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message),
        other => anyhow::bail!("it should be refused: {other:?}"),
    }
}

#[tokio::test]
async fn nobody_puts_into_a_class_what_he_could_not_make_himself() -> Result<()> {
    let who = author("author-of-config-maps", vec![config_maps()]).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let told = refusal(&who, "authored", secret).await?;
    assert!(told.contains("spec.resources[1]") && told.contains("resources: [secrets], verbs: [create]"), "{told}");
    assert!(told.contains("escalate"), "{told}");
    Ok(())
}

#[tokio::test]
async fn nobody_lets_a_class_take_over_what_he_could_not_change_himself() -> Result<()> {
    let writes = |verbs: &[&str]| json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs});
    let makes = author("author-who-makes", vec![writes(&["create"])]).await?;
    let changes = author("author-who-changes", vec![writes(&["create", "patch"])]).await?;
    let class =
        |on_conflict: &str| json!({"spec": {"policy": {"onConflict": on_conflict}, "resources": [config_map("made")]}});
    for (who, name, allowed, refused, missing) in [
        (&makes, "takes-nothing-over", "Refuse", "Adopt", "verbs: [patch]"),
        (&changes, "replaces-nothing", "Adopt", "Replace", "verbs: [delete]"),
    ] {
        eventually("the rights to count", || async { Ok(Some(write(who, name, class(allowed)).await?)) }).await;
        let told = write(who, name, class(refused)).await.err().context("it was let in")?.to_string();
        assert!(told.contains("spec.resources[0]") && told.contains(missing), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn nobody_hands_out_by_a_class_what_he_does_not_hold() -> Result<()> {
    let roles = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create"]});
    let who = author("author-of-roles", vec![config_maps(), roles]).await?;
    let role = |verb: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}],
        })
    };
    let told = refusal(&who, "authored-roles", role("delete")).await?;
    assert!(told.contains("resources: [configmaps], verbs: [delete]"), "{told}");
    write(&who, "authored-roles", class(vec![role("create")])).await.context("what the author holds")?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}, "subjects": [],
    });
    let told = refusal(&who, "authored-roles", binding).await?;
    assert!(told.contains("resources: [clusterroles], resourceNames: [admin], verbs: [bind]"), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_write_that_leaves_alone_what_namespaces_get_is_not_judged_and_escalate_lets_everything_in() -> Result<()> {
    let who = author("author-of-labels", vec![]).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    let admin = world().await.bed.admin();
    write(admin, "labelled-by-others", class(vec![secret.clone()])).await?;
    let api: Api<NamespaceClass> = Api::all(who.client.clone());
    let label = Patch::Merge(json!({"metadata": {"labels": {"example.com/a": "b"}}}));
    eventually("the label", || async {
        Ok(Some(api.patch("labelled-by-others", &PatchParams::default(), &label).await?))
    })
    .await;
    let paused = Patch::Merge(json!({"spec": {"rollout": {"paused": true}}}));
    api.patch("labelled-by-others", &PatchParams::default(), &paused).await.context("nobody gets anything by it")?;
    let spec = Patch::Merge(json!({"spec": {"protect": true}}));
    assert!(api.patch("labelled-by-others", &PatchParams::default(), &spec).await.is_err(), "any change of it is his");
    let escalate = json!({"apiGroups": ["akuity.io"], "resources": ["namespaceclasses"], "verbs": ["escalate"]});
    let who = author("author-of-anything", vec![escalate]).await?;
    eventually("the class", || async { Ok(Some(write(&who, "authored-freely", class(vec![secret.clone()])).await?)) })
        .await;
    Ok(())
}

#[tokio::test]
async fn who_may_not_label_namespaces_writes_no_class_that_does() -> Result<()> {
    let who = author("labels-nothing", vec![config_maps()]).await?;
    let labelling =
        json!({"spec": {"namespaceMetadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}});
    eventually("the rights to count", || async {
        Ok(Some(write(&who, "labels-nothing", class(vec![config_map("made")])).await?))
    })
    .await;
    let refused = write(&who, "labels-nothing", labelling.clone()).await.err().context("it was let in")?.to_string();
    assert!(refused.contains("spec.namespaceMetadata") && refused.contains("verbs: [patch]"), "{refused}");
    let namespaces = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["patch"]});
    let other = author("labels-all", vec![namespaces]).await?;
    eventually("who may label namespaces to say so in a class", || async {
        Ok(Some(write(&other, "labels-all", labelling.clone()).await?))
    })
    .await;
    Ok(())
}
