//! Manifests told apart and compared: fingerprints, shapes, and whether an object shows what a manifest says.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A short, stable fingerprint of a manifest, whatever the order of its keys.
pub fn digest(value: &Value) -> String {
    let mut canonical = String::new();
    write_canonical(value, &mut canonical);
    let hash = Sha256::digest(canonical.as_bytes());
    hash.iter().take(8).fold(String::new(), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// As [`digest`], of the paths only: the same fields with other values have the same shape.
pub fn shape(value: &Value) -> String {
    digest(&without_values(value))
}

/// Whether a live object has every value of a manifest; what it has beyond them does not matter.
pub fn shows(live: &Value, manifest: &Value) -> bool {
    match (live, manifest) {
        (Value::Object(live), Value::Object(manifest)) => {
            manifest.iter().all(|(key, value)| live.get(key).is_some_and(|live| shows(live, value)))
        }
        (Value::Array(live), Value::Array(manifest)) => {
            live.len() == manifest.len() && live.iter().zip(manifest).all(|(live, value)| shows(live, value))
        }
        _ => live == manifest,
    }
}

fn without_values(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), without_values(value))).collect(),
        // Members of lists may be told apart by any of their fields: any change counts.
        Value::Array(_) => value.clone(),
        _ => Value::Null,
    }
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (key, value) in fields {
                let _ = write!(out, "{}:", Value::String(key.clone()));
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for item in list {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shape_changes_with_the_fields_and_not_with_their_values() {
        let one = shape(&json!({"data": {"a": "1", "b": "2"}}));
        assert_eq!(one, shape(&json!({"data": {"b": "x", "a": "y"}})));
        assert_ne!(one, shape(&json!({"data": {"a": "1"}})));
    }

    #[test]
    fn a_digest_does_not_depend_on_the_order_of_keys() {
        let one: Value = serde_json::from_str(r#"{"a": {"x": 1, "y": [2, 3]}, "b": "c"}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": "c", "a": {"y": [2, 3], "x": 1}}"#).unwrap();
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({"a": {"x": 1, "y": [3, 2]}, "b": "c"})));
    }
}
