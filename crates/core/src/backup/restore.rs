//! A `NonAdminRestore` and the Velero Restore behind it.
//!
//! The life of a restore, as [`plan`] and [`report`] decide it together; every line is one look at the world:
//!
//! ```text
//! not allowed, or its backup is not ready  -> BackingOff, Accepted=False; looked at again when either changes
//! allowed                                  -> New, Accepted=True, the name of the Velero Restore on record
//! on record                                -> finalizer
//! held by the finalizer                    -> Velero Restore, Created, Queued=True: from now on never again
//! Velero works                             -> status and queue position are copied
//! Velero Restore gone                      -> VeleroRestoreNotFound
//! deleted                                  -> Deleting, the Velero Restore is deleted, then the finalizer goes
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Object, Phase, QueueInfo, Reference, Settings, Victim,
    ownership::{Marks, Origin},
    validate::{self, Refusal},
    velero::Fields,
};
use crate::{
    conditions::{Conditions, Truth},
    plan::{self, FailureClass, Outcome, Plan},
    time::Timestamp,
};

/// The world around one `NonAdminRestore`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub object: Object,
    pub spec: Fields,
    pub status: Status,
    pub source: Source,
    /// The Velero Restore under our name, whoever made it.
    pub velero: Option<VeleroRestore>,
}

/// `status` of a `NonAdminRestore`, as far as this file writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    pub conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velero_restore: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_info: Option<QueueInfo>,
}

/// The `NonAdminBackup` the restore names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Missing,
    /// Not handed to Velero yet, still running, on its way out, or its Velero Backup is not its own.
    NotReady,
    Ready {
        velero_backup: String,
    },
}

/// A Velero Restore.
#[derive(Clone, Debug, PartialEq)]
pub struct VeleroRestore {
    pub uid: String,
    pub marks: Marks,
    pub status: Fields,
    /// Velero cleans up after it.
    pub is_deleting: bool,
    /// See [`super::queue_position`].
    pub position: u64,
}

/// One external call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    AddFinalizer { uid: String },
    CreateRestore { origin: Origin, spec: Fields },
    DeleteRestore(Victim),
    ReleaseFinalizer { uid: String },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateRestore { .. } => "CreateVeleroRestore",
            Step::DeleteRestore(_) => "DeleteVeleroRestore",
            Step::ReleaseFinalizer { .. } => "ReleaseFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { uid } => {
                write!(out, "add finalizer (uid {uid}): a Velero Restore will need cleaning up")
            }
            Step::CreateRestore { origin, .. } => {
                write!(out, "create Velero Restore {} (absent): accepted", origin.nacuuid)
            }
            Step::DeleteRestore(Victim { name, uid }) => {
                write!(out, "delete Velero Restore {name} (uid {uid}): its request is deleted")
            }
            Step::ReleaseFinalizer { uid } => write!(out, "release finalizer (uid {uid}): nothing of it is left"),
        }
    }
}

/// What is known of the way to Velero.
enum Stage<'a> {
    /// The Velero Restore is there, and ours.
    Made(&'a VeleroRestore),
    /// It was there once.
    Gone,
    /// Something that is not ours has its name.
    Taken,
    NotMade,
}

impl Observed {
    pub fn origin(&self) -> Origin {
        self.object.origin(self.status.velero_restore.as_ref())
    }

    fn stage(&self) -> Stage<'_> {
        match &self.velero {
            Some(velero) if self.origin().owns(&velero.marks) => Stage::Made(velero),
            _ if self.status.conditions.is_true("Queued") => Stage::Gone,
            Some(_) => Stage::Taken,
            None => Stage::NotMade,
        }
    }

    /// The spec for Velero, if the request is allowed and its backup is ready.
    fn wanted(&self) -> Result<Fields, Refusal> {
        let spec = validate::restore(&self.spec)?;
        let invalid =
            |why: String| Err(Refusal(format!("NonAdminRestore spec.restoreSpec.backupName is invalid: {why}")));
        match &self.source {
            Source::Missing => {
                invalid(format!("nonadminbackups.oadp.openshift.io \"{}\" not found", spec.backup_name()))
            }
            Source::NotReady => invalid("NonAdminBackup is not ready to be restored".into()),
            Source::Ready { velero_backup } => Ok(spec.for_velero(&self.object.namespace, velero_backup)),
        }
    }
}

/// What to do next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    if seen.object.is_deleting { delete(seen) } else { create(seen) }
}

fn create(seen: &Observed) -> Plan<Step> {
    let is_recorded = Reference::is_recorded(seen.status.velero_restore.as_ref());
    let hold = || Plan::step(Step::AddFinalizer { uid: seen.object.uid.clone() });
    match (seen.stage(), seen.wanted()) {
        // Somebody took the finalizer away: it is put back, or the Velero Restore would stay behind.
        (Stage::Made(_), _) if !seen.object.has_finalizer => hold(),
        (Stage::Made(_) | Stage::Gone | Stage::Taken, _) | (Stage::NotMade, Err(_)) => Plan::settled(),
        (Stage::NotMade, Ok(_)) if !is_recorded => Plan::settled(),
        (Stage::NotMade, Ok(_)) if !seen.object.has_finalizer => hold(),
        (Stage::NotMade, Ok(spec)) => Plan::step(Step::CreateRestore { origin: seen.origin(), spec }),
    }
}

/// Velero cleans up after a Restore before that goes, and is given the time, unless the namespace waits for us.
fn delete(seen: &Observed) -> Plan<Step> {
    if seen.status.phase != Some(Phase::Deleting) || !seen.object.has_finalizer {
        return Plan::settled();
    }
    let release = Step::ReleaseFinalizer { uid: seen.object.uid.clone() };
    match seen.stage() {
        Stage::Made(velero) => {
            let victim = Victim { name: seen.origin().nacuuid, uid: velero.uid.clone() };
            let delete = (!velero.is_deleting).then_some(Step::DeleteRestore(victim));
            let release = seen.object.namespace_is_terminating.then_some(release);
            Plan::steps(delete.into_iter().chain(release))
        }
        Stage::Gone | Stage::Taken | Stage::NotMade => Plan::step(release),
    }
}

/// The status after the plan was carried out as `outcomes` say; `None` where there may be no object left to write it to.
pub fn report(seen: &Observed, settings: &Settings, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Option<Status> {
    let ended = |step: &Step| matches!(step, Step::ReleaseFinalizer { .. });
    if outcomes.iter().any(|(step, outcome)| ended(step) && *outcome != Outcome::NotRun) {
        return None;
    }
    let mut status = seen.status.clone();
    if seen.object.is_deleting {
        status.phase = Some(Phase::Deleting);
        let message = "restore accepted for deletion";
        status.conditions.set("Deleting", Truth::True, "DeletionPending", message, now);
    } else {
        accepted(&mut status, seen, settings, now);
    }
    for (step, outcome) in outcomes {
        if let Step::CreateRestore { .. } = step {
            queued(&mut status, outcome, now);
        }
    }
    if let Stage::Made(velero) = seen.stage() {
        created(&mut status, now);
        status.velero_restore.get_or_insert_default().status = Some(velero.status.clone());
        status.queue_info = Some(QueueInfo { estimated_queue_position: velero.position });
    }
    Some(status)
}

fn accepted(status: &mut Status, seen: &Observed, settings: &Settings, now: &Timestamp) {
    let generation = Some(seen.object.generation);
    let conditions = &mut status.conditions;
    let mut not_accepted = |reason, message: &str| {
        conditions.set_observed("Accepted", Truth::False, reason, message, generation, now);
    };
    match (seen.stage(), seen.wanted()) {
        (Stage::Made(_), _) if seen.status.conditions.is_true("Accepted") => {}
        (Stage::Gone, _) => not_accepted(
            "VeleroRestoreNotFound",
            "NonAdminRestore is finalized and its associated Velero Restore has been removed. \
             Please create a new NonAdminRestore to initiate a new Restore",
        ),
        (Stage::Taken, _) => {
            not_accepted("VeleroRestoreTaken", "related Velero Restore does not point to NonAdminRestore namespace");
        }
        (Stage::NotMade, Err(Refusal(message))) => {
            status.phase = Some(Phase::forward(status.phase, Phase::BackingOff));
            not_accepted("InvalidRestoreSpec", &message);
        }
        (Stage::Made(_) | Stage::NotMade, _) => {
            status.phase = Some(Phase::forward(status.phase, Phase::New));
            conditions.set_observed("Accepted", Truth::True, "RestoreAccepted", "restore accepted", generation, now);
            status.velero_restore.get_or_insert_default().record(&seen.origin(), settings);
        }
    }
}

fn queued(status: &mut Status, outcome: &Outcome, now: &Timestamp) {
    match outcome {
        Outcome::Done { .. } => created(status, now),
        Outcome::Failed(failure) if failure.class != FailureClass::Stale => {
            status.conditions.set("Queued", Truth::False, failure.reason, failure.message.clone(), now);
        }
        Outcome::Failed(_) | Outcome::NotRun => {}
    }
}

fn created(status: &mut Status, now: &Timestamp) {
    status.phase = Some(Phase::forward(status.phase, Phase::Created));
    status.conditions.set("Queued", Truth::True, "RestoreScheduled", "Created Velero Restore object", now);
}
