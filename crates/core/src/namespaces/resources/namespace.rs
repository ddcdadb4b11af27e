//! Labels and annotations of the Namespace itself.
//!
//! Nothing is set that could be forgotten: which keys are the class's is on record before they are set, with the values they had.
//! A value that somebody else has set is left and told, or put back when the namespace leaves, as `policy.onConflict` says; not over
//! what somebody has set since. What a class does not set any more goes last, when everything else stands: a namespace is not more open on its way to another class.

use std::collections::{BTreeMap, BTreeSet};

use super::{Class, NamespaceMetadata, Observed, ResourceStep, step::namespace_identity};
use crate::namespaces::inventory::{Applied, Furnished, State};

/// On a Namespace of a class that protects: the labels, and the annotations, that only the operator may change.
const PROTECTED_LABELS: &str = "namespaceclass.akuity.io/protected-labels";
const PROTECTED_ANNOTATIONS: &str = "namespaceclass.akuity.io/protected-annotations";

type Texts = BTreeMap<String, String>;

impl Class {
    /// Whether its labels replace those of others. Where they are a fence nobody steps over it by being there first.
    fn takes_labels_over(&self) -> bool {
        self.protect || self.policy.takes_over()
    }
}

impl NamespaceMetadata {
    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }

    /// With the marks by which the fence knows what to keep.
    fn protected(mut self) -> Self {
        for (mark, set) in [(PROTECTED_LABELS, &self.labels), (PROTECTED_ANNOTATIONS, &self.annotations.clone())] {
            if !set.is_empty() {
                let keys: Vec<_> = set.keys().map(String::as_str).collect();
                self.annotations.insert(mark.to_owned(), keys.join(","));
            }
        }
        self
    }
}

/// Those of `wanted` that somebody else has set otherwise.
fn taken(wanted: &Texts, has: &Texts, ours: &BTreeSet<String>) -> Texts {
    let foreign =
        wanted.iter().filter(|(key, value)| !ours.contains(*key) && has.get(*key).is_some_and(|other| other != *value));
    foreign.filter_map(|(key, _)| Some((key.clone(), has.get(key)?.clone()))).collect()
}

impl Observed {
    /// What is recorded about the Namespace itself.
    pub(super) fn recorded_namespace(&self) -> Option<&Applied> {
        self.recorded(&namespace_identity(&self.namespace.name))
    }

    fn furnished(&self) -> &Furnished {
        &self.binding.status.namespace_metadata
    }

    /// Values of others where the class wants its own.
    fn namespace_taken(&self, class: &Class) -> NamespaceMetadata {
        let (wanted, ours) = (&class.namespace_metadata, self.furnished());
        NamespaceMetadata {
            labels: taken(&wanted.labels, &self.namespace.labels, &ours.labels),
            annotations: taken(&wanted.annotations, &self.namespace.annotations, &ours.annotations),
        }
    }

    /// What the class sets here: all it wants, but for what somebody else has set and is to keep.
    pub(super) fn namespace_wanted(&self, class: &Class) -> NamespaceMetadata {
        let mut wanted = class.namespace_metadata.clone();
        if !class.takes_labels_over() {
            let taken = self.namespace_taken(class);
            wanted.labels.retain(|key, _| !taken.labels.contains_key(key));
            wanted.annotations.retain(|key, _| !taken.annotations.contains_key(key));
        }
        if class.protect { wanted.protected() } else { wanted }
    }

    /// What is on record while the class sets all this: also what has yet to go.
    fn furnished_with(&self, class: &Class) -> Furnished {
        let (wanted, taken) = (self.namespace_wanted(class), self.namespace_taken(class));
        let mut furnished = self.furnished().clone();
        for (label, value) in taken.labels.into_iter().filter(|(key, _)| wanted.labels.contains_key(key)) {
            furnished.labels_before.insert(label, value);
        }
        for (annotation, value) in taken.annotations.into_iter().filter(|(key, _)| wanted.annotations.contains_key(key))
        {
            furnished.annotations_before.insert(annotation, value);
        }
        overwrite(&mut furnished.labels_over, &furnished.labels_before, &wanted.labels);
        overwrite(&mut furnished.annotations_over, &furnished.annotations_before, &wanted.annotations);
        furnished.labels.extend(wanted.labels.into_keys());
        furnished.annotations.extend(wanted.annotations.into_keys());
        furnished
    }

    /// The class sets what is not on record yet.
    pub(super) fn must_announce(&self, class: &Class) -> bool {
        let is_missing = self.recorded_namespace().is_none() && !self.namespace_wanted(class).is_empty();
        is_missing || self.furnished_with(class) != *self.furnished()
    }

    pub(super) fn announced(&self, class: &Class) -> Furnished {
        self.furnished_with(class)
    }

    /// Labels and annotations of the class that the Namespace does not have, or has otherwise.
    pub(super) fn namespace_lacks(&self, class: &Class) -> bool {
        let lacks = |wanted: &Texts, has: &Texts| wanted.iter().any(|(key, value)| has.get(key) != Some(value));
        let wanted = self.namespace_wanted(class);
        lacks(&wanted.labels, &self.namespace.labels) || lacks(&wanted.annotations, &self.namespace.annotations)
    }

    /// Sets what the class wants; what it has dropped stays for now.
    pub(super) fn namespace_step(&self, class: &Class) -> Option<ResourceStep> {
        self.recorded_namespace()?;
        let mut metadata = self.namespace_wanted(class);
        let is_leaving = self.namespace_drops(&metadata);
        let stands = (is_leaving || self.namespace_had_all(class)) && !self.namespace_lacks(class);
        let still = |keys: &BTreeSet<String>, has: &Texts| -> Texts {
            keys.iter().filter_map(|key| Some((key.clone(), has.get(key)?.clone()))).collect()
        };
        for (key, value) in still(&self.furnished().labels, &self.namespace.labels) {
            metadata.labels.entry(key).or_insert(value);
        }
        for (key, value) in still(&self.furnished().annotations, &self.namespace.annotations) {
            metadata.annotations.entry(key).or_insert(value);
        }
        let step = ResourceStep::ApplyNamespaceMetadata { metadata, last: false };
        (!stands && !self.namespace_rests(class)).then_some(step)
    }

    /// Whether something is on record that is not wanted any more.
    pub(super) fn namespace_drops(&self, wanted: &NamespaceMetadata) -> bool {
        let furnished = self.furnished();
        furnished.labels.iter().any(|key| !wanted.labels.contains_key(key))
            || furnished.annotations.iter().any(|key| !wanted.annotations.contains_key(key))
    }

    /// Takes away what the class does not set any more, and puts back what was there before it.
    pub(super) fn namespace_leaves(&self, wanted: &NamespaceMetadata) -> Vec<Vec<ResourceStep>> {
        if !self.namespace_drops(wanted) {
            return Vec::new();
        }
        let before = self.namespace_before(wanted);
        // First what was there before: in between there would be neither.
        let back = (!before.is_empty()).then(|| vec![ResourceStep::PutBackNamespaceMetadata { metadata: before }]);
        let apply = ResourceStep::ApplyNamespaceMetadata { metadata: wanted.clone(), last: true };
        back.into_iter().chain([vec![apply]]).collect()
    }

    /// What was there before the class, where it is not wanted any more and nobody has set something else since.
    fn namespace_before(&self, wanted: &NamespaceMetadata) -> NamespaceMetadata {
        let (furnished, namespace) = (self.furnished(), &self.namespace);
        let dropped = |before: &Texts, over: &Texts, has: &Texts, wanted: &Texts| -> Texts {
            let is_as_it_was_set = |key: &String| over.get(key).is_none_or(|set| has.get(key) == Some(set));
            let back = before.iter().filter(|(key, _)| !wanted.contains_key(*key) && is_as_it_was_set(key));
            back.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        NamespaceMetadata {
            labels: dropped(&furnished.labels_before, &furnished.labels_over, &namespace.labels, &wanted.labels),
            annotations: dropped(
                &furnished.annotations_before,
                &furnished.annotations_over,
                &namespace.annotations,
                &wanted.annotations,
            ),
        }
    }

    /// As [`Observed::namespace_leaves`], where nothing is wanted any more.
    pub(super) fn namespace_is_left(&self) -> Vec<Vec<ResourceStep>> {
        let nothing = NamespaceMetadata::default();
        let leaves = self.namespace_leaves(&nothing);
        let apply = || vec![vec![ResourceStep::ApplyNamespaceMetadata { metadata: nothing.clone(), last: true }]];
        if leaves.is_empty() { apply() } else { leaves }
    }

    /// What is said where somebody else has set what the class wants to set.
    pub(super) fn namespace_conflict(&self, class: &Class) -> Option<String> {
        if class.takes_labels_over() {
            return None;
        }
        let taken = self.namespace_taken(class);
        let (what, (key, value)) = taken
            .labels
            .iter()
            .map(|label| ("label", label))
            .chain(taken.annotations.iter().map(|annotation| ("annotation", annotation)))
            .next()?;
        Some(format!(
            "{what} {key} is {value:?}, which the class has not set; remove it, or set policy.onConflict to Adopt, and it is put \
             back when the namespace leaves the class"
        ))
    }
}

/// Notes what is set over what was there before.
fn overwrite(over: &mut Texts, before: &Texts, wanted: &Texts) {
    let set = before.keys().filter_map(|key| Some((key.clone(), wanted.get(key)?.clone())));
    over.extend(set);
}

/// The record after a step: what has gone is forgotten.
pub(super) fn furnished_after(seen: &Observed, class: &Class, is_last_done: bool) -> Furnished {
    let mut furnished = seen.furnished_with(class);
    if is_last_done {
        let wanted = seen.namespace_wanted(class);
        furnished.labels.retain(|key| wanted.labels.contains_key(key));
        furnished.annotations.retain(|key| wanted.annotations.contains_key(key));
        furnished.labels_before.retain(|key, _| wanted.labels.contains_key(key));
        furnished.annotations_before.retain(|key, _| wanted.annotations.contains_key(key));
        furnished.labels_over.retain(|key, _| wanted.labels.contains_key(key));
        furnished.annotations_over.retain(|key, _| wanted.annotations.contains_key(key));
    }
    furnished
}

/// The Namespace, where a value of somebody else is in the way.
pub(super) fn despite_conflict(seen: &Observed, class: &Class, applied: Applied) -> Applied {
    match seen.namespace_conflict(class) {
        Some(message) => Applied { state: State::Conflict, message: Some(message), ..applied },
        None => applied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(key: &str, value: &str) -> Texts {
        Texts::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn what_was_there_before_comes_back_unless_somebody_has_set_something_else_since() {
        let wanted = NamespaceMetadata { labels: texts("level", "restricted"), ..NamespaceMetadata::default() };
        let class = Class { namespace_metadata: wanted, protect: true, ..Class::default() };
        let mut seen = Observed::default();
        seen.namespace.labels = texts("level", "privileged");
        seen.binding.status.namespace_metadata = seen.announced(&class);
        let mut put_back = |now: &str| {
            seen.namespace.labels = texts("level", now);
            seen.namespace_before(&NamespaceMetadata::default()).labels
        };
        assert_eq!(put_back("restricted"), texts("level", "privileged"));
        assert_eq!(put_back("baseline"), Texts::new());
        seen.binding.status.namespace_metadata.labels_over.clear();
        assert_eq!(
            seen.namespace_before(&NamespaceMetadata::default()).labels,
            texts("level", "privileged"),
            "an old record"
        );
    }
}
