//! An S3Bucket that is there to stay: its bucket is made.

use super::{
    super::{Reason, reason::readiness_of},
    Decision,
    grants::PolicySeen,
    observed::{Bucket, Found, Observed, Owner, RecordSeen, Spec},
    settings::{Place, State},
    step::{Note, Step},
};
use crate::conditions::Readiness;

pub(super) fn decide(seen: &Observed, bucket: &Bucket, spec: &Spec) -> Decision {
    let name = &bucket.target.name;
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
        // Made anew it would be empty, and nobody would know.
        Owner::Ready { found: Found::Absent, .. } if bucket.status.created && bucket.finalizer => Decision::wait(Reason::BucketLost.stalled(
            "the bucket was there and is gone: somebody deleted it in Ceph; to make it anew, empty, delete this S3Bucket and apply it again",
        )),
        // To the gateway the owner then has no right to make one.
        Owner::Ready { found: Found::Absent, .. } if seen.record.as_ref().is_some_and(|it| !it.allows_buckets) => {
            let message = format!("S3UserClaim {} allows no buckets; raise its spec.quota.buckets", spec.claim);
            Decision::wait(Reason::QuotaExceeded.stalled(message))
        }
        Owner::Ready { found, user, key } => {
            let Some(state) = &seen.state else {
                return Decision::wait(Reason::Working.progressing("the bucket is being looked at"));
            };
            let at = Place { name, user, key };
            let mut steps: Vec<_> = add_finalizer.into_iter().collect();
            steps.extend((*found == Found::Absent).then(|| at.create()));
            steps.extend(at.put_policy(state));
            steps.extend(at.set(bucket, spec, state));
            steps.extend(take_back(seen, name));
            Decision::new(steps, verdict(seen, spec, state))
        }
        Owner::Removable { .. } => Decision::wait(Reason::WaitingForClaim.progressing("its claim is looked up")),
    }
}

/// What was set aside for want of an S3Bucket has one again.
fn take_back(seen: &Observed, name: &str) -> Option<Step> {
    let record = seen.record.as_ref().filter(|record| record.set_aside.lists(name))?;
    Some(note(record, name, Note::TakenBack))
}

pub(super) fn note(record: &RecordSeen, bucket: &str, note: Note) -> Step {
    Step::Note { record: record.name.clone(), seen: record.version.clone(), bucket: bucket.to_owned(), note }
}

fn verdict(seen: &Observed, spec: &Spec, state: &State) -> Readiness {
    if let PolicySeen::Unreadable(why) = &state.policy {
        return Reason::PolicyUnreadable.stalled(format!(
            "the bucket's policy cannot be read, or shuts out the bucket's owner, and is left as it is ({why}); put one that lets the \
             owner in, or remove it: spec.s3SubuserBinding, spec.versioning and spec.lifecycle wait for that"
        ));
    }
    let unknown: Vec<_> = spec.unknown(&seen.subusers).collect();
    if unknown.is_empty() {
        return Reason::Provisioned.ready("the bucket is there");
    }
    Reason::UnknownSubuser.stalled(format!(
        "spec.s3SubuserBinding: S3UserClaim {} has no subuser {}; add it to the claim or remove the binding",
        spec.claim,
        unknown.join(", ")
    ))
}
