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

impl Status {
    /// What is on record about an object.
    pub fn applied(&self, identity: &Identity) -> Option<&Applied> {
        self.applied_resources.iter().find(|applied| applied.is(identity))
    }

    /// Everything the class wants stands, and nothing is left to do.
    pub fn is_ready(&self) -> bool {
        self.conditions.reason("Ready") == Some("ReconcileSuccess")
    }

    /// Whether `other` tells people the same: the same objects stand, only which ones exactly is on record has changed. Such
    /// news can wait a moment for more of its kind; forgetting it costs one apply that changes nothing.
    pub fn tells_the_same_as(&self, other: &Self) -> bool {
        let without_objects = |status: &Self| Self { applied_resources: Vec::new(), ..status.clone() };
        let stands = |applied: &Applied| applied.state == State::Applied && applied.message.is_none();
        let same = |(one, other): (&Applied, &Applied)| {
            stands(one) && stands(other) && one.identity() == other.identity() && one.adopted == other.adopted
        };
        without_objects(self) == without_objects(other)
            && self.applied_resources.len() == other.applied_resources.len()
            && self.applied_resources.iter().zip(&other.applied_resources).all(same)
    }
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

    pub fn is(&self, identity: &Identity) -> bool {
        self.name == identity.name && self.kind == identity.kind && group_of(&self.api_version) == identity.group
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

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uid: &str, state: State) -> Status {
        let applied =
            Applied { kind: "ConfigMap".into(), name: "a".into(), uid: Some(uid.into()), state, ..Applied::default() };
        Status { observed_class_generation: Some(1), applied_resources: vec![applied], ..Status::default() }
    }

    #[test]
    fn only_which_objects_exactly_stand_can_wait_to_be_told() {
        let before = status("1", State::Applied);
        assert!(before.tells_the_same_as(&status("2", State::Applied)));
        let mut generation = status("2", State::Applied);
        generation.observed_class_generation = Some(2);
        let mut adopted = status("2", State::Applied);
        adopted.applied_resources[0].adopted = true;
        let mut more = status("2", State::Applied);
        more.applied_resources.push(Applied::default());
        for news in [status("1", State::Pending), status("1", State::Drifted), generation, adopted, more] {
            assert!(!before.tells_the_same_as(&news), "{news:?}");
        }
        assert!(!status("1", State::Failed).tells_the_same_as(&before), "a failure that is over is news");
    }
}
