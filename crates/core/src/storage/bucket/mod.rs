//! A bucket: made with the key of its claim's user, removed or let go with its S3Bucket.
//!
//! - A bucket that belongs to another user is never touched.
//! - A bucket with objects in it is never removed.
//! - An S3Bucket waits for its claim, except in a namespace that is being deleted: there it lets go of what it cannot remove.
//! - What is not empty and was not deleted by a person (its namespace goes, or the class that stamped it no longer wants it) is
//!   let go as well. Whatever outlives its S3Bucket is noted on the S3User first.

mod grants;
mod observed;
mod provision;
mod removal;
mod settings;
mod step;

pub use grants::{Bindings, GRANT, Grant, Grants, OURS, PolicySeen};
pub use observed::{Bucket, Deletion, Found, Lookup, Observed, Owner, RecordSeen, Spec, Status};
pub use removal::GRACE;
pub use settings::{BucketQuota, LifecycleRule, Setting, Settings, State, Versioning};
pub use step::{Note, Step};

use super::{NoClass, Problem, Reason, Usage, reason::readiness_of};
use crate::{
    conditions::Readiness,
    plan::{FailureClass, Outcomes, Plan, first_failure},
    time::Timestamp,
};

/// The reason a gateway gives for not removing a bucket with objects in it.
pub const BUCKET_NOT_EMPTY: &str = "BucketNotEmpty";

/// A policy longer than S3 allows is not repeated in a status.
pub(in crate::storage) const LONGEST_POLICY: usize = 20 * 1024;

/// What to do, and what to say if it works.
struct Decision {
    steps: Vec<Step>,
    verdict: Readiness,
}

impl Decision {
    fn new(steps: Vec<Step>, verdict: Readiness) -> Self {
        Self { steps, verdict }
    }

    fn wait(verdict: Readiness) -> Self {
        Self::new(Vec::new(), verdict)
    }
}

pub fn plan(seen: &Observed) -> Plan<Step> {
    let Some(bucket) = &seen.bucket else { return Plan::settled() };
    Plan::steps(decide(seen, bucket).steps)
}

fn decide(seen: &Observed, bucket: &Bucket) -> Decision {
    // What goes with its namespace cannot wait.
    let can_wait = !(seen.namespace_terminating && bucket.deleting.is_some());
    if let Some(migration) = seen.held_by.as_ref().filter(|_| can_wait) {
        return Decision::wait(Reason::Migrating.progressing(format!("UserMigration {migration} is at work")));
    }
    match (bucket.deleting, &bucket.spec) {
        (Some(since), _) => removal::decide(seen, bucket, since),
        (None, Err(problems)) => Decision::wait(Reason::InvalidSpec.stalled(Problem::list(problems))),
        (None, Ok(spec)) => provision::decide(seen, bucket, spec),
    }
}

/// What a person puts right in Ceph, which tells nobody.
const A_PERSONS: [Reason; 4] =
    [Reason::BucketTaken, Reason::BucketLost, Reason::PolicyUnreadable, Reason::BucketNotEmpty];

/// Whether to try again although no step failed, soon at first and ever more rarely: a gateway cannot be watched.
pub fn must_retry(seen: &Observed) -> bool {
    let verdict = seen.bucket.as_ref().map(|bucket| decide(seen, bucket).verdict);
    let is_a_persons = |verdict: Readiness| A_PERSONS.iter().any(|reason| reason.as_str() == verdict.reason());
    matches!(seen.owner, Owner::Unreachable(_)) || verdict.is_some_and(is_a_persons)
}

/// Whether all was well when it was last looked at, nothing is asked for since, and only its class is away.
fn waits_unharmed(seen: &Observed, bucket: &Bucket) -> bool {
    let is_away = matches!(seen.owner, Owner::NoClass(NoClass::NotReady { .. }));
    is_away && bucket.deleting.is_none() && bucket.is_settled()
}

/// The new status of the S3Bucket, if there is one. `outcomes` are those of [`plan`]'s steps on the same observation.
pub fn report(seen: &Observed, outcomes: Outcomes<'_, Step>, now: &Timestamp) -> Option<Status> {
    let bucket = seen.bucket.as_ref()?;
    let verdict = match first_failure(outcomes) {
        // The world has moved on: the next look will tell.
        Some(failure) if failure.class == FailureClass::Stale => return Some(bucket.status.clone()),
        Some(failure) => readiness_of(failure),
        None if waits_unharmed(seen, bucket) => return Some(bucket.status.clone()),
        None => decide(seen, bucket).verdict,
    };
    let mut status = Status { observed_generation: Some(bucket.generation), ..bucket.status.clone() };
    let was_done = |wanted: fn(&Step) -> bool| outcomes.iter().any(|(step, outcome)| wanted(step) && outcome.is_done());
    if was_done(|step| matches!(step, Step::CreateBucket { .. })) {
        status.created = true;
    } else if was_done(|step| matches!(step, Step::DeleteBucket { .. })) {
        status.created = false;
    } else if let Owner::Ready { found: found @ (Found::Ours | Found::Foreign { .. }), .. }
    | Owner::Removable { found: found @ (Found::Ours | Found::Foreign { .. }), .. } = &seen.owner
    {
        // Of one that is nowhere the status goes on telling that it was made.
        status.created = *found == Found::Ours;
    }
    if let Some(state) = &seen.state {
        tell(&mut status, bucket, state, outcomes);
    }
    status.reason = match &verdict {
        Readiness::Ready { .. } => None,
        Readiness::Progressing { message, .. } | Readiness::Stalled { message, .. } => Some(message.clone()),
    };
    verdict.write(&mut status.conditions, bucket.generation, now);
    Some(status)
}

/// What is known of a bucket that stays, and what was done to it.
fn tell(status: &mut Status, bucket: &Bucket, state: &State, outcomes: Outcomes<'_, Step>) {
    let was_put = |step: &Step| matches!(step, Step::PutPolicy { .. });
    let is_put = outcomes.iter().any(|(step, outcome)| was_put(step) && outcome.is_done());
    status.policy = match &state.policy {
        PolicySeen::Read { wanted, .. } if is_put => Some(wanted.clone()),
        PolicySeen::Read { current, .. } => current.clone(),
        PolicySeen::Unreadable(_) => None,
    };
    status.policy.take_if(|policy| policy.len() > LONGEST_POLICY);
    status.used = Some(Usage::told(status.used, state.usage));
    let noted = outcomes.iter().find_map(|(step, outcome)| match step {
        Step::NoteSettings { settings, .. } if outcome.is_done() => Some(settings),
        _ => None,
    });
    if let Some(noted) = noted {
        status.managed_settings.clone_from(noted);
    }
    // What could not be looked at is not taken back.
    let is_all_seen = matches!(state.policy, PolicySeen::Read { .. });
    if let (Ok(spec), true) = (&bucket.spec, is_all_seen && outcomes.iter().all(|(_, outcome)| outcome.is_done())) {
        status.managed_settings = settings::managed(spec);
    }
}
