//! A tenant's wish for an object storage user.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::quota::{QuotaRequest, ReportedQuota, ReportedUsage};
use crate::{Condition, schema};

/// The user wanted. Class, Secret names and quota have two spellings each; give one of them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "s3.snappcloud.io",
    version = "v1alpha1",
    kind = "S3UserClaim",
    plural = "s3userclaims",
    shortname = "s3u",
    namespaced,
    status = "S3UserClaimStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A claim for an object storage user. Its keys arrive in two Secrets of the same namespace.",
    // From the status, because the spec has two spellings and may leave the class to the default.
    printcolumn(name = "S3USERCLASS", type_ = "string", json_path = ".status.s3ClassName"),
    printcolumn(name = "S3USER", type_ = "string", json_path = ".status.s3UserName"),
    printcolumn(name = "MAX OBJECTS", type_ = "string", json_path = ".status.quota.maxObjects"),
    printcolumn(name = "MAX SIZE", type_ = "string", json_path = ".status.quota.maxSize"),
    printcolumn(name = "MAX BUCKETS", type_ = "string", json_path = ".status.quota.maxBuckets"),
    printcolumn(name = "USED SIZE", type_ = "string", json_path = ".status.used.size"),
    printcolumn(name = "USED OBJECTS", type_ = "integer", json_path = ".status.used.objects"),
    printcolumn(name = "USED BUCKETS", type_ = "integer", json_path = ".status.used.buckets"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name.size() <= 189")
        .message("the name of a claim must have at most 189 characters, because other objects are named after it"),
)]
#[x_kube(
    validation = Rule::new("!has(self.s3ClassName) || !has(self.s3UserClass)")
        .message("give s3ClassName or s3UserClass, not both"),
    validation = Rule::new("has(self.readSecretName) != has(self.readonlySecret)")
        .message("give exactly one of readSecretName and readonlySecret"),
    validation = Rule::new("has(self.adminSecretName) != has(self.adminSecret)")
        .message("give exactly one of adminSecretName and adminSecret"),
    validation = Rule::new(
        "(has(self.readSecretName) ? self.readSecretName : has(self.readonlySecret) ? self.readonlySecret : 'read') != \
         (has(self.adminSecretName) ? self.adminSecretName : has(self.adminSecret) ? self.adminSecret : 'admin')"
    )
    .message("the read Secret and the admin Secret must have different names"),
    validation = Rule::new(
        "(has(self.s3ClassName) ? self.s3ClassName : has(self.s3UserClass) ? self.s3UserClass : '') == \
         (has(oldSelf.s3ClassName) ? oldSelf.s3ClassName : has(oldSelf.s3UserClass) ? oldSelf.s3UserClass : '')"
    )
    .message(Message::Expression(
        "has(self.s3UserClass) || has(oldSelf.s3UserClass) ? 's3UserClass is immutable' : 's3ClassName is immutable'".into()
    ))
    .reason(Reason::FieldValueForbidden),
)]
#[serde(rename_all = "camelCase")]
pub struct S3UserClaimSpec {
    /// Name of the S3Class. Default: the default class. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub s3_class_name: Option<String>,
    /// Other spelling of `s3ClassName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub s3_user_class: Option<String>,
    /// Secret to make with keys that read every bucket of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub read_secret_name: Option<String>,
    /// Other spelling of `readSecretName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub readonly_secret: Option<String>,
    /// Secret to make with the user's own keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub admin_secret_name: Option<String>,
    /// Other spelling of `adminSecretName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub admin_secret: Option<String>,
    /// How much the user may store. Default: the default quota of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaRequest>,
    /// More identities below the user, each with a Secret `<claim>-<subuser>`. They reach only the buckets that name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))
    )]
    #[x_kube(
        merge_strategy = ListMerge::Set,
        validation = Rule::new("!('readonly' in self)").message("readonly is the subuser behind the read Secret: choose another name"),
    )]
    pub subusers: Vec<String>,
}

impl S3UserClaimSpec {
    /// The class asked for, in either spelling. An empty name asks for the default class.
    pub fn class(&self) -> Option<&str> {
        self.s3_class_name.as_deref().or(self.s3_user_class.as_deref()).filter(|name| !name.is_empty())
    }

    /// Name of the read Secret, in either spelling.
    pub fn read_secret(&self) -> Option<&str> {
        self.read_secret_name.as_deref().or(self.readonly_secret.as_deref())
    }

    /// Name of the admin Secret, in either spelling.
    pub fn admin_secret(&self) -> Option<&str> {
        self.admin_secret_name.as_deref().or(self.admin_secret.as_deref())
    }
}

/// What the claim got.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3UserClaimStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Class in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_class_name: Option<String>,
    /// Name of the S3User object: `<namespace>.<claim>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_user_name: Option<String>,
    /// Quota in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<ReportedQuota>,
    /// What the user's buckets hold, whoever made them. Looked at every ten minutes and told when it moved by more than a hundredth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<ReportedUsage>,
    /// Subusers that exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subusers: Vec<String>,
    /// Value of the annotation `s3.snappcloud.io/rotate-keys` that was last carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_key_rotation: Option<String>,
    /// `Ready`: user, quota and Secrets are there. `Reconciling`: work is going on. `Stalled`: somebody must act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}
