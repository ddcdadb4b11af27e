//! An S3Bucket that goes: its bucket is removed if it is empty, or let go.

use std::time::Duration;

use super::{
    super::{Reason, claim::SetAside, reason::readiness_of},
    BUCKET_NOT_EMPTY, Decision,
    observed::{Bucket, Deletion, Found, Observed, Owner, RecordSeen},
    provision::note,
    step::{Note, Step},
};
use crate::conditions::Readiness;

/// How long a namespace that is being deleted waits for a gateway that does not answer.
pub const GRACE: Duration = Duration::from_secs(60);

const NOT_EMPTY: &str = "there are objects in the bucket, or parts of unfinished uploads; delete its objects with all versions and \
                         delete markers, and abort its uploads, or say s3DeletionPolicy: retain";

pub(super) fn decide(seen: &Observed, bucket: &Bucket, since: Duration) -> Decision {
    match bucket.deletion {
        _ if !bucket.finalizer => Decision::wait(deleting("nothing is left to do")),
        // The bucket may be anywhere; its namespace cannot wait.
        deletion if seen.held_by.is_some() => {
            let note = if deletion == Deletion::Retain { Note::Kept } else { Note::Left };
            set_aside(seen, bucket, note, deleting("the bucket is being moved"))
        }
        _ if seen.given_up => let_go(bucket, "the bucket goes with its user"),
        Deletion::Retain if seen.record_is_anothers && !seen.namespace_terminating => {
            Decision::wait(Reason::RecordTaken.stalled(
                "the bucket is to be kept, which is noted on the S3User of its claim's name, and that names another claim or none; ask \
                 the administrator to put its spec.claimRef right, or to remove it",
            ))
        }
        Deletion::Retain => match &seen.owner {
            // Names of buckets that never were would pile up on the S3User.
            Owner::Ready { found: Found::Absent, .. } | Owner::Removable { found: Found::Absent, .. } => {
                let_go(bucket, "there is no bucket to keep")
            }
            Owner::Removable { found: Found::Foreign { .. }, .. } => let_go(bucket, "the bucket is not ours"),
            // Whoever makes it anew may just have seen that an S3Bucket answers for the bucket, and keep only others.
            _ if seen.record.is_none() && seen.record_comes && !seen.namespace_terminating => {
                Decision::wait(Reason::WaitingForClaim.progressing(
                    "the bucket is to be kept, which is noted on the S3User of its claim once that is there again; see what the \
                     S3UserClaim waits for, or delete that, too",
                ))
            }
            _ => set_aside(seen, bucket, Note::Kept, deleting("the bucket is kept")),
        },
        Deletion::Delete => remove(seen, bucket, since),
    }
}

fn remove(seen: &Observed, bucket: &Bucket, since: Duration) -> Decision {
    let terminating = seen.namespace_terminating;
    let leave = || set_aside(seen, bucket, Note::Left, deleting("the bucket is left behind"));
    let name = &bucket.target.name;
    match &seen.owner {
        Owner::Nobody => let_go(bucket, "the claim's user is gone"),
        Owner::NotReady(_) if !bucket.status.created => let_go(bucket, "no bucket was made"),
        // A claim that goes makes no user any more, and waits for this S3Bucket itself.
        Owner::NotReady(_) if !seen.record_comes => leave(),
        Owner::NotReady(_) | Owner::NoClass(_) if terminating => leave(),
        Owner::Unreachable(_) if terminating && since >= GRACE => leave(),
        Owner::NotReady(why) => Decision::wait(Reason::WaitingForClaim.progressing(format!(
            "{why}; see what the S3UserClaim waits for, or delete that, too: the bucket is then kept if there is something in it"
        ))),
        Owner::NoClass(why) => Decision::wait(why.readiness()),
        Owner::Unreachable(failure) => Decision::wait(readiness_of(failure)),
        Owner::Ready { found: Found::Absent, .. } | Owner::Removable { found: Found::Absent, .. } => {
            let_go(bucket, "the bucket is gone")
        }
        Owner::Ready { .. } | Owner::Removable { found: Found::Foreign { .. }, .. } => {
            let_go(bucket, "the bucket is not ours")
        }
        // It was kept before, and no S3Bucket has taken it back since.
        Owner::Removable { .. } if is_kept(seen, bucket) => let_go(bucket, "the bucket is kept"),
        // What is said to be empty and will not go holds up nobody either.
        Owner::Removable { empty, .. } if (terminating || seen.unwanted) && (!empty || was_refused(bucket)) => {
            let why = "there are objects in the bucket, which nobody asked to remove: it is kept, and taken back when an \
                       S3Bucket of its name and claim is made";
            set_aside(seen, bucket, Note::Kept, Reason::BucketsKept.progressing(why))
        }
        // The gateway itself would take one for empty that has nothing but parts in it.
        Owner::Removable { empty: false, .. } => Decision::wait(Reason::BucketNotEmpty.stalled(NOT_EMPTY)),
        Owner::Removable { user, .. } => {
            let mut decision = let_go(bucket, "the bucket is being removed");
            decision.steps.insert(0, Step::DeleteBucket { name: name.clone(), user: user.clone() });
            decision
        }
    }
}

/// Whether the gateway would not remove the bucket because it holds something after all. What we said ourselves of one that was seen
/// to hold something may be over.
fn was_refused(bucket: &Bucket) -> bool {
    let ready = bucket.status.conditions.get("Ready");
    ready.is_some_and(|condition| condition.reason == BUCKET_NOT_EMPTY && condition.message != NOT_EMPTY)
}

/// Whether it is kept as far as the S3User tells: where that keeps more than it lists, an S3Bucket that never had the bucket has not
/// taken it back either.
fn is_kept(seen: &Observed, bucket: &Bucket) -> bool {
    let name = &bucket.target.name;
    let is_kept =
        |set_aside: &SetAside| set_aside.kept.contains(name) || (set_aside.keeps(name) && !bucket.status.created);
    seen.record.as_ref().is_some_and(|record| is_kept(&record.set_aside))
}

/// The bucket outlives its S3Bucket: that is noted before anything lets go of it, so that no later removal of its claim
/// destroys it.
fn set_aside(seen: &Observed, bucket: &Bucket, why: Note, verdict: Readiness) -> Decision {
    let name = &bucket.target.name;
    let is_noted = |record: &&RecordSeen| match why {
        Note::Kept => record.set_aside.keeps(name),
        Note::Left | Note::TakenBack => record.set_aside.holds(name),
    };
    let record = seen.record.as_ref().filter(|record| !is_noted(record));
    let steps = record.map(|record| note(record, name, why)).into_iter();
    Decision::new(steps.chain([Step::RemoveFinalizer { bucket: bucket.target.clone() }]).collect(), verdict)
}

fn let_go(bucket: &Bucket, why: &str) -> Decision {
    Decision::new(vec![Step::RemoveFinalizer { bucket: bucket.target.clone() }], deleting(why))
}

fn deleting(why: &str) -> Readiness {
    Reason::Deleting.progressing(why)
}
