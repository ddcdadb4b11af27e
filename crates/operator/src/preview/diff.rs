//! Where two versions of an object differ. Paths only: values may be secret.

use serde_json::{Map, Value};

/// Metadata that moves with every write and means nothing by itself.
const BOOKKEEPING: [&str; 4] = ["creationTimestamp", "generation", "managedFields", "resourceVersion"];

/// The fields in which `after` differs from `before`, apart from the bookkeeping of the API server and the status.
pub(super) fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    walk("", &essence(before), &essence(after), &mut changed);
    changed
}

fn essence(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, _| !BOOKKEEPING.contains(&key.as_str()));
        }
    }
    object
}

fn walk(path: &str, before: &Value, after: &Value, changed: &mut Vec<String>) {
    if before == after {
        return;
    }
    let known = changed.len();
    let none = Map::new();
    match (before.as_object(), after.as_object()) {
        (Some(before), Some(after)) => walk_maps(path, before, after, changed),
        (Some(before), None) if after.is_null() => walk_maps(path, before, &none, changed),
        (None, Some(after)) if before.is_null() => walk_maps(path, &none, after, changed),
        _ => {}
    }
    // Not two maps, or an empty one that comes or goes.
    if changed.len() == known {
        changed.push(path.to_owned());
    }
}

fn walk_maps(path: &str, before: &Map<String, Value>, after: &Map<String, Value>, changed: &mut Vec<String>) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let value = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
        walk(&joined(path, key), &value(before), &value(after), changed);
    }
}

/// `metadata.labels["a.b/c"]`: a key with a dot in it is not two.
pub(super) fn joined(path: &str, key: &str) -> String {
    match (path.is_empty(), key.contains('.')) {
        (true, _) => key.to_owned(),
        (false, false) => format!("{path}.{key}"),
        (false, true) => format!("{path}[{key:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_somebody_meant_to_change_counts() {
        let before = json!({"metadata": {"name": "a", "resourceVersion": "1", "generation": 1, "labels": {"x.io/k": "1"}},
                            "data": {"a": "1", "b": "2"}, "spec": {"list": [1]}, "status": {"n": 1}});
        let after = json!({"metadata": {"name": "a", "resourceVersion": "2", "generation": 2, "labels": {"x.io/k": "2"}},
                           "data": {"a": "1", "c": "3"}, "spec": {"list": [2]}, "status": {"n": 2}});
        assert_eq!(changed_fields(&before, &after), ["data.b", "data.c", r#"metadata.labels["x.io/k"]"#, "spec.list"]);
        assert_eq!(changed_fields(&before, &before), [""; 0]);
        let bare = json!({"data": {"a": "1", "b": "2"}, "spec": {}});
        assert_eq!(changed_fields(&bare, &json!({"spec": {"empty": {}}})), ["data.a", "data.b", "spec.empty"]);
    }
}
