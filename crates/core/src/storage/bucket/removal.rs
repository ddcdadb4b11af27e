//! An S3Bucket that goes: its bucket is removed if it is empty, or let go.

use std::time::Duration;

use super::{
    super::{Reason, reason::readiness_of},
    Decision,
    observed::{Bucket, Deletion, Found, Observed, Owner, Spec},
    step::Step,
};
use crate::conditions::Readiness;

/// How long a namespace that is being deleted waits for a gateway that does not answer.
pub const GRACE: Duration = Duration::from_secs(60);

pub(super) fn decide(seen: &Observed, bucket: &Bucket, since: Duration) -> Decision {
    match &bucket.spec {
        _ if !bucket.finalizer => Decision::wait(deleting("nothing is left to do")),
        Ok(Spec { deletion: Deletion::Retain, .. }) => let_go(bucket, "the bucket is kept"),
        _ => remove(seen, bucket, since),
    }
}

fn remove(seen: &Observed, bucket: &Bucket, since: Duration) -> Decision {
    let terminating = seen.namespace_terminating;
    match &seen.owner {
        Owner::Nobody => let_go(bucket, "the claim's user is gone"),
        Owner::NotReady(_) if !bucket.status.created => let_go(bucket, "no bucket was made"),
        Owner::NotReady(_) | Owner::NoClass(_) if terminating => let_go(bucket, "the bucket is left behind"),
        Owner::Unreachable(_) if terminating && since >= GRACE => let_go(bucket, "the bucket is left behind"),
        Owner::NotReady(why) => Decision::wait(Reason::WaitingForClaim.progressing(why.clone())),
        Owner::NoClass(why) => Decision::wait(why.readiness()),
        Owner::Unreachable(failure) => Decision::wait(readiness_of(failure)),
        Owner::Ready { found: Found::Absent, .. } => let_go(bucket, "the bucket is gone"),
        Owner::Ready { found: Found::Foreign { .. }, .. } => let_go(bucket, "the bucket is not ours"),
        Owner::Ready { found: Found::Ours, user, key } => {
            let (name, user, key) = (bucket.target.name.clone(), user.clone(), key.clone());
            let mut decision = let_go(bucket, "the bucket is being removed");
            decision.steps.insert(0, Step::DeleteBucket { name, user, key, or_leave: terminating });
            decision
        }
    }
}

fn let_go(bucket: &Bucket, why: &str) -> Decision {
    Decision::new(vec![Step::RemoveFinalizer { bucket: bucket.target.clone() }], deleting(why))
}

fn deleting(why: &str) -> Readiness {
    Reason::Deleting.progressing(why)
}
