//! What the API server makes of a location's spec: it leaves out what Velero's kind, as it is installed, does not know. Its answer is
//! as good as what was asked for: to ask once more would change nothing, and be asked for ever.

use std::collections::BTreeMap;

use super::{Observed, Step, asks_for_the_same};
use crate::{backup::velero::Fields, plan::Outcome};

/// A spec that was asked for, and what there is instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    asked: Fields,
    stored: Fields,
}

/// Answers that were others than what was asked for, by the name of Velero's location. Forgotten at a restart: it is asked for once
/// more then.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<String, Answer>);

impl Answers {
    pub fn of(&self, name: &str) -> Option<Answer> {
        self.0.get(name).cloned()
    }

    /// Keeps what was answered. The witness of an update is the spec as it is stored since.
    pub fn note(&mut self, outcomes: &[(&Step, Outcome)]) {
        for (step, outcome) in outcomes {
            match (step, outcome) {
                (Step::UpdateLocation { name, spec, .. }, Outcome::Done { witness: Some(stored), .. }) => {
                    self.0.remove(name);
                    if let Some(stored) = serde_json::from_str(stored).ok().filter(|it| !asks_for_the_same(it, spec)) {
                        self.0.insert(name.clone(), Answer { asked: spec.clone(), stored });
                    }
                }
                (Step::DeleteLocation(victim), Outcome::Done { .. }) => drop(self.0.remove(&victim.name)),
                _ => {}
            }
        }
    }
}

impl Observed {
    /// Whether what there is of a location is all that comes of asking for this.
    pub(super) fn is_answered(&self, stored: &Fields, wanted: &Fields) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.asked == *wanted && answer.stored == *stored)
    }
}
