//! What a decision about a bucket looks at.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    super::{
        CephUser, KeyPair, NoClass, Problem, Target, Usage,
        claim::{Claim, Phase, Record, SetAside, User, Version},
        lost_keys::Standing,
    },
    grants::Bindings,
    settings::{Setting, Settings, State},
};
use crate::{
    conditions::Conditions,
    plan::{Failure, FailureClass},
};

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Observed {
    pub bucket: Option<Bucket>,
    pub namespace_terminating: bool,
    /// What stamped the S3Bucket no longer wants it: nobody asked for this bucket to go.
    pub unwanted: bool,
    /// Its class gives everything up: the bucket goes with its user, whatever is in it.
    pub given_up: bool,
    /// The S3User of its claim's name, where that is one of ours.
    pub record: Option<RecordSeen>,
    /// Whether an S3User has that name that is not one of ours: somebody edited it, or made it.
    pub record_is_anothers: bool,
    /// Whether its claim is there to stay: a record that is missing is made anew.
    pub record_comes: bool,
    /// The migration that is moving buckets of its user.
    pub held_by: Option<String>,
    pub owner: Owner,
    /// Subusers of its claim.
    pub subusers: BTreeSet<String>,
    /// Looked at only if the bucket is to stay.
    pub state: Option<State>,
}

/// What matters of an S3User to a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSeen {
    pub name: String,
    pub version: Version,
    pub set_aside: SetAside,
    /// Whether its user may have buckets at all.
    pub allows_buckets: bool,
}

impl RecordSeen {
    /// Unless it names no claim: then it is not ours.
    pub fn of(name: String, record: &Record) -> Option<Self> {
        let is_ours = record.body.claim.is_some() || record.body.offered_to.is_some();
        let allows_buckets = record.body.quota.is_none_or(|quota| quota.buckets > 0);
        is_ours.then(|| Self { name, version: record.version(), set_aside: record.set_aside.clone(), allows_buckets })
    }
}

/// An S3Bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub target: Target,
    pub generation: i64,
    /// How long it has been in deletion, if it is.
    pub deleting: Option<Duration>,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// Told apart from all else it asks for: it holds also if that cannot be done.
    pub deletion: Deletion,
    pub spec: Result<Spec, Vec<Problem>>,
    pub status: Status,
}

impl Bucket {
    /// Whether what is asked for was there when it was last looked at: nobody needs to look again because of a restart.
    pub fn is_settled(&self) -> bool {
        let is_current = self.status.observed_generation == Some(self.generation);
        is_current && self.finalizer && self.deleting.is_none() && self.status.conditions.is_true("Ready")
    }
}

/// A valid spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub claim: String,
    pub bindings: Bindings,
    pub settings: Settings,
}

/// What becomes of the bucket in Ceph when the S3Bucket is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    #[default]
    Delete,
    Retain,
}

/// `status` of an S3Bucket, as far as this file writes it, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: Option<i64>,
    pub created: bool,
    /// Text of what is wrong, if something is.
    pub reason: Option<String>,
    /// The policy the bucket has.
    pub policy: Option<String>,
    pub used: Option<Usage>,
    /// Settings the S3Bucket has a say in, noted before they are set.
    pub managed_settings: BTreeSet<Setting>,
    pub conditions: Conditions,
}

/// The user behind the claim the S3Bucket names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Neither the claim nor an S3User of it exists: nothing can be in Ceph.
    Nobody,
    /// The claim is there, its user is not (yet), for the reason given.
    NotReady(String),
    /// There is a user, but its class is gone: only an administrator can help.
    NoClass(NoClass),
    /// The gateway could not be asked.
    Unreachable(Failure),
    Ready {
        user: CephUser,
        key: KeyPair,
        found: Found,
    },
    /// For an S3Bucket that goes. It needs no key, so that it can go whatever became of its user.
    Removable {
        user: CephUser,
        found: Found,
        empty: bool,
    },
}

/// Where to ask for the user behind a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup<'a> {
    pub class: &'a str,
    pub user: &'a CephUser,
    /// UID of the claim the user must be tagged with.
    pub claim_uid: &'a str,
    claim_is_gone: bool,
    removing: bool,
    record: &'a Record,
}

impl<'a> Lookup<'a> {
    /// Where the cluster says the user is; otherwise what that makes of the owner. To remove a bucket the record alone will
    /// do: its claim may be gone, and there may be another one of its name.
    pub fn new(claim: Option<&Claim>, record: Option<&'a Record>, bucket: &Bucket) -> Result<Self, Box<Owner>> {
        let removing = bucket.deleting.is_some();
        let serves = |record: &Record, claim: &Claim| record.is_of(claim) || (removing && bucket.status.created);
        let not_ready = |why: &str| Err(Box::new(Owner::NotReady(why.to_owned())));
        match (claim, record) {
            (None, None) => Err(Box::new(Owner::Nobody)),
            (Some(_), None) => not_ready("its user is not made yet"),
            (Some(claim), Some(record)) if !serves(record, claim) => {
                not_ready("the user of its name is of an earlier claim")
            }
            (Some(claim), _) if claim.deleting && !removing => not_ready("it is being deleted"),
            (None, Some(record)) if record.phase == Some(Phase::Released) && !removing => not_ready(
                "it is gone, and its user is suspended; an administrator can give that to a claim of its name that is made anew",
            ),
            (claim, Some(record)) => match (&record.body.class, &record.body.user, record.claim_uid()) {
                (Some(class), Some(user), Some(claim_uid)) => {
                    let claim_is_gone = claim.is_none_or(|claim| !record.is_of(claim));
                    Ok(Self { class, user, claim_uid, claim_is_gone, removing, record })
                }
                _ => not_ready("its user is not made yet"),
            },
        }
    }

    /// What the owner is taken for after a look at the bucket that failed, with how the owner's key stands if that was refused; nothing
    /// where only another look can tell. `owner` is as it is by what is known now of keys that are lost.
    pub fn after(failure: Failure, standing: Option<Standing>, owner: Owner) -> Result<Owner, Failure> {
        match standing {
            // It lasts: nobody is left to believe that all is well.
            Some(Standing::Doubted) => Ok(Owner::Unreachable(Failure { class: FailureClass::Transient, ..failure })),
            Some(Standing::Lost) => Ok(owner),
            Some(Standing::New) | None => Err(failure),
        }
    }

    /// The subusers the claim names or, where it cannot be read, those made for it.
    pub fn subusers(claim: Option<&Claim>, record: Option<&Record>) -> BTreeSet<String> {
        let named = claim.and_then(|claim| claim.spec.as_ref().ok()).map(|spec| &spec.subusers);
        named.or_else(|| record.map(|record| &record.body.subusers)).cloned().unwrap_or_default()
    }

    /// What the gateway's answer makes of the owner; `empty`: there is nothing in the bucket, `lost`: keys nobody gets in with.
    pub fn owner(&self, seen: Option<&User>, found: Found, empty: bool, lost: &BTreeSet<String>) -> Owner {
        match seen {
            None if self.claim_is_gone => Owner::Nobody,
            None => Owner::NotReady("its user is not made yet".to_owned()),
            Some(user) if !user.is_of(self.claim_uid) => {
                Owner::NotReady("the user of its name is not its own".to_owned())
            }
            Some(_) if self.removing => Owner::Removable { user: self.user.clone(), found, empty },
            Some(user) => match user.lasting_key(self.record, lost) {
                None if !lost.is_empty() => {
                    Owner::NotReady("the gateway lost the key of its user, and a new one is made".to_owned())
                }
                None => Owner::NotReady("its user has no key yet".to_owned()),
                Some(key) => Owner::Ready { user: self.user.clone(), key: key.clone(), found },
            },
        }
    }
}

/// The bucket of that name in the user's tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Absent,
    Ours,
    Foreign { owner: CephUser },
}
