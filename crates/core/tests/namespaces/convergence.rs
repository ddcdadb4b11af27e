//! Label, relabel, unlabel, delete the class: from every start, with every interruption.

use croft_core::{namespaces::resources, plan::Step, time::Timestamp};

use crate::world::{Object, World, class, identity, now};

const FOREIGN: [&str; 3] = ["shared", "web-only", "unrelated"];

fn items_of(name: &str) -> [&'static str; 2] {
    if name == "web" { ["shared", "web-only"] } else { ["shared", "db-only"] }
}

/// Every start: what was bound before, the label now, which classes exist, and which names a stranger has taken.
fn worlds() -> Vec<World> {
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

pub fn world(
    before: Option<&'static str>,
    label: Option<&'static str>,
    present: &[&'static str],
    taken: usize,
) -> World {
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

/// What must be there in the end.
fn check_end(world: &World, start: &World) {
    let foreign =
        |world: &World| -> Vec<Object> { world.objects.values().filter(|o| o.owner.is_none()).cloned().collect() };
    assert_eq!(foreign(world), foreign(start), "a foreign object was touched");
    let class = match (start.label, &start.binding) {
        (Some(label), _) if world.classes.contains_key(label) => Some(label),
        // Unknown or unclear: what was bound stays, unless its class is gone.
        (Some(_), Some(bound)) => world.classes.keys().find(|name| **name == bound.class).copied(),
        (None, _) | (Some(_), None) => None,
    };
    let free = |name: &&str| start.objects.get(&identity(name)).is_none_or(|object| object.owner.is_some());
    let mut wanted: Vec<_> = class.map(|class| items_of(class).into_iter().filter(free).collect()).unwrap_or_default();
    wanted.sort_unstable();
    if class.is_some() && wanted.len() < 2 {
        // Make before break: with a conflict in the way, old objects may stay, but nothing wanted is missing.
        assert!(wanted.iter().all(|name| world.ours().contains(name)), "{world:#?}");
    } else {
        assert_eq!(world.ours(), wanted, "from {start:#?} to {world:#?}");
    }
    assert_eq!(world.binding.as_ref().map(|bound| bound.class.as_str()), class);
}

#[test]
fn every_small_world_converges_and_then_rests() {
    let worlds = worlds();
    assert_eq!(worlds.len(), 3 * 5 * 4 * 8);
    for start in worlds {
        let mut world = start.clone();
        world.settle();
        check_end(&world, &start);
        let rested = world.clone();
        let writes = world.round(&mut usize::MAX.clone(), false, &Timestamp("2026-01-02T00:00:00Z".into()));
        assert_eq!(writes, 0, "writes in steady state: {world:#?}");
        assert_eq!(world, rested);
        if world.ready_reason() == "ReconcileSuccess" {
            assert!(world.see_resources().is_none_or(|seen| seen.to_read().is_empty()), "reads in steady state");
        }
    }
}

#[test]
fn a_crash_after_any_step_changes_nothing_about_the_end() {
    for start in worlds() {
        for crash_after in 0..12 {
            let mut world = start.clone();
            world.round(&mut crash_after.clone(), false, &now());
            world.settle();
            check_end(&world, &start);
        }
    }
}

#[test]
fn losing_every_reply_changes_nothing_about_the_end() {
    for start in worlds() {
        for crash_after in 0..12 {
            let mut world = start.clone();
            world.round(&mut crash_after.clone(), true, &now());
            world.settle();
            check_end(&world, &start);
        }
    }
}

#[test]
fn an_object_shared_by_two_classes_survives_the_switch() {
    let mut world = world(Some("web"), Some("db"), &["web", "db"], 0);
    let before = world.objects[&identity("shared")].uid.clone();
    world.settle();
    assert_eq!(world.objects[&identity("shared")].uid, before);
    assert_eq!(world.ours(), ["db-only", "shared"]);
}

#[test]
fn old_objects_go_only_when_all_new_ones_stand() {
    let mut world = world(Some("web"), Some("db"), &["web", "db"], 0);
    world.round(&mut 1, false, &now());
    let plan = resources::plan(&world.see_resources().unwrap());
    let kinds: Vec<_> = plan.groups.iter().map(|group| group.iter().map(Step::kind).collect::<Vec<_>>()).collect();
    assert_eq!(kinds, [vec!["Apply", "Create"], vec!["Prune"]]);
}

#[test]
fn fast_switching_leaves_the_last_class_and_nothing_else() {
    for first_steps in 0..8 {
        for second_steps in 0..8 {
            let mut world = world(Some("web"), Some("db"), &["web", "db"], 0);
            world.round(&mut first_steps.clone(), false, &now());
            world.label = Some("web");
            world.round(&mut second_steps.clone(), false, &now());
            world.label = Some("db");
            world.settle();
            assert_eq!(world.ours(), ["db-only", "shared"], "after {first_steps} and {second_steps} steps");
        }
    }
}
