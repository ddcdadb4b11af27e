//! Which subusers may use a bucket.

use std::collections::{BTreeMap, BTreeSet};

use super::observed::Spec;

/// The Sid of grants, which is the one ceph-s3-operator gave them: its own are taken over.
pub const GRANT: &str = "BucketAllow";
/// In front of all other Sids of ours.
pub const OURS: &str = "Croft";

/// What a binding lets a subuser do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    Read,
    /// Reading too.
    Write,
}

/// Who is bound how.
pub type Bindings = BTreeMap<String, Grant>;

/// The subusers by what they may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    pub read: BTreeSet<String>,
    pub write: BTreeSet<String>,
    /// All of them, bound or not.
    pub everybody: BTreeSet<String>,
}

/// A bucket's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySeen {
    /// As it is and as it should be: both as text, in one form.
    Read { current: Option<String>, wanted: String },
    /// Why it cannot be read.
    Unreadable(String),
}

impl PolicySeen {
    /// The policy to put, if it is not there.
    pub(super) fn missing(&self) -> Option<&str> {
        match self {
            PolicySeen::Read { current, wanted } if current.as_ref() != Some(wanted) => Some(wanted),
            _ => None,
        }
    }
}

impl Spec {
    /// What the subusers the claim has may do.
    pub fn grants(&self, known: &BTreeSet<String>) -> Grants {
        let of = |grant| {
            let bound = self.bindings.iter().filter(|(name, bound)| **bound == grant && known.contains(*name));
            bound.map(|(name, _)| name.clone()).collect()
        };
        Grants { read: of(Grant::Read), write: of(Grant::Write), everybody: known.clone() }
    }

    /// The bindings of subusers the claim does not have.
    pub(super) fn unknown<'a>(&'a self, known: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
        self.bindings.keys().filter(|name| !known.contains(*name)).map(String::as_str)
    }
}
