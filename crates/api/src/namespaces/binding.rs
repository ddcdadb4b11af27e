//! The tie between one namespace and its class.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, is_false, schema};

/// Which class the namespace is bound to.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "akuity.io",
    version = "v1alpha1",
    kind = "NamespaceClassBinding",
    plural = "namespaceclassbindings",
    shortname = "ncb",
    namespaced,
    status = "NamespaceClassBindingStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Ties a namespace to its class and owns what the class put there. Written by the operator only; named like the namespace.",
    printcolumn(name = "Class", type_ = "string", json_path = ".spec.className"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassBindingSpec {
    /// Name of the NamespaceClass.
    #[schemars(length(min = 1, max = 63))]
    pub class_name: String,
    /// The revision of the class to which a roll-out in stages moved the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The class's `status.rollout.stagedSince` when it was moved: with another one it does not count any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_since: Option<i64>,
    /// The namespace failed already when it was moved: that it does so still does not stop the roll-out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failed_before: bool,
}

/// What the namespace has of its class.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceClassBindingStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Name of the class last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_class_name: Option<String>,
    /// UID of the class last applied: a class deleted and made again is another class.
    #[serde(default, rename = "observedClassUID", skip_serializing_if = "Option::is_none")]
    pub observed_class_uid: Option<String>,
    /// Generation of the class last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_class_generation: Option<i64>,
    /// Revision of the class last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_revision: Option<String>,
    /// Values of the inputs of the class that are in force here. Where the namespace gives one that is not allowed, the last one
    /// that was stays.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// What classes have set on the Namespace itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_metadata: Option<FurnishedMetadata>,
    /// The objects of the class in this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,
    /// `Ready`: everything is there as the class wants it. `Reconciling`: work is going on. `Stalled`: somebody must act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// What classes have set on the Namespace itself, and what was there before.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FurnishedMetadata {
    /// Keys of labels the class sets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Keys of annotations the class sets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
    /// Labels that were there before with another value: they are put back when the namespace leaves the class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_before: BTreeMap<String, String>,
    /// Annotations that were there before with another value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_before: BTreeMap<String, String>,
    /// What the class set: only what is still so is taken away when the class does not set it any more, or put back as it was.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_over: BTreeMap<String, String>,
    /// The same of annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_over: BTreeMap<String, String>,
    /// What the class is about to set, noted before it is done: it may still be refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels_due: BTreeMap<String, String>,
    /// The same of annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations_due: BTreeMap<String, String>,
}

/// One object of the class in this namespace.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppliedResource {
    /// For example `v1`.
    pub api_version: String,
    /// For example `ConfigMap`.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// The template of its name, where the class has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_by: Option<String>,
    /// The class it was made by, or last changed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// UID of the object, once it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Digest of the rendered manifest and of our part of the live object after it was applied. While both stand, there
    /// is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// `Pending`: about to be made. `Applied`: as the class wants it. `Drifted`: changed by somebody and left so.
    /// `Conflict`: an object of that name is not ours. `Failed`: the API server refused it. `Pruning`: being removed.
    #[serde(default)]
    pub state: AppliedState,
    /// Whether the object was there before and was taken over: it is then released, not deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub adopted: bool,
    /// UID of an object of this name that is not the class's and is being replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing: Option<String>,
    /// What is wrong, where something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// State of one object of the class.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AppliedState {
    #[default]
    Pending,
    Applied,
    Drifted,
    Conflict,
    Failed,
    Pruning,
}
