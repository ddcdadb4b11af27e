//! A claim: the Ceph user behind it, the Secrets that hand out its keys, and the S3User that records it.
//!
//! [`plan`] is one decision for the whole life of a claim, read from the top: is there a claim, is it being deleted, does the
//! record at its name belong to it. The two long answers have a file each: [`provision`] and [`cleanup`].

mod cleanup;
mod identity;
mod inquiry;
mod observed;
mod provision;
mod set_aside;
mod step;
mod take_down;
mod takeover;

use std::time::Duration;

use crate::{
    conditions::Readiness,
    plan::{FailureClass, Outcomes, Plan, first_failure},
    time::Timestamp,
};

pub use identity::{FreshKeys, Identity, Rotation, subuser_secret};
pub use inquiry::{
    COUNTED_AT_ONCE, Inquiry, UNCOUNTED, has_to_settle, inquiry, is_cleanup, is_new, may_exist, to_count,
};
pub use observed::{
    Access, Backend, Books, Claim, ClaimIdentity, Holder, Key, Observed, Phase, Purge, PurgeSeen, Reached, Record,
    RecordBody, SecretSeen, Spec, Status, User, UserQuota, ceph_user, class_of, no_team, wanted,
};
pub(crate) use provision::KEY_LOST;
pub use set_aside::{LISTED, SetAside};
pub use step::{Mark, SecretBody, Step, Version};
pub use take_down::STILL;

use super::{NoClass, Reason, reason::readiness_of, record_name};

/// What to do, and what to say if it works.
struct Decision {
    steps: Vec<Step>,
    verdict: Readiness,
    /// When to look again, where no watch tells.
    again: Option<Duration>,
}

impl Decision {
    fn new(steps: Vec<Step>, verdict: Readiness) -> Self {
        Self { steps, verdict, again: None }
    }

    fn again(self, after: Duration) -> Self {
        Self { again: Some(after), ..self }
    }

    /// Nothing can be done now; a watch tells when that changes.
    fn wait(verdict: Readiness) -> Self {
        Self::new(Vec::new(), verdict)
    }
}

pub fn plan(seen: &Observed) -> Plan<Step> {
    let Decision { steps, again, .. } = decide(seen);
    let plan = Plan::steps(steps);
    // A new key is read back from the gateway, which tells nobody either that it has one.
    let reads_back = plan.iter().any(Step::calls_for_a_look).then_some(Duration::ZERO);
    match reads_back.or(again) {
        Some(after) => plan.look_again(after),
        None => plan,
    }
}

fn decide(seen: &Observed) -> Decision {
    match (&seen.claim, &seen.record) {
        (None, None) => Decision::wait(Reason::Deleting.ready("nothing is left")),
        (None, Some(_)) if seen.holder().is_some() => held(seen),
        (None, Some(record)) => cleanup::of_orphan(seen, record),
        (Some(claim), _) if claim.deleting => cleanup::of_claim(seen, claim),
        (Some(claim), Some(record)) if !seen.may_bind(claim, record) && seen.holder().is_some() => held(seen),
        (Some(claim), Some(record)) if !seen.may_bind(claim, record) => cleanup::before_provisioning(seen, record),
        (Some(claim), _) => provision::decide(seen, claim),
    }
}

/// What a migration moves stays until it is over.
fn held(seen: &Observed) -> Decision {
    let name = seen.holder().map(|holder| holder.name.as_str()).unwrap_or_default();
    Decision::wait(Reason::Migrating.progressing(format!("UserMigration {name} is at work")))
}

/// Waits for a class, which is watched, or for a gateway, which has to be asked again.
fn unavailable(backend: &Backend) -> Decision {
    Decision::wait(backend.readiness())
}

impl Backend {
    /// What it means for whoever needs the gateway.
    pub(crate) fn readiness(&self) -> Readiness {
        match self {
            Backend::NoClass(why) => why.readiness(),
            Backend::Unreachable(failure) => readiness_of(failure),
            Backend::Reached(_) => Reason::Working.progressing("the gateway answers"),
        }
    }
}

/// Whether to try again although no step failed, soon at first and ever more rarely: a gateway cannot be watched.
pub fn must_retry(seen: &Observed) -> bool {
    match &seen.backend {
        Backend::Unreachable(_) => true,
        Backend::Reached(reached) => {
            let lacks = |user: &User| user.unlisted.is_some() || is_uncounted(seen, user);
            reached.user.as_ref().is_some_and(lacks) || waits_for_a_person(seen)
        }
        Backend::NoClass(_) => false,
    }
}

/// Whether something would be free if only it were known what the user has stored.
fn is_uncounted(seen: &Observed, user: &User) -> bool {
    user.usage.is_none() && has_to_settle(seen.claim.as_ref(), seen.record.as_ref(), seen.books.entry.as_ref())
}

/// Whether somebody has to put something right in Ceph, which tells nobody.
fn waits_for_a_person(seen: &Observed) -> bool {
    let verdict = decide(seen).verdict;
    [Reason::UserTaken, Reason::UserSuspended].iter().any(|reason| reason.as_str() == verdict.reason())
}

/// Whether all was well when it was last looked at, nothing is asked for since, and only its class is away.
fn waits_unharmed(seen: &Observed, claim: &Claim) -> bool {
    matches!(seen.backend, Backend::NoClass(NoClass::NotReady { .. })) && claim.is_settled()
}

/// The new status of the claim, if there is one. `outcomes` are those of [`plan`]'s steps on the same observation.
pub fn report(seen: &Observed, outcomes: Outcomes<'_, Step>, now: &Timestamp) -> Option<Status> {
    let claim = seen.claim.as_ref()?;
    let verdict = match first_failure(outcomes) {
        // The world has moved on: the next look will tell.
        Some(failure) if failure.class == FailureClass::Stale => return Some(claim.status.clone()),
        Some(failure) => readiness_of(failure),
        // The look that reads the keys follows at once and has more to say.
        None if seen.lost.is_empty() && outcomes.iter().any(|(step, _)| step.calls_for_a_look()) => {
            return Some(claim.status.clone());
        }
        None if waits_unharmed(seen, claim) => return Some(claim.status.clone()),
        None => decide(seen).verdict,
    };
    let mut status = Status { observed_generation: Some(claim.generation), ..claim.status.clone() };
    if let Readiness::Ready { .. } = verdict {
        provision::fill_status(&mut status, seen, claim);
    }
    verdict.write(&mut status.conditions, claim.generation, now);
    Some(status)
}

impl Claim {
    fn record_name(&self) -> String {
        record_name(&self.target.namespace, &self.target.name)
    }
}
