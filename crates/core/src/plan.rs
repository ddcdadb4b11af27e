//! The vocabulary of one reconcile: observe -> **plan** -> execute -> **report**.
//!
//! A [`Plan`] is data. Its steps print as text, and that text is the debug log, the dry run and the golden test.

use std::{fmt, time::Duration};

use crate::conditions::cut;

/// One external call, named by intent, carrying its precondition and its reason.
///
/// `Display` is the line a person reads; [`Step::kind`] is the stable name used in metrics.
pub trait Step: fmt::Display + fmt::Debug + Send + Sync {
    fn kind(&self) -> &'static str;

    /// Whether this step must not be begun where `earlier`, of a group before it, was not done.
    fn needs(&self, _earlier: &Self) -> bool {
        true
    }
}

/// What a reconcile decided to do, in order. Where a step is not done, later ones that need it are not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<S> {
    /// Groups run one after the other; the steps inside one group are independent of each other and run side by side.
    /// Of a group only those steps are begun that [need](Step::needs) nothing of the groups before it that is not done.
    pub groups: Vec<Vec<S>>,
    pub next: Next,
}

/// When to look again, if nothing changes before that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Next {
    /// Only when something changes: a watch will say so.
    #[default]
    Settled,
    /// After this long: for outside systems that cannot be watched.
    After(Duration),
}

impl<S> Plan<S> {
    /// Nothing to do.
    pub fn settled() -> Self {
        Self { groups: Vec::new(), next: Next::Settled }
    }

    /// These steps, one after the other.
    pub fn steps(steps: impl IntoIterator<Item = S>) -> Self {
        Self { groups: steps.into_iter().map(|step| vec![step]).collect(), next: Next::Settled }
    }

    /// One step.
    pub fn step(step: S) -> Self {
        Self::steps([step])
    }

    #[must_use]
    pub fn look_again(mut self, delay: Duration) -> Self {
        self.next = Next::After(delay);
        self
    }

    pub fn is_settled(&self) -> bool {
        self.groups.iter().all(Vec::is_empty)
    }

    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.groups.iter().flatten()
    }
}

/// Whether a step may be begun after these steps of the groups before it ended so.
pub fn may_begin<S: Step>(step: &S, ended: &[(&S, Outcome)]) -> bool {
    ended.iter().all(|(earlier, outcome)| outcome.is_done() || !step.needs(earlier))
}

impl<S: fmt::Display> fmt::Display for Plan<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_settled() {
            return out.write_str("nothing to do");
        }
        for (number, step) in self.iter().enumerate() {
            if number > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{step}")?;
        }
        Ok(())
    }
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call succeeded. Some calls tell the identity of what they touched, and a digest of what they left there.
    Done {
        uid: Option<String>,
        witness: Option<String>,
    },
    Failed(Failure),
    /// Not started, because a step before it failed.
    NotRun,
}

impl Outcome {
    /// Done, and nothing more to say.
    pub fn done() -> Self {
        Outcome::Done { uid: None, witness: None }
    }

    pub fn is_done(&self) -> bool {
        matches!(self, Outcome::Done { .. })
    }

    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Outcome::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// Why a call did not succeed, in words that are safe to show: no secrets, no random names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: FailureClass,
    /// Stable, `UpperCamelCase`; goes into metrics and condition reasons.
    pub reason: &'static str,
    pub message: String,
    /// The fields it is about, as far as whoever refused names them.
    pub fields: Vec<String>,
}

impl Failure {
    pub fn new(class: FailureClass, reason: &'static str, message: impl Into<String>) -> Self {
        Self { class, reason, message: cut(message.into(), LONGEST_TOLD), fields: Vec::new() }
    }

    #[must_use]
    pub fn about(self, fields: Vec<String>) -> Self {
        Self { fields, ..self }
    }
}

/// The API server repeats values that are refused, of whatever length; what goes into conditions, events and logs has an end.
const LONGEST_TOLD: usize = 2_048;

/// How many looks in a row may fail before people are told: a hiccup is over by then.
const UNTOLD: u32 = 5;
/// Looks that come too early end by themselves, mostly.
const UNTOLD_STALE: u32 = 8;

impl Failure {
    /// Whether to tell people that something cannot be looked at, after this many failed looks before.
    pub fn is_worth_telling_after(&self, failures: u32) -> bool {
        match self.class {
            FailureClass::Early { .. } => false,
            FailureClass::Stale => failures >= UNTOLD_STALE,
            FailureClass::Transient | FailureClass::Forbidden | FailureClass::Rejected => failures >= UNTOLD,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Failure {}

/// What a failure means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// Nothing is wrong, but it is not its turn yet, which comes after this long.
    Early { wait: Duration },
    /// The world is not what we observed: observe again soon. Not an error worth telling anybody.
    Stale,
    /// The other side is slow, down or restarting: back off and try again.
    Transient,
    /// We lack a right. Back off and try again: an administrator may grant it.
    Forbidden,
    /// The request itself is wrong: only a change of the object helps.
    Rejected,
}

/// A plan with how each of its steps ended, in the order of [`Plan::iter`].
pub type Outcomes<'a, S> = &'a [(&'a S, Outcome)];

/// The first failure among the outcomes, if any.
pub fn first_failure<'a, S>(outcomes: &'a [(&S, Outcome)]) -> Option<&'a Failure> {
    outcomes.iter().find_map(|(_, outcome)| outcome.failure())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_repeats_a_huge_value_is_told_at_a_sensible_length() {
        let failure = Failure::new(FailureClass::Rejected, "Rejected", "x".repeat(1_000_000));
        assert!(failure.to_string().len() < 3_000 && failure.message.ends_with("..."));
    }

    #[test]
    fn who_comes_too_early_has_nothing_to_tell_however_often() {
        let told = |class| Failure::new(class, "Paced", "").is_worth_telling_after(u32::MAX);
        assert!(!told(FailureClass::Early { wait: Duration::ZERO }));
        assert!(told(FailureClass::Stale) && told(FailureClass::Transient));
    }
}
