//! Label selectors that cannot be read. Velero finds that out only once a request's turn has come, and what it makes of it then is no
//! backup: none gets there.

use serde_json::Value;

use super::velero::{Fields, field, text};
use crate::name::{is_label_key, is_label_value};

/// What is wrong with the selectors of a spec whose fields are right. `place` is where the spec stands: `NonAdminBackup spec.backupSpec`.
pub(super) fn objection(place: &str, spec: &Fields) -> Option<String> {
    let objects = |list: Option<&Value>| -> Vec<Fields> {
        let items = list.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_object).cloned().collect()
    };
    let one = spec.get("labelSelector").and_then(Value::as_object).cloned();
    let one = one.map(|selector| ("labelSelector".to_owned(), selector));
    let any = objects(spec.get("orLabelSelectors")).into_iter().enumerate();
    let any = any.map(|(index, selector)| (format!("orLabelSelectors[{index}]"), selector));
    let hooks = objects(field(spec, "hooks").and_then(|hooks| hooks.get("resources"))).into_iter().enumerate();
    let hooks = hooks.filter_map(|(index, hook)| {
        let selector = hook.get("labelSelector").and_then(Value::as_object)?.clone();
        Some((format!("hooks.resources[{index}].labelSelector"), selector))
    });
    let told = one.into_iter().chain(any).chain(hooks).find_map(|(name, selector)| {
        let told = wrong_in(&selector)?;
        Some(format!("{name}.{told}"))
    })?;
    Some(format!("{place}.{told}"))
}

/// Where in a selector something is wrong, and what would be right.
fn wrong_in(selector: &Fields) -> Option<String> {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in labels {
        if !is_label_key(key) {
            return Some(format!("matchLabels {KEY}"));
        }
        if !value.as_str().is_none_or(is_label_value) {
            return Some(format!("matchLabels.{key} {VALUE}"));
        }
    }
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    let expressions = expressions.enumerate().filter_map(|(index, expression)| Some((index, expression.as_object()?)));
    expressions.into_iter().find_map(|(index, expression)| {
        let told = wrong_in_expression(expression)?;
        Some(format!("matchExpressions[{index}].{told}"))
    })
}

const KEY: &str = "must have the key of a label, such as app or example.com/tier";
const VALUE: &str =
    "must be the value of a label: up to 63 letters, digits, -, _ and ., beginning and ending with a letter or digit";

fn wrong_in_expression(expression: &Fields) -> Option<String> {
    if !text(expression, "key").is_some_and(is_label_key) {
        return Some(format!("key {KEY}"));
    }
    let values: Vec<&Value> = field(expression, "values").and_then(Value::as_array).into_iter().flatten().collect();
    let wrong_values = match text(expression, "operator") {
        Some("In" | "NotIn") => values.is_empty().then_some("must name at least one value for In and NotIn"),
        Some("Exists" | "DoesNotExist") => {
            (!values.is_empty()).then_some("must be left out for Exists and DoesNotExist")
        }
        _ => return Some("operator must be In, NotIn, Exists or DoesNotExist".to_owned()),
    };
    if let Some(wrong) = wrong_values {
        return Some(format!("values {wrong}"));
    }
    let is_value = |value: &&Value| value.as_str().is_none_or(is_label_value);
    let index = values.iter().position(|value| !is_value(value))?;
    Some(format!("values[{index}] {VALUE}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::backup::{Policy, validate};

    fn told(selector: &Value) -> [Option<String>; 4] {
        let check = |spec: Value| {
            let spec: Fields = serde_json::from_value(spec).expect("fields");
            validate::backup(&spec, "shop", &Policy::default()).err().map(|invalid| invalid.to_string())
        };
        let restored = |spec: Value| {
            let spec: Fields = serde_json::from_value(spec).expect("fields");
            validate::restore(&spec, "shop", &Policy::default()).err().map(|invalid| invalid.to_string())
        };
        [
            check(json!({ "labelSelector": selector })),
            check(json!({ "orLabelSelectors": [{}, selector] })),
            check(json!({ "hooks": { "resources": [{ "name": "h", "labelSelector": selector }] } })),
            restored(json!({ "backupName": "nightly", "orLabelSelectors": [{}, selector] })),
        ]
    }

    #[test]
    fn a_selector_nobody_can_read_is_refused_wherever_it_stands() {
        let expression = |expression: Value| json!({ "matchExpressions": [expression] });
        for (selector, why) in [
            (
                expression(json!({ "key": "app", "operator": "Foo", "values": ["a"] })),
                "matchExpressions[0].operator must be In, NotIn, Exists or DoesNotExist",
            ),
            (expression(json!({ "key": "app" })), "operator must be In"),
            (expression(json!({ "key": "app", "operator": "in", "values": ["a"] })), "operator must be In"),
            (expression(json!({ "key": "app", "operator": "In" })), "values must name at least one value"),
            (expression(json!({ "key": "app", "operator": "NotIn", "values": [] })), "values must name at least one"),
            (
                expression(json!({ "key": "app", "operator": "Exists", "values": ["a"] })),
                "values must be left out for Exists and DoesNotExist",
            ),
            (
                expression(json!({ "key": "app", "operator": "DoesNotExist", "values": [""] })),
                "values must be left out",
            ),
            (expression(json!({ "operator": "Exists" })), "matchExpressions[0].key must have the key of a label"),
            (expression(json!({ "key": "a b", "operator": "Exists" })), "key must have the key of a label"),
            (
                expression(json!({ "key": "app", "operator": "In", "values": ["a", "b/c"] })),
                "values[1] must be the value",
            ),
            (json!({ "matchLabels": { "a b": "c" } }), "matchLabels must have the key of a label"),
            (json!({ "matchLabels": { "app": "b c" } }), "matchLabels.app must be the value of a label"),
        ] {
            let said = told(&selector);
            let places = [
                "labelSelector.",
                "orLabelSelectors[1].",
                "hooks.resources[0].labelSelector.",
                "restoreSpec.orLabelSelectors[1].",
            ];
            for (said, place) in said.iter().zip(places) {
                let said = said.as_deref().unwrap_or_default();
                assert!(said.contains(place) && said.contains(why), "{selector} at {place}: {said:?}");
            }
        }
    }

    #[test]
    fn every_selector_kubernetes_reads_is_let_through() {
        for selector in [
            json!({}),
            json!({ "matchLabels": { "app.kubernetes.io/name": "shop", "tier": "" } }),
            json!({ "matchExpressions": null, "matchLabels": null }),
            json!({ "matchExpressions": [
                { "key": "app", "operator": "In", "values": ["a", ""] }, { "key": "app", "operator": "NotIn", "values": ["b"] },
                { "key": "example.com/tier", "operator": "Exists" }, { "key": "x", "operator": "DoesNotExist", "values": [] },
            ] }),
        ] {
            assert_eq!(told(&selector), [const { None }; 4], "{selector}");
        }
    }
}
