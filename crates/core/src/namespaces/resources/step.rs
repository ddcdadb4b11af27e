//! The calls a binding's plan is made of.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Value, json};

use super::{NamespaceChanges, NamespaceMetadata, Read};
use crate::{
    namespaces::{
        excess::{with_plain_values, with_values},
        manifest::{Identity, Rendered, digest},
    },
    plan::Step,
};

/// Begins the name under which stays what was on a Namespace before a class.
const BEFORE: &str = "croft-before-";

#[derive(Clone, Debug, PartialEq)]
pub enum ResourceStep {
    /// Labels and annotations of the Namespace itself; empty takes ours away. The last one takes away what is no longer wanted.
    ApplyNamespaceMetadata { metadata: NamespaceMetadata, last: bool },
    /// What the Namespace had before the class set it otherwise, and nothing where it had nothing; only where the class's is still there
    /// as it was seen.
    PutBackNamespaceMetadata { metadata: NamespaceChanges },
    /// What is to stay on the Namespace as it is, held by a name of its own: with ours it would go. Fails where it is otherwise by now.
    KeepNamespaceMetadata { metadata: NamespaceMetadata, holder: String },
    /// What the Namespace says is kept, and no class it has keeps.
    ForgetNotes { notes: Vec<String> },
    /// Fails if the name is taken: nothing is ever overwritten by accident.
    Create { identity: Identity, api_version: String, manifest: Arc<Value>, digest: String, shape: String },
    /// An object made by a plain create becomes one made by apply, so that fields the class drops go away.
    TakeFields { identity: Identity, api_version: String, uid: String, version: String, fields: Value },
    /// What is in an object and is not to be: what others put into one that is to be as its class says and nothing else, or what the
    /// class has dropped; exactly as it was read: what is put into it since is not overlooked.
    Strip { identity: Identity, api_version: String, uid: String, version: String, manifest: Arc<Value>, excess: Value },
    /// Only on exactly the object that is ours, or adopted on purpose: fails if another one has its name by now.
    /// Tells whether something is left of what it was applied as before and does not say any more: somebody may have said that this
    /// is his as well.
    Apply {
        identity: Identity,
        api_version: String,
        uid: String,
        manifest: Arc<Value>,
        digest: String,
        shape: String,
        former: Option<Arc<Value>>,
    },
    /// Whether an object that has to be deleted to be changed would be accepted anew: nothing goes before that is known.
    Rehearse { identity: Identity, api_version: String, manifest: Arc<Value> },
    /// Only exactly as it was seen: whoever has just taken it from us keeps it. But a right is not kept by who keeps writing into it.
    Prune { identity: Identity, api_version: String, uid: String, version: Option<String>, because: Removal },
    /// What has been deleted is held no longer by finalizers, but for these: a right, and what never was the class's.
    LetGo { identity: Identity, api_version: String, uid: String, version: Option<String>, left: Vec<String> },
    /// The object stays, but is no longer ours.
    Release { identity: Identity, api_version: String, uid: String, version: String, owners: Value },
    /// Nothing it owned is left.
    DeleteBinding { uid: String, version: String, because: Unwanted },
}

/// Why an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The class has no such item any more: it goes when everything the class wants stands.
    Unwanted,
    /// A right that the class does not give any more: it goes first, whatever becomes of everything else.
    Withdrawn,
    /// It cannot be changed in place, and is made anew.
    Anew,
}

impl fmt::Display for Removal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Removal::Unwanted => "no longer wanted",
            Removal::Withdrawn => "a right no longer given",
            Removal::Anew => "to be made anew",
        })
    }
}

/// Why a binding goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwanted {
    LabelRemoved,
    ClassDeleted,
}

impl fmt::Display for Unwanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unwanted::LabelRemoved => "the namespace's label is gone",
            Unwanted::ClassDeleted => "its class is gone",
        })
    }
}

/// How the Namespace itself is listed in the inventory.
pub(super) fn namespace_identity(name: &str) -> Identity {
    Identity { group: String::new(), kind: "Namespace".into(), name: name.to_owned() }
}

impl ResourceStep {
    /// Each set of keys has a holder of its own: one that held others before would let go of them.
    pub(super) fn keep_namespace_metadata(metadata: NamespaceMetadata) -> Option<Self> {
        let keys = |texts: &BTreeMap<String, String>| texts.keys().cloned().collect::<Vec<_>>();
        let digest = digest(&json!([keys(&metadata.labels), keys(&metadata.annotations)]));
        let is_any = metadata.count() > 0;
        is_any.then(|| ResourceStep::KeepNamespaceMetadata { holder: format!("{BEFORE}{digest}"), metadata })
    }

    pub(super) fn create(item: &Rendered) -> Self {
        let Rendered { identity, api_version, manifest, digest, shape, .. } = item.clone();
        ResourceStep::Create { identity, api_version, manifest, digest, shape }
    }

    pub(super) fn apply(item: &Rendered, uid: &str, former: Option<&Arc<Value>>) -> Self {
        let Rendered { identity, api_version, manifest, digest, shape, .. } = item.clone();
        let (uid, former) = (uid.to_owned(), former.cloned());
        ResourceStep::Apply { identity, api_version, uid, manifest, digest, shape, former }
    }

    pub(super) fn prune(
        identity: &Identity,
        api_version: &str,
        uid: &str,
        version: Option<&str>,
        because: Removal,
    ) -> Self {
        ResourceStep::Prune {
            identity: identity.clone(),
            api_version: api_version.to_owned(),
            uid: uid.to_owned(),
            version: version.map(str::to_owned),
            because,
        }
    }

    /// Whether it deletes an object that is wanted and cannot be changed in place.
    pub(super) fn is_to_make_anew(&self) -> bool {
        matches!(self, ResourceStep::Prune { because: Removal::Anew, .. })
    }

    /// Whether it takes away a right that is to be given in another form.
    pub(super) fn withdraws(&self) -> bool {
        let is_let_go = matches!(self, ResourceStep::LetGo { .. });
        is_let_go || (self.is_to_make_anew() && self.identity().is_some_and(Identity::gives_rights))
    }

    /// Whether it takes away a right that is not to be given any more.
    pub(super) fn is_withdrawal(&self) -> bool {
        matches!(self, ResourceStep::Prune { because: Removal::Withdrawn, .. } | ResourceStep::LetGo { .. })
    }

    pub(super) fn let_go(
        identity: &Identity,
        api_version: &str,
        uid: &str,
        version: Option<&str>,
        left: Vec<String>,
    ) -> Self {
        ResourceStep::LetGo {
            identity: identity.clone(),
            api_version: api_version.to_owned(),
            uid: uid.to_owned(),
            version: version.map(str::to_owned),
            left,
        }
    }

    pub(super) fn rehearse(item: &Rendered) -> Self {
        let Rendered { identity, api_version, manifest, .. } = item.clone();
        ResourceStep::Rehearse { identity, api_version, manifest }
    }

    pub(super) fn take_fields(item: &Rendered, read: &Read) -> Option<Self> {
        let fields = read.taken_fields.clone()?;
        Some(ResourceStep::TakeFields {
            identity: item.identity.clone(),
            api_version: item.api_version.clone(),
            uid: read.uid.clone(),
            version: read.version.clone(),
            fields,
        })
    }

    /// Takes something away, and sets the values of the class with it.
    pub(super) fn strip(item: &Rendered, read: &Read, excess: Value) -> Self {
        Self::take_away(item, read, with_values(excess, &item.manifest))
    }

    /// Takes away what the class has dropped, with what it sets instead: together they may be valid and one by one not.
    pub(super) fn exchange(item: &Rendered, read: &Read, dropped: Value) -> Self {
        Self::take_away(item, read, with_plain_values(dropped, &item.manifest))
    }

    /// Takes something away, and nothing else.
    pub(super) fn take_away(item: &Rendered, read: &Read, excess: Value) -> Self {
        ResourceStep::Strip {
            identity: item.identity.clone(),
            api_version: item.api_version.clone(),
            uid: read.uid.clone(),
            version: read.version.clone(),
            manifest: item.manifest.clone(),
            excess,
        }
    }

    pub(super) fn release(identity: &Identity, read: &Read) -> Self {
        ResourceStep::Release {
            identity: identity.clone(),
            api_version: read.api_version.clone(),
            uid: read.uid.clone(),
            version: read.version.clone(),
            owners: if read.other_owners.is_null() { json!([]) } else { read.other_owners.clone() },
        }
    }

    /// The object a step is about, where it is about one.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            ResourceStep::Create { identity, .. }
            | ResourceStep::TakeFields { identity, .. }
            | ResourceStep::Strip { identity, .. }
            | ResourceStep::Apply { identity, .. }
            | ResourceStep::Rehearse { identity, .. }
            | ResourceStep::Prune { identity, .. }
            | ResourceStep::LetGo { identity, .. }
            | ResourceStep::Release { identity, .. } => Some(identity),
            ResourceStep::ApplyNamespaceMetadata { .. }
            | ResourceStep::PutBackNamespaceMetadata { .. }
            | ResourceStep::KeepNamespaceMetadata { .. }
            | ResourceStep::ForgetNotes { .. }
            | ResourceStep::DeleteBinding { .. } => None,
        }
    }
}

impl ResourceStep {
    /// `apiVersion` and `kind` of the object a step is about, where it is about one.
    pub fn kind_name(&self) -> Option<(&str, &str)> {
        match self {
            ResourceStep::Create { identity, api_version, .. }
            | ResourceStep::TakeFields { identity, api_version, .. }
            | ResourceStep::Strip { identity, api_version, .. }
            | ResourceStep::Apply { identity, api_version, .. }
            | ResourceStep::Rehearse { identity, api_version, .. }
            | ResourceStep::Prune { identity, api_version, .. }
            | ResourceStep::LetGo { identity, api_version, .. }
            | ResourceStep::Release { identity, api_version, .. } => Some((api_version, &identity.kind)),
            ResourceStep::ApplyNamespaceMetadata { .. }
            | ResourceStep::PutBackNamespaceMetadata { .. }
            | ResourceStep::KeepNamespaceMetadata { .. }
            | ResourceStep::ForgetNotes { .. }
            | ResourceStep::DeleteBinding { .. } => None,
        }
    }
}

impl Step for ResourceStep {
    fn kind(&self) -> &'static str {
        match self {
            ResourceStep::ApplyNamespaceMetadata { .. } => "ApplyNamespaceMetadata",
            ResourceStep::PutBackNamespaceMetadata { .. } => "PutBackNamespaceMetadata",
            ResourceStep::KeepNamespaceMetadata { .. } => "KeepNamespaceMetadata",
            ResourceStep::ForgetNotes { .. } => "ForgetNotes",
            ResourceStep::Create { .. } => "Create",
            ResourceStep::TakeFields { .. } => "TakeFields",
            ResourceStep::Strip { .. } => "Strip",
            ResourceStep::Apply { .. } => "Apply",
            ResourceStep::Rehearse { .. } => "Rehearse",
            ResourceStep::Prune { .. } => "Prune",
            ResourceStep::LetGo { .. } => "LetGo",
            ResourceStep::Release { .. } => "Release",
            ResourceStep::DeleteBinding { .. } => "DeleteBinding",
        }
    }

    /// What one object needs is done in order, and nothing goes before all that is wanted stands. Otherwise one bad object blocks
    /// itself only.
    fn needs(&self, earlier: &Self) -> bool {
        let is_same = self.identity().is_some() && self.identity() == earlier.identity();
        match self {
            ResourceStep::Prune { because: Removal::Unwanted, .. } | ResourceStep::Release { .. } => {
                !earlier.is_withdrawal()
            }
            ResourceStep::DeleteBinding { .. }
            | ResourceStep::PutBackNamespaceMetadata { .. }
            | ResourceStep::KeepNamespaceMetadata { .. }
            | ResourceStep::ApplyNamespaceMetadata { last: true, .. } => true,
            // A right that is given no more goes, whatever becomes of the new one: the quota may be full of the old one.
            _ if self.withdraws() => is_same && !matches!(earlier, ResourceStep::Rehearse { .. }),
            // Whoever keeps writing into an object keeps what is not to be in it for a while, but changes nothing of the class's.
            ResourceStep::Apply { .. } => is_same && !matches!(earlier, ResourceStep::Strip { .. }),
            _ => is_same,
        }
    }
}

impl fmt::Display for ResourceStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceStep::ApplyNamespaceMetadata { metadata, .. } => {
                write!(out, "set {} labels and annotations of the namespace", metadata.count())
            }
            ResourceStep::PutBackNamespaceMetadata { metadata } => {
                write!(out, "put back {} labels and annotations of the namespace", metadata.count())
            }
            ResourceStep::KeepNamespaceMetadata { metadata, .. } => {
                write!(out, "leave {} labels and annotations of the namespace as they are", metadata.count())
            }
            ResourceStep::ForgetNotes { notes } => {
                write!(out, "take {} off the namespace: no class it has keeps anything by that", notes.join(" and "))
            }
            ResourceStep::Create { identity, .. } => write!(out, "create {identity}"),
            ResourceStep::TakeFields { identity, .. } => write!(out, "own the fields of {identity} by apply"),
            ResourceStep::Strip { identity, .. } => write!(out, "take what others added out of {identity}"),
            ResourceStep::Apply { identity, .. } => write!(out, "apply {identity}"),
            ResourceStep::Rehearse { identity, .. } => {
                write!(out, "ask whether {identity} would be accepted anew: it cannot be changed in place")
            }
            ResourceStep::Prune { identity, because, .. } => write!(out, "delete {identity}: {because}"),
            ResourceStep::LetGo { identity, .. } => {
                let because = if identity.gives_rights() { Removal::Withdrawn } else { Removal::Anew };
                write!(out, "take the finalizers off {identity}: {because}")
            }
            ResourceStep::Release { identity, .. } => write!(out, "release {identity}: no longer wanted, kept"),
            ResourceStep::DeleteBinding { because, .. } => write!(out, "delete the binding: {because}"),
        }
    }
}
