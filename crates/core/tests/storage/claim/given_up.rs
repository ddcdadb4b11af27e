//! A class that gives everything up: nothing is kept, and all of it goes as carefully as anything else.

use croft_core::{
    plan::{Next, Step},
    storage::{
        OnDelete,
        claim::{self, Backend, Phase},
    },
};

use super::world::{ClassState, THEIRS, World};
use crate::explorer::{Limits, World as _, at_rest, explore};

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
    under_way.record.as_mut().unwrap().purge = Some((2, false));
    let again = claim::plan(&under_way.seen());
    assert!(!again.iter().any(|step| matches!(step, claim::Step::PurgeBucket { .. })), "{again}");
    explore("claim, given up", [given_up.clone(), world], Limits { acts: 0, faults: true, at_once: 1 });
    let end = at_rest(&given_up);
    assert!(end.user.is_none() && end.record.is_none());
}

#[test]
fn a_class_that_gives_nothing_up_any_more_has_the_rest_kept() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    world.user.as_mut().unwrap().stored = Some(2);
    let bound = World { claim: None, ..world.clone() };
    world.edit(|claim| claim.deleting = true);
    for left in [at_rest(&world), bound] {
        let mut begun = World { class: ClassState::GiveUp, ..left };
        let seen = begun.seen();
        for step in claim::plan(&seen).iter().filter(|step| matches!(step, claim::Step::MarkRecord { .. })) {
            assert!(begun.execute(&seen, step).is_done());
        }
        assert_eq!(begun.record.as_ref().unwrap().purge, Some((2, false)));
        // Somebody interrupts it, and the class says what it said: no claim was deleted while it did.
        let mut thought_better = World { class: ClassState::Purge, ..begun };
        thought_better.record.as_mut().unwrap().purge = Some((2, true));
        let told = claim::plan(&thought_better.seen());
        assert!(!told.iter().any(|step| matches!(step, claim::Step::PurgeBucket { .. })), "{told}");
        let end = at_rest(&thought_better);
        assert_eq!(end.user.unwrap().stored, Some(2));
        assert_eq!(end.record.map(|record| (record.phase, record.purge)), Some((Phase::Released, None)));
    }
}

#[test]
fn where_the_class_gives_everything_up_a_user_that_is_offered_goes_and_nobody_elses() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    world.user.as_mut().unwrap().stored = Some(2);
    world.edit(|claim| claim.deleting = true);
    let mut offered = at_rest(&world);
    offered.record.iter_mut().for_each(|record| (record.claim, record.offered) = (None, true));
    assert_eq!(at_rest(&offered), offered, "somebody may come for it");
    let given_up = World { class: ClassState::GiveUp, ..offered };
    explore("claim, offered and given up", [given_up.clone()], Limits { acts: 0, faults: true, at_once: 1 });
    let end = at_rest(&given_up);
    assert!(end.user.is_none() && end.record.is_none(), "{end:?}");
    let mut theirs = given_up;
    theirs.user.as_mut().unwrap().owner = Some(THEIRS.to_owned());
    assert_eq!(at_rest(&theirs), theirs);
}

#[test]
fn what_nothing_is_known_of_is_looked_at_again_at_once_where_it_is_given_up() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    world.user.as_mut().unwrap().stored = Some(2);
    let mut seen = World { claim: None, class: ClassState::GiveUp, ..world }.seen();
    let record = seen.record.as_mut().unwrap();
    (record.phase, record.reason) = (None, None);
    let plan = claim::plan(&seen);
    assert!(plan.iter().any(|step| matches!(step, claim::Step::MarkRecord { .. })), "{plan}");
    assert_eq!(plan.next, Next::After(std::time::Duration::ZERO), "our own mark wakes nobody");
}
