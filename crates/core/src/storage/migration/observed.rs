//! What a decision about a migration looks at.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::{
    CephUser, NoClass, Place, Target, Usage,
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
    Moved,
    Failed,
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
}

impl Side {
    /// The record, if it is that of the claim.
    pub(super) fn bound(&self) -> Option<(&Claim, &Record)> {
        let (claim, record) = (self.claim.as_ref()?, self.record.as_ref()?);
        record.is_of(claim).then_some((claim, record))
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
    /// The users of both sides, with their buckets.
    pub current: Option<User>,
    pub target: Option<User>,
    /// The buckets that [`to_look_at`](super::to_look_at) names.
    pub buckets: Vec<BucketSeen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSeen {
    pub name: String,
    /// What has that name in the tenants of the two users.
    pub in_current: Option<InCeph>,
    pub in_target: Option<InCeph>,
    /// Its policy, wherever the bucket is.
    pub policy: Option<String>,
    /// The S3Buckets of that name in the two namespaces.
    pub current_object: Option<Object>,
    pub target_object: Option<Object>,
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
