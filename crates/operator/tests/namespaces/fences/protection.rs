//! Objects of a class with `protect: true` are written by the operator alone.

use anyhow::{Context, Result};
use croft::namespaces::fences::PROTECTION;
use croft_api::namespaces::{CLASS_LABEL, NamespaceClassBinding, PROTECTED_LABEL};
use croft_testbed::{Identity, Testbed};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Plot, Target, Way, assert_refused, config_map, define, quota};
use crate::support::{Shared, eventually, shared};

async fn world() -> &'static Shared {
    shared(Testbed::kubernetes()).await
}

/// A namespace with one protected ConfigMap `made` and one protected ResourceQuota `limits`.
pub(super) async fn protected_plot(bed: &Testbed, name: &str) -> Result<Plot> {
    let plot = Plot::new(bed, name).await?;
    define(&plot.admin, name, true, vec![config_map("made"), quota("limits")]).await?;
    plot.bind(name).await?;
    plot.ready().await;
    Ok(plot)
}

fn config_maps(client: &Client, plot: &Plot) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), &plot.namespace)
}

/// Edits, takes marks off and deletes, in every way.
pub(super) async fn assert_no_way(plot: &Plot, class: &str, who: &Identity) -> Result<()> {
    let before = config_maps(&plot.admin, plot).get("made").await?;
    let refused = |what: &str, answer: kube::Result<()>| {
        let message = assert_refused(PROTECTION, &answer, what);
        assert!(message.contains(&format!("class {class} protects the objects")), "{message}");
    };
    let made = Target::config_map(&who.client, &plot.namespace, "made");
    for way in Way::ALL {
        refused(&format!("edited by {way:?}"), made.write(way, "example.com/note", Some("mine")).await);
        // What is only tried out changes nothing.
        made.dry_run()
            .write(way, "example.com/note", Some("mine"))
            .await
            .with_context(|| format!("{way:?} as dry run"))?;
    }
    for way in Way::ALL.into_iter().filter(|way| *way != Way::Apply) {
        refused(&format!("mark off by {way:?}"), made.write(way, PROTECTED_LABEL, None).await);
    }
    for (what, patch) in [
        ("data", json!({"data": {"key": "mine"}})),
        ("owner taken off", json!({"metadata": {"ownerReferences": null}})),
        ("mark and owner taken off", json!({"metadata": {"ownerReferences": null, "labels": null}})),
        ("finalizer", json!({"metadata": {"finalizers": ["example.com/stay"]}})),
    ] {
        refused(what, made.patch(&Patch::Merge(patch)).await);
    }
    let limits = Target::quota(&who.client, &plot.namespace, "limits").through("status");
    for way in [Way::Replace, Way::Merge, Way::Json, Way::Strategic] {
        refused(&format!("mark off through the status by {way:?}"), limits.write(way, PROTECTED_LABEL, None).await);
    }
    let api = config_maps(&who.client, plot);
    assert_refused(PROTECTION, &api.delete("made", &DeleteParams::default()).await, "delete");
    let all = ListParams::default().labels(PROTECTED_LABEL);
    assert_refused(PROTECTION, &api.delete_collection(&DeleteParams::default(), &all).await, "delete all");
    let after = config_maps(&plot.admin, plot).get("made").await?;
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()), "untouched");
    Ok(())
}

#[tokio::test]
async fn a_tenant_cannot_edit_unmark_or_delete_a_protected_object() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "protected").await?;
    assert_no_way(&plot, "protected", &plot.owner).await
}

#[tokio::test]
async fn nor_can_an_account_with_every_right_such_as_a_backup_tool() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "restored").await?;
    let tool = world.bed.cluster_admin("fence-tests", "backup-tool").await?;
    assert_no_way(&plot, "restored", &tool).await
}

#[tokio::test]
async fn the_controllers_of_kubernetes_are_not_locked_out() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "controllers").await?;
    let controller = world.bed.cluster_admin("kube-system", "fence-test-controller").await?;
    let limits = Target::quota(&controller.client, &plot.namespace, "limits");
    // New rights take the API server a moment.
    eventually("the status", || async { Ok(Some(limits.through("status").patch(&used(3)).await?)) }).await;
    limits
        .patch(&Patch::Merge(json!({"metadata": {"finalizers": ["example.com/mine"]}})))
        .await
        .context("a finalizer")?;
    limits.patch(&Patch::Merge(json!({"metadata": {"finalizers": null}}))).await?;
    let api = config_maps(&controller.client, &plot);
    api.delete("made", &DeleteParams::default()).await.context("what the garbage collector does")?;
    Ok(())
}

fn used(pods: u32) -> Patch<Value> {
    Patch::Merge(json!({"status": {"used": {"pods": pods.to_string()}}}))
}

#[tokio::test]
async fn whoever_may_write_the_status_of_a_protected_object_still_may() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "status").await?;
    let limits = Target::quota(&plot.owner.client, &plot.namespace, "limits").through("status");
    eventually("the status to be written", || async { Ok(Some(limits.patch(&used(2)).await?)) }).await;
    Ok(())
}

#[tokio::test]
async fn the_operator_changes_and_prunes_what_it_protects() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "changed").await?;
    let api = config_maps(&plot.admin, &plot);
    let mut changed = config_map("made");
    changed["data"]["key"] = "changed in the class".into();
    define(&plot.admin, "changed", true, vec![changed]).await?;
    eventually("the change", || async {
        let data = api.get("made").await?.data.unwrap_or_default();
        Ok((data["key"] == "changed in the class").then_some(()))
    })
    .await;
    let quotas = Target::quota(&plot.admin, &plot.namespace, "limits").api;
    eventually("the dropped one to go", || async { Ok(quotas.get_opt("limits").await?.is_none().then_some(())) }).await;
    Target::namespace(&plot.admin, &plot.namespace).write(Way::Merge, CLASS_LABEL, None).await?;
    eventually("all to go", || async { Ok(api.get_opt("made").await?.is_none().then_some(())) }).await;
    Ok(())
}

#[tokio::test]
async fn a_namespace_full_of_protected_objects_is_deleted_without_hanging() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "dying-protected").await?;
    let namespaces: Api<Namespace> = Api::all(world.client());
    namespaces.delete(&plot.namespace, &DeleteParams::default()).await?;
    eventually("the namespace to be gone", || async {
        Ok(namespaces.get_opt(&plot.namespace).await?.is_none().then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn whoever_holds_a_protected_object_in_its_deletion_may_let_go_of_it_and_nothing_else() -> Result<()> {
    let world = world().await;
    let plot = protected_plot(&world.bed, "held").await?;
    let finalizers = |held: Value| Patch::Merge(json!({"metadata": {"finalizers": held}}));
    let limits = Target::quota(&plot.admin, &plot.namespace, "limits");
    limits.patch(&finalizers(json!(["example.com/a", "example.com/b"]))).await?;
    define(&plot.admin, "held", true, vec![config_map("made")]).await?;
    let bindings: Api<NamespaceClassBinding> = Api::namespaced(world.client(), &plot.namespace);
    eventually("what it waits for to be told", || async {
        let status = bindings.get(&plot.namespace).await?.status.unwrap_or_default();
        let told = status.applied_resources.into_iter().find(|applied| applied.name == "limits");
        Ok(told.and_then(|told| told.message).filter(|told| told.contains("example.com/a, example.com/b")))
    })
    .await;
    let hers = Target::quota(&plot.owner.client, &plot.namespace, "limits");
    let more = json!({"metadata": {"finalizers": []}, "spec": {"hard": {"pods": "500"}}});
    for (what, patch) in [
        ("another value", Patch::Merge(json!({"spec": {"hard": {"pods": "500"}}}))),
        ("another value as well", Patch::Merge(more)),
        ("a label", Patch::Merge(json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/a"]}}))),
    ] {
        assert_refused(PROTECTION, &hers.patch(&patch).await, what);
    }
    hers.patch(&finalizers(json!(["example.com/a"]))).await.context("one finalizer less")?;
    hers.patch(&finalizers(json!(null))).await.context("none")?;
    eventually("it to be gone", || async { Ok(limits.api.get_opt("limits").await?.is_none().then_some(())) }).await;
    Ok(())
}

#[tokio::test]
async fn without_protect_a_tenant_may_edit_and_delete() -> Result<()> {
    let world = world().await;
    let plot = Plot::new(&world.bed, "unprotected").await?;
    define(&plot.admin, "unprotected", false, vec![config_map("made")]).await?;
    plot.bind("unprotected").await?;
    plot.ready().await;
    let api = config_maps(&plot.owner.client, &plot);
    api.patch("made", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"annotations": {"mine": "yes"}}})))
        .await?;
    api.delete("made", &DeleteParams::default()).await?;
    Ok(())
}
