//! Every small world of a claim (a lost reply is a crash too: the step is done, nobody knows).

mod others;
mod outside;
mod world;

use std::{collections::BTreeMap, time::Duration};

use croft_core::{
    conditions::{Conditions, Truth},
    plan::{Failure, FailureClass, Next, Outcome},
    storage::{
        QuotaAsked, READONLY_SUBUSER,
        claim::{self, Phase},
    },
    time::Timestamp,
};
use others::CLASSES;
use world::{ClaimState, ClassState, EARLIER, NEW, RECORD, RecordState, SecretState, UserState, World, quota};

use crate::explorer::{Limits, at_rest, explore};

/// Every combination of what may be there, sensible or not.
fn every_start() -> Vec<World> {
    let claim = |deleting, finalizer, valid| Some(ClaimState { deleting, finalizer, valid, ..ClaimState::new(NEW) });
    let claims = [
        None,
        claim(false, false, true),
        claim(false, true, true),
        claim(false, true, false),
        claim(true, true, true),
        claim(true, true, false),
        Some(ClaimState { finalizer: true, subuser: true, rotate: Some("first"), ..ClaimState::new(NEW) }),
    ];
    let mut worlds = Vec::new();
    for claim in &claims {
        for terminating in [false, true] {
            for record in records() {
                for user in users() {
                    for secrets in secret_sets() {
                        for in_use in [false, true] {
                            for class in CLASSES {
                                worlds.push(World {
                                    claim: claim.clone(),
                                    terminating,
                                    record: record.clone(),
                                    user: user.clone(),
                                    secrets: secrets.clone(),
                                    in_use,
                                    keys_used: 9,
                                    ..World::new(class)
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

fn records() -> Vec<Option<RecordState>> {
    let foreign = RecordState::foreign();
    let ours = RecordState { claim: Some(NEW), ..foreign.clone() };
    let settled = RecordState { reason: Some("Provisioned".into()), ..ours.clone() };
    vec![
        None,
        Some(ours.clone()),
        Some(settled.clone()),
        Some(RecordState { size: 1, complete: false, ..settled.clone() }),
        Some(RecordState { subuser: true, rotation: Some(("first".into(), [1, 6].into())), ..settled.clone() }),
        Some(RecordState { claim: Some(EARLIER), ..settled.clone() }),
        Some(RecordState { kept: true, ..settled.clone() }),
        Some(RecordState { phase: Phase::Removing, left: true, ..settled.clone() }),
        Some(RecordState { phase: Phase::Removing, purge: Some((2, true)), ..settled }),
        Some(RecordState { claim: Some(EARLIER), phase: Phase::Released, reason: Some("BucketsKept".into()), ..ours }),
        Some(foreign),
    ]
}

fn users() -> Vec<Option<UserState>> {
    let exact = UserState::exactly(NEW);
    let variants = [
        exact.clone(),
        UserState { suspended: true, ..exact.clone() },
        UserState {
            size: None,
            buckets: None,
            subusers: BTreeMap::new(),
            keys: BTreeMap::from([(String::new(), [1, 6].into())]),
            ..exact.clone()
        },
        UserState {
            subusers: BTreeMap::from([(READONLY_SUBUSER.into(), false)]),
            keys: BTreeMap::new(),
            ..exact.clone()
        },
        exact.clone().with_subuser(),
        UserState::exactly(EARLIER),
        UserState::exactly("uid-other"),
        UserState { owner: None, ..exact },
    ];
    let with_bucket = |objects| variants.iter().cloned().map(move |user| UserState { stored: Some(objects), ..user });
    [None].into_iter().chain(variants.iter().cloned().chain(with_bucket(0)).chain(with_bucket(2)).map(Some)).collect()
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

#[test]
fn every_claim_keeps_its_promises_wherever_it_starts_and_whatever_step_is_the_last_before_a_crash() {
    let worlds = explore("claim, alone", every_start(), Limits { acts: 0, faults: true, at_once: 1 }).worlds.len();
    assert!(worlds > 50_000, "only {worlds} worlds");
}

#[test]
fn every_claim_keeps_its_promises_whatever_others_do() {
    let claim = |class| World { claim: Some(ClaimState::new(EARLIER)), next_uid: Some(NEW), ..World::new(class) };
    let new = [ClassState::Retain, ClassState::Purge].map(claim);
    let settled = new.each_ref().map(at_rest);
    let starts = new.into_iter().chain(settled);
    let worlds = explore("claim", starts, Limits { acts: 2, faults: false, at_once: 2 }).worlds.len();
    assert!(worlds > 10_000, "only {worlds} worlds");
}

#[test]
fn a_new_claim_gets_everything_in_two_looks_and_in_the_safe_order() {
    let mut world = World::new(ClassState::Retain);
    let now = Timestamp("2026-01-01T00:00:00Z".into());
    let mut look = || {
        let seen = world.seen();
        let plan = claim::plan(&seen);
        let outcomes: Vec<_> = plan.iter().map(|step| (step, world.carry_out(&seen, step))).collect();
        (plan.to_string(), plan.next, claim::report(&seen, &outcomes, &now).unwrap())
    };
    let (made, next, status) = look();
    assert_eq!(
        made,
        "add the finalizer to S3UserClaim team-a/data: a user is to be made\n\
         grant S3UserClaim team-a/data 5000 bytes, 10 objects, 0 buckets in the books\n\
         create S3User team-a.data granting 5k bytes, 10 objects, 0 buckets\n\
         create Ceph user lab_team_a$data with at most 0 buckets\n\
         let Ceph user lab_team_a$data store at most 5000 bytes in 10 objects\n\
         create Ceph subuser lab_team_a$data:readonly that may read and nothing else"
    );
    assert_eq!(next, Next::After(Duration::ZERO), "the keys are read back at once");
    assert_eq!(status, claim::Status::default(), "and nothing is written for a moment");
    let (published, next, status) = look();
    assert_eq!(
        published,
        "create Secret team-a/admin\ncreate Secret team-a/read\nmark S3User team-a.data as Bound: Provisioned"
    );
    assert_eq!(next, Next::Settled);
    assert!(status.conditions.is_true("Ready"));
    assert_eq!((status.s3_user.as_deref(), status.quota), (Some(RECORD), Some(quota(5000))));
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn new_keys_are_handed_out_before_the_old_ones_go() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    let keys = |world: &World| world.user.as_ref().unwrap().keys.clone();
    let before = keys(&world);
    world.edit(|claim| claim.rotate = Some("first"));
    let plans: Vec<_> = [(); 2]
        .iter()
        .map(|()| {
            let told = crate::explorer::plans(&world).concat();
            world = crate::explorer::worked(&world, "claim");
            told.replace(|character: char| character.is_ascii_digit(), "")
        })
        .collect();
    assert_eq!(
        plans[0],
        "update SUser team-a.data granting k bytes,  objects,  buckets\n\
         add a key to Ceph user lab_team_a$data\nadd a key to Ceph subuser lab_team_a$data:readonly"
    );
    assert_eq!(
        plans[1],
        "update Secret team-a/admin: it does not hold the keys in Ceph\n\
         remove key AK of Ceph user lab_team_a$data: it is handed out to nobody\n\
         update Secret team-a/read: it does not hold the keys in Ceph\n\
         remove key AK of Ceph user lab_team_a$data: it is handed out to nobody"
    );
    let after = keys(&world);
    assert!(after.values().all(|keys| keys.len() == 1) && after.values().zip(before.values()).all(|(a, b)| a != b));
    assert_eq!(crate::explorer::plans(&world), ["nothing to do"], "once");
    assert_eq!(world.claim.unwrap().status.observed_key_rotation.as_deref(), Some("first"));
}

#[test]
fn what_a_claim_leaves_to_the_class_stays_as_it_was_granted() {
    let granting = |seen: &claim::Observed| claim::plan(seen).to_string();
    let ask_nothing = |seen: &mut claim::Observed| {
        let spec = seen.claim.as_mut().and_then(|claim| claim.spec.as_mut().ok());
        spec.unwrap().quota = QuotaAsked::default();
    };
    let mut seen = World::new(ClassState::Retain).seen();
    ask_nothing(&mut seen);
    assert!(granting(&seen).contains("granting 5368709120 bytes, 1k objects, 2 buckets"), "{}", granting(&seen));
    let mut seen = at_rest(&World::new(ClassState::Retain)).seen();
    ask_nothing(&mut seen);
    assert_eq!(granting(&seen), "nothing to do", "whatever the class says now");
}

#[test]
fn a_failed_step_is_what_the_status_tells() {
    let mut world = World::new(ClassState::Retain);
    world.edit(|claim| claim.finalizer = true);
    let (seen, now) = (world.seen(), Timestamp("2026-01-01T00:00:00Z".into()));
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
