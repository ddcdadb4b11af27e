//! Where an object differs from its manifest, in the words of its author: never by its values, which may be secret.

use serde_json::Value;

use super::field::{Step, path};

/// The first place that `manifest` sets and `live` has otherwise. A value may be written in another way by the API server, so one that
/// is gone or of another type comes first.
pub fn first(live: &Value, manifest: &Value) -> Option<String> {
    let mut found = Vec::new();
    search(live, manifest, &mut Vec::new(), &mut found);
    found.sort_by_key(|(is_written_otherwise, _)| *is_written_otherwise);
    found.into_iter().next().map(|(_, place)| place)
}

fn search<'m>(live: &Value, manifest: &'m Value, at: &mut Vec<Step<'m>>, found: &mut Vec<(bool, String)>) {
    match (live, manifest) {
        (Value::Object(live), Value::Object(manifest)) => {
            for (key, value) in manifest {
                at.push(Step::Key(key));
                search(live.get(key).unwrap_or(&Value::Null), value, at, found);
                at.pop();
            }
        }
        (Value::Array(live), Value::Array(manifest)) if live.len() == manifest.len() => {
            for (index, (live, value)) in live.iter().zip(manifest).enumerate() {
                at.push(Step::Index(index));
                search(live, value, at, found);
                at.pop();
            }
        }
        _ if live == manifest => {}
        _ => found.push((is_written_otherwise(live, manifest), path("", at))),
    }
}

/// Whether two values may mean the same: numbers with a unit, and numbers as text.
fn is_written_otherwise(live: &Value, manifest: &Value) -> bool {
    let begins_with_digit = |value: &Value| match value {
        Value::String(text) => text.starts_with(|letter: char| letter.is_ascii_digit()),
        Value::Number(_) => true,
        _ => false,
    };
    begins_with_digit(live) && begins_with_digit(manifest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_named_by_its_place() {
        let manifest = json!({"data": {"a": "1", "b": "x"}, "spec": {"ports": [{"port": 80}]}});
        assert_eq!(first(&manifest, &manifest), None);
        let mut live = manifest.clone();
        live["spec"]["ports"][0]["port"] = json!(81);
        assert_eq!(first(&live, &manifest).as_deref(), Some("spec.ports[0].port"));
        live["data"]["b"] = json!("y");
        assert_eq!(first(&live, &manifest).as_deref(), Some("data.b"), "surely another value");
        live["data"] = json!(null);
        assert_eq!(first(&live, &manifest).as_deref(), Some("data"));
    }

    #[test]
    fn what_others_add_is_no_difference() {
        assert_eq!(first(&json!({"a": 1, "b": 2}), &json!({"a": 1})), None);
    }
}
