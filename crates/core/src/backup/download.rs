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

mod subject;

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::subject::{BackupFound, RestoreFound, Subject};
use super::{
    Phase, Victim,
    handover::BROUGHT_BACK,
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
    /// Others of the namespace that Velero has been asked for and has not answered.
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
        format!("nadr-{}", self.uid)
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
    let is_processed = text(&velero.answer.0, "phase") == Some("Processed");
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
mod tests {
    use serde_json::json;

    use super::*;

    const UID: &str = "0d0b7b2c";

    fn now() -> Timestamp {
        Timestamp("2026-01-01T00:00:30Z".into())
    }

    fn seen(subject: Subject) -> Observed {
        Observed {
            namespace: "shop".into(),
            name: "log".into(),
            uid: UID.into(),
            generation: 1,
            is_deleting: false,
            is_brought_back: false,
            kind: "BackupLog".into(),
            subject,
            status: Status::default(),
            expires_in: None,
            velero: None,
            ahead: 0,
            limit: 0,
        }
    }

    fn proven() -> Observed {
        seen(Subject::Proven("shop-nightly-1".into()))
    }

    fn answered(seen: &Observed, answer: serde_json::Value) -> VeleroDownload {
        VeleroDownload {
            uid: "v".into(),
            marks: seen.origin().marks(),
            kind: "BackupLog".into(),
            target: "shop-nightly-1".into(),
            answer: serde_json::from_value(answer).unwrap(),
            is_expired: false,
        }
    }

    fn told(seen: &Observed) -> (Option<Phase>, Vec<String>) {
        let status = report(seen, &[], &now()).expect("a status");
        let said = status.conditions.0.iter().map(|it| format!("{}={:?} {}", it.kind, it.status, it.reason)).collect();
        (status.phase, said)
    }

    const URL: &str = "https://s3.example/signed?hush";

    fn signed() -> serde_json::Value {
        json!({ "phase": "Processed", "downloadURL": URL, "expiration": "2026-01-01T00:10:00Z" })
    }

    #[test]
    fn velero_is_asked_only_for_what_is_proven_to_be_hers() {
        let plan = plan(&proven());
        assert_eq!(
            plan.to_string(),
            "create Velero DownloadRequest nadr-0d0b7b2c (absent): BackupLog of shop-nightly-1"
        );
        for subject in
            [Subject::NoBackup, Subject::NoRestore, Subject::NotInOwnLocation, Subject::NotReady("it is not finished")]
        {
            assert!(super::plan(&seen(subject)).is_settled());
        }
    }

    #[test]
    fn velero_is_asked_for_no_more_than_so_many_files_of_a_namespace_at_a_time() {
        let look = |ahead, limit| Observed { ahead, limit, ..proven() };
        assert!(plan(&look(10, 10)).is_settled());
        assert_eq!(told(&look(10, 10)), (Some(Phase::New), vec!["Processed=False LimitReached".into()]));
        for (ahead, limit) in [(9, 10), (10, 0)] {
            assert!(!plan(&look(ahead, limit)).is_settled(), "{ahead} {limit}");
        }
        let mut asked = look(10, 10);
        asked.velero = Some(answered(&asked, signed()));
        assert_eq!(told(&asked).1, ["Processed=True Success"], "what it has been asked for is answered");
    }

    #[test]
    fn url_and_condition_come_in_one_write() {
        let mut look = proven();
        look.velero = Some(answered(&look, signed()));
        assert_eq!(told(&look), (Some(Phase::Created), vec!["Processed=True Success".into()]));
        let status = report(&look, &[], &now()).expect("a status");
        assert!(status.velero.is_some_and(|velero| velero.status.has_url()));
    }

    #[test]
    fn an_answer_is_not_handed_out_once_it_is_no_longer_proven_hers() {
        let mut look = seen(Subject::NotReady("not its own"));
        look.velero = Some(answered(&look, signed()));
        let status = report(&look, &[], &now()).expect("a status");
        assert!(status.velero.is_none() && status.phase == Some(Phase::New));

        let mut foreign = proven();
        foreign.velero = Some(VeleroDownload { marks: Marks::default(), ..answered(&foreign, signed()) });
        assert!(report(&foreign, &[], &now()).is_some_and(|status| status.velero.is_none()));
        assert!(plan(&foreign).is_settled());

        let mut other = proven();
        other.velero = Some(VeleroDownload { target: "bank-nightly-1".into(), ..answered(&other, signed()) });
        assert!(report(&other, &[], &now()).is_some_and(|status| status.velero.is_none()));
        assert!(plan(&other).to_string().starts_with("delete Velero DownloadRequest"));

        let mut late = proven();
        late.velero = Some(VeleroDownload { is_expired: true, ..answered(&late, signed()) });
        assert!(report(&late, &[], &now()).is_some_and(|status| status.velero.is_none()));
    }

    #[test]
    fn what_cannot_be_had_is_an_error_a_client_understands() {
        for (subject, kind) in [
            (Subject::NoBackup, "NonAdminBackupNotAvailable"),
            (Subject::NoRestore, "NonAdminRestoreNotAvailable"),
            (Subject::NotInOwnLocation, "NonAdminBackupStorageLocationNotUsed"),
        ] {
            assert_eq!(told(&seen(subject)), (Some(Phase::BackingOff), vec![format!("{kind}=True Error")]));
        }
        let mut later = proven();
        later.status = report(&seen(Subject::NoBackup), &[], &now()).expect("a status");
        assert_eq!(told(&later).1, ["Processed=False NotReady"], "an error does not outlive its cause");
    }

    #[test]
    fn a_request_goes_when_its_url_expires_and_not_before() {
        let mut look = proven();
        look.velero = Some(answered(&look, signed()));
        look.status = report(&look, &[], &now()).expect("a status");
        look.expires_in = Some(Duration::from_secs(7));
        let waiting = plan(&look);
        assert!(waiting.is_settled() && waiting.next == plan::Next::After(Duration::from_secs(7)));
        assert_eq!(report(&look, &[], &now()), Some(look.status.clone()), "nothing is written meanwhile");
        look.expires_in = Some(Duration::ZERO);
        assert_eq!(plan(&look).groups, [[Step::DeleteSelf { uid: UID.into() }]]);
    }

    #[test]
    fn a_request_that_a_restore_brought_back_is_not_carried_out_again() {
        let mut look = Observed { is_brought_back: true, ..proven() };
        for _ in 0..2 {
            assert!(plan(&look).is_settled());
            assert_eq!(told(&look), (Some(Phase::BackingOff), vec!["Processed=False BroughtBackByRestore".into()]));
            look.status = report(&look, &[], &now()).expect("a status");
            // Somebody takes the mark off.
            look.is_brought_back = false;
        }
        let mut waiting = seen(Subject::NotReady("not finished"));
        waiting.status = report(&waiting, &[], &now()).expect("a status");
        let marked_later = Observed { is_brought_back: true, status: waiting.status, ..proven() };
        assert!(!plan(&marked_later).is_settled(), "it was asked for in this life");
    }

    #[test]
    fn a_url_is_never_printed() {
        let mut look = proven();
        look.velero = Some(answered(&look, signed()));
        look.status = report(&look, &[], &now()).expect("a status");
        assert!(!format!("{look:?}").contains("hush"));
    }
}
