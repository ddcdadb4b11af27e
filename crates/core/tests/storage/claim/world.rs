//! Everything around one claim, and how the operator sees it.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    time::Duration,
};

use croft_core::{
    plan::{Failure, FailureClass},
    secret::Secret,
    storage::{
        Amount, BindingSeen, CephUser, Class, KeyPair, NoClass, OnDelete, Place, Problem, Quota, QuotaAsked,
        READONLY_SUBUSER, Stamp, Target, Usage,
        claim::{
            Access, Backend, Books, Claim, ClaimIdentity, FreshKeys, Key, Observed, Phase, Purge, PurgeSeen, Reached,
            Record, RecordBody, Rotation, STILL, SecretSeen, SetAside, Spec, Status, User, UserQuota, may_exist,
        },
        display_name,
        ledger::{Entry, Units},
        secret_contents,
    },
};

/// UIDs of the claims that had the name one after the other.
pub(crate) const EARLIER: &str = "uid-earlier";
pub(crate) const NEW: &str = "uid-new";
const NAMESPACE: &str = "uid-namespace";
pub(crate) const RECORD: &str = "team-a.data";
/// Owner of a user that ceph-s3-operator made for the claim's name, and of one of another namespace.
pub(crate) const THEIRS: &str = "ceph-s3-operator";
/// The one bucket a user may have.
pub(crate) const BUCKET: &str = "photos";
/// The subuser a claim may name, and one an administrator made by hand.
pub(crate) const SUBUSER: &str = "one";
pub(crate) const BY_HAND: &str = "hand";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClassState {
    Retain,
    Purge,
    /// Of an uninstallation that takes all data with it.
    GiveUp,
    NotAllowed,
    Gone,
    Unreachable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct ClaimState {
    pub(crate) uid: &'static str,
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) valid: bool,
    /// Whether it names the subuser `one`.
    pub(crate) subuser: bool,
    pub(crate) rotate: Option<&'static str>,
    /// Whether a NamespaceClass put it there.
    pub(crate) stamped: bool,
    pub(crate) status: Status,
}

impl Hash for ClaimState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let reason = self.status.conditions.reason("Ready");
        (self.uid, self.deleting, self.finalizer, self.valid, self.subuser, self.rotate, self.stamped, reason)
            .hash(state);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct RecordState {
    pub(crate) uid: u32,
    /// `None`: made by hand, names nobody, unless it is offered to whichever claim is there.
    pub(crate) claim: Option<&'static str>,
    pub(crate) offered: bool,
    /// Owner of the user before it was given to the claim.
    pub(crate) taken_over_from: Option<String>,
    /// Whether it comes back with the class that took its claim away.
    pub(crate) returns: bool,
    pub(crate) adopts: bool,
    /// Whether somebody edited the name of its claim.
    pub(crate) misnamed: bool,
    /// Whether a migration that deletes its claim said that nothing is given up.
    pub(crate) moved_away: bool,
    pub(crate) complete: bool,
    pub(crate) size: u64,
    pub(crate) subuser: bool,
    /// The last rotation, and the numbers of the keys it retired.
    pub(crate) rotation: Option<(String, BTreeSet<u32>)>,
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    /// Whether its bucket was set aside: kept for good, or left for a look into it.
    pub(crate) kept: bool,
    pub(crate) left: bool,
    /// Whether more buckets are kept than can be listed.
    pub(crate) everything: bool,
    /// Objects in the bucket when the gateway was asked to purge it, and whether that is long ago.
    pub(crate) purge: Option<(u64, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserState {
    pub(crate) owner: Option<String>,
    pub(crate) suspended: bool,
    pub(crate) buckets: Option<u32>,
    pub(crate) size: Option<u64>,
    /// The subusers, and whether they may do what they should.
    pub(crate) subusers: BTreeMap<String, bool>,
    /// Numbers of the keys, by subuser; the user's own are under the empty name.
    pub(crate) keys: BTreeMap<String, BTreeSet<u32>>,
    /// Objects in its bucket, if it has one.
    pub(crate) stored: Option<u64>,
    /// Whether the gateway tells that there are none, until it is asked to remove the bucket.
    pub(crate) miscounted: bool,
    /// Whether an S3Bucket of that bucket said `retain` when it went.
    pub(crate) retained: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SecretState {
    pub(crate) owner: Option<String>,
    /// Number of the key it hands out; `None` is something else.
    pub(crate) key: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct World {
    pub(crate) claim: Option<ClaimState>,
    pub(crate) terminating: bool,
    pub(crate) record: Option<RecordState>,
    pub(crate) user: Option<UserState>,
    pub(crate) secrets: BTreeMap<String, SecretState>,
    /// An S3Bucket needs the user.
    pub(crate) in_use: bool,
    pub(crate) class: ClassState,
    /// Size granted; what Ceph gives is never more.
    pub(crate) granted: Option<u64>,
    /// Size booked beyond that: so much is stored.
    pub(crate) overrun: Option<u64>,
    pub(crate) keys_used: u32,
    /// Somebody took away our finalizer or our record, and not all is put right yet: what cannot be found again meanwhile is theirs to
    /// clean up.
    pub(crate) is_lost: bool,
    /// A class's claim went with its namespace, and nobody had deleted it before: nothing of it is given up.
    pub(crate) is_spared: bool,
    /// Whether the binding of a class is there that wants what it stamped.
    pub(crate) bound: bool,
    /// UID of the next claim of that name.
    pub(crate) next_uid: Option<&'static str>,
}

fn class(state: ClassState) -> Class {
    Class {
        name: "gold".into(),
        endpoint: "http://rgw".into(),
        region: "eu".into(),
        tenant_prefix: "lab".into(),
        on_delete: match state {
            ClassState::Purge => OnDelete::Purge,
            ClassState::GiveUp => OnDelete::GiveUp,
            _ => OnDelete::Retain,
        },
        team_required: false,
        default_quota: QuotaAsked::default(),
    }
}

fn amount(value: u64) -> Amount {
    value.to_string().parse::<croft_core::quantity::Quantity>().unwrap().try_into().unwrap()
}

fn asked() -> QuotaAsked {
    QuotaAsked { size: Some(amount(5000)), objects: Some(amount(10)), buckets: Some(1) }
}

pub(crate) fn quota(size: u64) -> Quota {
    Quota { size: amount(size), objects: amount(10), buckets: 1 }
}

pub(crate) fn access_key(number: u32) -> String {
    format!("AK{number}")
}

/// A key with the secret the gateway makes for it.
pub(crate) fn pair(number: u32) -> KeyPair {
    KeyPair { access_key: access_key(number), secret_key: Secret::new(format!("hush{number}")) }
}

pub(crate) fn number_of(access_key: &str) -> u32 {
    access_key.trim_start_matches("AK").parse().unwrap()
}

pub(crate) fn user() -> CephUser {
    CephUser { tenant: "lab_team_a".into(), id: "data".into() }
}

fn target(name: &str, uid: &str) -> Target {
    Target { namespace: "team-a".into(), name: name.into(), uid: uid.into(), resource_version: "1".into() }
}

fn bucket(is_there: bool) -> BTreeSet<String> {
    is_there.then(|| BUCKET.to_owned()).into_iter().collect()
}

/// The display name of a user by its owner, and back.
pub(crate) fn shown(owner: &str) -> String {
    match owner {
        THEIRS => "data in team-a.okd4-main".to_owned(),
        EARLIER | NEW => display_name("team-a", "data", owner),
        other => display_name("team-b", "data", other),
    }
}

pub(crate) fn owner_shown(name: &str) -> Option<String> {
    [THEIRS, EARLIER, NEW].into_iter().find(|owner| shown(owner) == name).map(str::to_owned)
}

fn identity(uid: &str) -> ClaimIdentity {
    ClaimIdentity { namespace: "team-a".into(), name: "data".into(), uid: uid.into() }
}

impl ClaimState {
    pub(crate) fn new(uid: &'static str) -> Self {
        Self {
            uid,
            deleting: false,
            finalizer: false,
            valid: true,
            subuser: false,
            rotate: None,
            stamped: false,
            status: Status::default(),
        }
    }

    pub(crate) fn seen(&self) -> Claim {
        let spec = Spec {
            class: None,
            read_secret: "read".into(),
            admin_secret: "admin".into(),
            subusers: self.subuser.then(|| SUBUSER.to_owned()).into_iter().collect(),
            quota: asked(),
        };
        Claim {
            target: target("data", self.uid),
            generation: 1,
            deleting: self.deleting,
            finalizer: self.finalizer,
            rotate: self.rotate.map(str::to_owned),
            spec: if self.valid { Ok(spec) } else { Err(vec![Problem::new("spec.quota.size", "is negative")]) },
            status: self.status.clone(),
        }
    }
}

impl World {
    /// A new claim and nothing else.
    pub(crate) fn new(class: ClassState) -> Self {
        Self {
            claim: Some(ClaimState::new(NEW)),
            terminating: false,
            record: None,
            user: None,
            secrets: BTreeMap::new(),
            in_use: false,
            class,
            granted: None,
            overrun: None,
            keys_used: 0,
            is_lost: false,
            is_spared: false,
            bound: false,
            next_uid: None,
        }
    }

    pub(crate) fn books(&self) -> Books {
        let granted = self.granted.map(|size| Units::from(&quota(size)));
        let stored = self.overrun.map(|size| Units { size, ..Units::default() });
        let form = self.claim.as_ref().map(|claim| claim.seen().form());
        Books { entry: granted.map(|_| Entry { form, granted, stored, pending: None }), exceeded: None }
    }

    /// Size that counts.
    pub(crate) fn booked(&self) -> Option<u64> {
        self.granted.map(|granted| granted.max(self.overrun.unwrap_or_default()))
    }

    pub(crate) fn seen(&self) -> Observed {
        let (claim, record) =
            (self.claim.as_ref().map(ClaimState::seen), self.record.as_ref().map(RecordState::observe));
        let backend = match self.class {
            ClassState::Gone => Backend::NoClass(NoClass::NotFound("gold".into())),
            ClassState::Unreachable => {
                Backend::Unreachable(Failure::new(FailureClass::Transient, "GatewayUnreachable", "no route"))
            }
            state => Backend::Reached(Box::new(Reached {
                class: class(state),
                allowed: state != ClassState::NotAllowed,
                in_a_team: false,
                user: self.user.as_ref().filter(|_| may_exist(claim.as_ref(), record.as_ref())).map(UserState::observe),
            })),
        };
        let binding = self.bound.then_some(BindingSeen { deleting: false, keeps: true });
        let is_stamped = self.claim.as_ref().is_some_and(|claim| claim.stamped);
        Observed {
            claim,
            namespace_terminating: self.terminating,
            namespace_uid: Some(NAMESPACE.to_owned()),
            stamp: is_stamped.then_some(Stamp(binding)),
            record,
            is_held: false,
            buckets: bucket(self.in_use),
            backend,
            books: self.books(),
            secrets: self.secrets.iter().map(|(name, secret)| secret.observe(name, self.class)).collect(),
            lost: BTreeSet::new(),
            fresh: FreshKeys(access_key(self.keys_used + 1)),
        }
    }

    pub(crate) fn is_reached(&self) -> bool {
        !matches!(self.class, ClassState::Gone | ClassState::Unreachable)
    }

    /// Changes the claim. It is gone once it is deleted and nothing holds it, and what it owns goes with it.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut ClaimState)) {
        self.claim.as_mut().map(change);
        if let Some(claim) = self.claim.take_if(|claim| claim.deleting && !claim.finalizer) {
            self.secrets.retain(|_, secret| secret.owner.as_deref() != Some(claim.uid));
        }
    }
}

impl RecordState {
    /// Made by hand: it names nobody.
    pub(crate) fn foreign() -> Self {
        Self {
            uid: 3,
            claim: None,
            offered: false,
            taken_over_from: None,
            returns: false,
            adopts: false,
            misnamed: false,
            moved_away: false,
            complete: true,
            size: 5000,
            subuser: false,
            rotation: None,
            phase: Phase::Bound,
            reason: None,
            kept: false,
            left: false,
            everything: false,
            purge: None,
        }
    }

    pub(crate) fn of(body: &RecordBody) -> Self {
        let claim = body.claim.as_ref().unwrap();
        let uid = [EARLIER, NEW].into_iter().find(|uid| *claim == identity(uid));
        assert!(body.user.is_none() || body.user == Some(user()));
        Self {
            uid: 0,
            claim: Some(uid.expect("one of ours")),
            taken_over_from: body.taken_over_from.as_deref().and_then(owner_shown),
            moved_away: body.moved_away,
            complete: body.user.is_some(),
            size: body.quota.map_or(0, |quota| quota.size.whole()),
            subuser: body.subusers.contains(SUBUSER),
            rotation: body
                .rotation
                .as_ref()
                .map(|rotation| (rotation.asked.clone(), rotation.retired.iter().map(|key| number_of(key)).collect())),
            ..Self::foreign()
        }
    }

    pub(crate) fn observe(&self) -> Record {
        let some = |text: &str| self.complete.then(|| text.to_owned());
        Record {
            uid: self.uid.to_string(),
            resource_version: "1".into(),
            body: RecordBody {
                claim: self.claim.filter(|_| !self.misnamed).map(identity),
                offered_to: self.offered.then(|| Place { namespace: "team-a".into(), name: "data".into() }),
                taken_over_from: self.taken_over_from.as_deref().map(shown),
                held_by: None,
                moved_away: self.moved_away,
                class: Some("gold".into()),
                user: self.complete.then(user),
                read_secret: some("read"),
                admin_secret: some("admin"),
                subusers: self.subuser.then(|| SUBUSER.to_owned()).into_iter().collect(),
                rotation: self.rotation.as_ref().map(|(asked, retired)| Rotation {
                    asked: asked.clone(),
                    retired: retired.iter().map(|number| access_key(*number)).collect(),
                }),
                quota: Some(quota(self.size)),
            },
            phase: self.reason.as_ref().map(|_| self.phase),
            reason: self.reason.clone(),
            set_aside: SetAside { everything: self.everything, kept: bucket(self.kept), left: bucket(self.left) },
            purge: self.purge.map(|(objects, long_ago)| PurgeSeen {
                purge: Purge { buckets: 1, bucket: BUCKET.to_owned(), objects },
                age: if long_ago { STILL } else { Duration::ZERO },
            }),
            returns_to: self.returns.then(|| NAMESPACE.to_owned()),
            adopts: self.adopts,
            misnamed: self
                .claim
                .filter(|_| self.misnamed)
                .map(|uid| ClaimIdentity { name: "other".into(), ..identity(uid) }),
        }
    }
}

impl UserState {
    pub(crate) fn counted(&self) -> Option<u64> {
        self.stored.map(|objects| if self.miscounted { 0 } else { objects })
    }

    /// As the claim of that UID asks for it.
    pub(crate) fn exactly(uid: &str) -> Self {
        Self {
            owner: Some(uid.to_owned()),
            suspended: false,
            buckets: Some(1),
            size: Some(5000),
            stored: None,
            miscounted: false,
            retained: false,
            subusers: BTreeMap::from([(READONLY_SUBUSER.to_owned(), true)]),
            keys: BTreeMap::from([(String::new(), [1].into()), (READONLY_SUBUSER.to_owned(), [2].into())]),
        }
    }

    /// The same with the subuser the claim may name.
    pub(crate) fn with_subuser(mut self) -> Self {
        self.subusers.insert(SUBUSER.to_owned(), true);
        self.keys.insert(SUBUSER.to_owned(), [3].into());
        self
    }

    /// Takes away a subuser and its keys.
    pub(crate) fn remove_subuser(&mut self, name: &str) {
        self.subusers.remove(name);
        self.keys.remove(name);
    }

    fn observe(&self) -> User {
        let named = |name: &String| (!name.is_empty()).then(|| name.clone());
        let access = |name: &str, right| match (name, right) {
            (READONLY_SUBUSER, true) => Access::Read,
            (SUBUSER, true) => Access::Nothing,
            _ => Access::Other,
        };
        let keys = self.keys.iter().flat_map(|(name, numbers)| numbers.iter().map(move |number| (name, *number)));
        User {
            display_name: self.owner.as_deref().map_or_else(|| "Bob".to_owned(), shown),
            suspended: self.suspended,
            max_buckets: self.buckets,
            quota: UserQuota { enabled: self.size.is_some(), size: self.size, objects: self.size.map(|_| 10) },
            buckets: self.counted().map(|objects| (BUCKET.to_owned(), objects)).into_iter().collect(),
            others_buckets: BTreeSet::new(),
            gone_buckets: BTreeSet::new(),
            unlisted: None,
            usage: Some(Usage {
                size: self.counted().unwrap_or_default() * 1000,
                objects: self.counted().unwrap_or_default(),
                buckets: Some(self.stored.map_or(0, |_| 1)),
            }),
            subusers: self.subusers.iter().map(|(name, right)| (name.clone(), access(name, *right))).collect(),
            keys: keys.map(|(name, number)| Key { subuser: named(name), pair: pair(number) }).collect(),
        }
    }
}

impl SecretState {
    pub(crate) fn observe(&self, name: &str, state: ClassState) -> SecretSeen {
        let data = self.key.map(|key| secret_contents(&class(state), &pair(key))).unwrap_or_default();
        let owner_claim = self.owner.as_deref().map(|owner| if owner == "uid-other" { "other" } else { "data" });
        SecretSeen {
            target: target(name, "uid-secret"),
            owner: self.owner.clone(),
            owner_claim: owner_claim.map(str::to_owned),
            labelled: true,
            immutable: false,
            data,
        }
    }
}
