//! What an object has beyond its manifest. An apply leaves alone what others added; where an object is to be what its class says and
//! nothing else, this takes it away.

use serde_json::{Map, Value, json};

use crate::quantity::Quantity;

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
    let said = if extent == Extent::Owned { ignored(manifest) } else { Vec::new() };
    for pointer in said.into_iter().chain(set_for_good(manifest)).chain(made_with(manifest)) {
        forget(&mut live, &pointer);
    }
    let kept = if extent == Extent::Whole { held_by(manifest) } else { Vec::new() };
    let (Value::Object(live), Value::Object(manifest)) = (live, manifest) else { return None };
    let mut patch = Map::new();
    for (key, value) in live.iter().filter(|(key, _)| !NOT_OURS.contains(&key.as_str())) {
        let taken = match key.as_str() {
            "metadata" => beyond_metadata(value, manifest.get(key), extent, &kept),
            _ => beyond(value, manifest.get(key)),
        };
        patch.extend(taken.map(|taken| (key.clone(), taken)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Whether an object (a `ConfigMap` or `Secret`) forbids that anything in it changes, and its manifest does not.
pub fn is_locked(live: &Value, manifest: &Value) -> bool {
    let says = |object: &Value| object.get("immutable").and_then(Value::as_bool).unwrap_or_default();
    says(live) && !says(manifest)
}

/// What the cluster sets once and for all: a claim is bound to its volume.
fn set_for_good(manifest: &Value) -> Option<Vec<String>> {
    let is_claim = manifest.get("kind").and_then(Value::as_str) == Some("PersistentVolumeClaim");
    is_claim.then(|| ["spec", "volumeName"].map(str::to_owned).into())
}

/// What a claim was made with and can never change: where it is not the class that says so, the cluster chose it, or who brought it
/// back out of a backup; and with another claim its data would be gone.
fn made_with(manifest: &Value) -> Vec<Vec<String>> {
    let is_claim = manifest.get("kind").and_then(Value::as_str) == Some("PersistentVolumeClaim");
    let fields: &[&str] =
        if is_claim { &["dataSource", "dataSourceRef", "selector", "storageClassName", "volumeMode"] } else { &[] };
    fields.iter().map(|field| ["spec", field].map(str::to_owned).into()).collect()
}

/// A merge patch that takes away what `former` set and `manifest` does not, where `live` still has it so. Members of lists are left to
/// the apply: only the API server knows which is which. What `manifest` leaves to others from now on is theirs as it is.
pub fn dropped(live: &Value, former: &Value, manifest: &Value) -> Option<Value> {
    let left_to_others = ignored(manifest);
    if left_to_others.is_empty() {
        return left_of(live, former, Some(manifest));
    }
    let mut former = former.clone();
    for pointer in left_to_others {
        forget(&mut former, &pointer);
    }
    left_of(live, &former, Some(manifest))
}

fn left_of(live: &Value, former: &Value, wanted: Option<&Value>) -> Option<Value> {
    match (live, former, wanted) {
        (Value::Object(live), Value::Object(former), None | Some(Value::Object(_))) => {
            let wanted_at = |key: &String| wanted.and_then(|wanted| wanted.get(key));
            let taken = former
                .iter()
                .filter_map(|(key, former)| Some((key.clone(), left_of(live.get(key)?, former, wanted_at(key))?)));
            let patch: Map<_, _> = taken.collect();
            let is_all = live.keys().all(|key| patch.get(key).is_some_and(Value::is_null));
            if wanted.is_none() && is_all {
                return Some(Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (_, _, Some(_)) => None,
        (live, former, None) => shows(live, former).then_some(Value::Null),
    }
}

/// Whether all of `set` is in `live`: the API server may have set more beside it, and writes quantities in its own way.
fn shows(live: &Value, set: &Value) -> bool {
    match (live, set) {
        (Value::Object(live), Value::Object(set)) => {
            set.iter().all(|(key, set)| live.get(key).is_some_and(|live| shows(live, set)))
        }
        (Value::Array(live), Value::Array(set)) => {
            live.len() == set.len() && live.iter().zip(set).all(|(live, set)| shows(live, set))
        }
        (live, set) => live == set || is_same_quantity(live, set),
    }
}

fn is_same_quantity(live: &Value, set: &Value) -> bool {
    let quantity = |value: &Value| match value {
        Value::String(text) => text.parse::<Quantity>().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    quantity(live).is_some_and(|live| quantity(set) == Some(live))
}

/// One patch that does what both do.
pub(super) fn union(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            for (key, value) in other {
                let both = match one.remove(&key) {
                    Some(known) => union(known, value),
                    None => value,
                };
                one.insert(key, both);
            }
            Value::Object(one)
        }
        (one, _) => one,
    }
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

/// As [`with_values`], but for lists: others may have members of their own there.
pub(super) fn with_plain_values(excess: Value, manifest: &Value) -> Value {
    with_values(excess, &without_lists(manifest))
}

fn without_lists(value: &Value) -> Value {
    let Value::Object(all) = value else { return value.clone() };
    let plain = all.iter().filter(|(_, value)| !value.is_array());
    plain.map(|(key, value)| (key.clone(), without_lists(value))).collect::<Map<_, _>>().into()
}

/// The finalizers that `excess` leaves on an object, where it takes any off.
pub(super) fn finalizers_left(excess: &Value) -> Option<Vec<String>> {
    let left = excess.get("metadata")?.get("finalizers")?.as_array()?;
    Some(left.iter().filter_map(Value::as_str).map(str::to_owned).collect())
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
    for pointer in ignored(manifest).into_iter().chain(set_for_good(manifest)) {
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

/// By these the cluster itself holds what must not go yet, whoever made it.
const HELD_BY_CLUSTER: [&str; 4] =
    ["foregroundDeletion", "kubernetes.io/pvc-protection", "orphan", "service.kubernetes.io/load-balancer-cleanup"];

/// By these our own parts hold what they have to clean up after, kind by kind: whoever put them on takes them off.
pub const HELD_BY_PARTS: [(&str, &str, &str); 6] = [
    ("croft.dev", "BackupVault", "croft.dev/backupvault"),
    ("oadp.openshift.io", "NonAdminBackup", "nonadminbackup.oadp.openshift.io/finalizer"),
    ("oadp.openshift.io", "NonAdminBackupStorageLocation", "nonadminbackupstoragelocation.oadp.openshift.io/finalizer"),
    ("oadp.openshift.io", "NonAdminRestore", "nonadminrestore.oadp.openshift.io/finalizer"),
    ("s3.snappcloud.io", "S3Bucket", "s3.snappcloud.io/cleanup-s3bucket"),
    ("s3.snappcloud.io", "S3UserClaim", "s3.snappcloud.io/cleanup-s3userclaim"),
];

/// The finalizers that stay on an object of this kind.
fn held_by(manifest: &Value) -> Vec<&'static str> {
    let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let parts = HELD_BY_PARTS.into_iter().filter(|(of, kind, _)| (*of, *kind) == (group, text("kind")));
    parts.map(|(_, _, finalizer)| finalizer).chain(HELD_BY_CLUSTER).collect()
}

fn beyond_metadata(live: &Value, manifest: Option<&Value>, extent: Extent, held_by: &[&str]) -> Option<Value> {
    let mut patch = Map::new();
    for field in OF_AUTHORS {
        let wanted = manifest.and_then(|manifest| manifest.get(field));
        let is_ours = wanted.is_some() || extent == Extent::Whole;
        let taken = live.get(field).filter(|_| is_ours).and_then(|live| beyond(live, wanted));
        patch.extend(taken.map(|taken| (field.to_owned(), taken)));
    }
    if extent == Extent::Whole {
        patch.extend(finalizers_beyond(live, held_by).map(|left| ("finalizers".to_owned(), left)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// What is left of the finalizers once those are gone by which somebody holds it: no manifest sets any.
fn finalizers_beyond(live: &Value, held_by: &[&str]) -> Option<Value> {
    let all = live.get("finalizers")?.as_array()?;
    let stays = |finalizer: &&Value| finalizer.as_str().is_some_and(|it| held_by.contains(&it));
    let kept: Vec<_> = all.iter().filter(stays).collect();
    (kept.len() < all.len()).then(|| json!(kept))
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
        // A list cannot be patched in part, and which members an apply would leave in it only the API server knows.
        (live @ Value::Array(_), Some(list @ Value::Array(_))) => (live != list).then(|| list.clone()),
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
        live["metadata"]["finalizers"] = json!(["theirs", "service.kubernetes.io/load-balancer-cleanup"]);
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
                "metadata": {
                    "labels": {"theirs": null}, "annotations": null,
                    "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
                },
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
    fn what_a_class_has_dropped_goes_where_it_is_still_what_was_set() {
        let former = json!({
            "metadata": {"labels": {"kept": "1", "gone": "1"}},
            "spec": {"ingress": [{"from": []}], "policyTypes": ["Ingress"], "limit": "1000m", "selector": {"a": "b"}},
        });
        let manifest = json!({"metadata": {"labels": {"kept": "2"}}, "spec": {"policyTypes": ["Ingress"]}});
        let mut live = former.clone();
        live["spec"]["ingress"][0]["ports"] = json!([]);
        live["spec"]["limit"] = json!("1");
        live["spec"]["selector"]["theirs"] = json!("x");
        live["spec"]["more"] = json!("theirs");
        let labels = json!({"labels": {"gone": null}});
        assert_eq!(
            dropped(&live, &former, &manifest),
            Some(json!({"metadata": labels, "spec": {"ingress": null, "limit": null, "selector": {"a": null}}}))
        );
        live["spec"]["limit"] = json!("2");
        live["spec"]["ingress"] = json!([{"from": ["theirs"]}]);
        live["metadata"]["labels"]["gone"] = json!("theirs");
        live["spec"]["selector"] = json!({"a": "b"});
        assert_eq!(dropped(&live, &former, &manifest), Some(json!({"spec": {"selector": null}})));
        assert_eq!(dropped(&former, &former, &former), None);
    }

    #[test]
    fn what_excludes_what_was_dropped_is_written_with_it_and_lists_of_others_stay() {
        let manifest = json!({"metadata": {"name": "a"}, "spec": {"maxUnavailable": 1, "ports": [{"port": 80}]}});
        assert_eq!(
            with_plain_values(json!({"spec": {"minAvailable": null}}), &manifest),
            json!({"metadata": {}, "spec": {"minAvailable": null, "maxUnavailable": 1}})
        );
        assert_eq!(finalizers_left(&json!({"data": null})), None);
    }

    #[test]
    fn finalizers_of_our_own_parts_are_not_taken_off() {
        let own = [
            ("s3.snappcloud.io/v1alpha1", "S3UserClaim", "s3.snappcloud.io/cleanup-s3userclaim"),
            ("s3.snappcloud.io/v1alpha1", "S3Bucket", "s3.snappcloud.io/cleanup-s3bucket"),
            ("croft.dev/v1alpha1", "BackupVault", "croft.dev/backupvault"),
            ("oadp.openshift.io/v1alpha1", "NonAdminBackup", "nonadminbackup.oadp.openshift.io/finalizer"),
        ];
        for (api_version, kind, finalizer) in own {
            let manifest =
                |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {}});
            let live = json!({"metadata": {"finalizers": ["theirs", finalizer]}});
            let left = |patch: Option<Value>| patch.unwrap()["metadata"]["finalizers"].clone();
            assert_eq!(left(excess(&live, &manifest(api_version, kind), Extent::Whole)), json!([finalizer]));
            let elsewhere = excess(&live, &manifest("v1", "ConfigMap"), Extent::Whole);
            assert_eq!(left(elsewhere), json!([]), "nobody would take it off");
        }
    }

    #[test]
    fn what_a_claim_was_made_with_stays_in_it() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let mut live = manifest.clone();
        for (field, value) in [("storageClassName", "fast"), ("volumeMode", "Filesystem"), ("volumeName", "pv")] {
            live["spec"][field] = value.into();
        }
        live["spec"]["dataSource"] = json!({"kind": "VolumeSnapshot", "name": "backup"});
        live["metadata"]["labels"] = json!({"theirs": "1"});
        assert_eq!(excess(&live, &manifest, Extent::Whole), Some(json!({"metadata": {"labels": null}})));
    }

    #[test]
    fn what_is_wanted_and_otherwise_is_left_to_the_apply() {
        let (live, manifest) =
            (json!({"data": {"a": "x", "b": [1]}}), json!({"data": {"a": "y", "b": "text", "c": "z"}}));
        assert_eq!(excess(&live, &manifest, Extent::Whole), None);
    }
}
