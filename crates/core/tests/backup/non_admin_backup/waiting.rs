//! What a backup waits for, and what it says meanwhile.

use super::*;

#[test]
fn without_the_policies_it_needs_a_backup_waits() {
    let mut seen = at_rest(&World::new(true, false, None, OnDelete::Hold)).seen().expect("there");
    seen.location = Location::Found {
        phase: Some(Phase::Created),
        nacuuid: Some("here-1".into()),
        velero: Some(LocationPhase::Available),
    };
    let served = report(&seen, &policy(), &[], &now()).expect("a status");
    assert!(served.conditions.is_true("Accepted"));
    seen.missing_fences = vec!["a-fence".into()];
    assert!(plan(&seen, &policy()).is_settled());
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!((status.phase, status.conditions.reason("Accepted")), (Some(Phase::New), Some("PoliciesMissing")));
}

#[test]
fn while_velero_is_away_that_is_what_a_backup_waits_for_and_what_is_wrong_with_it_is_told_nevertheless() {
    let reason = |world: World| {
        let mut seen = world.seen().expect("there");
        seen.object.velero = Presence::Gone;
        let status = report(&seen, &policy(), &[], &now()).expect("a status");
        status.conditions.reason("Accepted").map(str::to_owned)
    };
    for is_ready in [true, false] {
        assert_eq!(reason(World::new(true, is_ready, None, OnDelete::Hold)).as_deref(), Some("VeleroAway"));
    }
    assert_eq!(reason(World::new(false, true, None, OnDelete::Hold)).as_deref(), Some("InvalidBackupSpec"));
}

#[test]
fn an_unusable_location_is_named_exactly() {
    let mut seen = World::new(true, false, None, OnDelete::Hold).seen().expect("there");
    let mut message = |location: Location| {
        seen.location = location;
        let status = report(&seen, &policy(), &[], &now()).expect("a status");
        status.conditions.get("Accepted").map(|condition| condition.message.clone()).unwrap_or_default()
    };
    let found =
        |phase, nacuuid: Option<&str>, velero| Location::Found { phase, nacuuid: nacuuid.map(Into::into), velero };
    assert_eq!(
        message(Location::Missing { name: "wrong".into() }),
        r#"NonAdminBackupStorageLocation not found in the namespace: nonadminbackupstoragelocations.oadp.openshift.io "wrong" not found"#
    );
    assert_eq!(
        message(found(Some(Phase::BackingOff), Some("u"), Some(LocationPhase::Available))),
        "NonAdminBackupStorageLocation is not in created state and can not be used for the NonAdminBackup"
    );
    assert_eq!(
        message(found(Some(Phase::Created), None, None)),
        "unable to get VeleroBackupStorageLocation UUID from NonAdminBackupStorageLocation Status"
    );
    assert_eq!(
        message(found(Some(Phase::Created), Some("u"), None)),
        "VeleroBackupStorageLocation with NACUUID u not found in the OADP namespace"
    );
    assert_eq!(
        message(found(Some(Phase::Created), Some("u"), Some(LocationPhase::Other))),
        "VeleroBackupStorageLocation with NACUUID u is not in available state and can not be used for the NonAdminBackup"
    );
    assert_eq!(
        message(found(Some(Phase::Created), Some("u"), Some(LocationPhase::ReadOnly))),
        "VeleroBackupStorageLocation with NACUUID u is read-only and can not be used for the NonAdminBackup"
    );
}
