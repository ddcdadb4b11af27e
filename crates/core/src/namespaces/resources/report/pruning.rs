//! What a binding says about objects it made and no longer wants.

use super::{Outcomes, Ran, first_failed, obstructed};
use crate::{
    namespaces::{
        inventory::{Applied, State, Status, held},
        manifest::Identity,
        resources::{Class, Observed, ResourceStep, is_adopted},
    },
    plan::{FailureClass, Outcome},
};

/// Marks a message about a right that could not be taken away as it was seen.
const CHANGED: &str = "changed by somebody while it was taken away, which is done next whatever it is by then";

/// Objects somebody made look like ours are listed up to this many: a status has an end.
pub(super) const MOST_UNRECORDED: usize = 100;

/// What is still there of what is no longer wanted, and what it waits for.
pub(super) fn leftovers(seen: &Observed, class: &Class, outcomes: Outcomes<'_>, ran: &Ran<'_>) -> Vec<Applied> {
    let (mut unrecorded, records) = (0, seen.records());
    let waits = waits_for(seen, class, outcomes);
    let leftovers = seen.leftovers().into_iter().filter_map(|leftover| {
        let recorded = records.get(&leftover.identity).copied();
        unrecorded += usize::from(recorded.is_none());
        let outcome = ran.get(&leftover.identity).copied();
        let is_gone = outcome.is_some_and(|(step, outcome)| match step {
            // One that finalizers hold is answered by what is left of it, and nothing more is heard of it until it goes.
            ResourceStep::Prune { .. } => matches!(outcome, Outcome::Done { uid: None, .. }),
            ResourceStep::Release { .. } => outcome.is_done(),
            _ => false,
        });
        if is_gone || (recorded.is_none() && unrecorded > MOST_UNRECORDED) {
            return None;
        }
        let failure = outcome.and_then(|(_, outcome)| outcome.failure());
        let is_deleted = leftover.deleting
            || outcome.is_some_and(|(step, outcome)| matches!(step, ResourceStep::Prune { .. }) && outcome.is_done());
        Some(Applied {
            api_version: leftover.api_version.clone(),
            kind: leftover.identity.kind.clone(),
            name: leftover.identity.name.clone(),
            uid: Some(leftover.uid.clone()),
            adopted: is_adopted(recorded, &leftover.uid),
            state: State::Pruning,
            message: failure
                .map(|failure| failure.message.clone())
                .or(leftover.out_of_sight)
                .or(is_deleted.then(|| held(leftover.held_by.as_deref())))
                .or_else(|| waits.clone()),
            ..recorded.cloned().unwrap_or_default()
        })
    });
    leftovers.collect()
}

/// What keeps an object that is no longer wanted from going.
fn waits_for(seen: &Observed, class: &Class, outcomes: Outcomes<'_>) -> Option<String> {
    let failed = first_failed(outcomes).and_then(|(step, _)| step.identity().map(ToString::to_string));
    let blocking = obstructed(seen, class).next().map(|(item, _)| item.identity.to_string()).or(failed);
    let misfit = || class.problems_of_misfits().next().map(|problem| problem.field.clone());
    let blocking = blocking.or_else(misfit)?;
    Some(format!("no longer wanted; goes when all of class {} stands, and waits for {blocking}", class.name))
}

/// Notes which rights somebody changed while they were taken away: who keeps doing that keeps nothing.
pub(super) fn note_changed(seen: &Observed, outcomes: Outcomes<'_>, status: &mut Status) {
    for (step, outcome) in outcomes {
        let Some((identity, api_version, uid)) = withdrawn(step).filter(|(identity, ..)| !seen.wants(identity)) else {
            continue;
        };
        let Some(failure) = outcome.failure().filter(|failure| failure.class == FailureClass::Stale) else { continue };
        let note = Applied {
            api_version: api_version.to_owned(),
            kind: identity.kind.clone(),
            name: identity.name.clone(),
            uid: Some(uid.to_owned()),
            state: State::Pruning,
            message: Some(format!("{CHANGED}: {}", failure.message)),
            ..Applied::default()
        };
        let listed = status.applied_resources.len();
        match status.applied_resources.iter_mut().find(|known| known.is(identity)) {
            Some(known) if known.uid == note.uid => (known.state, known.message) = (note.state, note.message),
            None if listed < MOST_UNRECORDED => status.applied_resources.push(note),
            // There is another one on record, or there are very many.
            Some(_) | None => {}
        }
    }
}

/// The right that a step takes away.
fn withdrawn(step: &ResourceStep) -> Option<(&Identity, &str, &str)> {
    match step {
        ResourceStep::Prune { identity, api_version, uid, .. }
        | ResourceStep::LetGo { identity, api_version, uid, .. }
            if step.is_withdrawal() =>
        {
            Some((identity, api_version, uid))
        }
        _ => None,
    }
}

/// Whether a right was changed while it was taken away.
pub(in crate::namespaces::resources) fn was_changed(applied: &Applied) -> bool {
    applied.state == State::Pruning && applied.message.as_deref().is_some_and(|message| message.starts_with(CHANGED))
}
