//! What is observed about a binding, its class and the objects in its namespace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::{
    namespaces::{
        blueprint::Misfit,
        inventory::Status,
        manifest::{Identity, Rendered, digest},
        params::Texts,
        witness::{Care, Witness},
    },
    problem::{MOST_PROBLEMS, Problem},
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
pub struct Namespace {
    pub name: String,
    pub uid: String,
    /// Being deleted: its objects go with it.
    pub terminating: bool,
    /// It has no class label any more.
    pub unlabelled: bool,
    /// Its label names another class, which exists.
    pub relabelled: bool,
    /// It belongs to the cluster: what it has from before stays, and it gets no other class.
    pub system: bool,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binding {
    pub uid: String,
    /// Its resourceVersion.
    pub version: String,
    pub generation: i64,
    pub class: String,
    pub deleting: bool,
    pub status: Status,
}

#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one for each look, and nearly always the large one")]
pub enum ClassSeen {
    Present(Class),
    /// Not in the cache, and a live read says so as well.
    Gone,
    /// The class exists but cannot be read: change nothing.
    #[default]
    Unreadable,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    pub name: String,
    pub uid: String,
    pub generation: i64,
    /// The revision of the class this is, where it is known.
    pub revision: Option<String>,
    /// Why nothing is done about the class for now.
    pub withheld: Option<Withheld>,
    /// The objects for this namespace.
    pub items: Vec<Rendered>,
    /// A class with problems changes nothing anywhere.
    pub problems: Vec<Problem>,
    /// What of it cannot be made in this namespace.
    pub misfits: Vec<Misfit>,
    /// Values of its inputs in force here.
    pub params: Texts,
    /// Values the namespace gives that cannot be in force.
    pub refused_params: Vec<Problem>,
    pub policy: Policy,
    /// Only the operator may change what it sets.
    pub protect: bool,
    /// Labels and annotations for the Namespace itself.
    pub namespace_metadata: NamespaceMetadata,
    /// Being deleted, but held by our finalizer.
    pub deleting: bool,
    /// The kinds its status lists: the watches cover what is made of them.
    pub recorded_kinds: BTreeSet<KindName>,
}

/// Why a class changes nothing in a namespace although nothing is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// It was not let in yet: see [`crate::namespaces::rollout`].
    Preparing,
    /// What the namespace has of it is not known any more.
    Lost { revision: String },
}

impl Class {
    /// Whether an object is wanted, or may be once everything fits.
    pub fn may_want(&self, identity: &Identity) -> bool {
        self.items.iter().any(|item| item.identity == *identity)
            || self.misfits.iter().any(|misfit| misfit.may_be(identity))
    }

    /// Everything that keeps some of it from being made here.
    pub fn problems_of_misfits(&self) -> impl Iterator<Item = &Problem> {
        self.misfits.iter().flat_map(|misfit| &misfit.problems).take(MOST_PROBLEMS)
    }

    /// Whether there is something in its way that is not about this namespace's objects.
    pub(super) fn is_unfit(&self) -> bool {
        !self.problems.is_empty() || self.withheld.is_some()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceMetadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl NamespaceMetadata {
    pub(super) fn count(&self) -> usize {
        self.labels.len().saturating_add(self.annotations.len())
    }

    pub(super) fn digest(&self) -> String {
        digest(&json!([self.labels, self.annotations]))
    }
}

/// Labels and annotations of the Namespace that change; those without a value go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceChanges {
    pub labels: BTreeMap<String, Option<String>>,
    pub annotations: BTreeMap<String, Option<String>>,
}

impl NamespaceChanges {
    pub(super) fn count(&self) -> usize {
        self.labels.len().saturating_add(self.annotations.len())
    }
}

/// Ends the digest of an object in which nothing else may be.
const EXACT: char = '=';
/// The same where drift is only told.
const REPORTED: char = '~';

/// The digest of a manifest, under whatever policy.
pub(super) fn unmarked(digest: &str) -> &str {
    digest.trim_end_matches([EXACT, REPORTED])
}

/// What to do when the world is not as the class wants it. The defaults are the careful ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices, each with its own name")]
pub struct Policy {
    pub adopt: bool,
    /// What is nobody's is made the class's own.
    pub replace: bool,
    pub report_drift: bool,
    /// What others added goes.
    pub exact: bool,
    pub recreate_immutable: bool,
    pub orphan_on_class_delete: bool,
    pub block_class_delete: bool,
}

impl Policy {
    /// What is nobody's becomes the class's.
    pub(super) fn takes_over(self) -> bool {
        self.adopt || self.replace
    }

    /// An object under this policy. What counts as set by its manifest differs, so what stood under another policy is applied anew.
    #[must_use]
    pub fn made_of(self, item: Rendered) -> Rendered {
        let mark = match self {
            Policy { report_drift: true, .. } => Some(REPORTED),
            Policy { exact: true, .. } => Some(EXACT),
            _ => None,
        };
        let digest = item.digest.chars().chain(mark).collect();
        Rendered { digest, ..item }
    }
}

impl ClassSeen {
    /// How much of an object counts as set by its manifest.
    pub fn care(&self) -> Care {
        match self {
            ClassSeen::Present(class) if class.policy.report_drift => Care::Places,
            ClassSeen::Present(class) if class.policy.exact => Care::Exact,
            _ => Care::Parts,
        }
    }
}

/// `apiVersion` and `kind`.
pub type KindName = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindSeen {
    Namespaced,
    ClusterScoped,
    NotInstalled,
    /// It is namespaced, and no longer served in this version but in another one.
    Moved {
        to: String,
    },
    /// The operator may not list and watch it.
    Forbidden {
        resource: String,
    },
    /// What there is of it cannot be told.
    Unobservable {
        why: String,
    },
}

/// Who controls an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    Nobody,
    ThisBinding,
    /// A binding of this namespace that is no more: what it left is ours by succession.
    FormerBinding,
    Other,
}

impl Owner {
    pub(super) fn is_a_binding(&self) -> bool {
        matches!(self, Owner::ThisBinding | Owner::FormerBinding)
    }
}

/// An object that carries the stamp label, as its watch tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    pub api_version: String,
    pub uid: String,
    /// Its resourceVersion.
    pub version: String,
    pub owner: Owner,
    /// The class its stamp names.
    pub class: String,
    /// See [`Witness::content`].
    pub content: String,
    pub deleting: bool,
    /// The finalizers that hold it once it is deleted.
    pub held_by: Option<String>,
    /// It was made by a plain create, whose ownership of fields an apply does not take over by itself.
    pub created: bool,
    /// Objects of the class it was stamped from are kept when they are no longer wanted.
    pub orphan: bool,
}

/// An object read live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub api_version: String,
    pub uid: String,
    pub version: String,
    pub owner: Owner,
    pub deleting: bool,
    /// The finalizers that hold it once it is deleted.
    pub held_by: Option<String>,
    /// What it shows of the manifest, where [`super::Observed::shown_by`] gives one.
    pub witness: Option<Witness>,
    /// What takes away what it has and is not to have: see [`super::Observed::excess_in`].
    pub excess: Option<serde_json::Value>,
    /// It says itself that nothing in it may change, and its manifest does not.
    pub is_locked: bool,
    /// It gives rights that the manifest does not, where [`super::Observed::shown_by`] gives one.
    pub gives_more: bool,
    /// Who else manages some of it, and did so last.
    pub changed_by: Option<String>,
    /// Where it differs from what the class sets.
    pub changed_field: Option<String>,
    /// Its managedFields with our create turned into an apply, if it was made by a plain create.
    pub taken_fields: Option<serde_json::Value>,
    /// Its owner references without ours.
    pub other_owners: serde_json::Value,
}
