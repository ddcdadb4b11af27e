//! What a decision about a bucket looks at.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::{
    CephUser, KeyPair, NoClass, Problem, Target,
    claim::{Claim, Record, User},
};
use crate::{conditions::Conditions, plan::Failure};

#[derive(Clone, Debug)]
pub struct Observed {
    pub bucket: Option<Bucket>,
    pub namespace_terminating: bool,
    pub owner: Owner,
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
    pub deletion: Deletion,
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
}

/// Where to ask for the user behind a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup<'a> {
    pub class: &'a str,
    pub user: &'a CephUser,
    /// UID of the claim the user must be tagged with.
    pub claim_uid: &'a str,
    claim_is_gone: bool,
}

impl<'a> Lookup<'a> {
    /// Where the cluster says the user is; otherwise what that makes of the owner. The record alone will do: a bucket can be
    /// removed although its claim is gone. `removing`: the S3Bucket itself is being deleted.
    pub fn new(claim: Option<&Claim>, record: Option<&'a Record>, removing: bool) -> Result<Self, Box<Owner>> {
        let not_ready = |why: &str| Err(Box::new(Owner::NotReady(why.to_owned())));
        match (claim, record) {
            (None, None) => Err(Box::new(Owner::Nobody)),
            (Some(_), None) => not_ready("its user is not made yet"),
            (Some(claim), Some(record)) if !record.is_of(claim) => not_ready("the user of its name is not its own"),
            (Some(claim), _) if claim.deleting && !removing => not_ready("it is being deleted"),
            (claim, Some(record)) => match (&record.body.class, &record.body.user, record.claim_uid()) {
                (Some(class), Some(user), Some(claim_uid)) => {
                    Ok(Self { class, user, claim_uid, claim_is_gone: claim.is_none() })
                }
                _ => not_ready("its user is not made yet"),
            },
        }
    }

    /// What the gateway's answer makes of the owner.
    pub fn owner(&self, seen: Option<&User>, found: Found) -> Owner {
        match seen {
            None if self.claim_is_gone => Owner::Nobody,
            None => Owner::NotReady("its user is not made yet".to_owned()),
            Some(user) if !user.is_of(self.claim_uid) => {
                Owner::NotReady("the user of its name is not its own".to_owned())
            }
            Some(user) => match user.key(None, None) {
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
