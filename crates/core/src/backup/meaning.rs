//! What a spec asks for, whichever way it is written: programs in Go write whole objects back, with `0s` and `{}` for what is not
//! there and `1h0m0s` for `1h`.

use serde_json::{Value, json};

use super::{duration, velero::Fields};

/// Objects deeper than this are no specs.
const DEEPEST: usize = 64;

/// Equal for two specs that ask for the same.
pub(super) fn meaning(spec: &Fields) -> Fields {
    fields(spec, 0)
}

fn fields(spec: &Fields, depth: usize) -> Fields {
    let meant = spec.iter().filter_map(|(name, value)| Some((name.clone(), field(name, value, depth)?)));
    meant.collect()
}

/// Nothing for a value that says nothing.
fn field(name: &str, value: &Value, depth: usize) -> Option<Value> {
    let meant = match value {
        _ if depth > DEEPEST => value.clone(),
        Value::Object(inner) => Value::Object(fields(inner, depth + 1)),
        Value::Array(items) => items.iter().map(|item| element(item, depth + 1)).collect(),
        Value::String(text) if duration::is_duration_field(name) => {
            duration::nanoseconds(text).map_or_else(|| value.clone(), |length| json!(length))
        }
        other => other.clone(),
    };
    let says_nothing = match &meant {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        Value::Object(inner) => inner.is_empty(),
        Value::Bool(_) => false,
    };
    (!says_nothing).then_some(meant)
}

/// What stands in a list counts, whatever it says.
fn element(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(inner) if depth <= DEEPEST => Value::Object(fields(inner, depth + 1)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &Value, other: &Value) -> bool {
        meaning(one.as_object().expect("an object")) == meaning(other.as_object().expect("an object"))
    }

    #[test]
    fn what_a_program_in_go_writes_back_means_the_same() {
        let written = json!({ "ttl": "36h", "includedResources": ["pods"], "snapshotVolumes": false });
        let back = json!({
            "ttl": "36h0m0s", "csiSnapshotTimeout": "0s", "itemOperationTimeout": "0s", "hooks": {}, "metadata": { "labels": null },
            "includedResources": ["pods"], "excludedResources": null, "snapshotVolumes": false, "storageLocation": "",
            "uploaderConfig": { "parallelFilesUpload": 0 },
        });
        assert!(same(&written, &back));
    }

    #[test]
    fn what_asks_for_something_else_does_not() {
        let written = json!({ "ttl": "36h", "snapshotVolumes": false, "hooks": { "resources": [{ "name": "a" }] } });
        for other in [
            json!({ "ttl": "35h", "snapshotVolumes": false, "hooks": { "resources": [{ "name": "a" }] } }),
            json!({ "ttl": "36h", "hooks": { "resources": [{ "name": "a" }] } }),
            json!({ "ttl": "36h", "snapshotVolumes": false, "hooks": { "resources": [{ "name": "b" }] } }),
            json!({ "ttl": "36h", "snapshotVolumes": false, "hooks": { "resources": [{ "name": "a" }, {}] } }),
            json!({ "ttl": "36h", "snapshotVolumes": false }),
        ] {
            assert!(!same(&written, &other), "{other}");
        }
    }
}
