//! The calls a plan may make. Each is one request, and each says what must hold for it.

use std::fmt;

use super::super::{CephUser, KeyPair, Target, claim::Version};
use crate::plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails if the S3Bucket is not the one seen.
    AddFinalizer { bucket: Target },
    /// Fails if another user has a bucket of that name.
    CreateBucket { name: String, user: CephUser, key: KeyPair },
    /// Fails if there are objects in the bucket.
    DeleteBucket { name: String, user: CephUser },
    /// Says on the S3User what becomes of the bucket. Fails if the S3User is not the one seen.
    Note { record: String, seen: Version, bucket: String, note: Note },
    /// Fails if the S3Bucket is not the one seen.
    RemoveFinalizer { bucket: Target },
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

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateBucket { .. } => "CreateBucket",
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
            Step::DeleteBucket { name, user } => {
                write!(out, "delete bucket {name} of Ceph user {user}, if it is empty")
            }
            Step::Note { record, bucket, note, .. } => {
                let note = match note {
                    Note::Kept => "it is kept",
                    Note::Left => "it is left behind, and goes if it is empty",
                    Note::TakenBack => "it has its S3Bucket again",
                };
                write!(out, "note on S3User {record} about bucket {bucket}: {note}")
            }
            Step::RemoveFinalizer { bucket } => write!(out, "remove the finalizer from S3Bucket {bucket}"),
        }
    }
}
