//! What cannot be put right now: held by finalizers, stripped on its way, or in a namespace of the system. Nothing is tried in a
//! circle, and it goes on when it can.

use croft_core::namespaces::{inventory::State, resources};

use crate::{
    explorer::{Limits, explore},
    world::{Other, World, class, identity, item},
};

fn bound() -> World {
    let mut world = World::new([("web", class(&["one", "two"])), ("db", class(&["three"]))]);
    world.label = Some("web");
    world.settle();
    world
}

/// Somebody's finalizer holds the object, which is to go.
fn held() -> World {
    let mut world = bound();
    world.object_mut("one").held = true;
    world.delete_object("one");
    world.settle();
    world
}

#[test]
fn a_change_that_is_refused_by_what_is_being_deleted_is_not_tried_again_and_again() {
    let mut world = held();
    world.object_mut("one").immutable = true;
    world.class_mut("web").items[0] = item("one", Some("new"));
    world.settle();
    assert_eq!((world.ready_reason(), world.planned()), ("Terminating", vec![]));
    world.objects.remove("one");
    world.settle();
    assert_eq!((world.objects["one"].data.as_deref(), world.ready_reason()), (Some("new"), "ReconcileSuccess"));
}

#[test]
fn an_object_without_our_label_that_is_being_deleted_is_waited_for_and_not_tried_again_and_again() {
    for make in [
        |world: &mut World| world.object_mut("one").stamp = None,
        |world: &mut World| {
            world.stranger_makes("one");
            world.object_mut("one").held = true;
        },
    ] {
        let mut world = bound();
        world.object_mut("one").held = true;
        make(&mut world);
        world.delete_object("one");
        world.settle();
        assert_eq!((world.ready_reason(), world.planned()), ("Terminating", vec![]));
        assert!(world.told().retry, "no watch will tell when it is gone");
        world.objects.remove("one");
        world.settle();
        assert_eq!((world.ours(), world.ready_reason()), (vec!["one", "two"], "ReconcileSuccess"));
    }
}

#[test]
fn whatever_others_do_to_what_finalizers_hold_it_comes_to_rest() {
    let start = World { others: &[Other::Tenant, Other::Administrator], ..held() };
    let explored = explore("namespace, held", [start], Limits { acts: 2, faults: false, at_once: 1 });
    assert!(explored.worlds.len() > 1_000, "only {} worlds", explored.worlds.len());
}

#[test]
fn whatever_others_do_nobody_keeps_a_right_by_holding_it() {
    let mut start = World::new([("web", class(&["right", "one"])), ("db", class(&["one"]))]);
    start.label = Some("web");
    start.settle();
    start.object_mut("right").held = true;
    start.others = &[Other::Owner, Other::Tenant, Other::Administrator];
    let explored = explore("namespace, a right held", [start], Limits { acts: 2, faults: false, at_once: 1 });
    assert!(explored.worlds.len() > 1_000, "only {} worlds", explored.worlds.len());
}

#[test]
fn what_a_backup_says_is_kept_is_forgotten_whatever_else_happens() {
    let mut start = World::new([("web", class(&["one"])), ("db", class(&["two"]))]);
    start.label = Some("web");
    start.settle();
    start.others = &[Other::Backup, Other::Owner, Other::Administrator];
    let explored = explore("namespace, brought back", [start], Limits { acts: 3, faults: true, at_once: 1 });
    assert!(explored.worlds.len() > 500, "only {} worlds", explored.worlds.len());
}

#[test]
fn what_is_stored_without_our_label_is_on_record_and_goes_when_the_class_drops_it() {
    let mut world = bound();
    world.stripped = Some("one");
    world.objects.remove("one");
    world.settle();
    let entry = world.status().applied(&identity("one")).cloned().unwrap_or_default();
    assert_eq!((entry.state, entry.uid.as_ref()), (State::Failed, Some(&world.objects["one"].uid)), "{entry:?}");
    assert_eq!(world.ready_reason(), "ApplyFailed");
    assert!(!resources::plan(&world.see_resources().unwrap()).to_string().contains("create"), "it is there");
    world.class_mut("web").items.remove(0);
    world.settle();
    assert_eq!((world.ours(), world.objects.contains_key("one")), (vec!["two"], false));
}

#[test]
fn a_namespace_that_became_the_systems_keeps_its_class_whatever_its_label_names_and_loses_it_with_the_class() {
    let mut world = bound();
    world.system = true;
    world.label = Some("db");
    world.object_mut("one").data = Some("edited".into());
    world.settle();
    assert_eq!(world.objects["one"].data.as_deref(), Some("v"), "drift is put right");
    assert_eq!((world.ours(), world.ready_reason()), (vec!["one", "two"], "NotAllowed"));
    world.classes.remove("web");
    world.settle();
    assert!(world.binding.is_none() && world.objects.is_empty());
}
