//! Where somebody else keeps changing what a class sets: it is put right at once a few times, then now and then, and said. A
//! fight at the pace of the API server helps nobody.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Class, ClassSeen, Observed, Read, ResourceStep, need::change, step::namespace_identity};
use crate::{
    budget::{Budget, Budgets},
    conditions::Readiness,
    namespaces::{
        inventory::{Applied, State},
        manifest::{Identity, Rendered},
        template::quoted,
        witness::Witness,
    },
    plan::{Next, Outcome},
    time::Instant,
};

/// So often in a row what somebody changed is put right at once,
const AT_ONCE: u32 = 5;
/// and then once in this time.
const THEN_EVERY: Duration = Duration::from_secs(30);

/// That an object was put right is told once in this time.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Marks a message about an object that is fought over.
const CONTESTED: &str = "changed again and again by ";

/// An object in a namespace. Somebody may delete very many at once, so both budgets hold the same words.
type Place = Arc<(String, Identity)>;

/// What was put right lately, in all namespaces. Forgotten at a restart: a fight is soon found out again.
#[derive(Clone, Debug)]
pub struct Contests {
    put_right: Budgets<Place>,
    told: Budgets<Place>,
}

impl Default for Contests {
    fn default() -> Self {
        Self {
            put_right: Budgets::new(Budget::new(AT_ONCE, THEN_EVERY)),
            told: Budgets::new(Budget::new(1, TOLD_EVERY)),
        }
    }
}

impl Contests {
    /// What was put right too often in a namespace, and for how long it is left as it is.
    pub fn resting(&mut self, namespace: &str, at: Instant) -> BTreeMap<Identity, Duration> {
        let first = Arc::new((namespace.to_owned(), Identity::default()));
        let here = self.put_right.spent(first, |place| place.0 == namespace, at);
        here.map(|(place, wait)| (place.1.clone(), wait)).collect()
    }

    /// Counts what has just been put right. Gives what is to be told of it.
    pub fn note(&mut self, seen: &Observed, outcomes: &[(&ResourceStep, Outcome)], at: Instant) -> Vec<String> {
        let mut news = Vec::new();
        for identity in put_right(seen, outcomes) {
            let place = Arc::new((seen.namespace.name.clone(), identity.clone()));
            self.put_right.spend(place.clone(), at);
            if self.told.spend(place, at) {
                news.push(format!("{identity}: {}; put right", seen.what_was_done_to(&identity)));
            }
        }
        news
    }
}

fn put_right(seen: &Observed, outcomes: &[(&ResourceStep, Outcome)]) -> Vec<Identity> {
    let ClassSeen::Present(class) = &seen.class else { return Vec::new() };
    let done = outcomes.iter().filter(|(_, outcome)| outcome.is_done());
    let identity = |(step, outcome): &(&ResourceStep, Outcome)| match step {
        ResourceStep::ApplyNamespaceMetadata { .. } => {
            seen.namespace_had_all(class).then(|| namespace_identity(&seen.namespace.name))
        }
        ResourceStep::Create { identity, .. } | ResourceStep::Apply { identity, .. } => {
            let item = class.items.iter().find(|item| item.identity == *identity)?;
            (seen.had(item, class) && !seen.is_unchanged(identity, outcomes, outcome)).then(|| identity.clone())
        }
        _ => None,
    };
    done.filter_map(identity).collect()
}

/// What a step was answered about its object.
pub(super) fn witnessed(outcome: &Outcome) -> Option<Witness> {
    match outcome {
        Outcome::Done { witness: Some(answered), .. } => Witness::parse(answered),
        _ => None,
    }
}

/// What an object was answered to be when everything was taken out of it that is not the class's.
pub(super) fn stripped(identity: &Identity, outcomes: &[(&ResourceStep, Outcome)]) -> Option<Witness> {
    let is_strip = |step: &ResourceStep| matches!(step, ResourceStep::Strip { identity: of, .. } if of == identity);
    outcomes.iter().find(|(step, _)| is_strip(step)).and_then(|(_, outcome)| witnessed(outcome))
}

impl Observed {
    /// Whether an object was right as it was seen: what others add beside what the class sets is theirs.
    fn is_unchanged(&self, identity: &Identity, outcomes: &[(&ResourceStep, Outcome)], outcome: &Outcome) -> bool {
        let seen = self.stamped.get(identity).map(|object| object.content.as_str());
        let answered = stripped(identity, outcomes).or_else(|| witnessed(outcome));
        answered.is_some_and(|answered| Some(answered.content.as_str()) == seen)
    }

    /// What somebody did to an object that has been put right.
    fn what_was_done_to(&self, identity: &Identity) -> String {
        let is_there = self.stamped.contains_key(identity) || *identity == namespace_identity(&self.namespace.name);
        match self.read.get(identity) {
            Some(Some(read)) => change(Some(read)),
            _ if is_there => change(None),
            _ => "somebody deleted it".to_owned(),
        }
    }

    /// Whether an item stood in its present form before: if it does not now, somebody else did that.
    fn had(&self, item: &Rendered, class: &Class) -> bool {
        let status = &self.binding.status;
        let in_force = status.observed_class_uid.as_ref() == Some(&class.uid)
            && status.observed_class_generation == Some(class.generation);
        self.recorded(&item.identity).is_some_and(|known| match known.fingerprint() {
            Some(known) => known.manifest == item.digest,
            None => in_force,
        })
    }

    /// Whether the Namespace had all labels and annotations of the class before.
    pub(super) fn namespace_had_all(&self, class: &Class) -> bool {
        let known = self.recorded_namespace().and_then(|known| known.digest.as_deref());
        known == Some(&self.namespace_wanted(class).digest())
    }

    /// What to say about an item that is left as somebody made it for a while.
    pub(super) fn contested(&self, item: &Rendered, class: &Class) -> Option<String> {
        let rests = self.resting.contains_key(&item.identity) && self.had(item, class);
        let read = self.read.get(&item.identity).and_then(Option::as_ref);
        rests.then(|| told_before(self, &item.identity).unwrap_or_else(|| message(read)))
    }

    /// Whether the Namespace is left as somebody made it for a while.
    pub(super) fn namespace_rests(&self, class: &Class) -> bool {
        self.resting.contains_key(&namespace_identity(&self.namespace.name)) && self.namespace_had_all(class)
    }

    /// Whoever fights does not say when it is over.
    pub(super) fn looks_again(&self) -> Next {
        let is_fought_over = self.binding.status.applied_resources.iter().any(|known| told(known).is_some());
        let due = self.resting.values().min().copied().unwrap_or(THEN_EVERY);
        if is_fought_over { Next::After(due) } else { Next::Settled }
    }
}

fn message(read: Option<&Read>) -> String {
    let by = read.and_then(|read| read.changed_by.as_deref());
    let by = by.map_or_else(|| "somebody else".to_owned(), |manager| format!("field manager {}", quoted(manager)));
    let field = read.and_then(|read| read.changed_field.as_deref()).map(|field| format!(" at {field}"));
    let (field, every) = (field.unwrap_or_default(), THEN_EVERY.as_secs());
    format!("{CONTESTED}{by}{field}; put right every {every} seconds until that ends: let only one of the two set it")
}

fn told(applied: &Applied) -> Option<&String> {
    applied.message.as_ref().filter(|message| applied.state == State::Drifted && message.starts_with(CONTESTED))
}

/// The words stay the same as long as the fight lasts: whoever fights shall not make us write.
fn told_before(seen: &Observed, identity: &Identity) -> Option<String> {
    seen.recorded(identity).and_then(told).cloned()
}

/// An object that was fought over is so until it has stood for a while after it was put right.
pub(super) fn until_it_stands(seen: &Observed, applied: Applied, is_put_right: bool) -> Applied {
    let identity = applied.identity();
    match told_before(seen, &identity) {
        Some(message) if applied.state == State::Applied && (is_put_right || seen.resting.contains_key(&identity)) => {
            Applied { state: State::Drifted, message: Some(message), ..applied }
        }
        _ => applied,
    }
}

/// The Namespace: whether it is left for a while without what the class sets.
pub(super) fn namespace_left(seen: &Observed, class: &Class, applied: Applied) -> Applied {
    if seen.namespace_lacks(class) && seen.namespace_rests(class) {
        let message = told_before(seen, &applied.identity()).unwrap_or_else(|| message(None));
        Applied { state: State::Drifted, message: Some(message), ..applied }
    } else if told(&applied).is_some() && !seen.namespace_lacks(class) {
        Applied { state: State::Applied, message: None, ..applied }
    } else {
        applied
    }
}

/// What is fought over is not there, also while it happens to be.
pub(super) fn despite_contests(inventory: &[Applied], readiness: Readiness) -> Readiness {
    let fought_over = inventory.iter().find_map(|applied| Some((applied.identity(), told(applied)?)));
    match fought_over {
        Some((identity, message)) if matches!(readiness, Readiness::Ready { .. }) => {
            Readiness::Stalled { reason: "Contested", message: format!("{identity}: {message}") }
        }
        _ => readiness,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        namespaces::resources::{Binding, KindSeen, Namespace, NamespaceMetadata, Owner, Stamped, plan, report},
        time::Timestamp,
    };

    const SECOND: u64 = 1000;

    /// A namespace with one ConfigMap and one label of a class, and somebody who undoes both.
    struct Fight {
        seen: Observed,
        contests: Contests,
        now: u64,
        news: Vec<String>,
    }

    impl Fight {
        fn new() -> Self {
            let identity = Identity { kind: "ConfigMap".into(), name: "made".into(), ..Identity::default() };
            let item = Rendered {
                identity: identity.clone(),
                api_version: "v1".into(),
                digest: "m".into(),
                shape: "s".into(),
                ..Rendered::default()
            };
            let kind = ("v1".to_owned(), "ConfigMap".to_owned());
            let labels = [("tier".to_owned(), "gold".to_owned())].into();
            let class = Class {
                items: vec![item],
                recorded_kinds: [kind.clone()].into(),
                namespace_metadata: NamespaceMetadata { labels, ..NamespaceMetadata::default() },
                ..Class::default()
            };
            let stamped = Stamped { uid: "u".into(), owner: Owner::ThisBinding, ..Stamped::default() };
            let seen = Observed {
                namespace: Namespace { name: "a".into(), ..Namespace::default() },
                binding: Binding { uid: "b".into(), ..Binding::default() },
                class: ClassSeen::Present(class),
                kinds: [(kind, KindSeen::Namespaced)].into(),
                stamped: [(identity, stamped)].into(),
                ..Observed::default()
            };
            let mut fight = Self { seen, contests: Contests::default(), now: 1000 * SECOND, news: Vec::new() };
            fight.look();
            fight.look();
            fight.stands(true);
            fight.look();
            assert_eq!(fight.says(), "ReconcileSuccess");
            fight
        }

        /// Whether both are as the class wants them.
        fn stands(&mut self, right: bool) {
            let label = if right { "gold" } else { "tin" };
            self.seen.namespace.labels.insert("tier".into(), label.into());
            for (identity, object) in &mut self.seen.stamped {
                object.content = if right { "c" } else { "x" }.into();
                let read =
                    Read { changed_by: Some("other".into()), changed_field: Some("data.k".into()), ..Read::default() };
                self.seen.read.insert(identity.clone(), Some(read));
            }
        }

        /// How many steps a look took.
        fn look(&mut self) -> usize {
            self.look_answered("f.c")
        }

        fn look_answered(&mut self, witness: &str) -> usize {
            let at = Instant(self.now);
            self.seen.resting = self.contests.resting("a", at);
            let plan = plan(&self.seen);
            let done = Outcome::Done { uid: Some("u".into()), witness: Some(witness.into()) };
            let outcomes: Vec<_> = plan.iter().map(|step| (step, done.clone())).collect();
            self.news.extend(self.contests.note(&self.seen, &outcomes, at));
            self.seen.binding.status = report(&self.seen, &outcomes, &Timestamp::default());
            outcomes.len()
        }

        /// Somebody undoes both ten times a second; returns how many steps were taken against it.
        fn fight_for(&mut self, seconds: u64) -> usize {
            let steps = (0..seconds * 10).map(|_| {
                self.now += SECOND / 10;
                self.stands(false);
                let steps = self.look();
                self.stands(steps > 0);
                steps
            });
            steps.sum()
        }

        fn says(&self) -> &str {
            self.seen.binding.status.conditions.reason("Ready").unwrap_or_default()
        }
    }

    #[test]
    fn what_somebody_keeps_changing_is_put_right_now_and_then_and_said() {
        let mut fight = Fight::new();
        assert_eq!(fight.fight_for(10), 10, "five times each");
        assert_eq!(fight.says(), "Contested");
        let messages: Vec<_> = fight.seen.binding.status.applied_resources.iter().filter_map(told).cloned().collect();
        assert!(messages[0].contains("by somebody else;"), "{messages:?}");
        assert!(messages[1].contains("by field manager \"other\" at data.k;"), "{messages:?}");
        let before = fight.seen.binding.status.clone();
        assert_eq!(fight.fight_for(120), 8, "every 30 seconds");
        assert_eq!(fight.seen.binding.status, before, "and nothing new is said");
    }

    #[test]
    fn what_was_put_right_is_told_once_a_minute_with_who_did_it_and_where() {
        let mut fight = Fight::new();
        fight.fight_for(10);
        let told = [
            "Namespace/a: somebody changed what the class sets; put right",
            "ConfigMap/made: field manager \"other\" changed data.k; put right",
        ];
        let mut news = std::mem::take(&mut fight.news);
        news.sort();
        assert_eq!(news, [told[1], told[0]]);
        fight.fight_for(120);
        assert!((2..=4).contains(&fight.news.len()), "{:?}", fight.news);
    }

    #[test]
    fn a_fight_that_is_over_ends_by_itself() {
        let mut fight = Fight::new();
        fight.fight_for(10);
        fight.stands(false);
        let Next::After(due) = plan(&fight.seen).next else { panic!("nobody says when it is over") };
        assert!(due <= THEN_EVERY);
        fight.now += 30 * SECOND;
        assert_eq!(fight.look(), 2);
        fight.stands(true);
        assert_eq!((fight.look(), fight.says()), (0, "Contested"), "it may go on");
        fight.now += 30 * SECOND;
        assert_eq!((fight.look(), fight.says()), (0, "ReconcileSuccess"));
        assert_eq!(plan(&fight.seen).next, Next::Settled);
    }

    #[test]
    fn who_sets_what_the_class_leaves_open_fights_with_nobody() {
        let mut fight = Fight::new();
        for change in 0..10 {
            fight.now += SECOND;
            fight.stands(true);
            let content = format!("scaled{change}");
            fight.seen.stamped.values_mut().for_each(|object| object.content.clone_from(&content));
            assert_eq!(fight.look_answered(&format!("f{change}.{content}")), 1, "only an apply tells");
            assert_eq!(fight.says(), "ReconcileSuccess");
        }
    }

    #[test]
    fn a_new_form_of_the_class_is_no_correction() {
        let mut fight = Fight::new();
        fight.fight_for(10);
        let ClassSeen::Present(class) = &mut fight.seen.class else { panic!("it is there") };
        class.items[0].digest = "new".into();
        class.namespace_metadata.labels.insert("tier".into(), "silver".into());
        fight.stands(false);
        assert_eq!(fight.look(), 0, "what the label is about to be is on record first");
        assert_eq!(fight.look(), 2, "applied at once");
    }
}
