//! Every small world of a bucket, with a crash after every step.

use std::{collections::HashSet, time::Duration};

use croft_core::{
    plan::{Failure, FailureClass, Outcome},
    secret::Secret,
    storage::{
        CephUser, KeyPair, NoClass, Target,
        bucket::{self, BUCKET_NOT_EMPTY, Bucket, Deletion, Found, GRACE, Observed, Owner, Spec, Status, Step},
    },
    time::Timestamp,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OwnerState {
    Nobody,
    NotReady,
    NoClass,
    Unreachable,
    Ready,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum InCeph {
    Empty,
    Filled,
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Whether it is being deleted (and for how long), bears our finalizer, and was reported as created.
    object: Option<(Option<Duration>, bool, bool)>,
    retain: bool,
    terminating: bool,
    owner: OwnerState,
    ceph: Option<InCeph>,
}

fn user(id: &str) -> CephUser {
    CephUser { tenant: "lab_a".into(), id: id.into() }
}

fn target() -> Target {
    Target { namespace: "a".into(), name: "photos".into(), uid: "u".into(), resource_version: "1".into() }
}

impl World {
    fn observe(&self) -> Observed {
        let deletion = if self.retain { Deletion::Retain } else { Deletion::Delete };
        let found = match self.ceph {
            None => Found::Absent,
            Some(InCeph::Empty | InCeph::Filled) => Found::Ours,
            Some(InCeph::Foreign) => Found::Foreign { owner: user("other") },
        };
        let key = KeyPair { access_key: "AK".into(), secret_key: Secret::new("hush") };
        Observed {
            bucket: self.object.map(|(deleting, finalizer, created)| Bucket {
                target: target(),
                generation: 1,
                deleting,
                finalizer,
                spec: Ok(Spec { claim: "data".into(), deletion }),
                status: Status { created, ..Status::default() },
            }),
            namespace_terminating: self.terminating,
            owner: match self.owner {
                OwnerState::Nobody => Owner::Nobody,
                OwnerState::NotReady => Owner::NotReady("its class does not exist".into()),
                OwnerState::NoClass => Owner::NoClass(NoClass::NotFound("gold".into())),
                OwnerState::Unreachable => {
                    Owner::Unreachable(Failure::new(FailureClass::Transient, "GatewayTimeout", ""))
                }
                OwnerState::Ready => Owner::Ready { user: user("data"), key, found },
            },
        }
    }

    fn execute(&mut self, step: &Step) -> Result<(), Failure> {
        let (deleting, finalizer, _) = self.object.as_mut().expect("nothing is done for an S3Bucket that is gone");
        match step {
            Step::AddFinalizer { .. } => {
                assert_eq!(*deleting, None);
                *finalizer = true;
            }
            Step::CreateBucket { .. } => {
                assert!(*finalizer, "made a bucket before the finalizer");
                assert_eq!((self.owner, self.ceph), (OwnerState::Ready, None));
                self.ceph = Some(InCeph::Empty);
            }
            Step::DeleteBucket { or_leave, .. } => {
                assert!(deleting.is_some() && *finalizer && !self.retain);
                assert_eq!(*or_leave, self.terminating);
                match self.ceph {
                    Some(InCeph::Empty) => self.ceph = None,
                    Some(InCeph::Filled) if *or_leave => {}
                    Some(InCeph::Filled) => return Err(Failure::new(FailureClass::Transient, BUCKET_NOT_EMPTY, "")),
                    other => panic!("deleted {other:?}"),
                }
            }
            Step::RemoveFinalizer { .. } => {
                assert!(deleting.is_some() && *finalizer);
                self.object = None;
            }
        }
        Ok(())
    }
}

fn initial_worlds() -> Vec<World> {
    let objects = [None, Some(None), Some(Some(Duration::ZERO)), Some(Some(GRACE))];
    let owners =
        [OwnerState::Nobody, OwnerState::NotReady, OwnerState::NoClass, OwnerState::Unreachable, OwnerState::Ready];
    let mut worlds = Vec::new();
    for deleting in objects {
        for owner in owners {
            for ceph in [None, Some(InCeph::Empty), Some(InCeph::Filled), Some(InCeph::Foreign)] {
                for bits in 0..16 {
                    let bit = |index: u32| bits & (1 << index) != 0;
                    let object = deleting.map(|deleting| (deleting, bit(0), bit(1)));
                    worlds.push(World { object, retain: bit(2), terminating: bit(3), owner, ceph });
                }
            }
        }
    }
    worlds
}

/// Runs whole plans until one is settled or stuck at a failure that only waiting helps.
fn converge(mut world: World) -> World {
    for _ in 0..4 {
        let plan = bucket::plan(&world.observe());
        if plan.is_settled() {
            return world;
        }
        for step in plan.iter() {
            if world.execute(step).is_err() {
                return world;
            }
        }
    }
    panic!("does not settle: {world:?}");
}

fn check_the_end(start: &World, end: &World) {
    let context = format!("{start:?} became {end:?}");
    match start.ceph {
        Some(InCeph::Foreign | InCeph::Filled) => assert_eq!(start.ceph, end.ceph, "{context}"),
        Some(InCeph::Empty) if start.retain || start.object.is_none() => assert_eq!(start.ceph, end.ceph, "{context}"),
        _ => {}
    }
    let ready = end.owner == OwnerState::Ready;
    match end.object {
        Some((None, finalizer, _)) if ready => {
            let ours = matches!(end.ceph, Some(InCeph::Empty | InCeph::Filled));
            assert!(ours || end.ceph == Some(InCeph::Foreign), "{context}");
            assert!(finalizer || !ours, "{context}");
        }
        Some((Some(since), true, created)) => {
            assert!(!end.retain, "hangs although nothing is to be removed: {context}");
            let patient = end.owner == OwnerState::Unreachable && since < GRACE;
            assert!(!end.terminating || patient, "hangs a namespace: {context}");
            let waits = match end.owner {
                OwnerState::Nobody => false,
                OwnerState::NotReady => created,
                OwnerState::NoClass | OwnerState::Unreachable => true,
                OwnerState::Ready => end.ceph == Some(InCeph::Filled),
            };
            assert!(waits, "hangs for nothing: {context}");
        }
        None if start.object.is_some_and(|(_, finalizer, _)| finalizer) && ready && !start.retain => {
            assert_ne!(end.ceph, Some(InCeph::Empty), "left an empty bucket: {context}");
        }
        _ => {}
    }
}

#[test]
fn every_world_settles_with_all_promises_kept_whatever_step_is_the_last_before_a_crash() {
    let (mut seen, mut todo) = (HashSet::new(), initial_worlds());
    while let Some(world) = todo.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let plan = bucket::plan(&world.observe());
        assert!(!format!("{plan} {plan:?}").contains("hush"));
        let mut crashed = world.clone();
        for step in plan.iter() {
            if crashed.execute(step).is_err() {
                break;
            }
            todo.push(crashed.clone());
        }
        check_the_end(&world, &converge(world.clone()));
    }
    assert!(seen.len() > 1000, "only {} worlds", seen.len());
}

fn report(world: &World, outcome: &Outcome) -> Status {
    let (seen, now) = (world.observe(), Timestamp("2026-01-01T00:00:00Z".into()));
    let plan = bucket::plan(&seen);
    let outcomes: Vec<_> = plan.iter().map(|step| (step, outcome.clone())).collect();
    bucket::report(&seen, &outcomes, &now).unwrap()
}

const NEW: World = World {
    object: Some((None, false, false)),
    retain: false,
    terminating: false,
    owner: OwnerState::Ready,
    ceph: None,
};

#[test]
fn a_new_bucket_is_reported_as_created_once_it_is() {
    let made = report(&NEW, &Outcome::done());
    assert!(made.created && made.conditions.is_true("Ready"));
    assert_eq!(made.reason, None);
    let waiting = report(&World { owner: OwnerState::NotReady, ..NEW }, &Outcome::NotRun);
    assert!(!waiting.created && waiting.conditions.is_true("Reconciling"));
    assert_eq!(waiting.conditions.reason("Ready"), Some("WaitingForClaim"));
}

#[test]
fn a_bucket_with_objects_in_it_says_why_it_does_not_go() {
    let world = World { object: Some((Some(Duration::ZERO), true, true)), ceph: Some(InCeph::Filled), ..NEW };
    let refused = Failure::new(FailureClass::Transient, BUCKET_NOT_EMPTY, "delete its objects first");
    let status = report(&world, &Outcome::Failed(refused));
    assert!(status.created);
    assert_eq!(status.conditions.reason("Ready"), Some(BUCKET_NOT_EMPTY));
    assert_eq!(status.reason.as_deref(), Some("delete its objects first"));
}

#[test]
fn a_bucket_of_another_user_is_reported_as_taken() {
    let status = report(&World { ceph: Some(InCeph::Foreign), ..NEW }, &Outcome::NotRun);
    assert!(!status.created && status.conditions.is_true("Stalled"));
    assert_eq!(status.conditions.reason("Ready"), Some("BucketTaken"));
}
