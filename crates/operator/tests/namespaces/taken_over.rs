//! What there is already under a name that a class wants.

use anyhow::Result;
use croft_api::namespaces::STAMP_LABEL;
use k8s_openapi::api::core::v1;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    scene::{Class, Space, config_map, world},
    support::eventually,
};

/// The keys in the data of a config map.
async fn keys(space: &Space, name: &str) -> Result<Vec<String>> {
    Ok(space.config_maps().get(name).await?.data.unwrap_or_default().into_keys().collect())
}

#[tokio::test]
async fn what_is_nobodys_is_replaced_where_the_class_says_so_and_goes_with_it() -> Result<()> {
    let world = world().await;
    let space = Space::new(world.bed, "replaced").await?;
    let mut theirs = config_map("made", "theirs");
    theirs["data"]["theirs"] = "yes".into();
    theirs["metadata"]["annotations"] = json!({"theirs": "yes"});
    let before = space.stranger_makes(theirs).await?;
    let spec = json!({"policy": {"onConflict": "Replace"}, "resources": [config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "replaced", spec).await?;
    space.label(Some("replaced")).await?;
    space.follows(&class).await;
    let after = space.has_value("made", "1").await;
    assert_eq!(after.uid(), before.uid());
    assert!(keys(&space, "made").await? == ["key"] && after.annotations().is_empty(), "{after:?}");
    space.label(None).await?;
    space.lacks("made").await;
    Ok(())
}

#[tokio::test]
async fn what_is_another_controllers_is_not_replaced() -> Result<()> {
    let world = world().await;
    let space = Space::new(world.bed, "not-replaced").await?;
    let owner = space.stranger_makes(config_map("owner", "")).await?;
    let mut theirs = config_map("made", "theirs");
    theirs["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true,
    }]);
    let before = space.stranger_makes(theirs).await?;
    let spec = json!({"policy": {"onConflict": "Replace"}, "resources": [config_map("made", "1")]});
    Class::with_spec(world.client(), "not-replaced", spec).await?;
    space.label(Some("not-replaced")).await?;
    space.says("Conflict").await;
    assert_eq!(space.has("made").await.resource_version(), before.resource_version());
    Ok(())
}

#[tokio::test]
async fn what_others_add_goes_where_drift_is_corrected_exactly_but_for_what_is_left_to_them() -> Result<()> {
    let world = world().await;
    let mut made = config_map("made", "1");
    made["metadata"]["annotations"] = json!({"namespaceclass.akuity.io/ignore-fields": "/data/left, /data/open"});
    let spec = json!({"policy": {"onDrift": "Exact"}, "resources": [made]});
    let class = Class::with_spec(world.client(), "exact", spec).await?;
    let space = Space::of(world.bed, "exact", "exact").await?;
    space.follows(&class).await;
    space.edit("made", "somebody", json!({"data": {"left": "theirs"}})).await?;
    let added =
        json!({"data": {"more": "theirs"}, "metadata": {"labels": {"theirs": "yes"}}, "binaryData": {"b": "AAAA"}});
    space.edit("made", "somebody", added).await?;
    eventually("what was added to go", || async {
        let object = space.config_maps().get("made").await?;
        let is_exact = !object.labels().contains_key("theirs") && object.binary_data.is_none();
        Ok((is_exact && keys(&space, "made").await? == ["key", "left"]).then_some(()))
    })
    .await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn what_can_only_be_undone_as_a_whole_is_undone() -> Result<()> {
    let world = world().await;
    let door = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "door"},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80}], "selector": {"app": "shop"}},
    });
    let spec = json!({"policy": {"onDrift": "Exact"}, "resources": [door, config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "alias", spec).await?;
    let space = Space::of(world.bed, "alias", "alias").await?;
    space.follows(&class).await;
    let services: Api<v1::Service> = Api::namespaced(world.client(), &space.name);
    let alias = json!({"spec": {"type": "ExternalName", "externalName": "elsewhere.example", "clusterIP": null}});
    services.patch("door", &PatchParams::default(), &Patch::Merge(alias)).await?;
    eventually("the alias to be a service again", || async {
        let spec = services.get("door").await?.spec.unwrap_or_default();
        anyhow::ensure!(spec.type_.as_deref() == Some("ClusterIP"), "it is {spec:?}");
        Ok(spec.external_name.is_none().then_some(()))
    })
    .await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn an_object_that_only_says_it_is_ours_keeps_nothing_of_its_own() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "says-so", &[("made", "1")]).await?;
    let space = Space::of(world.bed, "says-so", "says-so").await?;
    let binding = space.follows(&class).await;
    let mut forged = config_map("made", "1");
    forged["data"]["theirs"] = "yes".into();
    forged["metadata"]["labels"] = json!({STAMP_LABEL: "says-so"});
    forged["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClassBinding", "name": space.name, "uid": binding.uid(),
        "controller": true,
    }]);
    // An administrator of last resort may write anything; whose turn comes first is chance.
    eventually("the forged one to be there", || async {
        space.config_maps().delete("made", &DeleteParams::default()).await?;
        Ok(space.stranger_makes(forged.clone()).await.ok())
    })
    .await;
    eventually("what is not ours to go", || async { Ok((keys(&space, "made").await? == ["key"]).then_some(())) }).await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn what_a_backup_brought_back_is_replaced_whole() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "brought-back", &[("made", "1")]).await?;
    let space = Space::new(world.bed, "brought-back").await?;
    let mut copy = config_map("made", "old");
    copy["metadata"]["labels"] = json!({STAMP_LABEL: "brought-back", "theirs": "yes"});
    copy["metadata"]["annotations"] = json!({"theirs": "yes"});
    copy["data"]["theirs"] = "yes".into();
    copy["binaryData"] = json!({"theirs-too": "AAAA"});
    let before = space.stranger_makes(copy).await?;
    space.label(Some("brought-back")).await?;
    space.follows(&class).await;
    let after = space.has_value("made", "1").await;
    assert_eq!(after.uid(), before.uid(), "never absent");
    assert_eq!(after.data.as_ref().map(std::collections::BTreeMap::len), Some(1), "{after:?}");
    assert!(after.binary_data.is_none() && after.annotations().is_empty(), "{after:?}");
    assert_eq!(after.labels().keys().collect::<Vec<_>>(), [STAMP_LABEL]);
    space.label(None).await?;
    space.lacks("made").await;
    Ok(())
}
