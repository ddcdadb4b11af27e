//! Places where a naive operator goes wrong.

use anyhow::{Context, Result, ensure};
use croft_api::namespaces::{AppliedState, CLASS_LABEL, NamespaceClassBinding, NamespaceClassBindingSpec};
use k8s_openapi::api::{
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Namespace, ServiceAccount},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    scene::{Class, Space, applied, condition, config_map, crd, gone, make, may_be_in_classes, world},
    support::{apply, eventually},
};

/// Class and namespace of the same name, everything in place.
async fn furnished(name: &str, items: &[(&str, &str)]) -> Result<(Class, Space)> {
    let world = world().await;
    let class = Class::define(world.client(), name, items).await?;
    let space = Space::of(&world.bed, name, name).await?;
    space.follows(&class).await;
    Ok((class, space))
}

#[tokio::test]
async fn an_empty_label_changes_nothing_and_says_so() -> Result<()> {
    let (_, space) = furnished("empty-label", &[("made", "1")]).await?;
    let before = space.has("made").await;
    space.label(Some("")).await?;
    let told = space.event("EmptyLabel").await;
    assert!(told.contains(CLASS_LABEL), "{told}");
    let unbound = Space::of(&world().await.bed, "empty-label-new", "").await?;
    unbound.event("EmptyLabel").await;
    assert!(unbound.bindings().get_opt(&unbound.name).await?.is_none());
    assert_eq!(space.has("made").await.uid(), before.uid());
    let binding = space.says("ReconcileSuccess").await;
    assert_eq!(binding.spec.class_name, "empty-label");
    Ok(())
}

#[tokio::test]
async fn a_class_made_again_under_its_name_is_another_class() -> Result<()> {
    let (class, space) = furnished("again", &[("made", "old"), ("dropped", "1")]).await?;
    // Generation 1 again, and no time in between.
    class.api.delete("again", &DeleteParams::default()).await?;
    class.set(&[("made", "new")]).await?;
    space.has_value("made", "new").await;
    space.lacks("dropped").await;
    space.follows(&class).await;
    Ok(())
}

#[tokio::test]
async fn the_deletion_of_a_class_left_behind_has_no_effect() -> Result<()> {
    let (old, space) = furnished("left", &[("shared", "1"), ("old", "1")]).await?;
    let new = Class::define(world().await.client(), "left-for", &[("shared", "1"), ("new", "1")]).await?;
    space.label(Some("left-for")).await?;
    let before = space.follows(&new).await;
    let shared = space.has("shared").await;
    old.delete().await?;
    // Something to wait for that comes after the deletion.
    new.set(&[("shared", "2"), ("new", "1")]).await?;
    let after = space.follows(&new).await;
    assert_eq!((after.uid(), space.has("shared").await.uid()), (before.uid(), shared.uid()));
    Ok(())
}

#[tokio::test]
async fn a_field_only_the_old_class_set_goes_with_the_switch() -> Result<()> {
    let mut item = config_map("made", "1");
    item["data"]["extra"] = "1".into();
    let world = world().await;
    let one = Class::with_spec(world.client(), "fields-one", json!({"resources": [item]})).await?;
    let two = Class::define(world.client(), "fields-two", &[("made", "1")]).await?;
    let space = Space::of(&world.bed, "fields", "fields-one").await?;
    space.follows(&one).await;
    let before = space.has("made").await;
    assert!(before.data.as_ref().unwrap().contains_key("extra"));
    space.label(Some("fields-two")).await?;
    space.follows(&two).await;
    let after = space.has("made").await;
    assert_eq!((after.uid(), after.data.unwrap().len()), (before.uid(), 1));
    Ok(())
}

#[tokio::test]
async fn fast_switching_ends_with_the_last_class_and_no_leftovers() -> Result<()> {
    let world = world().await;
    Class::define(world.client(), "fast-one", &[("shared", "1"), ("one", "1")]).await?;
    let two = Class::define(world.client(), "fast-two", &[("shared", "2"), ("two", "1")]).await?;
    let space = Space::new(&world.bed, "fast").await?;
    for _ in 0..10 {
        space.label(Some("fast-one")).await?;
        space.label(Some("fast-two")).await?;
    }
    space.follows(&two).await;
    space.lacks("one").await;
    space.has_value("shared", "2").await;
    assert_eq!(space.names().await?, ["shared", "two"]);
    Ok(())
}

#[tokio::test]
async fn a_class_edited_many_times_a_second_ends_with_its_last_form() -> Result<()> {
    let (class, space) = furnished("busy", &[("made", "0"), ("n0", "")]).await?;
    let before = space.has("made").await;
    for round in 1..=20 {
        let (value, name) = (round.to_string(), format!("n{}", round % 3));
        class.set(&[("made", &value), (&name, "")]).await?;
    }
    space.follows(&class).await;
    let after = space.has_value("made", "20").await;
    assert_eq!(after.uid(), before.uid());
    eventually("no leftovers", || async { Ok((space.names().await? == ["made", "n2"]).then_some(())) }).await;
    Ok(())
}

#[tokio::test]
async fn a_binding_deleted_by_hand_comes_back_with_all_it_owns() -> Result<()> {
    let (_, space) = furnished("by-hand", &[("made", "1")]).await?;
    let before = space.bindings().get(&space.name).await?;
    space.bindings().delete(&space.name, &DeleteParams::default()).await?;
    eventually("a new binding with its objects", || async {
        let binding = space.bindings().get(&space.name).await?;
        let made = space.config_maps().get("made").await?;
        let owned = made.owner_references().iter().any(|owner| Some(&owner.uid) == binding.uid().as_ref());
        Ok((binding.uid() != before.uid() && owned).then_some(()))
    })
    .await;
    space.says("ReconcileSuccess").await;
    Ok(())
}

#[tokio::test]
async fn a_second_binding_under_another_name_is_nobodys_wish() -> Result<()> {
    let (class, space) = furnished("second", &[("made", "1")]).await?;
    let other = Class::define(world().await.client(), "second-other", &[("never", "1")]).await?;
    let spec = NamespaceClassBindingSpec { class_name: "second-other".into(), ..NamespaceClassBindingSpec::default() };
    let second = NamespaceClassBinding::new("second", spec);
    space.bindings().create(&PostParams::default(), &second).await?;
    // Something to wait for that comes after it.
    class.set(&[("made", "2")]).await?;
    space.follows(&class).await;
    other.status("no namespace", |status| status.bound_namespaces == Some(0)).await;
    assert_eq!(space.names().await?, ["made"]);
    assert!(space.bindings().get("second").await?.status.is_none(), "left alone");
    Ok(())
}

#[tokio::test]
async fn another_version_of_a_kind_is_the_same_object() -> Result<()> {
    let world = world().await;
    apply(world.bed.admin(), AUTOSCALERS).await?;
    let scaler = |version: &str, spec: Value| {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let mut item = json!({
            "apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec,
        });
        item["spec"]["scaleTargetRef"] = target;
        json!({"resources": [item]})
    };
    let class =
        Class::with_spec(world.client(), "versions", scaler("autoscaling/v1", json!({"maxReplicas": 3}))).await?;
    let space = Space::of(&world.bed, "versions", "versions").await?;
    space.follows(&class).await;
    let scalers = space.api::<HorizontalPodAutoscaler>();
    let before = scalers.get("web").await?;
    class.set_spec(scaler("autoscaling/v2", json!({"maxReplicas": 5}))).await?;
    space.follows(&class).await;
    let after = scalers.get("web").await?;
    assert_eq!((after.uid(), after.spec.unwrap().max_replicas), (before.uid(), 5));
    class
        .status("the version in use only", |status| {
            status.kinds.iter().map(|kind| kind.api_version.as_str()).eq(["autoscaling/v2"])
        })
        .await;
    Ok(())
}

const AUTOSCALERS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: classes-contain-autoscalers
  labels: {croft.dev/aggregate-to-namespace-classes: 'true'}
rules:
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
";

#[tokio::test]
async fn marks_by_which_other_tools_would_prune_a_copy_are_not_stamped() -> Result<()> {
    let world = world().await;
    let mut item = config_map("made", "1");
    item["metadata"]["labels"] =
        json!({"applyset.kubernetes.io/part-of": "x", "kustomize.toolkit.fluxcd.io/name": "x", "app": "web"});
    item["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": "x", "note": "stays"});
    item["metadata"]["finalizers"] = json!(["example.com/never"]);
    let class = Class::with_spec(world.client(), "tracking", json!({"resources": [item]})).await?;
    let space = Space::of(&world.bed, "tracking", "tracking").await?;
    space.follows(&class).await;
    let made = space.has("made").await;
    let keys: Vec<_> = made.labels().keys().chain(made.annotations().keys()).map(String::as_str).collect();
    assert_eq!(keys, ["app", "namespaceclass.akuity.io/class", "note"]);
    assert!(made.finalizers().is_empty());
    assert_eq!(made.owner_references()[0].block_owner_deletion, Some(false), "needs no right on finalizers");
    Ok(())
}

/// Refused by the API server, and of a kind that comes before most others.
fn refused_quota() -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "bad"}, "spec": {"hard": {"pods": "-1"}}})
}

#[tokio::test]
async fn one_refused_item_holds_up_no_other_and_nothing_is_pruned_meanwhile() -> Result<()> {
    let (class, space) = furnished("refused", &[("made", "1"), ("dropped", "1")]).await?;
    class.set_spec(json!({"resources": [refused_quota(), config_map("made", "2"), config_map("new", "1")]})).await?;
    space.has_value("made", "2").await;
    space.has("new").await;
    let binding = space.says("ApplyFailed").await;
    let message = condition(&binding, "Ready").unwrap().message;
    assert!(message.contains("ResourceQuota/bad"), "{message}");
    assert_eq!(applied(&binding, "bad").unwrap().state, AppliedState::Failed);
    space.has("dropped").await;
    eventually("the inventory to name what waits", || async {
        let binding = space.bindings().get(&space.name).await?;
        Ok((applied(&binding, "dropped").context("listed")?.state == AppliedState::Pruning).then_some(()))
    })
    .await;
    class.set(&[("made", "2"), ("new", "1")]).await?;
    space.lacks("dropped").await;
    space.follows(&class).await;
    Ok(())
}

#[tokio::test]
async fn an_object_stuck_in_its_deletion_is_listed_and_holds_up_nothing() -> Result<()> {
    let (class, space) = furnished("stuck", &[("made", "1"), ("stuck", "1"), ("goes", "1")]).await?;
    space.edit("stuck", "somebody", json!({"metadata": {"finalizers": ["example.com/stay"]}})).await?;
    class.set(&[("made", "2"), ("new", "1")]).await?;
    space.has_value("made", "2").await;
    space.has("new").await;
    space.lacks("goes").await;
    eventually("the stuck one to be listed", || async {
        let binding = space.bindings().get(&space.name).await?;
        Ok((applied(&binding, "stuck").context("not listed")?.state == AppliedState::Pruning).then_some(()))
    })
    .await;
    space.edit("stuck", "somebody", json!({"metadata": {"finalizers": null}})).await?;
    space.lacks("stuck").await;
    eventually("it to be off the list", || async {
        let binding = space.bindings().get(&space.name).await?;
        Ok(applied(&binding, "stuck").is_none().then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn an_object_on_its_way_out_is_made_anew_when_it_is_gone() -> Result<()> {
    let (_, space) = furnished("leaving", &[("made", "1")]).await?;
    space.edit("made", "somebody", json!({"metadata": {"finalizers": ["example.com/stay"]}})).await?;
    let before = space.has("made").await;
    space.config_maps().delete("made", &DeleteParams::default()).await?;
    let binding = space.says("Terminating").await;
    assert_eq!(condition(&binding, "Reconciling").unwrap().status, "True");
    space.edit("made", "somebody", json!({"metadata": {"finalizers": null}})).await?;
    space.says("ReconcileSuccess").await;
    assert_ne!(space.has("made").await.uid(), before.uid());
    Ok(())
}

#[tokio::test]
async fn a_namespace_made_again_under_its_name_is_furnished_again() -> Result<()> {
    let (_, space) = furnished("reborn", &[("made", "1")]).await?;
    let before = space.bindings().get(&space.name).await?;
    space.namespaces().delete(&space.name, &DeleteParams::default()).await?;
    gone(&space.namespaces(), &space.name).await;
    let namespace = json!({"metadata": {"name": space.name, "labels": {CLASS_LABEL: "reborn"}}});
    let namespace: Namespace = make(&space.namespaces(), namespace).await?;
    space.has("made").await;
    let after = space.says("ReconcileSuccess").await;
    assert_ne!(after.uid(), before.uid());
    assert_eq!(Some(&after.owner_references()[0].uid), namespace.uid().as_ref());
    Ok(())
}

#[tokio::test]
async fn a_label_added_changed_and_removed_again_acts_each_time() -> Result<()> {
    let (class, space) = furnished("relabel", &[("made", "1")]).await?;
    for _ in 0..3 {
        space.label(None).await?;
        space.lacks("made").await;
        space.is_unbound().await;
        space.label(Some("relabel")).await?;
        space.follows(&class).await;
        space.has("made").await;
    }
    Ok(())
}

#[tokio::test]
async fn a_class_of_a_hundred_items_is_applied_whole_and_taken_away_whole() -> Result<()> {
    let world = world().await;
    let items: Vec<_> = (0..100).map(|number| config_map(&format!("item-{number:03}"), "1")).collect();
    let class = Class::with_spec(world.client(), "hundred", json!({"resources": items})).await?;
    let space = Space::of(&world.bed, "hundred", "hundred").await?;
    let binding = space.follows(&class).await;
    assert_eq!(binding.status.unwrap().applied_resources.len(), 100);
    assert_eq!(space.names().await?.len(), 100);
    space.label(None).await?;
    space.is_unbound().await;
    assert!(space.names().await?.is_empty(), "removed before the binding, not left to the collector");
    Ok(())
}

#[tokio::test]
async fn a_kind_that_is_uninstalled_is_told_and_the_rest_keeps_working() -> Result<()> {
    let world = world().await;
    let widgets = crd("traps.croft.dev", "Widget", "widgets", "Namespaced");
    apply(world.bed.admin(), &may_be_in_classes("traps.croft.dev", "widgets")).await?;
    apply(world.bed.admin(), &widgets).await?;
    let widget = |value: &str| {
        let widget = json!({"apiVersion": "traps.croft.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"v": value}});
        json!({"resources": [widget, config_map("made", value)]})
    };
    let class = Class::with_spec(world.client(), "widgets", widget("1")).await?;
    let space = Space::of(&world.bed, "widgets", "widgets").await?;
    space.follows(&class).await;
    world.bed.admin().kubectl(&["delete", "crd", "widgets.traps.croft.dev"]).await?;
    space.says("KindNotInstalled").await;
    class.set_spec(widget("2")).await?;
    space.has_value("made", "2").await;
    let binding = space.says("KindNotInstalled").await;
    assert_eq!(applied(&binding, "w").unwrap().state, AppliedState::Pending);
    apply(world.bed.admin(), &widgets).await?;
    space.follows(&class).await;
    // And a class whose kind is gone can be left.
    world.bed.admin().kubectl(&["delete", "crd", "widgets.traps.croft.dev"]).await?;
    space.says("KindNotInstalled").await;
    space.label(None).await?;
    space.is_unbound().await;
    space.lacks("made").await;
    Ok(())
}

#[tokio::test]
async fn on_a_switch_the_old_objects_stay_until_all_new_ones_stand() -> Result<()> {
    let (_, space) = furnished("break-from", &[("old", "1")]).await?;
    let world = world().await;
    let spec = json!({"resources": [config_map("new", "1"), refused_quota()]});
    let next = Class::with_spec(world.client(), "break-to", spec).await?;
    space.label(Some("break-to")).await?;
    space.has("new").await;
    space.says("ApplyFailed").await;
    space.has("old").await;
    next.set(&[("new", "1")]).await?;
    space.lacks("old").await;
    Ok(())
}

#[tokio::test]
async fn accounts_a_class_makes_do_not_disturb_those_of_kubernetes() -> Result<()> {
    let world = world().await;
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let class = Class::with_spec(world.client(), "accounts", json!({"resources": [robot]})).await?;
    let space = Space::of(&world.bed, "accounts", "accounts").await?;
    space.follows(&class).await;
    space.label(None).await?;
    let accounts: Api<ServiceAccount> = space.api();
    gone(&accounts, "robot").await;
    ensure!(accounts.get_opt("default").await?.is_some(), "it stays");
    Ok(())
}
