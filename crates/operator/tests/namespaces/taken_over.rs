//! What there is already under a name that a class wants.

use anyhow::Result;
use croft_api::namespaces::STAMP_LABEL;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    scene::{Class, Space, config_map, may_be_in_classes, world},
    support::{self, eventually},
};

/// The keys in the data of a config map.
async fn keys(space: &Space, name: &str) -> Result<Vec<String>> {
    Ok(space.config_maps().get(name).await?.data.unwrap_or_default().into_keys().collect())
}

#[tokio::test]
async fn what_is_nobodys_is_replaced_where_the_class_says_so_and_goes_with_it() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "replaced").await?;
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
    let space = Space::new(&world.bed, "not-replaced").await?;
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
    let space = Space::of(&world.bed, "exact", "exact").await?;
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
    let space = Space::of(&world.bed, "alias", "alias").await?;
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
async fn one_field_that_cannot_be_taken_out_keeps_nothing_else_in() -> Result<()> {
    let world = world().await;
    let door = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "door"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "shop"}},
    });
    let spec = json!({"policy": {"onDrift": "Exact"}, "resources": [door]});
    let class = Class::with_spec(world.client(), "one-field", spec).await?;
    let space = Space::of(&world.bed, "one-field", "one-field").await?;
    space.follows(&class).await;
    let services: Api<v1::Service> = Api::namespaced(world.client(), &space.name);
    // Which load balancer it is can be said only as it becomes one.
    let closed = json!({"spec": {"type": "ClusterIP", "allocateLoadBalancerNodePorts": null}});
    let open = json!({"spec": {
        "type": "LoadBalancer", "loadBalancerClass": "a.b/c", "externalIPs": ["10.9.8.7"], "selector": {"more": "x"},
    }});
    eventually("her own load balancer", || async {
        services.patch("door", &PatchParams::default(), &Patch::Merge(&closed)).await?;
        let hers = services.patch("door", &PatchParams::default(), &Patch::Merge(&open)).await;
        let is_hers = |service: v1::Service| service.spec.is_some_and(|spec| spec.load_balancer_class.is_some());
        Ok(hers.is_ok_and(is_hers).then_some(()))
    })
    .await;
    eventually("all else to go", || async {
        let spec = services.get("door").await?.spec.unwrap_or_default();
        let is_extended = spec.selector.is_none_or(|selector| selector.contains_key("more"));
        Ok((spec.external_ips.is_none() && !is_extended).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn an_object_that_only_says_it_is_ours_keeps_nothing_of_its_own() -> Result<()> {
    let world = world().await;
    let class = Class::define(world.client(), "says-so", &[("made", "1")]).await?;
    let space = Space::of(&world.bed, "says-so", "says-so").await?;
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
    let space = Space::new(&world.bed, "brought-back").await?;
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

#[tokio::test]
async fn a_quota_that_was_made_with_scopes_before_the_class_came_limits_what_the_class_says() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "scoped-before").await?;
    let mut quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "made"}, "spec": {"hard": {"pods": "1"}},
    });
    let spec = json!({"protect": true, "resources": [quota]});
    quota["metadata"]["labels"] = json!({STAMP_LABEL: "scoped-before"});
    quota["spec"]["scopes"] = json!(["Terminating"]);
    let quotas = space.api::<v1::ResourceQuota>();
    let before = quotas.create(&PostParams::default(), &serde_json::from_value(quota)?).await?;
    let class = Class::with_spec(world.client(), "scoped-before", spec).await?;
    space.label(Some("scoped-before")).await?;
    space.follows(&class).await;
    let after = quotas.get("made").await?;
    assert!(after.spec.is_some_and(|spec| spec.scopes.is_none()), "it was {before:?}");
    Ok(())
}

#[tokio::test]
async fn what_was_made_to_look_like_ours_is_not_held_by_who_made_it() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "held-before").await?;
    let mut theirs = config_map("made", "1");
    theirs["metadata"]["labels"] = json!({STAMP_LABEL: "held-before"});
    theirs["metadata"]["finalizers"] = json!(["example.com/mine"]);
    let before = space.stranger_makes(theirs).await?;
    let spec = json!({"protect": true, "resources": [config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "held-before", spec).await?;
    space.label(Some("held-before")).await?;
    space.follows(&class).await;
    let after = space.has("made").await;
    assert_eq!((after.uid(), after.finalizers()), (before.uid(), &[][..]));
    space.label(None).await?;
    space.lacks("made").await;
    Ok(())
}

#[tokio::test]
async fn who_takes_the_stamp_off_with_what_she_adds_adds_nothing_where_drift_is_corrected_exactly() -> Result<()> {
    let world = world().await;
    let spec = json!({"policy": {"onDrift": "Exact"}, "resources": [config_map("made", "1")]});
    let class = Class::with_spec(world.client(), "exact-unstamped", spec).await?;
    let space = Space::of(&world.bed, "exact-unstamped", "exact-unstamped").await?;
    space.follows(&class).await;
    let added = json!({"metadata": {"labels": {STAMP_LABEL: null}}, "data": {"more": "theirs"}});
    space.edit("made", "somebody", added).await?;
    eventually("what was added to go", || async {
        let object = space.config_maps().get("made").await?;
        let is_back = object.labels().contains_key(STAMP_LABEL);
        Ok((is_back && keys(&space, "made").await? == ["key"]).then_some(()))
    })
    .await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn what_a_class_drops_goes_whoever_says_that_it_is_his_as_well() -> Result<()> {
    let world = world().await;
    let mut made = config_map("made", "1");
    made["data"]["dropped"] = "1".into();
    let spec = |made: serde_json::Value| json!({"resources": [made]});
    let class = Class::with_spec(world.client(), "shared-fields", spec(made)).await?;
    let (applying, emptying) = (
        Space::of(&world.bed, "shared-by-apply", "shared-fields").await?,
        Space::of(&world.bed, "shared-by-nobody", "shared-fields").await?,
    );
    for space in [&applying, &emptying] {
        space.follows(&class).await;
    }
    let same = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"dropped": "1"},
    });
    applying.config_maps().patch("made", &PatchParams::apply("somebody"), &Patch::Apply(&same)).await?;
    emptying.edit("made", "somebody", json!({"metadata": {"managedFields": [{}]}, "data": {"theirs": "1"}})).await?;
    class.set_spec(spec(config_map("made", "1"))).await?;
    for (space, left) in [(&applying, &["key"][..]), (&emptying, &["key", "theirs"][..])] {
        eventually("what was dropped to go", || async { Ok((keys(space, "made").await? == *left).then_some(())) })
            .await;
        space.follows(&class).await;
    }
    Ok(())
}

#[tokio::test]
async fn what_a_class_hands_over_to_others_stays_as_they_have_it() -> Result<()> {
    let world = world().await;
    let mut made = config_map("made", "1");
    made["data"]["left"] = "1".into();
    let spec = |made: serde_json::Value| json!({"policy": {"onDrift": "Exact"}, "resources": [made]});
    let class = Class::with_spec(world.client(), "handed-over", spec(made)).await?;
    let space = Space::of(&world.bed, "handed-over", "handed-over").await?;
    space.follows(&class).await;
    let same = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}, "data": {"left": "1"}});
    space.config_maps().patch("made", &PatchParams::apply("somebody"), &Patch::Apply(&same)).await?;
    let mut handed_over = config_map("made", "2");
    handed_over["metadata"]["annotations"] = json!({"namespaceclass.akuity.io/ignore-fields": "/data/left"});
    class.set_spec(spec(handed_over)).await?;
    space.follows(&class).await;
    assert_eq!(keys(&space, "made").await?, ["key", "left"]);
    Ok(())
}

#[tokio::test]
async fn what_a_class_drops_and_its_kind_asks_for_stays_and_nothing_hangs_on_it() -> Result<()> {
    let world = world().await;
    support::apply(world.bed.admin(), &may_be_in_classes("autoscaling", "horizontalpodautoscalers")).await?;
    let scaler = |most: Option<i32>| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"});
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "made"},
            "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": most},
        })
    };
    let mut dropped = scaler(None);
    dropped["spec"].as_object_mut().unwrap().remove("maxReplicas");
    let spec = |made: serde_json::Value| json!({"resources": [made]});
    let class = Class::with_spec(world.client(), "asked-for", spec(scaler(Some(3)))).await?;
    let space = Space::of(&world.bed, "asked-for", "asked-for").await?;
    space.follows(&class).await;
    let scalers = space.api::<HorizontalPodAutoscaler>();
    scalers.patch("made", &PatchParams::apply("somebody"), &Patch::Apply(&scaler(Some(3)))).await?;
    class.set_spec(spec(dropped)).await?;
    space.follows(&class).await;
    assert_eq!(scalers.get("made").await?.spec.map(|spec| spec.max_replicas), Some(3));
    Ok(())
}

#[tokio::test]
async fn what_a_class_drops_keeps_out_nothing_that_excludes_it() -> Result<()> {
    let world = world().await;
    support::apply(world.bed.admin(), &may_be_in_classes("apps", "deployments")).await?;
    let deployment = |strategy: &serde_json::Value| {
        let labels = json!({"app": "made"});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "made"},
            "spec": {
                "replicas": 0, "strategy": strategy, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
            },
        })
    };
    let (rolling, recreate) = (
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
        json!({"type": "Recreate"}),
    );
    let spec = |strategy| json!({"resources": [deployment(strategy)]});
    let class = Class::with_spec(world.client(), "excluding", spec(&rolling)).await?;
    let space = Space::of(&world.bed, "excluding", "excluding").await?;
    space.follows(&class).await;
    let deployments = space.api::<Deployment>();
    deployments.patch("made", &PatchParams::apply("somebody").force(), &Patch::Apply(&deployment(&rolling))).await?;
    class.set_spec(spec(&recreate)).await?;
    space.follows(&class).await;
    let strategy = deployments.get("made").await?.spec.and_then(|spec| spec.strategy).unwrap_or_default();
    assert!(strategy.type_.as_deref() == Some("Recreate") && strategy.rolling_update.is_none(), "{strategy:?}");
    Ok(())
}
