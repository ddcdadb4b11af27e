//! What has to be known and in force before Velero hears of a location.

use croft_core::{
    backup::{
        Fields, Limits, Phase, Policy, Presence,
        approval::Standing,
        location::{Answers, LetGo, Observed, Step, plan, report},
    },
    plan::{self, Outcome},
};

use super::{Slot, Spec, World};
use crate::{now, policy};

/// A location as it is looked at next, once it is on record and held.
fn held() -> Observed {
    let mut seen = World::new(Spec::Valid(1), Some(1), Slot::Empty, Slot::Empty).seen().expect("there");
    seen.object.has_finalizer = true;
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    seen
}

fn reason(seen: &Observed, policy: &Policy) -> Option<String> {
    let status = report(seen, policy, &[], &now()).expect("a status");
    status.conditions.reason("Accepted").map(str::to_owned)
}

#[test]
fn nothing_of_a_location_changes_while_nobody_knows_what_the_administrator_wants() {
    let unclear = Policy { mistake: Some("who knows".into()), ..policy() };
    let in_force = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1)).seen().expect("there").velero;
    let refused = Observed { standing: Standing::Denied, velero: in_force.clone(), ..held() };
    for seen in [held(), refused] {
        assert!(!plan(&seen, &policy()).is_settled());
        assert!(plan(&seen, &unclear).is_settled());
        assert_eq!(reason(&seen, &unclear).as_deref(), Some("PolicyUnclear"));
        assert!(seen.unread(&unclear).is_none());
    }
    let vaults = Observed { standing: Standing::Vault, ..held() };
    assert!(!plan(&vaults, &unclear).is_settled(), "nothing is decided about a vault's");
}

#[test]
fn an_own_bucket_is_synchronised_only_while_the_api_server_judges_what_is_found_there() {
    let mut seen = held();
    seen.missing_fences = vec!["a-fence".into()];
    assert!(!plan(&seen, &policy()).is_settled(), "nothing is found where nobody looks");
    seen.spec.insert("backupSyncPeriod".into(), "1m".into());
    assert!(plan(&seen, &policy()).is_settled());
    assert_eq!(reason(&seen, &policy()).as_deref(), Some("PoliciesMissing"));
    seen.missing_fences.clear();
    assert!(!plan(&seen, &policy()).is_settled());
}

#[test]
fn a_location_in_force_is_not_synchronised_while_the_policies_are_away_and_is_again_when_they_are_back() {
    let in_force = |is_own_bucket: bool, period: &str| {
        let mut seen = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1)).seen().expect("there");
        seen.object.has_finalizer = true;
        seen.spec.insert("backupSyncPeriod".into(), "1m".into());
        seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
        let velero = seen.velero.as_mut().expect("in force");
        velero.is_own_bucket = is_own_bucket;
        velero.spec.insert("backupSyncPeriod".into(), period.into());
        seen.missing_fences = vec!["a-fence".into()];
        seen
    };
    let updates = |seen: &Observed, policy: &Policy| {
        let plan = plan(seen, policy);
        let mut updates = plan.iter().filter_map(|step| match step {
            Step::UpdateLocation { spec, is_own_bucket, .. } => {
                Some((spec["backupSyncPeriod"].clone(), *is_own_bucket))
            }
            _ => None,
        });
        updates.next()
    };
    let silenced = Some(("0s".into(), true));
    assert_eq!(updates(&in_force(true, "1m"), &policy()), silenced);
    assert_eq!(updates(&in_force(false, "0s"), &policy()), silenced, "from before there was a label");
    assert_eq!(updates(&in_force(true, "0s"), &policy()), None, "as it should be");
    assert_eq!(reason(&in_force(true, "0s"), &policy()).as_deref(), Some("PoliciesMissing"));
    let unclear = Policy { mistake: Some("who knows".into()), ..policy() };
    let withheld = Observed { standing: Standing::Denied, ..in_force(true, "1m") };
    assert_eq!(updates(&withheld, &unclear), silenced, "nobody knows whether it stays");
    assert!(plan(&withheld, &policy()).iter().any(|step| matches!(step, Step::DeleteLocation(_))), "it goes");
    let back = Observed { missing_fences: Vec::new(), ..in_force(true, "0s") };
    assert_eq!(updates(&back, &policy()), Some(("1m".into(), true)));
    let vaults = Observed { standing: Standing::Vault, ..in_force(false, "1m") };
    assert_eq!(updates(&vaults, &policy()).filter(|(_, is_own_bucket)| *is_own_bucket), None, "not her bucket");
}

#[test]
fn an_own_bucket_with_too_many_backups_is_not_looked_through_for_more_until_there_are_fewer() {
    let period = |seen: &Observed| {
        let plan = plan(seen, &policy());
        let mut periods = plan.iter().filter_map(|step| match step {
            Step::CreateLocation { spec, .. } => spec["backupSyncPeriod"].as_str().map(str::to_owned),
            _ => None,
        });
        periods.next().unwrap_or_default()
    };
    let mut seen = held();
    seen.spec.insert("backupSyncPeriod".into(), "1m".into());
    for (taken_in, wanted) in [(4_999, "1m"), (5_000, "0s"), (4_999, "0s"), (4_500, "0s"), (4_499, "1m"), (4_999, "1m")]
    {
        seen.taken_in = taken_in;
        assert_eq!(period(&seen), wanted, "{taken_in}");
        seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
        let said = seen.status.conditions.reason("Synchronised");
        assert_eq!(said, (wanted == "0s").then_some("TooManyBackups"), "{taken_in}");
        assert!(seen.status.conditions.is_true("Accepted"), "backups go on");
    }
    (seen.taken_in, seen.standing) = (usize::MAX, Standing::Vault);
    assert_ne!(period(&seen), "0s", "nobody but Velero writes a vault");
}

#[test]
fn a_location_is_labelled_by_whose_bucket_it_is_of_and_labelled_again() {
    let labels = |seen: &Observed| -> Vec<bool> {
        let plan = plan(seen, &policy());
        let own = |step: &Step| match step {
            Step::CreateLocation { is_own_bucket, .. } | Step::UpdateLocation { is_own_bucket, .. } => {
                Some(*is_own_bucket)
            }
            _ => None,
        };
        plan.iter().filter_map(own).collect()
    };
    assert_eq!(labels(&held()), [true]);
    assert_eq!(labels(&Observed { standing: Standing::Vault, ..held() }), [false]);
    let made = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1)).seen().expect("there");
    let mut made = Observed { velero: made.velero, copy: made.copy, ..held() };
    assert_eq!(labels(&made), [true; 0]);
    made.velero.as_mut().expect("made").is_own_bucket = false;
    assert_eq!(labels(&made), [true], "of before there was such a label");
}

#[test]
fn no_secret_is_read_while_velero_is_away() {
    let mut seen = held();
    assert!(seen.unread(&policy()).is_some());
    seen.object.velero = Presence::Gone;
    assert!(seen.unread(&policy()).is_none());
}

#[test]
fn an_approval_is_told_although_something_else_is_wrong_by_then() {
    let mut seen = Observed { standing: Standing::Pending, ..held() };
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    let approval = |seen: &Observed| {
        let status = report(seen, &policy(), &[], &now()).expect("a status");
        status.conditions.reason("ClusterAdminApproved").map(str::to_owned)
    };
    assert_eq!(approval(&seen).as_deref(), Some("BslSpecApprovalPending"));
    seen.secret = None;
    seen.standing = Standing::InForce { spec: seen.spec.clone(), is_current: true };
    assert_eq!(reason(&seen, &policy()).as_deref(), Some("BslSpecValidation"));
    assert_eq!(approval(&seen).as_deref(), Some("BslSpecApproved"));
    let mut away = Observed { standing: Standing::Pending, ..seen.clone() };
    away.status = report(&seen, &policy(), &[], &now()).expect("a status");
    away.object.velero = Presence::Hidden;
    assert_eq!(approval(&away).as_deref(), Some("BslSpecApproved"), "the request cannot be seen");
    seen.status.conditions.remove("ClusterAdminApproved");
    assert_eq!(approval(&seen), None, "nobody was asked");
}

#[test]
fn what_velero_has_since_before_anybody_could_be_asked_stays_while_another_is_asked_for() {
    let made = World::new(Spec::Valid(1), Some(2), Slot::Ours(1), Slot::Ours(1)).seen().expect("there");
    let mut seen =
        Observed { velero: made.velero, copy: made.copy, standing: Standing::GrandfatheredAsItWas, ..held() };
    seen.spec = super::user_spec(Spec::Valid(2));
    assert!(plan(&seen, &policy()).is_settled());
    assert_eq!(seen.unread(&policy()), None, "nobody needs to know what is in the Secret of what is not in force");
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(status.conditions.reason("SpecUpdateApproved"), Some("BslSpecApprovalPending"));
    assert!(status.conditions.get("ClusterAdminApproved").is_none(), "nobody was asked");
    seen.standing = Standing::InForce { spec: seen.spec.clone(), is_current: true };
    assert!(!plan(&seen, &policy()).is_settled());
}

#[test]
fn what_was_let_go_is_forgotten_in_time_whatever_is_asked_for_meanwhile() {
    let made = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1)).seen().expect("there");
    let mut seen = Observed { velero: made.velero, spec: super::user_spec(Spec::Invalid), ..held() };
    seen.let_go = vec![LetGo { name: "nightly".into(), since: None, velero_has_it: false }];
    assert!(plan(&seen, &policy()).is_settled(), "Velero has not looked");
    seen.velero.as_mut().expect("made").status.insert("lastSyncedTime".into(), "2026-01-01T00:00:00Z".into());
    assert!(matches!(plan(&seen, &policy()).iter().next(), Some(Step::ForgetLetGo { .. })));
    seen.object.velero = Presence::Hidden;
    assert!(plan(&seen, &policy()).is_settled(), "who knows what Velero has");
}

#[test]
fn no_secret_is_read_for_a_location_of_which_nothing_comes() {
    assert!(held().unread(&policy()).is_some());
    for standing in [Standing::Pending, Standing::PendingForAnother, Standing::Rejected, Standing::Denied] {
        assert_eq!(Observed { standing: standing.clone(), ..held() }.unread(&policy()), None, "{standing:?}");
    }
    let full = Policy { limits: Limits { locations: 3, ..Limits::default() }, ..policy() };
    let mut seen = held();
    seen.object.ahead = 3;
    assert_eq!(seen.unread(&full), None, "others are before it");
    seen.object.ahead = 2;
    assert!(seen.unread(&full).is_some());
}

/// A location in force as it was told.
fn in_force() -> Observed {
    let mut seen = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1)).seen().expect("there");
    seen.object.has_finalizer = true;
    seen.standing = Standing::InForce { spec: seen.spec.clone(), is_current: true };
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!(seen.status.phase, Some(Phase::Created));
    assert!(seen.status.conditions.is_true("ClusterAdminApproved") && seen.status.secret_copy.is_none());
    seen.status.secret_copy = seen.copy.as_ref().map(|copy| copy.version.clone());
    seen
}

#[test]
fn what_was_rejected_says_so_whatever_else_is_wrong_with_it() {
    let wrongs: [fn(&mut Observed); 3] = [
        |seen| seen.secret = None,
        |seen| seen.spec = super::user_spec(Spec::Invalid),
        |seen| seen.is_readable = false,
    ];
    let standings = [
        (Standing::Rejected, "BslSpecRejected"),
        (Standing::Denied, "OwnBucketsDenied"),
        (Standing::Pending, "BslSpecApprovalPending"),
    ];
    for (wrong, (standing, reason)) in wrongs.iter().flat_map(|wrong| standings.clone().map(|it| (wrong, it))) {
        let mut seen = Observed { standing, ..in_force() };
        wrong(&mut seen);
        assert!(plan(&seen, &policy()).iter().any(|step| matches!(step, Step::DeleteLocation(_))));
        let status = report(&seen, &policy(), &[], &now()).expect("a status");
        assert_eq!(status.conditions.reason("ClusterAdminApproved"), Some(reason));
        assert_eq!((status.phase, status.secret_copy), (Some(Phase::BackingOff), None), "{reason}");
        let told = ["SecretSynced", "BackupStorageLocationSynced"].map(|kind| status.conditions.get(kind).is_some());
        assert_eq!(told, [false, false], "{reason}");
    }
}

#[test]
fn who_was_never_in_force_and_is_not_allowed_is_not_told_to_wait_for_approval() {
    let mut seen = World::new(Spec::Invalid, Some(1), Slot::Empty, Slot::Empty).seen().expect("there");
    seen.standing = Standing::Pending;
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    assert_eq!((status.phase, status.conditions.get("ClusterAdminApproved")), (Some(Phase::BackingOff), None));
}

#[test]
fn what_cannot_be_read_changes_nothing_and_is_taken_back_all_the_same() {
    let seen = Observed { is_readable: false, spec: Fields::new(), ..in_force() };
    assert!(plan(&seen, &policy()).is_settled(), "what was approved stays in force");
    assert_eq!(seen.unread(&policy()), None);
    let status = report(&seen, &policy(), &[], &now()).expect("a status");
    let said = status.conditions.get("Accepted").expect("said");
    assert!(said.message.contains("cannot be read") && said.message.contains("write it anew"), "{}", said.message);
    let kinds = |seen: &Observed| plan(seen, &policy()).iter().map(plan::Step::kind).collect::<Vec<_>>();
    let rejected = Observed { standing: Standing::Rejected, ..seen.clone() };
    assert_eq!(kinds(&rejected), ["DeleteSecretCopy", "DeleteVeleroLocation"]);
    let mut gone = seen;
    (gone.object.is_deleting, gone.status.phase) = (true, Some(Phase::Deleting));
    assert_eq!(kinds(&gone).last(), Some(&"ReleaseFinalizer"));
    let vaults = Observed { standing: Standing::Vault, is_readable: false, ..held() };
    assert!(!plan(&vaults, &policy()).is_settled(), "what others write there counts for nothing");
}

#[test]
fn what_the_api_server_leaves_out_of_a_location_is_asked_for_once_and_again_where_somebody_changes_something() {
    let mut seen = World::new(Spec::Valid(1), Some(1), Slot::Ours(1), Slot::Ours(1)).seen().expect("there");
    seen.object.has_finalizer = true;
    seen.status = report(&seen, &policy(), &[], &now()).expect("a status");
    seen.status.secret_copy = seen.copy.as_ref().map(|copy| copy.version.clone());
    assert!(plan(&seen, &policy()).is_settled());
    seen.spec.insert("validationFrequency".into(), "1h".into());
    let asks = |seen: &Observed| {
        let plan = plan(seen, &policy());
        plan.iter().find(|step| matches!(step, Step::UpdateLocation { .. })).cloned()
    };
    let asked = asks(&seen).expect("it is asked for");
    let mut answers = Answers::default();
    let name = seen.origin().nacuuid;
    let stored = |seen: &Observed| seen.velero.as_ref().map(|velero| velero.spec.clone()).expect("there");
    let answered = |spec: &Fields| {
        let witness = serde_json::to_string(spec).ok();
        Outcome::Done { uid: Some("ours".into()), witness }
    };
    // It is stored without.
    answers.note(&[(&asked, answered(&stored(&seen)))]);
    seen.answer = answers.of(&name);
    assert_eq!(asks(&seen), None, "it is asked for for ever");
    seen.spec.insert("accessMode".into(), "ReadOnly".into());
    assert!(asks(&seen).is_some(), "something else is not");
    seen.spec.remove("accessMode");
    if let Some(velero) = &mut seen.velero {
        velero.spec.insert("accessMode".into(), "ReadOnly".into());
    }
    assert!(asks(&seen).is_some(), "what somebody else has written stays");
    let whole = answered(&match &asked {
        Step::UpdateLocation { spec, .. } => spec.clone(),
        other => panic!("{other}"),
    });
    answers.note(&[(&asked, whole)]);
    assert!(answers.of(&name).is_none(), "what is stored as it was asked for is kept in mind");
}
