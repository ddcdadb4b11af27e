//! Every small world of a migration of one bucket.

mod others;
mod unforeseen;
mod world;

use croft_core::{
    plan::{Failure, FailureClass, Next, Outcome},
    storage::{
        claim::UserQuota,
        migration::{self, Gateway, MovedIn, Observed, Phase, Step},
    },
};

use self::world::{BEFORE, BUCKET, ID, Policy, SideState, Whereabouts, World, now};
use crate::explorer::{self, Limits, at_rest, explore};

#[test]
fn a_migration_ends_well_wherever_the_operator_dies_and_whatever_others_do() {
    let plain = World::new();
    let kept = World { current: SideState { kept: true, object: None, ..plain.current.clone() }, ..plain.clone() };
    let bare = World { current: SideState { object: None, ..plain.current.clone() }, ..plain.clone() };
    let full = World { more: true, ..plain.clone() };
    let keeps_all = |world: &World| {
        let (current, target) = (world.current.clone(), world.target.clone());
        World {
            current: SideState { keeps_all: true, ..current },
            target: SideState { keeps_all: true, ..target },
            ..world.clone()
        }
    };
    let starts = [keeps_all(&plain), keeps_all(&kept), plain, kept, bare, full];
    let alone = explore("migration, alone", starts.clone(), Limits { acts: 0, faults: true, at_once: 1 });
    let worlds = explore("migration", starts, Limits { acts: 2, faults: false, at_once: 2 });
    assert!(alone.worlds.len() > 40 && worlds.worlds.len() > 200);
}

#[test]
fn what_was_kept_without_being_listed_is_listed_where_it_goes_unless_an_s3_bucket_answers_for_it() {
    let moved = |object: Option<bool>, target_keeps_all: bool| {
        let World { current, target, .. } = World::new();
        let current = SideState { keeps_all: true, object, ..current };
        let target = SideState { keeps_all: target_keeps_all, ..target };
        let end = at_rest(&World { current, target, ..World::new() });
        (end.target.object.is_some(), end.target.kept)
    };
    assert_eq!(moved(None, false), (false, true));
    assert_eq!(moved(Some(true), false), (true, false));
    assert_eq!(moved(None, true), (false, false), "all are kept there, too");
}

/// Both are held: that is when they are looked at.
fn held() -> World {
    let World { mut current, mut target, .. } = World::new();
    (current.held, target.held) = (true, true);
    World { current, target, finalizer: true, ..World::new() }
}

#[test]
fn the_gateway_is_asked_no_more_than_the_next_decision_needs() {
    let look = |world: &World| {
        let Observed { migration, current, target, .. } = world.seen();
        let migration::Look { buckets, all_of_current, all_of_target } = migration::look(&migration, &current, &target);
        (buckets.len(), all_of_current, all_of_target)
    };
    assert_eq!(look(&World::new()), (0, false, false), "who is held comes first");
    assert_eq!(look(&held()), (1, false, true), "is there room?");
    let mut running = explorer::worked(&held(), "migration");
    assert_eq!((running.status.phase, look(&running)), (Some(Phase::Running), (1, false, true)), "still?");
    running = explorer::worked(&running, "migration");
    assert_eq!((running.has_arrived(), look(&running)), (true, (0, true, false)), "has the first one buckets left?");
}

#[test]
fn a_migration_that_is_deleted_stops_before_the_next_bucket_also_if_its_new_owner_cannot_be_worked_with() {
    let mut running = explorer::worked(&held(), "migration");
    assert_eq!(running.status.phase, Some(Phase::Running));
    running.target.key = false;
    running.deleting = true;
    let mut midway = running.clone();
    midway.status.buckets[0].policy = Some(BEFORE.to_owned());
    midway.policy = Policy::None;
    for start in [running, midway] {
        let end = at_rest(&start);
        assert_eq!((end.bucket, &end.policy), (Whereabouts::Home, &Policy::Text(BEFORE.to_owned())));
        assert!(!end.current.held && !end.target.held && !end.finalizer && end.current.claim);
        assert_eq!(end.status.moved.as_deref(), Some("0/1"));
    }
}

#[test]
fn a_bucket_whose_new_owner_cannot_be_worked_with_goes_back_once_nobody_waits_for_that() {
    let mut arrived = explorer::worked(&held(), "migration");
    arrived.status.buckets[0].policy = Some(BEFORE.to_owned());
    (arrived.bucket, arrived.policy, arrived.target.key) = (Whereabouts::Arrived, Policy::None, false);
    assert!(at_rest(&arrived).has_arrived(), "somebody may put it right");
    let deleted = World { deleting: true, ..arrived.clone() };
    let mut forsaken = arrived.clone();
    (forsaken.namespace, forsaken.target.claim_deleting) = (false, true);
    for start in [deleted, forsaken] {
        let end = at_rest(&start);
        assert_eq!((end.bucket, &end.policy), (Whereabouts::Home, &Policy::Text(BEFORE.to_owned())));
        assert!(!end.current.held && !end.target.held && !end.finalizer && end.current.claim);
        let message = end.status.buckets[0].message.clone().unwrap_or_default();
        assert!(
            message.contains("its new owner cannot be worked with")
                || message.contains("deleted")
                || message.contains("is gone"),
            "{message}"
        );
    }
    let mut suspended = World { deleting: true, ..arrived }.seen();
    let Gateway::Reached(reached) = &mut suspended.gateway else { panic!("no gateway") };
    reached.lost.clear();
    reached.target.as_mut().unwrap().suspended = true;
    assert_eq!(migration::plan(&suspended).to_string(), "link bucket lab_b/photos to Ceph user lab_a$data");
}

#[test]
fn a_policy_that_cannot_be_put_back_is_told_and_stays_where_it_was_noted() {
    let mut world = explorer::worked(&held(), "migration");
    world.status.buckets[0].policy = Some(BEFORE.to_owned());
    (world.policy, world.current.key, world.current.claim_deleting) = (Policy::None, false, true);
    let deleted = World { deleting: true, ..world.clone() };
    let clash = World { clash: true, ..world };
    for start in [deleted, clash] {
        let end = at_rest(&start);
        let bucket = &end.status.buckets[0];
        assert_eq!(bucket.policy.as_deref(), Some(BEFORE), "{bucket:?}");
        let message = bucket.message.as_deref().unwrap_or_default();
        assert!(message.contains("its policy was taken off and could not be put back"), "{message}");
    }
}

#[test]
fn who_had_a_bucket_before_is_remembered_from_move_to_move_and_not_read_from_its_policy() {
    let mut seen = held().seen();
    let came = |name: &str, id: &str, former: &[&str]| MovedIn {
        name: name.into(),
        id: id.into(),
        former: former.iter().map(|tenant| (*tenant).to_owned()).collect(),
    };
    seen.current.moved_in = vec![came(BUCKET, ID, &["lab_b", "lab_c"])];
    seen.target.moved_in = vec![came("gone", "zone.7", &["lab_c"]), came("there", "zone.8", &["lab_c"])];
    let Gateway::Reached(reached) = &mut seen.gateway else { panic!("no gateway") };
    reached.target.as_mut().unwrap().buckets.insert("there".into(), 1);
    let plan = migration::plan(&seen);
    let Some(Step::Remember { moved_in, .. }) = plan.iter().next() else { panic!("{plan}") };
    assert_eq!(moved_in, &[came("there", "zone.8", &["lab_c"]), came(BUCKET, ID, &["lab_a", "lab_c"])]);
}

#[test]
fn a_bucket_goes_step_by_step_and_its_first_owner_after_it() {
    let mut world = World::new();
    let mut told = Vec::new();
    for _ in 0..20 {
        told.extend(explorer::plans(&world));
        world = explorer::worked(&world, "migration");
    }
    told.retain(|plan| plan != "nothing to do");
    assert_eq!(
        told.join("\n--\n"),
        "add the finalizer to UserMigration m\nhold S3User a.data: its buckets are to be moved\n--\n\
         hold S3User b.data: its buckets are to be moved\n--\n\
         note on S3User b.data who had the buckets that come\n--\n\
         note the policy of bucket photos\n\
         delete the policy of bucket photos as Ceph user lab_a$data: it may name what no longer holds\n\
         link bucket lab_a/photos to Ceph user lab_b$data\n\
         set the policy of bucket photos as Ceph user lab_b$data\n\
         create S3Bucket b/photos of claim data like a/photos\n\
         remove the finalizer from S3Bucket a/photos\n\
         delete S3Bucket a/photos: its bucket is elsewhere\n\
         set the lifecycle of bucket photos again as Ceph user lab_b$data\n\
         have counted what Ceph user lab_b$data has\n--\n\
         note on S3User a.data that whatever is made now is kept when its claim goes\n--\n\
         delete S3UserClaim a/data: it has no bucket left\n\
         let go of S3User a.data\nlet go of S3User b.data\n--\n\
         remove the finalizer from UserMigration m"
    );
    assert!(world.counted, "what its new owner has is not known");
}

#[test]
fn a_migration_that_cannot_end_does_not_begin() {
    let told = |world: &World| {
        let world = at_rest(world);
        assert_eq!(world.status.phase, Some(Phase::Failed));
        assert!(world.bucket == Whereabouts::Home && world.policy != Policy::None && !world.current.held);
        world.status.conditions.get("Ready").unwrap().message.clone()
    };
    let clash = told(&World { clash: true, ..World::new() });
    assert!(clash.contains("photos: Ceph user lab_b$data has a bucket of this name where it would go"), "{clash}");
    let shut = told(&World { policy: Policy::Shut, ..World::new() });
    assert!(shut.contains("photos: its policy cannot be read by its owner"), "{shut}");
    let long = format!(r#"{{"Id":"{}","Statement":[]}}"#, "x".repeat(20 * 1024));
    let long = told(&World { policy: Policy::Text(long), ..World::new() });
    assert!(long.contains("photos: its policy is longer than"), "{long}");
    let judge = |change: fn(&mut Observed)| {
        let mut seen = World::new().seen();
        change(&mut seen);
        let outcomes = migration::plan(&seen);
        let outcomes: Vec<_> = outcomes.iter().map(|step| (step, Outcome::done())).collect();
        let status = migration::report(&seen, &outcomes, &now());
        (status.phase, status.conditions.get("Ready").unwrap().message.clone())
    };
    let (phase, message) = judge(|seen| seen.gateway = Gateway::Apart);
    assert!(phase == Some(Phase::Failed) && message.contains("two gateways"), "{message}");
    let (phase, message) = judge(|seen| seen.migration.spec.target.namespace = "a".into());
    assert!(phase == Some(Phase::Failed) && message.contains("one namespace"), "{message}");
    for (member, limit) in [("buckets", 0), ("size", 8191), ("objects", 1)] {
        let mut world = held().seen();
        let Gateway::Reached(reached) = &mut world.gateway else { panic!("no gateway") };
        let user = reached.target.as_mut().unwrap();
        let of = |name: &str, limit: u64| (name == member).then_some(limit);
        user.max_buckets = of("buckets", limit).map(|_| 0);
        user.quota = UserQuota { enabled: true, size: of("size", limit), objects: of("objects", limit) };
        let plan = migration::plan(&world);
        let done: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
        let status = migration::report(&world, &done, &now());
        let message = &status.conditions.get("Ready").unwrap().message;
        assert_eq!(status.phase, Some(Phase::Failed), "{member}: {message}");
        assert!(message.contains(&format!("raise its spec.quota.{member} first")), "{message}");
    }
    let (phase, message) = judge(|seen| seen.current.claim = None);
    assert!(phase == Some(Phase::Pending) && message.contains("a/data must be there"), "{message}");
}

#[test]
fn nothing_is_moved_before_it_is_told_what_its_new_owner_has_stored_unless_that_is_not_limited() {
    let phase = |change: fn(&mut UserQuota)| {
        let mut seen = World { untold: true, ..held() }.seen();
        let Gateway::Reached(reached) = &mut seen.gateway else { panic!("no gateway") };
        change(&mut reached.target.as_mut().unwrap().quota);
        let plan = migration::plan(&seen);
        let done: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
        let status = migration::report(&seen, &done, &now());
        (status.phase, matches!(plan.next, Next::After(after) if !after.is_zero()))
    };
    assert_eq!(phase(|_| {}), (Some(Phase::Pending), true), "it is asked again");
    assert_eq!(phase(|quota| quota.size = None), (Some(Phase::Pending), true), "objects are counted as well");
    assert_eq!(phase(|quota| quota.enabled = false), (Some(Phase::Running), false));
    assert_eq!(phase(|quota| (quota.size, quota.objects) = (None, None)), (Some(Phase::Running), false));
}

#[test]
fn a_claim_that_stays_names_each_bucket_it_has_once() {
    let mut finishing = finishing().seen();
    finishing.current.buckets.insert("more".into());
    let Gateway::Reached(reached) = &mut finishing.gateway else { panic!("no gateway") };
    reached.current.as_mut().unwrap().buckets.insert("more".into(), 1);
    let plan = migration::plan(&finishing);
    let done: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
    let status = migration::report(&finishing, &done, &now());
    let message = &status.conditions.get("Ready").unwrap().message;
    assert!(message.ends_with("it has buckets: more"), "{message}");
}

/// All is moved, and the first claim has yet to go.
fn finishing() -> World {
    explorer::worked(&explorer::worked(&held(), "migration"), "migration")
}

#[test]
fn a_migration_that_is_deleted_at_its_end_asks_nobody_and_leaves_the_first_claim() {
    let world = World { deleting: true, reachable: false, ..finishing() };
    let end = at_rest(&world);
    assert!(end.has_arrived() && end.current.claim && !end.finalizer);
    assert!(!end.current.held && !end.target.held);
}

#[test]
fn a_bucket_is_moved_although_what_its_new_owner_has_cannot_be_counted_in_time() {
    let world = explorer::worked(&held(), "migration");
    let seen = world.seen();
    let plan = migration::plan(&seen);
    let outcome = |step: &Step| match step {
        Step::CountUsage { .. } => Outcome::Failed(Failure::new(FailureClass::Transient, "GatewayTimeout", "")),
        _ => Outcome::done(),
    };
    let outcomes: Vec<_> = plan.iter().map(|step| (step, outcome(step))).collect();
    assert!(matches!(outcomes.last(), Some((Step::CountUsage { .. }, _))), "{plan}");
    assert_eq!(migration::report(&seen, &outcomes, &now()).moved.as_deref(), Some("1/1"));
}
