//! Templates of a class: what they can reach, what comes out, and that no input can change the shape of a manifest.

use std::collections::{BTreeMap, BTreeSet};

use croft_core::{
    name::is_dns_subdomain,
    namespaces::{
        params::Declared,
        template::{Facts, Inputs, MAX_DEPTH, MAX_FILLED_IN, Variable, check, render_all, variables},
    },
    problem::Problem,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn inputs() -> Inputs {
    Inputs {
        namespace: Facts {
            name: "team-a".into(),
            uid: "6f1e".into(),
            labels: texts(&[("team", "a"), ("example.com/tier", "gold")]),
            annotations: texts(&[("example.com/owner", "Ann \"A\"\nBee: {{ class.name }}")]),
        },
        class: "web".into(),
        params: [("cpu", json!(8)), ("open", json!(true)), ("zone", json!("north"))]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
    }
}

fn declared(names: &[&str]) -> Vec<Declared> {
    names.iter().map(|name| Declared { name: (*name).to_owned(), ..Declared::default() }).collect()
}

/// What becomes of the only manifest of a class.
fn render(manifest: &Map<String, Value>, inputs: &Inputs) -> Result<Map<String, Value>, Vec<Problem>> {
    render_all(std::slice::from_ref(manifest), inputs).remove(0)
}

/// Whether there is anything to fill in or to refuse.
fn uses_templates(manifest: &Map<String, Value>) -> bool {
    Value::Object(manifest.clone()).to_string().contains("{{")
}

/// What one text becomes in the spec of some object.
fn rendered(text: &str) -> Value {
    render(&map(json!({"spec": text})), &inputs()).unwrap()["spec"].clone()
}

fn fields(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.field.as_str()).collect()
}

#[test]
fn every_variable_is_filled_in_and_a_lone_parameter_keeps_its_type() {
    let cases = [
        ("no template }} { here", json!("no template }} { here")),
        ("{{ namespace.name }}/{{namespace.uid}}/{{ class.name }}", json!("team-a/6f1e/web")),
        ("{{ namespace.labels[\"example.com/tier\"] }}-{{ namespace.labels['team'] }}", json!("gold-a")),
        ("{{ params.cpu }}", json!(8)),
        ("{{params.open}}", json!(true)),
        ("{{ params.zone }}", json!("north")),
        (" {{ params.cpu }}", json!(" 8")),
        ("{{ params.cpu }}{{ params.cpu }}", json!("88")),
        ("{{ params.cpu }}Gi, open={{ params.open }}", json!("8Gi, open=true")),
        ("{{ \"{{\" }} $labels.pod }} in {{ namespace.name }}", json!("{{ $labels.pod }} in team-a")),
    ];
    for (template, expected) in cases {
        assert_eq!(rendered(template), expected, "{template}");
    }
}

#[test]
fn where_kubernetes_takes_only_text_a_number_stays_text() {
    let lone = "{{ params.cpu }}";
    let metadata = json!({"name": lone, "labels": {"cpu": lone}, "annotations": {"cpu": lone}});
    let object = |api_version: &str, kind: &str| {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "data": {"a": lone}, "stringData": {"b": lone}, "spec": lone});
        Value::Object(render(&map(object), &inputs()).unwrap())
    };
    for kind in ["ConfigMap", "Secret"] {
        let made = object("v1", kind);
        assert_eq!(made["metadata"], json!({"name": "8", "labels": {"cpu": "8"}, "annotations": {"cpu": "8"}}));
        assert_eq!(
            (&made["data"]["a"], &made["stringData"]["b"], &made["spec"]),
            (&json!("8"), &json!("8"), &json!(8))
        );
    }
    assert_eq!(object("example.com/v1", "Secret")["data"]["a"], json!(8));
}

#[test]
fn what_is_filled_in_is_never_read_as_a_template_again() {
    assert_eq!(rendered("{{ namespace.annotations['example.com/owner'] }}"), json!("Ann \"A\"\nBee: {{ class.name }}"));
    let mut inputs = inputs();
    inputs.params.insert("half".into(), json!("{{ class"));
    inputs.params.insert("rest".into(), json!(".name }}"));
    let made = render(&map(json!({"spec": "{{ params.half }}{{ params.rest }}"})), &inputs).unwrap();
    assert_eq!(made["spec"], json!("{{ class.name }}"));
}

#[test]
fn what_the_namespace_lacks_is_named_with_its_place() {
    let manifest = map(json!({
        "spec": ["{{ namespace.labels['no'] }}", {"a/b": "{{ namespace.annotations['not'] }}"}, "{{ params.none }}", "fine"]
    }));
    let problems = render(&manifest, &inputs()).unwrap_err();
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "spec.resources[0].spec[0]: the namespace has no label no; set it, or use a parameter with a default",
            "spec.resources[0].spec[1][\"a/b\"]: the namespace has no annotation not; set it, or use a parameter with a default",
            "spec.resources[0].spec[2]: parameter none has no value",
        ]
    );
}

#[test]
fn everything_wrong_with_a_template_is_listed_at_admission_with_its_place() {
    let manifest = map(json!({
        "apiVersion": "{{ params.cpu }}/v1", "kind": "{{ params.zone }}",
        "metadata": {"name": "{{ namespace.name }}", "annotations": {"{{ class.name }}": "x", "example.com/a": "{{ env.HOME }}"}},
        "roleRef": {"kind": "{{ params.zone }}"},
        "data": {"unknown": "{{ params.mem }}", "open": "{{ namespace.name", "list": ["fine", "{{ class.name }}", "{{ upper(class.name) }}"]},
    }));
    let problems = check(&manifest, "spec.resources[0]", &declared(&["cpu", "zone"]));
    let found: BTreeSet<_> = fields(&problems).into_iter().collect();
    let expected = [
        "spec.resources[0].apiVersion",
        "spec.resources[0].kind",
        "spec.resources[0].metadata.annotations[\"example.com/a\"]",
        "spec.resources[0].metadata.annotations[\"{{ class.name }}\"]",
        "spec.resources[0].data.unknown",
        "spec.resources[0].data.open",
        "spec.resources[0].data.list[2]",
    ];
    assert_eq!(found, expected.into_iter().collect(), "{problems:#?}");
    let unknown = problems.iter().find(|problem| problem.field.ends_with("unknown")).unwrap();
    assert_eq!(unknown.message, "there is no parameter mem in spec.params; declared: cpu, zone");
    // What admission refuses, rendering refuses as well: the class may have been stored before.
    let again = render(&manifest, &inputs()).unwrap_err();
    assert_eq!(fields(&again), fields(&problems));
}

#[test]
fn a_name_made_by_a_template_can_only_name_an_object_in_the_namespace() {
    let smuggled = [
        "",
        "..",
        ".",
        "a/b",
        "../secrets/x",
        "a%2fb",
        "a%",
        "%2e%2e",
        "a\0b",
        "a b",
        "a\nb",
        "é",
        "ａ",
        "A",
        "-a",
        "a-",
        "a..b",
        ".a",
        "a.",
        "a_b",
        "a:b",
        "a?b",
        "a#b",
        "{{ class.name }}",
        "a\u{202e}b",
    ];
    let long = "a".repeat(254);
    for value in smuggled.into_iter().chain([long.as_str()]) {
        assert!(!is_dns_subdomain(value), "{value:?}");
        let mut inputs = inputs();
        inputs.params.insert("name".into(), json!(value));
        let manifest = map(json!({"metadata": {"name": "{{ params.name }}"}}));
        let problems = render(&manifest, &inputs).unwrap_err();
        assert_eq!(fields(&problems), ["spec.resources[0].metadata.name"], "{value:?}");
    }
    for value in ["a", "0", "team-a.web", "a--b", &"a".repeat(253)] {
        assert!(is_dns_subdomain(value), "{value:?}");
    }
    let manifest = map(json!({"metadata": {"name": "{{ namespace.name }}.{{ class.name }}-0"}}));
    assert_eq!(render(&manifest, &inputs()).unwrap()["metadata"]["name"], json!("team-a.web-0"));
    // A name its author wrote out is the author's: RBAC objects may be called `team:viewer`.
    let manifest = map(json!({"metadata": {"name": "team:viewer"}}));
    assert_eq!(render(&manifest, &inputs()).unwrap(), manifest);
}

#[test]
fn variables_can_add_only_so_much_to_a_class() {
    let mut inputs = inputs();
    inputs.namespace.annotations.insert("big".into(), "x".repeat(MAX_FILLED_IN / 2));
    let manifest = map(json!({"spec": "{{ namespace.annotations['big'] }}"}));
    let all =
        render_all(&[manifest.clone(), manifest.clone(), manifest.clone(), map(json!({"spec": "static"}))], &inputs);
    assert_eq!(all.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false, true]);
    assert_eq!(fields(all[2].as_ref().unwrap_err()), ["spec.resources[2].spec"]);
    let small = map(json!({"spec": "{{ namespace.name }}"}));
    let all = render_all(&[vec![manifest; 99], vec![small]].concat(), &inputs);
    assert!(all[99].is_ok(), "what one value takes is not taken from others");
    let repeated = map(json!({"spec": "{{ namespace.annotations['big'] }}".repeat(10_000)}));
    assert!(render(&repeated, &inputs).is_err());
}

#[test]
fn what_is_nested_too_deep_is_refused_and_not_walked() {
    let nested = |levels| map(json!({"spec": (0..levels).fold(json!("x"), |inner, _| json!([inner]))}));
    assert!(render(&nested(MAX_DEPTH - 1), &inputs()).is_ok());
    assert_eq!(check(&nested(MAX_DEPTH), "", &[]).len(), 1);
    assert!(render(&nested(MAX_DEPTH), &inputs()).is_err());
}

#[test]
fn the_number_of_problems_is_bounded() {
    let manifest = map(json!({"spec": vec!["{{"; 10_000]}));
    assert_eq!(check(&manifest, "", &[]).len(), 100);
}

#[test]
fn a_manifest_tells_which_variables_it_uses() {
    let manifest = map(json!({
        "metadata": {"name": "{{ namespace.name }}-{{ params.zone }}"},
        "spec": [{"a": "{{ namespace.labels['team'] }}"}, "{{ params.zone }}", "{{ broken", "{{ \"{{\" }}"],
    }));
    let expected = [Variable::NamespaceName, Variable::NamespaceLabel("team".into()), Variable::Param("zone".into())];
    assert_eq!(variables(&manifest), expected.into());
}

/// Any JSON, its texts and keys rich in braces and bits of templates.
fn any_json() -> impl Strategy<Value = Map<String, Value>> {
    let text = || {
        let bits = [
            "{{",
            "}}",
            "{",
            " ",
            "namespace.name",
            "params.cpu",
            "params.",
            "namespace.labels['team']",
            "\"{{\"",
            "\n",
            "é",
        ];
        let bit = prop_oneof![proptest::sample::select(bits.to_vec()).prop_map(str::to_owned), ".{0,4}"];
        proptest::collection::vec(bit, 0..6).prop_map(|bits| bits.concat())
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let key = move || prop_oneof![4 => "[a-z]{1,8}|metadata|name|kind|apiVersion|data".boxed(), 1 => text().boxed()];
    let value = leaf.prop_recursive(4, 32, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(key(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    proptest::collection::btree_map(key(), value, 0..5).prop_map(|map| map.into_iter().collect())
}

/// The same keys and the same lengths of lists everywhere.
fn same_shape(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.keys().eq(other.keys()) && one.values().zip(other.values()).all(|(one, other)| same_shape(one, other))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_shape(one, other))
        }
        // A text may become a number or a boolean; nothing becomes or stops being a list or an object.
        (one, other) => !one.is_object() && !one.is_array() && !other.is_object() && !other.is_array(),
    }
}

proptest! {
    #[test]
    fn any_manifest_is_rendered_in_its_own_shape_or_refused(manifest in any_json()) {
        let admitted = check(&manifest, "spec.resources[0]", &declared(&["cpu"])).is_empty();
        match render(&manifest, &inputs()) {
            Ok(made) => prop_assert!(same_shape(&Value::Object(manifest), &Value::Object(made))),
            Err(problems) => {
                prop_assert!(!problems.is_empty() && uses_templates(&manifest));
                // All the inputs are there: what passed admission can only fail by the name it gives.
                let only_the_name = fields(&problems) == ["spec.resources[0].metadata.name"];
                prop_assert!(!admitted || only_the_name, "{problems:?}");
            }
        }
    }

    #[test]
    fn a_manifest_without_templates_is_rendered_as_it_is(manifest in any_json()) {
        if !uses_templates(&manifest) {
            prop_assert!(variables(&manifest).is_empty());
            prop_assert_eq!(render(&manifest, &inputs()), Ok(manifest));
        }
    }

    #[test]
    fn any_value_stays_text_inside_the_text_it_was_put_into(value in prop_oneof![any::<String>(), "[{}\"'\\\\\n:,\\[\\] ]{0,20}"]) {
        let mut inputs = inputs();
        inputs.namespace.labels.insert("any".into(), value.clone());
        inputs.namespace.annotations.insert("any".into(), value.clone());
        inputs.params.insert("any".into(), json!(value));
        let manifest = map(json!({"spec": [
            "<{{ namespace.labels['any'] }}|{{ namespace.annotations['any'] }}|{{ params.any }}>", "{{ params.any }}", "{{ \"{{\" }}"
        ]}));
        let made = render(&manifest, &inputs).unwrap();
        prop_assert_eq!(Value::Object(made), json!({"spec": [format!("<{value}|{value}|{value}>"), value, "{{"]}));
    }

    #[test]
    fn any_name_a_template_gives_is_a_dns_subdomain_or_refused(value in prop_oneof![any::<String>(), "[a-z0-9./%-]{0,6}"]) {
        let mut inputs = inputs();
        inputs.params.insert("any".into(), json!(value));
        if let Ok(made) = render(&map(json!({"metadata": {"name": "x{{ params.any }}"}})), &inputs) {
            let name = made["metadata"]["name"].as_str().unwrap();
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
            prop_assert!(is_dns_subdomain(name) && name.len() <= 253 && name.bytes().all(allowed) && !name.contains(".."));
        }
    }
}

#[test]
fn what_is_in_a_secret_is_not_repeated_in_a_problem() {
    for text in ["x {{ hunter2", "{{ hunter2 }}"] {
        let manifest = |kind: &str| {
            map(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "s"}, "stringData": {"a": text}}))
        };
        let told = Problem::list(&check(&manifest("Secret"), "spec.resources[0]", &[]));
        assert!(told.contains("spec.resources[0].stringData") && !told.contains("hunter2"), "{told}");
    }
}
