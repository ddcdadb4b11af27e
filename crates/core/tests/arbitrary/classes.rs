//! A class of anything: checked, filled in, stamped, planned, reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
    time::{Duration, Instant},
};

use croft_core::{
    namespaces::{
        blueprint::{Blueprint, Misfit},
        class, gate,
        inventory::Status,
        manifest::{Rendered, Stamp, digest, shape},
        params::{Declared, Kind, Texts},
        resources::{
            Binding, Class, ClassSeen, KindSeen, Namespace, NamespaceMetadata, Observed, Owner, Policy, Read, Stamped,
            Withheld, blocked_items, plan, report,
        },
        rights::gives_more,
        rollout::{self, Deletions, Kept, Moved, Share, Wishes},
        template::{Facts, variables},
        witness::{Care, Seal, Witness, content},
    },
    problem::{MOST_PROBLEMS, Problem},
    time::Timestamp,
};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
};
use serde_json::{Map, Value, json};

use crate::{
    dice::{Dice, assert_storable, dice, now},
    json::{any_or_bent, bent, json, nested, text},
};

static SEAL: LazyLock<Seal> = LazyLock::new(|| Seal::new([7; 32]));

fn good_manifests() -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "labels": {"a": "b"}, "annotations": {"c": "{{ params.x }}"}},
               "data": {"a": "eA=="}, "stringData": {"b": "{{ namespace.name }}"}, "type": "Opaque"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ namespace.name }}-c"}, "data": {"k": "v"}, "binaryData": {"b": "eA=="}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n", "labels": {}},
               "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}], "policyTypes": ["{{ params.x }}"]}, "status": {}}),
    ]
}

fn manifest() -> impl Strategy<Value = Map<String, Value>> {
    any_or_bent(good_manifests()).prop_filter_map("not an object", |value| match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    })
}

fn declared() -> impl Strategy<Value = Declared> {
    let limits = (option::of(any::<i64>()), option::of(any::<i64>()));
    let name = prop_oneof![Just("x".to_owned()), text()];
    let texts =
        (name, option::of(text()), option::of(text()), vec(text(), 0..4), option::of(text()), option::of(text()));
    (texts, select(&[Kind::String, Kind::Integer, Kind::Boolean][..]), limits).prop_map(
        |(texts, kind, (minimum, maximum))| {
            let (name, default, pattern, one_of, from_namespace_annotation, from_namespace_label) = texts;
            Declared {
                name,
                kind,
                default,
                pattern,
                one_of,
                minimum,
                maximum,
                from_namespace_annotation,
                from_namespace_label,
            }
        },
    )
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..4)
}

fn blueprint() -> impl Strategy<Value = Blueprint> {
    (text(), vec(manifest(), 0..4), vec(declared(), 0..3), texts(), texts()).prop_map(
        |(class, resources, params, labels, annotations)| Blueprint { class, resources, params, labels, annotations },
    )
}

fn facts() -> impl Strategy<Value = Facts> {
    (text(), text(), texts(), texts()).prop_map(|(name, uid, labels, annotations)| Facts {
        name,
        uid,
        labels,
        annotations,
    })
}

fn status() -> impl Strategy<Value = Status> {
    let applied = json!({"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u", "digest": "a.b.c", "state": "Applied", "adopted": true});
    let condition = json!({"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let good = json!({"observedGeneration": 1, "observedClassName": "c", "observedClassUID": "u", "observedClassGeneration": 1,
                      "appliedResources": [applied, {"apiVersion": "v1", "kind": "Namespace", "name": "team-a"}], "conditions": [condition]});
    bent(vec![good]).prop_map(|value| serde_json::from_value(value).unwrap_or_default())
}

fn assert_told(problems: &[Problem]) {
    assert!(problems.len() <= MOST_PROBLEMS, "{} problems", problems.len());
    for problem in problems {
        assert!(problem.field.starts_with("spec.") || problem.field.starts_with("params."), "{problem}");
        assert!(!problem.message.is_empty());
    }
}

/// What is applied is an object the API server can take: ours, in its namespace, and text where only text can be.
fn assert_applicable(item: &Rendered, stamp: &Stamp<'_>) {
    let manifest = &item.manifest;
    let metadata = manifest["metadata"].as_object().expect("metadata");
    assert_eq!(metadata["name"], json!(item.identity.name));
    assert_eq!(metadata["namespace"], json!(stamp.namespace));
    assert_eq!(metadata["labels"]["namespaceclass.akuity.io/class"], json!(stamp.class));
    assert_eq!(metadata["ownerReferences"][0]["uid"], json!(stamp.binding_uid));
    let of_texts =
        |value: &Value| value.is_null() || value.as_object().is_some_and(|map| map.values().all(Value::is_string));
    assert!(of_texts(&metadata["labels"]) && metadata.get("annotations").is_none_or(of_texts), "{manifest}");
    let fields: BTreeSet<_> = metadata.keys().map(String::as_str).collect();
    assert!(fields.is_subset(&["annotations", "labels", "name", "namespace", "ownerReferences"].into()), "{fields:?}");
    assert!(manifest.get("status").is_none());
    if item.api_version == "v1" && matches!(item.identity.kind.as_str(), "Secret" | "ConfigMap") {
        assert!(["data", "binaryData"].iter().all(|field| manifest.get(*field).is_none_or(of_texts)), "{manifest}");
    }
    if item.api_version == "v1" && item.identity.kind == "Secret" {
        assert!(manifest.get("stringData").is_none(), "{manifest}");
    }
    assert_eq!((digest(manifest), shape(manifest)), (item.digest.clone(), item.shape.clone()));
}

fn items(blueprint: &Blueprint, facts: &Facts) -> (Vec<Rendered>, Vec<Misfit>, Vec<Problem>) {
    let stamp = Stamp { namespace: &facts.name, class: &blueprint.class, binding_uid: &facts.uid, protect: true };
    match blueprint.items(facts, &Texts::new()) {
        Ok(furnished) => (
            furnished
                .items
                .into_iter()
                .map(|item| item.stamped(&stamp))
                .inspect(|item| assert_applicable(item, &stamp))
                .collect(),
            furnished.misfits,
            vec![],
        ),
        Err(problems) => (vec![], vec![], problems),
    }
}

fn owner(dice: &mut Dice) -> Owner {
    [Owner::Nobody, Owner::ThisBinding, Owner::FormerBinding, Owner::Other][usize::from(dice.roll(4))].clone()
}

fn policy(dice: &mut Dice) -> Policy {
    Policy {
        adopt: dice.flip(),
        replace: dice.flip(),
        exact: dice.flip(),
        report_drift: dice.flip(),
        recreate_immutable: dice.flip(),
        orphan_on_class_delete: dice.flip(),
        block_class_delete: dice.flip(),
    }
}

fn stamped(dice: &mut Dice, item: &Rendered) -> Stamped {
    Stamped {
        api_version: item.api_version.clone(),
        uid: "u".into(),
        owner: owner(dice),
        content: "c".into(),
        deleting: dice.flip(),
        created: dice.flip(),
        orphan: dice.flip(),
        ..Stamped::default()
    }
}

fn read(dice: &mut Dice, item: &Rendered, json: &Value) -> Option<Read> {
    let read = Read {
        api_version: item.api_version.clone(),
        uid: "u".into(),
        version: "1".into(),
        owner: owner(dice),
        deleting: dice.flip(),
        held_by: dice.some("example.com/mine".to_owned()),
        witness: dice.some(Witness::of(json, &item.manifest, &SEAL, Care::Parts)),
        is_locked: dice.flip(),
        excess: dice.some(json.clone()),
        gives_more: gives_more(json, &item.manifest),
        changed_by: dice.some("somebody".to_owned()),
        changed_field: dice.some("data.k".to_owned()),
        taken_fields: dice.some(json.clone()),
        other_owners: json.clone(),
    };
    dice.some(read)
}

/// The binding of the class in some state of the world.
fn observed(blueprint: &Blueprint, facts: &Facts, status: Status, json: &Value, dice: &mut Dice) -> Observed {
    let (items, misfits, problems) = items(blueprint, facts);
    let kinds = items.iter().map(|item| {
        let kind = match dice.roll(8) {
            0 => KindSeen::ClusterScoped,
            1 => KindSeen::NotInstalled,
            2 => KindSeen::Forbidden { resource: item.identity.kind.clone() },
            3 => KindSeen::Unobservable { why: "why".into() },
            _ => KindSeen::Namespaced,
        };
        ((item.api_version.clone(), item.identity.kind.clone()), kind)
    });
    let kinds = kinds.collect();
    let stamped = items.iter().map(|item| (item.identity.clone(), stamped(dice, item))).take(2).collect();
    let read = items.iter().map(|item| (item.identity.clone(), read(dice, item, json))).collect();
    let recorded_kinds = match dice.roll(8) {
        0 => BTreeSet::new(),
        _ => items.iter().map(|item| (item.api_version.clone(), item.identity.kind.clone())).collect(),
    };
    let unreadable = items.iter().filter(|_| dice.roll(8) == 0).map(|item| (item.identity.clone(), "why".to_owned()));
    let unreadable = unreadable.collect();
    let class = Class {
        name: blueprint.class.clone(),
        uid: "u".into(),
        generation: 1,
        items,
        misfits,
        problems,
        params: Texts::new(),
        refused_params: Vec::new(),
        protect: dice.flip(),
        policy: policy(dice),
        namespace_metadata: NamespaceMetadata {
            labels: blueprint.labels.clone(),
            annotations: blueprint.annotations.clone(),
        },
        deleting: dice.flip(),
        recorded_kinds,
        revision: dice.some("r1".into()),
        withheld: match dice.roll(8) {
            0 => Some(Withheld::Preparing),
            1 => Some(Withheld::Lost { revision: "r1".into() }),
            _ => None,
        },
    };
    let resting =
        class.items.iter().filter(|_| dice.flip()).map(|item| (item.identity.clone(), Duration::MAX)).collect();
    let reshaped = class.items.iter().filter(|_| dice.flip());
    let former = reshaped.map(|item| (item.identity.clone(), item.clone())).collect();
    Observed {
        namespace: Namespace {
            name: facts.name.clone(),
            unlabelled: dice.roll(8) == 0,
            labels: facts.labels.clone(),
            annotations: facts.annotations.clone(),
            ..Namespace::default()
        },
        binding: Binding {
            uid: "b".into(),
            version: "1".into(),
            generation: 1,
            class: blueprint.class.clone(),
            deleting: false,
            status,
        },
        class: match dice.roll(8) {
            0 => ClassSeen::Gone,
            1 => ClassSeen::Unreadable,
            _ => ClassSeen::Present(class),
        },
        unknown_class: dice.some(facts.name.clone()),
        kinds,
        stamped,
        orphan_unstamped: dice.flip(),
        keeping: dice.some(blueprint.class.clone()).into_iter().collect(),
        former,
        read,
        unreadable,
        resting,
    }
}

/// A roll-out somewhere on its way.
fn rolling(dice: &mut Dice) -> rollout::Seen {
    let kept = |dice: &mut Dice| Kept {
        digest: format!("r{}", dice.roll(3)),
        number: if dice.flip() { i64::MAX } else { i64::MIN },
        ..Kept::default()
    };
    let share = |dice: &mut Dice| dice.some(Share::Percent(u64::MAX));
    rollout::Seen {
        newest: dice.some("r1".into()),
        wishes: Wishes {
            batch: share(dice),
            pause: if dice.flip() { Duration::MAX } else { Duration::ZERO },
            stop_when_failing: share(dice),
            paused: dice.flip(),
            max_deletions: share(dice),
        },
        kept: (0..dice.roll(20)).map(|_| kept(dice)).collect(),
        not_kept: dice.some("words ".repeat(10_000)),
        predecessor: dice.some("u".into()),
        confirmed: dice.some("r1".into()),
        deletions: Deletions { objects: u64::MAX, made: u64::MAX },
        now: now(),
    }
}

proptest! {
    #[test]
    fn any_class_is_checked_and_filled_in(blueprint in blueprint(), facts in facts()) {
        assert_told(&blueprint.problems());
        let (_, misfits, problems) = items(&blueprint, &facts);
        assert_told(&problems);
        for misfit in misfits {
            assert_told(&misfit.problems);
        }
        for manifest in &blueprint.resources {
            let _ = variables(manifest);
        }
    }

    #[test]
    fn any_binding_is_planned_and_reported(
        blueprint in blueprint(), facts in facts(), status in status(), json in json(), mut dice in dice(),
    ) {
        let seen = observed(&blueprint, &facts, status, &json, &mut dice);
        let _ = (seen.to_read(), blocked_items(&seen));
        let plan = plan(&seen);
        let outcomes = dice.outcomes(&plan);
        let told = report(&seen, &outcomes, &now());
        assert_storable(&told.conditions, &seen.binding.status.conditions);
    }

    #[test]
    fn any_class_reports_itself(blueprint in blueprint(), count in 0_usize..200, mut dice in dice()) {
        let bound = |number: usize, dice: &mut Dice| class::Bound {
            name: format!("namespace-{number}"),
            updated: dice.flip(),
            ready: dice.flip(),
            stalled: dice.some("Reason".into()),
            heard: dice.flip(),
            has: Some(format!("r{}", dice.roll(3))),
            moved: Some(Moved {
                revision: format!("r{}", dice.roll(3)),
                since: dice.roll(2).into(),
                failed_before: dice.flip(),
            }),
            unready_since: dice.some(Timestamp("any".into())),
            turn: dice.roll(3).into(),
            ..class::Bound::default()
        };
        let seen = class::Observed {
            problems: blueprint.problems(),
            namespaces: (0..count).map(|number| bound(number, &mut dice)).collect(),
            deleting: dice.flip(),
            held: dice.flip(),
            must_hold: dice.flip(),
            gate: gate::Seen { wanted: dice.flip(), failure: dice.flip().then(|| "why".to_owned()), ..gate::Seen::default() },
            rollout: rolling(&mut dice),
            status: class::Status {
                revision: Some(format!("r{}", dice.roll(3))),
                rollout: Some(rollout::Status {
                    revision: format!("r{}", dice.roll(3)),
                    staged_since: dice.some(0),
                    moved: dice.some(-1),
                    resting_since: Some(Timestamp("any".into())),
                    ..rollout::Status::default()
                }),
                ..class::Status::default()
            },
            ..class::Observed::default()
        };
        let _ = class::plan(&seen).to_string();
        if let Some(status) = class::report(&seen, &now()) {
            assert_storable(&status.conditions, &seen.status.conditions);
        }
    }

    #[test]
    fn anything_can_be_told_apart_from_anything(live in json(), manifest in json()) {
        let witness = Witness::of(&live, &manifest, &SEAL, Care::Parts);
        prop_assert_eq!(&witness.content, &content(&live, &SEAL));
        prop_assert_eq!(Witness::parse(&witness.to_string()), Some(witness));
        let _ = (shape(&live), digest(&manifest));
    }
}

fn class_of(manifest: Value) -> Blueprint {
    let Value::Object(fields) = manifest else { panic!("an object") };
    Blueprint { class: "c".into(), resources: vec![fields], ..Blueprint::default() }
}

fn here() -> Facts {
    Facts { name: "team-a".into(), uid: "u".into(), ..Facts::default() }
}

#[test]
fn what_is_nested_too_deeply_is_a_problem_however_deep_it_is() {
    for place in ["spec", "data", "metadata", "status"] {
        let mut manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        manifest[place] = nested(1000, json!("{{ namespace.name }}"));
        let class = class_of(manifest);
        assert_told(&class.problems());
        assert!(Problem::list(&class.problems()).contains("nested deeper than 100 levels"), "{place}");
        assert!(
            Problem::list(&class.items(&here(), &Texts::new()).unwrap().misfits[0].problems)
                .contains("nested deeper than 100 levels"),
            "{place}"
        );
    }
}

#[test]
fn a_class_that_grows_without_bounds_when_filled_in_is_a_problem() {
    let facts = Facts { annotations: [("a".to_owned(), "x".repeat(200_000))].into(), ..here() };
    let data: Map<_, _> = (0..1000).map(|key| (format!("k{key}"), json!("{{ namespace.annotations['a'] }}"))).collect();
    let class = class_of(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}));
    assert!(class.problems().is_empty());
    let misfits = class.items(&facts, &Texts::new()).unwrap().misfits;
    assert!(Problem::list(&misfits[0].problems).contains("does not fit"));
}

#[test]
fn a_class_of_more_than_its_schema_allows_costs_no_more_than_saying_so() {
    let many = |count: usize| Blueprint { resources: vec![Map::new(); count], ..Blueprint::default() };
    assert_eq!(Problem::list(&many(1_000_000).problems()), "spec.resources: has 1000000 entries; give at most 100");
    assert!(many(1_000_000).items(&here(), &Texts::new()).is_err());
    assert_told(&many(100).problems());
    let params = Blueprint { params: vec![Declared::default(); 1_000_000], ..Blueprint::default() };
    assert_eq!(Problem::list(&params.problems()), "spec.params: has 1000000 entries; give at most 32");
    assert!(params.items(&here(), &Texts::new()).is_err());
    let labels = Blueprint {
        labels: (0..1_000_000).map(|key| (key.to_string(), String::new())).collect(),
        ..Blueprint::default()
    };
    assert_eq!(
        Problem::list(&labels.problems()),
        "spec.namespaceMetadata.labels: has 1000000 entries; give at most 64"
    );
}

/// The worst a declaration within its limits can ask of a regular expression.
#[test]
fn no_pattern_takes_long() {
    let nasty = [
        "(?:(?:(?:){1000}){1000}){1000}",
        "(?:(?:(?:a?){1000}){1000}){1000}",
        "((((((((((a{30}){30}){30}){30}){30}){30}){30}){30}){30}){30})",
        "(?:a|a|a|a|a|a|a|a){0,200}b",
        "(a?){180}a{180}",
        "(?:.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*.*)x",
        "(?i)(?:[^\\x00]|\\w|\\d|\\s|é){100,}",
    ];
    let started = Instant::now();
    for pattern in nasty {
        let param = Declared {
            name: "x".into(),
            pattern: Some(pattern.into()),
            one_of: vec!["a".repeat(256); 32],
            from_namespace_label: Some("a".into()),
            default: Some("a".repeat(1024)),
            ..Declared::default()
        };
        let params: Vec<_> = (0..4).map(|number| Declared { name: format!("x{number}"), ..param.clone() }).collect();
        let class = Blueprint { params, ..Blueprint::default() };
        let (_, _) = (class.problems(), class.items(&here(), &Texts::new()));
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
