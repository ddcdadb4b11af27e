//! Every small world of a claim (a lost reply is a crash too: the step is done, nobody knows).

mod given_up;
mod kept;
mod others;
mod outside;
mod world;

use std::{collections::BTreeMap, time::Duration};

use croft_core::{
    conditions::{Conditions, Truth},
    plan::{Failure, FailureClass, Next, Outcome},
    storage::{
        QuotaAsked, READONLY_SUBUSER, Target,
        bucket::{self, Bucket, Deletion, Found, Lookup, Owner},
        claim::{self, Backend, Observed, Phase, Record, Rotation},
    },
    time::Timestamp,
};
use others::CLASSES;
use world::{
    ClaimState, ClassState, EARLIER, NEW, RECORD, RecordState, SecretState, THEIRS, UserState, World, access_key, quota,
};

use crate::explorer::{Limits, at_rest, explore};

/// Every combination of what may be there, sensible or not.
fn every_start(
    records: &[Option<RecordState>],
    users: &[Option<UserState>],
    secret_sets: &[BTreeMap<String, SecretState>],
) -> Vec<World> {
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
    // What was made was granted, also if somebody removed the record.
    let is_granted =
        |record: Option<&RecordState>, user: &UserState| record.is_none() && user.owner.as_deref() == Some(NEW);
    let mut worlds = Vec::new();
    for claim in &claims {
        for terminating in [false, true] {
            for record in records {
                for user in users {
                    for secrets in secret_sets {
                        for in_use in [false, true] {
                            for class in CLASSES {
                                worlds.push(World {
                                    claim: claim.clone(),
                                    terminating,
                                    record: record.clone(),
                                    user: user.clone(),
                                    secrets: secrets.clone(),
                                    in_use,
                                    granted: user
                                        .as_ref()
                                        .filter(|user| is_granted(record.as_ref(), user))
                                        .map(|_| 5000),
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
        Some(RecordState { everything: true, ..settled.clone() }),
        Some(RecordState { phase: Phase::Removing, everything: true, left: true, ..settled.clone() }),
        Some(RecordState { misnamed: true, ..settled.clone() }),
        Some(RecordState { claim: Some(EARLIER), misnamed: true, ..settled.clone() }),
        Some(RecordState { phase: Phase::Removing, left: true, ..settled.clone() }),
        Some(RecordState { phase: Phase::Removing, purge: Some((2, true)), ..settled }),
        Some(RecordState { claim: Some(EARLIER), phase: Phase::Released, reason: Some("BucketsKept".into()), ..ours }),
        Some(foreign),
    ]
}

/// Records of users that are, or may be, given to another claim.
fn given() -> Vec<Option<RecordState>> {
    let released = RecordState {
        claim: Some(EARLIER),
        phase: Phase::Released,
        reason: Some("BucketsKept".into()),
        kept: true,
        subuser: true,
        ..RecordState::foreign()
    };
    vec![
        Some(RecordState { claim: None, offered: true, adopts: true, ..released.clone() }),
        Some(RecordState { claim: Some(NEW), taken_over_from: Some(EARLIER.into()), ..released.clone() }),
        Some(RecordState { claim: Some(NEW), taken_over_from: Some(THEIRS.into()), adopts: true, ..released.clone() }),
        Some(RecordState { claim: Some(NEW), adopts: true, complete: false, ..RecordState::foreign() }),
        Some(RecordState { kept: false, everything: true, returns: true, ..released.clone() }),
        Some(RecordState { returns: true, ..released }),
    ]
}

/// Users that were others' before.
fn handed_down() -> Vec<Option<UserState>> {
    let of = |owner: &str| UserState { stored: Some(2), ..UserState::exactly(owner) }.with_subuser();
    let suspended = |user: UserState| UserState { suspended: true, ..user };
    let without_keys = |user: UserState| UserState { keys: BTreeMap::new(), ..user };
    let users =
        [suspended(of(EARLIER)), of(EARLIER), without_keys(of(EARLIER)), of(NEW), of(THEIRS), suspended(of(THEIRS))];
    let strangers = [of("uid-other"), UserState { owner: None, ..of(NEW) }];
    [None].into_iter().chain(users.into_iter().chain(strangers).map(Some)).collect()
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
    let starts = every_start(&records(), &users(), &secret_sets());
    let worlds = explore("claim, alone", starts, Limits { acts: 0, faults: true, at_once: 1 }).worlds.len();
    assert!(worlds > 50_000, "only {worlds} worlds");
}

#[test]
fn a_user_given_to_another_claim_lets_nobody_in_who_had_it_before_wherever_the_operator_dies() {
    let bring = |mut world: World| {
        world.claim.iter_mut().for_each(|claim| claim.stamped = true);
        World { bound: true, ..world }
    };
    let starts = every_start(&given(), &handed_down(), &secret_sets()[..1]);
    let brought: Vec<_> = starts.iter().cloned().map(bring).collect();
    let starts = starts.into_iter().chain(brought);
    let worlds = explore("claim, given", starts, Limits { acts: 0, faults: true, at_once: 1 }).worlds.len();
    assert!(worlds > 5_000, "only {worlds} worlds");
}

#[test]
fn a_released_user_is_cleared_of_its_old_keys_before_it_can_be_used_again() {
    let record = given().swap_remove(0);
    let mut world = World { record, user: handed_down().swap_remove(1), ..World::new(ClassState::Retain) };
    let mut tell = || {
        let told = crate::explorer::plans(&world).concat();
        world = crate::explorer::worked(&world, "claim");
        told
    };
    assert_eq!(
        tell(),
        "add the finalizer to S3UserClaim team-a/data: a user is to be made\n\
         grant S3UserClaim team-a/data 5000 bytes, 10 objects, 1 buckets in the books\n\
         update S3User team-a.data granting 5k bytes, 10 objects, 1 buckets\n\
         remove key AK1 of Ceph user lab_team_a$data: it is handed out to nobody\n\
         remove key AK3 of Ceph user lab_team_a$data: it is handed out to nobody\n\
         remove key AK2 of Ceph user lab_team_a$data: it is handed out to nobody\n\
         take over Ceph user lab_team_a$data: from now on it is data in team-a [uid-new]\n\
         remove Ceph subuser lab_team_a$data:one with its keys: the claim no longer names it\n\
         add a key to Ceph user lab_team_a$data\n\
         add a key to Ceph subuser lab_team_a$data:readonly"
    );
    assert_eq!(
        tell(),
        "update S3User team-a.data granting 5k bytes, 10 objects, 1 buckets\n\
         create Secret team-a/admin\ncreate Secret team-a/read"
    );
    assert_eq!(tell(), "mark S3User team-a.data as Bound: Provisioned");
    assert_eq!(tell(), "nothing to do");
}

#[test]
fn a_key_the_gateway_lost_retires_before_another_takes_its_place() {
    let mut world = at_rest(&World { claim: Some(ClaimState::new(NEW)), ..World::new(ClassState::Retain) });
    let number = *world.user.as_ref().unwrap().keys[""].first().unwrap();
    let seen = Observed { lost: [access_key(number)].into(), ..world.seen() };
    let plan = claim::plan(&seen);
    let told = plan.to_string();
    assert!(told.starts_with("update S3User team-a.data") && told.contains("add a key to Ceph user"), "{told}");
    assert!(
        !told.contains("remove key") && !told.contains("Secret"),
        "it is handed out until there is another: {told}"
    );
    let outcomes: Vec<_> = plan.iter().map(|step| (step, world.carry_out(&seen, step))).collect();
    let status = claim::report(&seen, &outcomes, &Timestamp("2026-01-01T00:00:00Z".into())).unwrap();
    assert_eq!(status.conditions.reason("Ready"), Some("KeyLost"));
    // Nobody remembers but the record.
    let settled = at_rest(&world);
    let keys = &settled.user.as_ref().unwrap().keys[""];
    assert!(keys.len() == 1 && !keys.contains(&number), "{keys:?}");
    assert_eq!(settled.secrets["admin"].key, keys.first().copied());
}

#[test]
fn a_claim_that_goes_gives_back_nothing_that_an_earlier_one_of_its_name_has() {
    let mut world = at_rest(&World { claim: Some(ClaimState::new(EARLIER)), ..World::new(ClassState::Retain) });
    let granted = world.granted;
    assert!(granted.is_some() && world.record.is_some() && world.user.is_some());
    world.claim = Some(ClaimState { deleting: true, finalizer: true, ..ClaimState::new(NEW) });
    for (record, reachable) in [(true, true), (true, false), (false, true)] {
        let mut world = world.clone();
        world.record.take_if(|_| !record);
        let mut seen = world.seen();
        if !reachable {
            let away = Failure::new(FailureClass::Transient, "GatewayUnreachable", "no route");
            seen.backend = Backend::Unreachable(away);
        }
        assert_eq!(claim::plan(&seen).to_string(), "remove the finalizer from S3UserClaim team-a/data");
    }
}

#[test]
fn a_bucket_is_worked_on_with_a_key_that_stays() {
    let world = at_rest(&World { claim: Some(ClaimState::new(NEW)), ..World::new(ClassState::Retain) });
    let seen = world.seen();
    let Backend::Reached(reached) = &seen.backend else { panic!("{:?}", seen.backend) };
    let user = reached.user.clone().unwrap();
    let target =
        Target { namespace: "team-a".into(), name: "photos".into(), uid: "u".into(), resource_version: "1".into() };
    let (spec, status) = (Err(Vec::new()), bucket::Status::default());
    let deletion = Deletion::Delete;
    let asked = Bucket { target, generation: 1, deleting: None, finalizer: true, deletion, spec, status };
    let with_key = |record: Option<&Record>, lost: &[String]| {
        let lookup = Lookup::new(seen.claim.as_ref(), record, &asked).unwrap();
        lookup.owner(Some(&user), Found::Absent, true, &lost.iter().cloned().collect())
    };
    let Owner::Ready { key, .. } = with_key(seen.record.as_ref(), &[]) else { panic!("it has a key") };
    let told = with_key(seen.record.as_ref(), std::slice::from_ref(&key.access_key));
    assert!(matches!(&told, Owner::NotReady(why) if why.contains("lost the key")), "{told:?}");
    let mut record = seen.record.clone().unwrap();
    let retired = [key.access_key].into();
    record.body.rotation = Some(Rotation { asked: "once".into(), retired });
    assert_eq!(with_key(Some(&record), &[]), Owner::NotReady("its user has no key yet".into()));
}

#[test]
fn a_bucket_whose_claim_is_gone_and_whose_user_was_let_go_waits_for_a_claim() {
    let mut world = at_rest(&World::new(ClassState::Retain));
    world.user.as_mut().unwrap().stored = Some(2);
    world.edit(|claim| claim.deleting = true);
    let seen = at_rest(&world).seen();
    assert!(seen.claim.is_none() && seen.record.as_ref().is_some_and(|record| record.phase == Some(Phase::Released)));
    let target =
        Target { namespace: "team-a".into(), name: "photos".into(), uid: "u".into(), resource_version: "1".into() };
    let (spec, status, deletion) = (Err(Vec::new()), bucket::Status::default(), Deletion::Delete);
    let stays = Bucket { target, generation: 1, deleting: None, finalizer: true, deletion, spec, status };
    let owner = Lookup::new(None, seen.record.as_ref(), &stays).expect_err("nobody is to be asked");
    assert!(matches!(&*owner, Owner::NotReady(why) if why.starts_with("it is gone")), "{owner:?}");
    let goes = Bucket { deleting: Some(Duration::ZERO), ..stays };
    assert!(Lookup::new(None, seen.record.as_ref(), &goes).is_ok(), "it is removed all the same");
}

/// The record of a claim that a class took away, and would bring again.
fn taken_by_its_class() -> RecordState {
    RecordState {
        claim: Some(EARLIER),
        offered: false,
        adopts: false,
        returns: true,
        ..given().swap_remove(0).unwrap()
    }
}

#[test]
fn what_a_class_took_away_comes_back_with_it_and_with_nobody_else() {
    let world = |stamped| World {
        record: Some(taken_by_its_class()),
        user: handed_down().swap_remove(1),
        claim: Some(ClaimState { stamped, ..ClaimState::new(NEW) }),
        bound: stamped,
        ..World::new(ClassState::Retain)
    };
    let owner = |world: &World| at_rest(world).user.and_then(|user| user.owner);
    assert_eq!(owner(&world(true)).as_deref(), Some(NEW));
    assert_eq!(owner(&world(false)).as_deref(), Some(EARLIER), "a claim somebody makes is another one");
    let elsewhere = |mut seen: claim::Observed| {
        seen.namespace_uid = Some("uid-of-the-next-namespace".into());
        claim::plan(&seen).to_string()
    };
    assert_eq!(elsewhere(world(true).seen()), "nothing to do", "the namespace was made anew");
}

#[test]
fn what_is_being_purged_comes_back_to_nobody() {
    let claim = ClaimState { stamped: true, ..ClaimState::new(NEW) };
    let world = World {
        record: Some(taken_by_its_class()),
        user: handed_down().swap_remove(1),
        claim: Some(claim),
        bound: true,
        ..World::new(ClassState::Retain)
    };
    let is_taken_over = |seen: &claim::Observed| claim::plan(seen).to_string().contains("take over Ceph user");
    let mut seen = world.seen();
    assert!(is_taken_over(&seen));
    seen.record.as_mut().unwrap().purge = Some(claim::PurgeSeen {
        purge: claim::Purge { buckets: 1, bucket: "photos".into(), objects: 3 },
        age: Duration::ZERO,
    });
    assert!(!is_taken_over(&seen), "the gateway goes on emptying its buckets");
}

#[test]
fn a_user_whose_buckets_cannot_be_told_lets_nobody_in_and_holds_up_no_namespace() {
    let unlisted = |terminating: bool, gone: bool, recorded: bool| {
        let mut world = at_rest(&World { claim: Some(ClaimState::new(NEW)), ..World::new(ClassState::Purge) });
        world.terminating = terminating;
        world.edit(|claim| claim.deleting = true);
        world.claim.take_if(|_| gone);
        world.record.take_if(|_| !recorded);
        let mut seen = world.seen();
        let claim::Backend::Reached(reached) = &mut seen.backend else { panic!("no gateway") };
        let failure = Failure::new(FailureClass::Transient, "GatewayTimeout", "too many");
        reached.user.as_mut().unwrap().unlisted = Some(failure);
        assert!(claim::must_retry(&seen));
        claim::plan(&seen).to_string()
    };
    let plans = |terminating, gone| unlisted(terminating, gone, true);
    let suspended = "suspend Ceph user lab_team_a$data: its claim is gone and it has buckets";
    assert_eq!(plans(false, false), suspended);
    assert_eq!(unlisted(false, false, false), suspended);
    let remembered = unlisted(true, false, false);
    let steps: Vec<_> = remembered.lines().collect();
    assert!(
        matches!(steps[..], [first, made, last] if first == suspended
            && made.starts_with("create S3User team-a.data") && last.starts_with("remove the finalizer")),
        "one without a record holds up nobody either: {remembered}"
    );
    assert_eq!(
        plans(true, false),
        format!(
            "{suspended}\nmark S3User team-a.data as Removing: Deleting\nremove the finalizer from S3UserClaim team-a/data"
        )
    );
    assert_eq!(plans(true, true), suspended, "its record remembers");
}

/// The same, once an S3Bucket went that said `retain`.
fn with_a_kept_bucket(mut world: World) -> World {
    world.user.iter_mut().for_each(|user| (user.stored, user.retained) = (Some(2), true));
    world.record.iter_mut().for_each(|record| record.kept = true);
    world
}

#[test]
fn every_claim_keeps_its_promises_whatever_others_do() {
    let claim = |class| World { claim: Some(ClaimState::new(EARLIER)), next_uid: Some(NEW), ..World::new(class) };
    let new = [ClassState::Retain, ClassState::Purge].map(claim);
    let settled = new.each_ref().map(at_rest);
    let starts = new.into_iter().chain(settled.clone()).chain(settled.map(with_a_kept_bucket));
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
         grant S3UserClaim team-a/data 5000 bytes, 10 objects, 1 buckets in the books\n\
         create S3User team-a.data granting 5k bytes, 10 objects, 1 buckets\n\
         create Ceph user lab_team_a$data with at most 1 buckets\n\
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
fn a_class_for_teams_gives_nothing_to_a_namespace_without_one() {
    let mut seen = World::new(ClassState::Retain).seen();
    let claim::Backend::Reached(reached) = &mut seen.backend else { panic!("it is reached") };
    reached.class.team_required = true;
    assert_eq!(claim::plan(&seen).to_string(), "nothing to do");
    let status = claim::report(&seen, &[], &Timestamp("2026-01-01T00:00:00Z".into())).unwrap();
    assert_eq!(status.conditions.reason("Ready"), Some("TeamMissing"));
    let claim::Backend::Reached(reached) = &mut seen.backend else { panic!("it is reached") };
    reached.in_a_team = true;
    assert_ne!(claim::plan(&seen).to_string(), "nothing to do");
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
