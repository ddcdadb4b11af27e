//! What a binding says about itself after its plan ran.

use std::collections::BTreeMap;

use super::{
    Class, ClassSeen, Observed, ResourceStep, Withheld,
    contest::{despite_contests, namespace_left, until_it_stands},
    is_adopted,
    namespace::{despite_conflict, furnished_after},
    need::{Need, Obstacle},
    step::namespace_identity,
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

/// The reason while a namespace gives a value that its class does not take.
const INVALID_PARAMETER: &str = "InvalidParameter";

/// The reason while something of a class can be made in no namespace, or not in this one.
const INVALID_CLASS: &str = "InvalidClass";

/// Why the API server refuses to change a field of an object that exists.
pub(super) const IMMUTABLE_FIELD: &str = "Immutable";

/// Marks a message about a change that cannot be made in place.
const IMMUTABLE: &str = "cannot be changed in place";

/// About an object whose name is taken, before it is known by whom.
const TAKEN: &str = "an object of this name exists; about to be looked at";

/// The binding's new status.
pub fn report(seen: &Observed, outcomes: Outcomes<'_>, now: &Timestamp) -> Status {
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
            Some(identity) if failure.reason == IMMUTABLE_FIELD && seen.may_make_anew(identity, class) => {
                progressing("RolloutPending", format!("{identity} {IMMUTABLE} and is made anew: {}", failure.message))
            }
            _ => failing(step, failure),
        };
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
fn made_anew(outcomes: Outcomes<'_>) -> Option<&Identity> {
    outcomes.iter().find(|(step, outcome)| step.is_to_make_anew() && outcome.is_done())?.0.identity()
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
        (ResourceStep::Prune { .. } | ResourceStep::Release { .. }, _) => "PruneFailed",
        _ => "ApplyFailed",
    };
    let what = step.identity().map_or_else(|| "the namespace".to_owned(), ToString::to_string);
    let message = format!("{what}: {}", with_fix(failure));
    match failure.class {
        FailureClass::Early { .. } | FailureClass::Stale | FailureClass::Transient => progressing(reason, message),
        FailureClass::Forbidden | FailureClass::Rejected => stalled(reason, message),
    }
}

/// Objects somebody made look like ours are listed up to this many: a status has an end.
const MOST_UNRECORDED: usize = 100;

/// The inventory after the plan ran: the namespace, the class's objects in its order, then what is still to be removed.
fn inventory(seen: &Observed, class: &Class, outcomes: Outcomes<'_>) -> Vec<Applied> {
    // Of several steps about an object the last one counts.
    let ran = outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::NotRun);
    let ran: BTreeMap<_, _> = ran.filter_map(|ran| Some((ran.0.identity()?, ran))).collect();
    let wanted = class.items.iter().map(|item| {
        let last = ran.get(&item.identity).copied();
        until_it_stands(seen, until_it_is_gone(seen, item, entry(seen, class, item, last)), last.is_some())
    });
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
                .or(leftover.deleting.then(|| HELD.to_owned()))
                .or_else(|| waits.clone()),
            ..recorded.cloned().unwrap_or_default()
        })
    });
    let leftovers: Vec<_> = leftovers.collect();
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

/// What keeps an object that is no longer wanted from going.
fn waits_for(seen: &Observed, class: &Class, outcomes: Outcomes<'_>) -> Option<String> {
    let failed = first_failed(outcomes).and_then(|(step, _)| step.identity().map(ToString::to_string));
    let blocking = obstructed(seen, class).next().map(|(item, _)| item.identity.to_string()).or(failed);
    let misfit = || class.problems_of_misfits().next().map(|problem| problem.field.clone());
    let blocking = blocking.or_else(misfit)?;
    Some(format!("no longer wanted; goes when all of class {} stands, and waits for {blocking}", class.name))
}

/// About an object that finalizers hold.
const HELD: &str = "no longer wanted and deleted; goes when its finalizers let go of it";

/// A message about one of many objects.
const LONGEST: usize = 1_000;

/// The Namespace is listed while it carries labels or annotations of the class.
fn namespace_entry(seen: &Observed, class: &Class, outcomes: Outcomes<'_>) -> Option<Applied> {
    let before = seen.recorded_namespace().cloned();
    let is_about = |step: &ResourceStep| {
        matches!(step, ResourceStep::ApplyNamespaceMetadata { .. } | ResourceStep::PutBackNamespaceMetadata { .. })
    };
    // Of several the last one counts.
    let ran = outcomes.iter().rfind(|(step, outcome)| is_about(step) && *outcome != Outcome::NotRun);
    let (entry, wanted) = (namespace_announced(seen), seen.namespace_wanted(class));
    match ran.map(|(_, outcome)| outcome) {
        Some(Outcome::Done { .. })
            if wanted.is_empty() && (is_last_done(outcomes) || !seen.namespace_drops(&wanted)) =>
        {
            None
        }
        Some(Outcome::Done { .. }) => Some(Applied { state: State::Applied, digest: Some(wanted.digest()), ..entry }),
        Some(Outcome::Failed(failure)) if is_refusal(failure) => {
            Some(Applied { state: State::Failed, message: Some(failure.message.clone()), ..entry })
        }
        None | Some(Outcome::Failed(_) | Outcome::NotRun) => before,
    }
    .map(|entry| until_it_stands(seen, namespace_left(seen, class, entry), ran.is_some()))
    .map(|entry| despite_conflict(seen, class, entry))
}

/// Whether the Namespace has got what the class sets.
fn is_namespace_set(outcomes: Outcomes<'_>) -> bool {
    let is_about = |step: &ResourceStep| matches!(step, ResourceStep::ApplyNamespaceMetadata { .. });
    outcomes.iter().any(|(step, outcome)| is_about(step) && outcome.is_done())
}

/// Whether everything has gone from the Namespace that the class does not set any more.
fn is_last_done(outcomes: Outcomes<'_>) -> bool {
    let is_last = |step: &ResourceStep| matches!(step, ResourceStep::ApplyNamespaceMetadata { last: true, .. });
    outcomes.iter().any(|(step, outcome)| is_last(step) && outcome.is_done())
}

/// The Namespace, before its first label of the class is set.
fn namespace_announced(seen: &Observed) -> Applied {
    let identity = namespace_identity(&seen.namespace.name);
    Applied { api_version: "v1".into(), kind: identity.kind, name: identity.name, ..Applied::default() }
}

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
    match last {
        Some((step, Outcome::Done { uid, witness })) => return done(applied, step, uid.clone(), witness.as_deref()),
        Some((ResourceStep::Rehearse { .. }, Outcome::Failed(failure))) => return not_anew(applied, failure),
        Some((_, Outcome::Failed(failure))) => {
            return failed(item, applied, failure, seen.may_make_anew(&item.identity, class));
        }
        Some((_, Outcome::NotRun)) | None => {}
    }
    match seen.need_now(item, class) {
        Need::Blocked(obstacle) => blocked(item, applied, &obstacle),
        Need::Vouch(fingerprint) => {
            Applied { state: State::Applied, message: None, digest: Some(fingerprint), ..applied }
        }
        // Whatever went wrong before is over.
        Need::Nothing => Applied { state: State::Applied, message: None, ..applied },
        Need::Steps(_) => applied,
    }
}

/// What finalizers hold is as it should be, and yet not there to stay.
fn until_it_is_gone(seen: &Observed, item: &Rendered, applied: Applied) -> Applied {
    if applied.state == State::Applied && seen.is_ending(item) {
        blocked(item, applied, &Obstacle::BeingDeleted)
    } else {
        applied
    }
}

/// What is on record about a wanted object, and which one it is: if we died right after making it anew, the record is of the one
/// before it.
fn on_record(seen: &Observed, identity: &Identity) -> Applied {
    let recorded = seen.recorded(identity).cloned().unwrap_or_default();
    let stamped = seen.stamped.get(identity).filter(|object| seen.is_ours(identity, &object.uid, &object.owner));
    // What was made and lost its label on the way is known by its owner, and read for that.
    let read = seen.read.get(identity).and_then(Option::as_ref).filter(|object| object.owner.is_a_binding());
    match stamped.map(|object| &object.uid).or(read.map(|object| &object.uid)) {
        Some(uid) => Applied { adopted: seen.is_adopted(identity, uid), uid: Some(uid.clone()), ..recorded },
        None => recorded,
    }
}

fn done(applied: Applied, step: &ResourceStep, uid: Option<String>, witness: Option<&str>) -> Applied {
    match step {
        ResourceStep::Create { digest, shape, .. } | ResourceStep::Apply { digest, shape, .. } => {
            let witness = witness.and_then(Witness::parse).unwrap_or_default();
            let fingerprint = Fingerprint::new(digest, shape, &witness);
            Applied {
                // What we made ourselves is no longer what was taken over.
                adopted: applied.adopted && matches!(step, ResourceStep::Apply { .. }),
                uid: uid.or(applied.uid),
                digest: Some(fingerprint.to_string()),
                state: State::Applied,
                message: None,
                ..applied
            }
        }
        // Deleted to be made anew.
        ResourceStep::Prune { .. } => {
            Applied { uid: None, digest: None, state: State::Pending, message: None, ..applied }
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
