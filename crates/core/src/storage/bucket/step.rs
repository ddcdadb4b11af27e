//! The calls a plan may make. Each is one request, and each says what must hold for it.

use std::fmt;

use super::super::{CephUser, KeyPair, Target};
use crate::plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails if the S3Bucket is not the one seen.
    AddFinalizer { bucket: Target },
    /// Fails if another user has a bucket of that name.
    CreateBucket { name: String, user: CephUser, key: KeyPair },
    /// Fails if there are objects in the bucket; with `or_leave` whatever the gateway refuses counts as done.
    DeleteBucket { name: String, user: CephUser, key: KeyPair, or_leave: bool },
    /// Fails if the S3Bucket is not the one seen.
    RemoveFinalizer { bucket: Target },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateBucket { .. } => "CreateBucket",
            Step::DeleteBucket { .. } => "DeleteBucket",
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
            Step::DeleteBucket { name, user, or_leave: false, .. } => {
                write!(out, "delete bucket {name} as Ceph user {user}, if it is empty")
            }
            Step::DeleteBucket { name, user, or_leave: true, .. } => {
                write!(
                    out,
                    "delete bucket {name} as Ceph user {user}, or leave it if it is not empty: the namespace goes"
                )
            }
            Step::RemoveFinalizer { bucket } => write!(out, "remove the finalizer from S3Bucket {bucket}"),
        }
    }
}
