//! Conditions as Kubernetes clients expect them: a list keyed by type whose transition time moves only when the status does.

use serde::{Deserialize, Serialize};

use crate::{plan::Failure, time::Timestamp};

/// Longest message of a condition. The API takes three times as much, and nobody reads it; a status with more would not be stored
/// at all.
pub const LONGEST_MESSAGE: usize = 10_240;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Truth {
    True,
    False,
    Unknown,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Self {
        if value { Truth::True } else { Truth::False }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: Truth,
    pub reason: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub last_transition_time: Timestamp,
}

/// A list of conditions in the order they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(pub Vec<Condition>);

impl Conditions {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|condition| condition.status == Truth::True)
    }

    pub fn reason(&self, kind: &str) -> Option<&str> {
        self.get(kind).map(|condition| condition.reason.as_str())
    }

    /// Sets one condition in place, or at the end if it is new. `now` is used only where the status changes.
    pub fn set(
        &mut self,
        kind: &str,
        status: Truth,
        reason: &str,
        message: impl Into<String>,
        now: &Timestamp,
    ) -> &mut Self {
        self.set_observed(kind, status, reason, message, None, now)
    }

    /// As [`Conditions::set`], with the generation of the spec the condition speaks about.
    pub fn set_observed(
        &mut self,
        kind: &str,
        status: Truth,
        reason: &str,
        message: impl Into<String>,
        observed_generation: Option<i64>,
        now: &Timestamp,
    ) -> &mut Self {
        let since = |old: Option<&Condition>| match old {
            Some(old) if old.status == status => old.last_transition_time.clone(),
            _ => now.clone(),
        };
        let condition = Condition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            message: cut(message.into(), LONGEST_MESSAGE),
            observed_generation,
            last_transition_time: since(self.get(kind)),
        };
        match self.0.iter_mut().find(|old| old.kind == kind) {
            Some(old) => *old = condition,
            None => self.0.push(condition),
        }
        self
    }

    /// The object cannot be looked at: nobody can tell whether it is ready.
    pub fn set_unseen(&mut self, failure: &Failure, generation: i64, now: &Timestamp) -> &mut Self {
        let message = format!("cannot be looked at: {failure}");
        self.set_observed("Ready", Truth::Unknown, "CannotObserve", message, Some(generation), now)
    }

    pub fn remove(&mut self, kind: &str) -> &mut Self {
        self.0.retain(|condition| condition.kind != kind);
        self
    }
}

/// The message, or as much of it as there is room for.
pub fn cut(mut message: String, room: usize) -> String {
    if message.len() > room {
        const MORE: &str = "...";
        let room = room.saturating_sub(MORE.len());
        let end = (0..=room).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
        message.truncate(end);
        message.push_str(MORE);
    }
    message
}

/// The three conditions every kind of ours carries so that `kubectl wait` and kstatus understand it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready {
        reason: &'static str,
        message: String,
    },
    /// Not there yet, and no help is needed.
    Progressing {
        reason: &'static str,
        message: String,
    },
    /// Not there, and only a person (or a change of the world) can help.
    Stalled {
        reason: &'static str,
        message: String,
    },
}

impl Readiness {
    /// The same with something to add.
    #[must_use]
    pub fn noting(mut self, note: &str) -> Self {
        let (Readiness::Ready { message, .. }
        | Readiness::Progressing { message, .. }
        | Readiness::Stalled { message, .. }) = &mut self;
        message.push_str("; ");
        message.push_str(note);
        self
    }

    pub fn message(&self) -> &str {
        match self {
            Readiness::Ready { message, .. }
            | Readiness::Progressing { message, .. }
            | Readiness::Stalled { message, .. } => message,
        }
    }

    pub fn reason(&self) -> &'static str {
        match self {
            Readiness::Ready { reason, .. }
            | Readiness::Progressing { reason, .. }
            | Readiness::Stalled { reason, .. } => reason,
        }
    }

    /// Writes `Ready`, `Reconciling` and `Stalled`.
    pub fn write(&self, conditions: &mut Conditions, generation: i64, now: &Timestamp) {
        let (ready, reconciling, stalled, reason, message) = match self {
            Readiness::Ready { reason, message } => (true, false, false, reason, message),
            Readiness::Progressing { reason, message } => (false, true, false, reason, message),
            Readiness::Stalled { reason, message } => (false, false, true, reason, message),
        };
        for (kind, value) in [("Ready", ready), ("Reconciling", reconciling), ("Stalled", stalled)] {
            conditions.set_observed(kind, value.into(), reason, message.clone(), Some(generation), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u32) -> Timestamp {
        Timestamp(format!("2026-01-01T00:00:{second:02}Z"))
    }

    #[test]
    fn transition_time_moves_only_when_the_status_changes() {
        let mut conditions = Conditions::default();
        conditions.set("Ready", Truth::False, "Waiting", "a", &at(1));
        conditions.set("Ready", Truth::False, "StillWaiting", "b", &at(2));
        assert_eq!(conditions.get("Ready").unwrap().last_transition_time, at(1));
        conditions.set("Ready", Truth::True, "Done", "c", &at(3));
        assert_eq!(conditions.get("Ready").unwrap().last_transition_time, at(3));
    }

    #[test]
    fn a_condition_keeps_its_place_in_the_list() {
        let mut conditions = Conditions::default();
        conditions.set("A", Truth::True, "R", "", &at(1)).set("B", Truth::True, "R", "", &at(1));
        conditions.set("A", Truth::False, "R", "", &at(2));
        assert_eq!(conditions.0.iter().map(|c| c.kind.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn setting_the_same_again_changes_nothing() {
        let mut conditions = Conditions::default();
        Readiness::Ready { reason: "Applied", message: "all there".into() }.write(&mut conditions, 3, &at(1));
        let before = conditions.clone();
        Readiness::Ready { reason: "Applied", message: "all there".into() }.write(&mut conditions, 3, &at(9));
        assert_eq!(before, conditions);
    }

    #[test]
    fn a_message_is_cut_to_what_the_api_takes() {
        for text in ["x", "é", "\u{1f41e}"] {
            let mut conditions = Conditions::default();
            conditions.set("Ready", Truth::False, "R", text.repeat(LONGEST_MESSAGE + 1), &at(1));
            let message = &conditions.get("Ready").unwrap().message;
            assert!(message.len() <= LONGEST_MESSAGE && message.len() > LONGEST_MESSAGE - 8, "{}", message.len());
            assert!(message.ends_with("..."));
        }
    }
}
