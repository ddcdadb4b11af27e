//! Only the operator writes bindings.

use anyhow::{Context, Result};
use croft::namespaces::fences::BINDINGS;
use croft_api::namespaces::{NamespaceClassBinding, TRIGGER_ANNOTATION};
use croft_testbed::Testbed;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{Plot, assert_refused, config_map, define};
use crate::support::shared;

/// Everything that would make a binding say something else than the operator wrote.
pub(super) async fn assert_no_way(plot: &Plot) -> Result<()> {
    let admin: Api<NamespaceClassBinding> = Api::namespaced(plot.admin.clone(), &plot.namespace);
    let api: Api<NamespaceClassBinding> = Api::namespaced(plot.owner.client.clone(), &plot.namespace);
    let name = plot.namespace.as_str();
    let before = admin.get(name).await?;
    let refused = |what: &str, answer: kube::Result<NamespaceClassBinding>| {
        let message = assert_refused(BINDINGS, &answer, what);
        assert!(message.contains("bindings are written by the operator only"), "{message}");
    };

    let mut second = NamespaceClassBinding::new("second", before.spec.clone());
    refused("create", api.create(&PostParams::default(), &second).await);
    second.metadata = before.metadata.clone();
    second.spec.class_name = "bindings-other".into();
    refused("replace", api.replace(name, &PostParams::default(), &second).await);
    let switch = json!({"spec": {"className": "bindings-other"}});
    refused("merge", api.patch(name, &PatchParams::default(), &Patch::Merge(&switch)).await);
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    refused("dry run", api.patch(name, &dry_run, &Patch::Merge(&switch)).await);
    let step = json!([{"op": "replace", "path": "/spec/className", "value": "bindings-other"}]);
    let step = Patch::Json::<()>(serde_json::from_value(step)?);
    refused("json", api.patch(name, &PatchParams::default(), &step).await);
    let applied = json!({"apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClassBinding", "spec": switch["spec"]});
    refused("apply", api.patch(name, &PatchParams::apply("somebody").force(), &Patch::Apply(&applied)).await);
    let released = json!({"metadata": {"ownerReferences": null}});
    refused("owner taken off", api.patch(name, &PatchParams::default(), &Patch::Merge(&released)).await);

    let forged =
        json!({"status": {"appliedResources": [{"apiVersion": "v1", "kind": "Secret", "name": "of-somebody-else"}]}});
    refused("forged status", api.patch_status(name, &PatchParams::default(), &Patch::Merge(&forged)).await);
    refused("forged status by replace", {
        let mut forged = before.clone();
        forged.status.get_or_insert_default().observed_class_name = Some("bindings-other".into());
        api.replace_status(name, &PostParams::default(), &forged).await
    });

    assert_refused(BINDINGS, &api.delete(name, &DeleteParams::default()).await, "delete");
    assert_refused(
        BINDINGS,
        &api.delete_collection(&DeleteParams::default(), &ListParams::default()).await,
        "delete all",
    );
    let after = admin.get(name).await?;
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()), "untouched");
    Ok(())
}

#[tokio::test]
async fn a_tenant_cannot_make_change_forge_or_delete_a_binding() -> Result<()> {
    let world = shared(Testbed::kubernetes()).await;
    let plot = Plot::new(&world.bed, "bindings").await?;
    define(&world.client(), "bindings", false, vec![config_map("made")]).await?;
    plot.bind("bindings").await?;
    plot.ready().await;
    assert_no_way(&plot).await
}

#[tokio::test]
async fn an_account_with_every_right_is_no_exception_but_system_masters_is() -> Result<()> {
    let world = shared(Testbed::kubernetes()).await;
    let plot = Plot::new(&world.bed, "masters").await?;
    define(&world.client(), "masters", false, vec![config_map("made")]).await?;
    plot.bind("masters").await?;
    plot.ready().await;
    let restorer = world.bed.cluster_admin("fence-tests", "restorer").await?;
    let plot = Plot { owner: restorer, ..plot };
    assert_no_way(&plot).await?;
    let api: Api<NamespaceClassBinding> = Api::namespaced(world.client(), &plot.namespace);
    let look_again = json!({"metadata": {"annotations": {TRIGGER_ANNOTATION: "now"}}});
    api.patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&look_again)).await.context("break-glass")?;
    Ok(())
}
