//! What a class says about a roll-out that is not simply going on.

use super::{Deletions, Phase, Share, Status, confirmation};
use crate::namespaces::class::{Bound, Observed};

/// Most namespaces named in a message.
const MOST_NAMED: usize = 3;

/// On a class: the revision whose deletions somebody confirms.
const CONFIRMATION: &str = "namespaceclass.akuity.io/confirm-deletions";

/// What is said of a revision that would delete much, with how to confirm it.
pub fn unconfirmed(class: &str, (number, revision): (i64, &str), deletions: Deletions, most: Option<Share>) -> String {
    let confirmation = confirmation(number, revision);
    format!(
        "would delete {} of {} objects, more than spec.rollout.maxDeletions allows ({}); nothing of it is applied. To confirm it: \
         kubectl annotate namespaceclass {class} {CONFIRMATION}={confirmation} --overwrite",
        deletions.objects,
        deletions.made,
        deletions.limit(most),
    )
}

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
            let asked =
                unconfirmed(class, (*number, revision), seen.rollout.deletions, seen.rollout.wishes.max_deletions);
            let message = format!("revision {number} {asked}. To take it back: croft rollback {class}");
            Some(("DeletionsUnconfirmed", message))
        }
    }
}

/// The first namespaces that fail with the newest revision, and how many more.
fn failing(seen: &Observed) -> String {
    let newest = seen.rollout.newest.as_deref();
    let failing = |bound: &&Bound| !bound.leaving && seen.fails_with_revision(bound) && seen.in_force(bound) == newest;
    let name = |bound: &Bound| format!("{} ({})", bound.name, bound.stalled.as_deref().unwrap_or("NotReady"));
    first_of(seen.namespaces.iter().filter(failing).map(name).collect())
}

/// The first namespaces that were moved and are neither there nor failing, and how many more.
pub(in crate::namespaces) fn awaited(seen: &Observed) -> Option<String> {
    let restless = seen.namespaces.iter().filter(|bound| !bound.leaving && seen.is_restless(bound));
    let names: Vec<_> = restless.map(|bound| bound.name.clone()).collect();
    (!names.is_empty()).then(|| first_of(names))
}

fn first_of(mut names: Vec<String>) -> String {
    names.sort();
    let more = names.len().saturating_sub(MOST_NAMED);
    names.truncate(MOST_NAMED);
    let told = names.join(", ");
    if more > 0 { format!("{told} and {more} more") } else { told }
}
