//! Nobody but the operator makes an object look protected, so nobody makes one that cannot be deleted.

use anyhow::{Context, Result, ensure};
use croft::namespaces::fences::MARKS;
use croft_api::namespaces::{PROTECTED_LABEL, STAMP_LABEL};
use croft_testbed::{Identity, Testbed};
use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::RoleBinding};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PostParams},
};
use serde_json::{Value, json};

use super::{Plot, Target, Way, assert_refused, protection::protected_plot};
use crate::support::{Shared, eventually, shared};

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

/// An owner reference to the binding of the namespace.
async fn owner(plot: &Plot) -> Value {
    let uid = plot.ready().await.uid();
    json!({
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClassBinding", "name": plot.namespace, "uid": uid,
        "controller": true,
    })
}

async fn create(client: &Client, plot: &Plot, metadata: Value) -> kube::Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &plot.namespace);
    let object = serde_json::from_value(json!({"metadata": metadata, "data": {"key": "x"}}));
    api.create(&PostParams::default(), &object.map_err(kube::Error::SerdeError)?).await
}

/// The owner of a namespace cannot make anything look protected.
pub(super) async fn assert_no_way(plot: &Plot) {
    let metadata = json!({"name": "looks-protected", "labels": {PROTECTED_LABEL: "true"}});
    assert_refused(MARKS, &create(&plot.owner.client, plot, metadata).await, "a mark");
}

#[tokio::test]
async fn a_tenant_cannot_make_an_object_that_nobody_can_delete() -> Result<()> {
    let plot = protected_plot(&world().await.bed, "forged").await?;
    let owner = owner(&plot).await;
    let role_bindings: Api<RoleBinding> = Api::namespaced(plot.owner.client.clone(), &plot.namespace);
    let marked = json!({PROTECTED_LABEL: "true"});
    let forged: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "mine", "labels": marked, "ownerReferences": [owner]},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
    }))?;
    assert_refused(MARKS, &role_bindings.create(&PostParams::default(), &forged).await, "both marks");
    for (what, metadata, advice) in [
        ("the label", json!({"name": "mine", "labels": marked}), "leave it out"),
        ("the owner", json!({"name": "mine", "ownerReferences": [owner]}), "leave that owner reference out"),
    ] {
        let message = assert_refused(MARKS, &create(&plot.owner.client, &plot, metadata).await, what);
        assert!(message.contains(advice), "{message}");
    }
    // With what it says left out it is let in; marked later it is not.
    let made = create(&plot.owner.client, &plot, json!({"name": "mine", "labels": {STAMP_LABEL: "forged"}})).await?;
    let mine = Target::config_map(&plot.owner.client, &plot.namespace, "mine");
    for way in Way::ALL {
        assert_refused(MARKS, &mine.write(way, PROTECTED_LABEL, Some("true")).await, &format!("{way:?}"));
    }
    let given = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
    assert_refused(MARKS, &mine.patch(&given).await, "an owner later");
    let api: Api<ConfigMap> = Api::namespaced(plot.owner.client.clone(), &plot.namespace);
    api.delete(&made.name_any(), &DeleteParams::default()).await.context("the stamp alone protects nothing")?;
    Ok(())
}

#[tokio::test]
async fn nor_can_an_account_with_every_right() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "forged-by-tool").await?;
    let tool = world.bed.cluster_admin("fence-tests", "forger").await?;
    let metadata = json!({"name": "mine", "ownerReferences": [owner(&plot).await]});
    // New rights take the API server a moment.
    eventually("the fence", || async {
        let answer = create(&tool.client, &plot, metadata.clone()).await;
        Ok(super::is_fence(MARKS, &answer).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn what_velero_brings_back_with_our_labels_protects_nothing() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "copied").await?;
    let velero: Identity = world.bed.cluster_admin("velero", "fence-tests").await?;
    let api: Api<ConfigMap> = Api::namespaced(plot.owner.client.clone(), &plot.namespace);
    let stamped = api.get("made").await?;
    let metadata = json!({"name": "copy", "labels": stamped.metadata.labels});
    let copy =
        eventually("the copy", || async { Ok(Some(create(&velero.client, &plot, metadata.clone()).await?)) }).await;
    ensure!(copy.labels().contains_key(PROTECTED_LABEL), "it carries the mark");
    let target = Target::config_map(&plot.owner.client, &plot.namespace, "copy");
    target.write(Way::Merge, "example.com/note", Some("mine")).await.context("edited")?;
    api.delete("copy", &DeleteParams::default()).await.context("deleted")?;
    let owned = json!({"name": "owned", "ownerReferences": [owner(&plot).await]});
    assert_refused(MARKS, &create(&velero.client, &plot, owned).await, "an owner out of an archive");
    Ok(())
}

#[tokio::test]
async fn what_carries_marks_of_the_operator_is_still_written_by_others_where_nothing_is_protected() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "marked-unprotected").await?;
    super::define(&plot.admin, "marked-unprotected", false, vec![super::config_map("made")]).await?;
    plot.bind("marked-unprotected").await?;
    plot.ready().await;
    let made = Target::config_map(&plot.owner.client, &plot.namespace, "made");
    for way in Way::ALL {
        made.write(way, "example.com/note", Some("mine")).await.with_context(|| format!("{way:?}"))?;
    }
    Ok(())
}
