//! What Velero is working on, or is asked to delete, is left to it.

use super::*;

/// Deletion by force of a backup that Velero is working on.
fn forced_at_work() -> World {
    World::new(true, true, Some(Backup { ours: true, stage: Stage::Ready }), OnDelete::Hold).edited(|request| {
        request.finalizer = true;
        request.asked.force = true;
        request.deleting = true;
        request.status = Told::new(Status { phase: Some(Phase::Deleting), ..Status::default() });
    })
}

#[test]
fn what_velero_is_working_on_is_waited_for_and_said() {
    let seen = forced_at_work().seen().expect("there");
    assert!(plan(&seen, &policy()).is_settled());
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(
        status.conditions.get("Deleting").map(|condition| condition.message.as_str()),
        Some("Velero is working on this backup: it goes as soon as Velero is done with it")
    );
}

#[test]
fn no_namespace_and_no_location_waits_for_what_velero_is_working_on() {
    let seen = forced_at_work().seen().expect("there");
    let goes = Observed { object: Object { namespace_is_terminating: true, ..seen.object.clone() }, ..seen.clone() };
    let lost = Observed { location: Location::Missing { name: "here".into() }, ..seen };
    for seen in [goes, lost] {
        let plan = plan(&seen, &policy());
        let steps: Vec<_> = plan.iter().collect();
        assert!(matches!(steps.as_slice(), [Step::ReleaseFinalizer { .. }]), "{plan}");
    }
}

#[test]
fn a_refusal_from_before_the_end_of_the_backup_is_asked_again_at_once() {
    let world =
        World::new(true, true, Some(Backup { ours: true, stage: Stage::Done }), OnDelete::Hold).edited(|request| {
            request.finalizer = true;
            request.asked.delete = true;
            request.deleting = true;
            request.status = Told::new(Status { phase: Some(Phase::Deleting), ..Status::default() });
        });
    let mut seen = world.seen().expect("there");
    seen.restores.clear();
    let second = Duration::from_secs(1);
    seen.deletions = vec![Deletion { age: 2 * second, ..Deleting::Refused { rested: false }.seen() }];
    seen.ended = Some(second);
    assert_eq!(plan(&seen, &policy()).iter().count(), 2);
    for ended in [None, Some(3 * second), Some(Duration::ZERO)] {
        seen.ended = ended;
        let rest = Plan::settled().look_again(ASK_AGAIN.saturating_sub(2 * second));
        assert_eq!(plan(&seen, &policy()), rest, "{ended:?}: never as fast as Velero can refuse");
    }
}

/// A deletion with data that Velero has refused.
fn refused() -> Observed {
    let world =
        World::new(true, true, Some(Backup { ours: true, stage: Stage::Done }), OnDelete::Hold).edited(|request| {
            request.finalizer = true;
            request.asked.delete = true;
            request.deleting = true;
            request.status = Told::new(Status { phase: Some(Phase::Deleting), ..Status::default() });
        });
    let deletions = vec![Deleting::Refused { rested: false }.seen()];
    Observed { deletions, restores: Vec::new(), ..world.seen().expect("there") }
}

#[test]
fn the_longer_velero_refuses_a_deletion_the_longer_it_is_left_alone() {
    let hour = Duration::from_secs(3600);
    for (overdue, rest) in
        [(hour / 60, ASK_AGAIN), (hour, hour / 10), (24 * hour, 24 * hour / 10), (900 * hour, 24 * hour)]
    {
        let seen = Observed { overdue, ..refused() };
        assert_eq!(plan(&seen, &policy()), Plan::settled().look_again(rest), "{overdue:?}");
    }
}

#[test]
fn a_deletion_that_takes_long_says_so_in_time() {
    let hour = Duration::from_secs(3600);
    let deleting =
        |age: Duration| Observed { deletions: vec![Deletion { age, ..Deleting::Begun.seen() }], ..refused() };
    assert_eq!(plan(&deleting(hour / 4), &policy()), Plan::settled().look_again(hour / 4 * 3));
    let said = |seen: &Observed| {
        let status = report(seen, &policy(), &[], &now()).expect("a status");
        status.conditions.get("Deleting").map(|said| said.message.clone()).unwrap_or_default()
    };
    assert_eq!(said(&deleting(hour / 4)), "backup accepted for deletion");
    assert!(said(&deleting(hour)).contains("for more than an hour"));
}

#[test]
fn a_deletion_that_velero_was_restarted_in_is_asked_for_again_beside_the_one_it_left() {
    let hour = Duration::from_secs(3600);
    let begun = |name: &str, age: Duration| Deletion { name: name.into(), age, ..Deleting::Begun.seen() };
    let again = format!("{}-again", name());
    let asked = |deletions: Vec<Deletion>, force: bool| {
        let seen = Observed { deletions, force_delete_backup: force, ..refused() };
        let plan = plan(&seen, &policy());
        let steps: Vec<_> = plan.iter().cloned().collect();
        match steps.as_slice() {
            [] => (None, plan.next),
            [Step::CreateDeletion { name, .. }] => (Some(name.clone()), plan.next),
            _ => panic!("the one Velero may be working on is left to it: {plan}"),
        }
    };
    for force in [false, true] {
        assert_eq!(asked(vec![begun(&name(), hour)], force).0, Some(again.clone()));
        assert_eq!(asked(vec![begun(&again, hour)], force).0, Some(name()), "the other is taken away by Velero");
        let both = vec![begun(&name(), 2 * hour), begun(&again, hour / 4)];
        assert_eq!(asked(both, force), (None, Plan::<Step>::settled().look_again(hour / 4 * 3).next));
        assert_eq!(asked(vec![begun(&name(), 3 * hour), begun(&again, 2 * hour)], force).0, None, "no third");
    }
    let unread = Deletion { age: 2 * hour, ..Deleting::Asked.seen() };
    assert_eq!(asked(vec![unread], false).0, None, "Velero is away, and will find it");
}

#[test]
fn where_velero_would_refuse_it_is_not_asked() {
    let seen = Observed { deletions: Vec::new(), ..refused() };
    assert!(plan(&seen, &policy()).iter().any(|step| matches!(step, Step::CreateDeletion { .. })));
    for (velero, why) in [(LocationPhase::ReadOnly, "is read-only"), (LocationPhase::Other, "cannot be reached")] {
        let location =
            Location::Found { phase: Some(Phase::Created), nacuuid: Some("here-1".into()), velero: Some(velero) };
        let seen = Observed { location, ..seen.clone() };
        assert!(plan(&seen, &policy()).is_settled());
        let status = report(&seen, &policy(), &[], &now()).expect("a status");
        let said = status.conditions.get("Deleting").map(|said| said.message.clone()).unwrap_or_default();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_request_to_delete_stays_while_velero_goes_by_it() {
    let mut seen = forced_at_work().seen().expect("there");
    seen.velero = Some(Backup { ours: true, stage: Stage::Done }.seen());
    seen.deletions = vec![Deleting::Begun.seen()];
    assert!(plan(&seen, &policy()).is_settled());
    seen.object.namespace_is_terminating = true;
    let steps = plan(&seen, &policy());
    assert!(steps.iter().all(|step| matches!(step, Step::ReleaseFinalizer { .. })), "{steps}");
    seen.deletions = vec![Deleting::Refused { rested: false }.seen()];
    assert!(plan(&seen, &policy()).iter().any(|step| matches!(step, Step::DeleteDeletion { .. })), "of no more use");
}

#[test]
fn a_request_to_delete_that_velero_has_not_begun_with_holds_nobody_up() {
    let mut seen = forced_at_work().seen().expect("there");
    seen.velero = Some(Backup { ours: true, stage: Stage::Done }.seen());
    for status in [json!({}), json!({ "phase": "" }), json!({ "phase": "New" })] {
        seen.deletions = vec![Deletion { status: fields(status), version: "7".into(), ..Deleting::Asked.seen() }];
        let plan = plan(&seen, &policy());
        let steps: Vec<_> = plan.iter().collect();
        let [Step::DeleteDeletion { version, .. }, Step::DeleteBackup { .. }, Step::ReleaseFinalizer { .. }] =
            steps.as_slice()
        else {
            panic!("{plan}")
        };
        assert_eq!(version, "7", "only as it was seen: Velero may begin with it");
    }
    seen.deletions = vec![Deletion { status: fields(json!({ "phase": "Unheard" })), ..Deleting::Asked.seen() }];
    assert!(plan(&seen, &policy()).is_settled(), "who knows what that is");
}

#[test]
fn what_velero_adds_about_others_is_not_told() {
    let mut seen = at_rest(&World::new(true, true, None, OnDelete::Hold)).seen().expect("there");
    let velero = seen.velero.as_mut().expect("with Velero");
    velero.spec.insert("excludedNamespaces".into(), json!(["secret-project"]));
    velero.spec.insert("volumeSnapshotLocations".into(), json!(["theirs"]));
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    let told = status.velero_backup.and_then(|reference| reference.spec).expect("a copy");
    assert_eq!(told.keys().collect::<Vec<_>>(), ["includedNamespaces"]);
}
