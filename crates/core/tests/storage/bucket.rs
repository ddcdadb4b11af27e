//! Every small world of a bucket.

mod acts;
mod rest;
mod told;

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    time::Duration,
};

use croft_core::{
    plan::{Failure, FailureClass, Next, Outcome, Plan},
    secret::Secret,
    storage::{
        CephUser, KeyPair, NoClass, Problem, Target, Usage,
        bucket::{
            self, BUCKET_NOT_EMPTY, Bindings, Bucket, BucketQuota, Deletion, Found, GRACE, Grant, Grants, Note,
            Observed, Owner, PolicySeen, RecordSeen, Settings, Spec, State, Status, Step, Versioning,
        },
        claim::{SetAside, UserQuota, Version},
    },
    time::Timestamp,
};

use crate::explorer::{self, Act, Limits, explore, stale};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OwnerState {
    Nobody,
    NotReady,
    NoClass,
    Unreachable,
    /// Its S3User names somebody else.
    Misnamed,
    Ready,
}

const OWNERS: [OwnerState; 6] = [
    OwnerState::Nobody,
    OwnerState::NotReady,
    OwnerState::NoClass,
    OwnerState::Unreachable,
    OwnerState::Misnamed,
    OwnerState::Ready,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum InCeph {
    Empty,
    Filled,
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Delete,
    Retain,
    Nonsense,
    RetainNonsense,
}

/// An S3Bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Object {
    asked: Asked,
    /// Whether it asks for a quota.
    quota: bool,
    /// For how long it has been in deletion.
    deleting: Option<Duration>,
    finalizer: bool,
    status: Status,
}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Status { created, reason, managed_settings, .. } = &self.status;
        (self.asked, self.quota, self.deleting, self.finalizer, created, reason, managed_settings).hash(state);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct World {
    object: Option<Object>,
    terminating: bool,
    owner: OwnerState,
    ceph: Option<InCeph>,
    /// What stamped the S3Bucket no longer wants it.
    unwanted: bool,
    /// What the S3User says of the bucket.
    kept: bool,
    left: bool,
    /// It keeps more than it can list.
    keeps_all: bool,
    policy: Policy,
    quota: Limit,
    /// Somebody removed the S3User.
    record_is_gone: bool,
    /// Its claim is being deleted, too.
    claim_goes: bool,
    /// Somebody took our finalizer away.
    let_go_by_hand: bool,
    /// The bucket may be left behind: nothing holds it, or we could not get at it.
    may_be_left: bool,
}

fn user(id: &str) -> CephUser {
    CephUser { tenant: "lab_a".into(), id: id.into() }
}

/// The policy of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Policy {
    None,
    Granting,
    Theirs,
    /// It shuts out the owner.
    Unreadable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Limit {
    None,
    Ours,
    /// An administrator of the gateway set it.
    Theirs,
}

fn bound() -> Bindings {
    Bindings::from([("one".to_owned(), Grant::Write)])
}

/// The policy that grants what is bound.
const GRANTING: &str = "one writes";

fn target() -> Target {
    Target { namespace: "a".into(), name: "photos".into(), uid: "u".into(), resource_version: "1".into() }
}

fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:00Z".into())
}

fn failed(class: FailureClass, reason: &'static str) -> Outcome {
    Outcome::Failed(Failure::new(class, reason, ""))
}

impl Object {
    fn is_valid(&self) -> bool {
        matches!(self.asked, Asked::Delete | Asked::Retain)
    }

    fn seen(&self) -> Bucket {
        let quota = self.quota.then_some(BucketQuota { size: Some(1), objects: None });
        let settings = Settings { quota, ..Settings::default() };
        Bucket {
            target: target(),
            generation: 1,
            deleting: self.deleting,
            finalizer: self.finalizer,
            deletion: match self.asked {
                Asked::Delete | Asked::Nonsense => Deletion::Delete,
                Asked::Retain | Asked::RetainNonsense => Deletion::Retain,
            },
            spec: match self.asked {
                Asked::Delete | Asked::Retain => Ok(Spec { claim: "data".into(), bindings: bound(), settings }),
                Asked::Nonsense | Asked::RetainNonsense => {
                    Err(vec![Problem::new("spec.s3UserRef", "must not be empty")])
                }
            },
            status: self.status.clone(),
        }
    }
}

impl World {
    fn seen(&self) -> Observed {
        let found = match self.ceph {
            None => Found::Absent,
            Some(InCeph::Empty | InCeph::Filled) => Found::Ours,
            Some(InCeph::Foreign) => Found::Foreign { owner: user("other") },
        };
        let key = KeyPair { access_key: "AK".into(), secret_key: Secret::new("hush") };
        Observed {
            bucket: self.object.as_ref().map(Object::seen),
            namespace_terminating: self.terminating,
            unwanted: self.unwanted,
            given_up: false,
            record: (self.owner != OwnerState::Misnamed && !self.record_is_gone).then(|| self.record()),
            record_is_anothers: self.owner == OwnerState::Misnamed && !self.record_is_gone,
            record_comes: self.owner != OwnerState::Nobody && !self.claim_goes,
            held_by: None,
            subusers: ["one".to_owned()].into(),
            state: Some(self.state()),
            owner: match self.owner {
                OwnerState::Nobody => Owner::Nobody,
                _ if self.record_is_gone => Owner::NotReady("its user is not made yet".into()),
                OwnerState::NotReady | OwnerState::Misnamed => Owner::NotReady("its class does not exist".into()),
                OwnerState::NoClass => Owner::NoClass(NoClass::NotFound("gold".into())),
                OwnerState::Unreachable => {
                    Owner::Unreachable(Failure::new(FailureClass::Transient, "GatewayTimeout", ""))
                }
                OwnerState::Ready if self.object.as_ref().is_some_and(|object| object.deleting.is_some()) => {
                    Owner::Removable { user: user("data"), found, empty: self.ceph != Some(InCeph::Filled) }
                }
                OwnerState::Ready => Owner::Ready { user: user("data"), key, found },
            },
        }
    }

    fn state(&self) -> State {
        let current = match self.policy {
            Policy::Granting => Some(GRANTING.to_owned()),
            Policy::Theirs => Some("theirs".to_owned()),
            Policy::None | Policy::Unreadable => None,
        };
        State {
            policy: match self.policy {
                Policy::Unreadable => PolicySeen::Unreadable("denied".into()),
                _ => PolicySeen::Read { current, wanted: GRANTING.to_owned() },
            },
            quota: match self.quota {
                Limit::None => UserQuota::default(),
                Limit::Ours => UserQuota { enabled: true, size: Some(1), objects: None },
                Limit::Theirs => UserQuota { enabled: true, size: None, objects: Some(99) },
            },
            usage: Usage::default(),
            versioning: Versioning::default(),
            lifecycle: BTreeMap::new(),
        }
    }

    fn record(&self) -> RecordSeen {
        let names = |is_in: bool| is_in.then(|| target().name).into_iter().collect();
        RecordSeen {
            name: "a.data".into(),
            version: Version { uid: "r".into(), resource_version: "1".into() },
            set_aside: SetAside { everything: self.keeps_all, kept: names(self.kept), left: names(self.left) },
            allows_buckets: true,
        }
    }

    fn edit(&mut self, change: impl FnOnce(&mut Object)) {
        self.object.as_mut().map(change);
        self.object.take_if(|object| object.deleting.is_some() && !object.finalizer);
    }

    fn is_ours(&self) -> bool {
        matches!(self.ceph, Some(InCeph::Empty | InCeph::Filled))
    }

    fn remove(&mut self) {
        (self.ceph, self.policy, self.quota) = (None, Policy::None, Limit::None);
    }

    fn delete_bucket(&mut self) -> Outcome {
        match self.ceph {
            None => {}
            Some(InCeph::Empty) => self.remove(),
            Some(InCeph::Filled) => return failed(FailureClass::Rejected, BUCKET_NOT_EMPTY),
            // Between our look and our call it is the same bucket.
            Some(InCeph::Foreign) => panic!("removed the bucket of another user"),
        }
        Outcome::done()
    }

    /// Whether the API server would take a write meant for the S3Bucket as it was seen.
    fn is_unchanged(&self, seen: &Observed) -> bool {
        self.object.as_ref().map(Object::seen) == seen.bucket
    }
}

impl explorer::World for World {
    type Seen = Observed;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Observed)> {
        self.object.iter().map(|_| ("bucket", self.seen())).collect()
    }

    fn plan(&self, seen: &Observed) -> Plan<Step> {
        let plan = bucket::plan(seen);
        assert!(!format!("{plan} {plan:?}").contains("hush"), "a secret shows");
        plan
    }

    fn execute(&mut self, seen: &Observed, step: &Step) -> Outcome {
        let bucket = seen.bucket.as_ref().expect("nothing is done for an S3Bucket that is gone");
        let is_not_there = matches!(&seen.owner, Owner::Removable { found: Found::Absent | Found::Foreign { .. }, .. });
        match step {
            Step::AddFinalizer { .. } if !self.is_unchanged(seen) => return stale(),
            Step::AddFinalizer { .. } => {
                assert_eq!(bucket.deleting, None);
                self.edit(|object| object.finalizer = true);
                self.may_be_left = false;
            }
            Step::CreateBucket { .. } | Step::PutPolicy { .. } | Step::SetQuota { .. } | Step::DeleteBucket { .. }
                if self.owner != OwnerState::Ready || self.record_is_gone =>
            {
                return failed(FailureClass::Transient, "GatewayTimeout");
            }
            Step::CreateBucket { .. } => {
                let is_held = self.object.as_ref().is_some_and(|object| object.finalizer);
                assert!(is_held || self.let_go_by_hand, "made a bucket before the finalizer");
                if self.ceph == Some(InCeph::Foreign) {
                    return failed(FailureClass::Stale, "BucketAlreadyExists");
                }
                self.ceph.get_or_insert(InCeph::Empty);
            }
            Step::PutPolicy { .. } if !self.is_ours() => return failed(FailureClass::Stale, "NoSuchBucket"),
            Step::PutPolicy { policy, .. } => {
                assert_eq!(policy, GRANTING);
                let read = seen.state.as_ref().map(|state| &state.policy);
                assert!(matches!(read, Some(PolicySeen::Read { .. })), "wrote over a policy that cannot be read");
                if self.policy == Policy::Unreadable {
                    return failed(FailureClass::Forbidden, "AccessDenied");
                }
                self.policy = Policy::Granting;
            }
            Step::NoteSettings { settings, .. } => {
                self.edit(|object| object.status.managed_settings.clone_from(settings));
            }
            Step::SetQuota { .. } if !self.is_ours() => return failed(FailureClass::Stale, "NoSuchKey"),
            Step::SetQuota { quota, .. } => self.quota = if quota.enabled { Limit::Ours } else { Limit::None },
            Step::SetVersioning { .. } | Step::PutLifecycle { .. } => panic!("nobody asks for that here"),
            Step::DeleteBucket { .. } => {
                assert!(bucket.deleting.is_some() && bucket.finalizer, "removed a bucket that stays");
                let is_untaken = self.keeps_all && !self.left && !bucket.status.created;
                assert!(!self.kept && !is_untaken, "removed a bucket that is kept");
                return self.delete_bucket();
            }
            Step::Note { .. } if self.record_is_gone || seen.record.as_ref() != Some(&self.record()) => return stale(),
            Step::Note { note: Note::Kept, .. } if is_not_there => panic!("notes a bucket that is not there"),
            Step::Note { note, .. } => {
                let (noted, name) = (self.record().set_aside.noted(&target().name, *note), target().name);
                (self.kept, self.left) = (noted.kept.contains(&name), noted.left.contains(&name));
            }
            Step::RemoveFinalizer { .. } if self.object.is_none() => {}
            Step::RemoveFinalizer { .. } if !self.is_unchanged(seen) => return stale(),
            Step::RemoveFinalizer { .. } => {
                assert!(bucket.deleting.is_some() && bucket.finalizer);
                let is_kept = bucket.deletion == Deletion::Retain;
                let is_noted = self.record().set_aside.keeps(&target().name)
                    || (seen.record_is_anothers && seen.namespace_terminating);
                // Where nothing is on record, all that is found is kept when the claim goes.
                let is_remembered = seen.record.is_none() && (!seen.record_comes || seen.namespace_terminating);
                let is_noted = is_noted || is_not_there || is_remembered;
                let is_out_of_reach = !matches!(seen.owner, Owner::Removable { .. });
                assert!(!is_kept || is_noted, "let go of a bucket to retain before that was noted");
                self.may_be_left |= is_kept || is_out_of_reach || self.kept || self.left || self.keeps_all;
                self.edit(|object| object.finalizer = false);
            }
        }
        Outcome::done()
    }

    fn report(&mut self, seen: &Observed, outcomes: &[(&Step, Outcome)]) {
        if let (Some(object), Some(status)) = (&mut self.object, bucket::report(seen, outcomes, &now())) {
            object.status = status;
        }
    }

    fn others(&self) -> Vec<Act<World>> {
        self.acts()
    }

    fn passes(&self) -> Option<World> {
        let object = self.object.clone().filter(|object| object.deleting.is_some_and(|since| since < GRACE))?;
        Some(World { object: Some(Object { deleting: Some(GRACE), ..object }), ..self.clone() })
    }

    fn check_ours(&self, before: &World) {
        if matches!(before.ceph, Some(InCeph::Foreign | InCeph::Filled)) {
            assert_eq!(before.ceph, self.ceph, "touched what it must not");
        }
        let has_a_say = |object: &Object| object.quota || !object.status.managed_settings.is_empty();
        if before.quota == Limit::Theirs && self.is_ours() && !before.object.as_ref().is_some_and(has_a_say) {
            assert_eq!(self.quota, Limit::Theirs, "took off a quota of somebody else");
        }
    }

    fn check_rest(&self) {
        match &self.object {
            Some(object) if object.deleting.is_some() => self.check_one_that_goes(object),
            Some(object) => self.check_one_that_stays(object),
            None => assert!(self.may_be_left || self.ceph != Some(InCeph::Empty), "left an empty bucket"),
        }
    }
}

fn every_start() -> Vec<World> {
    let mut worlds = Vec::new();
    for owner in OWNERS {
        for ceph in [None, Some(InCeph::Empty), Some(InCeph::Filled), Some(InCeph::Foreign)] {
            for created in [false, true] {
                for (finalizer, deleting) in [(false, None), (true, None), (true, Some(Duration::ZERO))] {
                    let status = Status { created, ..Status::default() };
                    let object = Object { asked: Asked::Delete, quota: false, deleting, finalizer, status };
                    let world = World { owner, ceph, object: Some(object), may_be_left: !finalizer, ..new() };
                    worlds.push(World { kept: true, ..world.clone() });
                    worlds.push(World { keeps_all: true, ..world.clone() });
                    worlds.push(World { keeps_all: true, left: true, ..world.clone() });
                    worlds.push(World { record_is_gone: true, ..world.clone() });
                    worlds.push(World { record_is_gone: true, claim_goes: true, ..world.clone() });
                    worlds.push(World { claim_goes: true, ..world.clone() });
                    worlds.push(world);
                }
            }
        }
    }
    worlds
}

#[test]
fn every_bucket_keeps_its_promises_whatever_goes_wrong() {
    let worlds = explore("bucket", every_start(), Limits { acts: 3, faults: true, at_once: 1 }).worlds.len();
    assert!(worlds > 1_000, "only {worlds} worlds");
}

#[test]
fn a_full_bucket_of_a_class_that_gives_everything_up_is_left_to_the_end_of_its_user() {
    let mut seen = World { ceph: Some(InCeph::Filled), ..new() }.seen();
    let bucket = seen.bucket.as_mut().unwrap();
    (bucket.finalizer, bucket.deleting) = (true, Some(Duration::ZERO));
    seen.owner = Owner::Removable { user: user("data"), found: Found::Ours, empty: false };
    for deletion in [Deletion::Delete, Deletion::Retain] {
        seen.bucket.as_mut().unwrap().deletion = deletion;
        seen.given_up = false;
        let kept = bucket::plan(&seen).to_string();
        seen.given_up = true;
        let plan = bucket::plan(&seen);
        let steps: Vec<_> = plan.iter().collect();
        assert!(matches!(steps.as_slice(), [Step::RemoveFinalizer { .. }]) && plan.to_string() != kept, "{plan}");
    }
}

fn report(world: &World, outcome: &Outcome) -> Status {
    let seen = world.seen();
    let plan = bucket::plan(&seen);
    let outcomes: Vec<_> = plan.iter().map(|step| (step, outcome.clone())).collect();
    bucket::report(&seen, &outcomes, &now()).unwrap()
}

fn new() -> World {
    let status = Status::default();
    let object = Object { asked: Asked::Delete, quota: false, deleting: None, finalizer: false, status };
    World {
        object: Some(object),
        terminating: false,
        owner: OwnerState::Ready,
        ceph: None,
        unwanted: false,
        kept: false,
        left: false,
        keeps_all: false,
        policy: Policy::None,
        quota: Limit::None,
        record_is_gone: false,
        claim_goes: false,
        let_go_by_hand: false,
        may_be_left: false,
    }
}
