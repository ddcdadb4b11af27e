//! What a decision about a claim looks at.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    super::{
        CephUser, Class, ClassChoice, KeyPair, NoClass, OnDelete, Place, Problem, Quota, QuotaAsked, Reason, Stamp,
        Target, Usage,
        ledger::{Entry, Exceeded, Form, Settled, Units},
        names_claim, owner_in, tenant,
    },
    identity::{FreshKeys, Rotation},
    set_aside::SetAside,
    step::{Mark, Version},
    take_down::STILL,
};
use crate::{conditions::Conditions, plan::Failure, secret::Secret};

/// Everything known about one claim, by its namespace and name. Either the claim or its record may be missing.
#[derive(Clone, Debug)]
pub struct Observed {
    /// If missing, its absence was asked of the API server itself, not of a cache.
    pub claim: Option<Claim>,
    pub namespace_terminating: bool,
    /// UID of the namespace, if it is there.
    pub namespace_uid: Option<String>,
    /// Told if a NamespaceClass put the claim there.
    pub stamp: Option<Stamp>,
    /// The S3User called after the claim.
    pub record: Option<Record>,
    /// Whether the migration its record is held by is there: one that is gone holds nobody.
    pub is_held: bool,
    /// S3Buckets of this claim that may still have a bucket in Ceph: those with our finalizer.
    pub buckets: BTreeSet<String>,
    pub backend: Backend,
    pub books: Books,
    /// The Secrets the claim names, and those it owns.
    pub secrets: Vec<SecretSeen>,
    /// Keys the gateway lists and nobody gets in with: it lost the way from the key to the user.
    pub lost: BTreeSet<String>,
    /// Used only where keys have to be made.
    pub fresh: FreshKeys,
}

/// What the books of its team say about the claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    pub entry: Option<Entry>,
    /// What it asks for is neither promised nor free.
    pub exceeded: Option<Exceeded>,
}

impl Books {
    /// Whether Ceph may be given this much already, and no promise for the claim as it was seen is left. What it was granted at an
    /// earlier time will do as long as it `has` that much: more may be about to be given back by who has not seen the claim since.
    pub(crate) fn grant(&self, form: &Form, units: Units, has: Option<Quota>) -> bool {
        let has_it = has.is_some_and(|has| units.is_within(Units::from(&has)));
        self.entry.as_ref().is_some_and(|entry| {
            let is_granted = entry.granted.is_some_and(|granted| units.is_within(granted));
            is_granted && !entry.promises(form) && (has_it || entry.is_granted_to(form))
        })
    }

    /// The entry, if it has more than this.
    pub(crate) fn beyond(&self, units: Units) -> Option<&Entry> {
        self.entry.as_ref().filter(|entry| entry.has().is_some_and(|has| !has.is_within(units)))
    }

    /// The entry, and what is to be booked instead; see [`Entry::settled`].
    pub(crate) fn settled(&self, has: Units, stored: Units) -> Option<(&Entry, Settled)> {
        let entry = self.entry.as_ref()?;
        Some((entry, entry.settled(has, stored)?))
    }

    /// The entry, if it grants anything.
    pub(crate) fn granting(&self) -> Option<&Entry> {
        self.entry.as_ref().filter(|entry| entry.granted.is_some())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub target: Target,
    pub generation: i64,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// Value of the annotation that asks for new keys.
    pub rotate: Option<String>,
    pub spec: Result<Spec, Vec<Problem>>,
    pub status: Status,
}

impl Observed {
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.record.as_ref().and_then(|record| record.body.held_by.as_ref()).filter(|_| self.is_held)
    }

    /// Whether the claim goes because we take it away. In a namespace that goes its binding goes as well, before it or after it.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.stamp.as_ref().is_some_and(|stamp| self.namespace_terminating || stamp.is_withdrawn())
    }

    /// Whether there may be a user of the claim although it has no record and nobody can be asked: it is granted before it is made,
    /// and what it is granted is given back after it is gone. Where there is a record, the user is of the claim it names.
    pub(super) fn may_have_user(&self, claim: &Claim) -> bool {
        self.record.is_none() && (claim.status.s3_user.is_some() || self.books.granting().is_some())
    }

    /// Whether the claim may have the user of a record that is not its own: an administrator says so, or its class took the
    /// claim before away and brings this one.
    pub(super) fn may_bind(&self, claim: &Claim, record: &Record) -> bool {
        record.is_meant_for(claim) || record.belongs_to(&claim.target.uid) || self.comes_back(record)
    }

    pub(super) fn comes_back(&self, record: &Record) -> bool {
        let is_same_namespace = record.returns_to.is_some() && record.returns_to == self.namespace_uid;
        let is_kept = record.phase == Some(Phase::Released) && record.purge.is_none();
        is_same_namespace && is_kept && self.stamp.as_ref().is_some_and(Stamp::stands)
    }
}

impl Claim {
    pub fn form(&self) -> Form {
        Form { uid: self.target.uid.clone(), generation: self.generation }
    }

    /// Whether what is asked for was there when it was last looked at: nobody needs to look again because of a restart.
    pub fn is_settled(&self) -> bool {
        let is_current = self.status.observed_generation == Some(self.generation);
        let is_rotated = self.rotate.is_none() || self.rotate == self.status.observed_key_rotation;
        is_current && is_rotated && self.finalizer && !self.deleting && self.status.conditions.is_true("Ready")
    }

    /// Whether it stays and may not have what it asks for.
    pub fn lacks_something(&self) -> bool {
        !self.deleting && !self.is_settled()
    }
}

/// A valid spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub class: Option<String>,
    pub read_secret: String,
    pub admin_secret: String,
    /// More identities below the user, by name.
    pub subusers: BTreeSet<String>,
    pub quota: QuotaAsked,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub observed_generation: Option<i64>,
    pub class: Option<String>,
    /// Name of the S3User.
    pub s3_user: Option<String>,
    pub quota: Option<Quota>,
    pub subusers: BTreeSet<String>,
    /// The wish for new keys that was last carried out.
    pub observed_key_rotation: Option<String>,
    pub used: Option<Usage>,
    pub conditions: Conditions,
}

/// An S3User.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub uid: String,
    pub resource_version: String,
    pub body: RecordBody,
    pub phase: Option<Phase>,
    /// Reason of its condition `Ready`.
    pub reason: Option<String>,
    pub set_aside: SetAside,
    pub purge: Option<PurgeSeen>,
    /// UID of the namespace whose class took the claim away. If it brings the claim again, that one gets the user. Of a vault, of the
    /// namespace it is or was in: if it is made there again, that one gets the user.
    pub returns_to: Option<String>,
    /// Whether an administrator says that a user of ceph-s3-operator is to be taken over.
    pub adopts: bool,
    /// Told instead of a claim where a reference names another one than the S3User is called after: somebody edited it.
    pub misnamed: Option<ClaimIdentity>,
}

/// How far the removal of a user's buckets with all their objects has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    /// Buckets to remove, in all.
    pub buckets: usize,
    /// The one the gateway was asked to remove last, and what it held when we last looked.
    pub bucket: String,
    pub objects: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeSeen {
    pub purge: Purge,
    /// How long ago that was written.
    pub age: Duration,
}

impl Record {
    pub fn claim_uid(&self) -> Option<&str> {
        self.body.claim.as_ref().map(|claim| claim.uid.as_str())
    }

    /// Whether the record was made for this very claim, not for an earlier one of the same name.
    pub fn is_of(&self, claim: &Claim) -> bool {
        self.claim_uid() == Some(&claim.target.uid)
    }

    /// Whether it is this claim's, or an administrator lets the claim of this name have it.
    pub fn is_meant_for(&self, claim: &Claim) -> bool {
        self.is_of(claim) || self.body.offered_to.as_ref() == Some(&claim.target.place())
    }

    /// Whether it is of the claim or vault of this UID, even if its reference says the wrong name.
    pub(crate) fn belongs_to(&self, uid: &str) -> bool {
        self.claim_uid() == Some(uid) || self.misnamed.as_ref().is_some_and(|named| named.uid == uid)
    }

    /// Whether its user, seen under this display name, is on its way to the claim it names: recorded before it is begun.
    pub(crate) fn takes_over(&self, display_name: &str) -> bool {
        self.body.claim.is_some() && self.body.taken_over_from.as_deref() == Some(display_name)
    }

    /// Whether nothing is to be done for it while there is no claim of its name: what was kept is given up where its class, if that is
    /// there, gives everything up.
    pub fn rests_without_claim(&self, on_delete: Option<OnDelete>) -> bool {
        let is_kept =
            self.phase == Some(Phase::Released) && self.reason.as_deref() == Some(Reason::BucketsKept.as_str());
        (is_kept || self.body.offered_to.is_some()) && on_delete != Some(OnDelete::GiveUp)
    }

    /// Whose the user was that is offered to whichever claim comes, where everything is given up and none will: its display name says so,
    /// and one that says something else is not ours. Where there is no user, nobody has to be known.
    pub(crate) fn last_of(&self, reached: &Reached) -> Option<ClaimIdentity> {
        let gives_up = reached.class.on_delete == OnDelete::GiveUp;
        let Place { namespace, name } = self.body.offered_to.clone().filter(|_| gives_up)?;
        let uid = match reached.user.as_ref().map(|user| &user.display_name) {
            Some(shown) => owner_in(shown).filter(|_| names_claim(shown, &namespace, &name))?.to_owned(),
            None => String::new(),
        };
        Some(ClaimIdentity { namespace, name, uid })
    }

    /// Whether one of these buckets was to be purged a moment ago.
    pub(crate) fn has_just_purged(&self, gone: &BTreeSet<String>) -> bool {
        self.purge.as_ref().is_some_and(|asked| asked.age < STILL && gone.contains(&asked.purge.bucket))
    }

    /// Whether it was made, but nothing was ever said on it: what became of its user's buckets before is not known.
    pub(super) fn is_blank(&self) -> bool {
        self.phase.is_none()
    }

    /// Whether what became of its user's buckets was noted on it: not where somebody has it name another claim.
    pub(super) fn knows_of_its_buckets(&self) -> bool {
        !self.is_blank() && self.misnamed.is_none()
    }

    /// Whether a key is not to be used any more.
    pub(crate) fn retires(&self, access_key: &str) -> bool {
        self.body.rotation.as_ref().is_some_and(|rotation| rotation.retired.contains(access_key))
    }

    pub fn version(&self) -> Version {
        Version { uid: self.uid.clone(), resource_version: self.resource_version.clone() }
    }

    /// Whether its status says the same; the wording does not count.
    pub(crate) fn bears(&self, mark: &Mark) -> bool {
        self.phase == Some(mark.phase)
            && self.reason.as_deref() == Some(mark.reason.as_str())
            && self.set_aside == mark.set_aside
            && self.purge.as_ref().map(|seen| &seen.purge) == mark.purge.as_ref()
            && self.returns_to == mark.returns_to
    }
}

/// What an S3User says. Ours say everything; one made by others may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBody {
    pub claim: Option<ClaimIdentity>,
    /// Told instead of a claim where a reference has no UID: whichever claim is there may have it.
    pub offered_to: Option<Place>,
    /// Display name the user bore when it was given to the claim, until it bears the claim's own.
    pub taken_over_from: Option<String>,
    /// The migration that moves its buckets.
    pub held_by: Option<Holder>,
    /// Whether a migration moved its buckets and deletes the claim: what is there then nobody gave up.
    pub moved_away: bool,
    pub class: Option<String>,
    pub user: Option<CephUser>,
    pub read_secret: Option<String>,
    pub admin_secret: Option<String>,
    /// The subusers made for the claim, recorded before they are made: only these are ever removed.
    pub subusers: BTreeSet<String>,
    /// The last change of keys.
    pub rotation: Option<Rotation>,
    pub quota: Option<Quota>,
}

/// A migration that nobody else is to work against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimIdentity {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Bound,
    /// The claim was deleted, and what it has in Ceph goes as its class says.
    Removing,
    /// The claim is gone; the user is suspended and its buckets are kept.
    Released,
}

/// The class and what its gateway says about the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    NoClass(NoClass),
    /// The class is there, its gateway could not be asked.
    Unreachable(Failure),
    Reached(Box<Reached>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    pub class: Class,
    /// Whether the claim's namespace may use the class.
    pub allowed: bool,
    /// Whether the claim's namespace belongs to a team.
    pub in_a_team: bool,
    /// The Ceph user of the claim's name, whosever it is. Taken for absent where [`may_exist`](super::may_exist) says that it cannot be there.
    pub user: Option<User>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Says whose it is.
    pub display_name: String,
    pub suspended: bool,
    /// `None` is unlimited.
    pub max_buckets: Option<u32>,
    pub quota: UserQuota,
    pub subusers: BTreeMap<String, Access>,
    pub keys: Vec<Key>,
    /// Its buckets and how many objects are in each. Told only where [`inquiry`](super::inquiry()) asks for them; otherwise none.
    pub buckets: BTreeMap<String, u64>,
    /// Those of them that another user has: a gateway that died in the middle may leave such a list.
    pub others_buckets: BTreeSet<String>,
    /// Those of them that are not there any more, which is left of a gateway that died in the middle, too: nothing takes them off the list.
    pub gone_buckets: BTreeSet<String>,
    /// Why its buckets could not be told although they were asked for.
    pub unlisted: Option<Failure>,
    /// Told where the buckets are.
    pub usage: Option<Usage>,
}

impl User {
    /// Whether it has the bucket, and not only on its list.
    pub(crate) fn has_bucket(&self, name: &str) -> bool {
        self.buckets.contains_key(name) && !self.gone_buckets.contains(name)
    }

    /// What is told of a user that stays, and of why it does not go.
    pub(crate) fn noting_gone(&self, told: String) -> String {
        if self.gone_buckets.is_empty() {
            return told;
        }
        let gone = self.gone_buckets.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        format!(
            "{told}; Ceph lists some that are not there any more, and does not remove the user before somebody takes them off: {gone}"
        )
    }

    pub fn is_of(&self, claim_uid: &str) -> bool {
        owner_in(&self.display_name) == Some(claim_uid)
    }

    /// The key of the user itself or of a subuser. Of several, the one already published, else the first by name.
    pub fn key(&self, subuser: Option<&str>, published: Option<&str>) -> Option<&KeyPair> {
        one_of(self.keys_of(subuser), published)
    }

    /// A key of the user itself that is to stay: none that is retired on `record` or `lost`.
    pub fn lasting_key(&self, record: &Record, lost: &BTreeSet<String>) -> Option<&KeyPair> {
        let stays = |key: &String| !lost.contains(key) && !record.retires(key);
        self.keys_of(None).filter(|pair| stays(&pair.access_key)).min_by_key(|pair| &pair.access_key)
    }

    pub(crate) fn keys_of(&self, subuser: Option<&str>) -> impl Iterator<Item = &KeyPair> + Clone {
        self.keys.iter().filter(move |key| key.subuser.as_deref() == subuser).map(|key| &key.pair)
    }
}

/// Of several keys the one already published, else the first by name.
pub(super) fn one_of<'k>(
    keys: impl Iterator<Item = &'k KeyPair> + Clone,
    published: Option<&str>,
) -> Option<&'k KeyPair> {
    let told = keys.clone().find(|pair| Some(pair.access_key.as_str()) == published);
    told.or_else(|| keys.min_by_key(|pair| &pair.access_key))
}

/// A user's quota as Ceph has it; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserQuota {
    pub enabled: bool,
    pub size: Option<u64>,
    pub objects: Option<u64>,
}

impl UserQuota {
    pub fn of(quota: &Quota) -> Self {
        Self { enabled: true, size: Some(quota.size.whole()), objects: Some(quota.objects.whole()) }
    }
}

/// What a subuser may do with all buckets of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Nothing,
    Read,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// `None` is the user itself.
    pub subuser: Option<String>,
    pub pair: KeyPair,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSeen {
    pub target: Target,
    /// UID of the controlling owner.
    pub owner: Option<String>,
    /// Name of the S3UserClaim that is its controlling owner.
    pub owner_claim: Option<String>,
    /// Whether it carries the label by which we watch it.
    pub labelled: bool,
    /// Whether somebody said that its contents are never to change.
    pub immutable: bool,
    pub data: BTreeMap<String, Secret>,
}

/// The class to look in: the one recorded when the user was made, else the one asked for, else the default one. So a change
/// of default never moves a user.
pub fn class_of<'a>(claim: Option<&'a Claim>, record: Option<&'a Record>) -> ClassChoice<'a> {
    let recorded = record.and_then(|record| record.body.class.as_deref());
    let asked = || claim.and_then(|claim| claim.spec.as_ref().ok()).and_then(|spec| spec.class.as_deref());
    recorded.or_else(asked).map_or(ClassChoice::Default, ClassChoice::Named)
}

/// What is said where a class serves teams only.
pub fn no_team(namespace: &str) -> String {
    format!(
        "failed to find team, namespace {namespace} doesn't have the team label: snappcloud.io/team; ask the administrator \
         to set it, or name another class"
    )
}

/// The Ceph user of the claim `namespace/name`: the recorded one, else the one its class gives.
pub fn ceph_user(class: &Class, namespace: &str, name: &str, record: Option<&Record>) -> CephUser {
    let named = || CephUser { tenant: tenant(&class.tenant_prefix, namespace), id: name.to_owned() };
    record.and_then(|record| record.body.user.clone()).unwrap_or_else(named)
}

/// What the claim asks for; what it does not ask for stays as it was granted, and is granted as the class has it now.
pub fn wanted(asked: &QuotaAsked, record: Option<&Record>, class_default: &QuotaAsked) -> Quota {
    let before = record.and_then(|record| record.body.quota);
    before.map_or_else(|| asked.or_default(class_default), |before| asked.or(&before))
}
