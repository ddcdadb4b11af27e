//! Choices taken from bytes, so that a failing case shrinks to few and small ones.

use croft_core::{
    conditions::{Conditions, LONGEST_MESSAGE},
    plan::{Failure, FailureClass, Outcome, Plan},
    time::Timestamp,
};
use proptest::{collection::vec, prelude::*};

#[derive(Clone, Debug)]
pub(crate) struct Dice(Vec<u8>, usize);

pub(crate) fn dice() -> impl Strategy<Value = Dice> {
    vec(any::<u8>(), 1..40).prop_map(|bytes| Dice(bytes, 0))
}

impl Dice {
    /// One of `sides`.
    pub(crate) fn roll(&mut self, sides: u8) -> u8 {
        self.1 += 1;
        self.0[self.1 % self.0.len()] % sides
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.roll(2) == 1
    }

    pub(crate) fn some<T>(&mut self, value: T) -> Option<T> {
        self.flip().then_some(value)
    }

    pub(crate) fn outcome(&mut self) -> Outcome {
        let failed = |class| Outcome::Failed(Failure::new(class, "Reason", "words ".repeat(10_000)));
        match self.roll(8) {
            0 => failed(FailureClass::Stale),
            1 => failed(FailureClass::Transient),
            2 => failed(FailureClass::Forbidden),
            3 => failed(FailureClass::Rejected),
            4 => Outcome::NotRun,
            5 => Outcome::Done { uid: Some("uid".into()), witness: Some("witness".into()) },
            _ => Outcome::done(),
        }
    }

    /// A plan that was carried out somehow. It is printed as well, as the log would.
    pub(crate) fn outcomes<'a, S: std::fmt::Display>(&mut self, plan: &'a Plan<S>) -> Vec<(&'a S, Outcome)> {
        assert!(!plan.to_string().is_empty());
        plan.iter().map(|step| (step, self.outcome())).collect()
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:30Z".into())
}

/// The API server would store them.
pub(crate) fn assert_storable(conditions: &Conditions, before: &Conditions) {
    for condition in conditions.0.iter().filter(|condition| !before.0.contains(condition)) {
        assert!(condition.message.len() <= LONGEST_MESSAGE, "{} bytes of message", condition.message.len());
        assert!(!condition.reason.is_empty());
    }
}
