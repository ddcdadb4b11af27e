//! One manifest of a class: its identity, what is wrong with it, and the object that is applied.

mod digest;
mod reading;

use std::{collections::BTreeSet, fmt, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

pub(super) use self::digest::{canonical, long, short, write_canonical, write_list, write_object};
pub use self::digest::{digest, shape};
use self::reading::{Reading, Texts};
use super::template::{self, quoted};
use crate::{
    name::{is_kind, is_path_segment},
    plan::{Failure, FailureClass},
    problem::Problem,
};

/// On every stamped object: the class it came from.
const STAMP_LABEL: &str = "namespaceclass.akuity.io/class";

/// On stamped objects that only the operator may change.
const PROTECTED_LABEL: &str = "namespaceclass.akuity.io/protected";

/// Labels of objects that mean something to us, and that we set.
pub fn is_own_label(label: &str) -> bool {
    [STAMP_LABEL, PROTECTED_LABEL].contains(&label)
}

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

impl Identity {
    /// Whether such an object gives rights to somebody: taking it away waits for nothing.
    pub fn gives_rights(&self) -> bool {
        self.group == "rbac.authorization.k8s.io" && matches!(self.kind.as_str(), "Role" | "RoleBinding")
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
    /// The template its name was made of.
    pub named_by: Option<String>,
    labels: Texts,
    annotations: Option<Texts>,
    /// Everything but metadata and status.
    body: Map<String, Value>,
}

/// Objects Kubernetes itself keeps in every namespace.
const KEPT_BY_KUBERNETES: [(&str, &str); 2] = [("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")];

/// Whether the text can be asked about: it becomes part of a path.
fn is_api_version(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match text.split_once('/') {
        Some((group, version)) => group.split('.').all(is_label) && is_label(version),
        None => is_label(text),
    }
}

impl Item {
    /// Checks one raw manifest; says everything that is wrong with it, by the fields inside it.
    pub fn parse(raw: Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let mut reading = Reading::default();
        let api_version = reading.required("apiVersion", raw.get("apiVersion"));
        if !api_version.is_empty() && !is_api_version(api_version) {
            reading.refuse("apiVersion is not of the form version or group/version, such as v1 or apps/v1");
        }
        let kind = reading.required("kind", raw.get("kind"));
        if !kind.is_empty() && !is_kind(kind) {
            reading.refuse("kind is not of the form Deployment: give letters and digits only");
        }
        let metadata = reading.map("metadata", raw.get("metadata"));
        let inside = |field: &str| metadata.and_then(|metadata| metadata.get(field));
        let name = reading.required("metadata.name", inside("name"));
        if !template::is_template(name) && !is_path_segment(name) {
            reading.refuse(format!("metadata.name: {} is the name of no object; choose another", quoted(name)));
        }
        let labels = reading.texts("metadata.labels", inside("labels"));
        let annotations = reading.texts("metadata.annotations", inside("annotations"));
        if metadata.is_some_and(|metadata| metadata.contains_key("namespace")) {
            reading.refuse("metadata.namespace is set: objects go to the namespace that has the class; remove it");
        }
        if metadata.is_some_and(|metadata| metadata.contains_key("generateName")) {
            reading.refuse("metadata.generateName is set: give a metadata.name instead");
        }
        if kind.ends_with("List") && raw.contains_key("items") {
            reading.refuse("a list is not an object: put its items into the class one by one");
        }
        if KEPT_BY_KUBERNETES.contains(&(kind, name)) {
            reading.refuse(format!("{kind}/{name} belongs to Kubernetes itself; choose another name"));
        }
        if kind == "Namespace" && group_of(api_version).is_empty() {
            reading.refuse("a class cannot make namespaces; use spec.namespaceMetadata for labels of the namespace");
        }
        let identity =
            Identity { group: group_of(api_version).to_owned(), kind: kind.to_owned(), name: name.to_owned() };
        let api_version = api_version.to_owned();
        let body = body(raw, &api_version, &identity.kind, &mut reading);
        reading.or_problems(Self {
            identity,
            api_version,
            named_by: None,
            labels: {
                let mut labels = untracked(labels.unwrap_or_default());
                labels.retain(|label, _| !is_own_label(label));
                labels
            },
            annotations: annotations.map(untracked),
            body,
        })
    }

    /// The object as it is applied: ours by label and by controller owner.
    pub fn stamped(self, stamp: &Stamp<'_>) -> Rendered {
        let Self { identity, api_version, named_by, labels, annotations, body: mut object } = self;
        let metadata = stamp.metadata(&identity.name, labels, annotations);
        object.insert("metadata".into(), Value::Object(metadata));
        let manifest = Value::Object(object);
        let (digest, shape) = (digest(&manifest), shape(&manifest));
        Rendered { identity, api_version, named_by, digest, shape, manifest: Arc::new(manifest) }
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

impl Stamp<'_> {
    fn metadata(&self, name: &str, mut labels: Texts, annotations: Option<Texts>) -> Map<String, Value> {
        labels.insert(STAMP_LABEL.into(), self.class.into());
        if self.protect {
            labels.insert(PROTECTED_LABEL.into(), "true".into());
        }
        let owners = json!([{
            "apiVersion": "akuity.io/v1alpha1",
            "kind": "NamespaceClassBinding",
            "name": self.namespace,
            "uid": self.binding_uid,
            "controller": true,
            "blockOwnerDeletion": false,
        }]);
        let mut metadata = Map::from_iter([
            ("name".to_owned(), name.into()),
            ("namespace".to_owned(), self.namespace.into()),
            ("labels".to_owned(), map_of(labels)),
            ("ownerReferences".to_owned(), owners),
        ]);
        if let Some(annotations) = annotations {
            metadata.insert("annotations".into(), map_of(annotations));
        }
        metadata
    }
}

/// Whether the API server stored an object with the label by which the watches find it. Where something at admission takes that
/// away, nobody would see what becomes of the object, so it does not count as made.
pub fn keeps_stamp(stored: &Value, manifest: &Value) -> Result<(), Failure> {
    let stamp = |object: &Value| object.get("metadata")?.get("labels")?.get(STAMP_LABEL).cloned();
    if stamp(stored) == stamp(manifest) {
        return Ok(());
    }
    let message = format!(
        "was stored without the label {STAMP_LABEL} it was sent with, so that changes of it cannot be seen: \
         let admission webhooks and policies leave that label alone"
    );
    Err(Failure::new(FailureClass::Rejected, "StampLost", message))
}

fn map_of(texts: Texts) -> Value {
    texts.into_iter().map(|(key, text)| (key, Value::String(text))).collect()
}

/// An object ready to be applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered {
    pub identity: Identity,
    pub api_version: String,
    /// The template its name was made of.
    pub named_by: Option<String>,
    /// Shared with the steps that send it.
    pub manifest: Arc<Value>,
    pub digest: String,
    /// Digest of the paths the manifest sets.
    pub shape: String,
}

/// All items of a class, or everything that is wrong with it: one line per problem, naming the item.
pub fn parse_all(raw: impl IntoIterator<Item = Map<String, Value>>) -> Result<Vec<Item>, Vec<Problem>> {
    let mut items = Vec::new();
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    for (index, manifest) in raw.into_iter().enumerate() {
        match parse_next(index, manifest, &mut names) {
            Ok(item) => items.push(item),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(items) } else { Err(problems) }
}

/// One item of a class, whose name none of those before has.
pub(super) fn parse_next(
    index: usize,
    manifest: Map<String, Value>,
    names: &mut BTreeSet<Identity>,
) -> Result<Item, Vec<Problem>> {
    match Item::parse(manifest) {
        Ok(item) if names.insert(item.identity.clone()) => Ok(item),
        Ok(item) => {
            let message = format!("{} is in the class twice", item.identity);
            Err(vec![in_class(index, Problem::new("", message))])
        }
        Err(found) => Err(found.into_iter().map(|problem| in_class(index, problem)).collect()),
    }
}

/// A problem of one manifest, by its field in the class.
fn in_class(index: usize, problem: Problem) -> Problem {
    let dot = if problem.field.is_empty() { "" } else { "." };
    Problem { field: format!("spec.resources[{index}]{dot}{}", problem.field), message: problem.message }
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

/// Everything an author may set beside the metadata: no status; Secrets in their stored form.
fn body(mut body: Map<String, Value>, api_version: &str, kind: &str, reading: &mut Reading) -> Map<String, Value> {
    body.remove("metadata");
    body.remove("status");
    match (api_version, kind) {
        ("v1", "Secret") => {
            let data = reading.texts("data", body.get("data"));
            let plain = reading.texts("stringData", body.get("stringData"));
            store_string_data(&mut body, data.unwrap_or_default(), plain);
        }
        ("v1", "ConfigMap") => {
            for field in ["data", "binaryData"] {
                reading.texts(field, body.get(field));
            }
        }
        _ => {}
    }
    body
}

/// `stringData` is write-only: a key taken out of the class would stay in the Secret. So it becomes `data`.
fn store_string_data(body: &mut Map<String, Value>, mut data: Texts, plain: Option<Texts>) {
    body.remove("stringData");
    if let Some(plain) = plain {
        data.extend(plain.into_iter().map(|(key, text)| (key, STANDARD.encode(text))));
        body.insert("data".into(), json!(data));
    }
}

/// Without the marks of other tools.
fn untracked(mut texts: Texts) -> Texts {
    texts.retain(|key, _| !FOREIGN_TRACKING.iter().any(|mark| key.starts_with(mark)));
    texts
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
        let problems: Vec<_> = parse_all(raw).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 6, "{problems:#?}");
        assert!(problems.iter().any(|problem| problem == "spec.resources[2]: ConfigMap/a is in the class twice"));
    }

    #[test]
    fn a_stamped_object_is_ours_by_label_and_owner_and_keeps_its_authors_metadata() {
        let item = Item::parse(map(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"app": "x", PROTECTED_LABEL: "true"}, "finalizers": ["f"], "uid": "u", "ownerReferences": [],
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
        let item = Item::parse(map(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"a": "eA=="}, "stringData": {"b": "hello", "c": "", "d": "ab", "e": "abc"}
        })))
        .unwrap();
        let object = item.stamped(&Stamp { namespace: "n", class: "c", binding_uid: "u", protect: true }).manifest;
        assert_eq!(object["metadata"]["labels"][PROTECTED_LABEL], json!("true"));
        assert_eq!(object["data"], json!({"a": "eA==", "b": "aGVsbG8=", "c": "", "d": "YWI=", "e": "YWJj"}));
        assert!(object.get("stringData").is_none());
    }

    /// What is told about a class with this one manifest.
    fn told(manifest: &Value) -> Vec<String> {
        parse_all([map(manifest)]).unwrap_err().iter().map(ToString::to_string).collect()
    }

    fn secret(field: &str, value: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}, field: value})
    }

    #[test]
    fn a_secret_whose_contents_are_no_map_of_texts_is_told_with_field_and_fix() {
        for (field, value, problem) in [
            ("data", json!("x"), "data: must be a map of texts, not a text; give every text a key"),
            ("data", json!(["x"]), "data: must be a map of texts, not a list; give every text a key"),
            ("data", json!({"k": 5}), "data.k: must be a text, not a number; put it in quotes"),
            ("stringData", json!("x"), "stringData: must be a map of texts, not a text; give every text a key"),
            ("stringData", json!({"on": true}), "stringData.on: must be a text, not a boolean; put it in quotes"),
            ("stringData", json!({"a.b": null}), r#"stringData["a.b"]: must be a text, not nothing; write one"#),
        ] {
            assert_eq!(told(&secret(field, &value)), [format!("spec.resources[0].{problem}")]);
        }
        assert!(Item::parse(map(&secret("data", &Value::Null))).is_ok(), "null is the same as nothing");
    }

    #[test]
    fn a_config_map_whose_contents_are_no_map_of_texts_is_told() {
        let with = |field: &str, value: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, field: value});
        for (manifest, field) in
            [(with("data", json!({"replicas": 3})), "data.replicas"), (with("binaryData", json!([])), "binaryData")]
        {
            assert!(told(&manifest)[0].starts_with(&format!("spec.resources[0].{field}: must be ")), "{manifest}");
        }
    }

    #[test]
    fn what_would_lead_to_another_place_is_no_name_and_no_kind() {
        let with = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        for name in [".", "..", "../../secrets/x", "a/b", "a%2fb"] {
            let problem =
                format!("spec.resources[0]: metadata.name: {name:?} is the name of no object; choose another");
            assert_eq!(told(&with("ConfigMap", name)), [problem]);
        }
        for kind in ["../x", "Config/Map", "Config Map", "1Map", "Config.Map"] {
            assert!(told(&with(kind, "x"))[0].contains("kind is not of the form"), "{kind}");
        }
        for name in ["system:node-proxier", "a.b-c", "a_b", "{{ namespace.labels[\"a/b\"] }}"] {
            assert!(Item::parse(map(&with("Role", name))).is_ok(), "{name}");
        }
    }

    #[test]
    fn metadata_of_the_wrong_type_is_told_and_never_dropped() {
        let with = |metadata: Value| json!({"apiVersion": "example.com/v1", "kind": "X", "metadata": metadata});
        for (manifest, problem) in [
            (with(json!({"name": 5})), ".metadata.name: must be a text, not a number; put it in quotes"),
            (
                with(json!({"name": "x", "labels": []})),
                ".metadata.labels: must be a map of texts, not a list; give every text a key",
            ),
            (
                with(json!({"name": "x", "labels": {"tier": 1}})),
                ".metadata.labels.tier: must be a text, not a number; put it in quotes",
            ),
            (
                with(json!({"name": "x", "annotations": {"a/b": {}}})),
                r#".metadata.annotations["a/b"]: must be a text, not a map; write one"#,
            ),
            (with(json!("x")), ".metadata: must be a map, not a text"),
            (
                json!({"apiVersion": 1, "kind": "X", "metadata": {"name": "x"}}),
                ".apiVersion: must be a text, not a number; put it in quotes",
            ),
        ] {
            assert_eq!(told(&manifest)[0], format!("spec.resources[0]{problem}"));
        }
        let empty = Item::parse(map(&with(json!({"name": "x", "labels": null, "annotations": null}))));
        assert!(empty.is_ok(), "null is the same as nothing");
    }
}
