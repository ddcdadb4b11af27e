//! An S3Bucket that is there to stay: its bucket is made.

use super::{
    super::{Reason, reason::readiness_of},
    Decision,
    observed::{Bucket, Found, Observed, Owner, RecordSeen, Spec},
    step::{Note, Step},
};

pub(super) fn decide(seen: &Observed, bucket: &Bucket, spec: &Spec) -> Decision {
    let name = &bucket.target.name;
    let there = || Reason::Provisioned.ready("the bucket is there");
    let add_finalizer = (!bucket.finalizer).then(|| Step::AddFinalizer { bucket: bucket.target.clone() });
    match &seen.owner {
        Owner::Nobody => {
            let message = format!("S3UserClaim {} does not exist; make it or name another one", spec.claim);
            Decision::wait(Reason::WaitingForClaim.progressing(message))
        }
        Owner::NotReady(why) => {
            let message = format!("S3UserClaim {} is not ready: {why}", spec.claim);
            Decision::wait(Reason::WaitingForClaim.progressing(message))
        }
        Owner::NoClass(why) => Decision::wait(why.readiness()),
        Owner::Unreachable(failure) => Decision::wait(readiness_of(failure)),
        Owner::Ready { found: Found::Foreign { owner }, .. } => {
            let message = format!("a bucket of this name belongs to Ceph user {owner}; choose another name");
            Decision::wait(Reason::BucketTaken.stalled(message))
        }
        Owner::Ready { found: Found::Ours, .. } => {
            Decision::new(add_finalizer.into_iter().chain(take_back(seen, name)).collect(), there())
        }
        // Made anew it would be empty, and nobody would know.
        Owner::Ready { found: Found::Absent, .. } if bucket.status.created && bucket.finalizer => Decision::wait(Reason::BucketLost.stalled(
            "the bucket was there and is gone: somebody deleted it in Ceph; to make it anew, empty, delete this S3Bucket and apply it again",
        )),
        Owner::Ready { found: Found::Absent, user, key } => {
            let create = Step::CreateBucket { name: name.clone(), user: user.clone(), key: key.clone() };
            Decision::new(add_finalizer.into_iter().chain([create]).chain(take_back(seen, name)).collect(), there())
        }
        Owner::Removable { .. } => Decision::wait(Reason::WaitingForClaim.progressing("its claim is looked up")),
    }
}

/// What was set aside for want of an S3Bucket has one again.
fn take_back(seen: &Observed, name: &str) -> Option<Step> {
    let record = seen.record.as_ref().filter(|record| record.set_aside.holds(name))?;
    Some(note(record, name, Note::TakenBack))
}

pub(super) fn note(record: &RecordSeen, bucket: &str, note: Note) -> Step {
    Step::Note { record: record.name.clone(), seen: record.version.clone(), bucket: bucket.to_owned(), note }
}
