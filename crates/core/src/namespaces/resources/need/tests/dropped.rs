//! What a class sets no more, and somebody says is his as well.

use std::sync::Arc;

use super::*;

#[test]
fn what_a_class_drops_is_taken_away_and_not_only_given_up() {
    let (mut seen, identity) = changed_since(false, true, "before");
    let manifest = |keys: &[&str]| {
        let data: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).to_owned(), "v".into())).collect();
        Arc::new(serde_json::json!({ "data": data }))
    };
    if let ClassSeen::Present(class) = &mut seen.class {
        class.items[0].manifest = manifest(&["kept"]);
        class.items[0].shape = "other".into();
    }
    seen.read.clear();
    assert!(seen.lacks_former() && seen.to_read().is_empty(), "nobody knows what it was");
    let then = |shape: &str| Rendered {
        identity: identity.clone(),
        manifest: manifest(&["kept", "dropped"]),
        shape: shape.into(),
        digest: "before".into(),
        ..Rendered::default()
    };
    seen.learn_former(vec![then("never applied")]);
    assert!(seen.lacks_former());
    seen.learn_former(vec![then("s")]);
    assert!(!seen.lacks_former() && seen.to_read().is_empty(), "the apply itself tells whether something is left");
    let live = manifest(&["kept", "dropped", "theirs"]);
    assert_eq!(seen.excess_in(&identity, &live), Some(serde_json::json!({"data": {"dropped": null}})));
    assert_eq!(seen.excess_in(&identity, &manifest(&["kept", "theirs"])), None);
    let excess = seen.excess_in(&identity, &live);
    assert_eq!(kinds_of(&plan(&seen)), ["Apply"], "nothing goes before the rest is accepted");
    let answered = |witness: &str| Outcome::Done { uid: Some("u".into()), witness: Some(witness.into()) };
    let looks = |seen: &mut Observed, outcome: Outcome| {
        let plan = plan(seen);
        let outcomes: Vec<_> = plan.iter().map(|step| (step, outcome.clone())).collect();
        seen.binding.status = report::report(seen, &outcomes, &Timestamp::default());
        let known = seen.binding.status.applied_resources[0].fingerprint().unwrap();
        (known.shape.to_owned(), seen.binding.status.is_ready())
    };
    assert_eq!(looks(&mut seen.clone(), answered("f.c")), ("other".into(), true), "nobody else has it");
    assert_eq!(
        looks(&mut seen, answered("f.c+")),
        ("s+before".into(), false),
        "it is not forgotten that something has to go"
    );
    seen.stamped.get_mut(&identity).unwrap().content = "c".into();
    assert!(plan(&seen).is_settled() && seen.to_read().len() == 1 && seen.shown_by(&identity).is_some());
    let witness = Witness::parse("f.c");
    let read = |excess| {
        Some(Read { uid: "u".into(), version: "8".into(), excess, witness: witness.clone(), ..Read::default() })
    };
    let mut gone = seen.clone();
    gone.read.insert(identity.clone(), read(None));
    assert_eq!(kinds_of(&plan(&gone)), [""; 0]);
    assert_eq!(looks(&mut gone, Outcome::done()), ("other".into(), true), "whoever had it took it away himself");
    seen.read.insert(identity, read(excess));
    assert_eq!(kinds_of(&plan(&seen)), ["Strip"], "exactly as it was read");
    assert_eq!(looks(&mut seen, answered("f.d")), ("other".into(), true));
}

/// What a class has dropped and something excludes, once that was refused.
fn refused_with_what_was_dropped() -> (Observed, Identity) {
    let (mut seen, identity) = changed_since(false, true, "before");
    let manifest = |key: &str| Arc::new(serde_json::json!({"spec": {key: 1}, "rules": [{"a": 1}]}));
    if let ClassSeen::Present(class) = &mut seen.class {
        (class.items[0].manifest, class.items[0].shape) = (manifest("new"), "other".into());
    }
    let then =
        Rendered { identity: identity.clone(), manifest: manifest("old"), shape: "s".into(), ..Rendered::default() };
    seen.learn_former(vec![then]);
    seen.read.clear();
    assert_eq!(kinds_of(&plan(&seen)), ["Apply"]);
    seen.binding.status.applied_resources[0].state = State::Failed;
    assert!(seen.to_read().len() == 1 && seen.shown_by(&identity).is_some());
    let excess = seen.excess_in(&identity, &manifest("old"));
    let read = Read { uid: "u".into(), version: "7".into(), excess, ..Read::default() };
    seen.read.insert(identity.clone(), Some(read));
    (seen, identity)
}

#[test]
fn what_a_class_drops_goes_together_with_what_excludes_it_once_that_was_refused() {
    let (seen, _) = refused_with_what_was_dropped();
    let plan = plan(&seen);
    assert_eq!(kinds_of(&plan), ["Strip", "Apply"]);
    let Some(ResourceStep::Strip { excess, .. }) = plan.iter().next() else { panic!("{plan}") };
    assert_eq!(*excess, serde_json::json!({"spec": {"old": null, "new": 1}}), "lists of others stay");
}

/// A look, by how each step of a kind ends.
fn look(seen: &mut Observed, strip: &Outcome, apply: &Outcome) {
    let plan = plan(seen);
    let ends = |step: &ResourceStep| if step.kind() == "Strip" { strip.clone() } else { apply.clone() };
    let outcomes: Vec<_> = plan.iter().map(|step| (step, ends(step))).collect();
    seen.binding.status = report::report(seen, &outcomes, &Timestamp::default());
}

#[test]
fn what_a_class_drops_and_nobody_can_change_is_made_anew_where_the_class_says_so() {
    let refused = Outcome::Failed(immutable(&["data"]));
    let (mut seen, identity) = refused_with_what_was_dropped();
    look(&mut seen, &refused, &refused);
    assert_eq!(seen.binding.status.conditions.reason("Ready"), Some("RolloutPending"));
    assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"], "{:?}", seen.binding.status);

    let (mut seen, _) = refused_with_what_was_dropped();
    let recreate = |seen: &mut Observed, recreate: bool| {
        if let ClassSeen::Present(class) = &mut seen.class {
            class.policy.recreate_immutable = recreate;
        }
    };
    recreate(&mut seen, false);
    look(&mut seen, &refused, &refused);
    let told = seen.binding.status.applied(&identity).unwrap().message.clone().unwrap();
    assert!(told.contains("cannot be changed in place") && told.contains("onImmutable: Recreate"), "{told}");
    assert_eq!(seen.binding.status.conditions.reason("Ready"), Some("ApplyFailed"));
    recreate(&mut seen, true);
    assert_eq!(kinds_of(&plan(&seen)), ["Rehearse", "Prune"]);
}

#[test]
fn what_a_class_drops_and_nobody_can_take_out_stays_where_all_else_is_accepted() {
    let refused = Outcome::Failed(immutable(&["spec.old"]));
    let (mut seen, identity) = refused_with_what_was_dropped();
    let accepted = Outcome::Done { uid: Some("u".into()), witness: Some("f.c+".into()) };
    look(&mut seen, &refused, &accepted);
    assert_eq!(seen.binding.status.applied(&identity).unwrap().state, State::Applied);
    seen.stamped.get_mut(&identity).unwrap().content = "c".into();
    seen.read.get_mut(&identity).unwrap().as_mut().unwrap().witness = Witness::parse("f.c");
    assert_eq!(kinds_of(&plan(&seen)), ["Strip"]);
    look(&mut seen, &refused, &accepted);
    assert!(plan(&seen).is_settled());
    look(&mut seen, &refused, &accepted);
    assert!(seen.binding.status.is_ready(), "{:?}", seen.binding.status);
}

#[test]
fn what_a_class_hands_over_to_others_is_not_taken_away_from_them() {
    let (mut seen, identity) = changed_since(true, true, "before");
    let (then, now) = (
        serde_json::json!({"metadata": {"annotations": {}}, "spec": {"replicas": 3, "paused": true, "kept": 1}}),
        serde_json::json!({
            "metadata": {"annotations": {"namespaceclass.akuity.io/ignore-fields": "/spec/replicas"}},
            "spec": {"kept": 1},
        }),
    );
    if let ClassSeen::Present(class) = &mut seen.class {
        (class.items[0].manifest, class.items[0].shape) = (Arc::new(now), "other".into());
    }
    let former = |manifest: &serde_json::Value| Rendered {
        identity: identity.clone(),
        manifest: Arc::new(manifest.clone()),
        shape: "s".into(),
        ..Rendered::default()
    };
    seen.learn_former(vec![former(&then)]);
    assert_eq!(seen.excess_in(&identity, &then), Some(serde_json::json!({"spec": {"paused": null}})));
    let mut only = then.clone();
    only["spec"].as_object_mut().unwrap().remove("paused");
    seen.former.clear();
    seen.learn_former(vec![former(&only)]);
    assert_eq!(seen.excess_in(&identity, &only), None);
    let ClassSeen::Present(class) = &seen.class else { panic!("it is there") };
    assert_eq!(seen.dropping(&class.items[0]), None, "nothing is left to be asked about");
}

/// What is left of what a class has dropped, while all that it sets stands.
fn with_a_rest(exact: bool) -> (Observed, Identity) {
    let (mut seen, identity) = refused_with_what_was_dropped();
    let left = Outcome::Done { uid: Some("u".into()), witness: Some("f.c+".into()) };
    look(&mut seen, &left, &left);
    seen.stamped.get_mut(&identity).unwrap().content = "c".into();
    let read = seen.read.get_mut(&identity).unwrap().as_mut().unwrap();
    read.witness = Witness::parse("f.c");
    read.excess = Some(serde_json::json!({"spec": {"old": null, "more": null}}));
    if let ClassSeen::Present(class) = &mut seen.class {
        class.policy.exact = exact;
    }
    assert_eq!(kinds_of(&plan(&seen)), ["Strip"]);
    (seen, identity)
}

#[test]
fn what_a_class_drops_and_the_kind_requires_stays_and_nothing_else_with_it() {
    let required = |fields: &[&str]| {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Outcome::Failed(Failure::new(FailureClass::Rejected, "Rejected", "Required value").about(fields))
    };
    let (mut seen, identity) = with_a_rest(false);
    look(&mut seen, &required(&["spec.old"]), &Outcome::done());
    assert_eq!(seen.binding.status.conditions.reason("Ready"), Some("ApplyFailed"), "it is told");
    let plan_now = plan(&seen);
    let Some(ResourceStep::Strip { excess, .. }) = plan_now.iter().next() else { panic!("{plan_now}") };
    assert_eq!(*excess, serde_json::json!({"spec": {"more": null}}));
    look(&mut seen, &required(&["spec.more"]), &Outcome::done());
    assert!(plan(&seen).is_settled());
    look(&mut seen, &Outcome::done(), &Outcome::done());
    assert!(seen.binding.status.is_ready() && seen.to_read().is_empty(), "{:?}", seen.binding.status);

    let (mut seen, _) = with_a_rest(false);
    let full = Outcome::Failed(Failure::new(FailureClass::Rejected, "QuotaExceeded", "full"));
    look(&mut seen, &full, &Outcome::done());
    assert_eq!(kinds_of(&plan(&seen)), ["Strip"], "a quota may have room again");

    let (mut seen, _) = with_a_rest(true);
    look(&mut seen, &required(&["spec.old"]), &Outcome::done());
    assert!(
        !plan(&seen).is_settled(),
        "where nothing may be added nobody keeps it by adding what requires it: {identity}"
    );
}

#[test]
fn what_was_applied_is_known_from_what_only_set_the_same_fields() {
    let (mut seen, identity) = changed_since(false, true, "first");
    let manifest = |b: &str| Arc::new(serde_json::json!({"data": {"a": "1", "b": b}}));
    if let ClassSeen::Present(class) = &mut seen.class {
        class.items[0].manifest = Arc::new(serde_json::json!({"data": {"a": "1"}}));
        class.items[0].shape = "other".into();
    }
    let form = |digest: &str, b: &str| Rendered {
        identity: identity.clone(),
        manifest: manifest(b),
        shape: "s".into(),
        digest: digest.into(),
        ..Rendered::default()
    };
    let left = |seen: &Observed| seen.excess_in(&identity, &manifest("x"));
    seen.learn_former(vec![form("third", "z")]);
    seen.learn_former(vec![form("second", "y")]);
    assert!(seen.lacks_former(), "the very one may be kept as well");
    assert_eq!(left(&seen), None, "not as that was set");
    let mut unkept = seen.clone();
    seen.learn_former(vec![form("first=", "x")]);
    seen.learn_former(vec![form("zeroth", "z")]);
    let goes = Some(serde_json::json!({"data": {"b": null}}));
    assert_eq!((seen.lacks_former(), left(&seen)), (false, goes.clone()));
    assert_eq!(unkept.excess_in(&identity, &manifest("z")), goes, "where it is not kept, the newest is the likeliest");
    let rest = Outcome::Done { uid: Some("u".into()), witness: Some("f.c+".into()) };
    for seen in [&mut seen, &mut unkept] {
        look(seen, &rest, &rest);
        seen.former.clear();
        seen.learn_former(vec![form("second", "y"), form("first", "x")]);
        assert_eq!((seen.lacks_former(), left(seen)), (false, goes.clone()), "{:?}", seen.binding.status);
    }
}
