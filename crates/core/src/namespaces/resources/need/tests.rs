mod dropped;
mod replaced;

use super::*;
use crate::{
    namespaces::{
        resources::{ClassSeen, Routine, plan, tell},
        witness::Witness,
    },
    plan::{Failure, FailureClass, Next, Outcome, Plan, Step, may_begin},
    time::{Instant, Timestamp},
};

/// A binding whose only object was refused with these words.
fn refused(group: &str, kind: &str, message: &str) -> (Observed, Identity) {
    let identity = Identity { group: group.into(), kind: kind.into(), name: "given".into() };
    let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    let item = Rendered { identity: identity.clone(), api_version: api_version.clone(), ..Rendered::default() };
    let kind_name = (api_version.clone(), kind.to_owned());
    let mut class = Class { items: vec![item], recorded_kinds: [kind_name.clone()].into(), ..Class::default() };
    class.policy.recreate_immutable = true;
    let mut seen = Observed { class: ClassSeen::Present(class), ..Observed::default() };
    seen.kinds.insert(kind_name, KindSeen::Namespaced);
    seen.stamped.insert(identity.clone(), Stamped { uid: "u".into(), owner: Owner::ThisBinding, ..Stamped::default() });
    seen.binding.status.applied_resources = vec![Applied {
        api_version,
        kind: kind.into(),
        name: "given".into(),
        uid: Some("u".into()),
        state: State::Failed,
        message: Some(message.into()),
        ..Applied::default()
    }];
    (seen, identity)
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn kinds_of(plan: &Plan<ResourceStep>) -> Vec<&'static str> {
    plan.iter().map(Step::kind).collect()
}

#[test]
fn a_right_that_is_given_no_more_goes_although_the_new_one_would_not_be_accepted() {
    let goes = |group: &str, kind: &str| {
        let (seen, _) = refused(group, kind, "cannot be changed in place: no");
        let plan = plan(&seen);
        let steps: Vec<_> = plan.iter().collect();
        let [rehearse, prune] = steps.as_slice() else { panic!("{plan}") };
        assert_eq!((rehearse.kind(), prune.kind()), ("Rehearse", "Prune"));
        let full = Failure::new(FailureClass::Rejected, "QuotaExceeded", "full");
        may_begin(*prune, &[(*rehearse, Outcome::Failed(full))])
    };
    assert!(goes(RBAC, "RoleBinding"));
    assert!(!goes("", "Service"), "what gives no right stays");
}

#[test]
fn a_right_in_another_form_is_not_held_until_others_let_go_of_it() {
    let (mut seen, identity) = refused(RBAC, "RoleBinding", "no");
    seen.stamped.get_mut(&identity).unwrap().deleting = true;
    seen.binding.status.applied_resources[0] =
        Applied { uid: None, state: State::Pending, ..seen.binding.status.applied_resources[0].clone() };
    let kinds = |seen: &Observed| plan(seen).iter().map(Step::kind).collect::<Vec<_>>();
    assert_eq!(kinds(&seen), ["LetGo"]);
    let applied = &mut seen.binding.status.applied_resources[0];
    (applied.uid, applied.adopted) = (Some("u".into()), true);
    assert_eq!(kinds(&seen), [""; 0], "what was somebody else's is");
}

#[test]
fn a_right_in_another_form_is_not_held_by_who_takes_its_owner_off_in_its_deletion() {
    let (mut seen, identity) = refused(RBAC, "RoleBinding", "cannot be changed in place: no");
    seen.stamped.get_mut(&identity).unwrap().owner = Owner::Nobody;
    let plan_now = plan(&seen);
    assert_eq!(kinds_of(&plan_now), ["Rehearse", "Prune"]);
    let held = Outcome::Done { uid: Some("u".into()), witness: None };
    let outcomes: Vec<_> = plan_now.iter().map(|step| (step, held.clone())).collect();
    seen.binding.status = report::report(&seen, &outcomes, &Timestamp::default());
    seen.stamped.get_mut(&identity).unwrap().deleting = true;
    assert_eq!(kinds_of(&plan(&seen)), ["LetGo"], "{:?}", seen.binding.status);
    seen.stamped.clear();
    assert_eq!(kinds_of(&plan(&seen)), ["Create"], "once it is gone");
    let read = Read { uid: "u".into(), deleting: true, ..Read::default() };
    seen.read.insert(identity, Some(read));
    assert_eq!(kinds_of(&plan(&seen)), [""; 0], "stripped of both it has been released");
}

/// A binding whose only object, made as this is wanted or otherwise, was changed since.
fn changed_since(exact: bool, is_stamped: bool, manifest: &str) -> (Observed, Identity) {
    let (mut seen, identity) = refused("", "ConfigMap", "");
    if let ClassSeen::Present(class) = &mut seen.class {
        class.policy.exact = exact;
        (class.items[0].digest, class.items[0].shape) = ("m".into(), "s".into());
    }
    let digest = Some(format!("{manifest}.s.f.c"));
    let applied = &mut seen.binding.status.applied_resources[0];
    *applied = Applied { state: State::Conflict, digest, message: None, ..applied.clone() };
    if is_stamped {
        applied.state = State::Applied;
        seen.stamped.get_mut(&identity).unwrap().content = "x".into();
    } else {
        seen.stamped.clear();
    }
    assert_eq!(seen.to_read().len(), usize::from(exact || !is_stamped || manifest == "m"));
    assert_eq!(seen.extent_of(&identity).is_some(), exact);
    let read = Read {
        uid: "u".into(),
        version: "7".into(),
        owner: Owner::ThisBinding,
        excess: exact.then(|| serde_json::json!({"data": {"theirs": null}})),
        ..Read::default()
    };
    seen.read.insert(identity.clone(), Some(read));
    (seen, identity)
}

#[test]
fn whenever_an_object_is_applied_exactly_what_others_put_into_it_goes() {
    let kinds = |seen: &Observed| plan(seen).iter().map(Step::kind).collect::<Vec<_>>();
    for (is_stamped, manifest) in [(true, "m"), (true, "before"), (false, "m"), (false, "before")] {
        let (seen, _) = changed_since(true, is_stamped, manifest);
        assert_eq!(kinds(&seen), ["Strip", "Apply"], "stamped: {is_stamped}, applied as {manifest}");
        let (seen, _) = changed_since(false, is_stamped, manifest);
        assert_eq!(kinds(&seen), ["Apply"], "stamped: {is_stamped}, applied as {manifest}");
    }
}

#[test]
fn what_somebody_puts_into_an_object_while_it_is_put_right_is_not_taken_for_right() {
    let (mut seen, identity) = changed_since(true, true, "before");
    let plan = plan(&seen);
    let answered = |witness: &str| Outcome::Done { uid: Some("u".into()), witness: Some(witness.into()) };
    let answer = |step: &ResourceStep| answered(if step.kind() == "Strip" { "f.stripped" } else { "f.more" });
    let outcomes: Vec<_> = plan.iter().map(|step| (step, answer(step))).collect();
    seen.binding.status = report::report(&seen, &outcomes, &Timestamp::default());
    seen.stamped.get_mut(&identity).unwrap().content = "more".into();
    assert_eq!(seen.extent_of(&identity), Some(Extent::Owned), "{:?}", seen.binding.status);
    seen.stamped.get_mut(&identity).unwrap().content = "stripped".into();
    assert_eq!(seen.extent_of(&identity), None);
}

#[test]
fn a_class_that_becomes_exact_takes_out_what_was_added_before() {
    let (mut seen, identity) = changed_since(false, true, "m");
    seen.stamped.get_mut(&identity).unwrap().content = "c".into();
    assert!(plan(&seen).is_settled());
    if let ClassSeen::Present(class) = &mut seen.class {
        class.policy.exact = true;
        class.items[0] = class.policy.made_of(class.items[0].clone());
    }
    assert_eq!(seen.extent_of(&identity), Some(Extent::Owned));
    seen.read.get_mut(&identity).unwrap().as_mut().unwrap().excess =
        Some(serde_json::json!({"data": {"theirs": null}}));
    assert_eq!(plan(&seen).iter().map(Step::kind).collect::<Vec<_>>(), ["Strip", "Apply"]);
}

#[test]
fn what_is_only_reported_stays_as_it_is_also_where_it_was_judged_otherwise_before() {
    let (mut seen, identity) = changed_since(false, true, "m");
    if let ClassSeen::Present(class) = &mut seen.class {
        class.policy.report_drift = true;
        class.items[0] = class.policy.made_of(class.items[0].clone());
    }
    assert!(plan(&seen).is_settled(), "an upgrade puts nothing back that was left");
    let told = report::report(&seen, &[], &Timestamp::default());
    assert_eq!(told.applied_resources[0].state, State::Drifted);
    let object = seen.stamped.get_mut(&identity).unwrap();
    (object.content, object.version) = ("c".into(), "7".into());
    assert!(plan(&seen).is_settled() && seen.shown_by(&identity).is_some());
    seen.read.get_mut(&identity).unwrap().as_mut().unwrap().witness = Witness::parse("g.c");
    let told = report::report(&seen, &[], &Timestamp::default());
    assert_eq!(told.applied_resources[0].digest.as_deref(), Some("m~.s.g.c"));
}

#[test]
fn no_two_steps_go_by_the_same_version() {
    let (mut seen, identity) = changed_since(true, true, "before");
    seen.read.get_mut(&identity).unwrap().as_mut().unwrap().taken_fields = Some(serde_json::json!([]));
    assert_eq!(kinds_of(&plan(&seen)), ["Strip", "Apply"]);
    let (mut seen, identity) = changed_since(false, true, "before");
    seen.stamped.get_mut(&identity).unwrap().created = true;
    if let ClassSeen::Present(class) = &mut seen.class {
        class.items[0].shape = "other".into();
    }
    seen.read.get_mut(&identity).unwrap().as_mut().unwrap().taken_fields = Some(serde_json::json!([]));
    assert_eq!(kinds_of(&plan(&seen)), ["TakeFields", "Apply"]);
}

#[test]
fn whoever_keeps_writing_into_an_object_keeps_the_class_out_of_nothing_and_is_not_taken_for_right() {
    let (mut seen, _) = changed_since(true, true, "m");
    let plan = plan(&seen);
    let steps: Vec<_> = plan.iter().collect();
    let [strip, apply] = steps.as_slice() else { panic!("{plan}") };
    let stale = Outcome::Failed(Failure::new(FailureClass::Stale, "Conflict", "it has changed"));
    assert!(may_begin(*apply, &[(*strip, stale.clone())]), "what the class sets is put right all the same");
    let before = seen.binding.status.applied_resources[0].digest.clone();
    let applied = Outcome::Done { uid: Some("u".into()), witness: Some("f.theirs".into()) };
    seen.binding.status = report::report(&seen, &[(*strip, stale), (*apply, applied)], &Timestamp::default());
    assert_eq!(seen.binding.status.applied_resources[0].digest, before);
    assert!(!seen.binding.status.is_ready());
}

#[test]
fn what_may_not_be_given_is_taken_away_where_it_gives_what_the_class_does_not() {
    let (mut seen, identity) = refused(RBAC, "RoleBinding", "not currently held");
    assert!(seen.to_read().iter().any(|(_, asked)| *asked == identity) && seen.shown_by(&identity).is_some());
    let mut kinds = |gives_more: bool| {
        let read = Read { uid: "u".into(), owner: Owner::ThisBinding, gives_more, ..Read::default() };
        seen.read.insert(identity.clone(), Some(read));
        plan(&seen).iter().map(Step::kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(true), ["Rehearse", "Prune"]);
    assert_eq!(kinds(false), ["Apply"], "what is missing is given when it may be");
    let (mut seen, identity) = refused("", "ConfigMap", "not currently held");
    assert_eq!(seen.extent_of(&identity), Some(Extent::Whole), "it never stood: who knows what is in it");
    seen.binding.status.applied_resources[0].digest = Some("before.s.f.c".into());
    assert!(seen.to_read().is_empty());
}

/// What comes of it where taking out what is not to be in an object ends so, and what is applied is accepted.
fn looks(seen: &mut Observed, stripped: &Failure) {
    let plan = plan(seen);
    let accepted = Outcome::Done { uid: Some("u".into()), witness: Some("f.c".into()) };
    let ends =
        |step: &ResourceStep| if step.kind() == "Strip" { Outcome::Failed(stripped.clone()) } else { accepted.clone() };
    let outcomes: Vec<_> = plan.iter().map(|step| (step, ends(step))).collect();
    seen.binding.status = report::report(seen, &outcomes, &Timestamp::default());
    assert!(!seen.binding.status.is_ready(), "{:?}", seen.binding.status);
}

fn immutable(fields: &[&str]) -> Failure {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    Failure::new(FailureClass::Rejected, "Immutable", "no").about(fields)
}

/// An object that was there before its class came and looks like one of it, with `excess` in it.
fn there_first(kind: &str, excess: &serde_json::Value) -> (Observed, Identity) {
    let (mut seen, identity) = refused("", kind, "");
    seen.binding.status.applied_resources.clear();
    if let ClassSeen::Present(class) = &mut seen.class {
        class.policy.recreate_immutable = false;
    }
    seen.stamped.get_mut(&identity).unwrap().owner = Owner::Nobody;
    let read = Read { uid: "u".into(), version: "7".into(), excess: Some(excess.clone()), ..Read::default() };
    seen.read.insert(identity.clone(), Some(read));
    assert_eq!((seen.extent_of(&identity), kinds_of(&plan(&seen))), (Some(Extent::Whole), vec!["Strip", "Apply"]));
    (seen, identity)
}

/// It was applied, and is the binding's since.
fn becomes_ours(seen: &mut Observed, identity: &Identity) {
    let object = seen.stamped.get_mut(identity).unwrap();
    (object.owner, object.content) = (Owner::ThisBinding, "c".into());
    seen.read.get_mut(identity).unwrap().as_mut().unwrap().owner = Owner::ThisBinding;
}

#[test]
fn what_was_nobodys_and_cannot_be_stripped_is_not_taken_for_right() {
    for kind in ["ResourceQuota", "Secret", "ConfigMap"] {
        let (mut seen, identity) = there_first(kind, &serde_json::json!({"spec": {"scopes": null}}));
        looks(&mut seen, &immutable(&["spec.scopes"]));
        becomes_ours(&mut seen, &identity);
        assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"], "{kind}");
        let stale = Outcome::Failed(Failure::new(FailureClass::Stale, "Conflict", "it has changed"));
        let plan_now = plan(&seen);
        let outcomes: Vec<_> = plan_now.iter().map(|step| (step, stale.clone())).collect();
        seen.binding.status = report::report(&seen, &outcomes, &Timestamp::default());
        assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"], "{kind}: whoever keeps writing keeps nothing");
    }
    let (mut seen, identity) = there_first("Service", &serde_json::json!({"spec": {"class": null, "more": null}}));
    looks(&mut seen, &immutable(&["spec.class"]));
    becomes_ours(&mut seen, &identity);
    assert_eq!(kinds_of(&plan(&seen)), ["Strip", "Apply"], "what may hold something stays");
}

#[test]
fn what_has_the_name_of_what_stood_has_not_stood_itself() {
    let (mut seen, identity) = changed_since(false, true, "m");
    seen.stamped.get_mut(&identity).unwrap().uid = "hers".into();
    let read = seen.read.get_mut(&identity).unwrap().as_mut().unwrap();
    (read.uid, read.excess) = ("hers".into(), Some(serde_json::json!({"data": {"theirs": null}})));
    for failure in [immutable(&["data"]), Failure::new(FailureClass::Stale, "Conflict", "it has changed")] {
        let mut seen = seen.clone();
        assert_eq!(kinds_of(&plan(&seen)), ["Strip", "Apply"]);
        looks(&mut seen, &failure);
        assert_eq!(seen.extent_of(&identity), Some(Extent::Whole), "{failure}");
    }
}

#[test]
fn one_field_that_cannot_be_taken_out_keeps_nothing_else_in() {
    let (mut seen, identity) = changed_since(true, true, "m");
    let all = serde_json::json!({
        "metadata": {"annotations": {"a.b/c": null}}, "spec": {"class": null, "more": null, "ports": [{"port": 80}]},
    });
    seen.read.get_mut(&identity).unwrap().as_mut().unwrap().excess = Some(all);
    looks(&mut seen, &immutable(&["spec.class"]));
    let taken = |seen: &Observed| match plan(seen).iter().next() {
        Some(ResourceStep::Strip { excess, .. }) => excess.clone(),
        other => panic!("{other:?}"),
    };
    let annotations = serde_json::json!({"annotations": {"a.b/c": null}});
    assert_eq!(
        taken(&seen),
        serde_json::json!({"metadata": annotations, "spec": {"more": null, "ports": [{"port": 80}]}})
    );
    looks(&mut seen, &immutable(&["spec.ports[0].port", "metadata.annotations[a.b/c]"]));
    assert_eq!(taken(&seen), serde_json::json!({"spec": {"more": null}}));
    let mut bare = seen.clone();
    bare.read.get_mut(&identity).unwrap().as_mut().unwrap().excess = Some(serde_json::json!({"spec": {"class": null}}));
    assert_eq!(kinds_of(&plan(&bare)), ["Apply"], "what the cluster itself set for good stays");
    looks(&mut seen, &immutable(&["spec.class"]));
    assert_eq!(kinds_of(&plan(&seen)), ["Apply"], "nothing new is named: it cannot be told what else could go");
}
