//! What a release stored is read by every later one, and its kinds take it.
//!
//! `released/<version>/` holds the CRDs of a release and objects of every kind with every field of their status. It only ever grows.
//! Whether the API server takes the objects, rules included, is tried on a real one: `crates/operator/tests/upgrade`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use croft_api::{backup, namespaces, storage};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Rules that came after a release, each with why it refuses nothing that is stored.
const JUDGED: &[(&str, &str)] = &[("self == oldSelf", "about changes only: what is stored equals itself")];

fn releases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/released");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn objects() -> Vec<(PathBuf, Value)> {
    let files = releases().into_iter().flat_map(|release| fs::read_dir(release.join("objects")).unwrap());
    files
        .map(|entry| {
            let path = entry.unwrap().path();
            let object = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            (path, object)
        })
        .collect()
}

fn read_back<K: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, String> {
    let read: K = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    serde_json::to_value(read).map_err(|error| error.to_string())
}

fn read(object: &Value) -> Result<Value, String> {
    match object["kind"].as_str().unwrap_or_default() {
        "NamespaceClass" => read_back::<namespaces::NamespaceClass>(object),
        "NamespaceClassBinding" => read_back::<namespaces::NamespaceClassBinding>(object),
        "S3UserClaim" => read_back::<storage::S3UserClaim>(object),
        "S3User" => read_back::<storage::S3User>(object),
        "S3Bucket" => read_back::<storage::S3Bucket>(object),
        "S3Class" => read_back::<storage::S3Class>(object),
        "S3TeamQuota" => read_back::<storage::S3TeamQuota>(object),
        "S3QuotaLedger" => read_back::<storage::S3QuotaLedger>(object),
        "UserMigration" => read_back::<storage::UserMigration>(object),
        "NonAdminBackup" => read_back::<backup::NonAdminBackup>(object),
        "NonAdminRestore" => read_back::<backup::NonAdminRestore>(object),
        "NonAdminBackupStorageLocation" => read_back::<backup::NonAdminBackupStorageLocation>(object),
        "NonAdminBackupStorageLocationRequest" => read_back::<backup::NonAdminBackupStorageLocationRequest>(object),
        "NonAdminDownloadRequest" => read_back::<backup::NonAdminDownloadRequest>(object),
        "BackupVault" => read_back::<backup::BackupVault>(object),
        "BackupSchedule" => read_back::<backup::BackupSchedule>(object),
        other => Err(format!("no kind of ours: {other}")),
    }
}

#[test]
fn every_object_a_release_stored_is_read() {
    for (path, object) in objects() {
        let read = read(&object).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // What is not known any more would be dropped with the next status that is written.
        let lost: Vec<_> = paths(&object["status"]).difference(&paths(&read["status"])).cloned().collect();
        assert!(lost.is_empty(), "{}: {lost:?} of the status is not known any more", path.display());
    }
}

#[test]
fn every_kind_is_among_the_stored_objects() {
    let stored: BTreeSet<_> = objects().iter().map(|(_, object)| object["kind"].as_str().unwrap().to_owned()).collect();
    let kinds: BTreeSet<_> = croft_api::crds().into_iter().map(|crd| crd.spec.names.kind).collect();
    assert_eq!(stored, kinds);
}

/// Every path that leads to a value, whatever the value is.
fn paths(value: &Value) -> BTreeSet<String> {
    let below = |key: String, value: &Value| -> BTreeSet<String> {
        let inner = paths(value).into_iter().map(|path| format!("{key}.{path}")).collect::<BTreeSet<_>>();
        if inner.is_empty() { BTreeSet::from([key]) } else { inner }
    };
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(key, value)| below(key.clone(), value)).collect(),
        Value::Array(items) => items.iter().flat_map(|item| below("[]".into(), item)).collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn kinds_of_a_release_take_whatever_they_took() {
    let now: Vec<Value> = croft_api::crds().iter().map(|crd| json!(crd)).collect();
    for release in releases() {
        let text = fs::read_to_string(release.join("crds.yaml")).unwrap();
        let then: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text).unwrap();
        for then in then.iter().map(|crd| json!(crd)) {
            let name = then["metadata"]["name"].clone();
            let now = now.iter().find(|now| now["metadata"]["name"] == name);
            let now = now.unwrap_or_else(|| panic!("{name} is gone"));
            let problems = incompatible(&then, now);
            assert!(problems.is_empty(), "{}: {name}: {problems:#?}", release.display());
        }
    }
}

fn incompatible(then: &Value, now: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for place in ["/spec/group", "/spec/scope", "/spec/names/kind", "/spec/names/plural"] {
        if then.pointer(place) != now.pointer(place) {
            problems.push(format!("{place} is another"));
        }
    }
    for version in then["spec"]["versions"].as_array().into_iter().flatten() {
        let mut versions = now["spec"]["versions"].as_array().into_iter().flatten();
        let place = "/schema/openAPIV3Schema";
        match versions.find(|now| now["name"] == version["name"] && now["served"] == true) {
            Some(now) => compare(
                &version.pointer(place).cloned().unwrap_or_default(),
                &now.pointer(place).cloned().unwrap_or_default(),
                "",
                &mut problems,
            ),
            None => problems.push(format!("version {} is not served any more", version["name"])),
        }
    }
    problems
}

fn compare(then: &Value, now: &Value, path: &str, problems: &mut Vec<String>) {
    if then["type"] != now["type"] {
        problems.push(format!("{path}: was {}, is {}", then["type"], now["type"]));
    }
    let is_open = now["x-kubernetes-preserve-unknown-fields"] == true;
    for (name, inner) in then["properties"].as_object().into_iter().flatten() {
        match now["properties"].get(name) {
            Some(now) => compare(inner, now, &format!("{path}.{name}"), problems),
            None if is_open => {}
            None => problems.push(format!("{path}.{name}: is gone")),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if then[inner].is_object() {
            compare(&then[inner], &now[inner], &format!("{path}[]"), problems);
        }
    }
    limits(then, now, path, problems);
    let known = strings(&then["required"]);
    for name in strings(&now["required"]).difference(&known) {
        problems.push(format!("{path}.{name}: is required now"));
    }
    if now["enum"].is_array() {
        let (then_values, now_values) = (values(&then["enum"]), values(&now["enum"]));
        if !then["enum"].is_array() || !then_values.is_subset(&now_values) {
            problems.push(format!("{path}: took {then_values:?}, takes {now_values:?}"));
        }
    }
    let rules = |schema: &Value| -> BTreeSet<String> {
        let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
        rules.map(|rule| rule["rule"].as_str().unwrap_or_default().to_owned()).collect()
    };
    for rule in rules(now).difference(&rules(then)) {
        if !JUDGED.iter().any(|(judged, _)| judged == rule) {
            problems.push(format!("{path}: a new rule, `{rule}`: say in JUDGED why it refuses nothing that is stored"));
        }
    }
}

/// Bounds that have become narrower.
fn limits(then: &Value, now: &Value, path: &str, problems: &mut Vec<String>) {
    for (limit, is_upper) in [
        ("maxLength", true),
        ("maxItems", true),
        ("maxProperties", true),
        ("maximum", true),
        ("minLength", false),
        ("minItems", false),
        ("minProperties", false),
        ("minimum", false),
    ] {
        let Some(now) = now[limit].as_f64() else { continue };
        let is_narrower = then[limit].as_f64().is_none_or(|then| if is_upper { now < then } else { now > then });
        if is_narrower {
            problems.push(format!("{path}: {limit} was {}, is {now}", then[limit]));
        }
    }
    for form in ["pattern", "format"] {
        if !now[form].is_null() && now[form] != then[form] {
            problems.push(format!("{path}: {form} was {}, is {}", then[form], now[form]));
        }
    }
}

fn strings(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn values(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().map(Value::to_string).collect()
}

#[test]
fn whatever_would_refuse_a_stored_object_is_found() {
    let then =
        json!({ "type": "object", "properties": { "a": { "type": "string", "enum": ["x", "y"], "maxLength": 9 } } });
    let changed = |change: &dyn Fn(&mut Value)| -> usize {
        let mut now = then.clone();
        change(&mut now);
        let mut problems = Vec::new();
        compare(&then, &now, "", &mut problems);
        problems.len()
    };
    assert_eq!(changed(&|_| {}), 0);
    assert_eq!(changed(&|now| now["properties"]["b"] = json!({ "type": "string" })), 0, "a field more");
    assert_eq!(changed(&|now| now["properties"]["a"]["enum"] = json!(["x", "y", "z"])), 0, "a value more");
    assert_eq!(changed(&|now| now["properties"] = json!({})), 1, "a field less");
    assert_eq!(changed(&|now| now["properties"]["a"]["enum"] = json!(["x"])), 1, "a value less");
    assert_eq!(changed(&|now| now["properties"]["a"]["type"] = json!("integer")), 1, "another type");
    assert_eq!(changed(&|now| now["properties"]["a"]["maxLength"] = json!(8)), 1, "shorter");
    assert_eq!(changed(&|now| now["required"] = json!(["a"])), 1, "required");
    assert_eq!(changed(&|now| now["x-kubernetes-validations"] = json!([{ "rule": "has(self.a)" }])), 1, "a rule");
}
