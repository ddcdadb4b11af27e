//! The calls a plan may make. Each is one request, and each says what must hold for it.

use std::fmt;

use crate::{
    backup::{Victim, ownership::Origin, velero::Fields},
    plan,
    secret::Secret,
    storage::{
        CephUser, KeyPair, Target,
        claim::{self, Mark, RecordBody, Version},
        ledger::{Entry, Settled, Units},
    },
};

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Fails if the vault is not the one seen.
    AddFinalizer {
        vault: Target,
    },
    /// Fails if the books have not enough left.
    Confirm {
        vault: Target,
        generation: i64,
        units: Units,
    },
    /// Ceph has this, which is less than is booked, or more. Fails if the books were granted anew since they were seen.
    Settle {
        vault: Target,
        generation: i64,
        seen: Entry,
        has: Settled,
    },
    /// Ceph has nothing any more. Fails if the books were granted anew since they were seen.
    ReleaseQuota {
        namespace: String,
        vault: String,
        seen: Entry,
    },
    /// Fails if there is an S3User of that name.
    CreateRecord {
        name: String,
        body: RecordBody,
    },
    /// Fails if the S3User is not the one seen.
    UpdateRecord {
        name: String,
        seen: Version,
        body: RecordBody,
    },
    /// Fails if the S3User is not the one seen.
    MarkRecord {
        name: String,
        seen: Version,
        mark: Mark,
    },
    /// Fails if the S3User is not the one seen.
    DeleteRecord {
        name: String,
        seen: Version,
    },
    /// One that is done to a Ceph user or its buckets.
    Ceph(claim::Step),
    /// Done already if the user has it.
    CreateBucket {
        user: CephUser,
        bucket: String,
        key: KeyPair,
    },
    /// Fails if there is a Secret of that name.
    CreateKeys {
        origin: Origin,
        cloud: Secret,
    },
    /// Fails if the Secret is not the one seen.
    UpdateKeys {
        keys: Target,
        origin: Origin,
        cloud: Secret,
    },
    DeleteKeys(Victim),
    /// Fails if there is a location of that name.
    CreateLocation {
        vault: Target,
        spec: Fields,
    },
    /// Fails if the location is not the one seen.
    UpdateLocation {
        location: Target,
        spec: Fields,
    },
    DeleteLocation(Victim),
    RemoveFinalizer {
        vault: Target,
    },
}

impl Step {
    /// What it makes is the gateway's, and has to be read back.
    pub(super) fn calls_for_a_look(&self) -> bool {
        matches!(self, Step::Ceph(claim::Step::CreateUser { .. } | claim::Step::AddKey { .. }))
    }
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::Confirm { .. } => "Confirm",
            Step::Settle { .. } => "Settle",
            Step::ReleaseQuota { .. } => "ReleaseQuota",
            Step::CreateRecord { .. } => "CreateRecord",
            Step::UpdateRecord { .. } => "UpdateRecord",
            Step::MarkRecord { .. } => "MarkRecord",
            Step::DeleteRecord { .. } => "DeleteRecord",
            Step::Ceph(step) => step.kind(),
            Step::CreateBucket { .. } => "CreateBucket",
            Step::CreateKeys { .. } => "CreateSecret",
            Step::UpdateKeys { .. } => "UpdateSecret",
            Step::DeleteKeys(_) => "DeleteSecret",
            Step::CreateLocation { .. } => "CreateLocation",
            Step::UpdateLocation { .. } => "UpdateLocation",
            Step::DeleteLocation(_) => "DeleteLocation",
            Step::RemoveFinalizer { .. } => "RemoveFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { vault } => {
                write!(out, "add the finalizer to BackupVault {vault}: a user is to be made")
            }
            Step::Confirm { vault, units, .. } => write!(out, "grant BackupVault {vault} {units} in the books"),
            Step::Settle { vault, seen, has, .. } => out.write_str(&has.told(seen, &format!("BackupVault {vault}"))),
            Step::ReleaseQuota { namespace, vault, .. } => {
                write!(out, "give back the quota of BackupVault {namespace}/{vault}: nothing is left in Ceph")
            }
            Step::CreateRecord { name, .. } => write!(out, "create S3User {name}"),
            Step::UpdateRecord { name, .. } => write!(out, "update S3User {name}"),
            Step::MarkRecord { name, mark, .. } => {
                write!(out, "mark S3User {name} as {:?}: {}", mark.phase, mark.reason.as_str())
            }
            Step::DeleteRecord { name, .. } => write!(out, "delete S3User {name}: nothing is left in Ceph"),
            Step::Ceph(step) => step.fmt(out),
            Step::CreateBucket { user, bucket, .. } => write!(out, "create bucket {bucket} of Ceph user {user}"),
            Step::CreateKeys { origin, .. } => write!(out, "create Secret {} for Velero", origin.nacuuid),
            Step::UpdateKeys { keys, .. } => write!(out, "update Secret {keys}: it does not hold the key in Ceph"),
            Step::DeleteKeys(Victim { name, uid }) => {
                write!(out, "delete Secret {name} (uid {uid}): its vault is gone")
            }
            Step::CreateLocation { vault, .. } => write!(out, "create NonAdminBackupStorageLocation {vault}"),
            Step::UpdateLocation { location, .. } => {
                write!(out, "update NonAdminBackupStorageLocation {location}: it is not the vault's")
            }
            Step::DeleteLocation(Victim { name, uid }) => {
                write!(out, "delete NonAdminBackupStorageLocation {name} (uid {uid}): its vault goes")
            }
            Step::RemoveFinalizer { vault } => write!(out, "remove the finalizer from BackupVault {vault}"),
        }
    }
}
