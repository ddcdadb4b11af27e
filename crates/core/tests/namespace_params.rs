//! Parameters of a class: where their values come from, what is let through, and what the messages say.

use std::collections::BTreeMap;

use croft_core::namespaces::{
    params::{Declared, Kind, MAX_PATTERN, MAX_VALUE, Resolved, Texts, check_declarations, resolve},
    template::Facts,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A text that the annotation `example.com/size` gives.
fn text() -> Declared {
    Declared { name: "size".into(), from_namespace_annotation: Some("example.com/size".into()), ..Declared::default() }
}

fn integer() -> Declared {
    Declared { kind: Kind::Integer, ..text() }
}

fn boolean() -> Declared {
    Declared { kind: Kind::Boolean, ..text() }
}

fn matching(pattern: &str) -> Declared {
    Declared { pattern: Some(pattern.into()), ..text() }
}

fn one_of(values: &[&str], param: Declared) -> Declared {
    Declared { one_of: values.iter().map(|value| (*value).to_owned()).collect(), ..param }
}

fn within(minimum: Option<i64>, maximum: Option<i64>) -> Declared {
    Declared { minimum, maximum, ..integer() }
}

fn annotated(value: &str) -> Facts {
    Facts { annotations: BTreeMap::from([("example.com/size".into(), value.into())]), ..Facts::default() }
}

fn given(param: &Declared, value: &str) -> Result<Value, String> {
    let Resolved { values, refused, .. } = resolve(std::slice::from_ref(param), &annotated(value), &Texts::new());
    refused.first().map_or_else(|| Ok(values["size"].clone()), |problem| Err(problem.to_string()))
}

#[test]
fn the_annotation_wins_over_the_label_and_the_label_over_the_default() {
    let param = Declared { from_namespace_label: Some("size".into()), default: Some("default".into()), ..text() };
    let mut facts = annotated("annotation");
    facts.labels.insert("size".into(), "label".into());
    let value = |facts: &Facts| resolve(std::slice::from_ref(&param), facts, &Texts::new()).values["size"].clone();
    assert_eq!(value(&facts), json!("annotation"));
    facts.annotations.clear();
    assert_eq!(value(&facts), json!("label"));
    facts.labels.clear();
    assert_eq!(value(&facts), json!("default"));
}

#[test]
fn a_value_has_the_declared_type() {
    let allowed = [
        (text(), "", json!("")),
        (text(), "{{ x }}", json!("{{ x }}")),
        (integer(), "0", json!(0)),
        (integer(), "-9223372036854775808", json!(i64::MIN)),
        (boolean(), "true", json!(true)),
        (boolean(), "false", json!(false)),
        (matching("[0-9]+(Mi|Gi)"), "10Gi", json!("10Gi")),
        (matching("a|ab"), "ab", json!("ab")),
        (matching("^a$"), "a", json!("a")),
        (one_of(&["s", "m"], text()), "m", json!("m")),
        (one_of(&["1", "5"], integer()), "5", json!(5)),
        (within(Some(1), Some(3)), "1", json!(1)),
        (within(Some(1), Some(3)), "3", json!(3)),
    ];
    for (param, value, expected) in allowed {
        assert!(check_declarations(std::slice::from_ref(&param)).is_empty());
        assert_eq!(given(&param, value), Ok(expected), "{param:?}");
    }
}

#[test]
fn what_is_not_allowed_is_refused_whole() {
    let refused = [
        (integer(), vec!["", " 1", "1 ", "+1", "01", "-0", "1.0", "1e3", "0x1", "١", "9223372036854775808", "ten"]),
        (boolean(), vec!["", "True", "yes", "1", " true"]),
        (matching("[0-9]+"), vec!["", "1a", "a1", "1\n", "\n1", "1\n2", "١"]),
        (matching("(?m)^a$"), vec!["a\nb", "b\na"]),
        (matching("a|b"), vec!["ab", "ax", "xb"]),
        (one_of(&["s", "m"], text()), vec!["", "S", "s,m", "s "]),
        (within(Some(1), None), vec!["0", "-5"]),
        (within(None, Some(3)), vec!["4"]),
    ];
    for (param, values) in refused {
        for value in values {
            assert!(given(&param, value).is_err(), "{value:?} for {param:?}");
        }
    }
    assert!(given(&text(), &"x".repeat(MAX_VALUE)).is_ok());
    assert!(given(&text(), &"x".repeat(MAX_VALUE + 1)).is_err());
}

#[test]
fn a_refusal_names_the_parameter_the_value_and_what_is_allowed_where() {
    let cases = [
        (integer(), "an integer"),
        (within(Some(1), None), "an integer of at least 1"),
        (within(None, Some(3)), "an integer of at most 3"),
        (within(Some(1), Some(3)), "an integer from 1 to 3"),
        (boolean(), "true or false"),
        (matching("[0-9]+"), "a text that matches \"[0-9]+\" as a whole, at most 1024 bytes"),
        (one_of(&["s", "m"], text()), "one of \"s\", \"m\""),
    ];
    for (param, allowed) in cases {
        let message = given(&param, "1 0\n").unwrap_err();
        let start = "params.size: parameter size cannot be \"1 0\\n\"; give ";
        assert_eq!(message, format!("{start}{allowed} in annotation example.com/size of the namespace"));
    }
}

#[test]
fn every_missing_parameter_is_listed_with_the_annotation_to_set() {
    let other = Declared {
        name: "zone".into(),
        from_namespace_annotation: Some("example.com/zone".into()),
        from_namespace_label: Some("zone".into()),
        ..one_of(&["north", "south"], text())
    };
    let problems = resolve(&[integer(), other], &Facts::default(), &Texts::new()).refused;
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "params.size: parameter size has no value; give an integer in annotation example.com/size of the namespace",
            "params.zone: parameter zone has no value; give one of \"north\", \"south\" in annotation example.com/zone or \
             label zone of the namespace",
        ]
    );
}

#[test]
fn a_declaration_that_contradicts_itself_is_refused() {
    let named = |name: &str| Declared { name: name.into(), ..text() };
    let defaulting = |default: &str, param| Declared { default: Some(default.into()), ..param };
    let long = "a".repeat(MAX_PATTERN + 1);
    let cases = [
        (named(""), "name"),
        (named("a-b"), "name"),
        (named("1a"), "name"),
        (named(&"a".repeat(64)), "name"),
        (Declared { from_namespace_annotation: Some("a b".into()), ..text() }, "fromNamespaceAnnotation"),
        (Declared { from_namespace_label: Some(String::new()), ..text() }, "fromNamespaceLabel"),
        (Declared { from_namespace_annotation: None, ..text() }, "default"),
        (Declared { minimum: Some(1), ..text() }, "minimum"),
        (Declared { maximum: Some(1), ..boolean() }, "minimum"),
        (within(Some(2), Some(1)), "minimum"),
        (Declared { pattern: Some("a".into()), ..integer() }, "pattern"),
        (matching("("), "pattern"),
        (matching("a)|(?:b"), "pattern"),
        (matching("(?x)a # b"), "pattern"),
        (matching("((a{100}){100}){100}"), "pattern"),
        (matching(&long), "pattern"),
        (defaulting("x", integer()), "default"),
        (defaulting("9", within(None, Some(8))), "default"),
        (defaulting("yes", boolean()), "default"),
        (defaulting("x", matching("[0-9]+")), "default"),
        (defaulting("l", one_of(&["s", "m"], text())), "default"),
        (one_of(&["1", "two"], integer()), "enum[1]"),
        (one_of(&["1", "9"], within(None, Some(8))), "enum[1]"),
        (one_of(&["x"], matching("[0-9]+")), "enum[0]"),
    ];
    for (param, field) in cases {
        let problems = check_declarations(std::slice::from_ref(&param));
        let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, [format!("spec.params[0].{field}")], "{param:?}: {problems:?}");
    }
}

#[test]
fn a_name_can_be_declared_only_once() {
    let problems = check_declarations(&[text(), Declared { name: "other".into(), ..text() }, integer()]);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].to_string(), "spec.params[2].name: parameter size is declared twice");
}

#[test]
fn a_broken_pattern_lets_nothing_through() {
    for pattern in ["(", "a)|(?:b", "((a{100}){100}){100}"] {
        for value in ["", "a", "b", "("] {
            assert!(given(&matching(pattern), value).is_err(), "{pattern}");
        }
    }
}

proptest! {
    #[test]
    fn any_value_is_taken_as_it_is_or_refused(value in prop_oneof![any::<String>(), "[-+0-9]{0,6}|true|false|[a-z]{0,3}"], pattern in ".{0,12}") {
        for param in [text(), integer(), boolean(), matching(&pattern), within(Some(-5), Some(5))] {
            let declared_well = check_declarations(std::slice::from_ref(&param)).is_empty();
            match given(&param, &value) {
                Ok(Value::String(taken)) => prop_assert!(declared_well && taken == value),
                Ok(taken) => prop_assert_eq!(taken.to_string(), value.clone()),
                Err(message) => prop_assert!(message.contains("parameter size") && !message.contains('\n')),
            }
        }
    }
}

#[test]
fn instead_of_a_value_that_is_not_allowed_the_last_one_that_was_stays_in_force() {
    let size = Declared { default: Some("5".into()), ..within(Some(1), Some(9)) };
    let in_force = |facts: &Facts, before: &str| {
        let before = Texts::from([("size".to_owned(), before.to_owned())]);
        let Resolved { values, in_force, refused } = resolve(std::slice::from_ref(&size), facts, &before);
        assert_eq!(in_force["size"], values["size"].to_string());
        (values["size"].clone(), refused.first().map(ToString::to_string))
    };
    assert_eq!(in_force(&annotated("7"), "3"), (json!(7), None));
    assert_eq!(in_force(&Facts::default(), "3"), (json!(5), None), "nothing given is the default");
    let told = "params.size: parameter size cannot be \"99\"; give an integer from 1 to 9 in annotation example.com/size of the \
                namespace; \"3\" stays in force";
    assert_eq!(in_force(&annotated("99"), "3"), (json!(3), Some(told.into())));
    assert_eq!(in_force(&annotated("99"), "77").0, json!(5), "what the class no longer allows is not kept");
    let never = resolve(&[integer()], &annotated("x"), &Texts::new());
    assert!(never.values.is_empty() && never.in_force.is_empty() && never.refused.len() == 1, "{never:?}");
}
