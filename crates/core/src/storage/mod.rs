//! Object storage on Ceph: what becomes of claims and of buckets.
//!
//! What holds whatever happens between two steps (checked from every small world in `tests/storage*.rs`):
//! - A Ceph user, Secret, S3User or bucket that is not proven to be this claim's is never changed.
//! - Intent is recorded first: finalizer, then S3User, then the Ceph user. So whatever exists in Ceph can be found again.
//! - The gateway is the source of truth for keys: a Secret is published from what the gateway has, never the other way.
//! - Data goes only when the class says `Purge`, or when nothing is stored.
//! - No finalizer of ours holds up a namespace that is being deleted.

pub mod bookkeeping;
pub mod bucket;
pub mod claim;
pub mod class;
mod credentials;
pub mod door;
pub mod ledger;
pub mod lost_keys;
pub mod migration;
mod names;
mod quota;
mod reason;
mod stamp;
mod usage;
pub mod used;

pub use credentials::{KeyPair, SECRET_KEYS, credentials_file, secret_contents};
pub use names::{
    CephUser, Place, Target, claim_of_record, display_name, is_of_ceph_s3_operator, names_claim, owner_in, record_name,
    tenant,
};
pub use quota::{Amount, AmountError, Quota, QuotaAsked};
pub(crate) use reason::readiness_of;
pub use reason::{Problem, Reason};
pub use stamp::{BindingSeen, Stamp};
pub use usage::Usage;

use std::time::Duration;

use crate::conditions::Readiness;

/// The subuser every Ceph user has, behind the read Secret.
pub const READONLY_SUBUSER: &str = "readonly";

/// Annotation of an S3Class by which an administrator says in which Ceph its users are: its id, or the endpoint where that is not told.
pub const CONFIRM_CLUSTER: &str = "s3.snappcloud.io/confirm-cluster";

/// On an S3Class, by an uninstallation that takes all data with it; see [`OnDelete::GiveUp`].
pub const GIVE_UP: &str = "s3.snappcloud.io/give-up";

/// What a person must put right in Ceph is looked at again after this long: Ceph tells nobody.
pub(crate) const RECHECK: Duration = Duration::from_secs(60);

/// What becomes of a user that still has buckets when its claim is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// The user is suspended and kept, and so is its data.
    #[default]
    Retain,
    /// The user goes with all its data.
    Purge,
    /// The same, whatever it was promised before: buckets that were to be retained, and those of who was let go.
    GiveUp,
}

/// An administrator's offer of storage: what decisions need to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    pub name: String,
    pub endpoint: String,
    pub region: String,
    pub tenant_prefix: String,
    pub on_delete: OnDelete,
    /// Whether it serves only namespaces that belong to a team.
    pub team_required: bool,
    pub default_quota: QuotaAsked,
}

/// Why there is no class to work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoClass {
    /// The operator runs without storage.
    Disabled,
    NotFound(String),
    NoDefault,
    Invalid {
        class: String,
        problems: Vec<Problem>,
    },
    /// It is being deleted and serves only whom it has.
    Going(String),
    /// Its gateway cannot be worked with, or is being looked at.
    NotReady {
        class: String,
        why: String,
    },
}

impl NoClass {
    pub fn reason(&self) -> Reason {
        match self {
            NoClass::Disabled => Reason::StorageDisabled,
            NoClass::NotFound(_) => Reason::ClassNotFound,
            NoClass::NoDefault => Reason::NoDefaultClass,
            NoClass::Invalid { .. } => Reason::InvalidClass,
            NoClass::Going(_) => Reason::ClassDeleting,
            NoClass::NotReady { .. } => Reason::ClassNotReady,
        }
    }

    pub fn message(&self) -> String {
        match self {
            NoClass::Disabled => {
                "the operator runs without its storage part; ask the administrator to enable it".to_owned()
            }
            NoClass::NotFound(name) => format!("S3Class {name} does not exist; ask the administrator to make it"),
            NoClass::NoDefault => {
                "no s3ClassName is given and no S3Class is marked as default; name a class in the claim".to_owned()
            }
            NoClass::Invalid { class, problems } => {
                format!("S3Class {class} cannot be used: {}", Problem::list(problems))
            }
            NoClass::Going(class) => format!("S3Class {class} is being deleted; name another class in the claim"),
            NoClass::NotReady { class, why } => format!("S3Class {class} is not ready: {why}"),
        }
    }

    /// What it means for whoever needs the class.
    pub fn readiness(&self) -> Readiness {
        match self {
            NoClass::NotReady { .. } => self.reason().progressing(self.message()),
            _ => self.reason().stalled(self.message()),
        }
    }
}

/// Which class a claim is to be looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassChoice<'a> {
    Named(&'a str),
    Default,
}
