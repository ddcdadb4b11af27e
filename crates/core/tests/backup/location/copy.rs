//! The copy of the keys that Velero reads, and who else writes it.

use std::time::Duration;

use croft_core::{
    backup::location::{Observed, Repairs, Step, Version, plan, report},
    plan::{Next, Outcome},
    time::Instant,
};

use super::{Slot, Spec, World};
use crate::{explorer::at_rest, now, policy};

/// A location that Velero has, at rest.
fn made() -> World {
    at_rest(&World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty))
}

fn seen(world: &World) -> Observed {
    world.seen().expect("there")
}

fn updates(seen: &Observed) -> usize {
    plan(seen, &policy()).iter().filter(|step| matches!(step, Step::UpdateSecret { .. })).count()
}

#[test]
fn a_copy_that_somebody_edited_is_put_right_and_then_left_alone_again() {
    let edited = World { copy_is_edited: true, ..made() };
    assert!(seen(&edited).unread(&policy()).is_some(), "the keys are read only then");
    let right = at_rest(&edited);
    assert!(!right.copy_is_edited);
    assert_eq!(seen(&right).unread(&policy()), None);
    assert!(plan(&seen(&right), &policy()).is_settled());
}

#[test]
fn a_write_that_could_not_be_recorded_any_more_is_done_again_and_that_is_all() {
    let mut unrecorded = seen(&made());
    unrecorded.status.secret_copy = None;
    let steps = plan(&unrecorded, &policy());
    assert_eq!(updates(&unrecorded), 1);
    let answered = unrecorded.copy.as_ref().expect("made").version.clone();
    let (uid, witness) = (Some(answered.uid.clone()), Some(answered.resource_version.clone()));
    let outcomes: Vec<_> =
        steps.iter().map(|step| (step, Outcome::Done { uid: uid.clone(), witness: witness.clone() })).collect();
    unrecorded.status = report(&unrecorded, &policy(), &outcomes, &now()).expect("a status");
    assert_eq!(unrecorded.status.secret_copy, Some(answered));
    assert!(plan(&unrecorded, &policy()).is_settled());
}

#[test]
fn what_is_withdrawn_is_not_on_record_any_more() {
    let mut seen = seen(&made());
    assert!(seen.status.secret_copy.is_some());
    seen.standing = croft_core::backup::approval::Standing::Pending;
    assert_eq!(report(&seen, &policy(), &[], &now()).expect("a status").secret_copy, None);
}

/// Looks once, does what is to be done at `at`, and says whether the copy was put right.
fn looks(world: &mut World, repairs: &mut Repairs, at: Instant) -> bool {
    let mut look = seen(world);
    look.rest = repairs.rest(&look.origin().nacuuid, at);
    let steps = plan(&look, &policy());
    let version = Version { uid: "ours".into(), resource_version: "1".into() };
    let done = || Outcome::Done { uid: Some(version.uid.clone()), witness: Some(version.resource_version.clone()) };
    let outcomes: Vec<_> = steps.iter().map(|step| (step, done())).collect();
    repairs.note(&look, &outcomes, at);
    if outcomes.is_empty() {
        assert!(matches!(steps.next, Next::After(rest) if rest <= Duration::from_secs(30)), "nobody looks again");
        let told = report(&look, &policy(), &[], &now()).expect("a status");
        let synced = told.conditions.get("SecretSynced").expect("told");
        assert!(synced.message.contains("again and again; it is put right every 30 seconds"), "{}", synced.message);
        assert_eq!(look.unread(&policy()), None, "nor are the keys read");
        return false;
    }
    world.copy_is_edited = false;
    true
}

#[test]
fn whoever_fights_over_a_copy_is_answered_now_and_then_and_it_is_said() {
    let (mut world, mut repairs) = (made(), Repairs::default());
    let mut repaired = 0;
    for second in 0..60 {
        world.copy_is_edited = true;
        repaired += u32::from(looks(&mut world, &mut repairs, Instant(1_000_000 + second * 1000)));
    }
    assert_eq!(repaired, 6, "five at once, one more after half a minute");
}

#[test]
fn keys_that_change_however_often_are_no_fight() {
    let (mut look, mut repairs) = (seen(&made()), Repairs::default());
    for number in 2..100 {
        look.secret = Some(super::version(number));
        let steps = plan(&look, &policy());
        let outcomes: Vec<_> = steps.iter().map(|step| (step, Outcome::done())).collect();
        repairs.note(&look, &outcomes, Instant(1_000_000));
        assert_eq!((updates(&look), repairs.rest(&look.origin().nacuuid, Instant(1_000_000))), (1, Duration::ZERO));
    }
}
