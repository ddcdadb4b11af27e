//! What changed while no operator was there is made good when one comes.

use anyhow::{Context, Result};
use croft_testbed::Operator;
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::{
    scene::{Class, Proxied, Space, config_map},
    support::{PATIENCE, eventually},
};

/// One outage for all tests here: each has a namespace that was changed during it.
struct Outage {
    _world: Proxied,
    _operator: Operator,
    unlabelled: Space,
    orphaned: Space,
    without_class: Space,
    other_class: Space,
    reborn: Class,
    edited: Space,
    relabelled: Space,
    system: Space,
    emptied: Space,
}

async fn outage() -> &'static Outage {
    static OUTAGE: OnceCell<Outage> = OnceCell::const_new();
    OUTAGE.get_or_try_init(|| Box::pin(happen())).await.expect("an outage")
}

async fn happen() -> Result<Outage> {
    let world = Proxied::new().await?;
    let operator = world.started().await?;
    let plain = Class::define(world.client(), "plain", &[("made", "1"), ("dropped", "1")]).await?;
    let orphan = json!({"policy": {"onUnbind": "Orphan"}, "resources": [config_map("made", "1")]});
    let orphan = Class::with_spec(world.client(), "orphan", orphan).await?;
    let doomed = Class::define(world.client(), "doomed", &[("made", "1")]).await?;
    let reborn = Class::define(world.client(), "reborn", &[("made", "1"), ("dropped", "1")]).await?;
    let bound = async |name: &str, class: &Class| -> Result<Space> {
        let space = Space::of(&world.bed, name, &class.name).await?;
        space.follows(class).await;
        Ok(space)
    };
    let unlabelled = bound("unlabelled", &plain).await?;
    let orphaned = bound("orphaned", &orphan).await?;
    let without_class = bound("without-class", &doomed).await?;
    let other_class = bound("other-class", &reborn).await?;
    let edited = bound("edited", &plain).await?;
    let relabelled = bound("relabelled", &doomed).await?;
    let emptied = bound("emptied", &plain).await?;
    let system = Space::new(&world.bed, "kube-tenant").await?;

    operator.process.kill();
    operator.process.wait(PATIENCE).context("it is dead")?;
    // Nobody is there to answer for classes either.
    world.bed.admin().kubectl(&["delete", "validatingwebhookconfiguration", "croft"]).await?;
    unlabelled.label(None).await?;
    orphaned.label(None).await?;
    emptied.label(None).await?;
    for name in ["made", "dropped"] {
        emptied.config_maps().delete(name, &DeleteParams::default()).await?;
    }
    doomed.delete().await?;
    reborn.delete().await?;
    reborn.set(&[("made", "2")]).await?;
    edited.edit("made", "somebody", json!({"data": {"key": "edited"}})).await?;
    edited.config_maps().delete("dropped", &DeleteParams::default()).await?;
    relabelled.label(Some("plain")).await?;
    // Nor are the fences there for ever, and behind them the operator refuses as well.
    let fence = ["delete", "validatingadmissionpolicybinding", croft::namespaces::fences::CHOICE];
    world.bed.admin().kubectl(&fence).await?;
    eventually("the fence to be down", || async { Ok(system.label(Some("plain")).await.is_ok().then_some(())) }).await;
    world.forget_leader().await?;
    world.slow_to_tell("configmaps");
    let operator = world.started().await?;
    Ok(Outage {
        _world: world,
        _operator: operator,
        unlabelled,
        orphaned,
        without_class,
        other_class,
        reborn,
        edited,
        relabelled,
        system,
        emptied,
    })
}

#[tokio::test]
async fn a_label_removed_during_an_outage_takes_the_objects_away_afterwards() {
    let space = &outage().await.unlabelled;
    space.lacks("made").await;
    space.is_unbound().await;
}

#[tokio::test]
async fn a_label_removed_during_an_outage_leaves_orphans_where_the_class_says_so() {
    let space = &outage().await.orphaned;
    space.is_unbound().await;
    let made = space.has("made").await;
    assert!(made.owner_references().is_empty(), "{made:?}");
}

#[tokio::test]
async fn a_class_deleted_during_an_outage_takes_its_objects_afterwards() {
    let space = &outage().await.without_class;
    space.lacks("made").await;
    space.is_unbound().await;
}

#[tokio::test]
async fn a_class_replaced_during_an_outage_is_told_by_its_uid() {
    let outage = outage().await;
    let space = &outage.other_class;
    space.has_value("made", "2").await;
    space.lacks("dropped").await;
    space.follows(&outage.reborn).await;
}

#[tokio::test]
async fn drift_during_an_outage_is_healed_afterwards() {
    let space = &outage().await.edited;
    space.has_value("made", "1").await;
    space.has("dropped").await;
}

#[tokio::test]
async fn a_switch_during_an_outage_keeps_the_shared_object_although_the_old_class_is_gone() {
    let space = &outage().await.relabelled;
    space.has("dropped").await;
    let binding = space.says("ReconcileSuccess").await;
    assert_eq!(binding.spec.class_name, "plain");
}

#[tokio::test]
async fn a_system_namespace_gets_no_class_even_where_the_fence_is_missing() -> Result<()> {
    let space = &outage().await.system;
    let told = space.event("NotAllowed").await;
    assert!(told.contains("system namespaces"), "{told}");
    assert!(space.bindings().get_opt(&space.name).await?.is_none());
    assert!(space.names().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_binding_with_nothing_left_goes_although_the_watches_are_slow_to_tell() {
    outage().await.emptied.is_unbound().await;
}
