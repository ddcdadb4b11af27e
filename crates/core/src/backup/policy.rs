//! The administrator's choices, handed to every plan.

use serde::{Deserialize, Serialize};

use super::{Hosts, approval::OwnBuckets, validate::Refusal, velero::Fields};

/// What a plain API deletion of a `NonAdminBackup` does while Velero still has the backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDelete {
    /// Nothing, until the user says in the spec what is to become of the backup.
    #[default]
    Hold,
    /// The Velero Backup object goes and the stored data stays.
    Release,
}

/// What the administrator has decided for all tenants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Where Velero runs.
    pub velero_namespace: String,
    pub on_delete: OnDelete,
    pub enforced: Enforced,
    /// Kinds of storage tenants may use besides `aws`.
    pub providers: Vec<String>,
    pub hosts: Hosts,
    /// Kinds a restore brings back besides the usual ones, as `plural` or `plural.group`.
    pub restorable: Vec<String>,
    /// Whether backups may run commands in the tenant's own pods.
    pub no_hooks: bool,
    /// Whether Velero's default location is not for tenants.
    pub no_default_location: bool,
    pub own_buckets: OwnBuckets,
    pub limits: Limits,
    /// What the administrator has written down and nobody can carry out: until it is mended nothing is handed to Velero.
    pub mistake: Option<String>,
}

/// How many of a kind one namespace may have at a time, so that it cannot fill Velero's queue; 0 does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// That Velero is not done with.
    pub backups: u64,
    /// That Velero is not done with.
    pub restores: u64,
    /// Other than those of vaults.
    pub locations: u64,
    pub schedules: u64,
}

/// Too many come before it: whoever is held back goes on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldBack(pub(super) String);

impl HeldBack {
    pub(super) const REASON: &str = "LimitReached";

    /// Whether `ahead` are as many as there may be of `what`. How many more there are is not said: it would be said anew to
    /// everybody who waits whenever one goes.
    pub(super) fn by(limit: u64, ahead: u64, what: &str) -> Option<Self> {
        let message = || format!("{limit} {what} in this namespace, the limit is {limit}");
        (limit != 0 && ahead >= limit).then(|| Self(message()))
    }
}

impl Policy {
    /// Whether it is known what the administrator has decided.
    pub fn is_clear(&self) -> Result<(), Refusal> {
        let unclear = |mistake: &String| Err(Refusal::not_yet("PolicyUnclear", mistake));
        self.mistake.as_ref().map_or(Ok(()), unclear)
    }
}

/// Values the administrator has fixed: whoever says nothing gets them, whoever says otherwise is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enforced {
    pub backup: Fields,
    pub restore: Fields,
    pub location: Fields,
}
