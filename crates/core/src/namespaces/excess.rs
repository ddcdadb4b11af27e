//! What an object has beyond its manifest. An apply leaves alone what others added; where an object is to be what its class says and
//! nothing else, this takes it away.

use serde_json::{Map, Value};

/// What the API server keeps, and what is never part of a manifest.
const NOT_OURS: [&str; 3] = ["apiVersion", "kind", "status"];

/// On an object of a class: JSON pointers to what others may add where drift is corrected exactly, separated by commas.
const IGNORED: &str = "namespaceclass.akuity.io/ignore-fields";

/// How much of an object is its manifest's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The maps and lists it sets, and of metadata what it sets; not what it says is left to others.
    Owned,
    /// Everything: whoever made it is no part of it.
    Whole,
}

/// A merge patch that takes away what `live` has beyond `manifest`. What the API server has set itself goes with it, and is set
/// by it again.
pub fn excess(live: &Value, manifest: &Value, extent: Extent) -> Option<Value> {
    let mut live = live.clone();
    if extent == Extent::Owned {
        for pointer in ignored(manifest) {
            forget(&mut live, &pointer);
        }
    }
    let (Value::Object(live), Value::Object(manifest)) = (live, manifest) else { return None };
    let mut patch = Map::new();
    for (key, value) in live.iter().filter(|(key, _)| !NOT_OURS.contains(&key.as_str())) {
        let taken = match key.as_str() {
            "metadata" => beyond_metadata(value, manifest.get(key), extent),
            _ => beyond(value, manifest.get(key)),
        };
        patch.extend(taken.map(|taken| (key.clone(), taken)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The same patch with all that `manifest` says: some objects are valid only if both are done at once.
pub(super) fn with_values(excess: Value, manifest: &Value) -> Value {
    let Value::Object(mut values) = manifest.clone() else { return excess };
    values.retain(|key, _| !NOT_OURS.contains(&key.as_str()));
    if let Some(Value::Object(metadata)) = values.get_mut("metadata") {
        metadata.retain(|field, _| OF_AUTHORS.contains(&field.as_str()));
    }
    let mut patch = excess;
    add(&mut patch, Value::Object(values));
    patch
}

/// Puts `values` into a patch that mentions none of them.
fn add(patch: &mut Value, values: Value) {
    match (patch, values) {
        (Value::Object(patch), Value::Object(values)) => {
            for (key, value) in values {
                add(patch.entry(key).or_insert(Value::Null), value);
            }
        }
        (patch, value) => *patch = value,
    }
}

/// What of an object is compared where it is to be exactly its manifest.
pub(super) fn owned(live: &Value, manifest: &Value) -> Value {
    let mut live = live.clone();
    for pointer in ignored(manifest) {
        forget(&mut live, &pointer);
    }
    let Value::Object(all) = &mut live else { return live };
    all.remove("status");
    if let Some(Value::Object(metadata)) = all.get_mut("metadata") {
        let is_set = |field: &str| manifest.get("metadata").and_then(|metadata| metadata.get(field)).is_some();
        metadata.retain(|field, _| OF_AUTHORS.contains(&field.as_str()) && is_set(field));
    }
    live
}

/// The places that a manifest leaves to others.
fn ignored(manifest: &Value) -> Vec<Vec<String>> {
    let named = manifest.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(IGNORED)?.as_str());
    let pointers = named.unwrap_or_default().split(',').map(str::trim).filter(|pointer| pointer.starts_with('/'));
    let steps =
        |pointer: &str| pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    pointers.map(steps).collect()
}

/// Takes one place out of a value.
fn forget(value: &mut Value, pointer: &[String]) {
    match (value, pointer) {
        (Value::Object(map), [last]) => drop(map.remove(last)),
        (Value::Object(map), [first, rest @ ..]) => {
            if let Some(inner) = map.get_mut(first) {
                forget(inner, rest);
            }
        }
        _ => {}
    }
}

/// Of metadata only what authors write is compared.
const OF_AUTHORS: [&str; 3] = ["labels", "annotations", "ownerReferences"];

fn beyond_metadata(live: &Value, manifest: Option<&Value>, extent: Extent) -> Option<Value> {
    let mut patch = Map::new();
    for field in OF_AUTHORS {
        let wanted = manifest.and_then(|manifest| manifest.get(field));
        let is_ours = wanted.is_some() || extent == Extent::Whole;
        let taken = live.get(field).filter(|_| is_ours).and_then(|live| beyond(live, wanted));
        patch.extend(taken.map(|taken| (field.to_owned(), taken)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// What to write over a value so that nothing of it is left that is not wanted. What is wanted and missing is not its concern.
fn beyond(live: &Value, wanted: Option<&Value>) -> Option<Value> {
    match (live, wanted) {
        (_, None) => Some(Value::Null),
        (Value::Object(live), Some(Value::Object(wanted))) => {
            let taken = live.iter().filter_map(|(key, value)| Some((key.clone(), beyond(value, wanted.get(key))?)));
            let patch: Map<_, _> = taken.collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        // A list cannot be patched in part.
        (Value::Array(live), Some(list @ Value::Array(wanted))) => {
            let members = live.len() > wanted.len()
                || live.iter().zip(wanted).any(|(live, wanted)| beyond(live, Some(wanted)).is_some());
            members.then(|| list.clone())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_others_added_is_taken_away_and_nothing_else() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"ours": "1"}, "ownerReferences": [{"uid": "b"}]},
            "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
        });
        assert_eq!(excess(&manifest, &manifest, Extent::Whole), None);
        let mut live = manifest.clone();
        live["metadata"]["uid"] = json!("u");
        live["metadata"]["finalizers"] = json!(["theirs"]);
        live["metadata"]["labels"]["theirs"] = json!("1");
        live["metadata"]["annotations"] = json!({"theirs": "1"});
        live["spec"]["selector"]["more"] = json!("x");
        live["spec"]["externalIPs"] = json!(["10.0.0.1"]);
        live["spec"]["ports"] = json!([{"port": 80, "protocol": "TCP"}, {"port": 81}]);
        live["status"] = json!({"a": 1});
        let patch = excess(&live, &manifest, Extent::Whole).unwrap();
        assert_eq!(
            patch,
            json!({
                "metadata": {"labels": {"theirs": null}, "annotations": null},
                "spec": {"selector": {"more": null}, "externalIPs": null, "ports": [{"port": 80}]},
            })
        );
    }

    #[test]
    fn what_a_manifest_leaves_to_others_stays_and_so_does_metadata_it_does_not_set() {
        let manifest = json!({
            "metadata": {"annotations": {IGNORED: "/data/theirs, /metadata/annotations/a~1b"}, "labels": {}},
            "data": {"ours": "1"},
        });
        let mut live = manifest.clone();
        live["metadata"]["annotations"]["a/b"] = json!("1");
        live["metadata"]["ownerReferences"] = json!([{"uid": "other"}]);
        live["data"]["theirs"] = json!("1");
        assert_eq!(excess(&live, &manifest, Extent::Owned), None);
        assert_eq!(owned(&live, &manifest), owned(&manifest, &manifest));
        live["data"]["more"] = json!("1");
        assert_eq!(excess(&live, &manifest, Extent::Owned), Some(json!({"data": {"more": null}})));
        assert_ne!(owned(&live, &manifest), owned(&manifest, &manifest));
    }

    #[test]
    fn values_may_be_written_with_what_is_taken_away() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "labels": {"ours": "1"}},
            "spec": {"type": "ClusterIP", "ports": [{"port": 80}]},
        });
        let taken = json!({"metadata": {"labels": {"theirs": null}}, "spec": {"externalName": null}, "data": null});
        assert_eq!(
            with_values(taken, &manifest),
            json!({
                "metadata": {"labels": {"ours": "1", "theirs": null}},
                "spec": {"type": "ClusterIP", "ports": [{"port": 80}], "externalName": null},
                "data": null,
            })
        );
    }

    #[test]
    fn what_is_wanted_and_otherwise_is_left_to_the_apply() {
        let (live, manifest) =
            (json!({"data": {"a": "x", "b": [1]}}), json!({"data": {"a": "y", "b": "text", "c": "z"}}));
        assert_eq!(excess(&live, &manifest, Extent::Whole), None);
    }
}
