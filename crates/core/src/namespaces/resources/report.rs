//! What a binding says about itself after its plan ran.

mod counting;
mod namespace;
mod pruning;
mod record;
mod replacing;

use std::collections::BTreeMap;

pub(super) use self::pruning::was_changed;
use self::{
    counting::{counting, last_ran},
    namespace::{is_last_done, is_namespace_set, namespace_announced, namespace_entry},
    pruning::{leftovers, note_changed},
    record::{as_stripped, on_record},
    replacing::{met, pruned},
};
use super::{
    Class, ClassSeen, Observed, ResourceStep, Withheld,
    contest::{despite_contests, until_it_stands, witnessed},
    namespace::furnished_after,
    need::{Need, Obstacle},
    step::namespace_identity,
    stuck::{fix, is_stuck, stuck},
    words::{UNOBSERVABLE, explain, reason_of, unmakeable, with_fix},
};
use crate::{
    conditions::{Readiness, cut},
    namespaces::{
        inventory::{Applied, Fingerprint, State, Status},
        manifest::{Identity, Rendered},
        witness::Witness,
    },
    plan::{Failure, FailureClass, Outcome},
    problem::Problem,
    time::Timestamp,
};

/// How each step ended, in the order of the plan.
type Outcomes<'a> = &'a [(&'a ResourceStep, Outcome)];

/// How the last step about each object ended, of those that ran.
type Ran<'a> = BTreeMap<&'a Identity, &'a (&'a ResourceStep, Outcome)>;

/// The reason while a namespace gives a value that its class does not take.
const INVALID_PARAMETER: &str = "InvalidParameter";

/// The reason while something of a class can be made in no namespace, or not in this one.
const INVALID_CLASS: &str = "InvalidClass";

/// Why the API server refuses to change a field of an object that exists.
pub(super) const IMMUTABLE_FIELD: &str = "Immutable";

/// Why the API server refuses to have an object so, whoever asks.
const INVALID: &str = "Rejected";

/// Marks a message about a change that cannot be made in place.
const IMMUTABLE: &str = "cannot be changed in place";

/// About an object whose name is taken, before it is known by whom.
const TAKEN: &str = "an object of this name exists; about to be looked at";

/// The binding's new status.
pub fn report(seen: &Observed, outcomes: Outcomes<'_>, now: &Timestamp) -> Status {
    let mut status = told(seen, outcomes, now);
    note_changed(seen, outcomes, &mut status);
    status
}

fn told(seen: &Observed, outcomes: Outcomes<'_>, now: &Timestamp) -> Status {
    let mut status = seen.binding.status.clone();
    if seen.is_about_to_rebind() {
        return status;
    }
    if seen.unwanted_because().is_some() {
        if let Some((step, failure)) = first_failed(outcomes) {
            failing(step, failure).write(&mut status.conditions, seen.binding.generation, now);
        } else if let Some((identity, why)) = seen.out_of_sight() {
            let waits = stalled(UNOBSERVABLE, format!("{identity} cannot be observed, so the binding waits: {why}"));
            waits.write(&mut status.conditions, seen.binding.generation, now);
        }
        return status;
    }
    let readiness = match &seen.class {
        ClassSeen::Gone => return status,
        ClassSeen::Unreadable => {
            stalled("ClassUnreadable", format!("class {} cannot be read; what is there stays", seen.binding.class))
        }
        ClassSeen::Present(class) if !class.problems.is_empty() => {
            stalled(INVALID_CLASS, Problem::list(&class.problems))
        }
        ClassSeen::Present(Class { withheld: Some(Withheld::Lost { revision }), name, .. }) => stalled(
            "RevisionLost",
            format!(
                "revision {revision} of class {name} is not kept any more; what is there stays until a roll-out comes by"
            ),
        ),
        ClassSeen::Present(class) if class.withheld.is_some() => {
            progressing("RolloutPending", format!("class {} is being prepared", class.name))
        }
        ClassSeen::Present(class) if !seen.is_recorded(class) => {
            progressing("RolloutPending", format!("class {} is being prepared", class.name))
        }
        ClassSeen::Present(class) if seen.must_announce(class) => {
            if seen.recorded_namespace().is_none() {
                status.applied_resources.insert(0, namespace_announced(seen));
            }
            status.namespace_metadata = seen.announced(class);
            progressing("RolloutPending", format!("the namespace is about to get the labels of class {}", class.name))
        }
        ClassSeen::Present(class) => {
            let outcomes = &counting(seen, outcomes);
            status.params.clone_from(&class.params);
            status.namespace_metadata =
                furnished_after(seen, class, is_namespace_set(outcomes), is_last_done(outcomes));
            status.applied_resources = inventory(seen, class, outcomes);
            let readiness = despite_contests(&status.applied_resources, readiness(seen, class, outcomes));
            if matches!(readiness, Readiness::Ready { .. }) {
                status.observed_class_name = Some(class.name.clone());
                status.observed_class_uid = Some(class.uid.clone());
                status.observed_class_generation = Some(class.generation);
                status.observed_revision.clone_from(&class.revision);
            }
            despite_params(class, readiness)
        }
    };
    status.observed_generation = Some(seen.binding.generation);
    despite_label(seen, readiness).write(&mut status.conditions, seen.binding.generation, now);
    status
}

/// A label that names no class, one on its way out, or one the namespace cannot get is told on the binding that stays.
fn despite_label(seen: &Observed, readiness: Readiness) -> Readiness {
    if !matches!(readiness, Readiness::Ready { .. }) {
        return readiness;
    }
    let told = |named: &str, how: &str| {
        let bound = &seen.binding.class;
        format!("the namespace's label names class {named}, which {how}; the objects of class {bound} stay")
    };
    match (&seen.unknown_class, seen.class_on_its_way_out()) {
        (Some(unknown), _) => stalled("ClassNotFound", told(unknown, "does not exist")),
        (None, Some(leaving)) => stalled("ClassDeleting", told(leaving, "is being deleted")),
        (None, None) if seen.namespace.relabelled => {
            stalled("NotAllowed", told(seen.label(), "a system namespace cannot get"))
        }
        (None, None) => readiness,
    }
}

/// Everything stands, but not by the values the namespace gives; or all but what these keep from being made.
fn despite_params(class: &Class, readiness: Readiness) -> Readiness {
    let is_as_good_as_can_be =
        matches!(readiness, Readiness::Ready { .. } | Readiness::Stalled { reason: INVALID_CLASS, .. });
    if is_as_good_as_can_be && !class.refused_params.is_empty() {
        let all: Vec<_> = class.refused_params.iter().chain(class.problems_of_misfits()).cloned().collect();
        return stalled(INVALID_PARAMETER, Problem::list(&all));
    }
    readiness
}

fn readiness(seen: &Observed, class: &Class, outcomes: Outcomes<'_>) -> Readiness {
    if let Some(identity) = made_anew(outcomes) {
        return progressing("RolloutPending", format!("{identity} is made anew"));
    }
    if let Some((step, failure)) = first_failed(outcomes) {
        return match step.identity() {
            Some(identity)
                if failure.reason == IMMUTABLE_FIELD
                    && seen.may_make_anew(identity, class)
                    && !matches!(step, ResourceStep::Strip { .. }) =>
            {
                progressing("RolloutPending", format!("{identity} {IMMUTABLE} and is made anew: {}", failure.message))
            }
            Some(identity) if failure.reason == IMMUTABLE_FIELD && matches!(step, ResourceStep::Strip { .. }) => {
                stalled("ApplyFailed", format!("{identity}: {}; {}", failure.message, fix(seen.extent_of(identity))))
            }
            _ => failing(step, failure),
        };
    }
    if let Some(identity) = has_rest(outcomes) {
        return progressing("RolloutPending", format!("{identity} still has what the class does not set any more"));
    }
    let blocked = obstructed(seen, class).next();
    if class.deleting {
        return stalled(
            "ClassDeleting",
            format!("class {} is being deleted and waits until no namespace uses it", class.name),
        );
    }
    if blocked.is_none() && !class.misfits.is_empty() {
        let problems: Vec<_> = class.problems_of_misfits().cloned().collect();
        return stalled(INVALID_CLASS, Problem::list(&problems));
    }
    if let (None, Some(message)) = (&blocked, seen.namespace_conflict(class)) {
        return stalled("Conflict", format!("{}: {message}", namespace_identity(&seen.namespace.name)));
    }
    match blocked {
        Some((item, obstacle)) if matches!(obstacle, Obstacle::BeingDeleted | Obstacle::ToAdopt { .. }) => {
            progressing(reason_of(&obstacle), format!("{}: {}", item.identity, explain(item, &obstacle)))
        }
        Some((item, obstacle)) => {
            stalled(reason_of(&obstacle), format!("{}: {}", item.identity, explain(item, &obstacle)))
        }
        None => match seen.unwanted_out_of_sight() {
            Some((identity, why)) => {
                stalled(UNOBSERVABLE, format!("no longer wanted, and cannot be observed: {identity}: {why}"))
            }
            None => Readiness::Ready {
                reason: "ReconcileSuccess",
                message: format!("Successfully applied {} resources from class {}", class.items.len(), class.name),
            },
        },
    }
}

/// A wanted object that was deleted because it could not be changed in place.
pub(super) fn made_anew(outcomes: Outcomes<'_>) -> Option<&Identity> {
    outcomes.iter().find(|(step, outcome)| step.is_to_make_anew() && outcome.is_done())?.0.identity()
}

/// An object in which something is left that the class has dropped: somebody says that it is his as well.
fn has_rest(outcomes: Outcomes<'_>) -> Option<&Identity> {
    let has_rest = |outcome: &Outcome| witnessed(outcome).is_some_and(|witness| witness.rest);
    outcomes.iter().find(|(_, outcome)| has_rest(outcome))?.0.identity()
}

fn obstructed<'a>(seen: &'a Observed, class: &'a Class) -> impl Iterator<Item = (&'a Rendered, Obstacle)> {
    class.items.iter().filter_map(|item| match seen.need_now(item, class) {
        Need::Blocked(obstacle) => Some((item, obstacle)),
        _ => seen.is_ending(item).then_some((item, Obstacle::BeingDeleted)),
    })
}

/// A wanted object for which the plan has no step because something stands in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub identity: Identity,
    /// The reason its binding's `Ready` condition would have.
    pub reason: &'static str,
    pub message: String,
}

/// Everything that stands in the way of what the class wants, as things are.
pub fn blocked_items(seen: &Observed) -> Vec<Blocked> {
    match &seen.class {
        ClassSeen::Present(class) if !seen.wanted().is_empty() && !seen.is_not_ours_to_touch() => {
            let blocked = obstructed(seen, class).map(|(item, obstacle)| Blocked {
                identity: item.identity.clone(),
                reason: reason_of(&obstacle),
                message: explain(item, &obstacle),
            });
            blocked.collect()
        }
        _ => Vec::new(),
    }
}

fn first_failed(outcomes: Outcomes<'_>) -> Option<(&ResourceStep, &Failure)> {
    outcomes.iter().find_map(|(step, outcome)| outcome.failure().map(|failure| (*step, failure)))
}

fn failing(step: &ResourceStep, failure: &Failure) -> Readiness {
    let reason = match (step, failure) {
        // It has just changed, or its name is taken by we do not know whom: nothing is wrong yet.
        (_, Failure { class: FailureClass::Stale, reason: "Conflict" | "AlreadyExists", .. }) => "RolloutPending",
        (_, Failure { class: FailureClass::Forbidden, .. }) => "Forbidden",
        (_, Failure { reason: "QuotaExceeded", .. }) => "QuotaExceeded",
        (ResourceStep::Prune { .. } | ResourceStep::LetGo { .. } | ResourceStep::Release { .. }, _) => "PruneFailed",
        _ => "ApplyFailed",
    };
    let what = step.identity().map_or_else(|| "the namespace".to_owned(), ToString::to_string);
    let message = format!("{what}: {}", with_fix(failure));
    match failure.class {
        FailureClass::Early { .. } | FailureClass::Stale | FailureClass::Transient => progressing(reason, message),
        FailureClass::Forbidden | FailureClass::Rejected => stalled(reason, message),
    }
}

/// The inventory after the plan ran: the namespace, the class's objects in its order, then what is still to be removed.
fn inventory(seen: &Observed, class: &Class, outcomes: Outcomes<'_>) -> Vec<Applied> {
    let ran = last_ran(outcomes);
    let wanted = class.items.iter().map(|item| {
        let last = ran.get(&item.identity).copied();
        let entry = as_stripped(seen, item, outcomes, entry(seen, class, item, last));
        until_it_stands(seen, until_it_is_gone(seen, item, entry), last.is_some())
    });
    let leftovers = leftovers(seen, class, outcomes, &ran);
    let lost = seen.unaccounted().map(|(applied, why)| Applied {
        state: State::Pruning,
        message: Some(why),
        ..applied.clone()
    });
    let misfits = seen.binding.status.applied_resources.iter().filter(|applied| {
        let identity = applied.identity();
        !seen.wants(&identity) && seen.may_be_wanted(&identity)
    });
    let misfits = misfits.map(|applied| unmakeable(class, applied));
    let wanted = wanted.chain(misfits);
    let all = namespace_entry(seen, class, outcomes).into_iter().chain(wanted).chain(leftovers).chain(lost);
    all.map(|applied| Applied { message: applied.message.map(|message| cut(message, LONGEST)), ..applied }).collect()
}

/// A message about one of many objects.
const LONGEST: usize = 1_000;

fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.class, FailureClass::Forbidden | FailureClass::Rejected)
}

fn entry(seen: &Observed, class: &Class, item: &Rendered, last: Option<&(&ResourceStep, Outcome)>) -> Applied {
    let applied = Applied {
        api_version: item.api_version.clone(),
        kind: item.identity.kind.clone(),
        name: item.identity.name.clone(),
        named_by: item.named_by.clone(),
        ..on_record(seen, &item.identity)
    };
    let applied = match last.and_then(|(_, outcome)| outcome.failure()).filter(|failure| is_refusal(failure)) {
        Some(_) => met(seen, item, applied),
        None => applied,
    };
    match last {
        Some((ResourceStep::Prune { .. }, Outcome::Done { uid, .. })) => {
            return pruned(seen, item, applied, uid.clone());
        }
        Some((step, Outcome::Done { uid, witness })) => {
            return done(&class.name, applied, step, uid.clone(), witness.as_deref());
        }
        Some((ResourceStep::Rehearse { .. }, Outcome::Failed(failure))) => return not_anew(applied, failure),
        Some((ResourceStep::Strip { .. }, Outcome::Failed(failure))) if cannot_go(seen, class, item, failure) => {
            return stuck(applied, failure, seen.extent_of(&item.identity));
        }
        Some((_, Outcome::Failed(failure))) => {
            return failed(item, applied, failure, seen.may_make_anew(&item.identity, class));
        }
        Some((_, Outcome::NotRun)) | None => {}
    }
    match seen.need_now(item, class) {
        Need::Blocked(obstacle) => blocked(item, applied, &obstacle),
        Need::Vouch(fingerprint) => {
            let class = Some(class.name.clone());
            Applied {
                state: State::Applied,
                message: None,
                replacing: None,
                class,
                digest: Some(fingerprint),
                ..applied
            }
        }
        // Whatever went wrong before is over.
        Need::Nothing => {
            let class = Some(class.name.clone());
            Applied { state: State::Applied, message: None, replacing: None, class, ..applied }
        }
        Need::Steps(_) => applied,
    }
}

/// Whether what is to be taken out of an object cannot go: nobody can change it, or the kind asks for what the class set before and
/// leaves to others now. Where others may add nothing they could add what asks for it.
fn cannot_go(seen: &Observed, class: &Class, item: &Rendered, failure: &Failure) -> bool {
    let others_may_add = seen.extent_of(&item.identity).is_none() && !class.policy.exact;
    failure.reason == IMMUTABLE_FIELD || (failure.reason == INVALID && others_may_add)
}

/// What finalizers hold is as it should be, and yet not there to stay.
fn until_it_is_gone(seen: &Observed, item: &Rendered, applied: Applied) -> Applied {
    if applied.state == State::Applied && seen.is_ending(item) {
        blocked(item, applied, &Obstacle::BeingDeleted)
    } else {
        applied
    }
}

fn done(class: &str, applied: Applied, step: &ResourceStep, uid: Option<String>, witness: Option<&str>) -> Applied {
    match step {
        ResourceStep::Create { digest, shape, .. } | ResourceStep::Apply { digest, shape, .. } => {
            let witness = witness.and_then(Witness::parse).unwrap_or_default();
            // It stays on record that something has to go.
            let rest = applied.fingerprint().filter(|_| witness.rest).map(|before| before.with_rest());
            let fingerprint = Fingerprint::new(digest, rest.as_deref().unwrap_or(shape), &witness).to_string();
            Applied {
                // What we made ourselves is no longer what was taken over.
                adopted: applied.adopted && !matches!(step, ResourceStep::Create { .. }),
                class: Some(class.to_owned()),
                uid: uid.or(applied.uid),
                digest: Some(fingerprint),
                state: State::Applied,
                message: None,
                replacing: None,
                ..applied
            }
        }
        _ => applied,
    }
}

fn failed(item: &Rendered, applied: Applied, failure: &Failure, is_made_anew: bool) -> Applied {
    match failure.reason {
        // Somebody has the name: the next look reads who.
        "AlreadyExists" => Applied { message: Some(TAKEN.to_owned()), ..blocked(item, applied, &Obstacle::NotOurs) },
        IMMUTABLE_FIELD => {
            let why = if is_made_anew { failure.message.clone() } else { with_fix(failure) };
            Applied { state: State::Failed, message: Some(format!("{IMMUTABLE}: {why}")), ..applied }
        }
        _ if failure.class == FailureClass::Stale => applied,
        _ if failure.class == FailureClass::Transient => {
            Applied { state: State::Pending, message: Some(failure.message.clone()), ..applied }
        }
        _ => Applied { state: State::Failed, message: Some(with_fix(failure)), ..applied },
    }
}

/// What cannot be changed in place, and would be refused if it were made anew, stays as it is.
fn not_anew(applied: Applied, failure: &Failure) -> Applied {
    let message = format!("{IMMUTABLE}, and would not be accepted anew: {}; change the class", with_fix(failure));
    if is_refusal(failure) { Applied { state: State::Failed, message: Some(message), ..applied } } else { applied }
}

/// Whether the last attempt failed because a field cannot be changed.
pub(super) fn failed_on_immutable(applied: &Applied) -> bool {
    applied.state == State::Failed && applied.message.as_deref().is_some_and(|message| message.starts_with(IMMUTABLE))
}

/// Whether the last attempt failed because of something there is: that may be known again, or another object by now.
pub(super) fn cannot_change(applied: &Applied) -> bool {
    failed_on_immutable(applied) || is_stuck(applied)
}

fn blocked(item: &Rendered, applied: Applied, obstacle: &Obstacle) -> Applied {
    let message = Some(explain(item, obstacle));
    match obstacle {
        // What is not ours is never listed as ours.
        Obstacle::NotOurs | Obstacle::Controlled => {
            let keep = applied.uid.is_some() && applied.state != State::Conflict;
            let uid = if keep { applied.uid.clone() } else { None };
            Applied { state: State::Conflict, message, uid, digest: None, ..applied }
        }
        Obstacle::ClusterScoped => Applied { state: State::Failed, message, uid: None, digest: None, ..applied },
        Obstacle::NotInstalled => {
            // An object may outlive its API: it is known again if it was somebody's before.
            let uid = applied.uid.clone().filter(|_| applied.adopted);
            Applied { state: State::Pending, message, uid, digest: None, ..applied }
        }
        Obstacle::Forbidden { .. } | Obstacle::Moved { .. } => Applied { state: State::Failed, message, ..applied },
        // That the name is taken stays on record, or it would be tried again and again.
        Obstacle::BeingDeleted | Obstacle::Unobservable { .. } if applied.state == State::Conflict => {
            Applied { message, ..applied }
        }
        // Without a digest it has never stood: what cannot be changed in place is not tried again before it is gone.
        Obstacle::BeingDeleted if failed_on_immutable(&applied) => {
            Applied { state: State::Pending, message, digest: None, ..applied }
        }
        Obstacle::BeingDeleted | Obstacle::Unobservable { .. } => Applied { state: State::Pending, message, ..applied },
        Obstacle::Drifted { .. } | Obstacle::Contested { .. } => Applied { state: State::Drifted, message, ..applied },
        Obstacle::ToAdopt { uid } => {
            Applied { state: State::Pending, adopted: true, uid: Some(uid.clone()), digest: None, message, ..applied }
        }
    }
}

fn stalled(reason: &'static str, message: String) -> Readiness {
    Readiness::Stalled { reason, message }
}

fn progressing(reason: &'static str, message: String) -> Readiness {
    Readiness::Progressing { reason, message }
}

#[cfg(test)]
mod tests;
