//! The copy of a location's Secret in Velero's namespace: made, kept up to date, and put right where somebody else changes it.
//!
//! Nobody looks into it for that. The status says in which version we left it, and any other version somebody else has made: it is
//! written once more, which changes nothing where only its labels differ. Where somebody keeps changing it that is done now and then,
//! and said: a fight at the pace of the API server helps nobody.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Observed, SECRET_SYNCED, Status, Step, Target,
    synced::{Synced, Words},
};
use crate::{
    backup::{ownership::Marks, validate::LocationSpec},
    budget::{Budget, Budgets},
    plan::Outcome,
    time::{Instant, Timestamp},
};

/// So often in a row what somebody changed is put right at once,
const AT_ONCE: u32 = 5;
/// and then once in this time.
const THEN_EVERY: Duration = Duration::from_secs(30);

/// Exactly one state of a Secret, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    pub uid: String,
    pub resource_version: String,
}

/// What a copied Secret is marked with: of which state of the tenant's it is. Begins with how the copy is made.
pub fn copy_mark(source: &Version, key: &str) -> String {
    format!("keys/{}/{}/{key}", source.uid, source.resource_version)
}

/// The copied Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    pub version: Version,
    pub marks: Marks,
    /// See [`copy_mark`].
    pub copy_of: Option<String>,
}

/// Copies that were put right lately. Forgotten at a restart: a fight is soon found out again.
#[derive(Clone, Debug)]
pub struct Repairs(Budgets<String>);

impl Default for Repairs {
    fn default() -> Self {
        Self(Budgets::new(Budget::new(AT_ONCE, THEN_EVERY)))
    }
}

impl Repairs {
    /// For how long the copy of this name is left as somebody made it.
    pub fn rest(&mut self, name: &String, at: Instant) -> Duration {
        self.0.wait(name, at)
    }

    /// Counts what has just been put right.
    pub fn note(&mut self, seen: &Observed, outcomes: &[(&Step, Outcome)], at: Instant) {
        let is_copied = outcomes.iter().any(|(step, outcome)| step.copies_secret() && outcome.is_done());
        if is_copied && seen.is_meddled_with() {
            self.0.spend(seen.origin().nacuuid, at);
        }
    }
}

impl Observed {
    /// Somebody else has changed the copy since we left it, or taken it away.
    fn is_meddled_with(&self) -> bool {
        let left = self.status.secret_copy.as_ref();
        left.is_some() && left != self.copy.as_ref().map(|copy| &copy.version)
    }

    /// Whether the copy is one of the Secret as it is, exactly as we left it.
    pub(super) fn is_copied(&self, source: &Version, key: &str) -> bool {
        let is_copy = |copy: &Copy| copy.copy_of.as_ref() == Some(&copy_mark(source, key));
        let is_as_left = |copy: &Copy| self.status.secret_copy.as_ref() == Some(&copy.version);
        self.copy.as_ref().is_some_and(|copy| is_copy(copy) && is_as_left(copy))
    }

    /// How long the copy is left as somebody made it, if it is.
    pub(super) fn rests(&self) -> Option<Duration> {
        Some(self.rest).filter(|rest| !rest.is_zero() && self.is_meddled_with())
    }
}

impl Step {
    fn copies_secret(&self) -> bool {
        matches!(self, Step::CreateSecret { .. } | Step::UpdateSecret { .. })
    }
}

pub(super) fn sync(seen: &Observed, spec: &LocationSpec, version: &Version) -> Option<Step> {
    let (origin, source) = (seen.origin(), spec.credential().clone());
    match seen.copy() {
        _ if seen.rests().is_some() || seen.is_copied(version, &source.key) => None,
        Target::Absent => Some(Step::CreateSecret { origin, source }),
        Target::Ours(copy) => Some(Step::UpdateSecret { origin, uid: copy.version.uid.clone(), source }),
        Target::Taken => None,
    }
}

pub(super) fn tell(status: &mut Status, seen: &Observed, outcomes: &[(&Step, Outcome)], now: &Timestamp) {
    let step = outcomes.iter().find(|(step, _)| step.copies_secret());
    if let Some((_, Outcome::Done { uid: Some(uid), witness: Some(version) })) = step {
        status.secret_copy = Some(Version { uid: uid.clone(), resource_version: version.clone() });
    }
    let synced = match (step, seen.copy()) {
        (Some((Step::CreateSecret { .. }, Outcome::Done { .. })), _) => Synced::Created,
        (Some((_, Outcome::Done { .. })), _) => Synced::Updated,
        (Some((_, Outcome::Failed(failure))), _) => Synced::Failed(failure),
        (None, Target::Taken) => Synced::Taken,
        (None, _) if seen.rests().is_some() => Synced::FoughtOver { put_right_every: THEN_EVERY },
        (None, Target::Ours(_)) => Synced::AsBefore,
        (Some((_, Outcome::NotRun)) | None, _) => return,
    };
    let words = Words {
        condition: SECRET_SYNCED,
        created: ("SecretCreated", "Secret successfully created in the OADP namespace"),
        updated: ("SecretUpdated", "Secret successfully updated in the OADP namespace"),
        failed: ("SecretSyncFailed", "Failed to sync secret to OADP namespace"),
    };
    words.write(&mut status.conditions, &synced, now);
}
