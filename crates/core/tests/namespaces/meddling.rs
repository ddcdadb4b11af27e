//! What others do to stamped objects, and what becomes of it.

use croft_core::namespaces::inventory::State;

use crate::world::{World, class, config_map, identity};

fn bound() -> World {
    let mut world = World::new([("web", class(&["one", "two"]))]);
    world.label = Some("web");
    world.settle();
    world
}

fn content_of(world: &World, name: &str) -> String {
    world.objects[&identity(name)].content.clone()
}

#[test]
fn a_foreign_edit_is_put_back_in_place() {
    let mut world = bound();
    let (content, uid) = (content_of(&world, "one"), world.objects[&identity("one")].uid.clone());
    let object = world.objects.get_mut(&identity("one")).unwrap();
    object.content = "edited".into();
    object.version += 1;
    world.settle();
    assert_eq!((content_of(&world, "one"), world.objects[&identity("one")].uid.clone()), (content, uid));
}

/// Everything a backup keeps of a namespace: objects and their labels, but neither owners nor the binding.
fn restored(mut world: World) -> World {
    world.binding = None;
    for object in world.objects.values_mut() {
        object.owner = None;
    }
    world
}

#[test]
fn what_a_backup_brought_back_is_taken_over_in_place_and_goes_with_the_class() {
    for crash_after in 0..8 {
        let mut world = restored(bound());
        let uids: Vec<_> = world.objects.values().map(|object| object.uid.clone()).collect();
        world.round(&mut crash_after.clone(), false, &crate::world::now());
        world.settle();
        assert_eq!(world.objects.values().map(|object| object.uid.clone()).collect::<Vec<_>>(), uids);
        assert_eq!((world.ours(), world.ready_reason()), (vec!["one", "two"], "ReconcileSuccess"));
        world.label = None;
        world.settle();
        assert!(world.objects.is_empty(), "crashed after {crash_after}");
    }
}

#[test]
fn what_a_backup_brought_back_and_the_class_does_not_want_is_left_alone() {
    let mut world = restored(bound());
    world.classes.get_mut("web").unwrap().items.remove(0);
    let before = world.objects[&identity("one")].clone();
    world.settle();
    assert_eq!((world.ours(), &world.objects[&identity("one")]), (vec!["two"], &before));
}

#[test]
fn what_a_backup_brought_back_from_another_class_is_not_taken() {
    let mut world = restored(bound());
    world.objects.get_mut(&identity("one")).unwrap().class = "db".into();
    let before = world.objects[&identity("one")].clone();
    world.settle();
    assert_eq!((&world.objects[&identity("one")], world.ready_reason()), (&before, "Conflict"));
}

#[test]
fn what_somebody_takes_from_us_in_the_moment_of_its_deletion_stays_theirs() {
    use croft_core::namespaces::resources;
    let mut world = bound();
    world.label = None;
    let plan = resources::plan(&world.see_resources().unwrap());
    for object in world.objects.values_mut() {
        object.owner = None;
        object.labelled = false;
        object.version += 1;
    }
    for step in plan.iter().filter(|step| step.identity().is_some()) {
        assert!(!world.do_resource(step).is_done(), "{step}");
    }
    assert_eq!(world.objects.len(), 2);
}

#[test]
fn a_foreign_addition_is_vouched_for_and_left_alone() {
    let mut world = bound();
    world.objects.get_mut(&identity("one")).unwrap().additions += 1;
    let before = world.clone();
    let seen = world.see_resources().unwrap();
    assert!(seen.read.contains_key(&identity("one")), "its values are looked at");
    world.settle();
    assert_eq!(world.objects, before.objects);
    assert!(world.see_resources().unwrap().read.is_empty(), "and only once");
}

#[test]
fn an_object_deleted_by_hand_comes_back() {
    let mut world = bound();
    world.objects.remove(&identity("one"));
    world.settle();
    assert_eq!(world.ours(), ["one", "two"]);
}

#[test]
fn a_stripped_label_is_put_back_because_the_owner_proves_it() {
    let mut world = bound();
    let uid = world.objects[&identity("one")].uid.clone();
    world.objects.get_mut(&identity("one")).unwrap().labelled = false;
    world.settle();
    let object = &world.objects[&identity("one")];
    assert!(object.labelled && object.uid == uid);
}

#[test]
fn a_stripped_owner_is_put_back_because_label_and_record_prove_it() {
    let mut world = bound();
    let object = world.objects.get_mut(&identity("one")).unwrap();
    object.owner = None;
    let uid = object.uid.clone();
    world.settle();
    let object = &world.objects[&identity("one")];
    assert!(object.owner.is_some() && object.uid == uid);
}

#[test]
fn an_object_made_anew_by_somebody_else_is_theirs() {
    for labelled in [false, true] {
        let mut world = bound();
        world.objects.remove(&identity("one"));
        world.stranger_makes("one");
        let object = world.objects.get_mut(&identity("one")).unwrap();
        object.labelled = labelled;
        let before = object.clone();
        world.settle();
        assert_eq!(world.objects[&identity("one")], before, "labelled {labelled}");
        assert_eq!(world.ready_reason(), "Conflict");
        world.label = None;
        world.settle();
        assert_eq!(world.objects.keys().map(|identity| identity.name.as_str()).collect::<Vec<_>>(), ["one"], "kept");
    }
}

#[test]
fn a_conflict_that_is_cleared_heals_and_the_others_were_applied_meanwhile() {
    let mut world = World::new([("web", class(&["one", "two"]))]);
    world.stranger_makes("one");
    world.label = Some("web");
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["two"], "Conflict"));
    let inventory = &world.binding.as_ref().unwrap().status.applied_resources;
    let states: Vec<_> = inventory.iter().map(|applied| (applied.name.as_str(), applied.state)).collect();
    assert_eq!(states, [("one", State::Conflict), ("two", State::Applied)]);
    world.objects.remove(&identity("one"));
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["one", "two"], "ReconcileSuccess"));
}

#[test]
fn an_object_of_another_controller_is_never_taken() {
    let mut world = World::new([("web", class(&["one"]))]);
    world.classes.get_mut("web").unwrap().policy.adopt = true;
    world.stranger_makes("one");
    world.objects.get_mut(&identity("one")).unwrap().owner = Some("somebody".into());
    let before = world.objects.clone();
    world.label = Some("web");
    world.settle();
    assert_eq!(world.objects, before);
    assert_eq!(world.ready_reason(), "Conflict");
}

#[test]
fn an_object_whose_label_was_stripped_is_still_removed_when_no_longer_wanted() {
    let mut world = bound();
    world.objects.get_mut(&identity("one")).unwrap().labelled = false;
    world.classes.get_mut("web").unwrap().items.remove(0);
    world.settle();
    assert_eq!(world.objects.keys().map(|identity| identity.name.as_str()).collect::<Vec<_>>(), ["two"]);
}

#[test]
fn an_object_stripped_of_label_and_owner_is_released() {
    let mut world = bound();
    let object = world.objects.get_mut(&identity("one")).unwrap();
    object.owner = None;
    object.labelled = false;
    let before = object.clone();
    world.settle();
    assert_eq!(world.ready_reason(), "Conflict");
    world.label = None;
    world.settle();
    assert_eq!(world.objects[&identity("one")], before, "left alone");
}

#[test]
fn what_a_binding_deleted_by_hand_left_is_taken_over_in_place() {
    let mut world = bound();
    let uids: Vec<_> = world.objects.values().map(|object| object.uid.clone()).collect();
    world.binding = None;
    world.settle();
    assert_eq!(world.objects.values().map(|object| object.uid.clone()).collect::<Vec<_>>(), uids);
    assert_eq!(world.ready_reason(), "ReconcileSuccess");
    world.label = None;
    world.settle();
    assert!(world.objects.is_empty());
}

#[test]
fn a_refused_object_is_tried_behind_all_others_and_nothing_is_pruned_meanwhile() {
    use croft_core::{namespaces::resources, plan::Step};
    let mut world = bound();
    world.objects.get_mut(&identity("one")).unwrap().immutable = true;
    let spec = world.classes.get_mut("web").unwrap();
    spec.items = vec![config_map("one", "new"), config_map("three", "v")];
    for _ in 0..3 {
        world.round(&mut usize::MAX.clone(), false, &crate::world::now());
    }
    assert_eq!(world.ours(), ["one", "three", "two"]);
    let plan = resources::plan(&world.see_resources().unwrap());
    let groups: Vec<_> = plan.groups.iter().map(|group| group.iter().map(Step::kind).collect::<Vec<_>>()).collect();
    assert_eq!(groups, [vec!["Apply"], vec!["Prune"]], "the refused one, and only then the prune");
}

/// What a binding made, seen in another version than the one its class uses, and not readable in that one.
#[test]
fn a_binding_stays_as_long_as_what_is_to_be_kept_cannot_be_released() {
    use croft_core::{namespaces::resources, plan::Step};
    let mut world = bound();
    world.classes.get_mut("web").unwrap().orphan_on_unbind = true;
    world.label = None;
    let mut seen = world.see_resources().unwrap();
    seen.stamped.get_mut(&identity("one")).unwrap().api_version = "v1beta1".into();
    seen.read.remove(&identity("one"));
    let kinds: Vec<_> = resources::plan(&seen).iter().map(Step::kind).collect();
    assert_eq!(kinds, ["Release"], "the other one is released, and the binding waits");
    let status = resources::report(&seen, &[], &crate::world::now());
    assert_eq!(status.conditions.reason("Ready"), Some("Unobservable"));
}

#[test]
fn what_is_no_longer_wanted_and_cannot_be_read_is_not_forgotten() {
    use croft_core::namespaces::resources;
    let mut world = bound();
    world.classes.get_mut("web").unwrap().items.remove(0);
    let mut seen = world.see_resources().unwrap();
    seen.stamped.remove(&identity("one"));
    seen.read.clear();
    seen.unreadable.insert(identity("one"), "the API is away".into());
    let status = resources::report(&seen, &[], &crate::world::now());
    let entry = status.applied(&identity("one")).expect("it stays on record");
    assert_eq!((entry.state, entry.uid.is_some()), (State::Pruning, true));
    assert_eq!(status.conditions.reason("Ready"), Some("Unobservable"));
    // Read at last, and not there: it is forgotten.
    seen.unreadable.clear();
    seen.read.insert(identity("one"), None);
    let status = resources::report(&seen, &[], &crate::world::now());
    assert!(status.applied(&identity("one")).is_none());
    assert_eq!(status.conditions.reason("Ready"), Some("ReconcileSuccess"));
}
