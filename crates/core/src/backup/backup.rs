//! A `NonAdminBackup` and the Velero Backup behind it.
//!
//! The life of a backup, as [`plan`] and [`report`] decide it together; every line is one look at the world:
//!
//! ```text
//! not allowed, or its location is not ready  -> BackingOff, Accepted=False; looked at again when either changes
//! allowed                                    -> New, Accepted=True, the name of the Velero Backup on record
//! on record                                  -> finalizer
//! held by the finalizer                      -> Velero Backup, Created, Queued=True: from now on never again
//! Velero works                               -> spec, status and queue position are copied
//! Velero Backup gone                         -> VeleroBackupNotFound
//! ```
//!
//! For deletion see [`plan`].

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use super::availability::{Location, LocationPhase};
use super::{
    Object, OnDelete, Phase, QueueInfo, Reference, Settings, Victim,
    ownership::{Marks, Origin},
    validate::{self, Refusal},
    velero::{Fields, Progress, text},
};
use crate::{
    conditions::{Conditions, Truth},
    plan::{self, FailureClass, Outcome, Plan},
    time::Timestamp,
};

/// How long a refused deletion rests before Velero is asked again. Velero refuses while the location cannot be reached.
pub const ASK_AGAIN: Duration = Duration::from_secs(60);

/// The world around one `NonAdminBackup`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub object: Object,
    pub spec: Fields,
    pub delete_backup: bool,
    pub force_delete_backup: bool,
    pub status: Status,
    pub location: Location,
    /// The Velero Backup under our name, whoever made it.
    pub velero: Option<VeleroBackup>,
    /// All requests to delete that Velero Backup, whoever made them.
    pub deletions: Vec<Deletion>,
    /// `NonAdminRestores` from this backup that are not yet being deleted.
    pub restores: Vec<Victim>,
}

/// `status` of a `NonAdminBackup`, as far as this file writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    pub conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velero_backup: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velero_delete_backup_request: Option<Reference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_info: Option<QueueInfo>,
}

/// A Velero Backup.
#[derive(Clone, Debug, PartialEq)]
pub struct VeleroBackup {
    pub uid: String,
    pub marks: Marks,
    pub spec: Fields,
    pub status: Fields,
    /// See [`super::queue_position`].
    pub position: u64,
}

/// A Velero `DeleteBackupRequest`.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    pub name: String,
    pub uid: String,
    pub marks: Marks,
    pub created: Timestamp,
    pub age: Duration,
    pub status: Fields,
}

/// One external call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    AddFinalizer {
        uid: String,
    },
    CreateBackup {
        origin: Origin,
        spec: Fields,
    },
    /// The user asked in the spec; the API server has to be told.
    DeleteSelf {
        uid: String,
    },
    DeleteRestore(Victim),
    CreateDeletion {
        origin: Origin,
        backup: Victim,
    },
    DeleteDeletion(Victim),
    DeleteBackup(Victim),
    ReleaseFinalizer {
        uid: String,
        because: Release,
    },
}

/// Why the finalizer may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    NothingLeft,
    Forced,
    NamespaceGoes,
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateBackup { .. } => "CreateVeleroBackup",
            Step::DeleteSelf { .. } => "DeleteNonAdminBackup",
            Step::DeleteRestore(_) => "DeleteNonAdminRestore",
            Step::CreateDeletion { .. } => "CreateDeleteBackupRequest",
            Step::DeleteDeletion(_) => "DeleteDeleteBackupRequest",
            Step::DeleteBackup(_) => "DeleteVeleroBackup",
            Step::ReleaseFinalizer { .. } => "ReleaseFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { uid } => {
                write!(out, "add finalizer (uid {uid}): a Velero Backup will need cleaning up")
            }
            Step::CreateBackup { origin, .. } => {
                write!(out, "create Velero Backup {} (absent): accepted", origin.nacuuid)
            }
            Step::DeleteSelf { uid } => write!(out, "delete NonAdminBackup (uid {uid}): its spec says so"),
            Step::DeleteRestore(Victim { name, uid }) => {
                write!(out, "delete NonAdminRestore {name} (uid {uid}): its backup goes")
            }
            Step::CreateDeletion { origin, backup } => {
                write!(
                    out,
                    "create DeleteBackupRequest {} (absent) for uid {}: deleteBackup",
                    origin.nacuuid, backup.uid
                )
            }
            Step::DeleteDeletion(Victim { name, uid }) => {
                write!(out, "delete DeleteBackupRequest {name} (uid {uid}): it is of no more use")
            }
            Step::DeleteBackup(Victim { name, uid }) => {
                write!(out, "delete Velero Backup {name} (uid {uid}): let go, its data stays")
            }
            Step::ReleaseFinalizer { uid, because } => write!(
                out,
                "release finalizer (uid {uid}): {}",
                match because {
                    Release::NothingLeft => "nothing of it is left",
                    Release::Forced => "forceDeleteBackup",
                    Release::NamespaceGoes => "the namespace is being deleted",
                }
            ),
        }
    }
}

/// What is being done about a `NonAdminBackup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    ForceDelete,
    DeleteWithData,
    ApiDelete,
    CreateOrUpdate,
}

/// What is known of the way to Velero.
enum Stage<'a> {
    /// The Velero Backup is there, and ours.
    Made(&'a VeleroBackup),
    /// It was there once.
    Gone,
    /// Something that is not ours has its name.
    Taken,
    NotMade,
}

impl Observed {
    pub fn origin(&self) -> Origin {
        self.object.origin(self.status.velero_backup.as_ref())
    }

    fn path(&self) -> Path {
        match (self.force_delete_backup, self.delete_backup, self.object.is_deleting) {
            (true, _, _) => Path::ForceDelete,
            (_, true, _) => Path::DeleteWithData,
            (_, _, true) => Path::ApiDelete,
            _ => Path::CreateOrUpdate,
        }
    }

    fn stage(&self) -> Stage<'_> {
        match &self.velero {
            Some(velero) if self.origin().owns(&velero.marks) => Stage::Made(velero),
            _ if self.status.conditions.is_true("Queued") => Stage::Gone,
            Some(_) => Stage::Taken,
            None => Stage::NotMade,
        }
    }

    /// The Velero Backup as something we may delete.
    fn own_backup(&self) -> Option<Victim> {
        match self.stage() {
            Stage::Made(velero) => Some(Victim { name: self.origin().nacuuid, uid: velero.uid.clone() }),
            _ => None,
        }
    }

    fn own_deletions(&self) -> impl Iterator<Item = &Deletion> {
        let origin = self.origin();
        self.deletions.iter().filter(move |deletion| origin.owns(&deletion.marks))
    }

    /// The spec for Velero, if the request is allowed and the world is ready for it.
    fn wanted(&self) -> Result<Fields, Refusal> {
        let spec = validate::backup(&self.spec, &self.object.namespace)?;
        let location = self.location.usable()?;
        Ok(spec.for_velero(&self.object.namespace, location))
    }

    fn is_recorded(&self) -> bool {
        Reference::is_recorded(self.status.velero_backup.as_ref())
    }
}

impl Deletion {
    fn is_processed(&self) -> bool {
        text(&self.status, "phase") == Some("Processed")
    }
}

/// What to do next.
///
/// Deletion, in the order in which a user's wishes win:
/// - `forceDeleteBackup`: the Velero objects are deleted, the stored data is not waited for;
/// - `deleteBackup`: Velero is asked to delete the data; the request stays until the Velero Backup is gone;
/// - plain deletion: held until one of the two is set, or [`OnDelete::Release`];
/// - in a namespace that goes, the finalizer goes at once.
pub fn plan(seen: &Observed, settings: &Settings) -> Plan<Step> {
    // Status first: whoever looks must see that deletion is under way before anything disappears.
    let deletion_is_recorded = seen.status.phase == Some(Phase::Deleting);
    match seen.path() {
        Path::CreateOrUpdate => create(seen),
        _ if !deletion_is_recorded => Plan::settled(),
        Path::ForceDelete | Path::DeleteWithData if !seen.object.is_deleting => {
            Plan::step(Step::DeleteSelf { uid: seen.object.uid.clone() })
        }
        _ if !seen.object.has_finalizer => Plan::settled(),
        Path::ForceDelete => let_go(seen, Some(Release::Forced)),
        Path::DeleteWithData => delete_with_data(seen),
        Path::ApiDelete => api_delete(seen, settings.on_delete),
    }
}

fn create(seen: &Observed) -> Plan<Step> {
    let hold = || Plan::step(Step::AddFinalizer { uid: seen.object.uid.clone() });
    match (seen.stage(), seen.wanted()) {
        // Somebody took the finalizer away: it is put back, or the Velero Backup would stay behind.
        (Stage::Made(_), _) if !seen.object.has_finalizer => hold(),
        (Stage::Made(_) | Stage::Gone | Stage::Taken, _) | (Stage::NotMade, Err(_)) => Plan::settled(),
        (Stage::NotMade, Ok(_)) if !seen.is_recorded() => Plan::settled(),
        (Stage::NotMade, Ok(_)) if !seen.object.has_finalizer => hold(),
        (Stage::NotMade, Ok(spec)) => Plan::step(Step::CreateBackup { origin: seen.origin(), spec }),
    }
}

fn api_delete(seen: &Observed, on_delete: OnDelete) -> Plan<Step> {
    match (seen.own_backup(), on_delete, seen.object.namespace_is_terminating) {
        (None, _, _) => release(seen, Release::NothingLeft),
        (Some(_), OnDelete::Hold, true) => release(seen, Release::NamespaceGoes),
        (Some(_), OnDelete::Hold, false) => Plan::settled(),
        (Some(_), OnDelete::Release, true) => let_go(seen, Some(Release::NamespaceGoes)),
        (Some(_), OnDelete::Release, false) => let_go(seen, None),
    }
}

fn release(seen: &Observed, because: Release) -> Plan<Step> {
    Plan::step(Step::ReleaseFinalizer { uid: seen.object.uid.clone(), because })
}

/// Deletes the Velero objects but not what is stored; then releases, unless they are to be seen gone first.
fn let_go(seen: &Observed, then: Option<Release>) -> Plan<Step> {
    let deletions = seen.own_deletions().map(|deletion| Step::DeleteDeletion(deletion.victim()));
    let backup = seen.own_backup().map(Step::DeleteBackup);
    let release = then.map(|because| Step::ReleaseFinalizer { uid: seen.object.uid.clone(), because });
    Plan::steps(deletions.chain(backup).chain(release))
}

fn delete_with_data(seen: &Observed) -> Plan<Step> {
    let mut plan = data_deletion(seen);
    if !seen.restores.is_empty() {
        plan.groups.insert(0, seen.restores.iter().cloned().map(Step::DeleteRestore).collect());
    }
    plan
}

fn data_deletion(seen: &Observed) -> Plan<Step> {
    let Some(backup) = seen.own_backup() else { return release(seen, Release::NothingLeft) };
    let asked = ask_velero(seen, backup);
    if seen.object.namespace_is_terminating {
        let release = Step::ReleaseFinalizer { uid: seen.object.uid.clone(), because: Release::NamespaceGoes };
        return Plan::steps(asked.groups.into_iter().flatten().chain([release]));
    }
    asked
}

/// Gets a deletion under way. A refused one would stay for a day, so that it makes room for the next.
fn ask_velero(seen: &Observed, backup: Victim) -> Plan<Step> {
    if seen.deletions.iter().any(|deletion| !deletion.is_processed()) {
        return Plan::settled();
    }
    let origin = seen.origin();
    let Some(refused) = seen.own_deletions().next() else {
        return Plan::step(Step::CreateDeletion { origin, backup });
    };
    match seen.rest_of(refused) {
        Duration::ZERO => {
            Plan::steps([Step::DeleteDeletion(refused.victim()), Step::CreateDeletion { origin, backup }])
        }
        rest => Plan::settled().look_again(rest),
    }
}

impl Observed {
    /// How long to leave a refusal alone. One from before the backup was finished says nothing any more.
    fn rest_of(&self, refused: &Deletion) -> Duration {
        let completed = self.velero.as_ref().and_then(|velero| Progress(&velero.status).completed());
        match completed {
            Some(completed) if refused.created <= completed => Duration::ZERO,
            _ => ASK_AGAIN.saturating_sub(refused.age),
        }
    }
}

impl Deletion {
    fn victim(&self) -> Victim {
        Victim { name: self.name.clone(), uid: self.uid.clone() }
    }
}

/// The status after the plan was carried out as `outcomes` say; `None` where there may be no object left to write it to.
pub fn report(seen: &Observed, settings: &Settings, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Option<Status> {
    let ended = |step: &Step| matches!(step, Step::DeleteSelf { .. } | Step::ReleaseFinalizer { .. });
    if outcomes.iter().any(|(step, outcome)| ended(step) && *outcome != Outcome::NotRun) {
        return None;
    }
    let mut status = seen.status.clone();
    match seen.path() {
        Path::CreateOrUpdate => accepted(&mut status, seen, settings, now),
        path => deleting(&mut status, seen, settings, path, now),
    }
    for (step, outcome) in outcomes {
        if let Step::CreateBackup { spec, .. } = step {
            queued(&mut status, spec, outcome, now);
        }
    }
    if let Stage::Made(velero) = seen.stage() {
        copied(&mut status, velero, now);
    }
    Some(status)
}

fn accepted(status: &mut Status, seen: &Observed, settings: &Settings, now: &Timestamp) {
    // The user has taken the wish to delete it back, in time.
    if status.phase == Some(Phase::Deleting) {
        status.phase = None;
        status.conditions.remove("Deleting");
    }
    let generation = Some(seen.object.generation);
    let conditions = &mut status.conditions;
    let mut not_accepted = |reason, message: &str| {
        conditions.set_observed("Accepted", Truth::False, reason, message, generation, now);
    };
    match (seen.stage(), seen.wanted()) {
        (Stage::Made(_), _) if seen.status.conditions.is_true("Accepted") => {}
        (Stage::Gone, _) => not_accepted(
            "VeleroBackupNotFound",
            "NonAdminBackup is finalized and its associated Velero Backup has been removed. \
             Please create a new NonAdminBackup to initiate a new backup",
        ),
        (Stage::Taken, _) => {
            not_accepted("VeleroBackupTaken", "related Velero Backup does not point to NonAdminBackup namespace");
        }
        (Stage::NotMade, Err(Refusal(message))) => {
            status.phase = Some(Phase::forward(status.phase, Phase::BackingOff));
            not_accepted("InvalidBackupSpec", &message);
        }
        (Stage::Made(_) | Stage::NotMade, _) => {
            status.phase = Some(Phase::forward(status.phase, Phase::New));
            conditions.set_observed("Accepted", Truth::True, "BackupAccepted", "backup accepted", generation, now);
            status.velero_backup.get_or_insert_default().record(&seen.origin(), settings);
        }
    }
}

fn queued(status: &mut Status, spec: &Fields, outcome: &Outcome, now: &Timestamp) {
    match outcome {
        Outcome::Done { .. } => {
            created(status, now);
            status.velero_backup.get_or_insert_default().spec = Some(spec.clone());
        }
        Outcome::Failed(failure) if failure.class != FailureClass::Stale => {
            status.conditions.set("Queued", Truth::False, failure.reason, failure.message.clone(), now);
        }
        Outcome::Failed(_) | Outcome::NotRun => {}
    }
}

fn created(status: &mut Status, now: &Timestamp) {
    status.phase = Some(Phase::forward(status.phase, Phase::Created));
    status.conditions.set("Queued", Truth::True, "BackupScheduled", "Created Velero Backup object", now);
}

fn copied(status: &mut Status, velero: &VeleroBackup, now: &Timestamp) {
    created(status, now);
    let reference = status.velero_backup.get_or_insert_default();
    reference.spec = Some(velero.spec.clone());
    reference.status = Some(velero.status.clone());
    status.queue_info = Some(QueueInfo { estimated_queue_position: velero.position });
}

fn deleting(status: &mut Status, seen: &Observed, settings: &Settings, path: Path, now: &Timestamp) {
    let message = match (path, settings.on_delete) {
        (Path::ApiDelete, OnDelete::Hold) => {
            "backup deletion requires setting spec.deleteBackup or spec.forceDeleteBackup to true or finalizer removal"
        }
        (Path::ApiDelete, OnDelete::Release) => "permanent backup deletion requires setting spec.deleteBackup to true",
        _ => "backup accepted for deletion",
    };
    status.phase = Some(Phase::Deleting);
    status.conditions.set("Deleting", Truth::True, "DeletionPending", message, now);
    if let Some(deletion) = seen.own_deletions().next() {
        let reference = status.velero_delete_backup_request.get_or_insert_default();
        reference.record(&seen.origin(), settings);
        reference.name = Some(deletion.name.clone());
        reference.status = Some(deletion.status.clone());
    }
}
