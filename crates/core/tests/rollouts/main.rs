//! Roll-outs in stages: every small world of one class and a few namespaces ends where the class wants it, or says what it waits
//! for, whatever goes wrong and whatever others do in between; and nobody moves out of turn.

#![allow(unreachable_pub, reason = "modules of one test program")]

#[path = "../explorer/mod.rs"]
mod explorer;

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
        assert!(rest.message().contains("confirm-deletions=r0 --overwrite"), "{}", rest.message());
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
