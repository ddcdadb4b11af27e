//! What Velero has no more, and what it may have had.

use croft_core::backup::{Counts, Enforced};

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
