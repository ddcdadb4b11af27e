//! What a class may choose, each against its default.

use std::{collections::BTreeMap, rc::Rc};

use croft_core::namespaces::{inventory::State, resources::Policy};

use crate::{
    explorer::{Limits, at_rest, explore, reachable, reconciled},
    world::{ClassSpec, Other, World, class, item},
};

fn labelled(spec: ClassSpec) -> World {
    World { label: Some("web"), ..World::new([("web", spec)]) }
}

fn bound(spec: ClassSpec) -> World {
    at_rest(&labelled(spec))
}

fn with_policy(policy: Policy) -> ClassSpec {
    ClassSpec { policy, ..class(&["one"]) }
}

fn adopting() -> World {
    let mut world = labelled(with_policy(Policy { adopt: true, ..Policy::default() }));
    world.stranger_makes("one");
    world
}

fn reporting() -> World {
    bound(with_policy(Policy { report_drift: true, ..Policy::default() }))
}

/// Every choice a class has, one at a time, and those that concern one object together.
fn every_choice(name: &'static str) -> Vec<ClassSpec> {
    let policies = [
        Policy { adopt: true, ..Policy::default() },
        Policy { report_drift: true, ..Policy::default() },
        Policy { recreate_immutable: true, ..Policy::default() },
        Policy { adopt: true, report_drift: true, recreate_immutable: true, ..Policy::default() },
        Policy { orphan_on_class_delete: true, ..Policy::default() },
        Policy { block_class_delete: true, ..Policy::default() },
    ];
    let specs = policies.map(|policy| ClassSpec { policy, ..class(&[name]) }).into_iter();
    specs.chain([ClassSpec { orphan_on_unbind: true, ..class(&[name]) }]).collect()
}

#[test]
fn whatever_a_class_chooses_every_world_comes_to_rest_and_nothing_that_others_made_is_deleted() {
    let others = &[Other::Owner, Other::Tenant, Other::Administrator];
    let starts = || {
        every_choice("one").into_iter().flat_map(|spec| {
            let new = World { others, ..labelled(spec) };
            let mut taken = new.clone();
            taken.stranger_makes("one");
            [at_rest(&new), new, taken]
        })
    };
    let explored = explore("namespace, by policy", starts(), Limits { acts: 2, faults: false, at_once: 1 });
    assert!(explored.worlds.len() > 10_000, "only {} worlds", explored.worlds.len());
    explore("namespace, by policy, with faults", starts(), Limits { acts: 1, faults: true, at_once: 1 });
}

#[test]
fn whatever_a_class_chooses_nothing_is_let_go_or_forgotten_that_cannot_be_seen() {
    let others = &[Other::Owner, Other::Administrator, Other::Outage];
    let starts = every_choice("gadget").into_iter().map(|spec| World { others, ..bound(spec) });
    let explored = explore("namespace, by policy, in the dark", starts, Limits { acts: 3, faults: false, at_once: 1 });
    assert!(explored.worlds.len() > 10_000, "only {} worlds", explored.worlds.len());
}

#[test]
fn an_adopted_object_is_ours_while_wanted_and_released_afterwards() {
    let mut world = adopting();
    let uid = world.objects["one"].uid.clone();
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["one"], "ReconcileSuccess"));
    assert!(world.status().applied_resources[0].adopted);
    world.label = None;
    world.settle();
    let object = &world.objects["one"];
    assert!(object.uid == uid && object.owner.is_none() && object.stamp.is_none(), "released, not deleted");
    assert!(world.binding.is_none());
}

#[test]
fn drift_is_reported_and_left_where_the_class_says_so() {
    let mut world = reporting();
    world.object_mut("one").data = Some("edited".into());
    world.settle();
    assert_eq!(world.objects["one"].data.as_deref(), Some("edited"));
    assert_eq!(world.ready_reason(), "Drifted");
    assert_eq!(world.status().applied_resources[0].state, State::Drifted);
}

#[test]
fn drift_that_is_only_reported_is_over_when_somebody_puts_the_values_back() {
    let mut world = reporting();
    let before = world.objects["one"].data.clone();
    let edit = |world: &mut World, data: Option<String>| {
        world.object_mut("one").data = data;
        world.settle();
    };
    edit(&mut world, Some("edited".into()));
    assert_eq!(world.ready_reason(), "Drifted");
    edit(&mut world, before);
    assert_eq!(world.ready_reason(), "ReconcileSuccess");
    edit(&mut world, Some("edited".into()));
    assert_eq!(world.ready_reason(), "Drifted", "and is seen again");
}

#[test]
fn an_addition_is_no_drift_where_drift_is_only_reported() {
    let mut world = reporting();
    world.object_mut("one").additions = true;
    world.settle();
    assert_eq!(world.ready_reason(), "ReconcileSuccess");
}

#[test]
fn an_immutable_field_is_reported_by_default_and_recreated_on_demand() {
    for recreate_immutable in [false, true] {
        let mut world = bound(with_policy(Policy { recreate_immutable, ..Policy::default() }));
        world.object_mut("one").immutable = true;
        let uid = world.objects["one"].uid.clone();
        world.class_mut("web").items = vec![item("one", Some("new"))];
        world.settle();
        let made_anew = world.objects["one"].uid != uid;
        assert_eq!(made_anew, recreate_immutable);
        assert_eq!(world.ready_reason(), if recreate_immutable { "ReconcileSuccess" } else { "ApplyFailed" });
    }
}

#[test]
fn a_refusal_is_told_as_long_as_it_lasts() {
    let report = Policy { report_drift: true, ..Policy::default() };
    for policy in [Policy::default(), report] {
        let mut world = bound(with_policy(policy));
        world.object_mut("one").immutable = true;
        world.class_mut("web").items = vec![item("one", Some("new"))];
        world.settle();
        assert_eq!((world.ready_reason(), world.planned()), ("ApplyFailed", vec![vec!["Apply"]]), "{policy:?}");
        assert_eq!(reconciled(&world), world, "tried again, and nothing else is told");
        world.class_mut("web").items = vec![item("one", Some("v"))];
        world.settle();
        assert_eq!(world.ready_reason(), "ReconcileSuccess", "{policy:?}");
    }
}

#[test]
fn what_was_made_anew_is_not_deleted_again_because_we_died_before_telling() {
    let mut world = bound(with_policy(Policy { recreate_immutable: true, ..Policy::default() }));
    world.object_mut("one").immutable = true;
    world.class_mut("web").items = vec![item("one", Some("new"))];
    let mut world = reconciled(&world);
    assert_eq!(world.planned(), [["Rehearse"], ["Prune"]]);
    world.die_after_the_plan();
    assert_eq!(world.planned(), [["Create"]]);
    world.die_after_the_plan();
    assert_eq!(world.planned(), [["Apply"]]);
}

#[test]
fn orphans_stay_when_a_namespace_leaves_a_class_that_says_so() {
    let mut world = bound(ClassSpec { orphan_on_unbind: true, ..class(&["one"]) });
    world.label = None;
    world.settle();
    let object = &world.objects["one"];
    assert!(object.owner.is_none() && object.stamp.is_none() && world.binding.is_none());
}

/// The way to the next class is blocked, and that class is given up.
#[test]
fn what_a_class_that_was_left_would_keep_is_kept_when_the_next_class_is_deleted() {
    for deleting in [false, true] {
        let mut world = bound(ClassSpec { orphan_on_unbind: true, ..class(&["one"]) });
        world.stranger_makes("two");
        world.classes.insert("db", Rc::new(class(&["two"])));
        world.label = Some("db");
        world.settle();
        assert_eq!((world.ours(), world.ready_reason()), (vec!["one"], "Conflict"));
        if deleting {
            world.class_mut("db").deleting = true;
        } else {
            world.classes.remove("db");
        }
        world.settle();
        assert!(world.objects.contains_key("one") && world.ours().is_empty(), "kept, and nobody's");
    }
}

#[test]
fn what_a_class_would_keep_is_kept_although_it_is_deleted_as_soon_as_it_was_left() {
    for items in [&["one"][..], &["one", "three"]] {
        was_left(items);
    }
}

/// Also where the namespace never had all of the class.
fn was_left(items: &[&'static str]) {
    let spec = ClassSpec { orphan_on_unbind: true, ..class(items) };
    let mut world = World { tends_classes: true, ..labelled(spec) };
    world.stranger_makes("three");
    world.settle();
    world.stranger_makes("two");
    world.classes.insert("db", Rc::new(class(&["two"])));
    world.label = Some("db");
    world.settle();
    world.class_mut("web").deleting = true;
    world.settle();
    assert!(world.classes.contains_key("web"), "only the class can tell what is to be kept");
    world.objects.remove("two");
    world.settle();
    assert!(world.objects["one"].owner.is_none() && world.ours() == ["two"], "kept, and nobody's");
    assert!(!world.classes.contains_key("web"), "nobody needs it any more");
}

#[test]
fn orphans_stay_although_somebody_took_their_stamp_away() {
    let mut world = bound(ClassSpec { orphan_on_unbind: true, ..class(&["one"]) });
    world.object_mut("one").stamp = None;
    world.label = None;
    world.settle();
    assert!(world.objects["one"].owner.is_none() && world.binding.is_none());
}

#[test]
fn a_deleted_class_takes_its_objects_leaves_them_or_waits() {
    let orphan = Policy { orphan_on_class_delete: true, ..Policy::default() };
    let block = Policy { block_class_delete: true, ..Policy::default() };
    for (policy, objects, bound_after) in [(Policy::default(), 0, false), (orphan, 1, false), (block, 1, true)] {
        let mut world = bound(with_policy(policy));
        world.class_mut("web").deleting = true;
        world.settle();
        assert_eq!((world.objects.len(), world.binding.is_some()), (objects, bound_after), "{policy:?}");
        if bound_after {
            assert_eq!(world.ready_reason(), "ClassDeleting");
        }
    }
}

#[test]
fn a_dropped_field_needs_one_taking_over_of_what_was_created() {
    let mut world = bound(class(&["one"]));
    world.class_mut("web").items = vec![item("one", Some("other value"))];
    assert_eq!(world.planned(), [["Apply"]], "the same fields: one call");
    world.settle();
    world.class_mut("web").items = vec![item("one", None)];
    assert_eq!(world.planned(), [["TakeFields"], ["Apply"]]);
    world.settle();
    assert_eq!((world.objects["one"].created, &world.objects["one"].data), (false, &None));
}

#[test]
fn an_adopted_object_is_released_whenever_we_died_while_adopting_it() {
    for world in reachable("namespace, adopting", &adopting()) {
        assert_eq!(at_rest(&world).ours(), ["one"]);
        // Unlabelled at rest, or right where we died.
        for mut world in [at_rest(&world), world] {
            world.label = None;
            world.settle();
            let object = &world.objects["one"];
            assert!(object.owner.is_none() && object.stamp.is_none() && world.binding.is_none(), "{object:?}");
        }
    }
}

#[test]
fn what_we_made_and_adopt_again_loses_the_field_that_the_class_drops() {
    let mut world = bound(with_policy(Policy { adopt: true, ..Policy::default() }));
    let object = world.object_mut("one");
    (object.owner, object.stamp) = (None, None);
    world.class_mut("web").items = vec![item("one", None)];
    world.settle();
    assert_eq!((world.ours(), &world.objects["one"].data), (vec!["one"], &None));
}

#[test]
fn an_adopted_object_made_anew_by_us_goes_with_us() {
    let mut world = at_rest(&adopting());
    world.objects.remove("one");
    for world in reachable("namespace, adopted and made anew", &world) {
        // Unlabelled at rest, or right where we died.
        for mut world in [at_rest(&world), world] {
            world.label = None;
            world.settle();
            assert!(world.objects.is_empty(), "{:?}", world.objects);
        }
    }
}

fn labels(names: &[&str]) -> BTreeMap<String, String> {
    names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect()
}

fn with_labels(names: &[&str]) -> ClassSpec {
    ClassSpec { labels: labels(names), ..class(&["one"]) }
}

#[test]
fn labels_of_the_namespace_come_and_go_with_the_class() {
    let mut world = bound(with_labels(&["a"]));
    assert_eq!(world.namespace_labels, labels(&["a"]));
    world.namespace_labels.clear();
    world.settle();
    assert_eq!(world.namespace_labels, labels(&["a"]), "put back");
    world.label = None;
    world.settle();
    assert!(world.namespace_labels.is_empty());
}

#[test]
fn labels_of_the_namespace_go_whenever_we_died_while_setting_them() {
    for mut world in reachable("namespace, with labels", &labelled(with_labels(&["a"]))) {
        world.label = None;
        world.settle();
        assert!(world.namespace_labels.is_empty(), "left behind");
    }
}

#[test]
fn labels_of_the_namespace_are_those_of_the_class_in_force_whatever_others_do() {
    let others = &[Other::Owner, Other::Tenant, Other::Administrator];
    let classes = [("web", with_labels(&["a", "b"])), ("db", with_labels(&["a"]))];
    let start = World { label: Some("web"), others, ..World::new(classes) };
    let starts = [at_rest(&start), start];
    let explored = explore("namespace, with labels", starts, Limits { acts: 2, faults: false, at_once: 1 });
    assert!(explored.worlds.len() > 1_000, "only {} worlds", explored.worlds.len());
}

#[test]
fn a_label_of_the_namespace_goes_when_the_class_drops_it_or_is_left_for_another() {
    let mut world = World::new([("web", with_labels(&["a", "b"])), ("db", with_labels(&["a"]))]);
    world.label = Some("web");
    world.settle();
    assert_eq!(world.namespace_labels.len(), 2);
    world.class_mut("web").labels = labels(&["b"]);
    world.settle();
    assert_eq!(world.namespace_labels, labels(&["b"]));
    world.label = Some("db");
    world.settle();
    assert_eq!(world.namespace_labels, labels(&["a"]));
}
