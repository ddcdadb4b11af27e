//! Object storage on Ceph: what becomes of claims and of buckets.
//!
//! What holds whatever happens between two steps (checked from every small world in `tests/storage*.rs`):
//! - A Ceph user, Secret, S3User or bucket that is not proven to be this claim's is never changed.
//! - Intent is recorded first: finalizer, then S3User, then the Ceph user. So whatever exists in Ceph can be found again.
//! - The gateway is the source of truth for keys: a Secret is published from what the gateway has, never the other way.
//! - Data goes only when the class says `Purge`, or when nothing is stored.
//! - No finalizer of ours holds up a namespace that is being deleted.

pub mod bucket;
pub mod claim;
mod credentials;
pub mod ledger;
mod names;
mod quota;
mod reason;

pub use credentials::{KeyPair, SECRET_KEYS, secret_contents};
pub use names::{CephUser, Target, display_name, owner_in, record_name, tenant};
pub use quota::{Amount, AmountError, Quota, QuotaAsked};
pub use reason::{Problem, Reason};

/// The subuser every Ceph user has, behind the read Secret.
pub const READONLY_SUBUSER: &str = "readonly";

/// What becomes of a user that still has buckets when its claim is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// The user is suspended and kept, and so is its data.
    #[default]
    Retain,
    /// The user goes with all its data.
    Purge,
}

/// An administrator's offer of storage: what decisions need to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub name: String,
    pub endpoint: String,
    pub region: String,
    pub tenant_prefix: String,
    pub on_delete: OnDelete,
    pub default_quota: QuotaAsked,
}

/// Why there is no class to work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoClass {
    NotFound(String),
    NoDefault,
    SeveralDefaults(Vec<String>),
    Invalid { class: String, problems: Vec<Problem> },
}

impl NoClass {
    pub fn reason(&self) -> Reason {
        match self {
            NoClass::NotFound(_) => Reason::ClassNotFound,
            NoClass::NoDefault => Reason::NoDefaultClass,
            NoClass::SeveralDefaults(_) => Reason::SeveralDefaultClasses,
            NoClass::Invalid { .. } => Reason::InvalidClass,
        }
    }

    pub fn message(&self) -> String {
        match self {
            NoClass::NotFound(name) => format!("S3Class {name} does not exist; ask the administrator to make it"),
            NoClass::NoDefault => {
                "no s3ClassName is given and no S3Class is marked as default; name a class in the claim".to_owned()
            }
            NoClass::SeveralDefaults(names) => format!(
                "no s3ClassName is given and several S3Classes are marked as default ({}); name a class in the claim",
                names.join(", ")
            ),
            NoClass::Invalid { class, problems } => {
                format!("S3Class {class} cannot be used: {}", Problem::list(problems))
            }
        }
    }
}

/// Which class a claim is to be looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassChoice<'a> {
    Named(&'a str),
    Default,
}
