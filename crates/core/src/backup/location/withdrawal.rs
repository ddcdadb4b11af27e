//! What Velero has of a location is taken away: first whatever waits to be stored there, last the location itself.
//!
//! Velero looks at the location of a Backup only once its turn has come. One that finds none fails there and then, and everybody
//! behind it waits for a minute; where Velero is quick about it, it takes that one for running and serves nobody any more.

use std::time::Duration;

use super::{Observed, Step, Target};
use crate::{
    backup::{Phase, Victim, ownership::Marks},
    conditions::{Conditions, Truth},
    plan::{self, Plan},
    time::Timestamp,
};

/// Velero takes a moment from a Backup's turn to looking at its location.
pub(in crate::backup) const MOMENT: Duration = Duration::from_secs(2);

/// A Velero Backup in the location that Velero has not begun with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InQueue {
    pub backup: Victim,
    pub version: String,
    pub marks: Marks,
    /// Its turn has come: Velero looks at its location next.
    pub is_next: bool,
}

impl InQueue {
    /// Whether it was made for a request of the namespace. What an administrator stores there is none of our business.
    pub(in crate::backup) fn is_of(&self, namespace: &str) -> bool {
        let Marks { managed, nacuuid, namespace: of, name } = &self.marks;
        let is_of_namespace = *managed && of.as_deref() == Some(namespace) && name.is_some();
        is_of_namespace && nacuuid.as_ref() == Some(&self.backup.name)
    }
}

impl Observed {
    fn own_in_queue(&self) -> impl Iterator<Item = &InQueue> {
        self.in_queue.iter().filter(|waiting| waiting.is_of(&self.object.namespace))
    }

    /// Velero is about to look at the location.
    fn is_looked_at_next(&self) -> bool {
        self.own_in_queue().any(|waiting| waiting.is_next)
    }
}

/// Why it is still there although it is deleted, where nothing else says so.
pub(super) fn tell(conditions: &mut Conditions, seen: &Observed, now: &Timestamp) {
    if seen.is_looked_at_next() && !seen.object.velero_is_away() {
        let message =
            "Velero is about to begin with a backup in this location: it goes as soon as Velero has looked at it";
        conditions.set("Deleting", Truth::True, "DeletionPending", message, now);
    } else {
        conditions.remove("Deleting");
    }
}

/// What Velero has of it, to be taken away.
pub(super) fn withdrawal(seen: &Observed) -> Plan<Step> {
    let take =
        |waiting: &InQueue| Step::TakeFromQueue { backup: waiting.backup.clone(), version: waiting.version.clone() };
    let waiting: Vec<_> = seen.own_in_queue().filter(|waiting| !waiting.is_next).map(take).collect();
    let mut groups: Vec<_> = Some(waiting).filter(|waiting| !waiting.is_empty()).into_iter().collect();
    if seen.is_looked_at_next() {
        return Plan { groups, next: plan::Next::After(MOMENT) };
    }
    let name = seen.origin().nacuuid;
    let victim = |uid: &String| Victim { name: name.clone(), uid: uid.clone() };
    if let Target::Ours(copy) = seen.copy() {
        groups.push(vec![Step::DeleteSecret(victim(&copy.version.uid))]);
    }
    if let Target::Ours(velero) = seen.velero() {
        groups.push(vec![Step::DeleteLocation(victim(&velero.uid))]);
    }
    Plan { groups, next: plan::Next::Settled }
}

/// Nothing here waits for the backups: deleting them takes the time their owner gives it.
pub(super) fn delete(seen: &Observed) -> Plan<Step> {
    if seen.status.phase != Some(Phase::Deleting) || !seen.object.has_finalizer {
        return Plan::settled();
    }
    if seen.object.velero_is_away() {
        let release = Step::ReleaseFinalizer { uid: seen.object.uid.clone() };
        return if seen.object.needs_no_velero() { Plan::step(release) } else { Plan::settled() };
    }
    let mut plan = withdrawal(seen);
    // No namespace is held up for the moment until Velero has looked: the location goes then, as [`super::super::leftover`] has it.
    if !seen.is_looked_at_next() || seen.object.namespace_is_terminating {
        plan.groups.push(seen.backups.iter().cloned().map(Step::DeleteBackup).collect());
        plan.groups.push(vec![Step::ReleaseFinalizer { uid: seen.object.uid.clone() }]);
    }
    plan
}
