//! A `NonAdminRestore` and the Velero Restore behind it.
//!
//! How it gets to Velero is told in `handover`, what is told once it has ended in [`super::left_out`]. Deleted: `Deleting`, the Velero Restore is deleted, then the finalizer goes.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Counts, Handed, Object, Phase, Policy, QueueInfo, Reference, Victim,
    backup::NOT_FOUND,
    fingerprint,
    handover::{HandOver, Next, Stage, Told, Words},
    left_out::{ASKED_WITHIN, Inquiry, LeftOut, List, Listing},
    ownership::{Claimant, Origin},
    policy::HeldBack,
    validate::{self, Refusal},
    velero::{Fields, MODIFIERS, Progress, text},
};
use crate::{
    conditions::{Conditions, Truth},
    plan::{self, Outcome, Plan},
    time::Timestamp,
};

const WORDS: Words = Words {
    kind: "NonAdminRestore",
    accepted: ("RestoreAccepted", "restore accepted"),
    invalid: "InvalidRestoreSpec",
    gone: (
        "VeleroRestoreNotFound",
        "NonAdminRestore is finalized and its associated Velero Restore has been removed. \
         Please create a new NonAdminRestore to initiate a new Restore",
    ),
    taken: ("VeleroRestoreTaken", "related Velero Restore does not point to NonAdminRestore namespace"),
    scheduled: ("RestoreScheduled", "Created Velero Restore object"),
    spec_changed: ("RestoreSpecUpdateRejected", UNCHANGEABLE),
};

/// Said of a restore that Velero is finishing: since when it is.
pub const FINISHING: &str = "Finishing";
/// Many times what Velero allows itself. Until it is done it may change no volume of anybody's, and it reads from the tenant's
/// bucket what there is to finish.
pub(super) const OVERDUE: Duration = Duration::from_secs(24 * 3600);

/// What whoever changes the spec of a restore that Velero has is told.
pub const UNCHANGEABLE: &str = "changes to restoreSpec have no effect; create a new NonAdminRestore";

/// The world around one `NonAdminRestore`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub object: Object,
    pub spec: Fields,
    pub status: Status,
    pub source: Source,
    /// The Velero Restore under our name, whoever made it.
    pub velero: Option<Handed>,
    /// The API server takes it for unfinished when it judges what Velero writes.
    pub counts_as_unfinished: bool,
    /// Admission policies that are not installed as they should be.
    pub missing_fences: Vec<String>,
    /// A restore of somebody else's that Velero is not done with.
    pub ahead: Option<String>,
    /// The rules for tenants' restores are in Velero's namespace; see [`super::modifiers`].
    pub has_modifiers: bool,
    /// Velero's lists of what is in the backup and what became of it.
    pub lists: [Listing; 2],
    /// How long ago Velero was done with it.
    pub ended: Option<Duration>,
    /// How long Velero has been finishing it.
    pub finishing: Option<Duration>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system_pod_volume_restores: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_mover_data_downloads: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// The `NonAdminBackup` the restore names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Missing,
    /// What was stored is gone: deleted, or its time has come.
    Gone,
    /// There is nothing in it to restore: refused, failed, or on its way out.
    Unusable,
    /// Not handed to Velero yet, still running, or its Velero Backup is not to be seen.
    NotReady,
    /// Velero cannot reach what is stored: it would refuse for good what it is asked for meanwhile.
    OutOfReach,
    Ready {
        velero_backup: String,
    },
}

impl Source {
    /// From where the `NonAdminBackup` stands, why it is not accepted, its Velero Backup if there is one and it is proven to be its own,
    /// and whether Velero can use the location of that one.
    pub fn of(
        phase: Option<Phase>,
        accepted: Option<&str>,
        velero_backup: Option<String>,
        status: Option<&Fields>,
        is_reachable: bool,
    ) -> Self {
        let progress = status.map(Progress).filter(|progress| progress.is_finished());
        match (phase, velero_backup, progress.and_then(Progress::phase)) {
            (Some(Phase::Created), _, None) if accepted == Some(NOT_FOUND) => Source::Gone,
            (Some(Phase::Created), Some(velero_backup), Some("Completed" | "PartiallyFailed")) => {
                if is_reachable {
                    Source::Ready { velero_backup }
                } else {
                    Source::OutOfReach
                }
            }
            // One that Velero is done with before that is on record is on record soon.
            (None | Some(Phase::New), _, _) | (Some(Phase::Created), _, None) => Source::NotReady,
            _ => Source::Unusable,
        }
    }
}

/// One external call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    AddFinalizer {
        uid: String,
    },
    /// The finalizer, and the note that it is handed over to Velero next.
    Hold {
        uid: String,
    },
    WriteModifiers,
    CreateRestore {
        origin: Origin,
        spec: Fields,
        made_for: String,
    },
    /// What Velero is done with judges nothing any more.
    CountAsFinished(Victim),
    /// What Velero does not get done with is over; only as it was seen: Velero may get done with it.
    End {
        restore: Victim,
        version: String,
    },
    AskForList {
        list: List,
        origin: Origin,
        /// The Velero Backup or Restore it is of.
        of: String,
    },
    ForgetList(Victim),
    /// Only as it was seen: while Velero finishes it the policies around restores go by it.
    DeleteRestore {
        restore: Victim,
        version: String,
    },
    ReleaseFinalizer {
        uid: String,
    },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::Hold { .. } => "Hold",
            Step::WriteModifiers => "WriteRestoreModifiers",
            Step::CreateRestore { .. } => "CreateVeleroRestore",
            Step::CountAsFinished(_) => "CountAsFinished",
            Step::End { .. } => "EndVeleroRestore",
            Step::AskForList { .. } => "CreateVeleroDownload",
            Step::ForgetList(_) => "DeleteVeleroDownload",
            Step::DeleteRestore { .. } => "DeleteVeleroRestore",
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
            Step::Hold { uid } => write!(out, "add finalizer and note (uid {uid}): a Velero Restore is made next"),
            Step::WriteModifiers => {
                write!(out, "write ConfigMap {MODIFIERS}: the rules for tenants' restores are not there")
            }
            Step::CountAsFinished(Victim { name, uid }) => {
                write!(out, "unlabel Velero Restore {name} (uid {uid}): Velero is done with it")
            }
            Step::End { restore: Victim { name, uid }, .. } => {
                write!(out, "end Velero Restore {name} (uid {uid}): Velero does not get done with it")
            }
            Step::AskForList { list, of, .. } => {
                let list = list.in_veleros_words();
                write!(out, "create Velero DownloadRequest (absent): {list} of {of} tells what was left out")
            }
            Step::ForgetList(Victim { name, uid }) => {
                write!(out, "delete Velero DownloadRequest {name} (uid {uid}): it is of no more use")
            }
            Step::CreateRestore { origin, .. } => {
                write!(out, "create Velero Restore {} (absent): accepted", origin.nacuuid)
            }
            Step::DeleteRestore { restore: Victim { name, uid }, .. } => {
                write!(out, "delete Velero Restore {name} (uid {uid}): its request is deleted")
            }
            Step::ReleaseFinalizer { uid } => write!(out, "release finalizer (uid {uid}): nothing of it is left"),
        }
    }
}

impl Observed {
    pub fn origin(&self) -> Origin {
        self.object.origin(self.status.velero_restore.as_ref())
    }

    fn hand_over(&self, policy: &Policy) -> HandOver<'_> {
        HandOver {
            words: &WORDS,
            object: &self.object,
            spec: &self.spec,
            phase: self.status.phase,
            conditions: &self.status.conditions,
            reference: self.status.velero_restore.as_ref(),
            found: self.velero.as_ref(),
            is_own: self.is_own(),
            kept_for: None,
            wanted: self.wanted(policy),
        }
    }

    /// Whether what is under the name of its Velero Restore is proven to be it. Velero finds no Restores in buckets.
    fn is_own(&self) -> bool {
        let origin = self.origin();
        let recorded = self.status.velero_restore.as_ref().and_then(|reference| reference.uid.as_deref());
        let claimant = Claimant { origin: &origin, recorded, names_location: false };
        self.velero.as_ref().is_some_and(|found| claimant.owns(&found.uid, &found.marks, None))
    }

    fn end(&self, velero: &Handed) -> Step {
        Step::End { restore: self.victim(velero), version: velero.version.clone() }
    }

    fn victim(&self, velero: &Handed) -> Victim {
        Victim { name: self.origin().nacuuid, uid: velero.uid.clone() }
    }

    /// Whether Velero's lists are to be read: it was done not long ago, and what it left out is not told yet.
    pub fn wants_lists(&self, policy: &Policy) -> bool {
        let is_recent = self.ended.is_some_and(|ended| ended < ASKED_WITHIN);
        is_recent && self.done(policy).is_some() && self.status.left_out.is_none()
    }

    /// Whether it is handed over to Velero next, which needs the rules for tenants' restores.
    pub fn wants_modifiers(&self, policy: &Policy) -> bool {
        !self.object.is_deleting && matches!(self.hand_over(policy).next(), Next::Make(_))
    }

    /// How long Velero may go on finishing it.
    fn rest_of_finishing(&self) -> Duration {
        OVERDUE.saturating_sub(self.finishing.unwrap_or_default())
    }

    /// The Velero Restore, once it has brought back what it could.
    fn done(&self, policy: &Policy) -> Option<&Handed> {
        let Stage::Made(velero) = self.hand_over(policy).stage() else { return None };
        let has_ended = matches!(Progress(&velero.status).phase(), Some("Completed" | "PartiallyFailed"));
        (has_ended && !self.object.is_deleting).then_some(velero)
    }

    /// How far the question is what was left out, as long as it is open.
    fn inquiry(&self, policy: &Policy) -> Option<Inquiry> {
        let can_ask = matches!(self.source, Source::Ready { .. } | Source::OutOfReach);
        self.wants_lists(policy).then(|| Inquiry::of(&self.lists, can_ask, policy))
    }

    fn forget_lists(&self) -> impl Iterator<Item = Step> {
        self.lists.iter().filter_map(|listing| listing.victim(&self.object.uid)).map(Step::ForgetList)
    }

    /// The spec for Velero, if the request is allowed and its backup is ready.
    fn wanted(&self, policy: &Policy) -> Result<Fields, Refusal> {
        const NOT_READY: &str =
            "NonAdminRestore spec.restoreSpec.backupName is invalid: NonAdminBackup is not ready to be restored";
        let spec = validate::restore(&self.spec, &self.object.namespace, policy)?;
        policy.is_clear()?;
        let held_back = HeldBack::by(policy.limits.restores, self.object.ahead, "unfinished restores");
        match &self.source {
            Source::Missing => Err(Refusal::invalid(format!(
                "NonAdminRestore spec.restoreSpec.backupName is invalid: nonadminbackups.oadp.openshift.io \"{}\" not found",
                spec.backup_name()
            ))),
            Source::Gone => Err(Refusal::invalid(format!(
                "NonAdminRestore spec.restoreSpec.backupName is invalid: what NonAdminBackup \"{}\" stored is gone",
                spec.backup_name()
            ))),
            Source::Unusable => Err(Refusal::invalid(NOT_READY)),
            Source::NotReady => Err(Refusal::not_yet("BackupNotReady", NOT_READY)),
            Source::OutOfReach => Err(Refusal::not_yet(
                "LocationNotReady",
                format!(
                    "the storage location of NonAdminBackup \"{}\" is not in available state; this goes on when it is",
                    spec.backup_name()
                ),
            )),
            Source::Ready { .. } if !self.missing_fences.is_empty() => {
                Err(Refusal::unfenced("restored", &self.missing_fences))
            }
            Source::Ready { .. } if self.object.namespace_is_terminating => {
                Err(Refusal::not_yet("NamespaceTerminating", "the namespace is being deleted"))
            }
            Source::Ready { velero_backup } => match (&self.ahead, held_back) {
                (Some(_), _) => {
                    Err(Refusal::not_yet("AnotherRestoreRuns", "waiting for a restore of the administrator to end"))
                }
                (None, Some(held_back)) => Err(held_back.into()),
                (None, None) => Ok(spec.for_velero(&self.object.namespace, velero_backup, policy)),
            },
        }
    }
}

/// What to do next.
pub fn plan(seen: &Observed, policy: &Policy) -> Plan<Step> {
    if seen.object.is_deleting { delete(seen, policy) } else { create(seen, policy) }
}

fn create(seen: &Observed, policy: &Policy) -> Plan<Step> {
    let hand_over = seen.hand_over(policy);
    match (hand_over.next(), hand_over.stage()) {
        (Next::Finalizer, _) => Plan::step(Step::AddFinalizer { uid: seen.object.uid.clone() }),
        (Next::Make(spec), _) => {
            let rules = (!seen.has_modifiers).then_some(Step::WriteModifiers);
            let hold = (!hand_over.is_held()).then(|| Step::Hold { uid: seen.object.uid.clone() });
            let make = Step::CreateRestore { origin: seen.origin(), spec, made_for: fingerprint(&seen.spec) };
            Plan::steps(rules.into_iter().chain(hold).chain([make]))
        }
        (Next::Nothing, Stage::Made(velero)) if seen.counts_as_unfinished && Progress(&velero.status).is_finished() => {
            Plan::step(Step::CountAsFinished(seen.victim(velero)))
        }
        (Next::Nothing, Stage::Made(velero)) if Progress(&velero.status).is_being_finished() => {
            match seen.rest_of_finishing() {
                Duration::ZERO => Plan::step(seen.end(velero)),
                rest => Plan::settled().look_again(rest),
            }
        }
        (Next::Nothing, _) => find_out(seen, policy),
    }
}

/// What is left to do once Velero is done.
fn find_out(seen: &Observed, policy: &Policy) -> Plan<Step> {
    match (seen.inquiry(policy), seen.done(policy)) {
        (Some(Inquiry::Ask(lists)), Some(velero)) => Plan::steps(lists.into_iter().map(|list| Step::AskForList {
            list,
            origin: seen.origin(),
            of: match list {
                List::Contents => text(&velero.spec, "backupName").unwrap_or_default().to_owned(),
                List::Restored => seen.origin().nacuuid,
            },
        })),
        (Some(Inquiry::Wait(rest)), _) => Plan::settled().look_again(rest),
        // First it is told.
        (Some(_), _) => Plan::settled(),
        (None, _) => Plan::steps(seen.forget_lists()),
    }
}

/// Velero cleans up after a Restore before that goes, and is given the time, unless the namespace waits for us.
fn delete(seen: &Observed, policy: &Policy) -> Plan<Step> {
    if seen.status.phase != Some(Phase::Deleting) || !seen.object.has_finalizer {
        return Plan::settled();
    }
    let release = Step::ReleaseFinalizer { uid: seen.object.uid.clone() };
    match seen.hand_over(policy).stage() {
        // It would vanish under Velero's hands, and the policies that go by it with it.
        Stage::Made(velero) if Progress(&velero.status).is_at_work() => match seen.rest_of_finishing() {
            _ if seen.object.namespace_is_terminating => Plan::steps(seen.forget_lists().chain([release])),
            _ if !Progress(&velero.status).is_being_finished() => Plan::settled(),
            // It is looked at again as it is then.
            Duration::ZERO => Plan::steps(seen.forget_lists().chain([seen.end(velero)])),
            rest => Plan::settled().look_again(rest),
        },
        Stage::Made(velero) => {
            let (restore, version) = (seen.victim(velero), velero.version.clone());
            let delete = (!velero.is_deleting).then_some(Step::DeleteRestore { restore, version });
            let release = seen.object.namespace_is_terminating.then_some(release);
            Plan::steps(seen.forget_lists().chain(delete).chain(release))
        }
        Stage::Unseen if !seen.object.needs_no_velero() => Plan::settled(),
        Stage::Unseen | Stage::Gone | Stage::Taken | Stage::NotMade => {
            Plan::steps(seen.forget_lists().chain([release]))
        }
    }
}

/// The status after the plan was carried out as `outcomes` say; `None` where there may be no object left to write it to.
pub fn report(seen: &Observed, policy: &Policy, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Option<Status> {
    let ended = |step: &Step| matches!(step, Step::ReleaseFinalizer { .. });
    if outcomes.iter().any(|(step, outcome)| ended(step) && *outcome != Outcome::NotRun) {
        return None;
    }
    let mut status = seen.status.clone();
    let hand_over = seen.hand_over(policy);
    if seen.object.is_deleting {
        status.phase = Some(Phase::Deleting);
        let message = match hand_over.stage() {
            Stage::Made(velero) if Progress(&velero.status).is_being_finished() => {
                "Velero is finishing this restore: it goes as soon as Velero is done with it"
            }
            Stage::Made(velero) if Progress(&velero.status).is_at_work() => {
                "Velero is working on this restore: it goes as soon as Velero is done with it"
            }
            Stage::Made(velero) if velero.is_deleting => {
                "Velero deletes what it has stored of this restore, for which it has to reach the storage location of the backup"
            }
            _ => "restore accepted for deletion",
        };
        status.conditions.set("Deleting", Truth::True, "DeletionPending", message, now);
    } else {
        hand_over.accept(&mut status.told(), policy, now);
    }
    for (step, outcome) in outcomes {
        if let Step::CreateRestore { .. } = step {
            hand_over.handed(&mut status.told(), outcome, now);
        }
    }
    hand_over.follow(&mut status.told(), now);
    match hand_over.stage() {
        Stage::Made(velero) if Progress(&velero.status).is_being_finished() => {
            let message = "Velero has restored what it could and finishes";
            status.conditions.set(FINISHING, Truth::True, "VeleroFinishes", message, now);
        }
        _ => drop(status.conditions.remove(FINISHING)),
    }
    if let Some(Inquiry::Over(left_out)) = seen.inquiry(policy) {
        status.left_out = Some(left_out);
    }
    Some(status)
}

impl Status {
    fn told(&mut self) -> Told<'_> {
        Told {
            phase: &mut self.phase,
            conditions: &mut self.conditions,
            reference: &mut self.velero_restore,
            queue_info: &mut self.queue_info,
            file_system: &mut self.file_system_pod_volume_restores,
            data_mover: &mut self.data_mover_data_downloads,
        }
    }
}
