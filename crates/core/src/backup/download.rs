//! A `NonAdminDownloadRequest` and the Velero DownloadRequest behind it.
//!
//! ```text
//! names what is not there              -> BackingOff, until it is
//! its backup is not in a place of the
//! tenant's                             -> BackingOff for good: what is in the administrator's location is not handed out
//! not finished                         -> New, and goes on by itself
//! Velero has many of the namespace     -> New, and goes on by itself
//! finished, and proven hers            -> Velero is asked for a signed URL
//! Velero has signed                    -> proven once more; URL and `Processed` in one write, Created
//! the URL expires                      -> the request goes
//! a restore has brought it back        -> BackingOff for good: whatever it asked for was handed out in another life
//! ```
//!
//! A URL opens everything in the file to whoever has it, so it is handed out only while the file is proven to be of a request
//! in this namespace: at the moment Velero is asked, and again at the moment its answer is copied.

mod line;
mod subject;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::{
    line::{ahead, whose_turn},
    subject::{BackupFound, RestoreFound, Subject},
};
use super::{
    Phase, Victim,
    handover::{BROUGHT_BACK, is_denied},
    ownership::{Marks, Origin},
    policy::HeldBack,
    velero::{Fields, text},
};
use crate::{
    conditions::{Conditions, Truth},
    plan::{self, FailureClass, Outcome, Plan},
    time::Timestamp,
};

/// The condition that tells whether there is a URL.
const PROCESSED: &str = "Processed";

/// The world around one `NonAdminDownloadRequest`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub is_deleting: bool,
    /// It came out of a backup: it carries the mark of a Velero Restore.
    pub is_brought_back: bool,
    /// Which file, in Velero's words.
    pub kind: String,
    pub subject: Subject,
    pub status: Status,
    /// How long the URL in the status lives; nothing is left of one that has expired.
    pub expires_in: Option<Duration>,
    /// The Velero DownloadRequest under our name, whoever made it.
    pub velero: Option<VeleroDownload>,
    /// Others of the namespace that count before it; see [`ahead`].
    pub ahead: u64,
    /// How many a namespace may have there: Velero answers one after the other, whoever asks. 0 does not limit.
    pub limit: u64,
}

/// `status` of a `NonAdminDownloadRequest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    pub conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub velero: Option<Copied>,
}

/// What is copied from the Velero DownloadRequest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Copied {
    pub status: Answer,
}

/// Velero's answer. The URL in it is as good as a key, and never printed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Answer(pub Fields);

impl fmt::Debug for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Answer").field("has_url", &self.has_url()).finish_non_exhaustive()
    }
}

impl Answer {
    fn has_url(&self) -> bool {
        text(&self.0, "downloadURL").is_some()
    }
}

/// A Velero DownloadRequest.
#[derive(Clone, Debug, PartialEq)]
pub struct VeleroDownload {
    pub uid: String,
    pub marks: Marks,
    /// What it asks for.
    pub kind: String,
    pub target: String,
    pub answer: Answer,
    /// Whether the URL in it has expired.
    pub is_expired: bool,
}

/// One external call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    CreateDownload { name: String, origin: Origin, kind: String, target: String },
    DeleteDownload(Victim),
    DeleteSelf { uid: String },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::CreateDownload { .. } => "CreateVeleroDownload",
            Step::DeleteDownload(_) => "DeleteVeleroDownload",
            Step::DeleteSelf { .. } => "DeleteNonAdminDownloadRequest",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::CreateDownload { name, kind, target, .. } => {
                write!(out, "create Velero DownloadRequest {name} (absent): {kind} of {target}")
            }
            Step::DeleteDownload(Victim { name, uid }) => {
                write!(out, "delete Velero DownloadRequest {name} (uid {uid}): it asks for another file")
            }
            Step::DeleteSelf { uid } => write!(out, "delete NonAdminDownloadRequest (uid {uid}): its URL has expired"),
        }
    }
}

/// Name of the Velero DownloadRequest of the request with this UID.
pub fn velero_name(uid: &str) -> String {
    format!("nadr-{uid}")
}

/// Whether Velero still has to answer, by the phase it tells.
pub fn is_unanswered(phase: Option<&str>) -> bool {
    phase != Some("Processed")
}

/// What Velero was asked, compared with what it should be.
enum Asked<'a> {
    Nothing,
    This(&'a VeleroDownload),
    AnotherFile(&'a VeleroDownload),
    Taken,
}

impl Observed {
    pub fn origin(&self) -> Origin {
        Origin { namespace: self.namespace.clone(), name: self.name.clone(), nacuuid: self.uid.clone() }
    }

    /// Name of the Velero DownloadRequest.
    pub fn velero_name(&self) -> String {
        velero_name(&self.uid)
    }

    fn asked(&self, target: &str) -> Asked<'_> {
        match &self.velero {
            None => Asked::Nothing,
            Some(velero) if !self.origin().owns(&velero.marks) => Asked::Taken,
            Some(velero) if velero.kind == self.kind && velero.target == target => Asked::This(velero),
            Some(velero) => Asked::AnotherFile(velero),
        }
    }

    /// It is not carried out again, and was not since.
    fn is_of_another_life(&self) -> bool {
        let said = self.status.conditions.reason(PROCESSED);
        said == Some(BROUGHT_BACK) || (self.is_brought_back && self.status == Status::default())
    }

    fn held_back(&self) -> Option<HeldBack> {
        HeldBack::by(self.limit, self.ahead, "downloads without an answer")
    }

    fn has_url(&self) -> bool {
        self.status.velero.as_ref().is_some_and(|velero| velero.status.has_url())
    }
}

/// What to do next.
pub fn plan(seen: &Observed) -> Plan<Step> {
    if seen.is_deleting {
        return Plan::settled();
    }
    if seen.has_url() {
        return match seen.expires_in {
            Some(Duration::ZERO) | None => Plan::step(Step::DeleteSelf { uid: seen.uid.clone() }),
            Some(left) => Plan::settled().look_again(left),
        };
    }
    let Subject::Proven(target) = &seen.subject else { return Plan::settled() };
    if seen.is_of_another_life() {
        return Plan::settled();
    }
    match seen.asked(target) {
        // Whoever is held back is woken when there is room.
        Asked::Nothing if seen.held_back().is_some() => Plan::settled(),
        Asked::Nothing => Plan::step(Step::CreateDownload {
            name: seen.velero_name(),
            origin: seen.origin(),
            kind: seen.kind.clone(),
            target: target.clone(),
        }),
        Asked::AnotherFile(velero) => {
            Plan::step(Step::DeleteDownload(Victim { name: seen.velero_name(), uid: velero.uid.clone() }))
        }
        Asked::This(_) | Asked::Taken => Plan::settled(),
    }
}

/// The status after the plan was carried out as `outcomes` say; `None` where there may be no object left to write it to.
pub fn report(seen: &Observed, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Option<Status> {
    let ended =
        outcomes.iter().any(|(step, outcome)| matches!(step, Step::DeleteSelf { .. }) && *outcome != Outcome::NotRun);
    if ended || seen.is_deleting {
        return None;
    }
    if seen.has_url() {
        return Some(seen.status.clone());
    }
    let failure = outcomes.iter().find_map(|(_, outcome)| outcome.failure());
    let failure = failure.filter(|failure| failure.class != FailureClass::Stale);
    let error = |kind, message| Told { phase: Phase::BackingOff, kind, truth: Truth::True, reason: "Error", message };
    let waits = |message| Told { phase: Phase::New, kind: PROCESSED, truth: Truth::False, reason: "NotReady", message };
    let told = match &seen.subject {
        _ if seen.is_of_another_life() => Told {
            phase: Phase::BackingOff,
            kind: PROCESSED,
            truth: Truth::False,
            reason: BROUGHT_BACK,
            message:
                "a restore has brought this NonAdminDownloadRequest back: it is not carried out again, create a new one"
                    .to_owned(),
        },
        Subject::NoBackup => error("NonAdminBackupNotAvailable", "cannot get nonadminbackup".to_owned()),
        Subject::NoRestore => error("NonAdminRestoreNotAvailable", "cannot get nonadminrestore".to_owned()),
        Subject::NotInOwnLocation => error(
            "NonAdminBackupStorageLocationNotUsed",
            "backup does not use nonadminbackupstoragelocation, recreate nadr to process".to_owned(),
        ),
        Subject::NotReady(why) => waits((*why).to_owned()),
        Subject::Proven(target) => match seen.asked(target) {
            Asked::This(velero) => match signed(velero) {
                Some(answer) => return Some(processed(seen, answer.clone(), now)),
                None => waits("Velero is asked for the URL".to_owned()),
            },
            Asked::Taken => waits(format!("Velero DownloadRequest {} is not of this request", seen.velero_name())),
            asked @ (Asked::Nothing | Asked::AnotherFile(_)) => match (failure, seen.held_back()) {
                // It is tried again, and others go on meanwhile.
                (Some(failure), _) if is_denied(Truth::False, failure.reason) => {
                    Told { reason: failure.reason, ..waits(failure.message.clone()) }
                }
                (Some(failure), _) => waits(failure.message.clone()),
                (None, Some(HeldBack(message))) if matches!(asked, Asked::Nothing) => {
                    Told { reason: HeldBack::REASON, ..waits(message) }
                }
                (None, _) => waits("Velero is asked for the URL".to_owned()),
            },
        },
    };
    Some(told.over(seen, now))
}

/// The answer, if there is one and it is still good.
fn signed(velero: &VeleroDownload) -> Option<&Answer> {
    let is_processed = !is_unanswered(text(&velero.answer.0, "phase"));
    (is_processed && velero.answer.has_url() && !velero.is_expired).then_some(&velero.answer)
}

fn processed(seen: &Observed, answer: Answer, now: &Timestamp) -> Status {
    let told =
        Told { phase: Phase::Created, kind: PROCESSED, truth: Truth::True, reason: "Success", message: String::new() };
    Status { velero: Some(Copied { status: answer }), ..told.over(seen, now) }
}

/// The one thing to say.
struct Told {
    phase: Phase,
    kind: &'static str,
    truth: Truth,
    reason: &'static str,
    message: String,
}

impl Told {
    fn over(self, seen: &Observed, now: &Timestamp) -> Status {
        let mut conditions = seen.status.conditions.clone();
        conditions.0.retain(|condition| condition.kind == self.kind);
        conditions.set_observed(self.kind, self.truth, self.reason, self.message, Some(seen.generation), now);
        let phase = Phase::forward(seen.status.phase, self.phase);
        Status { phase: Some(phase), conditions, velero: seen.status.velero.clone() }
    }
}

#[cfg(test)]
mod tests;
