//! What a class may choose, each against its default.

use croft_core::namespaces::{inventory::State, resources::Policy};

use crate::{
    explorer::{Limits, at_rest, explore, reachable},
    world::{ClassSpec, World, class, config_map},
};

fn bound(spec: ClassSpec) -> World {
    let mut world = World::new([("web", spec)]);
    world.label = Some("web");
    world.settle();
    world
}

fn with_policy(policy: Policy) -> ClassSpec {
    ClassSpec { policy, ..class(&["one"]) }
}

#[test]
fn whatever_a_class_chooses_every_world_comes_to_rest_and_nothing_that_others_made_is_deleted() {
    let policies = [
        Policy { adopt: true, ..Policy::default() },
        Policy { report_drift: true, ..Policy::default() },
        Policy { recreate_immutable: true, ..Policy::default() },
        Policy { orphan_on_class_delete: true, ..Policy::default() },
        Policy { block_class_delete: true, ..Policy::default() },
    ];
    let specs = policies.map(with_policy).into_iter();
    let specs = specs.chain([ClassSpec { orphan_on_unbind: true, ..class(&["one"]) }]);
    let starts = specs.flat_map(|spec| {
        let mut new = World::new([("web", spec)]);
        new.label = Some("web");
        let mut taken = new.clone();
        taken.stranger_makes("one");
        [new, taken]
    });
    let explored = explore("namespace, by policy", starts, Limits { acts: 2, faults: true, at_once: 1 });
    assert!(explored.worlds.len() > 10_000, "only {} worlds", explored.worlds.len());
}

#[test]
fn an_adopted_object_is_ours_while_wanted_and_released_afterwards() {
    let mut world = World::new([("web", with_policy(Policy { adopt: true, ..Policy::default() }))]);
    world.stranger_makes("one");
    let uid = world.objects["one"].uid.clone();
    world.label = Some("web");
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["one"], "ReconcileSuccess"));
    assert!(world.binding.as_ref().unwrap().status.applied_resources[0].adopted);
    world.label = None;
    world.settle();
    let object = &world.objects["one"];
    assert!(object.uid == uid && object.owner.is_none() && !object.labelled, "released, not deleted");
    assert!(world.binding.is_none());
}

#[test]
fn drift_is_reported_and_left_where_the_class_says_so() {
    let mut world = bound(with_policy(Policy { report_drift: true, ..Policy::default() }));
    let object = world.object_mut("one");
    object.content = "edited".into();
    object.tell();
    world.settle();
    assert_eq!(world.objects["one"].content, "edited");
    assert_eq!(world.ready_reason(), "Drifted");
    assert_eq!(world.binding.as_ref().unwrap().status.applied_resources[0].state, State::Drifted);
}

#[test]
fn drift_that_is_only_reported_is_over_when_somebody_puts_the_values_back() {
    for suspect in [false, true] {
        let mut world = bound(with_policy(Policy { report_drift: true, ..Policy::default() }));
        let content = world.objects["one"].content.clone();
        let edit = |world: &mut World, content: &str| {
            let object = world.object_mut("one");
            object.content = content.into();
            // The field is theirs from the first edit on: the second one changes our entry no more.
            if !suspect && content == "edited" {
                object.tell();
            }
            object.suspect = suspect;
            world.settle();
        };
        edit(&mut world, "edited");
        assert_eq!(world.ready_reason(), "Drifted");
        edit(&mut world, &content);
        assert_eq!(world.ready_reason(), "ReconcileSuccess", "suspect: {suspect}");
        edit(&mut world, "edited");
        assert_eq!(world.ready_reason(), "Drifted", "and is seen again");
    }
}

#[test]
fn an_immutable_field_is_reported_by_default_and_recreated_on_demand() {
    for recreate_immutable in [false, true] {
        let mut world = bound(with_policy(Policy { recreate_immutable, ..Policy::default() }));
        world.object_mut("one").immutable = true;
        let uid = world.objects["one"].uid.clone();
        world.class_mut("web").items = vec![config_map("one", "new")];
        world.settle();
        let made_anew = world.objects["one"].uid != uid;
        assert_eq!(made_anew, recreate_immutable);
        assert_eq!(world.ready_reason(), if recreate_immutable { "ReconcileSuccess" } else { "ApplyFailed" });
    }
}

#[test]
fn orphans_stay_when_a_namespace_leaves_a_class_that_says_so() {
    let mut world = bound(ClassSpec { orphan_on_unbind: true, ..class(&["one"]) });
    world.label = None;
    world.settle();
    let object = &world.objects["one"];
    assert!(object.owner.is_none() && !object.labelled && world.binding.is_none());
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
fn labels_of_the_namespace_come_and_go_with_the_class() {
    let labels = [("pod-security.kubernetes.io/enforce".to_owned(), "restricted".to_owned())].into();
    let mut world = bound(ClassSpec { labels, ..class(&["one"]) });
    assert_eq!(world.namespace_labels.len(), 1);
    world.namespace_labels.clear();
    world.settle();
    assert_eq!(world.namespace_labels.len(), 1, "put back");
    world.label = None;
    world.settle();
    assert!(world.namespace_labels.is_empty());
}

#[test]
fn a_dropped_field_needs_one_taking_over_of_what_was_created() {
    use croft_core::{namespaces::resources, plan::Step};
    let mut world = bound(class(&["one"]));
    let kinds = |world: &World| {
        let plan = resources::plan(&world.see_resources().unwrap());
        plan.iter().map(Step::kind).collect::<Vec<_>>()
    };
    world.class_mut("web").items = vec![config_map("one", "other value")];
    assert_eq!(kinds(&world), ["Apply"], "the same fields: one call");
    world.settle();
    let raw = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    let without_data = croft_core::namespaces::manifest::Item::parse(raw.as_object().unwrap()).unwrap();
    world.class_mut("web").items = vec![without_data];
    assert_eq!(kinds(&world), ["TakeFields", "Apply"]);
    world.settle();
    assert!(!world.objects["one"].created);
}

#[test]
fn an_adopted_object_is_released_whenever_we_died_while_adopting_it() {
    let mut start = World::new([("web", with_policy(Policy { adopt: true, ..Policy::default() }))]);
    start.stranger_makes("one");
    start.label = Some("web");
    for world in reachable("namespace, adopting", &start) {
        assert_eq!(at_rest(&world).ours(), ["one"]);
        // Unlabelled at rest, or right where we died.
        for mut world in [at_rest(&world), world] {
            world.label = None;
            world.settle();
            let object = &world.objects["one"];
            assert!(object.owner.is_none() && !object.labelled && world.binding.is_none(), "{object:?}");
        }
    }
}

#[test]
fn an_adopted_object_made_anew_by_us_goes_with_us() {
    let mut world = World::new([("web", with_policy(Policy { adopt: true, ..Policy::default() }))]);
    world.stranger_makes("one");
    world.label = Some("web");
    world.settle();
    world.objects.remove("one");
    world.settle();
    assert!(!world.binding.as_ref().unwrap().status.applied_resources[0].adopted);
    world.label = None;
    world.settle();
    assert!(world.objects.is_empty());
}

#[test]
fn labels_of_the_namespace_go_whenever_we_died_while_setting_them() {
    let labels = [("pod-security.kubernetes.io/enforce".to_owned(), "restricted".to_owned())].into();
    let spec = ClassSpec { labels, ..class(&["one"]) };
    let mut start = World::new([("web", spec)]);
    start.label = Some("web");
    for mut world in reachable("namespace, with labels", &start) {
        world.label = None;
        world.settle();
        assert!(world.namespace_labels.is_empty(), "left behind");
    }
}

#[test]
fn a_label_of_the_namespace_goes_when_the_class_drops_it_or_is_left_for_another() {
    let labels = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
    let mut world = World::new([
        ("web", ClassSpec { labels: labels(&["a", "b"]), ..class(&["one"]) }),
        ("db", ClassSpec { labels: labels(&["a"]), ..class(&["one"]) }),
    ]);
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

#[test]
fn orphans_stay_although_somebody_took_their_stamp_away() {
    let mut world = bound(ClassSpec { orphan_on_unbind: true, ..class(&["one"]) });
    world.object_mut("one").labelled = false;
    world.label = None;
    world.settle();
    assert!(world.objects["one"].owner.is_none() && world.binding.is_none());
}
