//! A class that gives everything up: nothing is kept, and all of it goes as carefully as anything else.

use croft_core::{
    plan::Step,
    storage::{
        OnDelete,
        claim::{self, Backend, Phase},
    },
};

use super::world::{ClassState, World};
use crate::explorer::{Limits, at_rest, explore};

#[test]
fn where_the_class_gives_everything_up_nothing_is_kept() {
    let mut world = at_rest(&World::new(ClassState::Purge));
    world.user.as_mut().unwrap().stored = Some(2);
    world.record.as_mut().unwrap().kept = true;
    world.edit(|claim| claim.deleting = true);
    let mut seen = world.seen();
    let purges =
        |seen: &claim::Observed| claim::plan(seen).iter().any(|step| matches!(step, claim::Step::PurgeBucket { .. }));
    assert!(!purges(&seen));
    if let Backend::Reached(reached) = &mut seen.backend {
        reached.class.on_delete = OnDelete::GiveUp;
    }
    assert!(purges(&seen));
}

#[test]
fn what_was_let_go_and_is_given_up_after_all_goes_bucket_by_bucket_and_is_said_first() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    world.user.as_mut().unwrap().stored = Some(2);
    world.edit(|claim| claim.deleting = true);
    let kept = at_rest(&world);
    assert!(kept.claim.is_none() && kept.record.as_ref().unwrap().phase == Phase::Released);
    let given_up = World { class: ClassState::GiveUp, ..kept };
    // Whoever purges has noted before what is in the bucket: only by that is it not asked for again at every look.
    let unsaid = claim::plan(&given_up.seen());
    let steps: Vec<_> = unsaid.iter().map(Step::kind).collect();
    assert_eq!(steps, ["MarkRecord", "PurgeBucket"], "{unsaid}");
    let mut under_way = given_up.clone();
    (under_way.record.as_mut().unwrap().phase, under_way.record.as_mut().unwrap().purge) =
        (Phase::Removing, Some((2, false)));
    let again = claim::plan(&under_way.seen());
    assert!(!again.iter().any(|step| matches!(step, claim::Step::PurgeBucket { .. })), "{again}");
    explore("claim, given up", [given_up.clone(), world], Limits { acts: 0, faults: true, at_once: 1 });
    let end = at_rest(&given_up);
    assert!(end.user.is_none() && end.record.is_none());
}
