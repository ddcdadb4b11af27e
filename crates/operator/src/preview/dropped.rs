//! Fields an object has from us that its class no longer sets.
//!
//! The operator first takes an object it created over into apply, and then the API server removes what the class dropped. A
//! dry run of the apply alone, on an object not taken over, would not show it.

use serde_json::{Map, Value};

use crate::namespaces::stamping::STAMP_MANAGER;

#[derive(Debug, Default, PartialEq)]
pub(super) struct Dropped {
    /// A merge patch that takes the fields out: the API server then tells which of them come back by default.
    pub(super) patch: Map<String, Value>,
    /// Lists that lose a member.
    pub(super) lists: Vec<String>,
}

/// What our entry in `managed` owns and `manifest` does not set.
pub(super) fn dropped(managed: &Value, manifest: &Value) -> Dropped {
    let mut lists = Vec::new();
    let ours = |entry: &&Value| entry["manager"] == STAMP_MANAGER && entry["operation"] == "Apply";
    let owned = managed.as_array().into_iter().flatten().find(ours).map(|entry| &entry["fieldsV1"]);
    let patch = owned.and_then(Value::as_object).map(|owned| walk("", owned, manifest, &mut lists)).unwrap_or_default();
    Dropped { patch, lists }
}

fn walk(place: &str, owned: &Map<String, Value>, manifest: &Value, lists: &mut Vec<String>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, below) in owned {
        match (key.split_once(':'), below.as_object()) {
            (Some(("f", name)), Some(below)) => match manifest.get(name) {
                None => {
                    patch.insert(name.to_owned(), Value::Null);
                }
                Some(value) => {
                    let inner = walk(&super::diff::joined(place, name), below, value, lists);
                    if !inner.is_empty() {
                        patch.insert(name.to_owned(), Value::Object(inner));
                    }
                }
            },
            (Some((form @ ("k" | "v"), member)), _)
                if !has_member(manifest, form, member) && !lists.iter().any(|list| list == place) =>
            {
                lists.push(place.to_owned());
            }
            _ => {}
        }
    }
    patch
}

/// Whether a list has the member that managedFields calls `k:{...}` or `v:...`. A key the manifest leaves out has its default.
fn has_member(list: &Value, form: &str, member: &str) -> bool {
    let Ok(member) = serde_json::from_str::<Value>(member) else { return true };
    let mut items = list.as_array().into_iter().flatten();
    match member.as_object() {
        Some(keys) if form == "k" => {
            items.any(|item| keys.iter().all(|(key, value)| item.get(key).is_none_or(|has| has == value)))
        }
        _ => items.any(|item| *item == member),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_and_members_of_lists_the_class_no_longer_sets_are_found() {
        let managed = json!([
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:theirs": {}}}},
            {"manager": "croft", "operation": "Apply", "fieldsV1": {
                "f:data": {".": {}, "f:kept": {}, "f:gone": {}},
                "f:spec": {"f:ports": {".": {}, r#"k:{"port":80,"protocol":"TCP"}"#: {"f:port": {}}, r#"k:{"port":81,"protocol":"TCP"}"#: {}}},
            }},
        ]);
        let manifest = json!({"data": {"kept": "1"}, "spec": {"ports": [{"port": 80}]}});
        let found = dropped(&managed, &manifest);
        assert_eq!(Value::Object(found.patch), json!({"data": {"gone": null}}));
        assert_eq!(found.lists, ["spec.ports"]);
        let same = json!({"data": {"kept": "1", "gone": "2"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}});
        assert_eq!(dropped(&managed, &same), Dropped::default());
    }
}
