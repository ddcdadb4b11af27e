//! Roll-outs in stages: every small world of one class and a few namespaces ends where the class wants it, or says what it waits
//! for, whatever goes wrong and whatever others do in between; and nobody moves out of turn.

#![allow(unreachable_pub, reason = "modules of one test program")]

#[path = "../explorer/mod.rs"]
mod explorer;

mod space;
mod world;

use crate::{
    explorer::{Limits, at_rest, explore},
    world::World,
};

/// A class that has reached this many namespaces, with and without stages.
fn settled(namespaces: u8) -> [World; 2] {
    [true, false].map(|staged| at_rest(&World::new(namespaces, staged)))
}

fn explored(name: &str, starts: impl IntoIterator<Item = World>, limits: Limits, least: usize) {
    let explored = explore(name, starts, limits);
    assert!(explored.worlds.len() > least, "only {} worlds", explored.worlds.len());
}

#[test]
fn whatever_an_administrator_does_in_the_middle_of_a_roll_out_nobody_moves_out_of_turn() {
    let limits = Limits { acts: 3, faults: false, at_once: 1 };
    explored("roll-outs, meddled with", settled(2), limits, 10_000);
}

#[test]
fn namespaces_that_get_stuck_and_classes_that_are_made_again_let_nobody_move_out_of_turn() {
    let unruly = || settled(2).map(World::unruly);
    explored("roll-outs, unruly", unruly(), Limits { acts: 2, faults: false, at_once: 1 }, 5_000);
    explored("roll-outs, unruly, with faults", unruly(), Limits { acts: 1, faults: true, at_once: 1 }, 200);
}

#[test]
fn a_roll_out_survives_a_crash_anywhere_and_lost_replies() {
    let limits = Limits { acts: 2, faults: true, at_once: 1 };
    explored("roll-outs, with faults", settled(2), limits, 5_000);
}

#[test]
fn a_roll_out_in_a_cluster_that_comes_up_reaches_everybody() {
    let starts = [0, 1, 3].into_iter().flat_map(|count| [true, false].map(|staged| World::new(count, staged)));
    let limits = Limits { acts: 1, faults: true, at_once: 1 };
    explored("roll-outs, new", starts, limits, 1_000);
}

#[test]
fn an_edit_moves_one_namespace_at_a_time_and_stops_at_the_first_that_fails() {
    let mut world = at_rest(&World::new(3, true));
    world.spoil(0, 2);
    world.edit(2);
    let rest = at_rest(&world);
    assert_eq!(rest.carried(), [2, 1, 1], "the first one fails with it");
    assert_eq!(rest.reason(), "RolloutStopped");

    let mut back = rest.clone();
    back.edit(1);
    let back = at_rest(&back);
    assert_eq!((back.carried(), back.reason().as_str()), (vec![1, 1, 1], "RolledOut"), "the way back");

    let mut on = rest.clone();
    on.edit(3);
    assert_eq!(at_rest(&on).carried(), [3, 3, 3], "another revision in the middle");

    let mut mended = rest;
    mended.mend();
    assert_eq!(at_rest(&mended).carried(), [2, 2, 2], "it goes on by itself");
}

#[test]
fn an_edit_that_deletes_much_waits_whole_until_that_very_revision_is_confirmed() {
    for staged in [true, false] {
        let mut world = at_rest(&World::new(3, staged));
        world.edit(0);
        let rest = at_rest(&world);
        assert_eq!((rest.carried(), rest.reason().as_str()), (vec![1, 1, 1], "DeletionsUnconfirmed"));
        assert!(rest.message().contains("confirm-deletions=2-r0 --overwrite"), "{}", rest.message());
        let mut other = rest.clone();
        other.confirm(2);
        assert_eq!(at_rest(&other).carried(), [1, 1, 1], "another revision was confirmed");
        let mut confirmed = rest;
        confirmed.confirm(0);
        assert_eq!(at_rest(&confirmed).carried(), [0, 0, 0]);
    }
}

#[test]
fn a_class_that_was_staged_long_ago_takes_nobody_back_to_where_they_were_then() {
    let mut world = at_rest(&World::new(2, true));
    world.edit(2);
    let mut world = at_rest(&world);
    world.stage(false);
    world.edit(3);
    let mut world = at_rest(&world);
    assert_eq!(world.carried(), [3, 3]);
    world.stage(true);
    world.edit(1);
    world.pause(true);
    assert_eq!(at_rest(&world).carried(), [3, 3], "neither back to 2 nor on to 1");
}

#[test]
fn who_is_not_ready_when_its_turn_comes_is_waited_for_and_stops_nobody() {
    let mut world = at_rest(&World::new(3, true));
    world.get_stuck(Some(0));
    let mut world = at_rest(&world);
    world.edit(2);
    let mut waiting = at_rest(&world);
    assert_eq!(waiting.carried(), [2, 1, 1]);
    assert!(waiting.message().ends_with("it waits for 0"), "{}", waiting.message());
    waiting.wait_long();
    assert_eq!(at_rest(&waiting).carried(), [2, 2, 2]);
}

#[test]
fn who_is_through_holds_nobody_up_when_it_is_not_well_later() {
    let mut world = at_rest(&World::new(2, true));
    world.edit(2);
    let mut world = at_rest(&world);
    world.get_stuck(Some(0));
    let mut unwell = at_rest(&world);
    unwell.wait_long();
    let mut newcomer = unwell.clone();
    newcomer.come(2);
    assert_eq!(at_rest(&newcomer).carried(), [2, 2, 2]);
    unwell.edit(3);
    assert_eq!(at_rest(&unwell).carried(), [3, 3], "who is not well comes last, and stops nobody");
}

#[test]
fn who_failed_before_its_turn_does_not_stop_the_roll_out_for_who_comes_later() {
    let mut world = World::new(2, true);
    world.spoil(0, 1);
    world.spoil(0, 2);
    let mut world = at_rest(&world);
    world.edit(2);
    let mut world = at_rest(&world);
    assert_eq!(world.carried(), [2, 2]);
    world.come(2);
    assert_eq!(at_rest(&world).carried(), [2, 2, 2]);
}

#[test]
fn deletions_are_confirmed_anew_when_the_class_says_the_same_again() {
    let mut world = at_rest(&World::new(2, false));
    world.edit(0);
    let mut world = at_rest(&world);
    world.confirm(0);
    let mut world = at_rest(&world);
    assert_eq!(world.carried(), [0, 0]);
    world.edit(1);
    let mut world = at_rest(&world);
    world.edit(0);
    let asked = at_rest(&world);
    assert_eq!((asked.carried(), asked.reason().as_str()), (vec![1, 1], "DeletionsUnconfirmed"));
}

#[test]
fn what_came_while_a_class_was_paused_is_counted_before_it_goes() {
    for staged in [true, false] {
        let mut world = at_rest(&World::new(1, staged));
        world.pause(true);
        world.edit(0);
        let mut world = at_rest(&world);
        assert_eq!(world.reason(), "RolloutPaused", "what there is now might go unasked");
        world.come(1);
        world.come(2);
        let mut world = at_rest(&world);
        assert_eq!(world.carried(), [1, 1, 1]);
        world.pause(false);
        let asked = at_rest(&world);
        assert_eq!((asked.carried(), asked.reason().as_str()), (vec![1, 1, 1], "DeletionsUnconfirmed"), "{staged}");
    }
}

#[test]
fn a_class_that_is_made_again_takes_nobody_to_a_revision_of_the_one_before() {
    let mut world = at_rest(&World::new(2, true));
    world.edit(2);
    let mut world = at_rest(&world);
    world.make_again(1);
    let rest = at_rest(&world);
    assert_eq!((rest.carried(), rest.reason().as_str()), (vec![1, 1], "RolledOut"));
}
