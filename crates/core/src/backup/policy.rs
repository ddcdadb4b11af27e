//! The administrator's choices, handed to every plan.

use serde::{Deserialize, Serialize};

use super::{Hosts, approval::OwnBuckets, velero::Fields};

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
}

/// Values the administrator has fixed: whoever says nothing gets them, whoever says otherwise is refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Enforced {
    pub backup: Fields,
    pub restore: Fields,
    pub location: Fields,
}
