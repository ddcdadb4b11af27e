//! How a request is handed over to Velero, once: the same for a backup and a restore.
//!
//! ```text
//! only an edit can cure it           -> BackingOff, Accepted=False; looked at again when it is edited, and only then
//! allowed, the world is not ready    -> New, Accepted=False with the reason; goes on by itself
//! allowed                            -> finalizer, and the note that it is handed over, in one write
//! held and noted                     -> the Velero object, whose name follows from the request's own
//! the API server does not take it    -> BackingOff, as above
//! noted long ago, nothing there      -> said: Velero may have had it
//! Velero has it                      -> Created, Accepted=True, Queued=True: from now on never again; its status and the place in the
//!                                       queue are copied
//! the Velero object is gone          -> said, and what was copied from it is forgotten
//! ```

use std::time::Duration;

use serde_json::Value;

use super::{
    Counts, Object, Phase, Policy, QueueInfo, Reference, Transfers, Tried,
    copied::copied,
    meaning::meaning,
    ownership::{Marks, Origin},
    validate::{Invalid, Refusal},
    velero::Fields,
};
use crate::{
    conditions::{Conditions, Truth},
    namespaces::manifest,
    plan::{FailureClass, Outcome},
    refusal,
    time::Timestamp,
};

const ACCEPTED: &str = "Accepted";
const QUEUED: &str = "Queued";
const SPEC_UPDATE: &str = "SpecUpdateApproved";
/// Why a request that came back out of somebody's backup is left alone.
pub(super) const BROUGHT_BACK: &str = "BroughtBackByRestore";

/// For so long nothing takes away from Velero what was made and not told yet, unless it is kept for less. Whoever comes back later
/// cannot tell whether it was there.
pub(super) const BEYOND_DOUBT: Duration = Duration::from_secs(600);
/// Reasons of failures after which the Velero object may have been made all the same.
const UNANSWERED: [&str; 4] = ["TimedOut", "ApiServerUnreachable", "ApiCallFailed", "UnreadableAnswer"];

/// Reason of a failure that the same object would meet again: what was asked for is not what Velero takes.
const REJECTED: &str = "Rejected";
/// Reasons of failures after which it may be let pass all the same, nobody knows when: a rule or a quota may change, a right come back.
const DENIED: [&str; 3] = [REJECTED, "Forbidden", "QuotaExceeded"];

/// The object Velero has been handed, or whatever else is under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Handed {
    pub uid: String,
    pub version: String,
    pub marks: Marks,
    /// Fingerprint of the spec it was made for; see [`fingerprint`].
    pub made_for: Option<String>,
    pub spec: Fields,
    pub status: Fields,
    /// Velero cleans up after it.
    pub is_deleting: bool,
    /// See [`super::queue_position`].
    pub position: u64,
    pub transfers: Transfers,
}

/// The words in which each kind tells the same story.
pub(super) struct Words {
    pub(super) kind: &'static str,
    pub(super) accepted: (&'static str, &'static str),
    pub(super) invalid: &'static str,
    pub(super) gone: (&'static str, &'static str),
    pub(super) taken: (&'static str, &'static str),
    pub(super) scheduled: (&'static str, &'static str),
    pub(super) spec_changed: (&'static str, &'static str),
}

/// What both kinds tell in their status.
pub(super) struct Told<'a> {
    pub(super) phase: &'a mut Option<Phase>,
    pub(super) conditions: &'a mut Conditions,
    pub(super) reference: &'a mut Option<Reference>,
    pub(super) queue_info: &'a mut Option<QueueInfo>,
    pub(super) file_system: &'a mut Option<Counts>,
    pub(super) data_mover: &'a mut Option<Counts>,
}

/// One request on its way to Velero.
pub(super) struct HandOver<'a> {
    pub(super) words: &'static Words,
    pub(super) object: &'a Object,
    /// As the user wrote it.
    pub(super) spec: &'a Fields,
    pub(super) phase: Option<Phase>,
    pub(super) conditions: &'a Conditions,
    pub(super) reference: Option<&'a Reference>,
    /// What is under the name of its Velero object.
    pub(super) found: Option<&'a Handed>,
    /// Whether that is proven to be it; see [`super::ownership::Claimant`].
    pub(super) is_own: bool,
    /// How long Velero keeps what it makes of it, where that is known.
    pub(super) kept_for: Option<Duration>,
    /// The spec for Velero, if the request is allowed and the world is ready for it.
    pub(super) wanted: Result<Fields, Refusal>,
}

/// What is known of the way to Velero.
pub(super) enum Stage<'a> {
    /// The Velero object is there, and ours.
    Made(&'a Handed),
    /// It was there once.
    Gone,
    /// Something that is not ours has its name.
    Taken,
    NotMade,
    /// Velero had it, and is away.
    Unseen,
}

/// What the way to Velero needs next.
pub(super) enum Next {
    Nothing,
    Finalizer,
    /// The Velero object, once the request is held by the finalizer.
    Make(Fields),
}

/// What becomes of a request that Velero has not had.
enum Verdict<'a> {
    Go(&'a Fields),
    Refused(&'a Refusal),
    /// As before: nobody has edited it since.
    StillRefused,
    VeleroAway,
    /// An administrator's restore brought it back: whatever it asked for was done in another life.
    BroughtBack,
    /// It was about to be handed over when the operator went down, and whether it was cannot be told any more.
    Lost,
}

/// Tells specs apart that ask for different things; see [`meaning`].
pub fn fingerprint(spec: &Fields) -> String {
    manifest::digest(&Value::Object(meaning(spec)))
}

/// Whether what becomes of a request does not depend on others any more: Velero has had it, or it was refused and nobody has edited it
/// since.
pub fn is_decided(phase: Option<Phase>, conditions: &Conditions, generation: i64) -> bool {
    was_made(phase, conditions) || is_still_refused(phase, conditions, generation)
}

fn was_made(phase: Option<Phase>, conditions: &Conditions) -> bool {
    conditions.is_true(QUEUED) || phase == Some(Phase::Created)
}

fn is_still_refused(phase: Option<Phase>, conditions: &Conditions, generation: i64) -> bool {
    let is_unedited = conditions.get(ACCEPTED).is_some_and(|said| said.observed_generation == Some(generation));
    phase == Some(Phase::BackingOff) && is_unedited
}

/// Whether the condition `Queued` says that nothing came of a try.
pub(super) fn has_failed_since(tried: &Tried, status: Truth, reason: &str, since: &str) -> bool {
    status == Truth::False && since >= tried.at.0.as_str() && !UNANSWERED.contains(&reason)
}

/// Whether the condition `Queued` says that it was kept from Velero, and what it asks for is not to blame.
pub fn is_denied(status: Truth, reason: &str) -> bool {
    status == Truth::False && DENIED.contains(&reason)
}

impl<'a> HandOver<'a> {
    pub(super) fn origin(&self) -> Origin {
        self.object.origin(self.reference)
    }

    pub(super) fn stage(&self) -> Stage<'a> {
        let was_made = was_made(self.phase, self.conditions);
        match self.found {
            _ if self.object.velero_is_away() => {
                if was_made {
                    Stage::Unseen
                } else {
                    Stage::NotMade
                }
            }
            Some(found) if self.is_own => Stage::Made(found),
            _ if was_made => Stage::Gone,
            Some(_) => Stage::Taken,
            None => Stage::NotMade,
        }
    }

    pub(super) fn next(&self) -> Next {
        match (self.stage(), self.verdict()) {
            // Somebody took the finalizer away: it is put back, or the Velero object would stay behind.
            (Stage::Made(_), _) if !self.object.has_finalizer => Next::Finalizer,
            (Stage::NotMade, Verdict::Go(spec)) => Next::Make(spec.clone()),
            _ => Next::Nothing,
        }
    }

    fn verdict(&self) -> Verdict<'_> {
        let said = self.conditions.get(ACCEPTED);
        let was_brought_back = said.is_some_and(|said| said.reason == BROUGHT_BACK);
        let says_nothing = self.phase.is_none() && self.conditions.0.is_empty();
        match &self.wanted {
            _ if was_brought_back || (self.object.is_brought_back && says_nothing) => Verdict::BroughtBack,
            _ if is_still_refused(self.phase, self.conditions, self.object.generation) => Verdict::StillRefused,
            Ok(_) | Err(Refusal::NotYet { .. }) if self.object.velero_is_away() => Verdict::VeleroAway,
            Ok(_) if self.is_lost() => Verdict::Lost,
            Ok(spec) => Verdict::Go(spec),
            Err(refusal) => Verdict::Refused(refusal),
        }
    }

    fn is_lost(&self) -> bool {
        let tried_for = self.kept_for.unwrap_or(BEYOND_DOUBT).min(BEYOND_DOUBT);
        self.object.tried.as_ref().is_some_and(|tried| tried.ago >= tried_for && !self.has_failed_since(tried))
    }

    /// The API server has said that nothing came of it.
    fn has_failed_since(&self, tried: &Tried) -> bool {
        let said = self.conditions.get(QUEUED);
        said.is_some_and(|said| has_failed_since(tried, said.status, &said.reason, &said.last_transition_time.0))
    }

    /// Whether it is held by the finalizer, and noted that it is handed over.
    pub(super) fn is_held(&self) -> bool {
        let is_noted = self.object.tried.as_ref().is_some_and(|tried| !self.has_failed_since(tried));
        self.object.has_finalizer && is_noted
    }

    /// Whether the request is accepted, and why not.
    pub(super) fn accept(&self, told: &mut Told<'_>, policy: &Policy, now: &Timestamp) {
        let generation = Some(self.object.generation);
        let mut say = |truth, reason: &str, message: &str| {
            told.conditions.set_observed(ACCEPTED, truth, reason, message, generation, now);
        };
        match (self.stage(), self.verdict()) {
            (Stage::Made(_), _) if self.conditions.is_true(ACCEPTED) => {}
            (Stage::Gone, _) => {
                *told.phase = Some(Phase::forward(*told.phase, Phase::Created));
                if self.conditions.reason(ACCEPTED) != Some(self.words.gone.0) {
                    say(Truth::False, self.words.gone.0, self.words.gone.1);
                }
            }
            (Stage::Taken, _) => say(Truth::False, self.words.taken.0, self.words.taken.1),
            (Stage::Unseen, _) | (Stage::NotMade, Verdict::StillRefused) => {}
            (Stage::NotMade, Verdict::VeleroAway) => {
                *told.phase = Some(Phase::New);
                say(Truth::False, "VeleroAway", "Velero is not there; this goes on when it is");
            }
            (Stage::NotMade, Verdict::BroughtBack) => {
                *told.phase = Some(Phase::BackingOff);
                let kind = self.words.kind;
                let message =
                    format!("a restore has brought this {kind} back: it is not carried out again, create a new one");
                say(Truth::False, BROUGHT_BACK, &message);
            }
            (Stage::NotMade, Verdict::Lost) => {
                *told.phase = Some(Phase::forward(*told.phase, Phase::Created));
                let kind = self.words.kind;
                let message = format!(
                    "the operator went down while it handed this over: Velero does not have it, and may have had it; it is not \
                     handed over a second time, create a new {kind}"
                );
                say(Truth::False, self.words.gone.0, &message);
            }
            (Stage::NotMade, Verdict::Refused(Refusal::Invalid(Invalid(message)))) => {
                *told.phase = Some(Phase::BackingOff);
                say(Truth::False, self.words.invalid, message);
            }
            (Stage::NotMade, Verdict::Refused(Refusal::Groundless { reason, message })) => {
                *told.phase = Some(Phase::BackingOff);
                say(Truth::False, reason, message);
            }
            (Stage::NotMade, Verdict::Refused(Refusal::NotYet { reason, message })) => {
                *told.phase = Some(Phase::New);
                say(Truth::False, reason, message);
            }
            (Stage::Made(_), _) | (Stage::NotMade, Verdict::Go(_)) => {
                *told.phase = Some(told.phase.map_or(Phase::New, Phase::accepted));
                say(Truth::True, self.words.accepted.0, self.words.accepted.1);
                told.reference.get_or_insert_default().record(&self.origin(), policy);
            }
        }
    }

    /// What Velero makes of it.
    pub(super) fn follow(&self, told: &mut Told<'_>, now: &Timestamp) {
        match self.stage() {
            Stage::Made(handed) => {
                self.created(told, now);
                let reference = told.reference.get_or_insert_default();
                reference.uid = Some(handed.uid.clone());
                reference.status = Some(copied(&handed.status));
                *told.queue_info = Some(QueueInfo { estimated_queue_position: handed.position });
                *told.file_system = handed.transfers.of_file_system();
                *told.data_mover = handed.transfers.of_data_mover();
                self.note_changes(told, handed, now);
            }
            Stage::Gone => {
                if let Some(reference) = told.reference {
                    reference.status = None;
                }
                (*told.queue_info, *told.file_system, *told.data_mover) = (None, None, None);
            }
            Stage::Taken | Stage::NotMade | Stage::Unseen => {}
        }
    }

    /// Velero works on what it was given. Whoever changes the request past the door must not believe otherwise.
    fn note_changes(&self, told: &mut Told<'_>, handed: &Handed, now: &Timestamp) {
        if handed.made_for.as_ref().is_none_or(|made_for| *made_for == fingerprint(self.spec)) {
            told.conditions.remove(SPEC_UPDATE);
            return;
        }
        let ((reason, message), generation) = (self.words.spec_changed, Some(self.object.generation));
        told.conditions.set_observed(SPEC_UPDATE, Truth::False, reason, message, generation, now);
    }

    /// How handing it over went.
    pub(super) fn handed(&self, told: &mut Told<'_>, outcome: &Outcome, now: &Timestamp) {
        match outcome {
            Outcome::Done { uid, .. } => {
                told.reference.get_or_insert_default().uid.clone_from(uid);
                self.created(told, now);
            }
            Outcome::Failed(failure) if failure.class != FailureClass::Stale => {
                let said = told.conditions.get(QUEUED).map(|said| &said.last_transition_time);
                let was_said_before =
                    said.zip(self.object.tried.as_ref()).is_some_and(|(said, tried)| *said < tried.at);
                if was_said_before || !self.is_held() {
                    // The time of the failure has to be told from that of the try, which was noted anew.
                    told.conditions.remove(QUEUED);
                }
                told.conditions.set(QUEUED, Truth::False, failure.reason, failure.message.clone(), now);
                // What an administrator's rule denies it may let pass tomorrow.
                if failure.reason == REJECTED && !refusal::is_by_a_rule(&failure.message) {
                    *told.phase = Some(Phase::BackingOff);
                    let (why, message, generation) = (self.words.invalid, &failure.message, self.object.generation);
                    told.conditions.set_observed(ACCEPTED, Truth::False, why, message, Some(generation), now);
                }
            }
            Outcome::Failed(_) | Outcome::NotRun => {}
        }
    }

    fn created(&self, told: &mut Told<'_>, now: &Timestamp) {
        *told.phase = Some(Phase::forward(*told.phase, Phase::Created));
        let (reason, message) = self.words.scheduled;
        told.conditions.set(QUEUED, Truth::True, reason, message, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_refused_and_not_edited_or_was_handed_over_waits_for_nobody() {
        let said = |kind: &str, status, generation| {
            let mut conditions = Conditions::default();
            conditions.set_observed(kind, status, "Reason", "", Some(generation), &Timestamp::default());
            conditions
        };
        let (nothing, queued) = (Conditions::default(), said(QUEUED, Truth::True, 1));
        let refused = said(ACCEPTED, Truth::False, 1);
        for (phase, conditions, generation, expected) in [
            (None, &nothing, 1, false),
            (Some(Phase::New), &refused, 1, false),
            (Some(Phase::BackingOff), &refused, 1, true),
            (Some(Phase::BackingOff), &refused, 2, false),
            (Some(Phase::BackingOff), &nothing, 1, false),
            (Some(Phase::New), &queued, 1, true),
            (Some(Phase::Created), &nothing, 1, true),
        ] {
            assert_eq!(is_decided(phase, conditions, generation), expected, "{phase:?} {conditions:?} {generation}");
        }
    }
}
