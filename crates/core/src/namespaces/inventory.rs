//! What a binding records about the objects it made: the report people read, and a witness against other people's edits.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

use super::{
    manifest::{Identity, group_of},
    witness::Witness,
};
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
    /// The revision of the class that is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_revision: Option<String>,
    /// Values of the class's inputs that are in force here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Furnished::is_empty")]
    pub namespace_metadata: Furnished,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<Applied>,
    #[serde(skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
}

/// What classes have set on the Namespace itself, and what was there before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Furnished {
    /// Keys of labels.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub annotations: BTreeSet<String>,
    /// Values that somebody else had set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_before: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_before: BTreeMap<String, String>,
    /// What was set, over them or where there was nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_over: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_over: BTreeMap<String, String>,
    /// What is about to be set: it may have been, or may be refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_due: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_due: BTreeMap<String, String>,
}

impl Furnished {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Status {
    /// What is on record about an object.
    pub fn applied(&self, identity: &Identity) -> Option<&Applied> {
        self.applied_resources.iter().find(|applied| applied.is(identity))
    }

    /// The classes whose objects are on record.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        let classes: BTreeSet<_> = self.applied_resources.iter().filter_map(|known| known.class.as_deref()).collect();
        classes.into_iter()
    }

    /// Everything the class wants stands, and nothing is left to do.
    pub fn is_ready(&self) -> bool {
        self.conditions.reason("Ready") == Some("ReconcileSuccess")
    }

    /// What is new in `other`.
    pub fn difference(&self, other: &Self) -> Difference {
        if self == other {
            return Difference::None;
        }
        let Self {
            observed_generation,
            observed_class_name,
            observed_class_uid,
            observed_class_generation,
            observed_revision,
            params,
            namespace_metadata,
            applied_resources,
            conditions,
        } = self;
        let is_same = (observed_generation, observed_class_name)
            == (&other.observed_generation, &other.observed_class_name)
            && *observed_class_uid == other.observed_class_uid
            && (params, namespace_metadata) == (&other.params, &other.namespace_metadata)
            && *conditions == other.conditions;
        if !is_same || applied_resources.len() != other.applied_resources.len() {
            return Difference::News;
        }
        // The same revision in another generation is the same; and which one it is can be told by the generation, once.
        let of_revision = match (observed_revision, &other.observed_revision) {
            _ if (observed_class_generation, observed_revision)
                == (&other.observed_class_generation, &other.observed_revision) =>
            {
                Difference::None
            }
            (Some(before), Some(after)) if before == after => Difference::Vouched,
            (None, Some(_)) if *observed_class_generation == other.observed_class_generation => Difference::Vouched,
            _ => Difference::News,
        };
        let objects = applied_resources.iter().zip(&other.applied_resources);
        objects.map(|(before, after)| before.difference(after)).max().unwrap_or(Difference::None).max(of_revision)
    }
}

/// How much a new status differs from the one that is written, for those who read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    None,
    /// Others changed objects, but nothing of ours: forgetting it costs one read.
    Vouched,
    /// The same objects stand, but which ones exactly has changed: forgetting it costs one apply that changes nothing.
    Routine,
    /// Somebody may want to act on it.
    News,
}

/// One object in the binding's inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Applied {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// The template its name was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_by: Option<String>,
    /// The class it was made by, or last changed by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// A [`Fingerprint`] in its text form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub state: State,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// An object of this name that is not the class's, and could not be made so as it is; where it is the one on record, it has been
    /// deleted to be made anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacing: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Applied {
    pub fn identity(&self) -> Identity {
        Identity { group: group_of(&self.api_version).to_owned(), kind: self.kind.clone(), name: self.name.clone() }
    }

    /// `apiVersion` and `kind`.
    pub fn kind_name(&self) -> (String, String) {
        (self.api_version.clone(), self.kind.clone())
    }

    pub fn is(&self, identity: &Identity) -> bool {
        self.name == identity.name && self.kind == identity.kind && group_of(&self.api_version) == identity.group
    }

    fn difference(&self, other: &Self) -> Difference {
        if self == other {
            return Difference::None;
        }
        let stands = |applied: &Self| applied.state == State::Applied && applied.message.is_none();
        let identity = |applied: &Self| (applied.identity(), applied.adopted);
        if !stands(self) || !stands(other) || identity(self) != identity(other) {
            return Difference::News;
        }
        let vouched = |applied: &'_ Self| {
            let fingerprint =
                applied.fingerprint().map(|fingerprint| Fingerprint { content: "", ..fingerprint }.to_string());
            (
                applied.api_version.clone(),
                applied.uid.clone(),
                applied.class.clone(),
                applied.named_by.clone(),
                fingerprint,
            )
        };
        if self.fingerprint().is_some() && vouched(self) == vouched(other) {
            Difference::Vouched
        } else {
            Difference::Routine
        }
    }

    /// Whether it has been deleted, and is there only as long as finalizers hold it.
    pub fn is_deleted(&self) -> bool {
        self.state == State::Pruning && self.message.as_deref().is_some_and(|message| message.starts_with(DELETED))
    }

    /// Whether it says something about this very object: one that was made since under its name is another one.
    pub(super) fn is_about(&self, uid: &str) -> bool {
        [&self.uid, &self.replacing].into_iter().any(|known| known.as_deref() == Some(uid))
    }

    /// Whether this very object never was the class's and was deleted to be made anew: whoever made it does not hold it.
    pub(super) fn has_replaced(&self, uid: &str) -> bool {
        [&self.uid, &self.replacing].into_iter().all(|known| known.as_deref() == Some(uid))
    }

    pub fn fingerprint(&self) -> Option<Fingerprint<'_>> {
        Fingerprint::parse(self.digest.as_deref()?)
    }
}

/// Marks a message about an object that has been deleted.
const DELETED: &str = "no longer wanted and deleted";

/// What is said about an object that finalizers hold.
pub(super) fn held(by: Option<&str>) -> String {
    let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
    format!("{DELETED}; goes when its finalizers{by} let go of it")
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

/// What was applied, and what the live object looked like right after it, or when we last saw that nothing of ours had changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint<'a> {
    /// Digest of the rendered manifest.
    pub manifest: &'a str,
    /// Digest of the paths the manifest sets, without their values: a change means that fields came or went. Where something is left of
    /// an earlier manifest that the class has dropped, that one's, and its digest.
    pub shape: &'a str,
    /// See [`Witness::fields`].
    pub fields: &'a str,
    /// See [`Witness::content`].
    pub content: &'a str,
}

/// Between a shape and the digest of its manifest.
const LEFT: char = '+';

impl<'a> Fingerprint<'a> {
    pub fn new(manifest: &'a str, shape: &'a str, witness: &'a Witness) -> Self {
        Self { manifest, shape, fields: &witness.fields, content: &witness.content }
    }

    /// Shape and digest of the manifest of which something may be left once another one is applied.
    pub fn left(&self) -> (&'a str, &'a str) {
        self.shape.split_once(LEFT).unwrap_or((self.shape, self.manifest))
    }

    /// What stands for the shape as long as something is left.
    pub(super) fn with_rest(&self) -> String {
        let (shape, manifest) = self.left();
        format!("{shape}{LEFT}{manifest}")
    }

    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || parts.next();
        let fingerprint = Self { manifest: next()?, shape: next()?, fields: next()?, content: next()? };
        next().is_none().then_some(fingerprint)
    }
}

impl fmt::Display for Fingerprint<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}.{}", self.manifest, self.shape, self.fields, self.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uid: &str, state: State) -> Status {
        let applied = Applied {
            kind: "ConfigMap".into(),
            name: "a".into(),
            uid: Some(uid.into()),
            digest: Some("m.s.f.c".into()),
            state,
            ..Applied::default()
        };
        Status { observed_class_generation: Some(1), applied_resources: vec![applied], ..Status::default() }
    }

    #[test]
    fn that_it_is_known_of_which_class_an_object_is_gets_written() {
        let (before, mut after) = (status("1", State::Applied), status("1", State::Applied));
        after.applied_resources[0].class = Some("web".into());
        assert_eq!(before.difference(&after), Difference::Routine);
    }

    fn with_digest(digest: &str) -> Status {
        let mut status = status("1", State::Applied);
        status.applied_resources[0].digest = Some(digest.into());
        status
    }

    #[test]
    fn only_which_objects_exactly_stand_can_wait_to_be_told() {
        let before = status("1", State::Applied);
        assert_eq!(before.difference(&before), Difference::None);
        assert_eq!(before.difference(&status("2", State::Applied)), Difference::Routine);
        let mut generation = status("2", State::Applied);
        generation.observed_class_generation = Some(2);
        let mut adopted = status("2", State::Applied);
        adopted.applied_resources[0].adopted = true;
        let mut more = status("2", State::Applied);
        more.applied_resources.push(Applied::default());
        for news in [status("1", State::Pending), status("1", State::Drifted), generation, adopted, more] {
            assert_eq!(before.difference(&news), Difference::News, "{news:?}");
        }
        let mut revision = status("1", State::Applied);
        revision.observed_revision = Some("r1".into());
        assert_eq!(before.difference(&revision), Difference::Vouched, "the generation tells it already");
        let mut later = Status { observed_class_generation: Some(2), ..revision.clone() };
        assert_eq!(revision.difference(&later), Difference::Vouched, "only how it is rolled out has changed");
        later.observed_revision = Some("r2".into());
        assert_eq!(revision.difference(&later), Difference::News);
        let failed = status("1", State::Failed);
        assert_eq!(failed.difference(&before), Difference::News, "a failure that is over is news");
    }

    #[test]
    fn what_others_added_is_only_vouched_for() {
        let before = with_digest("m.s.f.c");
        assert_eq!(before.difference(&with_digest("m.s.f.x")), Difference::Vouched);
        for ours in ["x.s.f.c", "m.x.f.c", "m.s.x.c", "m.s.x.x"] {
            assert_eq!(before.difference(&with_digest(ours)), Difference::Routine, "{ours}");
        }
    }

    #[test]
    fn a_fingerprint_survives_being_written_and_read() {
        assert_eq!(Fingerprint::parse("m.s.f.c").unwrap().to_string(), "m.s.f.c");
        assert_eq!(Fingerprint::parse("m.s.f"), None, "of an earlier form: applied once more");
    }
}
