//! An administrator's offer of object storage.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quota::QuotaLimits;
use crate::{Condition, LabelSelector, is_false, schema};

/// Where the storage is and who may use it.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "s3.snappcloud.io",
    version = "v1alpha1",
    kind = "S3Class",
    plural = "s3classes",
    status = "S3ClassStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A Ceph object gateway that claims may use.",
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".spec.endpoint"),
    printcolumn(name = "Default", type_ = "boolean", json_path = ".spec.default"),
    printcolumn(name = "OnDelete", type_ = "string", json_path = ".spec.onDelete"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct S3ClassSpec {
    /// Address of the gateway, for the operator and in the tenants' Secrets, for example `https://s3.example.com`. Once the
    /// class has users it must lead to the Ceph they are in.
    #[schemars(length(max = 1024), regex(pattern = r"^https?://[^/?#@\s]+/?$"))]
    pub endpoint: String,
    /// Region told to S3 clients. Default: `us-east-1`.
    #[serde(default = "default_region")]
    #[schemars(length(min = 1, max = 63))]
    pub region: String,
    /// First part of every Ceph tenant: a claim of namespace `team-a` is in tenant `<tenantPrefix>_team_a`. Cannot be
    /// changed: existing users would be lost.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9][a-z0-9_]*$"))]
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("tenantPrefix is immutable: make another class instead")
        .reason(Reason::FieldValueForbidden))]
    pub tenant_prefix: String,
    /// Secret with the keys `accessKey` and `secretKey` of a Ceph user that may administer users, buckets and quotas.
    pub admin_secret: SecretReference,
    /// Certificates (PEM) the gateway's own is checked against. Default: the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub ca_bundle: Option<String>,
    /// Quota of a claim that asks for none. Default: 5Gi in 1000 objects and 2 buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_quota: Option<QuotaLimits>,
    /// What becomes of a user that still has buckets when its claim is deleted. `Retain` (default): it is suspended and
    /// kept. `Purge`: it goes with all its data.
    #[serde(default)]
    pub on_delete: OnDelete,
    /// Labels of the namespaces that may use the class. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_namespaces: Option<LabelSelector>,
    /// Whether only namespaces that belong to a team, by their label `snappcloud.io/team`, may use the class. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub team_required: bool,
    /// Whether claims that name no class use this one. Of several classes that say so the oldest is used. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default: bool,
}

fn default_region() -> String {
    "us-east-1".to_owned()
}

/// A Secret the operator reads.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Namespace of the Secret. Default: the namespace of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// What becomes of a user that still has buckets.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnDelete {
    #[default]
    Retain,
    Purge,
}

/// Whether the class can be used.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3ClassStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The release of Ceph behind the gateway, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The Ceph the class serves. As long as it has users it serves no other one (`AnotherCluster`), unless the annotation
    /// `s3.snappcloud.io/confirm-cluster` of the class says that they are there: with its id, or its endpoint where no id is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<S3ClassCluster>,
    /// `Ready`: the gateway answers and accepts the admin keys. Claims wait for it. `Reconciling`: it is asked again.
    /// `Stalled`: somebody must act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// A Ceph, as its gateway was reached.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3ClassCluster {
    /// Address of the gateway.
    pub endpoint: String,
    /// Id of the Ceph cluster, where the gateway tells it: from Ceph 17 on, to an administrator with the capability `info=read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}
