//! The calls a plan may make. Each is one request, and each says what must hold for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::{
    super::{
        CephUser, KeyPair, Target,
        claim::{UserQuota, Version},
    },
    settings::{LifecycleRule, Setting, Versioning},
};
use crate::plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails if the S3Bucket is not the one seen.
    AddFinalizer {
        bucket: Target,
    },
    /// Fails if another user has a bucket of that name.
    CreateBucket {
        name: String,
        user: CephUser,
        key: KeyPair,
    },
    /// Puts the whole policy.
    PutPolicy {
        name: String,
        key: KeyPair,
        policy: String,
    },
    /// Says on the S3Bucket what it has a say in. Fails if the S3Bucket is not the one seen.
    NoteSettings {
        bucket: Target,
        settings: BTreeSet<Setting>,
    },
    SetQuota {
        name: String,
        user: CephUser,
        quota: UserQuota,
    },
    SetVersioning {
        name: String,
        key: KeyPair,
        versioning: Versioning,
    },
    /// Puts these rules in the place of all of ours.
    PutLifecycle {
        name: String,
        key: KeyPair,
        rules: BTreeMap<String, LifecycleRule>,
    },
    /// Fails if there are objects in the bucket.
    DeleteBucket {
        name: String,
        user: CephUser,
    },
    /// Says on the S3User what becomes of the bucket. Fails if the S3User is not the one seen.
    Note {
        record: String,
        seen: Version,
        bucket: String,
        note: Note,
    },
    /// Fails if the S3Bucket is not the one seen.
    RemoveFinalizer {
        bucket: Target,
    },
}

impl Step {
    /// Whether the gateway is asked with the key of the bucket's owner.
    pub fn uses_a_key(&self) -> bool {
        match self {
            Step::CreateBucket { .. }
            | Step::PutPolicy { .. }
            | Step::SetVersioning { .. }
            | Step::PutLifecycle { .. } => true,
            Step::AddFinalizer { .. }
            | Step::NoteSettings { .. }
            | Step::SetQuota { .. }
            | Step::DeleteBucket { .. }
            | Step::Note { .. }
            | Step::RemoveFinalizer { .. } => false,
        }
    }
}

/// What becomes of a bucket without its S3Bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// It stays, whatever becomes of the claim.
    Kept,
    /// It goes if it turns out to be empty, and stays otherwise.
    Left,
    /// There is an S3Bucket for it again.
    TakenBack,
}

impl Note {
    pub fn told(self) -> &'static str {
        match self {
            Note::Kept => "it is kept",
            Note::Left => "it is left behind, and goes if it is empty",
            Note::TakenBack => "it has its S3Bucket again, or is elsewhere",
        }
    }
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateBucket { .. } => "CreateBucket",
            Step::PutPolicy { .. } => "PutPolicy",
            Step::NoteSettings { .. } => "NoteSettings",
            Step::SetQuota { .. } => "SetQuota",
            Step::SetVersioning { .. } => "SetVersioning",
            Step::PutLifecycle { .. } => "PutLifecycle",
            Step::DeleteBucket { .. } => "DeleteBucket",
            Step::Note { .. } => "Note",
            Step::RemoveFinalizer { .. } => "RemoveFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { bucket } => {
                write!(out, "add the finalizer to S3Bucket {bucket}: a bucket is to be made")
            }
            Step::CreateBucket { name, user, .. } => write!(out, "create bucket {name} as Ceph user {user}"),
            Step::PutPolicy { name, .. } => {
                write!(out, "set the policy of bucket {name}: our statements are not in it as they should be")
            }
            Step::NoteSettings { bucket, .. } => {
                write!(out, "note on S3Bucket {bucket} which settings it has a say in")
            }
            Step::SetQuota { name, quota, .. } if quota.enabled => write!(out, "set the quota of bucket {name}"),
            Step::SetQuota { name, .. } => write!(out, "take the quota off bucket {name}"),
            Step::SetVersioning { name, versioning: Versioning::Enabled, .. } => {
                write!(out, "keep the versions of bucket {name}")
            }
            Step::SetVersioning { name, .. } => write!(out, "suspend the versions of bucket {name}"),
            Step::PutLifecycle { name, rules, .. } => {
                write!(out, "set {} lifecycle rules of bucket {name}", rules.len())
            }
            Step::DeleteBucket { name, user } => {
                write!(out, "delete bucket {name} of Ceph user {user}, if it is empty")
            }
            Step::Note { record, bucket, note, .. } => {
                write!(out, "note on S3User {record} about bucket {bucket}: {}", note.told())
            }
            Step::RemoveFinalizer { bucket } => write!(out, "remove the finalizer from S3Bucket {bucket}"),
        }
    }
}
