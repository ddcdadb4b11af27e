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
    assert!(bucket::plan(&world.seen()).is_settled(), "the gateway would remove one with nothing but parts in it");
    let status = report(&world, &Outcome::NotRun);
    assert!(status.created);
    assert_eq!(status.conditions.reason("Ready"), Some(BUCKET_NOT_EMPTY));
    assert!(status.reason.unwrap().contains("unfinished uploads"));
    let hidden = World { ceph: Some(InCeph::Empty), ..world };
    let refused = Failure::new(FailureClass::Rejected, BUCKET_NOT_EMPTY, "delete its versions first");
    let status = report(&hidden, &Outcome::Failed(refused));
    assert_eq!(status.reason.as_deref(), Some("delete its versions first"), "what is not counted the gateway tells");
}

#[test]
fn a_bucket_that_was_emptied_as_asked_for_goes_with_its_namespace() {
    let mut world = World { ceph: Some(InCeph::Filled), ..new() };
    world.edit(|object| {
        (object.deleting, object.finalizer, object.status.created) = (Some(Duration::ZERO), true, true);
    });
    let told = report(&world, &Outcome::NotRun);
    assert_eq!(told.conditions.reason("Ready"), Some(BUCKET_NOT_EMPTY));
    world.edit(|object| object.status = told);
    let emptied = World { ceph: Some(InCeph::Empty), terminating: true, ..world };
    let plan = bucket::plan(&emptied.seen());
    assert!(plan.to_string().starts_with("delete bucket photos"), "{plan}");
    // And if the gateway says that there is something in it after all, its namespace does not wait.
    let mut refused = emptied.clone();
    let refusal = Failure::new(FailureClass::Rejected, BUCKET_NOT_EMPTY, "delete its versions first");
    refused.edit(|object| object.status = report(&emptied, &Outcome::Failed(refusal)));
    let plan = bucket::plan(&refused.seen());
    assert!(plan.to_string().contains("it is kept"), "{plan}");
}

#[test]
fn a_bucket_that_is_being_moved_while_its_namespace_goes_is_kept_only_if_there_is_something_in_it_or_it_said_so() {
    for (asked, note) in [(Asked::Delete, "it is left behind, and goes if it is empty"), (Asked::Retain, "it is kept")]
    {
        let mut world = World { ceph: Some(InCeph::Empty), terminating: true, ..new() };
        world.edit(|object| (object.asked, object.deleting, object.finalizer) = (asked, Some(Duration::ZERO), true));
        let seen = Observed { held_by: Some("move".into()), ..world.seen() };
        let plan = bucket::plan(&seen).to_string();
        assert_eq!(
            plan,
            format!("note on S3User a.data about bucket photos: {note}\nremove the finalizer from S3Bucket a/photos")
        );
    }
}

#[test]
fn what_a_person_puts_right_in_ceph_is_looked_at_ever_more_rarely_and_not_by_the_clock() {
    let lost = |world: World| {
        let mut world = world;
        world.edit(|object| (object.finalizer, object.status.created) = (true, true));
        world
    };
    for world in [lost(new()), World { ceph: Some(InCeph::Foreign), ..new() }] {
        assert!(bucket::must_retry(&world.seen()));
        assert_eq!(bucket::plan(&world.seen()).next, Next::Settled);
    }
    let made = World { ceph: Some(InCeph::Empty), ..new() };
    assert!(!bucket::must_retry(&made.seen()));
}

#[test]
fn a_bucket_of_a_claim_that_allows_none_is_not_asked_for() {
    let mut seen = new().seen();
    seen.record.iter_mut().for_each(|record| record.allows_buckets = false);
    assert!(bucket::plan(&seen).is_settled());
    let status = bucket::report(&seen, &[], &now()).unwrap();
    assert_eq!(status.conditions.reason("Ready"), Some("QuotaExceeded"));
    assert!(status.reason.unwrap().contains("spec.quota.buckets"));
    let mut there = World { ceph: Some(InCeph::Empty), ..new() }.seen();
    there.record.iter_mut().for_each(|record| record.allows_buckets = false);
    assert!(!bucket::plan(&there).is_settled(), "one that is there is looked after");
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

#[test]
fn what_a_migration_moves_is_left_alone_until_its_s3bucket_itself_goes_with_the_namespace() {
    let mut world = World { ceph: Some(InCeph::Empty), policy: Policy::Theirs, terminating: true, ..new() };
    world.edit(|object| (object.finalizer, object.status.created) = (true, true));
    let held = |world: &World| Observed { held_by: Some("m".to_owned()), ..world.seen() };
    assert!(bucket::plan(&held(&world)).is_settled(), "a policy would shut out its new owner");
    assert!(bucket::plan(&held(&World { ceph: None, ..world.clone() })).is_settled(), "it may be on its way");
    world.edit(|object| object.deleting = Some(Duration::ZERO));
    let going = bucket::plan(&held(&world));
    assert!(going.iter().any(|step| matches!(step, Step::RemoveFinalizer { .. })), "hangs a namespace: {going}");
    let stays = bucket::plan(&held(&World { terminating: false, ..world }));
    assert!(stays.is_settled(), "it may be anywhere: {stays}");
}

#[test]
fn a_bucket_to_retain_waits_until_its_record_is_there_to_say_so() {
    let mut world = World { ceph: Some(InCeph::Filled), record_is_gone: true, ..new() };
    world.edit(|object| {
        (object.asked, object.deleting, object.finalizer) = (Asked::Retain, Some(Duration::ZERO), true);
    });
    assert!(bucket::plan(&world.seen()).is_settled());
    let status = report(&world, &Outcome::NotRun);
    assert_eq!(status.conditions.reason("Ready"), Some("WaitingForClaim"));
    assert!(status.reason.unwrap().contains("once that is there again"));
    let lets_go =
        |world: World| bucket::plan(&world.seen()).iter().any(|it| matches!(it, Step::RemoveFinalizer { .. }));
    assert!(lets_go(World { claim_goes: true, ..world.clone() }), "they wait for each other");
    assert!(lets_go(World { terminating: true, ..world.clone() }), "hangs a namespace");
    assert!(lets_go(World { record_is_gone: false, ..world }));
}

#[test]
fn a_bucket_to_delete_does_not_wait_for_a_claim_that_goes_too() {
    let mut world = World { ceph: Some(InCeph::Filled), ..new() };
    world.edit(|object| {
        (object.deleting, object.finalizer, object.status.created) = (Some(Duration::ZERO), true, true);
    });
    let without_record = World { record_is_gone: true, ..world.clone() };
    let without_user = World { owner: OwnerState::NotReady, ..world.clone() };
    let misnamed = World { owner: OwnerState::Misnamed, ..world };
    for (world, is_noted) in [(without_record, false), (without_user, true), (misnamed, false)] {
        assert!(bucket::plan(&world.seen()).is_settled(), "its user may come");
        let told = report(&world, &Outcome::NotRun).reason.unwrap();
        assert!(told.contains("or delete that, too"), "{told}");
        let plan = bucket::plan(&World { claim_goes: true, ..world }.seen());
        assert!(
            plan.iter().any(|step| matches!(step, Step::RemoveFinalizer { .. })),
            "they wait for each other: {plan}"
        );
        let notes = |step: &Step| matches!(step, Step::Note { note: Note::Left, .. });
        assert_eq!(plan.iter().any(notes), is_noted, "{plan}");
    }
}

#[test]
fn the_name_of_a_bucket_that_never_was_is_noted_nowhere() {
    let mut world = new();
    world.edit(|object| {
        (object.asked, object.deleting, object.finalizer) = (Asked::Retain, Some(Duration::ZERO), true);
    });
    for ceph in [None, Some(InCeph::Foreign)] {
        let plan = bucket::plan(&World { ceph, ..world.clone() }.seen());
        assert!(!plan.iter().any(|step| matches!(step, Step::Note { .. })), "{plan}");
        assert!(plan.iter().any(|step| matches!(step, Step::RemoveFinalizer { .. })), "{plan}");
    }
}
