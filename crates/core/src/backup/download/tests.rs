//! What becomes of a request, and who has the URL.

use serde_json::json;

use super::*;
use crate::plan::Failure;

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
    assert_eq!(plan.to_string(), "create Velero DownloadRequest nadr-0d0b7b2c (absent): BackupLog of shop-nightly-1");
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
fn who_is_denied_by_a_rule_costs_nobody_a_turn() {
    let mut look = proven();
    assert!(look.is_in_line());
    let (plan, denied) = (plan(&look), Failure::new(FailureClass::Rejected, "Rejected", "no contents for you"));
    let outcomes: Vec<_> = plan.iter().map(|step| (step, Outcome::Failed(denied.clone()))).collect();
    look.status = report(&look, &outcomes, &now()).expect("a status");
    assert_eq!(look.status.conditions.reason("Processed"), Some("Rejected"));
    assert!(look.is_to_be_asked_for() && !look.is_in_line(), "it is tried again all the same");
    look.status = report(&Observed { ahead: 10, limit: 10, ..look.clone() }, &[], &now()).expect("a status");
    assert!(look.is_in_line(), "once others are before it, it takes its turn with them");
    let elsewhere = [
        Observed { is_deleting: true, ..proven() },
        Observed { velero: Some(answered(&proven(), json!({}))), ..proven() },
        seen(Subject::NotReady("it is not finished")),
        Observed { is_brought_back: true, ..proven() },
    ];
    assert!(!elsewhere.iter().any(Observed::is_to_be_asked_for));
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
