//! A vault whose gateway does not tell of its bucket, and one whose class gives everything up.

use croft_core::{
    backup::vault::{Observed, Step, must_retry, plan, report},
    plan::{Failure, FailureClass},
    storage::{
        Place,
        claim::{self, Backend, Phase, User},
    },
};

use super::world::{BUCKET, Slot, World};
use crate::{
    explorer::{Limits, World as _, at_rest, explore},
    now,
};

/// A vault with a backup in it.
fn full() -> World {
    let mut world = at_rest(&World::new());
    world.user.as_mut().expect("made").stored = Some(3);
    world
}

/// What is seen of the world where the gateway tells something else of the user.
fn told(world: &World, change: impl FnOnce(&mut User)) -> Observed {
    let mut seen = world.seen();
    let Backend::Reached(reached) = &mut seen.backend else { panic!("it is reached") };
    change(reached.user.as_mut().expect("made"));
    seen
}

/// The gateway cannot tell which buckets there are.
fn unlisted(user: &mut User) {
    user.buckets.clear();
    user.usage = None;
    user.unlisted = Some(Failure::new(FailureClass::Transient, "GatewayError", "a shard is broken"));
}

/// The bucket is on the user's list and is not there any more.
fn gone(user: &mut User) {
    user.buckets = [(BUCKET.to_owned(), claim::UNCOUNTED)].into();
    user.gone_buckets = [BUCKET.to_owned()].into();
    user.usage = None;
}

fn reason(seen: &Observed) -> String {
    let status = report(seen, &[], &now()).expect("a vault");
    status.conditions.reason("Ready").expect("told").to_owned()
}

fn deleted(world: &World) -> World {
    let mut world = World { location: Slot::Empty, ..world.clone() };
    world.edit(|vault| vault.deleting = true);
    world
}

fn lets_go(step: &Step) -> bool {
    let is_user = matches!(step, Step::Ceph(claim::Step::RemoveUser { .. }));
    is_user || matches!(step, Step::RemoveFinalizer { .. } | Step::DeleteRecord { .. } | Step::ReleaseQuota { .. })
}

#[test]
fn a_bucket_the_gateway_does_not_tell_of_is_not_taken_for_lost() {
    let seen = told(&full(), unlisted);
    assert_eq!(reason(&seen), "GatewayError");
    assert!(must_retry(&seen), "no watch tells when it can");
    assert_eq!(reason(&told(&full(), gone)), "BucketLost");
}

#[test]
fn a_vault_whose_buckets_cannot_be_listed_is_shut_and_kept_until_they_can() {
    let seen = told(&deleted(&full()), unlisted);
    let plan = plan(&seen);
    assert!(!plan.iter().any(lets_go), "{plan}");
    assert!(plan.iter().any(|step| matches!(step, Step::Ceph(claim::Step::SuspendUser { .. }))), "{plan}");
    assert_eq!(reason(&seen), "GatewayError");
    let orphan = World { vault: None, ..full() };
    let plan = super::plan(&told(&orphan, unlisted));
    assert!(!plan.iter().any(lets_go), "{plan}");
}

#[test]
fn a_namespace_that_goes_waits_for_no_answer_of_a_gateway() {
    let full = World { terminating: true, ..full() };
    let mut empty = full.clone();
    empty.user.as_mut().expect("made").stored = Some(0);
    let mut given_up = deleted(&full);
    given_up.edit(|vault| vault.purges = true);
    let looks = [
        told(&deleted(&full), unlisted),
        told(&deleted(&full), gone),
        deleted(&empty).seen(),
        deleted(&full).seen(),
        given_up.seen(),
    ];
    for seen in looks {
        let plan = plan(&seen);
        let asks = plan.iter().any(|step| matches!(step, Step::Ceph(_)));
        assert!(!asks && plan.iter().any(|step| matches!(step, Step::RemoveFinalizer { .. })), "{plan}");
    }
}

#[test]
fn a_vault_whose_bucket_is_gone_and_still_listed_holds_up_nobody() {
    let plan = plan(&told(&deleted(&full()), gone));
    assert!(plan.iter().any(|step| matches!(step, Step::RemoveFinalizer { .. })), "{plan}");
    assert!(!plan.iter().any(|step| matches!(step, Step::Ceph(claim::Step::RemoveUser { .. }))), "{plan}");
}

#[test]
fn a_bucket_of_anothers_on_the_list_holds_up_no_vault() {
    for objects in [0, 3] {
        let seen = told(&deleted(&full()), |user| {
            user.buckets = [(BUCKET.to_owned(), objects)].into();
            user.others_buckets = [BUCKET.to_owned()].into();
        });
        let plan = plan(&seen);
        let removes = |step: &Step| {
            matches!(step, Step::Ceph(claim::Step::RemoveEmptyBucket { .. } | claim::Step::RemoveUser { .. }))
        };
        assert!(!plan.iter().any(removes), "{plan}");
        assert!(plan.iter().any(|step| matches!(step, Step::RemoveFinalizer { .. })), "{plan}");
    }
}

#[test]
fn a_class_that_gives_nothing_up_any_more_has_the_rest_kept() {
    let kept = at_rest(&deleted(&full()));
    let mut untouched = full();
    untouched.vault = None;
    for left in [kept, untouched] {
        let mut begun = World { given_up: true, all_is_given_up: true, ..left };
        let seen = begun.seen();
        for step in plan(&seen).iter().filter(|step| matches!(step, Step::MarkRecord { .. })) {
            assert!(begun.execute(&seen, step).is_done());
        }
        assert!(begun.record.as_ref().is_some_and(|record| record.purge.is_some()));
        // Somebody interrupts it, and the class says what it said.
        let mut thought_better = World { given_up: false, all_is_given_up: false, ..begun };
        thought_better.record.as_mut().expect("kept").purge = Some((3, true));
        let told = plan(&thought_better.seen());
        assert!(!told.iter().any(|step| matches!(step, Step::Ceph(claim::Step::PurgeBucket { .. }))), "{told}");
        let end = at_rest(&thought_better);
        let told = end.record.map(|record| (record.phase, record.reason, record.purge));
        assert_eq!(told, Some((Some(Phase::Released), Some("BucketsKept"), None)));
        assert_eq!(end.user.and_then(|user| user.stored), Some(3));
    }
}

#[test]
fn where_the_class_gives_everything_up_a_user_that_is_offered_goes_and_nobody_elses() {
    let kept = World { given_up: true, all_is_given_up: true, ..at_rest(&deleted(&full())) };
    for is_ours in [true, false] {
        let mut seen = told(&kept, |user| {
            if !is_ours {
                user.display_name = "safe in shop.elsewhere".to_owned();
            }
        });
        let body = &mut seen.record.as_mut().expect("kept").body;
        body.claim = None;
        body.offered_to = Some(Place { namespace: "shop".into(), name: "safe".into() });
        let plan = plan(&seen);
        let purges = |step: &Step| matches!(step, Step::Ceph(claim::Step::PurgeBucket { .. }));
        assert_eq!(plan.iter().any(purges), is_ours, "{plan}");
        assert_eq!(plan.is_settled(), !is_ours, "{plan}");
    }
}

#[test]
fn where_the_class_gives_everything_up_a_vault_keeps_nothing_whatever_it_says() {
    let going = deleted(&full());
    let kept = at_rest(&going);
    assert!(kept.vault.is_none() && kept.user.is_some());
    let mut in_a_dying_namespace = World { terminating: true, ..full() };
    in_a_dying_namespace.edit(|vault| vault.deleting = true);
    let starts =
        [going, kept, in_a_dying_namespace].map(|world| World { given_up: true, all_is_given_up: true, ..world });
    for start in &starts {
        let end = at_rest(start);
        assert!(end.vault.is_none() && end.user.is_none() && end.record.is_none(), "{end:?}");
    }
    explore("vault, given up", starts, Limits { acts: 0, faults: true, at_once: 1 });
}
