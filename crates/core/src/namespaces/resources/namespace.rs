//! Labels and annotations of the Namespace itself.
//!
//! Nothing is set that could be forgotten: which keys are the class's is on record before they are set, with the values they had
//! and those they are about to get. What has been set is on record only when it has.
//! A value that somebody else has set is left and told, or put back when the namespace leaves, as `policy.onConflict` says; not over
//! what somebody has set since. What a class does not set any more goes last, when everything else stands: a namespace is not more open on its way to another class.

use std::collections::{BTreeMap, BTreeSet};

use super::{Class, NamespaceChanges, NamespaceMetadata, Observed, ResourceStep, step::namespace_identity};
use crate::namespaces::{
    blueprint::is_reserved,
    inventory::{Applied, Furnished, State},
};

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

/// What is on record about the labels of the Namespace, or about its annotations.
struct Half<'f> {
    keys: &'f mut BTreeSet<String>,
    before: &'f mut Texts,
    over: &'f mut Texts,
    due: &'f mut Texts,
}

impl<'f> Half<'f> {
    fn both(furnished: &'f mut Furnished) -> [Self; 2] {
        let Furnished {
            labels,
            annotations,
            labels_before,
            annotations_before,
            labels_over,
            annotations_over,
            labels_due,
            annotations_due,
        } = furnished;
        [
            Self { keys: labels, before: labels_before, over: labels_over, due: labels_due },
            Self { keys: annotations, before: annotations_before, over: annotations_over, due: annotations_due },
        ]
    }

    /// Those of `wanted` that somebody else has set otherwise. What was about to be set and never came is still somebody else's.
    fn taken(&self, wanted: &Texts, has: &Texts) -> Texts {
        let never_came = |key: &String| {
            !self.over.contains_key(key) && self.due.get(key).is_some_and(|due| has.get(key) != Some(due))
        };
        let is_ours = |key: &String| self.keys.contains(key) && !never_came(key);
        let others = wanted.iter().filter(|(key, _)| !is_ours(key));
        let others = others.filter_map(|(key, value)| Some((key, has.get(key).filter(|other| *other != value)?)));
        others.map(|(key, other)| (key.clone(), other.clone())).collect()
    }

    /// All this is about to be set, over what others have set.
    fn announce(&mut self, wanted: &Texts, taken: Texts, has: &Texts) {
        self.before.extend(taken.into_iter().filter(|(key, _)| wanted.contains_key(key)));
        // Whoever had set the same before keeps it.
        let same = wanted.iter().filter(|(key, value)| !self.keys.contains(*key) && has.get(*key) == Some(value));
        self.before.extend(same.map(|(key, value)| (key.clone(), value.clone())));
        for (key, value) in wanted {
            // On record from when that was not noted, and set long ago.
            let is_old = self.keys.contains(key) && !self.before.contains_key(key) && !self.over.contains_key(key);
            if self.over.get(key) == Some(value) {
                self.due.remove(key);
            } else if !is_old || self.due.contains_key(key) {
                self.due.insert(key.clone(), value.clone());
            }
        }
        self.keys.extend(wanted.keys().cloned());
    }

    /// Whether it is on record what is about to be set. What others set in the meantime is noted with the setting: whoever keeps
    /// changing that keeps nothing waiting.
    fn is_announced_by(&self, record: &Half<'_>) -> bool {
        let is_due = |(key, value): (&String, &String)| record.due.get(key) == Some(value);
        *self.keys == *record.keys && self.due.iter().all(is_due)
    }

    /// All this has been set.
    fn confirm(&mut self, wanted: &Texts) {
        self.over.extend(wanted.iter().map(|(key, value)| (key.clone(), value.clone())));
        self.due.retain(|key, _| !wanted.contains_key(key));
    }

    /// Whatever is not among this has gone.
    fn forget_but(&mut self, wanted: &Texts) {
        self.keys.retain(|key| wanted.contains_key(key));
        for texts in [&mut *self.before, &mut *self.over, &mut *self.due] {
            texts.retain(|key, _| wanted.contains_key(key));
        }
    }

    /// What becomes of what is not wanted any more and nobody has set otherwise since: it is what was there before the class again,
    /// or goes. An apply that leaves it out would not do: who has said that it is his as well would keep it.
    fn back(&self, wanted: &Texts, has: &Texts) -> BTreeMap<String, Option<String>> {
        let is_as_it_was_set = |key: &String| match (self.over.get(key), self.due.get(key)) {
            // On record from when that was not noted.
            (None, None) => true,
            // Set a moment ago, it may not be shown yet: taking away what is not there does no harm.
            _ if !has.contains_key(key) => !self.before.contains_key(key),
            (over, due) => has.get(key).is_some_and(|now| over == Some(now) || due == Some(now)),
        };
        // Our own marks go with the apply; whatever else is reserved no class has set.
        let is_settable = |key: &&String| !is_reserved(key);
        let gone = self.keys.iter().filter(is_settable).filter(|key| !wanted.contains_key(*key));
        let back = gone.filter(|key| is_as_it_was_set(key));
        back.map(|key| (key.clone(), self.before.get(key).cloned())).collect()
    }
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
        let (wanted, has, mut furnished) = (&class.namespace_metadata, &self.namespace, self.furnished().clone());
        let [labels, annotations] = Half::both(&mut furnished);
        NamespaceMetadata {
            labels: labels.taken(&wanted.labels, &has.labels),
            annotations: annotations.taken(&wanted.annotations, &has.annotations),
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
        let [mut labels, mut annotations] = Half::both(&mut furnished);
        labels.announce(&wanted.labels, taken.labels, &self.namespace.labels);
        annotations.announce(&wanted.annotations, taken.annotations, &self.namespace.annotations);
        furnished
    }

    /// The class sets what is not on record yet.
    pub(super) fn must_announce(&self, class: &Class) -> bool {
        let is_missing = self.recorded_namespace().is_none() && !self.namespace_wanted(class).is_empty();
        let (mut next, mut now) = (self.furnished_with(class), self.furnished().clone());
        let both = Half::both(&mut next).into_iter().zip(Half::both(&mut now));
        is_missing || both.into_iter().any(|(next, now)| !next.is_announced_by(&now))
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

    /// Takes away what the Namespace says is kept where no class that it has, or has just had, has said so: a backup brought it.
    pub(super) fn namespace_forgets(&self, class: &Class) -> Option<ResourceStep> {
        let (wanted, ours) = (self.namespace_wanted(class), &self.furnished().annotations);
        let is_stale = |note: &String| {
            let is_there = self.namespace.annotations.contains_key(note);
            is_there && !wanted.annotations.contains_key(note) && !ours.contains(note)
        };
        let notes = [PROTECTED_LABELS, PROTECTED_ANNOTATIONS].map(str::to_owned);
        let notes: Vec<_> = notes.into_iter().filter(is_stale).collect();
        (!notes.is_empty()).then_some(ResourceStep::ForgetNotes { notes })
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
        let kept = ResourceStep::keep_namespace_metadata(self.namespace_as_before(&before));
        let back = (before.count() > 0).then(|| vec![ResourceStep::PutBackNamespaceMetadata { metadata: before }]);
        let apply = ResourceStep::ApplyNamespaceMetadata { metadata: wanted.clone(), last: true };
        back.into_iter().chain(kept.map(|kept| vec![kept])).chain([vec![apply]]).collect()
    }

    /// What is put back as it is: whoever had set it may be said to no longer, if it was another value for a while.
    fn namespace_as_before(&self, before: &NamespaceChanges) -> NamespaceMetadata {
        let same = |changes: &BTreeMap<String, Option<String>>, has: &Texts| -> Texts {
            let back = changes.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
            back.filter(|(key, value)| has.get(key) == Some(value)).collect()
        };
        NamespaceMetadata {
            labels: same(&before.labels, &self.namespace.labels),
            annotations: same(&before.annotations, &self.namespace.annotations),
        }
    }

    /// What was there before the class, where it is not wanted any more and nobody has set something else since.
    fn namespace_before(&self, wanted: &NamespaceMetadata) -> NamespaceChanges {
        let (has, mut furnished) = (&self.namespace, self.furnished().clone());
        let [labels, annotations] = Half::both(&mut furnished);
        NamespaceChanges {
            labels: labels.back(&wanted.labels, &has.labels),
            annotations: annotations.back(&wanted.annotations, &has.annotations),
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

/// The record after the steps: what has been set, and what has gone.
pub(super) fn furnished_after(seen: &Observed, class: &Class, is_set: bool, is_last_done: bool) -> Furnished {
    let (wanted, mut furnished) = (seen.namespace_wanted(class), seen.furnished_with(class));
    let [labels, annotations] = Half::both(&mut furnished);
    for (mut half, wanted) in [(labels, &wanted.labels), (annotations, &wanted.annotations)] {
        if is_set || !seen.namespace_lacks(class) {
            half.confirm(wanted);
        }
        if is_last_done {
            half.forget_but(wanted);
        }
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
    use crate::{
        namespaces::resources::{ClassSeen, plan, report},
        plan::{Failure, FailureClass, Outcome, Step},
        time::Timestamp,
    };

    fn texts(key: &str, value: &str) -> Texts {
        Texts::from([(key.to_owned(), value.to_owned())])
    }

    type Changes = BTreeMap<String, Option<String>>;

    /// What becomes of the level when the namespace leaves.
    fn back(seen: &Observed) -> Changes {
        seen.namespace_before(&NamespaceMetadata::default()).labels
    }

    fn again(value: &str) -> Changes {
        Changes::from([("level".to_owned(), Some(value.to_owned()))])
    }

    fn goes() -> Changes {
        Changes::from([("level".to_owned(), None)])
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
            back(&seen)
        };
        assert_eq!(put_back("restricted"), again("privileged"));
        assert_eq!(put_back("baseline"), Changes::new());
        seen.binding.status.namespace_metadata.labels_due.clear();
        assert_eq!(back(&seen), again("privileged"), "an old record");
    }

    /// A namespace, before anything was done about a class that sets and protects a level.
    fn asks_for(level: &str, has: &str) -> Observed {
        let metadata = NamespaceMetadata { labels: texts("level", level), ..NamespaceMetadata::default() };
        let class = Class { namespace_metadata: metadata, protect: true, ..Class::default() };
        let mut seen = Observed { class: ClassSeen::Present(class), ..Observed::default() };
        seen.namespace.labels = texts("level", has);
        seen
    }

    /// One look, at which the API server gives this answer.
    fn look(seen: &mut Observed, answer: &Outcome) {
        let plan = plan(seen);
        let outcomes: Vec<_> = plan.iter().map(|step| (step, answer.clone())).collect();
        seen.binding.status = report(seen, &outcomes, &Timestamp::default());
    }

    fn refusal() -> Outcome {
        Outcome::Failed(Failure::new(FailureClass::Forbidden, "Forbidden", "no"))
    }

    #[test]
    fn what_was_refused_is_not_on_record_as_set_and_what_was_there_before_still_comes_back() {
        let mut seen = asks_for("restricted", "privileged");
        look(&mut seen, &Outcome::done());
        let record = |seen: &Observed| seen.binding.status.namespace_metadata.clone();
        assert_eq!((record(&seen).labels_over, record(&seen).labels_due), (Texts::new(), texts("level", "restricted")));
        look(&mut seen, &Outcome::done());
        assert_eq!((record(&seen).labels_over, record(&seen).labels_due), (texts("level", "restricted"), Texts::new()));
        let status = seen.binding.status;
        let mut seen = asks_for("baseline", "restricted");
        seen.binding.status = status;
        look(&mut seen, &Outcome::done());
        for _ in 0..3 {
            look(&mut seen, &refusal());
            assert_eq!(record(&seen).labels_over, texts("level", "restricted"), "it was never set to anything else");
        }
        assert_eq!(back(&seen), again("privileged"));
    }

    #[test]
    fn what_was_there_before_is_not_taken_away_where_the_class_has_come_to_say_the_same() {
        let mut seen = asks_for("baseline", "restricted");
        look(&mut seen, &Outcome::done());
        look(&mut seen, &Outcome::done());
        let status = seen.binding.status;
        let mut seen = asks_for("restricted", "baseline");
        seen.binding.status = status;
        for _ in 0..2 {
            look(&mut seen, &Outcome::done());
        }
        seen.namespace.labels = texts("level", "restricted");
        seen.namespace.unlabelled = true;
        let plan = plan(&seen);
        let kinds: Vec<_> = plan.iter().map(Step::kind).collect();
        let (back, keep) = ("PutBackNamespaceMetadata", "KeepNamespaceMetadata");
        assert_eq!(kinds, [back, keep, "ApplyNamespaceMetadata", "DeleteBinding"]);
        let kept = plan.iter().find_map(|step| match step {
            ResourceStep::KeepNamespaceMetadata { metadata, .. } => Some(metadata.labels.clone()),
            _ => None,
        });
        assert_eq!(kept, Some(texts("level", "restricted")));
    }

    #[test]
    fn what_others_set_while_a_label_is_refused_is_what_comes_back() {
        let mut seen = asks_for("restricted", "privileged");
        look(&mut seen, &Outcome::done());
        look(&mut seen, &refusal());
        seen.namespace.labels = texts("level", "custom");
        look(&mut seen, &Outcome::done());
        look(&mut seen, &Outcome::done());
        seen.namespace.labels = texts("level", "restricted");
        assert_eq!(back(&seen), again("custom"));
    }

    #[test]
    fn whoever_keeps_changing_a_label_that_is_about_to_be_set_keeps_nothing_waiting() {
        let mut seen = asks_for("restricted", "restricted");
        look(&mut seen, &Outcome::done());
        for turn in 0..3 {
            seen.namespace.labels = texts("level", &format!("theirs-{turn}"));
            let kinds: Vec<_> = plan(&seen).iter().map(Step::kind).collect();
            assert_eq!(kinds, ["ApplyNamespaceMetadata"]);
        }
        look(&mut seen, &Outcome::done());
        seen.namespace.labels = texts("level", "restricted");
        assert_eq!(back(&seen), again("theirs-2"), "what it was when it was set");
    }

    #[test]
    fn what_a_class_set_is_taken_away_whoever_says_that_it_is_his_as_well_but_not_what_others_set_since() {
        let mut seen = asks_for("restricted", "restricted");
        seen.namespace.labels.clear();
        look(&mut seen, &Outcome::done());
        look(&mut seen, &Outcome::done());
        assert_eq!(back(&seen), goes(), "it may not be shown yet");
        seen.namespace.labels = texts("level", "restricted");
        look(&mut seen, &Outcome::done());
        seen.namespace.unlabelled = true;
        let kinds: Vec<_> = plan(&seen).iter().map(Step::kind).collect();
        assert_eq!(kinds, ["PutBackNamespaceMetadata", "ApplyNamespaceMetadata", "DeleteBinding"]);
        assert_eq!(back(&seen), goes());
        seen.namespace.labels = texts("level", "baseline");
        assert_eq!(back(&seen), Changes::new());
    }

    #[test]
    fn what_a_backup_says_is_kept_is_forgotten_where_no_class_has_said_so() {
        let mut seen = asks_for("restricted", "restricted");
        seen.namespace.annotations =
            [PROTECTED_LABELS, PROTECTED_ANNOTATIONS].map(|note| (note.to_owned(), "level".to_owned())).into();
        let forgets = |seen: &Observed| {
            let ClassSeen::Present(class) = &seen.class else { return None };
            seen.namespace_forgets(class)
        };
        let only = |notes: &[&str]| {
            Some(ResourceStep::ForgetNotes { notes: notes.iter().map(|note| (*note).to_owned()).collect() })
        };
        assert_eq!(forgets(&seen), only(&[PROTECTED_ANNOTATIONS]), "the class protects its label");
        if let ClassSeen::Present(class) = &mut seen.class {
            class.protect = false;
        }
        assert_eq!(forgets(&seen), only(&[PROTECTED_LABELS, PROTECTED_ANNOTATIONS]));
        let ours = &mut seen.binding.status.namespace_metadata.annotations;
        ours.extend([PROTECTED_LABELS, PROTECTED_ANNOTATIONS].map(str::to_owned));
        assert_eq!(forgets(&seen), None, "what the class before has said goes last");
    }
}
