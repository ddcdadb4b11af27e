//! What others do to stamped objects, and what becomes of it.

use croft_core::{
    namespaces::{inventory::State, resources},
    plan::Step,
};

use crate::{
    explorer::{at_rest, reachable, reconciled},
    world::{ClassSpec, Object, Sight, World, class, identity, item, now},
};

fn bound() -> World {
    let mut world = World::new([("web", class(&["one", "two"]))]);
    world.label = Some("web");
    world.settle();
    world
}

fn uids(world: &World) -> Vec<String> {
    world.objects.values().map(|object| object.uid.clone()).collect()
}

fn names(world: &World) -> Vec<&'static str> {
    world.objects.keys().copied().collect()
}

#[test]
fn a_foreign_edit_is_put_back_in_place() {
    let before = bound();
    let mut world = before.clone();
    world.object_mut("one").data = Some("edited".into());
    world.settle();
    assert_eq!(world.objects, before.objects);
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
    world.object_mut("one").stamp = Some("db".into());
    let before = world.objects["one"].clone();
    world.settle();
    assert_eq!((&world.objects["one"], world.ready_reason()), (&before, "Conflict"));
}

/// Somebody takes every object away in the moment between our look and our deletions.
#[test]
fn what_somebody_takes_from_us_in_the_moment_of_its_deletion_stays_theirs() {
    let taken: [fn(&mut Object); 4] = [
        |object| (object.owner, object.stamp) = (None, None),
        |object| object.owner = Some("somebody".into()),
        |object| object.stamp = None,
        |object| object.data = Some("edited".into()),
    ];
    for take in taken {
        let mut world = bound();
        world.label = None;
        let seen = world.see_resources().unwrap();
        let plan = resources::plan(&seen);
        world.objects_mut().for_each(take);
        let before = world.objects.clone();
        let prunes: Vec<_> = plan.iter().filter(|step| step.kind() == "Prune").collect();
        assert_eq!(prunes.len(), 2, "{plan}");
        for step in prunes {
            assert!(!world.do_resource(&seen, step).is_done(), "{step}");
        }
        assert_eq!(world.objects, before);
    }
}

#[test]
fn a_foreign_addition_is_vouched_for_and_left_alone() {
    let mut world = bound();
    world.object_mut("one").additions = true;
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
    world.objects.remove("one");
    world.settle();
    assert_eq!(world.ours(), ["one", "two"]);
}

#[test]
fn what_is_on_record_is_the_object_that_is_there_whenever_we_died_while_making_it_anew() {
    let mut world = bound();
    world.objects.remove("one");
    for world in reachable("namespace, an object made anew", &world) {
        let world = at_rest(&world);
        assert_eq!(world.status().applied(&identity("one")).unwrap().uid.as_ref(), Some(&world.objects["one"].uid));
    }
}

/// A finalizer and a deletion must not be a way to change what a class sets and keep it so.
#[test]
fn what_finalizers_hold_is_kept_right_until_it_is_gone_and_then_made_anew() {
    let mut world = bound();
    world.object_mut("one").held = true;
    world.delete_object("one");
    world.settle();
    assert_eq!((world.ready_reason(), world.planned()), ("Terminating", vec![]));
    world.object_mut("one").data = Some("edited".into());
    world.settle();
    assert_eq!(world.objects["one"].data.as_deref(), Some("v"));
    assert_eq!((world.ready_reason(), world.planned()), ("Terminating", vec![]), "put right, and not there to stay");
    world.class_mut("web").items[0] = item("one", Some("w"));
    world.settle();
    assert_eq!(world.objects["one"].data.as_deref(), Some("w"), "a change of the class reaches it, too");
    assert_eq!(world.ready_reason(), "Terminating");
    world.object_mut("one").additions = true;
    world.settle();
    assert!(world.see_resources().unwrap().read.is_empty(), "what others add is looked at once");
    world.objects.remove("one");
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["one", "two"], "ReconcileSuccess"));
}

#[test]
fn what_cannot_be_changed_in_place_is_left_alone_while_it_is_being_deleted() {
    let mut world = bound();
    world.class_mut("web").policy.recreate_immutable = true;
    let object = world.object_mut("one");
    (object.immutable, object.held) = (true, true);
    world.class_mut("web").items[0] = item("one", Some("new"));
    world.settle();
    assert!(world.objects["one"].deleting);
    assert_eq!((world.ready_reason(), world.planned()), ("Terminating", vec![]));
}

#[test]
fn a_stripped_label_is_put_back_because_the_owner_proves_it() {
    let before = bound();
    let mut world = before.clone();
    world.object_mut("one").stamp = None;
    world.settle();
    assert_eq!(
        (&world.objects["one"].uid, &world.objects["one"].stamp),
        (&before.objects["one"].uid, &before.objects["one"].stamp)
    );
}

#[test]
fn a_name_found_taken_is_no_conflict_before_it_is_known_by_whom() {
    let mut world = bound();
    world.object_mut("one").stamp = None;
    let mut world = reconciled(&world);
    assert_eq!(world.ready_reason(), "RolloutPending", "we have taken it ourselves");
    world.settle();
    assert_eq!(world.ready_reason(), "ReconcileSuccess");
}

#[test]
fn a_stripped_owner_is_put_back_because_label_and_record_prove_it() {
    let before = bound();
    let mut world = before.clone();
    world.object_mut("one").owner = None;
    world.settle();
    assert_eq!(world.objects, before.objects);
}

#[test]
fn an_object_made_anew_by_somebody_else_is_theirs() {
    for stamp in [None, Some("web".to_owned())] {
        let mut world = bound();
        world.stranger_makes("one");
        world.object_mut("one").stamp = stamp;
        let before = world.objects["one"].clone();
        world.settle();
        assert_eq!(world.objects["one"], before);
        assert_eq!(world.ready_reason(), "Conflict");
        world.label = None;
        world.settle();
        assert_eq!((names(&world), &world.objects["one"]), (vec!["one"], &before), "kept");
    }
}

#[test]
fn a_conflict_that_is_cleared_heals_and_the_others_were_applied_meanwhile() {
    let mut world = World::new([("web", class(&["one", "two"]))]);
    world.stranger_makes("one");
    world.label = Some("web");
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["two"], "Conflict"));
    let inventory = &world.status().applied_resources;
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
    world.object_mut("one").stamp = None;
    world.class_mut("web").items.remove(0);
    world.settle();
    assert_eq!(names(&world), ["two"]);
}

#[test]
fn an_object_stripped_of_label_and_owner_is_released() {
    let mut world = bound();
    let object = world.object_mut("one");
    (object.owner, object.stamp) = (None, None);
    let before = world.objects["one"].clone();
    world.settle();
    assert_eq!(world.ready_reason(), "Conflict");
    world.label = None;
    world.settle();
    assert_eq!(world.objects["one"], before, "left alone");
}

#[test]
fn what_a_binding_deleted_by_hand_left_is_taken_over_in_place() {
    let mut world = bound();
    let before = uids(&world);
    world.binding = None;
    world.settle();
    assert_eq!(uids(&world), before);
    assert_eq!(world.ready_reason(), "ReconcileSuccess");
    world.label = None;
    world.settle();
    assert!(world.objects.is_empty());
}

#[test]
fn a_refused_object_is_tried_behind_all_others_and_nothing_is_pruned_meanwhile() {
    let mut world = bound();
    world.object_mut("one").immutable = true;
    world.class_mut("web").items = vec![item("one", Some("new")), item("three", Some("v"))];
    world.settle();
    assert_eq!(world.ours(), ["one", "three", "two"]);
    assert_eq!(world.planned(), [vec!["Apply"], vec!["Prune"]], "the refused one, and only then the prune");
}

/// What a binding made, seen in another version than the one its class uses, and not readable in that one.
#[test]
fn a_binding_stays_as_long_as_what_is_to_be_kept_cannot_be_released() {
    let mut world = bound();
    world.class_mut("web").orphan_on_unbind = true;
    world.label = None;
    let mut seen = world.see_resources().unwrap();
    seen.stamped.get_mut(&identity("one")).unwrap().api_version = "v1beta1".into();
    seen.read.remove(&identity("one"));
    let kinds: Vec<_> = resources::plan(&seen).iter().map(Step::kind).collect();
    assert_eq!(kinds, ["Release"], "the other one is released, and the binding waits");
    let status = resources::report(&seen, &[], &now());
    assert_eq!(status.conditions.reason("Ready"), Some("Unobservable"));
}

#[test]
fn what_is_no_longer_wanted_and_cannot_be_read_is_not_forgotten() {
    let mut world = World::new([("web", class(&["one", "gadget"]))]);
    world.label = Some("web");
    world.settle();
    let uid = world.objects["gadget"].uid.clone();
    world.class_mut("web").items.pop();
    world.object_mut("gadget").stamp = None;
    world.widgets = Sight::Unreadable;
    world.settle();
    let entry = world.status().applied(&identity("gadget")).expect("it stays on record");
    assert_eq!((entry.state, entry.uid.as_ref()), (State::Pruning, Some(&uid)));
    assert_eq!(world.ready_reason(), "Unobservable");
    // Read at last, and gone by then: it is forgotten.
    world.widgets = Sight::Clear;
    world.objects.remove("gadget");
    world.settle();
    assert_eq!((names(&world), world.ready_reason()), (vec!["one"], "ReconcileSuccess"));
    assert!(world.status().applied(&identity("gadget")).is_none());
}

#[test]
fn a_name_that_is_taken_by_what_cannot_be_read_is_not_tried_again_and_again() {
    let mut world = World::new([("web", class(&["gadget"]))]);
    world.stranger_makes("gadget");
    world.widgets = Sight::Unreadable;
    world.label = Some("web");
    world.settle();
    assert_eq!((world.ready_reason(), world.planned()), ("Unobservable", vec![]));
    world.widgets = Sight::Clear;
    world.settle();
    assert_eq!(world.ready_reason(), "Conflict");
    world.objects.remove("gadget");
    world.settle();
    assert_eq!(world.ready_reason(), "ReconcileSuccess");
}

/// The watch of a kind fails and goes on showing what was there before.
#[test]
fn what_an_old_view_shows_is_neither_deleted_nor_forgotten() {
    let mut world = World::new([("web", class(&["one", "gadget"]))]);
    world.label = Some("web");
    world.settle();
    world.widgets = Sight::Frozen(world.objects.clone());
    world.class_mut("web").items.pop();
    world.settle();
    assert_eq!((names(&world), world.planned()), (vec!["gadget", "one"], vec![]));
    assert_eq!(world.ready_reason(), "Unobservable");
    assert_eq!(world.status().applied(&identity("gadget")).unwrap().state, State::Pruning);
    world.widgets = Sight::Clear;
    world.settle();
    assert_eq!((names(&world), world.ready_reason()), (vec!["one"], "ReconcileSuccess"));
}

#[test]
fn what_is_to_be_kept_is_not_collected_with_its_binding_because_we_died_before_it_was_on_record() {
    let mut start = World::new([("web", ClassSpec { orphan_on_unbind: true, ..class(&["gadget"]) })]);
    start.label = Some("web");
    for mut world in reachable("namespace, kept", &start) {
        let was_there = world.objects.contains_key("gadget");
        (world.label, world.widgets) = (None, Sight::Away);
        world.settle();
        world.widgets = Sight::Clear;
        world.settle();
        assert_eq!(world.objects.contains_key("gadget"), was_there, "kept");
        assert!(world.binding.is_none() && world.ours().is_empty());
    }
}

#[test]
fn a_label_that_names_a_class_on_its_way_out_is_told_on_the_binding_that_stays() {
    let mut world = World::new([("web", class(&["one"])), ("db", class(&["two"]))]);
    world.label = Some("web");
    world.settle();
    world.class_mut("db").deleting = true;
    world.label = Some("db");
    world.settle();
    assert_eq!((world.ours(), world.ready_reason()), (vec!["one"], "ClassDeleting"));
    let message = &world.status().conditions.get("Ready").unwrap().message;
    assert!(message.contains("names class db, which is being deleted"), "{message}");
    world.classes.remove("db");
    world.settle();
    assert_eq!(world.ready_reason(), "ClassNotFound");
}
