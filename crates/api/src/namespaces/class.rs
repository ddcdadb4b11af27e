//! What a class of namespaces contains, and how it is applied.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Rollout, RolloutStatus};
use crate::{Condition, is_false, schema};

/// The objects every namespace of the class gets, and the rules for applying them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "akuity.io",
    version = "v1alpha1",
    kind = "NamespaceClass",
    plural = "namespaceclasses",
    shortname = "nc",
    shortname = "nsclass",
    status = "NamespaceClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A class of namespaces: every namespace labelled `namespaceclass.akuity.io/name: <class>` gets its objects.",
    printcolumn(name = "Resources", type_ = "integer", json_path = ".status.resources"),
    printcolumn(name = "Namespaces", type_ = "integer", json_path = ".status.boundNamespaces"),
    printcolumn(name = "Rollout", type_ = "string", json_path = ".status.rollout.progress"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 63")
        .message("the name of a class must fit a label value: at most 63 characters"),
)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassSpec {
    /// Whole manifests of namespaced objects, without `metadata.namespace`; at most 100. Text values may contain
    /// `{{ namespace.name }}` and the other template variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::manifests")]
    pub resources: Vec<Map<String, Value>>,

    /// What to do when the world is not as the class wants it.
    #[serde(default)]
    pub policy: Policy,

    /// Labels and annotations for the Namespace itself, for example Pod Security levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_metadata: Option<NamespaceMetadata>,

    /// Inputs of the class, set per namespace and used in templates as `{{ params.<name> }}`; at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub params: Vec<Param>,

    /// Whether only the operator may change the objects of the class. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub protect: bool,

    /// What waits until a namespace has had everything of the class once. `Pods`: none is admitted before. Default: nothing waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,

    /// How a change of the class reaches its namespaces. Default: all get it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// What waits for a class.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gate {
    Pods,
}

/// What to do when the world is not as the class wants it.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// An object of that name exists and is nobody's. `Refuse`: leave it and report `Conflict`. `Adopt`: take it over; an
    /// adopted object is released, not deleted, when it is no longer wanted. `Replace`: make it what the class says and nothing
    /// else; it is then the class's own.
    pub on_conflict: OnConflict,
    /// Somebody changed what the class set. `Correct`: put it back. `Report`: say so and leave it. `Exact`: put it back, and take
    /// away what others added to it; what is to stay, an object names by JSON pointers in its annotation
    /// `namespaceclass.akuity.io/ignore-fields`, separated by commas.
    pub on_drift: OnDrift,
    /// A change cannot be made in place. `Fail`: report it. `Recreate`: delete the object and make it anew.
    pub on_immutable: OnImmutable,
    /// The namespace leaves the class. `Delete`: its objects go. `Orphan`: they stay and are no longer ours.
    pub on_unbind: OnUnbind,
    /// The class is deleted. `Delete`: its objects go. `Orphan`: they stay. `Block`: the class stays until no namespace
    /// uses it.
    pub on_class_delete: OnClassDelete,
}

/// An object of that name exists and is not ours.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnConflict {
    #[default]
    Refuse,
    Adopt,
    Replace,
}

/// Somebody changed what the class set.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDrift {
    #[default]
    Correct,
    Report,
    Exact,
}

/// A change cannot be made in place.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnImmutable {
    #[default]
    Fail,
    Recreate,
}

/// The namespace leaves the class.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnUnbind {
    #[default]
    Delete,
    Orphan,
}

/// The class is deleted.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnClassDelete {
    #[default]
    Delete,
    Orphan,
    Block,
}

/// Metadata put on the Namespace itself.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceMetadata {
    /// Labels, for example `pod-security.kubernetes.io/enforce: restricted`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = Rule::new("!('namespaceclass.akuity.io/name' in self)")
        .message("a class cannot set namespaceclass.akuity.io/name: the label chooses the class"))]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}

/// One input of a class.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.fromNamespaceAnnotation) || !has(self.fromNamespaceLabel)")
        .message("give fromNamespaceAnnotation or fromNamespaceLabel, not both"),
    validation = Rule::new("!has(self.pattern) || !has(self.type) || self.type == 'string'")
        .message("pattern is for type string"),
    validation = Rule::new("!has(self.minimum) && !has(self.maximum) || has(self.type) && self.type == 'integer'")
        .message("minimum and maximum are for type integer"),
    validation = Rule::new("!has(self.minimum) || !has(self.maximum) || self.minimum <= self.maximum")
        .message("minimum is above maximum"),
    validation = Rule::new("!has(self.default) || !has(self.enum) || self.default in self.enum")
        .message("default is not one of enum"),
)]
#[serde(rename_all = "camelCase")]
pub struct Param {
    /// Name used in templates: `{{ params.<name> }}`.
    #[schemars(length(max = 63), regex(pattern = r"^[a-zA-Z][a-zA-Z0-9_]*$"))]
    pub name: String,
    /// Type of the value: `string` (default), `integer` or `boolean`. A text that is nothing but `{{ params.<name> }}`
    /// becomes a value of this type.
    #[serde(default, rename = "type")]
    pub type_: ParamType,
    /// What the input is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// Value where the namespace gives none, as text: `"10"`. Without it the namespace must give one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub default: Option<String>,
    /// Regular expression the whole value must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub pattern: Option<String>,
    /// The values allowed, as text.
    #[serde(default, rename = "enum", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 256)))]
    pub enum_: Vec<String>,
    /// Smallest integer allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// Largest integer allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// Annotation of the Namespace that holds the value, for example `quota.example.com/cpu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub from_namespace_annotation: Option<String>,
    /// Label of the Namespace that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 317))]
    pub from_namespace_label: Option<String>,
}

/// Type of an input.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ParamType {
    #[default]
    String,
    Integer,
    Boolean,
}

/// How the class is doing.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of objects in the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<i64>,
    /// Kinds the class uses, or used while namespaces were bound to it. Written before the first object of a kind is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<StampedKind>,
    /// Namespaces bound to the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound_namespaces: Option<i64>,
    /// Bound namespaces that have this generation of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_namespaces: Option<i64>,
    /// Bound namespaces that have everything as the class wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_namespaces: Option<i64>,
    /// Bound namespaces with trouble.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_namespaces: Option<i64>,
    /// The first namespaces with trouble by name; at most 10.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<FailingNamespace>,
    /// The revision that is released: every namespace has it, or gets it when it is bound, unless a roll-out in stages moved it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// How the newest revision is being rolled out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// `Accepted`: the class is well formed. `Ready`: every bound namespace has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// A kind of which the class makes objects.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StampedKind {
    /// For example `networking.k8s.io/v1`.
    pub api_version: String,
    /// For example `NetworkPolicy`.
    pub kind: String,
    /// Name of the kind in request paths, for example `networkpolicies`.
    pub resource: String,
}

/// A namespace with trouble.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingNamespace {
    /// Its name.
    pub namespace: String,
    /// Reason of its binding's `Ready` condition.
    pub reason: String,
}
