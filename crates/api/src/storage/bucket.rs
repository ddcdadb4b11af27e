//! A tenant's bucket.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quota::ReportedUsage;
use crate::{Condition, Quantity, schema};

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
    printcolumn(name = "READY", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "USED SIZE", type_ = "string", json_path = ".status.used.size"),
    printcolumn(name = "USED OBJECTS", type_ = "integer", json_path = ".status.used.objects"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() >= 3 && self.metadata.name.size() <= 63")
        .message("the name of a bucket must have 3 to 63 characters"),
    validation = Rule::new(r"!self.metadata.name.matches('^[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]+$')")
        .message("the name of a bucket must not look like an IP address"),
    validation = Rule::new("!(self.metadata.name in ['admin', 'auth', 'swift'])")
        .message("the name of a bucket must not be admin, auth or swift: the gateway serves APIs of its own there"),
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
    /// Subusers of the claim that may use the bucket, beside the user itself. Becomes part of the bucket's policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub s3_subuser_binding: Vec<SubuserBinding>,
    /// How much this bucket may hold, within the quota of the claim. Taken off when it is removed here; without it the bucket is
    /// left as an administrator of the gateway set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<BucketQuota>,
    /// Whether old versions of objects are kept: `enabled` or `suspended`. Versions there are stay when it is suspended, which
    /// it also is when this is removed. Without it the bucket is left as its users set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versioning: Option<BucketVersioning>,
    /// What the bucket forgets by itself. Rules that its users set over S3 are kept beside these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["id".into()]))]
    pub lifecycle: Vec<BucketLifecycleRule>,
}

/// Amounts one bucket may hold. A member left out is limited by the claim's quota only.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BucketQuota {
    /// Bytes, for example `10Gi`; each object counts rounded up to 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Objects, for example `1k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub objects: Option<Quantity>,
}

/// Whether old versions are kept.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BucketVersioning {
    Enabled,
    Suspended,
}

/// What goes after how many days. At least one number of days must be given.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.expirationDays) || has(self.noncurrentVersionExpirationDays) || has(self.abortIncompleteMultipartUploadDays)"
).message("give expirationDays, noncurrentVersionExpirationDays or abortIncompleteMultipartUploadDays"))]
pub struct BucketLifecycleRule {
    /// Name of the rule. In Ceph it is called `croft-<id>`.
    #[schemars(length(min = 1, max = 63))]
    pub id: String,
    /// Only objects whose key begins with this. Default: all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub prefix: String,
    /// Objects go this many days after they were written; with versioning they become old versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 36500))]
    pub expiration_days: Option<i64>,
    /// Old versions go this many days after they were replaced or deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 36500))]
    pub noncurrent_version_expiration_days: Option<i64>,
    /// Uploads in parts that were not completed go after this many days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 36500))]
    pub abort_incomplete_multipart_upload_days: Option<i64>,
}

/// What one subuser may do in the bucket.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubuserBinding {
    /// Name of the subuser, as in the claim's `spec.subusers`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// `read` (default) or `write`, which includes reading; `readwrite` is another word for it.
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
    Readwrite,
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
    /// The bucket's policy, as JSON, unless it is very long. Grants to subusers with the Sid `BucketAllow` and statements whose Sid
    /// begins with `Croft` are the operator's; all others stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// What the bucket holds. Looked at every ten minutes and told when it moved by more than a hundredth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<ReportedUsage>,
    /// What this object has set on the bucket: any of `quota`, `versioning` and `lifecycle`. All else is left as others set it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub managed_settings: Vec<String>,
    /// `Ready`: bucket and policy are as asked. `Reconciling`: work is going on. `Stalled`: somebody must act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}
