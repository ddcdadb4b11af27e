//! A tenant's bucket.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, schema};

/// Whose bucket it is and who else may use it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "s3.snappcloud.io",
    version = "v1alpha1",
    kind = "S3Bucket",
    plural = "s3buckets",
    shortname = "s3b",
    namespaced,
    status = "S3BucketStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A bucket of an S3UserClaim's user. The bucket is called like the object.",
    printcolumn(name = "S3USERREF", type_ = "string", json_path = ".spec.s3UserRef"),
    validation = Rule::new("self.metadata.name.size() >= 3 && self.metadata.name.size() <= 63")
        .message("the name of a bucket must have 3 to 63 characters"),
    validation = Rule::new(r"!self.metadata.name.matches('^[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]+$')")
        .message("the name of a bucket must not look like an IP address"),
)]
#[serde(rename_all = "camelCase")]
pub struct S3BucketSpec {
    /// Name of the S3UserClaim in the same namespace that owns the bucket. Cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("s3UserRef is immutable")
        .reason(Reason::FieldValueForbidden))]
    pub s3_user_ref: String,
    /// What becomes of the bucket when this object is deleted: `delete` (default) or `retain`.
    #[serde(default)]
    pub s3_deletion_policy: BucketDeletionPolicy,
    /// Subusers of the claim that may use the bucket. Nothing acts on it yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub s3_subuser_binding: Vec<SubuserBinding>,
}

/// What one subuser may do in the bucket.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubuserBinding {
    /// Name of the subuser, as in the claim's `spec.subusers`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// `read` (default) or `write`.
    #[serde(default)]
    pub access: Access,
}

/// What a subuser may do.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    #[default]
    Read,
    Write,
}

/// What becomes of a bucket.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BucketDeletionPolicy {
    #[default]
    Delete,
    Retain,
}

/// Where the bucket stands.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3BucketStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the bucket exists. Default: false.
    #[serde(default)]
    pub created: bool,
    /// Text of the last error; absent when all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The bucket policy last put, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// `Ready`: bucket and policy are as asked. `Reconciling`: work is going on. `Stalled`: somebody must act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}
