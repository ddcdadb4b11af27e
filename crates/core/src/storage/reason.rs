//! Why something is as it is: stable words for programs.

use super::bucket::BUCKET_NOT_EMPTY;
use crate::conditions::Readiness;
use crate::plan::{Failure, FailureClass};
pub use crate::problem::Problem;

/// Reasons in conditions and events of whatever has storage. A failed call brings its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Provisioned,
    Working,
    InvalidSpec,
    ClassNotFound,
    NoDefaultClass,
    InvalidClass,
    ClassDeleting,
    ClassNotReady,
    PrefixOverlap,
    AnotherCluster,
    MissingCapabilities,
    Reached,
    NotAllowed,
    TeamMissing,
    QuotaExceeded,
    WithinLimits,
    BooksFull,
    UserTaken,
    UserSuspended,
    KeyLost,
    RecordTaken,
    SecretTaken,
    BucketsInUse,
    BucketsKept,
    ClaimGone,
    WaitingForClaim,
    BucketTaken,
    BucketLost,
    BucketNotEmpty,
    Migrating,
    Migrated,
    Refused,
    UnknownSubuser,
    PolicyUnreadable,
    LocationTaken,
    LocationNotReady,
    StorageDisabled,
    Deleting,
}

impl Reason {
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Provisioned => "Provisioned",
            Reason::Working => "Working",
            Reason::InvalidSpec => "InvalidSpec",
            Reason::ClassNotFound => "ClassNotFound",
            Reason::NoDefaultClass => "NoDefaultClass",
            Reason::InvalidClass => "InvalidClass",
            Reason::ClassDeleting => "ClassDeleting",
            Reason::ClassNotReady => "ClassNotReady",
            Reason::PrefixOverlap => "PrefixOverlap",
            Reason::AnotherCluster => "AnotherCluster",
            Reason::MissingCapabilities => "MissingCapabilities",
            Reason::Reached => "Reached",
            Reason::NotAllowed => "NotAllowed",
            Reason::TeamMissing => "TeamMissing",
            Reason::QuotaExceeded => "QuotaExceeded",
            Reason::WithinLimits => "WithinLimits",
            Reason::BooksFull => "BooksFull",
            Reason::UserTaken => "UserTaken",
            Reason::UserSuspended => "UserSuspended",
            Reason::KeyLost => "KeyLost",
            Reason::RecordTaken => "RecordTaken",
            Reason::SecretTaken => "SecretTaken",
            Reason::BucketsInUse => "BucketsInUse",
            Reason::BucketsKept => "BucketsKept",
            Reason::ClaimGone => "ClaimGone",
            Reason::WaitingForClaim => "WaitingForClaim",
            Reason::BucketTaken => "BucketTaken",
            Reason::BucketLost => "BucketLost",
            Reason::BucketNotEmpty => BUCKET_NOT_EMPTY,
            Reason::Migrating => "Migrating",
            Reason::Migrated => "Migrated",
            Reason::Refused => "Refused",
            Reason::UnknownSubuser => "UnknownSubuser",
            Reason::PolicyUnreadable => "PolicyUnreadable",
            Reason::LocationTaken => "LocationTaken",
            Reason::LocationNotReady => "LocationNotReady",
            Reason::StorageDisabled => "StorageDisabled",
            Reason::Deleting => "Deleting",
        }
    }

    pub fn ready(self, message: impl Into<String>) -> Readiness {
        Readiness::Ready { reason: self.as_str(), message: message.into() }
    }

    pub fn progressing(self, message: impl Into<String>) -> Readiness {
        Readiness::Progressing { reason: self.as_str(), message: message.into() }
    }

    pub fn stalled(self, message: impl Into<String>) -> Readiness {
        Readiness::Stalled { reason: self.as_str(), message: message.into() }
    }
}

/// What a failed call means for the object it was made for.
pub(crate) fn readiness_of(failure: &Failure) -> Readiness {
    let (reason, message) = (failure.reason, failure.message.clone());
    match failure.class {
        FailureClass::Early { .. } | FailureClass::Stale | FailureClass::Transient => {
            Readiness::Progressing { reason, message }
        }
        FailureClass::Forbidden | FailureClass::Rejected => Readiness::Stalled { reason, message },
    }
}
