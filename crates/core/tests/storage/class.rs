//! The promises of a class.

use std::{collections::BTreeSet, time::Duration};

use croft_core::{
    plan::{Failure, FailureClass, Next, Outcome},
    storage::{
        Class, NoClass, OnDelete, QuotaAsked, Target,
        class::{self, ClassSeen, Cluster, Gateway, Observed, Status, Step, default_of, overlapping},
    },
    time::Timestamp,
};

fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:00Z".into())
}

/// A class made in the given second.
fn class(name: &str, second: u32, prefix: &str) -> ClassSeen {
    ClassSeen {
        target: Target {
            namespace: String::new(),
            name: name.into(),
            uid: format!("u-{name}"),
            resource_version: "1".into(),
        },
        created: Timestamp(format!("2026-01-01T00:00:{second:02}Z")),
        generation: 1,
        deleting: false,
        finalizer: true,
        default: false,
        confirmed_cluster: None,
        is_used: false,
        spec: Ok(Class {
            name: name.into(),
            endpoint: "http://s3".into(),
            region: "eu".into(),
            tenant_prefix: prefix.into(),
            on_delete: OnDelete::Retain,
            team_required: false,
            default_quota: QuotaAsked::default(),
        }),
        status: Status::default(),
    }
}

fn well() -> Gateway {
    Gateway { admin: "admin".into(), may_write: true, release: Some("reef".into()), cluster_id: None }
}

fn failing(class: FailureClass) -> Failure {
    Failure::new(class, "GatewayUnreachable", "nobody answers")
}

fn seen(class: ClassSeen) -> Observed {
    Observed { class, others: Vec::new(), users: BTreeSet::new(), gateway: Some(Ok(well())) }
}

fn told(seen: &Observed) -> (String, String) {
    let status = class::report(seen, &[], &now());
    let ready = status.conditions.get("Ready").unwrap().clone();
    (ready.reason, ready.message)
}

/// The class with the status its own look leaves.
fn looked_at(observed: Observed) -> ClassSeen {
    let status = class::report(&observed, &[], &now());
    ClassSeen { status, ..observed.class }
}

#[test]
fn a_class_whose_gateway_answers_serves_claims_and_says_which_ceph_it_is() {
    let ready = looked_at(seen(class("gold", 1, "lab")));
    assert_eq!(ready.refusal(true), None);
    assert_eq!(ready.status.release.as_deref(), Some("reef"));
    assert_eq!(told(&seen(class("gold", 1, "lab"))).0, "Reached");
}

#[test]
fn nobody_is_served_before_the_class_was_looked_at_nor_after_it_was_changed() {
    let new = class("gold", 1, "lab");
    assert!(matches!(new.refusal(true), Some(NoClass::NotReady { .. })));
    let changed = ClassSeen { generation: 2, ..looked_at(seen(new)) };
    assert!(matches!(changed.refusal(false), Some(NoClass::NotReady { .. })));
}

#[test]
fn a_gateway_that_is_down_keeps_claims_waiting_and_is_asked_again_soon() {
    let down = Observed { gateway: Some(Err(failing(FailureClass::Transient))), ..seen(class("gold", 1, "lab")) };
    assert_eq!(class::plan(&down).next, Next::After(Duration::from_secs(5)));
    let refusal = looked_at(down).refusal(false).unwrap();
    assert_eq!(refusal.message(), "S3Class gold is not ready: nobody answers");
    assert_eq!(class::plan(&seen(class("gold", 1, "lab"))).next, Next::After(Duration::from_secs(300)));
    let refusing = Observed { gateway: Some(Err(failing(FailureClass::Forbidden))), ..seen(class("gold", 1, "lab")) };
    assert_eq!(class::plan(&refusing).next, Next::After(Duration::from_secs(30)));
}

#[test]
fn a_key_that_may_not_change_users_is_told_with_the_command_that_helps() {
    let gateway = Some(Ok(Gateway { admin: "bob".into(), may_write: false, release: None, cluster_id: None }));
    let (reason, message) = told(&Observed { gateway, ..seen(class("gold", 1, "lab")) });
    assert_eq!(reason, "MissingCapabilities");
    assert!(message.contains("caps add --uid=bob"), "{message}");
}

#[test]
fn a_class_goes_only_when_nobody_uses_it_and_serves_whom_it_has_until_then() {
    let going = ClassSeen { deleting: true, ..looked_at(seen(class("gold", 1, "lab"))) };
    let used = Observed { users: BTreeSet::from(["a.b".to_owned()]), ..seen(going.clone()) };
    assert!(class::plan(&used).is_settled());
    assert!(told(&used).1.ends_with("waits for its S3Users: a.b"));
    assert_eq!(going.refusal(true), Some(NoClass::Going("gold".into())));
    assert_eq!(going.refusal(false), None);
    let plan = class::plan(&seen(going));
    assert!(matches!(plan.iter().next(), Some(Step::RemoveFinalizer { .. })));
}

#[test]
fn a_class_is_held_before_anybody_can_use_it() {
    let new = seen(ClassSeen { finalizer: false, ..class("gold", 1, "lab") });
    let plan = class::plan(&new);
    let step = plan.iter().next().unwrap();
    assert!(matches!(step, Step::AddFinalizer { .. }));
    let stale = Outcome::Failed(Failure::new(FailureClass::Stale, "Stale", "moved on"));
    assert_eq!(class::report(&new, &[(step, stale)], &now()), Status::default());
    let refused = Outcome::Failed(Failure::new(FailureClass::Forbidden, "Forbidden", "no"));
    assert!(!class::report(&new, &[(step, refused)], &now()).conditions.is_true("Ready"));
}

#[test]
fn prefixes_that_could_share_a_tenant_are_found_and_the_younger_class_waits() {
    for (one, other, shares) in [
        ("croft", "croft_a", true),
        ("croft", "croft", false),
        ("croft", "crofta", false),
        ("croft", "croft_", false),
        ("croft_", "croft__a", true),
        ("croft", "croft__a", false),
        ("a_b", "a_b_c_d", true),
    ] {
        for (one, other) in [(one, other), (other, one)] {
            let (old, young) = (class("old", 1, one), class("young", 2, other));
            assert_eq!(overlapping(&young, std::slice::from_ref(&old)).is_some(), shares, "{one} {other}");
            assert_eq!(overlapping(&old, &[young]), None, "{one} {other}");
        }
    }
    let young = class("young", 2, "croft_a");
    let others = vec![class("old", 1, "croft")];
    assert_eq!(told(&Observed { others, ..seen(young) }).0, "PrefixOverlap");
}

#[test]
fn a_class_that_is_refused_stands_in_nobodys_way() {
    let (first, refused) = (class("first", 1, "croft"), class("refused", 2, "croft_a"));
    assert_eq!(overlapping(&class("third", 3, "croft"), &[refused, first]), None);
}

#[test]
fn prefixes_overlap_exactly_if_two_namespaces_could_share_a_tenant() {
    let namespaces: Vec<String> = ["a", "b", "a-b", "a--b", "b-a", "a-a-b"].map(String::from).to_vec();
    let prefixes = ["a", "b", "a_", "a_a", "a_b", "a__a", "a_a_b", "b_a"];
    let tenant = |prefix: &str, namespace: &str| croft_core::storage::tenant(prefix, namespace);
    for one in prefixes {
        for other in prefixes.into_iter().filter(|other| *other != one) {
            let shares =
                namespaces.iter().any(|here| namespaces.iter().any(|there| tenant(one, here) == tenant(other, there)));
            let found = overlapping(&class("young", 2, other), &[class("old", 1, one)]).is_some();
            assert!(found || !shares, "{one} and {other} share a tenant");
        }
    }
}

#[test]
fn an_address_is_one_however_it_is_spelled() {
    for (one, other) in
        [("http://s3:80", "http://s3"), ("https://S3:443", "https://s3"), ("http://s3:8080/", "http://s3:8080")]
    {
        assert_eq!(class::origin(one), other);
    }
    for (one, other) in [("http://s3:443", "http://s3"), ("https://s3:80", "https://s3"), ("http://s3", "https://s3")] {
        assert_ne!(class::origin(one), class::origin(other));
    }
    let mut spelled_out = class("old", 1, "croft");
    spelled_out.spec.as_mut().unwrap().endpoint = "http://S3:80".into();
    assert!(overlapping(&class("young", 2, "croft_a"), &[spelled_out]).is_some());
}

#[test]
fn a_second_default_changes_nothing_and_says_so() {
    let default = |name, second| ClassSeen { default: true, ..class(name, second, "lab") };
    let (old, young) = (default("old", 1), default("young", 2));
    assert_eq!(default_of(&[young.clone(), old.clone()]).map(|class| class.target.name.as_str()), Some("old"));
    let (_, message) = told(&Observed { others: vec![old.clone()], ..seen(young.clone()) });
    assert!(message.contains("use S3Class old"), "{message}");
    let (_, message) = told(&Observed { others: vec![young.clone()], ..seen(old.clone()) });
    assert!(!message.contains("young"), "{message}");
    let going = ClassSeen { deleting: true, ..old };
    assert_eq!(default_of(&[young, going]).map(|class| class.target.name.as_str()), Some("young"));
}

#[test]
fn a_class_is_judged_beside_those_that_are_there() {
    let fields = |class: &ClassSeen, others: &[ClassSeen]| -> Vec<String> {
        class::beside_others(class, others).into_iter().map(|problem| problem.field).collect()
    };
    let default = |name, prefix| ClassSeen { default: true, ..class(name, 1, prefix) };
    assert_eq!(fields(&default("new", "lab"), &[default("old", "lab")]), ["spec.default"]);
    assert_eq!(fields(&class("new", 1, "lab_a"), &[default("old", "lab")]), ["spec.tenantPrefix"]);
    assert_eq!(fields(&class("new", 1, "lab"), &[default("old", "lab")]), Vec::<String>::new());
    let going = ClassSeen { deleting: true, ..default("old", "lab") };
    assert_eq!(fields(&default("new", "lab"), &[going]), Vec::<String>::new());
}

#[test]
fn of_several_classes_in_the_way_the_oldest_is_named() {
    let default = |name, second| ClassSeen { default: true, ..class(name, second, "lab") };
    let others = [default("a-young", 2), default("old", 1)];
    let new = ClassSeen { default: true, ..class("new", 3, "lab_a") };
    let problems = class::beside_others(&new, &others);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.message.contains("S3Class old ")), "{problems:?}");
}

#[test]
fn a_class_in_use_names_a_few_of_its_users() {
    assert_eq!(class::in_use("gold", &BTreeSet::new()), None);
    let users = (0..7).map(|number| format!("a.u{number}")).collect();
    assert_eq!(
        class::in_use("gold", &users).unwrap(),
        "S3Class gold is in use by S3Users a.u0, a.u1, a.u2, a.u3, a.u4 and 2 more; delete their claims first"
    );
}

/// As its gateway tells it: where it is and which Ceph is behind it.
fn answering(mut class: ClassSeen, endpoint: &str, id: Option<&str>, users: &[&str]) -> Observed {
    class.spec.as_mut().unwrap().endpoint = endpoint.into();
    let gateway = Gateway { cluster_id: id.map(str::to_owned), ..well() };
    let users = users.iter().map(|user| (*user).to_owned()).collect();
    Observed { users, gateway: Some(Ok(gateway)), ..seen(class) }
}

#[test]
fn a_class_with_users_serves_nobody_in_another_ceph_than_theirs() {
    let (here, there) = ("http://s3", "http://other");
    // Where it was and which Ceph it told; where it is and which Ceph it tells; whether that is its own.
    for (before, now, is_its_own) in [
        ((here, Some("A")), (here, Some("A")), true),
        ((here, Some("A")), (there, Some("A")), true),
        ((here, Some("A")), (here, Some("B")), false),
        ((here, Some("A")), (there, Some("B")), false),
        ((here, Some("A")), (here, None), true),
        ((here, Some("A")), (there, None), false),
        ((here, None), (here, Some("B")), true),
        ((here, None), (there, Some("B")), false),
        ((here, None), ("HTTP://S3", None), true),
        ((here, None), (there, None), false),
    ] {
        let bound = looked_at(answering(class("gold", 1, "lab"), before.0, before.1, &["a.b"]));
        let led = answering(bound.clone(), now.0, now.1, &["a.b"]);
        let after = looked_at(led.clone());
        assert_eq!(after.refusal(false).is_none(), is_its_own, "{before:?} {now:?}");
        if is_its_own {
            let id = now.1.or(before.1).map(str::to_owned);
            assert_eq!(after.status.cluster, Some(Cluster { endpoint: now.0.into(), id }), "{before:?} {now:?}");
        } else {
            assert_eq!(told(&led).0, "AnotherCluster");
            assert_eq!(after.status.cluster, bound.status.cluster, "it stays bound");
            assert_eq!(class::plan(&led).next, Next::After(Duration::from_secs(30)));
        }
        // Without users there is nothing to be lost.
        let unused = looked_at(Observed { users: BTreeSet::new(), ..led });
        assert_eq!(unused.refusal(true), None);
        assert_eq!(unused.status.cluster.unwrap().endpoint, now.0);
    }
}

#[test]
fn an_administrator_confirms_exactly_one_other_ceph() {
    for (id, confirmed, serves) in [
        (None, "http://other", true),
        (None, "http://third", false),
        (Some("B"), "B", true),
        (Some("B"), "http://other", false),
        (Some("B"), "A", false),
    ] {
        let bound = looked_at(answering(class("gold", 1, "lab"), "http://s3", id.map(|_| "A"), &["a.b"]));
        let moved = answering(bound, "http://other", id, &["a.b"]);
        let (_, message) = told(&moved);
        let command = format!("s3.snappcloud.io/confirm-cluster={}`", id.unwrap_or("http://other"));
        assert!(message.contains("http://s3") && message.ends_with(&command), "{message}");
        let mut confirming = moved;
        confirming.class.confirmed_cluster = Some(confirmed.into());
        assert_eq!(looked_at(confirming).refusal(false).is_none(), serves, "{id:?} {confirmed}");
    }
}

#[test]
fn prefixes_overlap_at_two_addresses_unless_both_are_known_to_be_of_two_cephs() {
    let at = |name, second, prefix, endpoint, id| looked_at(answering(class(name, second, prefix), endpoint, id, &[]));
    let old = at("old", 1, "croft", "http://s3", Some("A"));
    for (id, shares) in [(Some("A"), true), (Some("B"), false), (None, true)] {
        let young = answering(class("young", 2, "croft_a"), "http://also-s3", id, &[]);
        let reason = told(&Observed { others: vec![old.clone()], ..young.clone() }).0;
        assert_eq!(reason == "PrefixOverlap", shares, "{id:?}: {reason}");
        assert_eq!(overlapping(&looked_at(young), std::slice::from_ref(&old)).is_some(), shares, "{id:?}");
    }
    let (_, message) = told(&Observed {
        others: vec![old.clone()],
        ..answering(class("young", 2, "croft_a"), "http://also-s3", None, &[])
    });
    assert!(message.contains("may be of the same Ceph at another address"), "{message}");
    // What was told of one address says nothing of another, and one address is one Ceph whatever it told.
    let mut elsewhere = at("young", 2, "croft_a", "http://also-s3", Some("B"));
    elsewhere.spec.as_mut().unwrap().endpoint = "http://third".into();
    assert!(overlapping(&elsewhere, std::slice::from_ref(&old)).is_some());
    assert!(overlapping(&at("young", 2, "croft_a", "http://s3", Some("B")), std::slice::from_ref(&old)).is_some());
    // Whoever makes one is told what is certain, and the class itself whatever else there is to say.
    let new = answering(class("new", 2, "croft_a"), "http://also-s3", None, &[]).class;
    assert_eq!(class::beside_others(&new, &[old]), []);
}

#[test]
fn a_class_that_has_users_is_served_on_beside_one_that_only_may_be_of_its_ceph() {
    let old = looked_at(answering(class("old", 1, "croft"), "http://s3", Some("A"), &[]));
    let beside_old = |id, users: &[&str]| {
        let young = answering(class("young", 2, "croft_a"), "http://also-s3", id, users);
        told(&Observed { others: vec![old.clone()], ..young })
    };
    let (reason, message) = beside_old(None, &["shop.data"]);
    assert_eq!(reason, "PrefixOverlap", "{message}");
    assert!(message.contains("S3Class old") && message.contains("may be of the same Ceph"), "{message}");
    assert_eq!(beside_old(Some("A"), &["shop.data"]).0, "PrefixOverlap", "it is known to be the same");
    assert_eq!(beside_old(None, &[]).0, "PrefixOverlap", "nobody would miss it");
    // Who is served stands in the way of others, although somebody stands in his.
    let mut served = looked_at(answering(class("young", 2, "croft_a"), "http://also-s3", None, &["shop.data"]));
    served.status.conditions = class::report(&seen(class("any", 1, "any")), &[], &now()).conditions;
    let third = looked_at(answering(class("third", 3, "croft_a"), "http://third", Some("B"), &[]));
    let third = ClassSeen { spec: third.spec.map(|spec| Class { tenant_prefix: "croft_a_b".into(), ..spec }), ..third };
    let others = [old, served];
    let found = overlapping(&third, &others).map(|class| class.target.name.as_str());
    assert_eq!(found, Some("young"), "known to be of another Ceph than the old one, and not than the young one");
}

#[test]
fn a_class_that_may_share_a_tenant_takes_nobody_new() {
    let old = looked_at(answering(class("old", 1, "croft"), "http://s3", Some("A"), &[]));
    let young = answering(class("young", 2, "croft_a"), "http://also-s3", None, &["shop.data"]);
    let young = Observed { others: vec![old], ..young };
    let served = looked_at(young.clone());
    assert!(served.status.conditions.is_true("Ready") && served.refusal(false).is_none());
    let told = served.refusal(true).map(|why| why.message()).unwrap_or_default();
    assert!(told.contains("nobody new") && told.contains("S3Class old"), "{told}");
    let alone = looked_at(Observed { others: Vec::new(), class: served, ..young });
    assert_eq!(alone.refusal(true), None, "once nobody stands in its way");
}

#[test]
fn an_outage_makes_no_room_for_an_overlapping_class() {
    let unknown = |name, second, prefix, users: &[&str]| {
        answering(class(name, second, prefix), &format!("http://{name}"), None, users)
    };
    let oldest = looked_at(unknown("oldest", 1, "lab_a", &[]));
    let down = Some(Err(failing(FailureClass::Transient)));
    let served =
        Observed { gateway: down, others: vec![oldest.clone()], ..unknown("served", 2, "lab", &["shop.data"]) };
    let served = ClassSeen { is_used: true, ..looked_at(served) };
    assert!(!served.status.conditions.is_true("Ready"));
    let behind = Observed { others: vec![oldest.clone(), served.clone()], ..unknown("behind", 3, "lab_c", &[]) };
    assert_eq!(told(&behind).0, "PrefixOverlap");
    let others = vec![oldest, ClassSeen { is_used: false, ..served }];
    assert_eq!(told(&Observed { others, ..behind }).0, "Reached", "without users it will not be served");
}

#[test]
fn a_class_that_is_refused_itself_stands_in_nobodys_way_although_it_has_users() {
    let one_ceph = |name, second, prefix, users: &[&str]| {
        answering(class(name, second, prefix), &format!("http://{name}"), Some("A"), users)
    };
    let oldest = looked_at(one_ceph("oldest", 1, "lab_a", &[]));
    let refused = Observed { others: vec![oldest.clone()], ..one_ceph("refused", 2, "lab", &["shop.data"]) };
    assert_eq!(told(&refused).0, "PrefixOverlap");
    let refused = ClassSeen { is_used: true, ..looked_at(refused) };
    let behind = Observed { others: vec![oldest, refused], ..one_ceph("behind", 3, "lab_c", &["blue.data"]) };
    assert_eq!(told(&behind).0, "Reached");
}

#[test]
fn a_class_that_gives_everything_up_says_so() {
    let mut class = class("gold", 1, "lab");
    assert!(!told(&seen(class.clone())).1.contains("gives up"));
    class.spec.as_mut().unwrap().on_delete = OnDelete::GiveUp;
    let (reason, message) = told(&seen(class));
    assert!(reason == "Reached" && message.contains("gives up everything"), "{message}");
}
