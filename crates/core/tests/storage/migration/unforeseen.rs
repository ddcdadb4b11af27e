//! What comes between while buckets move: the claim they go to is deleted, they grow, the gateway refuses what it told.

use croft_core::{
    plan::{Failure, FailureClass, Outcome, may_begin},
    storage::migration::{self, Gateway, MoveState, Observed, Phase, Status, Step},
};

use super::{
    finishing, held,
    world::{BEFORE, Policy, Whereabouts, World, now},
};
use crate::explorer::{self, at_rest};

/// Everything is looked at, nothing is moved.
fn running() -> World {
    let world = explorer::worked(&held(), "migration");
    assert_eq!(world.status.phase, Some(Phase::Running));
    world
}

fn told(world: &World) -> String {
    world.status.buckets[0].message.clone().unwrap_or_default()
}

#[test]
fn nothing_more_moves_to_a_claim_that_is_being_deleted_and_what_has_arrived_is_kept() {
    let deleted = |mut world: World| {
        (world.target.claim_deleting, world.target_went) = (true, true);
        at_rest(&world)
    };
    let stayed = deleted(running());
    assert_eq!((stayed.bucket, stayed.status.phase), (Whereabouts::Home, Some(Phase::Failed)));
    assert!(told(&stayed).contains("S3UserClaim b/data is gone, or going"), "{}", told(&stayed));
    assert!(stayed.current.claim && stayed.current.object == Some(true) && !stayed.target.kept);

    // It is linked, and nothing else is done yet.
    let linked = World { bucket: Whereabouts::Arrived, policy: Policy::None, ..running() };
    let mut bare = linked.clone();
    bare.current.object = None;
    for start in [linked, bare, finishing()] {
        let end = deleted(start);
        assert!(end.has_arrived() && end.target.kept, "{end:?}");
        assert!(!end.current.held && !end.target.held);
    }
}

#[test]
fn what_has_arrived_in_a_namespace_that_is_deleted_before_all_is_over_is_kept_with_or_without_an_s3bucket() {
    for object in [None, Some(true)] {
        let mut world = finishing();
        (world.current.object, world.namespace, world.target.claim_deleting) = (object, false, true);
        let end = at_rest(&world);
        assert!(end.has_arrived() && end.target.kept, "{end:?}");
    }
}

#[test]
fn a_bucket_that_grew_beyond_what_its_new_owner_may_have_stays_where_it_is() {
    let end = at_rest(&World { grown: true, ..running() });
    assert_eq!((end.bucket, end.status.phase), (Whereabouts::Home, Some(Phase::Failed)));
    assert_eq!(end.policy, Policy::Text(BEFORE.to_owned()));
    assert!(told(&end).contains("raise its spec.quota.size first"), "{}", told(&end));
    let untold = explorer::worked(&World { untold: true, ..running() }, "migration");
    assert_eq!((untold.bucket, untold.status.phase), (Whereabouts::Home, Some(Phase::Running)), "moved on a guess");
}

#[test]
fn a_bucket_that_can_neither_be_finished_nor_go_back_is_kept_where_it_is_and_its_policy_is_told() {
    let mut arrived = World { bucket: Whereabouts::Arrived, policy: Policy::None, replaced: true, ..running() };
    arrived.status.buckets[0].policy = Some(BEFORE.to_owned());
    let mut refused = arrived.clone();
    refused.status.buckets[0].state = MoveState::Returning;
    let mut forsaken = World { deleting: true, ..arrived };
    forsaken.target.key = false;
    for start in [refused, forsaken] {
        let end = at_rest(&start);
        assert!(end.has_arrived() && end.target.kept, "{end:?}");
        assert_eq!(end.status.phase, Some(Phase::Failed));
        assert_eq!(end.status.buckets[0].policy.as_deref(), Some(BEFORE));
        assert!(told(&end).contains("see policy in status.buckets"), "{}", told(&end));
    }
}

/// What is said where the gateway fails to set the lifecycle again in this way; what needs that is not begun.
fn without_lifecycle(seen: &Observed, class: FailureClass) -> Status {
    let plan = migration::plan(seen);
    let mut outcomes: Vec<(&Step, Outcome)> = Vec::new();
    for step in plan.iter() {
        let refused = || Outcome::Failed(Failure::new(class, "InvalidRequest", "no such storage class"));
        let outcome = match step {
            _ if !may_begin(step, &outcomes) => Outcome::NotRun,
            Step::RenewLifecycle { .. } => refused(),
            _ => Outcome::done(),
        };
        outcomes.push((step, outcome));
    }
    assert!(outcomes.iter().any(|(step, _)| matches!(step, Step::RenewLifecycle { .. })), "{plan}");
    assert!(outcomes.iter().all(|(_, outcome)| *outcome != Outcome::NotRun), "something waits for it: {plan}");
    migration::report(seen, &outcomes, &now())
}

#[test]
fn a_lifecycle_that_the_gateway_does_not_take_back_is_told_and_holds_up_nobody() {
    let seen = running().seen();
    assert!(matches!(seen.gateway, Gateway::Reached(_)));
    let status = without_lifecycle(&seen, FailureClass::Rejected);
    assert_eq!(status.buckets[0].state, MoveState::Moved);
    let message = status.buckets[0].message.clone().unwrap_or_default();
    assert!(message.contains("lifecycle") && message.contains("no such storage class"), "{message}");
    assert!(message.contains("is left out"), "what else is to be told: {message}");
    let hiccup = without_lifecycle(&seen, FailureClass::Transient);
    assert_ne!(hiccup.buckets[0].state, MoveState::Moved, "it is tried again");
    let linked = World { bucket: Whereabouts::Arrived, deleting: true, ..running() };
    let stopped = without_lifecycle(&linked.seen(), FailureClass::Transient);
    assert_eq!(stopped.buckets[0].state, MoveState::Moved, "who is told to stop waits for nothing");
}
