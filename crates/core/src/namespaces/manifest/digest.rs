//! Manifests told apart: fingerprints and shapes.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A short, stable fingerprint of a manifest, whatever the order of its keys.
pub fn digest(value: &Value) -> String {
    short(&Sha256::digest(canonical(value)))
}

/// The same text for the same value, whatever the order of its keys.
pub(in crate::namespaces) fn canonical(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    write_canonical(value, &mut text);
    text
}

/// The first bytes of a hash are enough to tell things apart,
pub(in crate::namespaces) fn short(hash: &[u8]) -> String {
    hex(hash, 8)
}

/// and twice as many also where somebody looks for two things that cannot be told apart.
pub(in crate::namespaces) fn long(hash: &[u8]) -> String {
    hex(hash, 16)
}

fn hex(hash: &[u8], bytes: usize) -> String {
    let digits = hash.iter().take(bytes).flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// As [`digest`], of the paths only: the same fields with other values have the same shape.
pub fn shape(value: &Value) -> String {
    let mut text = Vec::new();
    write_shape(value, &mut text);
    short(&Sha256::digest(text))
}

fn write_shape(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => write_object(map, out, write_shape),
        // Members of lists may be told apart by any of their fields: any change counts.
        Value::Array(_) => write_canonical(value, out),
        _ => write_canonical(&Value::Null, out),
    }
}

/// Part of a canonical text: `value`.
pub(in crate::namespaces) fn write_canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => write_object(map, out, write_canonical),
        Value::Array(list) => write_list(list, out, write_canonical),
        other => write_json(other, out),
    }
}

/// Part of a canonical text: an object of these fields, the value of each written by `write`.
pub(in crate::namespaces) fn write_object<'v, V>(
    fields: impl IntoIterator<Item = (&'v String, V)>,
    out: &mut Vec<u8>,
    write: impl Fn(V, &mut Vec<u8>),
) {
    let mut fields: Vec<_> = fields.into_iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    out.push(b'{');
    for (key, value) in fields {
        write_json(key, out);
        out.push(b':');
        write(value, out);
        out.push(b',');
    }
    out.push(b'}');
}

/// Part of a canonical text: a list of these members, each written by `write`.
pub(in crate::namespaces) fn write_list<V>(
    members: impl IntoIterator<Item = V>,
    out: &mut Vec<u8>,
    write: impl Fn(V, &mut Vec<u8>),
) {
    out.push(b'[');
    for member in members {
        write(member, out);
        out.push(b',');
    }
    out.push(b']');
}

fn write_json<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Texts, numbers and the like, into memory: this cannot fail.
    let _ = serde_json::to_writer(out, value);
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
    fn a_shape_stays_as_it_is_because_it_is_on_record() {
        let value = json!({"b": [1, {"x": "y"}], "a": {"c": "text", "d": 5, "e": {}}});
        assert_eq!(shape(&value), digest(&json!({"b": [1, {"x": "y"}], "a": {"c": null, "d": null, "e": {}}})));
    }

    #[test]
    fn the_canonical_text_stays_as_it_is_because_digests_of_it_are_on_record() {
        let value = json!({"b": [1, -2.5, null, true], "a": {"tab\t\"quoted\"": "ü\n"}});
        assert_eq!(
            String::from_utf8(canonical(&value)).unwrap(),
            r#"{"a":{"tab\t\"quoted\"":"ü\n",},"b":[1,-2.5,null,true,],}"#
        );
        assert_eq!(digest(&value), "ef1eabdf06c72b8b");
    }

    #[test]
    fn a_digest_does_not_depend_on_the_order_of_keys() {
        let one: Value = serde_json::from_str(r#"{"a": {"x": 1, "y": [2, 3]}, "b": "c"}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"b": "c", "a": {"y": [2, 3], "x": 1}}"#).unwrap();
        assert_eq!(digest(&one), digest(&other));
        assert_ne!(digest(&one), digest(&json!({"a": {"x": 1, "y": [3, 2]}, "b": "c"})));
    }
}
