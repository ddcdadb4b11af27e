//! What is said about a bucket.

use super::*;

#[test]
fn a_new_bucket_is_reported_as_created_once_it_is() {
    let made = report(&new(), &Outcome::done());
    assert!(made.created && made.conditions.is_true("Ready"));
    assert_eq!(made.reason, None);
    let waiting = report(&World { owner: OwnerState::NotReady, ..new() }, &Outcome::NotRun);
    assert!(!waiting.created && waiting.conditions.is_true("Reconciling"));
    assert_eq!(waiting.conditions.reason("Ready"), Some("WaitingForClaim"));
}

#[test]
fn a_bucket_with_objects_in_it_says_why_it_does_not_go() {
    let mut world = World { ceph: Some(InCeph::Filled), ..new() };
    world.edit(|object| {
        (object.deleting, object.finalizer, object.status.created) = (Some(Duration::ZERO), true, true);
    });
    let refused = Failure::new(FailureClass::Transient, BUCKET_NOT_EMPTY, "delete its objects first");
    let status = report(&world, &Outcome::Failed(refused));
    assert!(status.created);
    assert_eq!(status.conditions.reason("Ready"), Some(BUCKET_NOT_EMPTY));
    assert_eq!(status.reason.as_deref(), Some("delete its objects first"));
}

#[test]
fn a_bucket_of_another_user_is_reported_as_taken() {
    let status = report(&World { ceph: Some(InCeph::Foreign), ..new() }, &Outcome::NotRun);
    assert!(!status.created && status.conditions.is_true("Stalled"));
    assert_eq!(status.conditions.reason("Ready"), Some("BucketTaken"));
}

#[test]
fn a_binding_of_an_unknown_subuser_is_told_and_grants_nothing() {
    let mut seen = new().seen();
    seen.subusers.clear();
    let spec = seen.bucket.as_ref().and_then(|bucket| bucket.spec.clone().ok()).unwrap();
    assert_eq!(spec.grants(&seen.subusers), Grants::default());
    let plan = bucket::plan(&seen);
    let outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
    let status = bucket::report(&seen, &outcomes, &now()).unwrap();
    assert_eq!(status.conditions.reason("Ready"), Some("UnknownSubuser"));
    assert!(status.reason.unwrap().contains("no subuser one"));
    assert_eq!(status.policy.as_deref(), Some(GRANTING));
}
