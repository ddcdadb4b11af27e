//! The promises of a schedule: every time once, never two at work, what is kept is kept.

use std::{collections::BTreeSet, time::Duration};

use croft_core::{
    backup::{
        Limits, Phase, Policy,
        schedule::{
            Backup, Keep, Observed, Spec, State, Status, Step, backup_name, cron::zone, is_named_by, plan, report,
        },
    },
    conditions::{Conditions, Truth},
    plan::{Next, Outcome},
    problem::Problem,
};
use jiff::Timestamp as Moment;
use serde_json::{Map, json};

use crate::{done, fields, now};

const HOUR: i64 = 3600;

fn at(hours: i64) -> Moment {
    let start: Moment = "2026-03-01T00:00:00Z".parse().unwrap();
    Moment::from_second(start.as_second() + hours * HOUR).unwrap()
}

fn hourly(hours: i64) -> Observed {
    Observed {
        name: "nightly".into(),
        uid: "s".into(),
        generation: 1,
        created: at(0),
        is_deleting: false,
        spec: Ok(Spec {
            cron: "0 * * * *".parse().unwrap(),
            zone: zone("UTC").unwrap(),
            is_suspended: false,
            backup_spec: fields(json!({ "ttl": "1h" })),
            keep: Keep::default(),
        }),
        status: Status::default(),
        backups: Vec::new(),
        others: BTreeSet::new(),
        ahead: 0,
        now: at(hours),
    }
}

fn backup(hours: i64, state: State) -> Backup {
    let name = backup_name("nightly", at(hours));
    Backup { uid: name.clone(), name, due: at(hours), state, is_going: false }
}

fn keeping(keep: Keep, hours: i64, backups: Vec<Backup>) -> Observed {
    let mut seen = Observed { backups, ..hourly(hours) };
    if let Ok(spec) = &mut seen.spec {
        spec.keep = keep;
        spec.is_suspended = true;
    }
    seen
}

fn told(seen: &Observed) -> String {
    plan(seen, &Policy::default()).to_string()
}

/// Carries the plan out as the API server would; `reply` is lost if it is not told.
fn carried_out(seen: &Observed, reply: bool) -> Observed {
    let plan = plan(seen, &Policy::default());
    let mut after = seen.clone();
    for step in plan.iter() {
        match step {
            Step::CreateBackup { name, due, .. } => {
                if after.backups.iter().all(|backup| backup.name != *name) {
                    after.backups.push(Backup { due: *due, ..backup(0, State::Unfinished) });
                    let made = after.backups.last_mut().unwrap();
                    (made.name, made.uid) = (name.clone(), name.clone());
                }
            }
            Step::DeleteBackup(victim) => after.backups.retain(|backup| backup.uid != victim.uid),
        }
    }
    let outcomes: Vec<_> = plan.iter().map(|step| (step, if reply { done() } else { Outcome::NotRun })).collect();
    if reply {
        after.status = report(seen, &Policy::default(), &outcomes, &now());
    }
    after
}

#[test]
fn a_backup_is_made_when_its_time_has_come_and_not_before() {
    let seen = Observed { now: Moment::from_second(at(1).as_second() - 60).unwrap(), ..hourly(0) };
    let waiting = plan(&seen, &Policy::default());
    assert!(waiting.is_settled() && waiting.next == Next::After(Duration::from_secs(60)));
    let due = hourly(1);
    assert_eq!(told(&due), "create NonAdminBackup nightly-202603010100 (absent): due at 2026-03-01T01:00:00Z");
    let status = carried_out(&due, true).status;
    assert_eq!((status.last_schedule_time, status.next_schedule_time), (Some(at(1)), Some(at(2))));
    assert_eq!(status.last_backup_name.as_deref(), Some("nightly-202603010100"));
}

#[test]
fn a_time_gives_one_backup_whatever_gets_lost() {
    for reply in [true, false] {
        let mut seen = carried_out(&hourly(1), reply);
        assert_eq!(told(&seen), "nothing to do", "while it runs");
        seen.backups[0].state = State::Good;
        assert_eq!(told(&seen), "nothing to do", "when it is finished");
        if reply {
            seen.backups.clear();
            assert_eq!(told(&seen), "nothing to do", "when somebody deleted it");
        }
    }
}

#[test]
fn never_two_at_once_and_what_was_missed_is_made_up_for_once() {
    let mut seen = Observed { now: at(7), ..carried_out(&hourly(1), true) };
    assert_eq!(told(&seen), "nothing to do");
    assert_eq!(report(&seen, &Policy::default(), &[], &now()).conditions.reason("Ready"), Some("Waiting"));
    seen.backups[0].state = State::Failed;
    assert_eq!(told(&seen), "create NonAdminBackup nightly-202603010700 (absent): due at 2026-03-01T07:00:00Z");
    let mut seen = carried_out(&seen, true);
    seen.backups[1].state = State::Good;
    assert_eq!(told(&seen), "nothing to do", "the others it missed are not made up for");
}

#[test]
fn a_suspended_schedule_makes_nothing_and_says_so() {
    let mut seen = hourly(5);
    seen.spec.as_mut().unwrap().is_suspended = true;
    assert!(plan(&seen, &Policy::default()).is_settled() && plan(&seen, &Policy::default()).next == Next::Settled);
    let status = report(&seen, &Policy::default(), &[], &now());
    assert_eq!((status.conditions.reason("Ready"), status.next_schedule_time), (Some("Suspended"), None));
}

#[test]
fn the_last_ones_are_kept_and_the_oldest_goes_first() {
    let backups = || (1..=4).map(|hours| backup(hours, State::Good)).collect::<Vec<_>>();
    let mut seen = keeping(Keep { last: Some(2), at_most: None }, 9, backups());
    for gone in ["nightly-202603010100", "nightly-202603010200"] {
        assert_eq!(
            told(&seen),
            format!("delete NonAdminBackup {gone} (uid {gone}) with its data: it is no longer to be kept")
        );
        seen = carried_out(&seen, true);
    }
    assert_eq!(told(&seen), "nothing to do");
    assert_eq!(seen.backups.len(), 2);
    assert_eq!(told(&keeping(Keep::default(), 9, backups())), "nothing to do");
}

#[test]
fn failures_and_running_ones_do_not_push_good_ones_out() {
    let mut backups = vec![backup(1, State::Good), backup(2, State::Good)];
    backups.extend((3..=8).map(|hours| backup(hours, State::Failed)));
    backups.push(backup(9, State::Unfinished));
    let mut seen = keeping(Keep { last: Some(2), at_most: None }, 9, backups);
    for _ in 0..9 {
        seen = carried_out(&seen, true);
    }
    let left: Vec<_> = seen.backups.iter().map(|backup| (backup.state, backup.due)).collect();
    let kept = [(State::Good, 1), (State::Good, 2), (State::Failed, 7), (State::Failed, 8), (State::Unfinished, 9)];
    assert_eq!(left, kept.map(|(state, hours)| (state, at(hours))));
}

#[test]
fn backups_that_went_wrong_in_part_count_and_do_not_push_the_last_whole_one_out() {
    let mut backups = vec![backup(1, State::Good), backup(2, State::Good)];
    backups.extend((3..=6).map(|hours| backup(hours, State::Partial)));
    let mut seen = keeping(Keep { last: Some(2), at_most: Some(Duration::from_secs(3600)) }, 9, backups);
    for _ in 0..6 {
        seen = carried_out(&seen, true);
    }
    assert_eq!(seen.backups, [backup(2, State::Good), backup(6, State::Partial)]);
}

#[test]
fn age_ends_a_backup_but_never_the_last_good_one() {
    let keep = Keep { last: None, at_most: Some(Duration::from_secs(2 * 3600)) };
    let mut seen = keeping(keep, 9, vec![backup(1, State::Good), backup(2, State::Good), backup(3, State::Failed)]);
    for _ in 0..4 {
        seen = carried_out(&seen, true);
    }
    assert_eq!(seen.backups, [backup(2, State::Good)]);
    let young = keeping(keep, 4, vec![backup(3, State::Good), backup(4, State::Good)]);
    assert_eq!(
        plan(&young, &Policy::default()).next,
        Next::After(Duration::from_secs(3600)),
        "looked at when the first one is too old"
    );
}

#[test]
fn what_cannot_be_read_is_told() {
    let invalid = Observed { spec: Err(vec![Problem::new("spec.schedule", "is no cron")]), ..hourly(3) };
    assert!(plan(&invalid, &Policy::default()).is_settled());
    assert_eq!(report(&invalid, &Policy::default(), &[], &now()).conditions.reason("Stalled"), Some("InvalidSpec"));
}

#[test]
fn a_name_that_somebody_else_has_is_told_and_the_next_time_is_served() {
    let taken = backup_name("nightly", at(3));
    let mut seen = Observed { others: [taken.clone()].into(), ..hourly(3) };
    let waits = plan(&seen, &Policy::default());
    assert!(waits.is_settled() && waits.next == Next::After(Duration::from_secs(3600)), "{waits}");
    let stalled = report(&seen, &Policy::default(), &[], &now()).conditions.get("Stalled").cloned().unwrap();
    assert_eq!(stalled.reason, "NameTaken");
    assert!(stalled.message.starts_with(&format!("NonAdminBackup {taken} is there")), "{}", stalled.message);
    seen.now = at(4);
    assert!(told(&seen).starts_with(&format!("create NonAdminBackup {}", backup_name("nightly", at(4)))));
    seen = Observed { others: [].into(), ..hourly(3) };
    assert!(told(&seen).contains(&taken), "once it is gone");
}

#[test]
fn only_what_ends_with_a_time_has_a_name_a_schedule_wants() {
    assert!(is_named_by("nightly", &backup_name("nightly", at(3))));
    for other in
        ["nightly", "nightly-", "nightly-2026", "nightly-20260301030x", "night-202603010300", "nightly-1-202603010300"]
    {
        assert!(!is_named_by("nightly", other), "{other}");
    }
}

#[test]
fn a_backup_is_unfinished_until_velero_or_a_refusal_ends_it() {
    let phases = [None, Some(Phase::New), Some(Phase::BackingOff), Some(Phase::Created), Some(Phase::Deleting)];
    let done = |phase: &str| json!({ "phase": phase, "completionTimestamp": "2026-03-01T00:00:00Z" });
    for phase in phases {
        for accepted in [None, Some("BackupAccepted"), Some("VeleroBackupNotFound")] {
            for (velero, wanted) in [
                (None, None),
                (Some(json!({})), None),
                (Some(json!({ "phase": "InProgress" })), None),
                (Some(done("Completed")), Some(State::Good)),
                (Some(done("PartiallyFailed")), Some(State::Partial)),
                (Some(json!({ "phase": "FailedValidation" })), Some(State::Failed)),
                (Some(done("Failed")), Some(State::Failed)),
            ] {
                let velero = velero.map(fields);
                let ends = phase == Some(Phase::BackingOff) || accepted == Some("VeleroBackupNotFound");
                let otherwise = if ends { State::Failed } else { State::Unfinished };
                let conditions = accepted.map(|reason| said("Accepted", reason)).unwrap_or_default();
                let state = State::of(phase, &conditions, velero.as_ref());
                assert_eq!(state, wanted.unwrap_or(otherwise), "{phase:?} {accepted:?} {velero:?}");
            }
        }
    }
}

fn said(kind: &str, reason: &str) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.set(kind, Truth::False, reason, "", &now());
    conditions
}

#[test]
fn a_backup_that_a_rule_denies_does_not_stop_its_schedule() {
    for reason in ["Rejected", "Forbidden"] {
        let state = |velero: Option<&Map<_, _>>| State::of(Some(Phase::New), &said("Queued", reason), velero);
        let denied = Backup { state: state(None), ..backup(1, State::Unfinished) };
        let seen = Observed { backups: vec![denied], ..hourly(2) };
        assert!(told(&seen).starts_with("create NonAdminBackup nightly-202603010200"), "{reason}: {}", told(&seen));
        let completed = fields(json!({ "phase": "Completed", "completionTimestamp": "2026-03-01T00:00:00Z" }));
        assert_eq!(state(Some(&completed)), State::Good, "it was let pass after all");
    }
    let unanswered = State::of(Some(Phase::New), &said("Queued", "TimedOut"), None);
    assert_eq!(unanswered, State::Unfinished, "it is tried again at once, and may be with Velero");
    let many = (1..=9).map(|hours| backup(hours, State::Failed)).collect();
    let left = (0..9).fold(keeping(Keep::default(), 9, many), |seen, _| carried_out(&seen, true));
    assert_eq!(left.backups.len(), 3, "they do not pile up while the rule stands");
}

#[test]
fn a_schedule_beyond_the_limit_waits_until_one_before_it_goes() {
    let policy = Policy { limits: Limits { schedules: 2, ..Limits::default() }, ..Policy::default() };
    let held_back = Observed { ahead: 2, ..hourly(3) };
    assert!(plan(&held_back, &policy).is_settled());
    let ready = report(&held_back, &policy, &[], &now()).conditions.get("Ready").cloned().unwrap();
    assert_eq!(
        (ready.reason.as_str(), ready.message.as_str()),
        ("LimitReached", "2 schedules in this namespace, the limit is 2")
    );
    assert!(!plan(&Observed { ahead: 1, ..held_back }, &policy).is_settled());
}

#[test]
fn a_backup_that_is_deleted_while_it_runs_is_waited_for() {
    let going = Backup { is_going: true, ..backup(1, State::Unfinished) };
    let seen = Observed { backups: vec![going.clone()], ..hourly(2) };
    assert_eq!(told(&seen), "nothing to do", "never two at once");
    let over = Observed { backups: vec![Backup { state: State::Good, ..going }], ..seen };
    assert!(told(&over).starts_with("create NonAdminBackup nightly-202603010200"), "{}", told(&over));
}

#[test]
fn what_a_clock_that_was_wrong_has_made_stops_no_schedule() {
    let late = Backup { due: at(24 * 365 * 70), ..backup(1, State::Good) };
    let told_late = Status { last_schedule_time: Some(late.due), ..Status::default() };
    let mut seen = Observed { backups: vec![late.clone()], status: told_late, ..hourly(2) };
    assert_eq!(told(&seen), "create NonAdminBackup nightly-202603010200 (absent): due at 2026-03-01T02:00:00Z");
    seen = carried_out(&seen, true);
    assert_eq!(seen.status.last_schedule_time, Some(at(2)));
    assert_eq!(told(&seen), "nothing to do", "once");
    let keep = Keep { last: Some(1), at_most: None };
    let seen = keeping(keep, 3, vec![late.clone(), backup(1, State::Good), backup(2, State::Good)]);
    let step = plan(&seen, &Policy::default()).iter().next().cloned();
    let oldest = backup(1, State::Good).name;
    assert!(
        matches!(step, Some(Step::DeleteBackup(victim)) if victim.name == oldest),
        "it passes for none of the newest"
    );
    let seen = keeping(keep, 3, vec![late, backup(2, State::Good)]);
    assert!(
        !plan(&seen, &Policy::default()).iter().any(|step| matches!(step, Step::DeleteBackup(_))),
        "nor for the oldest"
    );
}

#[test]
fn a_clock_that_goes_back_a_little_makes_nothing_twice() {
    let seen = Observed { backups: vec![backup(2, State::Good)], now: at(2), ..hourly(2) };
    let a_minute_before = Moment::from_second(at(2).as_second() - 60).unwrap();
    assert_eq!(told(&Observed { now: a_minute_before, ..seen }), "nothing to do");
}
