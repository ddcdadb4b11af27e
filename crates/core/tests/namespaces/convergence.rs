//! Label, relabel, unlabel, delete the class: from every start, with every interruption.

use crate::{
    explorer::{Limits, explore, worked},
    world::{Other, World, class},
};

const FOREIGN: [&str; 3] = ["shared", "web-only", "unrelated"];

fn items_of(name: &str) -> [&'static str; 2] {
    if name == "web" { ["shared", "web-only"] } else { ["shared", "db-only"] }
}

/// Every start: what was bound before, the label now, which classes exist, and which names a stranger has taken.
fn every_start() -> Vec<World> {
    let mut worlds = Vec::new();
    for before in [None, Some("web"), Some("db")] {
        for label in [None, Some(""), Some("web"), Some("db"), Some("typo")] {
            for present in [vec!["web", "db"], vec!["web"], vec!["db"], vec![]] {
                for taken in 0..1 << FOREIGN.len() {
                    worlds.push(world(before, label, &present, taken));
                }
            }
        }
    }
    worlds
}

fn world(before: Option<&'static str>, label: Option<&'static str>, present: &[&'static str], taken: usize) -> World {
    let mut world = World::new(["web", "db"].map(|name| (name, class(&items_of(name)))));
    world.label = before;
    for (bit, name) in FOREIGN.iter().enumerate() {
        if taken & (1 << bit) != 0 {
            world.stranger_makes(name);
        }
    }
    world.settle();
    world.label = label;
    world.classes.retain(|name, _| present.contains(name));
    world
}

/// Bound to a class, and about to be bound to another one.
fn bound_and_switching(others: &'static [Other]) -> [World; 2] {
    ["web", "db"].map(|label| World { others, ..world(Some("web"), Some(label), &["web", "db"], 0) })
}

fn check_size(explored: usize, least: usize) {
    assert!(explored > least, "only {explored} worlds");
}

#[test]
fn every_small_world_converges_whatever_step_is_the_last_before_a_crash_and_whichever_replies_are_lost() {
    let worlds = every_start();
    assert_eq!(worlds.len(), 3 * 5 * 4 * 8);
    let explored = explore("namespace, alone", worlds, Limits { acts: 0, faults: true, at_once: 3 });
    check_size(explored.worlds.len(), 1_000);
}

#[test]
fn fast_switching_leaves_the_last_class_and_nothing_else() {
    let start = World { others: &[Other::Owner], ..world(Some("web"), Some("db"), &["web", "db"], 0) };
    let explored = explore("namespace, relabelled", [start], Limits { acts: 3, faults: false, at_once: 2 });
    check_size(explored.worlds.len(), 1_000);
}

#[test]
fn whatever_two_things_others_do_the_class_is_in_force_in_the_end_and_nothing_of_theirs_is_touched() {
    let starts = bound_and_switching(&[Other::Owner, Other::Tenant, Other::Administrator]);
    let explored = explore("namespace, meddled with twice", starts, Limits { acts: 2, faults: false, at_once: 1 });
    check_size(explored.worlds.len(), 10_000);
}

#[test]
fn whatever_others_do_while_calls_fail_the_class_is_in_force_in_the_end() {
    let others = &[Other::Owner, Other::Tenant, Other::Administrator, Other::Outage];
    let starts = [None, Some("web")].map(|before| World { others, ..world(before, Some("db"), &["web", "db"], 0) });
    let explored = explore("namespace, meddled with", starts, Limits { acts: 1, faults: true, at_once: 1 });
    check_size(explored.worlds.len(), 5_000);
}

#[test]
fn what_cannot_be_observed_is_neither_touched_nor_forgotten_and_everything_else_goes_on() {
    let starts = bound_and_switching(&[Other::Outage, Other::Owner, Other::Tenant]);
    let explored = explore("namespace, half in the dark", starts, Limits { acts: 2, faults: false, at_once: 1 });
    check_size(explored.worlds.len(), 10_000);
}

#[test]
fn an_object_shared_by_two_classes_survives_the_switch() {
    let mut world = world(Some("web"), Some("db"), &["web", "db"], 0);
    let before = world.objects["shared"].uid.clone();
    world.settle();
    assert_eq!(world.objects["shared"].uid, before);
    assert_eq!(world.ours(), ["db-only", "shared"]);
}

#[test]
fn old_objects_go_only_when_all_new_ones_stand() {
    let world = worked(&world(Some("web"), Some("db"), &["web", "db"], 0), "binding");
    assert_eq!(world.planned(), [vec!["Apply", "Create"], vec!["Prune"]]);
}
