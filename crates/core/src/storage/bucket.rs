//! A bucket: made with the key of its claim's user, removed or let go with its S3Bucket.
//!
//! - A bucket that belongs to another user is never touched.
//! - A bucket with objects in it is never removed.
//! - An S3Bucket waits for its claim, except in a namespace that is being deleted: there it lets go of what it cannot remove.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    CephUser, KeyPair, Problem, Reason, Target,
    claim::{Claim, Record, User},
    reason::readiness_of,
};
use crate::{
    conditions::{Conditions, Readiness},
    plan::{self, Failure, FailureClass, Outcomes, Plan, first_failure},
    time::Timestamp,
};

/// How long a namespace that is being deleted waits for a gateway that does not answer.
pub const GRACE: Duration = Duration::from_secs(60);

/// The reason a gateway gives for not removing a bucket with objects in it.
pub const BUCKET_NOT_EMPTY: &str = "BucketNotEmpty";

#[derive(Clone, Debug)]
pub struct Observed {
    pub bucket: Option<Bucket>,
    pub namespace_terminating: bool,
    pub owner: Owner,
}

/// An S3Bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub target: Target,
    pub generation: i64,
    /// How long it has been in deletion, if it is.
    pub deleting: Option<Duration>,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    pub spec: Result<Spec, Vec<Problem>>,
    pub status: Status,
}

/// A valid spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub claim: String,
    pub deletion: Deletion,
}

/// What becomes of the bucket in Ceph when the S3Bucket is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    #[default]
    Delete,
    Retain,
}

/// `status` of an S3Bucket, as far as this file writes it, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub observed_generation: Option<i64>,
    pub created: bool,
    /// Text of what is wrong, if something is.
    pub reason: Option<String>,
    pub conditions: Conditions,
}

/// The user behind the claim the S3Bucket names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Neither the claim nor an S3User of it exists: nothing can be in Ceph.
    Nobody,
    /// The claim is there, its user is not (yet), for the reason given.
    NotReady(String),
    /// There is a user, but its class is gone: only an administrator can help.
    NoClass(super::NoClass),
    /// The gateway could not be asked.
    Unreachable(Failure),
    Ready {
        user: CephUser,
        key: KeyPair,
        found: Found,
    },
}

/// Where to ask for the user behind a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup<'a> {
    pub class: &'a str,
    pub user: &'a CephUser,
    /// UID of the claim the user must be tagged with.
    pub claim_uid: &'a str,
    claim_is_gone: bool,
}

impl<'a> Lookup<'a> {
    /// Where the cluster says the user is; otherwise what that makes of the owner. The record alone will do: a bucket can be
    /// removed although its claim is gone. `removing`: the S3Bucket itself is being deleted.
    pub fn new(claim: Option<&Claim>, record: Option<&'a Record>, removing: bool) -> Result<Self, Box<Owner>> {
        let not_ready = |why: &str| Err(Box::new(Owner::NotReady(why.to_owned())));
        match (claim, record) {
            (None, None) => Err(Box::new(Owner::Nobody)),
            (Some(_), None) => not_ready("its user is not made yet"),
            (Some(claim), Some(record)) if !record.is_of(claim) => not_ready("the user of its name is not its own"),
            (Some(claim), _) if claim.deleting && !removing => not_ready("it is being deleted"),
            (claim, Some(record)) => match (&record.body.class, &record.body.user, record.claim_uid()) {
                (Some(class), Some(user), Some(claim_uid)) => {
                    Ok(Self { class, user, claim_uid, claim_is_gone: claim.is_none() })
                }
                _ => not_ready("its user is not made yet"),
            },
        }
    }

    /// What the gateway's answer makes of the owner.
    pub fn owner(&self, seen: Option<&User>, found: Found) -> Owner {
        match seen {
            None if self.claim_is_gone => Owner::Nobody,
            None => Owner::NotReady("its user is not made yet".to_owned()),
            Some(user) if !user.is_of(self.claim_uid) => {
                Owner::NotReady("the user of its name is not its own".to_owned())
            }
            Some(user) => match user.key(None, None) {
                None => Owner::NotReady("its user has no key yet".to_owned()),
                Some(key) => Owner::Ready { user: self.user.clone(), key: key.clone(), found },
            },
        }
    }
}

/// The bucket of that name in the user's tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Absent,
    Ours,
    Foreign { owner: CephUser },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fails if the S3Bucket is not the one seen.
    AddFinalizer { bucket: Target },
    /// Fails if another user has a bucket of that name.
    CreateBucket { name: String, user: CephUser, key: KeyPair },
    /// Fails if there are objects in the bucket; with `or_leave` whatever the gateway refuses counts as done.
    DeleteBucket { name: String, user: CephUser, key: KeyPair, or_leave: bool },
    /// Fails if the S3Bucket is not the one seen.
    RemoveFinalizer { bucket: Target },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateBucket { .. } => "CreateBucket",
            Step::DeleteBucket { .. } => "DeleteBucket",
            Step::RemoveFinalizer { .. } => "RemoveFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { bucket } => {
                write!(out, "add the finalizer to S3Bucket {bucket}: a bucket is to be made")
            }
            Step::CreateBucket { name, user, .. } => write!(out, "create bucket {name} as Ceph user {user}"),
            Step::DeleteBucket { name, user, or_leave: false, .. } => {
                write!(out, "delete bucket {name} as Ceph user {user}, if it is empty")
            }
            Step::DeleteBucket { name, user, or_leave: true, .. } => {
                write!(
                    out,
                    "delete bucket {name} as Ceph user {user}, or leave it if it is not empty: the namespace goes"
                )
            }
            Step::RemoveFinalizer { bucket } => write!(out, "remove the finalizer from S3Bucket {bucket}"),
        }
    }
}

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
    match (bucket.deleting, &bucket.spec) {
        (Some(_), _) if !bucket.finalizer => Decision::wait(deleting("nothing is left to do")),
        (Some(_), Ok(Spec { deletion: Deletion::Retain, .. })) => let_go(bucket, "the bucket is kept"),
        (Some(since), _) => remove(seen, bucket, since),
        (None, Err(problems)) => Decision::wait(Reason::InvalidSpec.stalled(Problem::list(problems))),
        (None, Ok(spec)) => provision(seen, bucket, spec),
    }
}

fn provision(seen: &Observed, bucket: &Bucket, spec: &Spec) -> Decision {
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
        Owner::NoClass(why) => Decision::wait(why.reason().stalled(why.message())),
        Owner::Unreachable(failure) => Decision::wait(readiness_of(failure)),
        Owner::Ready { found: Found::Foreign { owner }, .. } => {
            let message = format!("a bucket of this name belongs to Ceph user {owner}; choose another name");
            Decision::wait(Reason::BucketTaken.stalled(message))
        }
        Owner::Ready { found: Found::Ours, .. } => Decision::new(add_finalizer.into_iter().collect(), there()),
        Owner::Ready { found: Found::Absent, user, key } => {
            let create = Step::CreateBucket { name: name.clone(), user: user.clone(), key: key.clone() };
            Decision::new(add_finalizer.into_iter().chain([create]).collect(), there())
        }
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
        Owner::NoClass(why) => Decision::wait(why.reason().stalled(why.message())),
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

/// Whether to try again although no step failed: a gateway cannot be watched.
pub fn must_retry(seen: &Observed) -> bool {
    matches!(seen.owner, Owner::Unreachable(_))
}

/// The new status of the S3Bucket, if there is one. `outcomes` are those of [`plan`]'s steps on the same observation.
pub fn report(seen: &Observed, outcomes: Outcomes<'_, Step>, now: &Timestamp) -> Option<Status> {
    let bucket = seen.bucket.as_ref()?;
    let verdict = match first_failure(outcomes) {
        // The world has moved on: the next look will tell.
        Some(failure) if failure.class == FailureClass::Stale => return Some(bucket.status.clone()),
        Some(failure) => readiness_of(failure),
        None => decide(seen, bucket).verdict,
    };
    let mut status = Status { observed_generation: Some(bucket.generation), ..bucket.status.clone() };
    let was_done = |wanted: fn(&Step) -> bool| outcomes.iter().any(|(step, outcome)| wanted(step) && outcome.is_done());
    if was_done(|step| matches!(step, Step::CreateBucket { .. })) {
        status.created = true;
    } else if was_done(|step| matches!(step, Step::DeleteBucket { .. })) {
        status.created = false;
    } else if let Owner::Ready { found, .. } = &seen.owner {
        status.created = *found == Found::Ours;
    }
    status.reason = match &verdict {
        Readiness::Ready { .. } => None,
        Readiness::Progressing { message, .. } | Readiness::Stalled { message, .. } => Some(message.clone()),
    };
    verdict.write(&mut status.conditions, bucket.generation, now);
    Some(status)
}
