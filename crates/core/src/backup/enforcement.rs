//! Values the administrator has fixed, field by field.

use serde_json::Value;

use super::{
    duration,
    fields::{Field, Shape},
    meaning::meaning,
    validate::Invalid,
    velero::{Fields, field},
};

/// The spec with what is enforced in the fields it leaves open. Refused where it says otherwise.
pub(super) fn apply(
    table: &[Field],
    enforced: &Fields,
    mut spec: Fields,
    told: impl Fn(&str, String) -> String,
) -> Result<Fields, Invalid> {
    for known in table {
        let Some(wanted) = field(enforced, known.name).filter(|value| !is_open(known.shape, value)) else { continue };
        match field(&spec, known.name).filter(|value| !is_open(known.shape, value)) {
            Some(own) if is_same(known, own, wanted) => {}
            Some(_) => return Err(Invalid(told(known.name, shown(known.shape, wanted)))),
            None => {
                spec.insert(known.name.to_owned(), wanted.clone());
            }
        }
    }
    Ok(spec)
}

/// Whether a value leaves the field open. A list, a map or a `false` that was written down does not, even an empty one.
fn is_open(shape: Shape, value: &Value) -> bool {
    match shape {
        Shape::Text | Shape::Name => value == "",
        Shape::Duration => value.as_str().and_then(duration::nanoseconds) == Some(0.0),
        Shape::Object(_) => value.as_object().is_some_and(|fields| meaning(fields).is_empty()),
        Shape::Flag | Shape::Number | Shape::Texts | Shape::TextMap | Shape::Objects(_) => false,
    }
}

fn is_same(known: &Field, own: &Value, wanted: &Value) -> bool {
    let meant = |value: &Value| meaning(&Fields::from_iter([(known.name.to_owned(), value.clone())]));
    match known.shape {
        Shape::Duration | Shape::Object(_) | Shape::Objects(_) => meant(own) == meant(wanted),
        Shape::Text | Shape::Name | Shape::Flag | Shape::Number | Shape::Texts | Shape::TextMap => own == wanted,
    }
}

/// The value as programs in Go print it.
fn shown(shape: Shape, value: &Value) -> String {
    match (shape, value) {
        (Shape::Duration, Value::String(text)) => duration::go_style(text),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Array(items)) => {
            let items: Vec<_> = items.iter().map(|item| shown(Shape::Text, item)).collect();
            format!("[{}]", items.join(" "))
        }
        (Shape::TextMap, Value::Object(map)) => {
            let entries: Vec<_> =
                map.iter().map(|(key, value)| format!("{key}:{}", shown(Shape::Text, value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        (_, other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::fields::BACKUP, *};

    fn applied(enforced: &Value, spec: &Value) -> Result<Value, String> {
        let fields = |value: &Value| value.as_object().cloned().expect("an object");
        let told = |field: &str, value: String| format!("{field} {value}");
        let applied = apply(BACKUP, &fields(enforced), fields(spec), told);
        applied.map(Value::Object).map_err(|Invalid(message)| message)
    }

    #[test]
    fn whoever_says_nothing_gets_what_is_enforced_and_whoever_says_otherwise_is_refused() {
        let enforced =
            json!({ "ttl": "36h", "snapshotVolumes": false, "excludedResources": [], "storageLocation": "" });
        assert_eq!(
            applied(&enforced, &json!({ "ttl": "0s", "snapshotVolumes": null })),
            Ok(json!({ "ttl": "36h", "snapshotVolumes": false, "excludedResources": [] }))
        );
        assert!(applied(&enforced, &json!({ "ttl": "2160m", "snapshotVolumes": false })).is_ok());
        assert_eq!(applied(&enforced, &json!({ "ttl": "1h" })), Err("ttl 36h0m0s".into()));
        assert_eq!(applied(&enforced, &json!({ "snapshotVolumes": true })), Err("snapshotVolumes false".into()));
        assert_eq!(applied(&enforced, &json!({ "excludedResources": ["a"] })), Err("excludedResources []".into()));
    }

    #[test]
    fn lists_and_maps_are_told_as_go_prints_them() {
        let enforced = json!({ "includedResources": ["a", "b"], "orderedResources": { "k": "v", "l": "w" } });
        assert_eq!(applied(&enforced, &json!({ "includedResources": [] })), Err("includedResources [a b]".into()));
        assert_eq!(applied(&enforced, &json!({ "orderedResources": {} })), Err("orderedResources map[k:v l:w]".into()));
    }
}
