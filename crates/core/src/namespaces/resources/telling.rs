//! When to say what: a status is written at once where people may act on it, and once for a burst where they need not.

use std::time::Duration;

use super::{
    Observed, ResourceStep,
    report::{made_anew, report},
    words::UNOBSERVABLE,
};
use crate::{
    budget::{Budget, Budgets},
    namespaces::inventory::{Difference, Status},
    plan::{Next, Outcome},
    time::{Instant, Timestamp},
};

/// Writing a status costs the API server more than making an object. A report of routine is written at once if none was for
/// this long; otherwise when nothing was added to it for this long,
const CALM: Duration = Duration::from_millis(200);
/// but this long after its first addition at the latest.
const MOST: Duration = Duration::from_secs(2);

/// Which namespaces have just reported routine.
#[derive(Clone, Debug)]
pub struct Routine(Budgets<String>);

impl Default for Routine {
    fn default() -> Self {
        Self(Budgets::new(Budget::new(1, CALM)))
    }
}

impl Routine {
    fn may_report(&mut self, namespace: &str, at: Instant) -> bool {
        self.0.spend(namespace.to_owned(), at)
    }
}

/// A status that is not written yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    binding_uid: String,
    /// What is written, to which this is new.
    stored: Status,
    status: Status,
    since: Instant,
    last: Instant,
}

/// The status as it is, written or not: whatever was written in the meantime counts more.
pub fn current(held: &mut Option<Held>, binding_uid: &str, stored: &Status) -> Status {
    match held {
        Some(waiting) if waiting.binding_uid == binding_uid && waiting.stored == *stored => waiting.status.clone(),
        _ => {
            *held = None;
            stored.clone()
        }
    }
}

/// What leaves a reconcile of a binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telling {
    /// To be written now.
    pub status: Option<Status>,
    /// What to say in an Event: whether it is a warning, the reason and the message.
    pub event: Option<(bool, String, String)>,
    pub next: Next,
    /// Nobody announces when this is over: look again, ever more rarely.
    pub retry: bool,
}

/// Decides what to write, what to say and when to look again. `stored` is the status as it is written.
pub fn tell(
    seen: &Observed,
    stored: &Status,
    outcomes: &[(&ResourceStep, Outcome)],
    held: &mut Option<Held>,
    routine: &mut Routine,
    now: &Timestamp,
    at: Instant,
) -> Telling {
    if seen.namespace.terminating || seen.binding.deleting || outcomes.iter().any(ends_binding) {
        *held = None;
        return Telling::default();
    }
    let status = report(seen, outcomes, now);
    // What carries no label of ours is in no watch: nobody tells when it is gone.
    let waits_unseen = seen.read.iter().any(|(identity, read)| {
        read.as_ref().is_some_and(|object| object.deleting) && !seen.stamped.contains_key(identity)
    });
    let retry = waits_unseen || matches!(status.conditions.reason("Ready"), Some("Conflict" | UNOBSERVABLE));
    let waits = |next| Telling { next, retry, ..Telling::default() };
    let telling = match stored.difference(&status) {
        Difference::None => {
            *held = None;
            waits(Next::Settled)
        }
        Difference::Vouched => {
            hold(held, seen, stored, status, at);
            waits(Next::Settled)
        }
        Difference::Routine => {
            let is_first = !holds_routine(held.as_ref()) && routine.may_report(&seen.namespace.name, at);
            // It stays held until the cache has seen it written.
            let left = hold(held, seen, stored, status.clone(), at);
            if is_first || left.is_zero() { written(seen, status, retry) } else { waits(Next::After(left)) }
        }
        Difference::News => {
            *held = None;
            written(seen, status, retry)
        }
    };
    // What we did ourselves wakes nobody.
    if made_anew(outcomes).is_some() || outcomes.iter().any(is_half_gone) {
        Telling { next: Next::After(Duration::ZERO), ..telling }
    } else {
        telling
    }
}

/// Whether something was deleted and is still there, since by whom it is held is seen at the next look; or went with its finalizers,
/// since what waited for that goes on with the next.
fn is_half_gone((step, outcome): &(&ResourceStep, Outcome)) -> bool {
    match step {
        ResourceStep::Prune { .. } => matches!(outcome, Outcome::Done { uid: Some(_), .. }),
        ResourceStep::LetGo { .. } => outcome.is_done(),
        _ => false,
    }
}

fn ends_binding((step, outcome): &(&ResourceStep, Outcome)) -> bool {
    matches!(step, ResourceStep::DeleteBinding { .. }) && outcome.is_done()
}

fn written(seen: &Observed, status: Status, retry: bool) -> Telling {
    let told = seen.binding.status.conditions.reason("Ready");
    let event = match status.conditions.get("Ready") {
        Some(ready) if told == Some(&ready.reason) => None,
        Some(ready) if ready.reason == "ReconcileSuccess" => {
            Some((false, "ReconcileSucceeded".to_owned(), ready.message.clone()))
        }
        Some(ready) if ready.reason != "RolloutPending" => Some((true, ready.reason.clone(), ready.message.clone())),
        _ => None,
    };
    // Where it is not all well, the next look goes on from what is recorded now.
    let next = if status.is_ready() { Next::Settled } else { Next::After(Duration::ZERO) };
    Telling { status: Some(status), event, next, retry }
}

/// Whether what is held is worth a write of its own.
fn holds_routine(held: Option<&Held>) -> bool {
    held.is_some_and(|held| held.stored.difference(&held.status) >= Difference::Routine)
}

/// Keeps the status for later; tells how long it may still wait.
fn hold(held: &mut Option<Held>, seen: &Observed, stored: &Status, status: Status, at: Instant) -> Duration {
    let waiting = held.get_or_insert_with(|| Held {
        binding_uid: seen.binding.uid.clone(),
        stored: stored.clone(),
        status: stored.clone(),
        since: at,
        last: at,
    });
    let holds_routine = holds_routine(Some(waiting));
    if waiting.status != status {
        // What was only vouched for has waited for nothing.
        if !holds_routine {
            waiting.since = at;
        }
        waiting.status = status;
        waiting.last = at;
    }
    let due = (waiting.last + CALM).min(waiting.since + MOST);
    due.since(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::{
        inventory::{Applied, State},
        resources::{Binding, Class, ClassSeen, Namespace},
    };

    fn status(digest: &str, uid: u64) -> Status {
        let applied = Applied {
            name: "a".into(),
            uid: Some(uid.to_string()),
            digest: Some(digest.into()),
            state: State::Applied,
            ..Applied::default()
        };
        Status { applied_resources: vec![applied], ..Status::default() }
    }

    fn seen() -> Observed {
        let binding = Binding { uid: "b".into(), ..Binding::default() };
        Observed { binding, class: ClassSeen::Present(Class::default()), ..Observed::default() }
    }

    /// How long a status waits that is held at each of these moments.
    fn left(moments: impl IntoIterator<Item = (u64, Status)>) -> Vec<u64> {
        let mut held = None;
        let stored = status("m.s.f.c", 0);
        let waits = moments.into_iter().map(|(at, status)| {
            let left = hold(&mut held, &seen(), &stored, status, Instant(at));
            u64::try_from(left.as_millis()).unwrap()
        });
        waits.collect()
    }

    #[test]
    fn routine_is_told_once_it_stops_or_after_a_while() {
        assert_eq!(
            left([(0, status("m.s.f.c", 1)), (50, status("m.s.f.c", 1)), (200, status("m.s.f.c", 1))]),
            [200, 150, 0]
        );
        let endless = left((0..=20).map(|turn| (turn * 100, status("m.s.f.c", turn + 1))));
        assert_eq!((endless[0], endless[19], endless[20]), (200, 100, 0));
    }

    #[test]
    fn the_first_routine_after_a_while_is_told_at_once_and_what_follows_it_together() {
        let (mut held, mut routine) = (None, Routine::default());
        // A namespace on its way to another class reports what is on record.
        let mut tell_at = |at: u64, written: u64, made: u64| {
            let namespace = Namespace { name: "a".into(), relabelled: true, ..Namespace::default() };
            let binding = Binding { status: status("m.s.f.c", made), ..seen().binding };
            let (seen, stored) = (Observed { namespace, binding, ..seen() }, status("m.s.f.c", written));
            current(&mut held, "b", &stored);
            let told = tell(&seen, &stored, &[], &mut held, &mut routine, &Timestamp::default(), Instant(at));
            told.status.is_some()
        };
        assert!(tell_at(1000, 0, 1), "the first");
        assert!(!tell_at(1100, 1, 2) && !tell_at(1150, 1, 3) && !tell_at(1349, 1, 3), "held back");
        assert!(tell_at(1350, 1, 3), "all together");
        assert!(tell_at(9000, 3, 4), "after a while");
    }

    #[test]
    fn a_burst_of_routine_begins_with_routine() {
        let vouched = status("m.s.f.x", 0);
        assert_eq!(left([(0, vouched.clone()), (90_000, vouched), (100_000, status("m.s.f.c", 1))])[2], 200);
    }

    #[test]
    fn what_is_not_written_counts_until_somebody_writes_something_else() {
        let stored = status("m.s.f.c", 0);
        let mut held = None;
        hold(&mut held, &seen(), &stored, status("m.s.f.x", 0), Instant(0));
        assert_eq!(current(&mut held, "b", &stored), status("m.s.f.x", 0));
        let other = status("m.s.f.c", 7);
        assert_eq!(current(&mut held, "b", &other), other);
        assert_eq!(current(&mut held, "b", &stored), stored, "and it is forgotten");
        hold(&mut held, &seen(), &stored, status("m.s.f.x", 0), Instant(0));
        assert_eq!(current(&mut held, "another binding", &stored), stored);
    }
}
