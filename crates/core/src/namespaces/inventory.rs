//! What a binding records about the objects it made: the report people read, and a witness against other people's edits.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::manifest::{Identity, group_of};
use crate::conditions::Conditions;

/// The binding's status, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_class_name: Option<String>,
    #[serde(rename = "observedClassUID", skip_serializing_if = "Option::is_none")]
    pub observed_class_uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_class_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<Applied>,
    #[serde(skip_serializing_if = "is_empty")]
    pub conditions: Conditions,
}

fn is_empty(conditions: &Conditions) -> bool {
    conditions.0.is_empty()
}

/// One object in the binding's inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Applied {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// A [`Fingerprint`] in its text form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub state: State,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Applied {
    pub fn identity(&self) -> Identity {
        Identity { group: group_of(&self.api_version).to_owned(), kind: self.kind.clone(), name: self.name.clone() }
    }

    pub fn fingerprint(&self) -> Option<Fingerprint> {
        Fingerprint::parse(self.digest.as_deref()?)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    #[default]
    Pending,
    Applied,
    Drifted,
    Conflict,
    Failed,
    Pruning,
}

/// What was applied, and what our part of the live object looked like right after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Digest of the rendered manifest.
    pub manifest: String,
    /// Digest of the paths the manifest sets, without their values: a change means that fields came or went.
    pub shape: String,
    /// Digest of our entries in the object's managedFields, fields and time: it changes when anybody, under whatever
    /// name, changes a field we set, and with nothing else.
    pub entry: String,
}

impl Fingerprint {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(str::to_owned);
        let (manifest, shape, entry) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next().is_none().then_some(Self { manifest, shape, entry })
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.manifest, self.shape, self.entry)
    }
}
