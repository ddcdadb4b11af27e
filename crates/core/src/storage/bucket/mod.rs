//! A bucket: made with the key of its claim's user, removed or let go with its S3Bucket.
//!
//! - A bucket that belongs to another user is never touched.
//! - A bucket with objects in it is never removed.
//! - An S3Bucket waits for its claim, except in a namespace that is being deleted: there it lets go of what it cannot remove.
//! - What is not empty and was not deleted by a person (its namespace goes, or the class that stamped it no longer wants it) is
//!   let go as well. Whatever outlives its S3Bucket is noted on the S3User first.

mod observed;
mod provision;
mod removal;
mod step;

pub use observed::{Bucket, Deletion, Found, Lookup, Observed, Owner, RecordSeen, Spec, Status};
pub use removal::GRACE;
pub use step::{Note, Step};

use super::{NoClass, Problem, RECHECK, Reason, reason::readiness_of};
use crate::{
    conditions::Readiness,
    plan::{FailureClass, Outcomes, Plan, first_failure},
    time::Timestamp,
};

/// The reason a gateway gives for not removing a bucket with objects in it.
pub const BUCKET_NOT_EMPTY: &str = "BucketNotEmpty";

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
    let decision = decide(seen, bucket);
    let plan = Plan::steps(decision.steps);
    // A person puts that right in Ceph, which tells nobody.
    if [Reason::BucketTaken, Reason::BucketLost].iter().any(|reason| reason.as_str() == decision.verdict.reason()) {
        return plan.look_again(RECHECK);
    }
    plan
}

fn decide(seen: &Observed, bucket: &Bucket) -> Decision {
    match (bucket.deleting, &bucket.spec) {
        (Some(since), _) => removal::decide(seen, bucket, since),
        (None, Err(problems)) => Decision::wait(Reason::InvalidSpec.stalled(Problem::list(problems))),
        (None, Ok(spec)) => provision::decide(seen, bucket, spec),
    }
}

/// Whether to try again although no step failed: a gateway cannot be watched.
pub fn must_retry(seen: &Observed) -> bool {
    matches!(seen.owner, Owner::Unreachable(_))
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
    status.reason = match &verdict {
        Readiness::Ready { .. } => None,
        Readiness::Progressing { message, .. } | Readiness::Stalled { message, .. } => Some(message.clone()),
    };
    verdict.write(&mut status.conditions, bucket.generation, now);
    Some(status)
}
