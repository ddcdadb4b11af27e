//! Backups in a bucket of the tenant's own: deleted only while nothing that is not hers is within Velero's reach.

use std::time::Duration;

use croft_core::backup::{
    OwnBucket, Phase, Presence, Reach,
    backup::{Location, LocationPhase, Observed, Status, plan, report},
    ownership::Lies,
};
use serde_json::json;

use crate::{fields, handed, now, object, policy, told};

const HOUR: Duration = Duration::from_secs(3600);

fn within_reach() -> Reach {
    Reach { snapshot_locations: vec!["aws".into()], ..Reach::default() }
}

/// A backup that is done, and as it was told.
fn stored(reach: Reach, expires_in: Option<Duration>) -> Observed {
    let done = json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:10Z" });
    let mut seen = Observed {
        object: object(true, false, false),
        spec: fields(json!({ "storageLocation": "here" })),
        delete_backup: false,
        force_delete_backup: false,
        status: Status::default(),
        location: Location::Found {
            phase: Some(Phase::Created),
            nacuuid: Some("here-1".into()),
            velero: Some(LocationPhase::Available),
        },
        velero: Some(handed(true, done, false, 0)),
        lies: Lies::WithTenant("shop".into()),
        deletions: Vec::new(),
        restores: Vec::new(),
        is_synced: false,
        unnoted_in: None,
        own_bucket: Some(OwnBucket { reach, expires_in, lacks_label: false }),
        missing_fences: Vec::new(),
        overdue: Duration::ZERO,
        ended: None,
    };
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    seen
}

fn deleting(mut seen: Observed) -> Observed {
    (seen.delete_backup, seen.object.is_deleting) = (true, true);
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    seen
}

#[test]
fn what_is_in_an_own_bucket_is_deleted_on_request_only_while_nothing_else_is_within_reach() {
    let free = deleting(stored(Reach::default(), None));
    assert!(plan(&free, &policy()).to_string().starts_with("create DeleteBackupRequest"));

    let held = deleting(stored(within_reach(), None));
    assert!(plan(&held, &policy()).is_settled());
    let said = held.status.conditions.get("Deleting").map(|condition| condition.message.clone()).unwrap_or_default();
    assert_eq!(Some(said), within_reach().withholds());

    let in_a_vault = Observed { own_bucket: None, ..held.clone() };
    assert!(plan(&in_a_vault, &policy()).to_string().starts_with("create DeleteBackupRequest"));

    let forced = Observed { force_delete_backup: true, ..held.clone() };
    assert!(plan(&forced, &policy()).to_string().starts_with("delete Velero Backup"));

    let namespace_goes = Observed { object: object(true, true, true), ..held };
    let steps = plan(&namespace_goes, &policy()).to_string();
    assert!(steps.contains("delete Velero Backup") && steps.contains("release finalizer"), "{steps}");
    assert!(!steps.contains("DeleteBackupRequest"), "{steps}");
}

#[test]
fn what_was_in_an_own_bucket_before_there_was_a_label_gets_it_before_its_time_comes() {
    for expires_in in [None, Some(HOUR), Some(Duration::ZERO)] {
        let mut seen = stored(Reach::default(), expires_in);
        seen.own_bucket = seen.own_bucket.map(|bucket| OwnBucket { lacks_label: true, ..bucket });
        assert!(plan(&seen, &policy()).to_string().starts_with("label Velero Backup"));
        let theirs = Observed { velero: Some(handed(false, json!({ "phase": "Completed" }), false, 0)), ..seen };
        assert!(plan(&theirs, &policy()).is_settled(), "not ours to label");
    }
}

#[test]
fn what_is_in_an_own_bucket_goes_in_time_only_while_nothing_else_is_within_reach() {
    let young = stored(Reach::default(), Some(HOUR));
    let waits = plan(&young, &policy());
    assert!(waits.is_settled() && waits.next == croft_core::plan::Next::After(HOUR), "{waits}");

    let expired = stored(Reach::default(), Some(Duration::ZERO));
    assert!(plan(&expired, &policy()).to_string().starts_with("create DeleteBackupRequest"));
    assert_eq!(told(&expired.status.conditions), ["Accepted=True BackupAccepted", "Queued=True BackupScheduled"]);

    let held = stored(within_reach(), Some(Duration::ZERO));
    assert!(plan(&held, &policy()).is_settled());
    assert!(told(&held.status.conditions).contains(&"Expired=True DeletionWithheld".to_owned()));
    let mut freed = held;
    freed.own_bucket = Some(OwnBucket { expires_in: Some(Duration::ZERO), ..OwnBucket::default() });
    let status = report(&freed, &policy(), &[], &now()).expect("a status");
    assert!(status.conditions.get("Expired").is_none(), "said no longer than it holds");

    let mut running = stored(Reach::default(), Some(Duration::ZERO));
    running.velero = Some(handed(true, json!({ "phase": "InProgress" }), false, 1));
    assert!(plan(&running, &policy()).is_settled());
    let in_a_vault = Observed { own_bucket: None, ..expired };
    assert!(plan(&in_a_vault, &policy()).is_settled(), "Velero sees to that itself");
}

/// A backup that Velero has not begun with.
fn waiting(velero: LocationPhase) -> Observed {
    let mut seen = stored(Reach::default(), None);
    seen.velero = Some(handed(true, json!({ "phase": "Queued" }), false, 1));
    seen.location =
        Location::Found { phase: Some(Phase::Created), nacuuid: Some("here-1".into()), velero: Some(velero) };
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    seen
}

#[test]
fn a_backup_that_is_held_does_not_stay_in_veleros_queue_for_an_own_bucket_that_would_fail_it() {
    let deleted = |velero: LocationPhase| {
        let mut seen = waiting(velero);
        seen.object.is_deleting = true;
        seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
        seen
    };
    assert!(plan(&deleted(LocationPhase::Available), &policy()).is_settled(), "held until somebody says how it goes");
    for unusable in [LocationPhase::Other, LocationPhase::ReadOnly] {
        let seen = deleted(unusable);
        let steps = plan(&seen, &policy());
        assert!(steps.to_string().starts_with("delete Velero Backup") && steps.iter().count() == 1, "{steps}");
        let said = seen.status.conditions.get("Deleting").map(|said| said.message.clone()).unwrap_or_default();
        assert_eq!(said, "Velero could not store this backup and has nothing of it: it goes");
        let gone = Observed { velero: None, ..seen.clone() };
        assert!(plan(&gone, &policy()).to_string().starts_with("release finalizer"), "nothing is left to hold it for");
        let mut away = seen;
        away.object.velero = Presence::Hidden;
        assert!(plan(&away, &policy()).is_settled(), "who knows what Velero has");
    }
}

#[test]
fn what_waits_in_a_namespace_that_velero_is_to_pass_over_leaves_its_queue() {
    let mut seen = Observed { own_bucket: None, ..waiting(LocationPhase::Available) };
    assert!(plan(&seen, &policy()).is_settled());
    seen.object.namespace_is_excluded = true;
    let steps = plan(&seen, &policy());
    assert!(steps.to_string().starts_with("delete Velero Backup") && steps.iter().count() == 1, "{steps}");
    let outcomes: Vec<_> = steps.iter().map(|step| (step, crate::done())).collect();
    let status = report(&seen, &policy(), &outcomes, &now()).expect("a status");
    let said = status.conditions.get("Accepted").map(|said| said.message.clone()).unwrap_or_default();
    assert!(said.contains("velero.io/exclude-from-backup=true") && said.contains("create a new"), "{said}");
}

#[test]
fn a_backup_that_its_own_bucket_would_fail_does_not_stay_in_veleros_queue() {
    assert!(plan(&waiting(LocationPhase::Available), &policy()).is_settled());
    for unusable in [LocationPhase::Other, LocationPhase::ReadOnly] {
        let seen = waiting(unusable);
        let steps = plan(&seen, &policy());
        assert!(steps.to_string().starts_with("delete Velero Backup") && steps.iter().count() == 1, "{steps}");
        let outcomes: Vec<_> = steps.iter().map(|step| (step, crate::done())).collect();
        let mut gone = Observed { velero: None, ..seen.clone() };
        gone.status = report(&seen, &policy(), &outcomes, &now()).expect("a status");
        gone.status = report(&gone, &policy(), &[], &now()).expect("a status");
        let accepted = gone.status.conditions.get("Accepted").expect("said");
        assert_eq!(accepted.reason, "VeleroBackupNotFound");
        assert!(
            accepted.message.contains("create a new NonAdminBackup once the location is available"),
            "{accepted:?}"
        );
        assert!(plan(&gone, &policy()).is_settled(), "and is not made again by itself");

        let mut begun = seen.clone();
        begun.velero = Some(handed(true, json!({ "phase": "ReadyToStart" }), false, 1));
        assert!(plan(&begun, &policy()).is_settled(), "Velero has begun with it");
        let in_a_vault = Observed { own_bucket: None, ..seen };
        assert!(plan(&in_a_vault, &policy()).is_settled(), "it may be there again when its turn comes");
    }
}

#[test]
fn nothing_of_a_namespace_that_velero_passes_over_is_handed_over() {
    let mut seen = Observed { velero: None, status: Status::default(), ..stored(Reach::default(), None) };
    seen.object.has_finalizer = false;
    assert!(!plan(&seen, &policy()).is_settled());
    seen.object.namespace_is_excluded = true;
    assert!(plan(&seen, &policy()).is_settled());
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(
        (status.phase, told(&status.conditions)),
        (Some(Phase::New), vec!["Accepted=False NamespaceExcluded".into()])
    );
    let said = status.conditions.get("Accepted").map(|accepted| accepted.message.as_str()).unwrap_or_default();
    assert!(said.contains("velero.io/exclude-from-backup"), "{said}");
}
