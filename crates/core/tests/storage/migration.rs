//! Every small world of a migration of one bucket.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

use croft_core::{
    conditions::{Conditions, Readiness},
    plan::{Failure, FailureClass, Outcome, Plan},
    secret::Secret,
    storage::{
        CephUser, KeyPair, Place, Target, Usage,
        claim::{
            Claim, ClaimIdentity, Holder, Key, Record, RecordBody, SetAside, Spec, Status, User, UserQuota, Version,
        },
        display_name,
        migration::{
            self, BucketSeen, Gateway, InCeph, Migration, MoveState, Object, Observed, Phase, Reached, Side, Step,
            policy,
        },
    },
    time::Timestamp,
};

use crate::explorer::{self, Act, Limits, at_rest, explore, stale};

const BUCKET: &str = "photos";
const ID: &str = "zone.1";
const STORED: Usage = Usage { size: 8192, objects: 2, buckets: None };
const BEFORE: &str = r#"{"Statement":[{"Sid":"mine","Principal":{"AWS":"arn:aws:iam::lab_a:user/data:one"}}]}"#;

/// One of the two users, by its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SideState {
    claim: bool,
    held: bool,
    kept: bool,
    /// Whether its namespace has the S3Bucket, and that our finalizer.
    object: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct World {
    current: SideState,
    target: SideState,
    finalizer: bool,
    deleting: bool,
    status: migration::Status,
    /// Whether the bucket is in the tenant it goes to, and its policy.
    arrived: bool,
    policy: Option<String>,
    /// Somebody has a bucket of the name where it is to go.
    clash: bool,
    /// Another bucket of the first user.
    more: bool,
    reachable: bool,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let moves: Vec<_> = self.status.buckets.iter().map(|it| (it.state, it.policy.clone())).collect();
        (&self.current, &self.target, self.finalizer, self.deleting, self.arrived, &self.policy).hash(state);
        (self.clash, self.more, self.reachable, self.status.phase, moves).hash(state);
    }
}

fn user(namespace: &str) -> CephUser {
    CephUser { tenant: format!("lab_{namespace}"), id: "data".into() }
}

fn place(namespace: &str) -> Place {
    Place { namespace: namespace.into(), name: "data".into() }
}

fn target(namespace: &str, name: &str) -> Target {
    Target {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("uid-{namespace}-{name}"),
        resource_version: "1".into(),
    }
}

fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:00Z".into())
}

fn moved() -> String {
    policy::moved(Some(BEFORE), BUCKET, &user("a"), &user("b"), &BTreeSet::new()).policy
}

impl SideState {
    fn seen(&self, namespace: &str) -> Side {
        let mut conditions = Conditions::default();
        Readiness::Ready { reason: "Provisioned", message: String::new() }.write(&mut conditions, 1, &now());
        let quota = croft_core::storage::QuotaAsked::default();
        let claim = Claim {
            target: target(namespace, "data"),
            generation: 1,
            deleting: false,
            finalizer: true,
            rotate: None,
            spec: Ok(Spec {
                class: None,
                read_secret: "read".into(),
                admin_secret: "admin".into(),
                subusers: BTreeSet::new(),
                quota,
            }),
            status: Status { observed_generation: Some(1), conditions, ..Status::default() },
        };
        let Target { uid, .. } = &claim.target;
        let body = RecordBody {
            claim: Some(ClaimIdentity { namespace: namespace.into(), name: "data".into(), uid: uid.clone() }),
            held_by: self.held.then(|| Holder { name: "m".into(), uid: target("", "m").uid }),
            class: Some("gold".into()),
            user: Some(user(namespace)),
            ..RecordBody::default()
        };
        let record = Record {
            uid: "r".into(),
            resource_version: format!("{}{}", self.held, self.kept),
            body,
            phase: None,
            reason: None,
            set_aside: SetAside {
                kept: self.kept.then(|| BUCKET.to_owned()).into_iter().collect(),
                left: BTreeSet::new(),
            },
            purge: None,
            returns_to: None,
            adopts: false,
        };
        let buckets = self.object.filter(|finalizer| *finalizer).map(|_| BUCKET.to_owned()).into_iter().collect();
        Side { namespace: true, claim: self.claim.then_some(claim), record: Some(record), buckets }
    }

    fn object(&self, namespace: &str) -> Option<Object> {
        let object = |finalizer| Object {
            target: target(namespace, BUCKET),
            claim: "data".into(),
            deleting: false,
            finalizer,
            bound: BTreeSet::new(),
        };
        self.object.map(object)
    }
}

fn ceph_user(namespace: &str, buckets: BTreeMap<String, u64>) -> User {
    let pair = KeyPair { access_key: format!("AK-{namespace}"), secret_key: Secret::new("hush") };
    User {
        display_name: display_name(namespace, "data", &target(namespace, "data").uid),
        suspended: false,
        max_buckets: None,
        quota: UserQuota::default(),
        subusers: BTreeMap::new(),
        keys: vec![Key { subuser: None, pair }],
        buckets,
        unlisted: None,
        usage: None,
    }
}

impl World {
    fn new() -> Self {
        let side = |object| SideState { claim: true, held: false, kept: false, object };
        Self {
            current: side(Some(true)),
            target: side(None),
            finalizer: false,
            deleting: false,
            status: migration::Status::default(),
            arrived: false,
            policy: Some(BEFORE.to_owned()),
            clash: false,
            more: false,
            reachable: true,
        }
    }

    fn seen(&self) -> Observed {
        let migration = Migration {
            target: target("", "m"),
            generation: 1,
            deleting: self.deleting,
            finalizer: self.finalizer,
            spec: migration::Spec {
                current: place("a"),
                target: place("b"),
                buckets: vec![BUCKET.to_owned()],
                delete_current: true,
            },
            status: self.status.clone(),
        };
        let (current, target) = (self.current.seen("a"), self.target.seen("b"));
        let it = |namespace: &str| InCeph { id: ID.into(), owner: user(namespace), stored: STORED };
        let other = InCeph { id: "zone.2".into(), owner: user("b"), stored: Usage::default() };
        let mine = [(!self.arrived).then_some(BUCKET), self.more.then_some("more")];
        let reached = Reached {
            current: Some(ceph_user("a", mine.into_iter().flatten().map(|name| (name.to_owned(), 1)).collect())),
            target: Some(ceph_user("b", BTreeMap::new())),
            buckets: migration::to_look_at(&migration)
                .into_iter()
                .map(|name| BucketSeen {
                    name: name.to_owned(),
                    in_current: (!self.arrived).then(|| it("a")),
                    in_target: if self.arrived { Some(it("b")) } else { self.clash.then(|| other.clone()) },
                    policy: self.policy.clone(),
                    current_object: self.current.object("a"),
                    target_object: self.target.object("b"),
                })
                .collect(),
        };
        let away = || Failure::new(FailureClass::Transient, "GatewayUnreachable", "no route");
        let gateway = if self.reachable { Gateway::Reached(Box::new(reached)) } else { Gateway::Unreachable(away()) };
        Observed { migration, current, target, gateway }
    }

    fn side(&mut self, record: &str) -> &mut SideState {
        if record == "a.data" { &mut self.current } else { &mut self.target }
    }

    fn is_unchanged(&self, record: &str, seen: &Version) -> bool {
        let side = if record == "a.data" { &self.current } else { &self.target };
        seen.resource_version == format!("{}{}", side.held, side.kept)
    }
}

impl explorer::World for World {
    type Seen = Observed;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Observed)> {
        let is_gone = self.deleting && !self.finalizer;
        (!is_gone).then(|| ("migration", self.seen())).into_iter().collect()
    }

    fn plan(&self, seen: &Observed) -> Plan<Step> {
        migration::plan(seen)
    }

    fn execute(&mut self, _: &Observed, step: &Step) -> Outcome {
        let held = self.current.held && self.target.held && self.finalizer;
        match step {
            Step::AddFinalizer { .. } => self.finalizer = true,
            Step::RemoveFinalizer { .. } => {
                assert!(!self.current.held && !self.target.held, "left somebody held");
                self.finalizer = false;
            }
            Step::Hold { record, seen } | Step::LetGo { record, seen } if !self.is_unchanged(record, seen) => {
                return stale();
            }
            Step::Hold { record, .. } => {
                assert!(self.finalizer, "held before the finalizer");
                self.side(record).held = true;
            }
            Step::LetGo { record, .. } => self.side(record).held = false,
            Step::CreateClaim { .. } => panic!("there is one"),
            _ if !held => panic!("{step}: without holding both"),
            Step::SavePolicy { policy, .. } => self.status.buckets[0].policy = Some(policy.clone()),
            Step::DeletePolicy { .. } => {
                assert_eq!(self.status.buckets[0].policy.as_deref(), Some(BEFORE), "removed before it was saved");
                assert!(!self.arrived, "removed the new owner's policy");
                self.policy = None;
            }
            Step::LinkBucket { id, .. } => {
                assert_eq!((id.as_str(), self.status.buckets[0].id.as_deref()), (ID, Some(ID)));
                if self.clash {
                    return stale();
                }
                assert_eq!(self.policy, None, "went with a policy that may lock everybody out");
                self.arrived = true;
            }
            Step::PutPolicy { policy, .. } => {
                assert!(self.arrived);
                self.policy = Some(policy.clone());
            }
            Step::Note { record, seen, .. } if !self.is_unchanged(record, seen) => return stale(),
            Step::Note { record, .. } if record == "a.data" => {
                assert!(self.target.kept, "forgot a bucket that is kept");
                self.current.kept = false;
            }
            Step::Note { .. } => self.target.kept = true,
            Step::CreateObject { .. } if self.target.object.is_some() => return stale(),
            Step::CreateObject { .. } => self.target.object = Some(false),
            Step::ReleaseObject { .. } => {
                assert!(self.arrived && self.target.object.is_some());
                self.current.object = self.current.object.map(|_| false);
            }
            Step::DeleteObject { .. } => self.current.object = None,
            Step::DeleteClaim { .. } => {
                assert!(self.arrived && !self.more && self.current.object.is_none(), "deleted a claim with buckets");
                self.current.claim = false;
            }
        }
        Outcome::done()
    }

    fn report(&mut self, seen: &Observed, outcomes: &[(&Step, Outcome)]) {
        self.status = migration::report(seen, outcomes, &now());
    }

    fn others(&self) -> Vec<Act<World>> {
        vec![
            Act::new("the gateway goes, or comes back", self, |world| world.reachable = !world.reachable)
                .between_reconciles(),
            Act::new("somebody makes a bucket of that name there, or removes it", self, |world| {
                world.clash = !world.clash && !world.arrived;
            })
            .between_reconciles(),
            Act::new("somebody deletes the migration", self, |world| world.deleting = true).between_reconciles(),
            Act::new("the tenant makes another bucket", self, |world| world.more = true).between_reconciles(),
        ]
    }

    fn check_rest(&self) {
        let is_gone = self.deleting && !self.finalizer;
        match self.status.phase {
            Some(Phase::Succeeded) => {
                assert!(self.arrived && self.policy == Some(moved()), "{:?}", self.policy);
                assert_eq!(self.current.object, None);
                assert_eq!(self.status.moved.as_deref(), Some("1/1"));
                assert!(!self.finalizer && self.status.buckets[0].state == MoveState::Moved);
            }
            Some(Phase::Failed) => assert!(self.clash || !self.arrived),
            _ => assert!(is_gone || !self.reachable || self.clash, "hangs"),
        }
        if self.status.phase != Some(Phase::Running) && self.reachable {
            assert!(!self.current.held && !self.target.held, "left somebody held");
        }
    }
}

#[test]
fn a_migration_ends_well_wherever_the_operator_dies_and_whatever_others_do() {
    let plain = World::new();
    let kept = World { current: SideState { kept: true, object: None, ..plain.current.clone() }, ..plain.clone() };
    let bare = World { current: SideState { object: None, ..plain.current.clone() }, ..plain.clone() };
    let full = World { more: true, ..plain.clone() };
    let starts = [plain, kept, bare, full];
    let alone = explore("migration, alone", starts.clone(), Limits { acts: 0, faults: true, at_once: 1 });
    let worlds = explore("migration", starts, Limits { acts: 2, faults: false, at_once: 2 });
    assert!(alone.worlds.len() > 40 && worlds.worlds.len() > 200);
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
         note the policy of bucket photos\n\
         delete the policy of bucket photos as Ceph user lab_a$data: it may name what no longer holds\n\
         link bucket lab_a/photos to Ceph user lab_b$data\n\
         let Ceph user lab_b$data read bucket photos, and its former owner do nothing there\n\
         create S3Bucket b/photos of claim data like a/photos\n\
         remove the finalizer from S3Bucket a/photos\n\
         delete S3Bucket a/photos: its bucket is elsewhere\n--\n\
         delete S3UserClaim a/data: it has no bucket left\n\
         let go of S3User a.data\nlet go of S3User b.data\n--\n\
         remove the finalizer from UserMigration m"
    );
}

#[test]
fn a_migration_that_cannot_end_does_not_begin() {
    let told = |world: &World| {
        let world = at_rest(world);
        assert_eq!(world.status.phase, Some(Phase::Failed));
        assert!(!world.arrived && world.policy.as_deref() == Some(BEFORE) && !world.current.held);
        world.status.conditions.get("Ready").unwrap().message.clone()
    };
    let clash = told(&World { clash: true, ..World::new() });
    assert!(clash.contains("photos: Ceph user lab_b$data has a bucket of this name where it would go"), "{clash}");
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
        let mut world = World::new().seen();
        let Gateway::Reached(reached) = &mut world.gateway else { panic!("no gateway") };
        // Both are held: that is when they are looked at.
        for side in [&mut world.current, &mut world.target] {
            let holder = Holder { name: "m".into(), uid: target("", "m").uid };
            side.record.as_mut().unwrap().body.held_by = Some(holder);
        }
        world.migration.finalizer = true;
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
