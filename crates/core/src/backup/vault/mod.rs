//! A `BackupVault`: a bucket for the backups of a namespace that nobody but Velero can write.
//!
//! ```text
//! vault                  finalizer, the books, the S3User that records it; then the Ceph user, its bucket, its key in
//!                        Velero's namespace, and the location of its name; Ready once Velero can use that
//! deleted                the location goes first; then the key; then what is stored is kept and the user suspended, or
//!                        all of it goes where the spec says `Purge`, or the class gives everything up
//! namespace deleted      the record says what was meant, the vault goes at once, and the rest is done from the record
//! made anew              in the same namespace it has its bucket back
//! ```
//!
//! What holds whatever happens between two steps (`tests/backup/vault.rs`): a Ceph user, Secret, S3User or location that is not
//! proven to be this vault's is never changed; whatever is in Ceph is on record; nothing stored goes unless the spec says so, or
//! the class gives everything up.

pub mod names;
mod observed;
mod provision;
mod removal;
mod step;

use std::time::Duration;

pub use observed::{
    CLOUD, KeysSeen, LastBackup, LocationSeen, Observed, QuotaTold, Spec, Status, Vault, class_of, is_new, keys_origin,
    location_spec,
};
pub use provision::{KeyToTry, key_to_try};
pub use step::Step;

use crate::{
    conditions::Readiness,
    plan::{FailureClass, Outcomes, Plan, first_failure},
    storage::{NoClass, RECHECK, Reason, claim::Backend, readiness_of},
    time::Timestamp,
};

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

    /// Nothing can be done now; a watch tells when that changes.
    fn wait(verdict: Readiness) -> Self {
        Self::new(Vec::new(), verdict)
    }
}

pub fn plan(seen: &Observed) -> Plan<Step> {
    let Decision { steps, verdict, again } = decide(seen);
    let plan = Plan::steps(steps);
    // A person puts that right in Ceph, which tells nobody.
    let is_a_persons = |reason: &Reason| reason.as_str() == verdict.reason();
    let recheck =
        [Reason::UserTaken, Reason::UserSuspended, Reason::BucketLost].iter().any(is_a_persons).then_some(RECHECK);
    let reads_back = plan.iter().any(Step::calls_for_a_look).then_some(Duration::ZERO);
    match reads_back.or(again).or(recheck) {
        Some(after) => plan.look_again(after),
        None => plan,
    }
}

fn decide(seen: &Observed) -> Decision {
    match (&seen.vault, &seen.record) {
        (None, None) => Decision::wait(Reason::Deleting.ready("nothing is left")),
        (None, Some(record)) => removal::of_orphan(seen, record),
        (Some(vault), _) if vault.deleting => removal::of_vault(seen, vault),
        (Some(vault), Some(record)) if !seen.may_bind(vault, record) => {
            removal::before_provisioning(seen, vault, record)
        }
        (Some(vault), _) => provision::decide(seen, vault),
    }
}

/// Whether to try again although no step failed: a gateway cannot be watched, and a key it refuses may be lost.
pub fn must_retry(seen: &Observed) -> bool {
    let is_untold = match &seen.backend {
        Backend::Unreachable(_) => true,
        Backend::Reached(reached) => reached.user.as_ref().is_some_and(|user| user.unlisted.is_some()),
        Backend::NoClass(_) => false,
    };
    is_untold || seen.is_key_refused
}

/// Whether all was well when it was last looked at, nothing is asked for since, and only its class is away.
fn waits_unharmed(seen: &Observed, vault: &Vault) -> bool {
    matches!(seen.backend, Backend::NoClass(NoClass::NotReady { .. })) && vault.is_settled()
}

impl Vault {
    /// Whether what is asked for was there when it was last looked at.
    pub fn is_settled(&self) -> bool {
        let is_current = self.status.observed_generation == Some(self.generation);
        is_current && self.finalizer && !self.deleting && self.status.conditions.is_true("Ready")
    }
}

/// The new status of the vault, if there is one. `outcomes` are those of [`plan`]'s steps on the same observation.
pub fn report(seen: &Observed, outcomes: Outcomes<'_, Step>, now: &Timestamp) -> Option<Status> {
    let vault = seen.vault.as_ref()?;
    let verdict = match first_failure(outcomes) {
        // The world has moved on: the next look will tell.
        Some(failure) if failure.class == FailureClass::Stale => return Some(vault.status.clone()),
        Some(failure) => readiness_of(failure),
        None if seen.lost.is_empty() && outcomes.iter().any(|(step, _)| step.calls_for_a_look()) => {
            return Some(vault.status.clone());
        }
        None if waits_unharmed(seen, vault) => return Some(vault.status.clone()),
        None => decide(seen).verdict,
    };
    let mut status = Status { observed_generation: Some(vault.generation), ..vault.status.clone() };
    provision::fill_status(&mut status, seen, vault);
    verdict.write(&mut status.conditions, vault.generation, now);
    Some(status)
}
