//! What is there under a name, never was the class's, and is made anew where it cannot be changed in place.

use std::time::Duration;

use super::*;

/// A Secret of somebody's under a class that replaces it, refused once as it is to be.
fn refused_hers() -> (Observed, Identity) {
    let (mut seen, identity) = refused("", "Secret", "");
    seen.binding.status.applied_resources[0] =
        Applied { uid: None, state: State::Conflict, ..seen.binding.status.applied_resources[0].clone() };
    seen.stamped.clear();
    if let ClassSeen::Present(class) = &mut seen.class {
        class.policy.replace = true;
    }
    there_is(
        &mut seen,
        &identity,
        "hers",
        false,
        serde_json::json!({"metadata": {"finalizers": ["ours"]}, "data": null}),
    );
    assert_eq!(kinds_of(&plan(&seen)), ["Strip", "Apply"], "in place, if that can be");
    let refused = Outcome::Failed(immutable(&["type"]));
    ends(&mut seen, |_| refused.clone());
    assert_eq!(seen.binding.status.applied(&identity).unwrap().uid, None, "nobody's is never listed as ours");
    (seen, identity)
}

fn there_is(seen: &mut Observed, identity: &Identity, uid: &str, deleting: bool, excess: serde_json::Value) {
    let read = Read { uid: uid.into(), version: "7".into(), deleting, excess: Some(excess), ..Read::default() };
    seen.read.insert(identity.clone(), Some(read));
}

/// A look whose steps end so; when there is to be another one.
fn ends(seen: &mut Observed, outcome: impl Fn(&ResourceStep) -> Outcome) -> Next {
    let plan = plan(seen);
    let outcomes: Vec<_> = plan.iter().map(|step| (step, outcome(step))).collect();
    let (mut held, mut routine) = (None, Routine::default());
    let stored = report::report(seen, &outcomes, &Timestamp::default());
    let told = tell(seen, &stored, &outcomes, &mut held, &mut routine, &Timestamp::default(), Instant(0));
    seen.binding.status = stored;
    told.next
}

#[test]
fn what_never_was_the_classs_and_cannot_be_changed_is_deleted_then_let_go_of_and_made_anew() {
    let (mut seen, identity) = refused_hers();
    assert_eq!(seen.to_read().len(), 1, "it is not made as if its name were free");
    assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"], "who puts a finalizer on again gets nowhere by that");
    let answer = |step: &ResourceStep| match step.kind() {
        "Prune" => Outcome::Done { uid: Some("hers".into()), witness: None },
        _ => Outcome::done(),
    };
    let at_once = Next::After(Duration::ZERO);
    assert_eq!(ends(&mut seen, answer), at_once);
    assert!(!seen.binding.status.is_ready());
    seen.read.clear();
    assert_eq!(seen.to_read().len(), 1, "what holds it is seen before it is made again");
    let held = serde_json::json!({"metadata": {"finalizers": ["ours"]}, "data": null});
    there_is(&mut seen, &identity, "hers", true, held.clone());
    let plan_now = plan(&seen);
    let Some(ResourceStep::LetGo { left, version, .. }) = plan_now.iter().next() else { panic!("{plan_now}") };
    assert_eq!((left.as_slice(), version.as_deref()), (&["ours".to_owned()][..], Some("7")), "our own parts clean up");
    assert_eq!(ends(&mut seen, answer), at_once, "nobody tells of what we did ourselves");
    there_is(&mut seen, &identity, "hers", true, serde_json::json!({"data": null}));
    assert_eq!(kinds_of(&plan(&seen)), [""; 0], "whoever put that on takes it off");
    there_is(&mut seen, &identity, "later", true, held);
    assert_eq!(kinds_of(&plan(&seen)), [""; 0], "what we have not deleted is held by whom it may");
    seen.read.insert(identity.clone(), None);
    assert_eq!(kinds_of(&plan(&seen)), ["Create"]);
}

#[test]
fn what_looks_like_ours_and_is_held_is_deleted_first_as_well() {
    let held = serde_json::json!({"metadata": {"finalizers": []}, "spec": {"scopes": null}});
    let (mut seen, identity) = there_first("ResourceQuota", &held);
    looks(&mut seen, &immutable(&["spec.scopes"]));
    becomes_ours(&mut seen, &identity);
    assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"]);
    let mut by_others = seen.clone();
    ends(&mut seen, |_| Outcome::Done { uid: Some("u".into()), witness: None });
    for seen in [&mut seen, &mut by_others] {
        seen.stamped.get_mut(&identity).unwrap().deleting = true;
        seen.read.get_mut(&identity).unwrap().as_mut().unwrap().deleting = true;
    }
    assert!(seen.to_read().len() == 1 && seen.shown_by(&identity).is_some());
    assert_eq!(kinds_of(&plan(&seen)), ["LetGo"]);
    assert_eq!(kinds_of(&plan(&by_others)), [""; 0], "that is not for us to take off");
}

#[test]
fn what_comes_after_it_under_its_name_is_not_judged_by_it() {
    let (mut seen, identity) = refused_hers();
    let full = Outcome::Failed(Failure::new(FailureClass::Rejected, "QuotaExceeded", "full"));
    ends(&mut seen, |step| if step.kind() == "Rehearse" { full.clone() } else { Outcome::NotRun });
    assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"], "it is the one");
    there_is(&mut seen, &identity, "later", false, serde_json::json!({"data": null}));
    assert_eq!(kinds_of(&plan(&seen)), ["Strip", "Apply"]);
    let stale = Outcome::Failed(Failure::new(FailureClass::Stale, "Conflict", "it has changed"));
    ends(&mut seen, |_| stale.clone());
    assert_eq!(kinds_of(&plan(&seen)), ["Strip", "Apply"], "nothing was said about it");
    ends(&mut seen, |_| Outcome::Failed(immutable(&["type"])));
    assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"]);
}
