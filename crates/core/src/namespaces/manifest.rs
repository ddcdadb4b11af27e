//! One manifest of a class: its identity, what is wrong with it, and the object that is applied.

use std::{collections::BTreeSet, fmt, fmt::Write};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::problem::Problem;

/// On every stamped object: the class it came from.
const STAMP_LABEL: &str = "namespaceclass.akuity.io/class";

/// On stamped objects that only the operator may change.
const PROTECTED_LABEL: &str = "namespaceclass.akuity.io/protected";

/// Annotations and labels by which other tools claim an object: a copy carrying them would be pruned by its next owner.
const FOREIGN_TRACKING: [&str; 5] = [
    "applyset.kubernetes.io/",
    "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Which object: group, kind and name. The version is only transport.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub group: String,
    pub kind: String,
    pub name: String,
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.kind, self.name)
    }
}

/// The group of an `apiVersion`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// A manifest that passed every check that needs no cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub identity: Identity,
    pub api_version: String,
    body: Map<String, Value>,
}

/// Objects Kubernetes itself keeps in every namespace.
const KEPT_BY_KUBERNETES: [(&str, &str); 2] = [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")];

impl Item {
    /// Checks one raw manifest; says everything that is wrong with it.
    pub fn parse(raw: &Map<String, Value>) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let api_version = text(raw.get("apiVersion"));
        let kind = text(raw.get("kind"));
        let metadata = raw.get("metadata").and_then(Value::as_object);
        let name = text(metadata.and_then(|metadata| metadata.get("name")));
        for (field, value) in [("apiVersion", api_version), ("kind", kind), ("metadata.name", name)] {
            if value.is_empty() {
                problems.push(format!("{field} is missing"));
            }
        }
        if metadata.is_some_and(|metadata| metadata.contains_key("namespace")) {
            problems
                .push("metadata.namespace is set: objects go to the namespace that has the class; remove it".into());
        }
        if metadata.is_some_and(|metadata| metadata.contains_key("generateName")) {
            problems.push("metadata.generateName is set: give a metadata.name instead".into());
        }
        if kind.ends_with("List") && raw.contains_key("items") {
            problems.push("a list is not an object: put its items into the class one by one".into());
        }
        if KEPT_BY_KUBERNETES.contains(&(kind, name)) {
            problems.push(format!("{kind}/{name} belongs to Kubernetes itself; choose another name"));
        }
        if kind == "Namespace" && group_of(api_version).is_empty() {
            problems
                .push("a class cannot make namespaces; use spec.namespaceMetadata for labels of the namespace".into());
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let identity =
            Identity { group: group_of(api_version).to_owned(), kind: kind.to_owned(), name: name.to_owned() };
        Ok(Self { identity, api_version: api_version.to_owned(), body: cleaned(raw) })
    }

    /// The object as it is applied: ours by label and by controller owner.
    pub fn stamped(&self, stamp: &Stamp<'_>) -> Rendered {
        let mut object = Value::Object(self.body.clone());
        object["metadata"]["namespace"] = stamp.namespace.into();
        object["metadata"]["labels"][STAMP_LABEL] = stamp.class.into();
        if stamp.protect {
            object["metadata"]["labels"][PROTECTED_LABEL] = "true".into();
        }
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "akuity.io/v1alpha1",
            "kind": "NamespaceClassBinding",
            "name": stamp.namespace,
            "uid": stamp.binding_uid,
            "controller": true,
            "blockOwnerDeletion": false,
        }]);
        Rendered {
            identity: self.identity.clone(),
            api_version: self.api_version.clone(),
            digest: digest(&object),
            shape: shape(&object),
            manifest: object,
        }
    }
}

/// Whose an object is, and where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    pub namespace: &'a str,
    pub class: &'a str,
    pub binding_uid: &'a str,
    /// Only the operator may change it.
    pub protect: bool,
}

/// An object ready to be applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    pub identity: Identity,
    pub api_version: String,
    pub manifest: Value,
    pub digest: String,
    /// Digest of the paths the manifest sets.
    pub shape: String,
}

/// All items of a class, or everything that is wrong with it: one line per problem, naming the item.
pub fn parse_all(raw: &[Map<String, Value>]) -> Result<Vec<Item>, Vec<Problem>> {
    let mut items = Vec::new();
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, manifest) in raw.iter().enumerate() {
        match Item::parse(manifest) {
            Ok(item) if seen.insert(item.identity.clone()) => items.push(item),
            Ok(item) => problems.push(problem(index, format!("{} is in the class twice", item.identity))),
            Err(found) => problems.extend(found.into_iter().map(|message| problem(index, message))),
        }
    }
    if problems.is_empty() { Ok(items) } else { Err(problems) }
}

fn problem(index: usize, message: String) -> Problem {
    Problem { field: format!("spec.resources[{index}]"), message }
}

/// Kinds others stand on come first, so that nothing is open or broken in between.
pub fn rank(kind: &str) -> u8 {
    match kind {
        "ServiceAccount" => 1,
        "Role" => 2,
        "RoleBinding" => 3,
        "ResourceQuota" | "LimitRange" => 4,
        "NetworkPolicy" => 5,
        _ => 6,
    }
}

/// A short, stable fingerprint of a manifest, whatever the order of its keys.
pub fn digest(value: &Value) -> String {
    short(&Sha256::digest(canonical(value).as_bytes()))
}

/// The same text for the same value, whatever the order of its keys.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

/// The first half of a hash is enough to tell things apart.
pub(super) fn short(hash: &[u8]) -> String {
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
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for key in keys {
                let _ = write!(out, "{}:", Value::String(key.clone()));
                write_canonical(&map[key], out);
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

/// Only what an author may set: of the metadata name, labels and annotations; no status; Secrets in their stored form.
fn cleaned(raw: &Map<String, Value>) -> Map<String, Value> {
    let mut body = raw.clone();
    body.remove("status");
    let metadata = body.get("metadata").and_then(Value::as_object);
    let mut kept = Map::new();
    for field in ["name", "labels", "annotations"] {
        if let Some(value) = metadata.and_then(|metadata| metadata.get(field)) {
            kept.insert(field.to_owned(), untracked(value));
        }
    }
    if !kept.get("labels").is_some_and(Value::is_object) {
        kept.insert("labels".into(), json!({}));
    }
    body.insert("metadata".into(), Value::Object(kept));
    if body.get("kind") == Some(&json!("Secret")) && body.get("apiVersion") == Some(&json!("v1")) {
        store_string_data(&mut body);
    }
    body
}

fn untracked(value: &Value) -> Value {
    match value.as_object() {
        Some(map) => map
            .iter()
            .filter(|(key, _)| !FOREIGN_TRACKING.iter().any(|mark| key.starts_with(mark)))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        None => value.clone(),
    }
}

/// `stringData` is write-only: a key taken out of the class would stay in the Secret. So it becomes `data`.
fn store_string_data(body: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = body.remove("stringData") else { return };
    let data = body.entry("data").or_insert_with(|| json!({}));
    for (key, value) in plain {
        let encoded = base64(value.as_str().unwrap_or_default().as_bytes());
        data[key] = encoded.into();
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for position in 0..4 {
            let sextet = (word >> (18 - 6 * position)) & 63;
            text.push(if position <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    text
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn everything_wrong_with_a_class_is_listed_at_once() {
        let raw = [
            map(&json!({"kind": "ConfigMap", "metadata": {"namespace": "x"}})),
            map(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})),
            map(&json!({"apiVersion": "v1beta9", "kind": "ConfigMap", "metadata": {"name": "a"}})),
            map(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})),
            map(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})),
        ];
        let problems: Vec<_> = parse_all(&raw).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 6, "{problems:#?}");
        assert!(problems.iter().any(|problem| problem == "spec.resources[2]: ConfigMap/a is in the class twice"));
    }

    #[test]
    fn a_stamped_object_is_ours_by_label_and_owner_and_keeps_its_authors_metadata() {
        let item = Item::parse(&map(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"app": "x"}, "finalizers": ["f"], "uid": "u", "ownerReferences": [],
                         "annotations": {"argocd.argoproj.io/tracking-id": "t", "note": "n"}},
            "data": {"k": "v"}, "status": {"x": 1}
        })))
        .unwrap();
        let stamp = Stamp { namespace: "team-a", class: "web", binding_uid: "binding-uid", protect: false };
        let object = item.stamped(&stamp).manifest;
        assert_eq!(object["metadata"]["labels"], json!({"app": "x", STAMP_LABEL: "web"}));
        assert_eq!(object["metadata"]["annotations"], json!({"note": "n"}));
        assert_eq!(object["metadata"]["ownerReferences"][0]["controller"], json!(true));
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], json!("binding-uid"));
        assert!(object.get("status").is_none() && object["metadata"].get("finalizers").is_none());
    }

    #[test]
    fn the_text_of_a_secret_is_stored_as_data() {
        let item = Item::parse(&map(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"a": "eA=="}, "stringData": {"b": "hello", "c": "", "d": "ab", "e": "abc"}
        })))
        .unwrap();
        let object = item.stamped(&Stamp { namespace: "n", class: "c", binding_uid: "u", protect: true }).manifest;
        assert_eq!(object["metadata"]["labels"][PROTECTED_LABEL], json!("true"));
        assert_eq!(object["data"], json!({"a": "eA==", "b": "aGVsbG8=", "c": "", "d": "YWI=", "e": "YWJj"}));
        assert!(object.get("stringData").is_none());
    }

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
