//! The calls a binding's plan is made of.

use std::{fmt, sync::Arc};

use serde_json::{Value, json};

use super::{NamespaceMetadata, Read};
use crate::{
    namespaces::manifest::{Identity, Rendered},
    plan::Step,
};

#[derive(Clone, Debug, PartialEq)]
pub enum ResourceStep {
    /// Labels and annotations of the Namespace itself; empty takes ours away.
    ApplyNamespaceMetadata { metadata: NamespaceMetadata },
    /// Fails if the name is taken: nothing is ever overwritten by accident.
    Create { identity: Identity, api_version: String, manifest: Arc<Value>, digest: String, shape: String },
    /// An object made by a plain create becomes one made by apply, so that fields the class drops go away.
    TakeFields { identity: Identity, api_version: String, uid: String, version: String, fields: Value },
    /// Only on exactly the object that is ours, or adopted on purpose: fails if another one has its name by now.
    Apply { identity: Identity, api_version: String, uid: String, manifest: Arc<Value>, digest: String, shape: String },
    /// Only exactly as it was seen: whoever has just taken it from us keeps it.
    Prune { identity: Identity, api_version: String, uid: String, version: String },
    /// The object stays, but is no longer ours.
    Release { identity: Identity, api_version: String, uid: String, version: String, owners: Value },
    /// Nothing it owned is left.
    DeleteBinding { uid: String, version: String, because: Unwanted },
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
    pub(super) fn create(item: &Rendered) -> Self {
        let Rendered { identity, api_version, manifest, digest, shape } = item.clone();
        ResourceStep::Create { identity, api_version, manifest, digest, shape }
    }

    pub(super) fn apply(item: &Rendered, uid: &str) -> Self {
        let Rendered { identity, api_version, manifest, digest, shape } = item.clone();
        ResourceStep::Apply { identity, api_version, uid: uid.to_owned(), manifest, digest, shape }
    }

    pub(super) fn prune(identity: &Identity, api_version: &str, uid: &str, version: &str) -> Self {
        ResourceStep::Prune {
            identity: identity.clone(),
            api_version: api_version.to_owned(),
            uid: uid.to_owned(),
            version: version.to_owned(),
        }
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
            | ResourceStep::Apply { identity, .. }
            | ResourceStep::Prune { identity, .. }
            | ResourceStep::Release { identity, .. } => Some(identity),
            ResourceStep::ApplyNamespaceMetadata { .. } | ResourceStep::DeleteBinding { .. } => None,
        }
    }
}

impl ResourceStep {
    /// `apiVersion` and `kind` of the object a step is about, where it is about one.
    pub fn kind_name(&self) -> Option<(&str, &str)> {
        match self {
            ResourceStep::Create { identity, api_version, .. }
            | ResourceStep::TakeFields { identity, api_version, .. }
            | ResourceStep::Apply { identity, api_version, .. }
            | ResourceStep::Prune { identity, api_version, .. }
            | ResourceStep::Release { identity, api_version, .. } => Some((api_version, &identity.kind)),
            ResourceStep::ApplyNamespaceMetadata { .. } | ResourceStep::DeleteBinding { .. } => None,
        }
    }
}

impl Step for ResourceStep {
    fn kind(&self) -> &'static str {
        match self {
            ResourceStep::ApplyNamespaceMetadata { .. } => "ApplyNamespaceMetadata",
            ResourceStep::Create { .. } => "Create",
            ResourceStep::TakeFields { .. } => "TakeFields",
            ResourceStep::Apply { .. } => "Apply",
            ResourceStep::Prune { .. } => "Prune",
            ResourceStep::Release { .. } => "Release",
            ResourceStep::DeleteBinding { .. } => "DeleteBinding",
        }
    }
}

impl fmt::Display for ResourceStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceStep::ApplyNamespaceMetadata { metadata } => {
                let count = metadata.labels.len() + metadata.annotations.len();
                write!(out, "set {count} labels and annotations of the namespace")
            }
            ResourceStep::Create { identity, .. } => write!(out, "create {identity}"),
            ResourceStep::TakeFields { identity, .. } => write!(out, "own the fields of {identity} by apply"),
            ResourceStep::Apply { identity, .. } => write!(out, "apply {identity}"),
            ResourceStep::Prune { identity, .. } => write!(out, "delete {identity}: no longer wanted"),
            ResourceStep::Release { identity, .. } => write!(out, "release {identity}: no longer wanted, kept"),
            ResourceStep::DeleteBinding { because, .. } => write!(out, "delete the binding: {because}"),
        }
    }
}
