//! Every small world of a claim, with a crash after every step (a lost reply is one too: the step is done, nobody knows).

mod world;

use std::collections::{BTreeMap, HashSet};

use croft_core::{
    conditions::{Conditions, Truth},
    plan::{Failure, FailureClass, Outcome, Plan},
    storage::claim::{self, Step},
    time::Timestamp,
};
use world::{ClaimState, ClassState, EARLIER, NEW, RECORD, RecordState, SecretState, UserState, World, quota};

fn initial_worlds() -> Vec<World> {
    let claim = |deleting, finalizer, valid| Some(ClaimState { deleting, finalizer, valid });
    let claims = [
        None,
        claim(false, false, true),
        claim(false, true, true),
        claim(false, true, false),
        claim(true, true, true),
        claim(true, true, false),
        claim(true, false, true),
    ];
    let mut worlds = Vec::new();
    for claim in &claims {
        for terminating in [false, true] {
            for record in records() {
                for user in users() {
                    for secrets in secret_sets() {
                        for in_use in [false, true] {
                            for class in class_states() {
                                worlds.push(World {
                                    claim: claim.clone(),
                                    terminating,
                                    record: record.clone(),
                                    user: user.clone(),
                                    secrets: secrets.clone(),
                                    in_use,
                                    class,
                                    keys_used: 9,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    worlds
}

fn class_states() -> [ClassState; 5] {
    [ClassState::Retain, ClassState::Purge, ClassState::NotAllowed, ClassState::Gone, ClassState::Unreachable]
}

fn records() -> Vec<Option<RecordState>> {
    let ours = RecordState { uid: 3, claim: Some(NEW), complete: true, size: 5000, released: false, reason: None };
    let settled = RecordState { reason: Some("Provisioned".into()), ..ours.clone() };
    vec![
        None,
        Some(ours.clone()),
        Some(settled.clone()),
        Some(RecordState { size: 1, complete: false, ..settled.clone() }),
        Some(RecordState { claim: Some(EARLIER), ..settled.clone() }),
        Some(RecordState { claim: Some(EARLIER), released: true, reason: Some("BucketsKept".into()), ..ours.clone() }),
        Some(RecordState { claim: None, ..ours }),
    ]
}

fn users() -> Vec<Option<UserState>> {
    let exact = UserState {
        owner: Some(NEW.into()),
        suspended: false,
        buckets: Some(0),
        size: Some(5000),
        readonly: Some(true),
        key: Some(1),
        readonly_key: Some(2),
        has_buckets: false,
    };
    let variants = [
        exact.clone(),
        UserState { suspended: true, ..exact.clone() },
        UserState { size: None, buckets: None, readonly: None, readonly_key: None, ..exact.clone() },
        UserState { readonly: Some(false), key: None, readonly_key: None, ..exact.clone() },
        UserState { owner: Some(EARLIER.into()), ..exact.clone() },
        UserState { owner: Some("uid-other".into()), ..exact.clone() },
        UserState { owner: None, ..exact },
    ];
    let with_buckets = variants.iter().cloned().map(|user| UserState { has_buckets: true, ..user });
    [None].into_iter().chain(variants.iter().cloned().chain(with_buckets).map(Some)).collect()
}

fn secret_sets() -> Vec<BTreeMap<String, SecretState>> {
    let secret =
        |name: &str, owner: Option<&str>, key| (name.to_owned(), SecretState { owner: owner.map(str::to_owned), key });
    vec![
        BTreeMap::new(),
        BTreeMap::from([secret("admin", Some(NEW), Some(1)), secret("read", Some(NEW), Some(2))]),
        BTreeMap::from([
            secret("admin", Some(NEW), Some(8)),
            secret("read", None, None),
            secret("old", Some(NEW), Some(1)),
        ]),
        BTreeMap::from([secret("admin", Some("uid-other"), Some(1)), secret("elsewhere", Some("uid-other"), None)]),
    ]
}

fn check_that_nothing_secret_shows(plan: &Plan<Step>) {
    let shown = format!("{plan}\n{plan:?}");
    assert!(!shown.contains("hush"), "{shown}");
}

/// Runs whole plans until one is settled.
fn converge(mut world: World) -> World {
    for _ in 0..4 {
        let plan = claim::plan(&world.observe());
        if plan.is_settled() {
            return world;
        }
        for step in plan.iter() {
            world.execute(step).unwrap_or_else(|failure| panic!("{step}: {failure}\n{world:?}"));
        }
    }
    panic!("does not settle: {world:?}\n{}", claim::plan(&world.observe()));
}

fn check_the_end(start: &World, end: &World) {
    let context = || format!("{start:?}\nbecame\n{end:?}");
    let foreign = |world: &World| {
        let user = world.user.clone().filter(|user| !matches!(user.owner.as_deref(), Some(NEW | EARLIER)));
        let secrets = world.secrets.clone().into_iter().filter(|(_, secret)| secret.owner.as_deref() != Some(NEW));
        (user, secrets.collect::<Vec<_>>(), world.record.clone().filter(|record| record.claim.is_none()))
    };
    assert_eq!(foreign(start), foreign(end), "{}", context());

    let reached = !matches!(end.class, ClassState::Gone | ClassState::Unreachable);
    match &end.claim {
        Some(claim) if claim.deleting && claim.finalizer => {
            let waits_for_gateway = !reached && !end.terminating && end.record.is_some();
            assert!(end.in_use || waits_for_gateway, "hangs for nothing: {}", context());
        }
        Some(claim) if !claim.deleting => check_a_staying_claim(claim, end, &context),
        _ => {}
    }
    let orphan = end.claim.is_none() && !end.in_use && reached;
    if let (true, Some(record)) = (orphan, &end.record) {
        assert!(record.claim.is_none() || record.released, "an orphan is left: {}", context());
    }
    let has_data = |world: &World| world.user.as_ref().is_some_and(|user| user.has_buckets);
    if has_data(start) && start.class != ClassState::Purge {
        assert!(has_data(end), "data is lost: {}", context());
    }
}

fn check_a_staying_claim(state: &ClaimState, end: &World, context: &dyn Fn() -> String) {
    let seen = end.observe();
    let now = Timestamp("2026-01-01T00:00:00Z".into());
    let status = claim::report(&seen, &[], &now).unwrap();
    let reason = status.conditions.reason("Ready").unwrap();
    let ready = status.conditions.is_true("Ready");
    let complete = end.user.as_ref().is_some_and(|user| {
        user.owner.as_deref() == Some(NEW)
            && !user.suspended
            && user.buckets == Some(0)
            && user.size == Some(5000)
            && user.readonly == Some(true)
            && end.secrets.get("admin") == Some(&SecretState { owner: Some(NEW.into()), key: user.key })
            && end.secrets.get("read") == Some(&SecretState { owner: Some(NEW.into()), key: user.readonly_key })
            && user.key.is_some()
            && user.readonly_key.is_some()
            && !end.secrets.contains_key("old")
    });
    let recorded = end.record.as_ref().is_some_and(|record| record.claim == Some(NEW) && record.size == 5000);
    let offered = matches!(end.class, ClassState::Retain | ClassState::Purge);
    let expected = complete && recorded && offered && state.finalizer && state.valid;
    assert_eq!(ready, expected, "{reason}: {}", context());
    assert_eq!(ready, status.quota.is_some());
    let stuck = Truth::from(ready) == Truth::False && !status.conditions.is_true("Stalled");
    let waiting = ["GatewayUnreachable", "ClaimGone"].contains(&reason);
    assert!(!stuck || waiting, "waits without a reason ({reason}): {}", context());
}

#[test]
fn every_world_settles_with_all_promises_kept_whatever_step_is_the_last_before_a_crash() {
    let mut seen = HashSet::new();
    let mut todo = initial_worlds();
    let mut plans = 0_u32;
    while let Some(world) = todo.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let plan = claim::plan(&world.observe());
        check_that_nothing_secret_shows(&plan);
        plans += 1;
        let mut crashed = world.clone();
        for step in plan.iter() {
            if crashed.execute(step).is_err() {
                break;
            }
            todo.push(crashed.clone());
        }
        check_the_end(&world, &converge(world.clone()));
    }
    assert!(plans > 10_000, "only {plans} worlds");
}

#[test]
fn a_new_claim_gets_everything_in_one_pass_and_in_the_safe_order() {
    let world = World {
        claim: Some(ClaimState { deleting: false, finalizer: false, valid: true }),
        terminating: false,
        record: None,
        user: None,
        secrets: BTreeMap::new(),
        in_use: false,
        class: ClassState::Retain,
        keys_used: 0,
    };
    let plan = claim::plan(&world.observe());
    assert_eq!(
        plan.to_string(),
        "add the finalizer to S3UserClaim team-a/data: a user is to be made\n\
         create S3User team-a.data granting 5k bytes, 10 objects, 0 buckets\n\
         create Ceph user lab_team_a$data with at most 0 buckets\n\
         let Ceph user lab_team_a$data store at most 5000 bytes in 10 objects\n\
         create Ceph subuser lab_team_a$data:readonly that may read\n\
         create Secret team-a/admin\n\
         create Secret team-a/read\n\
         mark S3User team-a.data as Bound: Provisioned"
    );
    let outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::done())).collect();
    let now = Timestamp("2026-01-01T00:00:00Z".into());
    let status = claim::report(&world.observe(), &outcomes, &now).unwrap();
    assert!(status.conditions.is_true("Ready"));
    assert_eq!((status.s3_user.as_deref(), status.quota), (Some(RECORD), Some(quota(5000))));
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn a_failed_step_is_what_the_status_tells() {
    let world = World {
        claim: Some(ClaimState { deleting: false, finalizer: true, valid: true }),
        terminating: false,
        record: None,
        user: None,
        secrets: BTreeMap::new(),
        in_use: false,
        class: ClassState::Retain,
        keys_used: 0,
    };
    let (seen, now) = (world.observe(), Timestamp("2026-01-01T00:00:00Z".into()));
    let plan = claim::plan(&seen);
    let fail = |class| {
        let failed = Outcome::Failed(Failure::new(class, "AccessDenied", "the key lacks the right"));
        let outcomes: Vec<_> = plan.iter().map(|step| (step, failed.clone())).collect();
        claim::report(&seen, &outcomes, &now).unwrap()
    };
    let truth = |conditions: &Conditions, kind| conditions.get(kind).unwrap().status;
    let forbidden = fail(FailureClass::Forbidden).conditions;
    assert_eq!([truth(&forbidden, "Ready"), truth(&forbidden, "Stalled")], [Truth::False, Truth::True]);
    assert_eq!(forbidden.reason("Ready"), Some("AccessDenied"));
    let transient = fail(FailureClass::Transient).conditions;
    assert_eq!([truth(&transient, "Reconciling"), truth(&transient, "Stalled")], [Truth::True, Truth::False]);
    assert_eq!(fail(FailureClass::Transient).quota, None, "nothing is granted before it is there");
}
