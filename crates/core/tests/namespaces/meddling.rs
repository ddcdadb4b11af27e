//! What others do to stamped objects, and what becomes of it.

use croft_core::{
    namespaces::{inventory::State, resources},
    plan::Step,
};

use crate::{
    explorer::{at_rest, reachable},
    world::{World, class, config_map},
};

fn bound() -> World {
    let mut world = World::new([("web", class(&["one", "two"]))]);
    world.label = Some("web");
    world.settle();
    world
}

fn content_of(world: &World, name: &str) -> String {
    world.objects[name].content.clone()
}

#[test]
fn a_foreign_edit_is_put_back_in_place() {
    let mut world = bound();
    let (content, uid) = (content_of(&world, "one"), world.objects["one"].uid.clone());
    let object = world.object_mut("one");
    object.content = "edited".into();
    object.tell();
    world.settle();
    assert_eq!((content_of(&world, "one"), world.objects["one"].uid.clone()), (content, uid));
}

#[test]
fn an_edit_our_entry_cannot_tell_is_put_back_and_forgotten() {
    let mut world = bound();
    let content = content_of(&world, "one");
    let object = world.object_mut("one");
    object.content = "edited".into();
    object.suspect = true;
    world.settle();
    assert_eq!(content_of(&world, "one"), content);
}

/// Everything a backup keeps of a namespace: objects and their labels, but neither owners nor the binding.
fn restored(mut world: World) -> World {
    world.binding = None;
    for object in world.objects_mut() {
        object.owner = None;
    }
    world
}

#[test]
fn what_a_backup_brought_back_is_taken_over_in_place_and_goes_with_the_class() {
    let start = restored(bound());
    let uids = |world: &World| world.objects.values().map(|object| object.uid.clone()).collect::<Vec<_>>();
    for world in reachable("namespace, restored", &start) {
        let mut world = at_rest(&world);
        assert_eq!(uids(&world), uids(&start));
        assert_eq!((world.ours(), world.ready_reason()), (vec!["one", "two"], "ReconcileSuccess"));
        world.label = None;
        world.settle();
        assert!(world.objects.is_empty());
    }
}

#[test]
fn what_a_backup_brought_back_and_the_class_does_not_want_is_left_alone() {
    let mut world = restored(bound());
    world.class_mut("web").items.remove(0);
    let before = world.objects["one"].clone();
    world.settle();
    assert_eq!((world.ours(), &world.objects["one"]), (vec!["two"], &before));
}

#[test]
fn what_a_backup_brought_back_from_another_class_is_not_taken() {
    let mut world = restored(bound());
    world.object_mut("one").class = "db".into();
    let before = world.objects["one"].clone();
    world.settle();
    assert_eq!((&world.objects["one"], world.ready_reason()), (&before, "Conflict"));
}

#[test]
fn what_somebody_takes_from_us_in_the_moment_of_its_deletion_stays_theirs() {
    let mut world = bound();
    world.label = None;
    let seen = world.see_resources().unwrap();
    let plan = resources::plan(&seen);
    for object in world.objects_mut() {
        object.owner = None;
        object.labelled = false;
    }
    let prunes: Vec<_> = plan.iter().filter(|step| step.identity().is_some()).collect();
    assert_eq!(prunes.len(), 2, "{plan}");
    for step in prunes {
        assert!(!world.do_resource(&seen, step).is_done(), "{step}");
    }
    assert_eq!(world.objects.len(), 2);
}

#[test]
fn a_foreign_addition_leaves_our_entry_alone_and_is_left_alone() {
    let mut world = bound();
    // Somebody sets a field that is not ours: a new version of the object, with our entry as it was.
    world.object_mut("one").additions += 1;
    let before = world.clone();
    let seen = world.see_resources().unwrap();
    assert!(resources::plan(&seen).is_settled() && seen.to_read().is_empty());
    world.settle();
    assert_eq!(world, before);
}

#[test]
fn an_object_deleted_by_hand_comes_back() {
    let mut world = bound();
    world.objects.remove("one");
    world.settle();
    assert_eq!(world.ours(), ["one", "two"]);
}

#[test]
fn a_stripped_label_is_put_back_because_the_owner_proves_it() {
    let mut world = bound();
    let uid = world.objects["one"].uid.clone();
    world.object_mut("one").labelled = false;
    world.settle();
    let object = &world.objects["one"];
    assert!(object.labelled && object.uid == uid);
}

#[test]
fn a_stripped_owner_is_put_back_because_label_and_record_prove_it() {
    let mut world = bound();
    let object = world.object_mut("one");
    object.owner = None;
    object.tell();
    let uid = object.uid.clone();
    world.settle();
    let object = &world.objects["one"];
    assert!(object.owner.is_some() && object.uid == uid);
}

#[test]
fn an_object_made_anew_by_somebody_else_is_theirs() {
    for labelled in [false, true] {
        let mut world = bound();
        world.objects.remove("one");
        world.stranger_makes("one");
        let object = world.object_mut("one");
        object.labelled = labelled;
        let before = object.clone();
        world.settle();
        assert_eq!(*world.objects["one"], before, "labelled {labelled}");
        assert_eq!(world.ready_reason(), "Conflict");
        world.label = None;
        world.settle();
        assert_eq!(world.objects.keys().copied().collect::<Vec<_>>(), ["one"], "kept");
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
    world.objects.remove("one");
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["one", "two"], "ReconcileSuccess"));
}

#[test]
fn an_object_of_another_controller_is_never_taken() {
    let mut world = World::new([("web", class(&["one"]))]);
    world.class_mut("web").policy.adopt = true;
    world.stranger_makes("one");
    world.object_mut("one").owner = Some("somebody".into());
    let before = world.objects.clone();
    world.label = Some("web");
    world.settle();
    assert_eq!(world.objects, before);
    assert_eq!(world.ready_reason(), "Conflict");
}

#[test]
fn an_object_whose_label_was_stripped_is_still_removed_when_no_longer_wanted() {
    let mut world = bound();
    world.object_mut("one").labelled = false;
    world.class_mut("web").items.remove(0);
    world.settle();
    assert_eq!(world.objects.keys().copied().collect::<Vec<_>>(), ["two"]);
}

#[test]
fn an_object_stripped_of_label_and_owner_is_released() {
    let mut world = bound();
    let object = world.object_mut("one");
    object.owner = None;
    object.labelled = false;
    let before = object.clone();
    world.settle();
    assert_eq!(world.ready_reason(), "Conflict");
    world.label = None;
    world.settle();
    assert_eq!(*world.objects["one"], before, "left alone");
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
    let mut world = bound();
    world.object_mut("one").immutable = true;
    let spec = world.class_mut("web");
    spec.items = vec![config_map("one", "new"), config_map("three", "v")];
    world.settle();
    assert_eq!(world.ours(), ["one", "three", "two"]);
    let plan = resources::plan(&world.see_resources().unwrap());
    let groups: Vec<_> = plan.groups.iter().map(|group| group.iter().map(Step::kind).collect::<Vec<_>>()).collect();
    assert_eq!(groups, [vec!["Apply"], vec!["Prune"]], "the refused one, and only then the prune");
}
