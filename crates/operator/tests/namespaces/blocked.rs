//! One bad thing blocks itself only: everything else of the class is made, and the namespace can leave.

use std::time::Duration;

use anyhow::{Context, Result};
use croft_testbed::{
    Testbed,
    fault::{Action, Match},
};
use k8s_openapi::api::core::v1::{ResourceQuota, ServiceAccount};
use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    scene::{Class, Proxied, Space, condition, config_map, make, may_be_in_classes, proxied, world},
    support::{World, apply, eventually},
};

#[tokio::test]
async fn an_error_of_the_api_server_on_an_early_rank_blocks_its_own_item_only() -> Result<()> {
    let proxied: &Proxied = proxied().await;
    let space = Space::new(&proxied.bed, "early").await?;
    let refused = Match::verb("create").resource("serviceaccounts").namespace(&space.name);
    let broken = proxied.proxy.on(refused).before(Action::Status(500)).always();
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "first"}});
    let spec = json!({"resources": [account, config_map("made", "1")]});
    let class = Class::with_spec(proxied.client(), "early", spec).await?;
    space.label(Some("early")).await?;
    space.has_value("made", "1").await;
    let binding = space.says("ApplyFailed").await;
    let message = condition(&binding, "Ready").context("a condition")?.message;
    assert!(message.contains("ServiceAccount/first"), "{message}");
    let tried = broken.fired();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(broken.fired() - tried < 10, "{} times in five seconds", broken.fired() - tried);
    broken.remove();
    space.follows(&class).await;
    assert!(space.api::<ServiceAccount>().get_opt("first").await?.is_some());
    space.label(None).await?;
    space.is_unbound().await;
    Ok(())
}

#[tokio::test]
async fn a_kind_that_can_only_be_created_blocks_its_own_item_only() -> Result<()> {
    let world = world().await;
    let admin = world.bed.admin();
    apply(admin, &may_be_in_classes("authorization.k8s.io", "localsubjectaccessreviews")).await?;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"name": "asked"},
        "spec": {"user": "somebody", "resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    let spec = json!({"resources": [review, config_map("made", "1")]});
    Class::with_spec(world.client(), "create-only", spec).await?;
    let space = Space::of(&world.bed, "create-only", "create-only").await?;
    space.has_value("made", "1").await;
    let binding = space.says("Unobservable").await;
    let message = condition(&binding, "Ready").context("a condition")?.message;
    assert!(message.contains("LocalSubjectAccessReview/asked"), "{message}");
    space.label(None).await?;
    space.is_unbound().await;
    space.lacks("made").await;
    Ok(())
}

#[tokio::test]
async fn an_aggregated_api_that_is_down_blocks_its_own_items_only() -> Result<()> {
    // Discovery of everything is the worse for it: not in the world that other tests share.
    let world = World::own(Testbed::kubernetes()).await?;
    let admin = world.bed.admin();
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.down.example.com"},
        "spec": {
            "group": "down.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nowhere"},
        },
    });
    apply(admin, &service.to_string()).await?;
    apply(admin, &may_be_in_classes("down.example.com", "lamps")).await?;
    let lamp = json!({"apiVersion": "down.example.com/v1", "kind": "Lamp", "metadata": {"name": "dark"}});
    let spec = json!({"resources": [lamp, config_map("made", "1")]});
    Class::with_spec(world.client(), "aggregated", spec).await?;
    let space = Space::of(&world.bed, "aggregated", "aggregated").await?;
    space.has_value("made", "1").await;
    let told = eventually("the lamp to be told", || async {
        let Some(binding) = space.bindings().get_opt(&space.name).await? else { return Ok(None) };
        let ready = condition(&binding, "Ready");
        Ok(ready.filter(|ready| ready.status == "False" && ready.message.contains("Lamp/dark")))
    })
    .await;
    assert!(["Unobservable", "KindNotInstalled"].contains(&told.reason.as_str()), "{told:?}");
    // Drift of everything else is put right, and the namespace can leave.
    space.edit("made", "somebody", json!({"data": {"key": "theirs"}})).await?;
    space.has_value("made", "1").await;
    space.label(None).await?;
    space.lacks("made").await;
    space.is_unbound().await;
    Ok(())
}

#[tokio::test]
async fn a_refusal_that_repeats_a_huge_value_is_told_at_a_length_that_can_be_stored() -> Result<()> {
    let world = world().await;
    let ports = json!([{"port": 80}]);
    let huge = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "huge"},
        "spec": {"type": "x".repeat(100_000), "ports": ports},
    });
    let class = Class::with_spec(world.client(), "huge", json!({"resources": [config_map("made", "1")]})).await?;
    let space = Space::of(&world.bed, "huge", "huge").await?;
    space.follows(&class).await;
    class.set_spec(json!({"resources": [config_map("made", "2"), huge]})).await?;
    let binding = space.says("ApplyFailed").await;
    let message = condition(&binding, "Ready").context("a condition")?.message;
    assert!(message.contains("Service/huge") && message.len() < 4_000, "{} bytes", message.len());
    space.has_value("made", "2").await;
    Ok(())
}

#[tokio::test]
async fn a_quota_that_is_used_up_is_named_and_no_missing_right() -> Result<()> {
    let world = world().await;
    let space = Space::new(&world.bed, "used-up").await?;
    // One is Kubernetes' own, and counts if it was there before the quota.
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "1"}}});
    let quotas = space.api::<ResourceQuota>();
    make(&quotas, quota).await?;
    eventually("the quota to count", || async {
        let used = quotas.get("few").await?.status.and_then(|status| status.used).unwrap_or_default();
        Ok(used.get("count/configmaps").map(|_| ()))
    })
    .await;
    let class = Class::define(world.client(), "used-up", &[("one", "1"), ("two", "1")]).await?;
    space.label(Some("used-up")).await?;
    let binding = space.says("QuotaExceeded").await;
    let message = condition(&binding, "Ready").context("a condition")?.message;
    assert!(message.contains("exceeded quota: few") && !message.contains("ClusterRole"), "{message}");
    quotas.delete("few", &DeleteParams::default()).await?;
    space.annotate("reconcile.akuity.io/trigger", Some("now")).await?;
    space.follows(&class).await;
    Ok(())
}
