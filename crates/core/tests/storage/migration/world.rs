//! A small world with one bucket that is to be moved, and everybody who may come between.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

use croft_core::{
    conditions::{Conditions, Readiness},
    plan::{self, Failure, FailureClass, Outcome, Plan},
    secret::Secret,
    storage::{
        CephUser, KeyPair, Place, Target, Usage,
        claim::{
            Claim, ClaimIdentity, Holder, Key, Record, RecordBody, SetAside, Spec, Status, User, UserQuota, Version,
        },
        display_name,
        migration::{
            self, BucketSeen, Gateway, InCeph, Migration, MoveState, MovedIn, Object, Observed, Phase, PolicySeen,
            Reached, Side, Step, policy::Moved,
        },
    },
    time::Timestamp,
};

use crate::explorer::{self, Act, stale};

pub(super) const BUCKET: &str = "photos";
pub(super) const ID: &str = "zone.1";
const STORED: Usage = Usage { size: 8192, objects: 2, buckets: None };
const TOO_MUCH: Usage = Usage { size: 8193, objects: 2, buckets: None };
/// Just enough for what is there and what comes.
const ROOM: UserQuota = UserQuota { enabled: true, size: Some(2 * STORED.size), objects: Some(2 * STORED.objects) };
pub(super) const BEFORE: &str =
    r#"{"Statement":[{"Sid":"mine","Principal":{"AWS":"arn:aws:iam::lab_a:user/data:one"}}]}"#;

/// One of the two users, by its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct SideState {
    pub(super) claim: bool,
    /// Somebody deletes the claim, which waits for whoever holds the user.
    pub(super) claim_deleting: bool,
    pub(super) held: bool,
    pub(super) kept: bool,
    /// Whether its S3User keeps more than it can list.
    pub(super) keeps_all: bool,
    /// Whether its user has a key that the gateway knows.
    pub(super) key: bool,
    /// Whether its S3User says from whom the bucket came.
    pub(super) remembers: bool,
    /// Whether its S3User says that nothing is given up when its claim goes.
    pub(super) moved_away: bool,
    /// Whether its namespace has the S3Bucket, and that our finalizer.
    pub(super) object: Option<bool>,
}

/// The policy of the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Policy {
    None,
    Text(String),
    /// Its owner is refused whatever has to do with the policy.
    Shut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whereabouts {
    Home,
    Arrived,
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct World {
    pub(super) current: SideState,
    pub(super) target: SideState,
    pub(super) finalizer: bool,
    pub(super) deleting: bool,
    pub(super) status: migration::Status,
    pub(super) bucket: Whereabouts,
    pub(super) policy: Policy,
    /// Whether the gateway looks after its lifecycle where it is, and counts what is in it for its owner.
    pub(super) looked_after: bool,
    pub(super) counted: bool,
    /// Whether the namespace it goes to is there to stay.
    pub(super) namespace: bool,
    /// Somebody has a bucket of the name where it is to go.
    pub(super) clash: bool,
    /// Another bucket of the first user.
    pub(super) more: bool,
    pub(super) reachable: bool,
    /// Whether it was told, when the migration began, what its new owner has stored.
    pub(super) had_room: bool,
    /// The gateway cannot tell what its new owner has stored.
    pub(super) untold: bool,
    /// There is more in the bucket than its new owner has room for.
    pub(super) grown: bool,
    /// Its old owner has another bucket of its name.
    pub(super) replaced: bool,
    /// The claim it goes to was deleted while the migration was at work.
    pub(super) target_went: bool,
    /// One of several gateways has not heard yet whose the bucket is, and refuses its new owner once.
    pub(super) refuses: bool,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let moves: Vec<_> = self.status.buckets.iter().map(|it| (it.state, it.policy.clone())).collect();
        (&self.current, &self.target, self.finalizer, self.deleting, self.bucket, &self.policy).hash(state);
        (self.looked_after, self.counted, self.untold, self.had_room).hash(state);
        (self.grown, self.replaced, self.target_went).hash(state);
        (self.namespace, self.clash, self.more, self.reachable, self.refuses, self.status.phase, moves).hash(state);
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

pub(super) fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:00Z".into())
}

/// The policy once all is done: nothing of what the old owner said is left of it.
pub(super) fn moved(unbound: &[&str]) -> Policy {
    let former = BTreeSet::from(["lab_a".to_owned()]);
    let unbound = unbound.iter().map(|name| (*name).to_owned()).collect();
    let subusers = ["one", "two"].map(str::to_owned).into();
    let owner = user("b");
    let moved = Moved { bucket: BUCKET, owner: &owner, former: &former, subusers: &subusers, unbound: &unbound };
    let statements = moved.statements(&[]);
    let policy = serde_json::json!({ "Version": "2012-10-17", "Id": "S3Policy", "Statement": statements });
    Policy::Text(policy.to_string())
}

fn denied() -> Outcome {
    Outcome::Failed(Failure::new(FailureClass::Forbidden, "AccessDenied", "its policy says so"))
}

impl SideState {
    fn seen(&self, namespace: &str) -> Side {
        let mut conditions = Conditions::default();
        Readiness::Ready { reason: "Provisioned", message: String::new() }.write(&mut conditions, 1, &now());
        let quota = croft_core::storage::QuotaAsked::default();
        let claim = Claim {
            target: target(namespace, "data"),
            generation: 1,
            deleting: self.claim_deleting,
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
            moved_away: self.moved_away,
            class: Some("gold".into()),
            user: Some(user(namespace)),
            subusers: ["one".to_owned(), "two".to_owned()].into(),
            ..RecordBody::default()
        };
        let record = Record {
            uid: "r".into(),
            resource_version: self.version(),
            body,
            phase: None,
            reason: None,
            set_aside: SetAside {
                everything: self.keeps_all,
                kept: self.kept.then(|| BUCKET.to_owned()).into_iter().collect(),
                left: BTreeSet::new(),
            },
            purge: None,
            returns_to: None,
            adopts: false,
            misnamed: None,
        };
        let buckets = self.object.filter(|finalizer| *finalizer).map(|_| BUCKET.to_owned()).into_iter().collect();
        let former = BTreeSet::from(["lab_a".to_owned()]);
        let moved_in = MovedIn { name: BUCKET.into(), id: ID.into(), former };
        let moved_in = self.remembers.then_some(moved_in).into_iter().collect();
        Side { namespace: true, claim: self.claim.then_some(claim), record: Some(record), buckets, moved_in }
    }

    fn version(&self) -> String {
        format!("{}{}{}{}", self.held, self.kept, self.remembers, self.moved_away)
    }

    fn object(&self, namespace: &str) -> Option<Object> {
        let object = |finalizer| Object {
            target: target(namespace, BUCKET),
            claim: "data".into(),
            deleting: false,
            finalizer,
            bound: ["one".to_owned()].into(),
        };
        self.object.map(object)
    }
}

fn access_key(namespace: &str) -> String {
    format!("AK-{namespace}")
}

fn ceph_user(namespace: &str, buckets: BTreeMap<String, u64>) -> User {
    let pair = KeyPair { access_key: access_key(namespace), secret_key: Secret::new("hush") };
    User {
        display_name: display_name(namespace, "data", &target(namespace, "data").uid),
        suspended: false,
        max_buckets: None,
        quota: UserQuota::default(),
        subusers: BTreeMap::new(),
        keys: vec![Key { subuser: None, pair }],
        buckets,
        others_buckets: BTreeSet::new(),
        gone_buckets: BTreeSet::new(),
        unlisted: None,
        usage: None,
    }
}

impl World {
    pub(super) fn new() -> Self {
        let side = |object| SideState {
            claim: true,
            claim_deleting: false,
            held: false,
            kept: false,
            keeps_all: false,
            key: true,
            remembers: false,
            moved_away: false,
            object,
        };
        Self {
            current: side(Some(true)),
            target: side(None),
            finalizer: false,
            deleting: false,
            status: migration::Status::default(),
            bucket: Whereabouts::Home,
            policy: Policy::Text(BEFORE.to_owned()),
            looked_after: true,
            counted: true,
            namespace: true,
            clash: false,
            more: false,
            reachable: true,
            had_room: false,
            untold: false,
            grown: false,
            replaced: false,
            target_went: false,
            refuses: false,
        }
    }

    pub(super) fn seen(&self) -> Observed {
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
        let current = self.current.seen("a");
        let target = Side { namespace: self.namespace, ..self.target.seen("b") };
        let stored = if self.grown { TOO_MUCH } else { STORED };
        let it = |namespace: &str| InCeph { id: ID.into(), owner: user(namespace), stored };
        let other = |namespace: &str| InCeph { id: "zone.2".into(), owner: user(namespace), stored: Usage::default() };
        let (is_home, has_arrived) = (self.bucket == Whereabouts::Home, self.bucket == Whereabouts::Arrived);
        let look = migration::look(&migration, &current, &target);
        let all = [(is_home || self.replaced).then_some(BUCKET), self.more.then_some("more")];
        let all = all.into_iter().flatten().filter(|_| look.all_of_current);
        let policy = match &self.policy {
            _ if !self.current.key => PolicySeen::None,
            Policy::Text(policy) if is_home => PolicySeen::Text(policy.clone()),
            Policy::Shut if is_home => PolicySeen::Unreadable("refused".into()),
            _ => PolicySeen::None,
        };
        let reached = Reached {
            current: Some(ceph_user("a", all.map(|name| (name.to_owned(), 1)).collect())),
            target: Some(User {
                usage: (look.all_of_target && !self.untold).then_some(STORED),
                quota: ROOM,
                ..ceph_user("b", BTreeMap::new())
            }),
            lost: self.lost(),
            buckets: look
                .buckets
                .into_iter()
                .map(|name| BucketSeen {
                    name: name.to_owned(),
                    in_current: if is_home { Some(it("a")) } else { self.replaced.then(|| other("a")) },
                    in_target: if has_arrived { Some(it("b")) } else { self.clash.then(|| other("b")) },
                    policy: policy.clone(),
                    current_object: self.current.object("a"),
                    target_object: self.target.object("b"),
                })
                .collect(),
        };
        let away = || Failure::new(FailureClass::Transient, "GatewayUnreachable", "no route");
        let gateway = if self.reachable { Gateway::Reached(Box::new(reached)) } else { Gateway::Unreachable(away()) };
        Observed { migration, current, target, gateway }
    }

    fn lost(&self) -> BTreeSet<String> {
        let sides = [("a", &self.current), ("b", &self.target)];
        sides.into_iter().filter(|(_, side)| !side.key).map(|(namespace, _)| access_key(namespace)).collect()
    }

    fn side(&mut self, record: &str) -> &mut SideState {
        if record == "a.data" { &mut self.current } else { &mut self.target }
    }

    fn is_unchanged(&self, record: &str, seen: &Version) -> bool {
        let side = if record == "a.data" { &self.current } else { &self.target };
        seen.resource_version == side.version()
    }

    pub(super) fn has_arrived(&self) -> bool {
        self.bucket == Whereabouts::Arrived
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

    fn needs(&self, step: &Step, earlier: &Step) -> bool {
        plan::Step::needs(step, earlier)
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
            Step::CreateClaim { .. } if self.target.claim => return stale(),
            Step::CreateClaim { .. } => {
                (self.target.claim, self.target.claim_deleting, self.target_went) = (true, false, false);
            }
            // Whom it holds it may say something about until he is let go of.
            Step::Note { record, .. } if !held && record == "b.data" && self.target.held => self.target.kept = true,
            _ if !held => panic!("{step}: without holding both"),
            Step::Remember { record, seen, .. } if !self.is_unchanged(record, seen) => return stale(),
            Step::Remember { record, moved_in, .. } => {
                assert_eq!(
                    (record.as_str(), moved_in),
                    ("b.data", &SideState { remembers: true, ..self.target.clone() }.seen("b").moved_in)
                );
                self.target.remembers = true;
            }
            Step::SavePolicy { policy, .. } => self.status.buckets[0].policy = Some(policy.clone()),
            Step::DeletePolicy { key, .. } | Step::PutPolicy { key, .. } | Step::RenewLifecycle { key, .. }
                if self.lost().contains(&key.access_key) =>
            {
                return Outcome::Failed(Failure::new(FailureClass::Forbidden, "InvalidAccessKeyId", "no such key"));
            }
            Step::DeletePolicy { .. } | Step::PutPolicy { .. } if self.policy == Policy::Shut => return denied(),
            Step::PutPolicy { user: by, .. } if self.refuses && *by == user("b") => {
                self.refuses = false;
                return denied();
            }
            Step::DeletePolicy { .. } => {
                assert_eq!(self.status.buckets[0].policy.as_deref(), Some(BEFORE), "removed before it was saved");
                assert!(!self.has_arrived(), "removed the new owner's policy");
                self.policy = Policy::None;
            }
            Step::LinkBucket { .. } | Step::PutPolicy { .. } if self.bucket == Whereabouts::Gone => return stale(),
            Step::RenewLifecycle { user: by, .. } => self.looked_after = self.has_arrived() && *by == user("b"),
            Step::CountUsage { user: of } => self.counted = self.has_arrived() && *of == user("b"),
            Step::LinkBucket { id, to, .. } => {
                let carries = matches!(&self.policy, Policy::Text(text) if text == BEFORE);
                assert!(self.bucket != Whereabouts::Home || !carries, "its old policy goes with it");
                assert_eq!((id.as_str(), self.status.buckets[0].id.as_deref()), (ID, Some(ID)));
                assert!(self.target.remembers, "nobody will know who had it");
                assert!(self.had_room, "nobody knows whether it has room");
                if *to == user("a") && self.replaced {
                    return stale();
                } else if *to == user("a") {
                    let is_forsaken = !self.target.key && (self.deleting || self.target.claim_deleting);
                    let is_refused = self.status.buckets[0].state == MoveState::Returning;
                    assert!(is_refused || is_forsaken, "taken from its new owner");
                    self.bucket = Whereabouts::Home;
                } else if self.clash {
                    return stale();
                } else if self.bucket == Whereabouts::Home {
                    assert!(!self.grown, "it has no room");
                    assert!(!self.target_went, "nobody is left to have it");
                    (self.bucket, self.looked_after, self.counted) = (Whereabouts::Arrived, false, false);
                }
            }
            Step::PutPolicy { user: by, policy, .. } => {
                assert_eq!(*by, user(if self.has_arrived() { "b" } else { "a" }));
                self.policy = Policy::Text(policy.clone());
            }
            Step::Note { record, seen, .. } if !self.is_unchanged(record, seen) => return stale(),
            Step::Note { record, .. } if record == "a.data" => {
                assert!(self.target.kept || self.target.keeps_all, "forgot a bucket that is kept");
                self.current.kept = false;
            }
            Step::Note { .. } => self.target.kept = !self.target.keeps_all,
            Step::CreateObject { .. } if self.target.object.is_some() || !self.namespace => return stale(),
            Step::CreateObject { .. } => self.target.object = Some(false),
            Step::ReleaseObject { .. } => {
                let is_kept = self.target.kept || self.target.keeps_all;
                assert!(self.has_arrived() && (self.target.object.is_some() || is_kept), "forgotten");
                self.current.object = self.current.object.map(|_| false);
            }
            Step::DeleteObject { .. } => self.current.object = None,
            Step::GiveUpNothing { record, seen } if !self.is_unchanged(record, seen) => return stale(),
            Step::GiveUpNothing { record, .. } => self.side(record).moved_away = true,
            Step::DeleteClaim { .. } => {
                assert!(self.current.moved_away, "what somebody makes now could be purged");
                let has_buckets = self.more || self.replaced || self.current.object.is_some();
                assert!(!has_buckets, "deleted a claim with buckets");
                self.current.claim = false;
            }
        }
        Outcome::done()
    }

    fn report(&mut self, seen: &Observed, outcomes: &[(&Step, Outcome)]) {
        self.status = migration::report(seen, outcomes, &now());
        let told = |reached: &Reached| reached.target.as_ref().is_some_and(|user| user.usage.is_some());
        if seen.migration.phase() == Phase::Pending && self.status.phase == Some(Phase::Running) {
            self.had_room = matches!(&seen.gateway, Gateway::Reached(reached) if told(reached));
        }
    }

    fn others(&self) -> Vec<Act<World>> {
        self.acts()
    }

    fn passes(&self) -> Option<Self> {
        // A claim that is deleted goes as soon as nobody holds its user; that of a namespace that goes does not wait.
        let mut after = self.clone();
        for (side, waits) in [(&mut after.current, true), (&mut after.target, self.namespace)] {
            if side.claim && side.claim_deleting && !(side.held && waits) {
                side.claim = false;
            }
        }
        (after != *self).then_some(after)
    }

    fn check_rest(&self) {
        self.check();
    }
}
