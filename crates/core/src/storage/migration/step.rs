//! The calls a plan may make. Each is one request, and each says what must hold for it.

use std::fmt;

use super::{
    super::{CephUser, KeyPair, Place, Target, bucket::Note, claim::Version},
    observed::MovedIn,
};
use crate::plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails if the migration is not the one seen.
    AddFinalizer {
        migration: Target,
    },
    /// Makes a claim like another one. Fails if there is a claim of that name.
    CreateClaim {
        like: Place,
        claim: Place,
    },
    /// From now on nobody else works on this user's buckets. Fails if the S3User is not the one seen.
    Hold {
        record: String,
        seen: Version,
    },
    /// Says on the S3User which of its buckets came from others, and from whom. Fails if the S3User is not the one seen.
    Remember {
        record: String,
        seen: Version,
        moved_in: Vec<MovedIn>,
    },
    /// Says on the migration which policy the bucket has, before it goes. Fails if the migration is not the one seen.
    SavePolicy {
        bucket: String,
        policy: String,
    },
    DeletePolicy {
        bucket: String,
        user: CephUser,
        key: KeyPair,
    },
    /// Gives the bucket of that name in a tenant to another user. Fails if the user's tenant has a bucket of that name that is
    /// another one.
    LinkBucket {
        tenant: String,
        bucket: String,
        id: String,
        to: CephUser,
    },
    PutPolicy {
        bucket: String,
        user: CephUser,
        key: KeyPair,
        policy: String,
    },
    /// Sets the bucket's lifecycle again as it is: the gateway knows by its owner which buckets it has to look after.
    RenewLifecycle {
        bucket: String,
        user: CephUser,
        key: KeyPair,
    },
    /// Has the gateway count what the user has now: its quota is checked against that, and a bucket that is linked is not counted.
    CountUsage {
        user: CephUser,
    },
    /// Says on the S3User what becomes of the bucket. Fails if the S3User is not the one seen.
    Note {
        record: String,
        seen: Version,
        bucket: String,
        note: Note,
    },
    /// Makes an S3Bucket like another one, for another claim. Fails if there is one of that name.
    CreateObject {
        like: Target,
        claim: Place,
    },
    /// Fails if the S3Bucket is not the one seen.
    DeleteObject {
        object: Target,
    },
    /// Its bucket is elsewhere: nothing is left to do for it. Fails if the S3Bucket is not the one seen.
    ReleaseObject {
        object: Target,
    },
    /// Says on the S3User that nothing is given up when its claim goes. Fails if the S3User is not the one seen.
    GiveUpNothing {
        record: String,
        seen: Version,
    },
    /// Fails if the claim is not the one seen.
    DeleteClaim {
        claim: Target,
    },
    /// Fails if the S3User is not the one seen.
    LetGo {
        record: String,
        seen: Version,
    },
    /// Fails if the migration is not the one seen.
    RemoveFinalizer {
        migration: Target,
    },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateClaim { .. } => "CreateClaim",
            Step::Hold { .. } => "Hold",
            Step::Remember { .. } => "Remember",
            Step::SavePolicy { .. } => "SavePolicy",
            Step::DeletePolicy { .. } => "DeletePolicy",
            Step::LinkBucket { .. } => "LinkBucket",
            Step::PutPolicy { .. } => "PutPolicy",
            Step::RenewLifecycle { .. } => "RenewLifecycle",
            Step::CountUsage { .. } => "CountUsage",
            Step::Note { .. } => "Note",
            Step::CreateObject { .. } => "CreateObject",
            Step::DeleteObject { .. } => "DeleteObject",
            Step::ReleaseObject { .. } => "ReleaseObject",
            Step::GiveUpNothing { .. } => "GiveUpNothing",
            Step::DeleteClaim { .. } => "DeleteClaim",
            Step::LetGo { .. } => "LetGo",
            Step::RemoveFinalizer { .. } => "RemoveFinalizer",
        }
    }

    fn needs(&self, earlier: &Self) -> bool {
        !matches!((self, earlier), (Step::CountUsage { .. }, Step::RenewLifecycle { .. }))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { migration } => write!(out, "add the finalizer to UserMigration {}", migration.name),
            Step::CreateClaim { like, claim } => write!(out, "create S3UserClaim {claim} like {like}"),
            Step::Hold { record, .. } => write!(out, "hold S3User {record}: its buckets are to be moved"),
            Step::Remember { record, .. } => write!(out, "note on S3User {record} who had the buckets that come"),
            Step::SavePolicy { bucket, .. } => write!(out, "note the policy of bucket {bucket}"),
            Step::DeletePolicy { bucket, user, .. } => {
                write!(
                    out,
                    "delete the policy of bucket {bucket} as Ceph user {user}: it may name what no longer holds"
                )
            }
            Step::LinkBucket { tenant, bucket, to, .. } => {
                write!(out, "link bucket {tenant}/{bucket} to Ceph user {to}")
            }
            Step::PutPolicy { bucket, user, .. } => {
                write!(out, "set the policy of bucket {bucket} as Ceph user {user}")
            }
            Step::RenewLifecycle { bucket, user, .. } => {
                write!(out, "set the lifecycle of bucket {bucket} again as Ceph user {user}")
            }
            Step::CountUsage { user } => write!(out, "have counted what Ceph user {user} has"),
            Step::Note { record, bucket, note, .. } => {
                write!(out, "note on S3User {record} about bucket {bucket}: {}", note.told())
            }
            Step::CreateObject { like, claim } => {
                write!(out, "create S3Bucket {}/{} of claim {} like {like}", claim.namespace, like.name, claim.name)
            }
            Step::DeleteObject { object } => write!(out, "delete S3Bucket {object}: its bucket is elsewhere"),
            Step::ReleaseObject { object } => write!(out, "remove the finalizer from S3Bucket {object}"),
            Step::GiveUpNothing { record, .. } => {
                write!(out, "note on S3User {record} that whatever is made now is kept when its claim goes")
            }
            Step::DeleteClaim { claim } => write!(out, "delete S3UserClaim {claim}: it has no bucket left"),
            Step::LetGo { record, .. } => write!(out, "let go of S3User {record}"),
            Step::RemoveFinalizer { migration } => {
                write!(out, "remove the finalizer from UserMigration {}", migration.name)
            }
        }
    }
}
