//! What a class says about a roll-out that is not simply going on.

use super::{Phase, Status};
use crate::namespaces::class::Observed;

/// Most namespaces named in a message.
const MOST_NAMED: usize = 3;

/// On a class: the revision whose deletions somebody confirms.
const CONFIRMATION: &str = "namespaceclass.akuity.io/confirm-deletions";

/// Reason and message, if a roll-out waits for somebody.
pub(in crate::namespaces) fn trouble(seen: &Observed, rollout: Option<&Status>) -> Option<(&'static str, String)> {
    if let Some(why) = &seen.rollout.not_kept {
        return Some(("RevisionNotKept", format!("{why}; no namespace gets what the class says now")));
    }
    let (rollout, class) = (rollout?, &seen.name);
    let Status { number, revision, progress, .. } = rollout;
    match rollout.phase {
        Phase::Complete | Phase::RollingOut => None,
        Phase::Paused => {
            let message = format!("{progress} namespaces have revision {number}; to go on: croft resume {class}");
            Some(("RolloutPaused", message))
        }
        Phase::Stopped => {
            let message = format!(
                "{progress} namespaces have revision {number}, and with it fail {}; nobody else is touched. Mend them, \
                 change the class, or go back: croft rollback {class}",
                failing(seen)
            );
            Some(("RolloutStopped", message))
        }
        Phase::Unconfirmed => {
            let deletions = seen.rollout.deletions;
            let message = format!(
                "revision {number} would delete {} of {} objects, more than spec.rollout.maxDeletions allows ({}); nothing of it \
                 is applied. To confirm it: kubectl annotate namespaceclass {class} {CONFIRMATION}={revision} --overwrite. To \
                 take it back: croft rollback {class}",
                deletions.objects,
                deletions.made,
                deletions.limit(seen.rollout.wishes.max_deletions),
            );
            Some(("DeletionsUnconfirmed", message))
        }
    }
}

/// The first namespaces that fail with the newest revision, and how many more.
fn failing(seen: &Observed) -> String {
    let newest = seen.rollout.newest.as_deref();
    let failing = seen.namespaces.iter().filter(|bound| bound.is_failing() && seen.in_force(bound) == newest);
    let mut names: Vec<_> =
        failing.map(|bound| format!("{} ({})", bound.name, bound.stalled.as_deref().unwrap_or_default())).collect();
    names.sort();
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let named = names.join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}
