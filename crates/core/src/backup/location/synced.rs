//! What is told of the copies in Velero's namespace.

use std::time::Duration;

use crate::{
    conditions::{Conditions, Truth},
    plan::{Failure, FailureClass},
    time::Timestamp,
};

/// How the copy of something into Velero's namespace went.
pub(super) enum Synced<'a> {
    Created,
    Updated,
    AsBefore,
    Taken,
    /// Left as somebody else made it, for a while.
    FoughtOver {
        put_right_every: Duration,
    },
    Failed(&'a Failure),
}

/// The words for it, which differ by what is copied.
pub(super) struct Words {
    pub(super) condition: &'static str,
    pub(super) created: (&'static str, &'static str),
    pub(super) updated: (&'static str, &'static str),
    pub(super) failed: (&'static str, &'static str),
}

impl Words {
    /// Writes the condition; says whether the copy is there.
    pub(super) fn write(&self, conditions: &mut Conditions, synced: &Synced<'_>, now: &Timestamp) -> bool {
        let said_before = conditions.get(self.condition).map(|condition| condition.status);
        let (truth, (reason, message)) = match (synced, said_before) {
            (Synced::AsBefore, Some(Truth::True)) => return true,
            // Made by a reconcile that could not say so any more.
            (Synced::Created, _) | (Synced::AsBefore, None) => (Truth::True, self.created),
            (Synced::Updated | Synced::AsBefore, _) => (Truth::True, self.updated),
            // Not an error: the next look, at once, tells.
            (Synced::Failed(Failure { class: FailureClass::Stale, .. }), _) => return false,
            (Synced::Failed(_) | Synced::FoughtOver { .. } | Synced::Taken, _) => (Truth::False, self.failed),
        };
        let message = match synced {
            Synced::Failed(failure) => format!("{message}: {}", failure.message),
            Synced::Taken => format!("{message}: the name is taken by something that is not of this location"),
            Synced::FoughtOver { put_right_every } => format!(
                "{message}: somebody else changes or deletes it again and again; it is put right every {} seconds until that ends",
                put_right_every.as_secs()
            ),
            _ => message.to_owned(),
        };
        conditions.set(self.condition, truth, reason, message, now);
        truth == Truth::True
    }
}
