//! What a decision about a migration looks at.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::{
    CephUser, KeyPair, NoClass, Place, Target, Usage,
    claim::{Claim, Record, User},
};
use crate::{conditions::Conditions, plan::Failure};

#[derive(Clone, Debug)]
pub struct Observed {
    pub migration: Migration,
    pub current: Side,
    pub target: Side,
    pub gateway: Gateway,
}

/// A UserMigration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    pub target: Target,
    pub generation: i64,
    pub deleting: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub current: Place,
    pub target: Place,
    pub buckets: Vec<String>,
    pub delete_current: bool,
}

/// `status` of a UserMigration, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: Option<i64>,
    pub phase: Option<Phase>,
    /// As `1/2`.
    pub moved: Option<String>,
    pub start_time: Option<String>,
    pub completion_time: Option<String>,
    pub buckets: Vec<Move>,
    pub conditions: Conditions,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// How far one bucket is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Move {
    pub name: String,
    pub state: MoveState,
    /// By which the bucket is known again wherever it is: Ceph keeps it when the owner changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The policy the bucket had, until the new one is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MoveState {
    #[default]
    Pending,
    PolicyRemoved,
    Linked,
    /// Its new owner was refused by a policy that came with it: it goes back.
    Returning,
    Moved,
    Failed,
}

impl MoveState {
    /// Whether nothing more is done about the bucket.
    pub(super) fn is_over(self) -> bool {
        matches!(self, MoveState::Moved | MoveState::Failed)
    }
}

/// A bucket that came to a user from others. Recorded before it comes: what keeps those others out is made from this, never from
/// what somebody may have written into a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedIn {
    pub name: String,
    /// Another bucket of that name is not meant.
    pub id: String,
    /// Tenants whose users had it.
    pub former: BTreeSet<String>,
}

impl MovedIn {
    /// The tenants whose users had the bucket of this id.
    pub fn former_of<'a>(all: &'a [Self], id: &str) -> Option<&'a BTreeSet<String>> {
        all.iter().find(|it| it.id == id).map(|it| &it.former)
    }
}

/// One of the two users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Whether its namespace is there to stay.
    pub namespace: bool,
    pub claim: Option<Claim>,
    pub record: Option<Record>,
    /// S3Buckets of the claim that may have a bucket in Ceph.
    pub buckets: BTreeSet<String>,
    /// What its S3User says of buckets that came from others.
    pub moved_in: Vec<MovedIn>,
}

impl Side {
    /// The record, if it is that of the claim.
    pub(super) fn bound(&self) -> Option<(&Claim, &Record)> {
        let (claim, record) = (self.claim.as_ref()?, self.record.as_ref()?);
        record.is_of(claim).then_some((claim, record))
    }

    /// Whether what comes to it has somebody to belong to: its namespace and its claim are there to stay.
    pub(super) fn stays(&self) -> bool {
        self.namespace && self.bound().is_some_and(|(claim, _)| !claim.deleting)
    }

    /// What its buckets are worked on with; `lost`: keys nobody gets in with.
    pub fn key<'u>(&self, user: &'u User, lost: &BTreeSet<String>) -> Option<&'u KeyPair> {
        self.record.as_ref().and_then(|record| user.lasting_key(record, lost))
    }

    pub fn is_of(&self, user: &CephUser) -> bool {
        self.user() == Some(user)
    }

    pub(super) fn user(&self) -> Option<&CephUser> {
        self.record.as_ref().and_then(|record| record.body.user.as_ref())
    }
}

/// The gateway that serves both, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gateway {
    /// It is not known yet whom to ask.
    Unasked,
    NoClass(NoClass),
    Unreachable(Failure),
    /// There are two.
    Apart,
    Reached(Box<Reached>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The users of both sides, with their buckets where [`look`](super::look) says so.
    pub current: Option<User>,
    pub target: Option<User>,
    /// The buckets that [`look`](super::look) names.
    pub buckets: Vec<BucketSeen>,
    /// Keys of the two that the gateway lists and nobody gets in with.
    pub lost: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSeen {
    pub name: String,
    /// What has that name in the tenants of the two users.
    pub in_current: Option<InCeph>,
    pub in_target: Option<InCeph>,
    /// As long as it is its first owner's.
    pub policy: PolicySeen,
    /// The S3Buckets of that name in the two namespaces.
    pub current_object: Option<Object>,
    pub target_object: Option<Object>,
}

/// The policy of a bucket, as its owner gets to see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PolicySeen {
    #[default]
    None,
    Text(String),
    /// Why it cannot be read.
    Unreadable(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InCeph {
    pub id: String,
    pub owner: CephUser,
    /// What is in it.
    pub stored: Usage,
}

/// An S3Bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub target: Target,
    pub claim: String,
    pub deleting: bool,
    pub finalizer: bool,
    /// Subusers it lets use the bucket.
    pub bound: BTreeSet<String>,
}
