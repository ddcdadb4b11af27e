//! The calls a plan may make. Each is one request, and each says what must hold for it.

use std::{collections::BTreeMap, fmt};

use super::{
    super::{
        CephUser, Place, Reason, Target,
        ledger::{Entry, Form, Settled, Units},
    },
    observed::{Access, Phase, Purge, RecordBody, UserQuota},
    set_aside::SetAside,
};
use crate::{plan, secret::Secret};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails if the claim is not the one seen.
    AddFinalizer {
        claim: Target,
    },
    /// Fails if the books have not enough left.
    Confirm {
        claim: Target,
        generation: i64,
        units: Units,
    },
    /// Ceph has this, which is less than is booked, or more. Fails if the books were granted anew since they were seen.
    Settle {
        claim: Place,
        form: Form,
        seen: Entry,
        has: Settled,
    },
    /// Ceph has nothing any more. Fails if the books were granted anew since they were seen.
    ReleaseQuota {
        namespace: String,
        claim: String,
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
        uid: String,
        resource_version: String,
        body: RecordBody,
    },
    /// Fails if there is a user of that name.
    CreateUser {
        user: CephUser,
        display_name: String,
        max_buckets: u32,
        access_key: String,
    },
    SetBucketLimit {
        user: CephUser,
        max_buckets: u32,
    },
    SetQuota {
        user: CephUser,
        quota: UserQuota,
    },
    /// Makes a subuser with its key.
    CreateSubuser {
        user: CephUser,
        name: String,
        access: Access,
        access_key: String,
    },
    SetSubuserAccess {
        user: CephUser,
        name: String,
        access: Access,
    },
    /// Its keys go too. Done already if it is gone.
    RemoveSubuser {
        user: CephUser,
        name: String,
    },
    /// Makes a user the claim's: from now on its display name says so. With `unsuspend` it can be used again.
    TakeOverUser {
        user: CephUser,
        display_name: String,
        unsuspend: bool,
    },
    AddKey {
        user: CephUser,
        subuser: Option<String>,
        access_key: String,
    },
    /// Done already if it is gone.
    RemoveKey {
        user: CephUser,
        access_key: String,
    },
    /// Fails if there is a Secret of that name.
    CreateSecret {
        namespace: String,
        name: String,
        body: SecretBody,
    },
    /// Fails if the Secret is not the one seen.
    UpdateSecret {
        secret: Target,
        body: SecretBody,
    },
    /// Fails if the Secret is not the one seen.
    DeleteSecret {
        secret: Target,
    },
    /// Fails if the S3User is not the one seen. Not `seen`: the one this plan has just made.
    MarkRecord {
        name: String,
        seen: Option<Version>,
        mark: Mark,
    },
    SuspendUser {
        user: CephUser,
    },
    /// The gateway refuses if there are objects in the bucket.
    RemoveEmptyBucket {
        user: CephUser,
        bucket: String,
    },
    /// Removes the bucket with all its objects.
    PurgeBucket {
        user: CephUser,
        bucket: String,
    },
    /// The gateway refuses if the user has buckets.
    RemoveUser {
        user: CephUser,
    },
    /// Fails if the S3User is not the one seen.
    DeleteRecord {
        name: String,
        seen: Version,
    },
    /// Fails if the claim is not the one seen.
    RemoveFinalizer {
        claim: Target,
    },
}

impl Step {
    /// Whether the gateway must be looked at again at once: it makes a key, which is not known until it is asked, or it is to
    /// be forgotten what it has no more.
    pub(super) fn calls_for_a_look(&self) -> bool {
        matches!(
            self,
            Step::CreateUser { .. }
                | Step::CreateSubuser { .. }
                | Step::TakeOverUser { .. }
                | Step::AddKey { .. }
                | Step::RemoveSubuser { .. }
        )
    }
}

/// What a Secret of ours must hold, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretBody {
    /// Name and UID of the claim, its controlling owner.
    pub owner: (String, String),
    pub data: BTreeMap<String, Secret>,
}

/// The status of an S3User.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub phase: Phase,
    pub reason: Reason,
    pub message: String,
    pub set_aside: SetAside,
    pub purge: Option<Purge>,
    pub returns_to: Option<String>,
}

/// An S3User as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub uid: String,
    pub resource_version: String,
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
            Step::CreateUser { .. } => "CreateUser",
            Step::SetBucketLimit { .. } => "SetBucketLimit",
            Step::SetQuota { .. } => "SetQuota",
            Step::CreateSubuser { .. } => "CreateSubuser",
            Step::SetSubuserAccess { .. } => "SetSubuserAccess",
            Step::RemoveSubuser { .. } => "RemoveSubuser",
            Step::TakeOverUser { .. } => "TakeOverUser",
            Step::AddKey { .. } => "AddKey",
            Step::RemoveKey { .. } => "RemoveKey",
            Step::CreateSecret { .. } => "CreateSecret",
            Step::UpdateSecret { .. } => "UpdateSecret",
            Step::DeleteSecret { .. } => "DeleteSecret",
            Step::MarkRecord { .. } => "MarkRecord",
            Step::SuspendUser { .. } => "SuspendUser",
            Step::RemoveEmptyBucket { .. } => "RemoveEmptyBucket",
            Step::PurgeBucket { .. } => "PurgeBucket",
            Step::RemoveUser { .. } => "RemoveUser",
            Step::DeleteRecord { .. } => "DeleteRecord",
            Step::RemoveFinalizer { .. } => "RemoveFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { claim } => {
                write!(out, "add the finalizer to S3UserClaim {claim}: a user is to be made")
            }
            Step::Confirm { claim, units, .. } => write!(out, "grant S3UserClaim {claim} {units} in the books"),
            Step::Settle { claim, seen, has, .. } => out.write_str(&has.told(seen, &format!("S3UserClaim {claim}"))),
            Step::ReleaseQuota { namespace, claim, .. } => {
                write!(out, "give back the quota of S3UserClaim {namespace}/{claim}: nothing is left in Ceph")
            }
            Step::CreateRecord { name, body } => write!(out, "create S3User {name}{}", granting(body)),
            Step::UpdateRecord { name, body, .. } => write!(out, "update S3User {name}{}", granting(body)),
            Step::CreateUser { user, max_buckets, .. } => {
                write!(out, "create Ceph user {user} with at most {max_buckets} buckets")
            }
            Step::SetBucketLimit { user, max_buckets } => {
                write!(out, "let Ceph user {user} have at most {max_buckets} buckets")
            }
            Step::SetQuota { user, quota } => write!(
                out,
                "let Ceph user {user} store at most {} bytes in {} objects",
                quota.size.map_or("any number of".to_owned(), |size| size.to_string()),
                quota.objects.map_or("any number of".to_owned(), |objects| objects.to_string()),
            ),
            Step::CreateSubuser { user, name, access, .. } => {
                write!(out, "create Ceph subuser {user}:{name} that may {}", may(*access))
            }
            Step::SetSubuserAccess { user, name, access } => {
                write!(out, "let Ceph subuser {user}:{name} {}", may(*access))
            }
            Step::RemoveSubuser { user, name } => {
                write!(out, "remove Ceph subuser {user}:{name} with its keys: the claim no longer names it")
            }
            Step::TakeOverUser { user, display_name, .. } => {
                write!(out, "take over Ceph user {user}: from now on it is {display_name}")
            }
            Step::AddKey { user, subuser: None, .. } => write!(out, "add a key to Ceph user {user}"),
            Step::AddKey { user, subuser: Some(name), .. } => write!(out, "add a key to Ceph subuser {user}:{name}"),
            Step::RemoveKey { user, access_key } => {
                write!(out, "remove key {access_key} of Ceph user {user}: it is handed out to nobody")
            }
            Step::CreateSecret { namespace, name, .. } => write!(out, "create Secret {namespace}/{name}"),
            Step::UpdateSecret { secret, .. } => {
                write!(out, "update Secret {secret}: it does not hold the keys in Ceph")
            }
            Step::DeleteSecret { secret } => write!(out, "delete Secret {secret}: the claim no longer names it"),
            Step::MarkRecord { name, mark, .. } => {
                write!(out, "mark S3User {name} as {:?}: {}", mark.phase, mark.reason.as_str())
            }
            Step::SuspendUser { user } => write!(out, "suspend Ceph user {user}: its claim is gone and it has buckets"),
            Step::RemoveEmptyBucket { user, bucket } => {
                write!(out, "remove bucket {bucket} of Ceph user {user}: its claim is gone and nothing is in it")
            }
            Step::PurgeBucket { user, bucket } => write!(
                out,
                "remove bucket {bucket} of Ceph user {user} with all its objects: its claim is gone and the class says Purge"
            ),
            Step::RemoveUser { user } => {
                write!(out, "remove Ceph user {user}: its claim is gone and it has no buckets")
            }
            Step::DeleteRecord { name, .. } => write!(out, "delete S3User {name}: nothing is left in Ceph"),
            Step::RemoveFinalizer { claim } => write!(out, "remove the finalizer from S3UserClaim {claim}"),
        }
    }
}

fn granting(body: &RecordBody) -> String {
    body.quota.map_or_else(String::new, |quota| format!(" granting {quota}"))
}

fn may(access: Access) -> &'static str {
    match access {
        Access::Nothing => "do only what buckets let it",
        Access::Read => "read and nothing else",
        Access::Other => "do something else",
    }
}
