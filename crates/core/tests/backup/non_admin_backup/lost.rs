//! What Velero has no more, and what it may have had.

use croft_core::{
    backup::{Counts, Enforced},
    plan::{Failure, FailureClass},
};

use super::*;

#[test]
fn of_a_backup_that_velero_has_lost_nothing_that_was_copied_stays() {
    let mut seen = at_rest(&World::new(true, true, None, OnDelete::Hold)).seen().expect("there");
    assert!(seen.velero.is_some() && seen.status.queue_info.is_some(), "Velero has it");
    seen.status.file_system_pod_volume_backups = Some(Counts::default());
    seen.status.data_mover_data_uploads = Some(Counts::default());
    seen.velero = None;
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(status.conditions.reason("Accepted"), Some("VeleroBackupNotFound"));
    assert_eq!(status.velero_backup.and_then(|reference| reference.status), None);
    assert_eq!((status.queue_info, status.file_system_pod_volume_backups), (None, None));
    assert_eq!(status.data_mover_data_uploads, None);
}

#[test]
fn a_backup_that_is_kept_shortly_may_have_come_and_gone_by_whoever_says_how_long() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let mut seen = World::new(true, true, None, OnDelete::Hold).seen().expect("there");
    seen.object.has_finalizer = true;
    let mut is_made = |policy: &Policy, ago: Duration| {
        seen.object.tried = Some(croft_core::backup::Tried { at: Timestamp("2026-01-01T00:00:00Z".into()), ago });
        plan(&seen, policy).iter().any(|step| matches!(step, Step::CreateBackup { .. }))
    };
    assert!(is_made(&policy(), minutes(5)) && !is_made(&policy(), minutes(10)));
    let enforced = Enforced { backup: fields(json!({ "ttl": "3m" })), ..Enforced::default() };
    let brief = Policy { enforced, ..policy() };
    assert!(is_made(&brief, minutes(2)) && !is_made(&brief, minutes(5)), "it may be over already");
}

#[test]
fn what_velero_does_not_take_is_tried_again_only_when_it_is_edited() {
    let mut seen = World::new(true, true, None, OnDelete::Hold).seen().expect("there");
    seen.object.has_finalizer = true;
    let tried = |seconds| croft_core::backup::Tried {
        at: Timestamp("2026-01-01T00:00:00Z".into()),
        ago: Duration::from_secs(seconds),
    };
    seen.object.tried = Some(tried(0));
    let made = plan(&seen, &policy());
    let rejected = Failure::new(FailureClass::Rejected, "Rejected", "spec.hooks.resources[0].name: Required value");
    let outcomes: Vec<_> = made.iter().map(|step| (step, Outcome::Failed(rejected.clone()))).collect();
    seen.status = report(&seen, &policy(), &outcomes, &now()).expect("a status");
    assert_eq!(seen.status.phase, Some(Phase::BackingOff));
    let told = seen.status.conditions.get("Accepted").expect("told");
    assert_eq!((told.reason.as_str(), told.message.as_str()), ("InvalidBackupSpec", rejected.message.as_str()));
    assert!(plan(&seen, &policy()).is_settled(), "nobody has edited it");
    seen.object.generation += 1;
    seen.object.tried = Some(tried(3600));
    assert!(!plan(&seen, &policy()).is_settled(), "it was never with Velero");
}

#[test]
fn what_a_policy_denies_may_pass_another_time_and_is_tried_again() {
    let mut seen = World::new(true, true, None, OnDelete::Hold).seen().expect("there");
    seen.object.has_finalizer = true;
    let made = plan(&seen, &policy());
    let message = "backups.velero.io \"x\" is forbidden: ValidatingAdmissionPolicy 'labels' with binding 'labels' denied request: no label";
    let denied = Failure::new(FailureClass::Rejected, "Rejected", message);
    let outcomes: Vec<_> = made.iter().map(|step| (step, Outcome::Failed(denied.clone()))).collect();
    seen.status = report(&seen, &policy(), &outcomes, &now()).expect("a status");
    assert_ne!(seen.status.phase, Some(Phase::BackingOff));
    assert_eq!(seen.status.conditions.get("Queued").expect("told").message, message);
    assert!(!plan(&seen, &policy()).is_settled(), "nobody has to edit it");
}
