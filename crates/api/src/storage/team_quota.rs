//! An administrator's limit for a team.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quota::QuotaLimits;
use crate::{Condition, schema};

/// How much the claims of a team may ask for together.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "s3.snappcloud.io",
    version = "v1alpha1",
    kind = "S3TeamQuota",
    plural = "s3teamquotas",
    status = "S3TeamQuotaStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Limits the object storage of a team: all namespaces whose label `snappcloud.io/team` names it.",
    printcolumn(name = "Size", type_ = "string", json_path = ".spec.hard.size"),
    printcolumn(name = "Used Size", type_ = "string", json_path = ".status.used.size"),
    printcolumn(name = "Objects", type_ = "string", json_path = ".spec.hard.objects"),
    printcolumn(name = "Used Objects", type_ = "string", json_path = ".status.used.objects"),
    printcolumn(name = "Buckets", type_ = "string", json_path = ".spec.hard.buckets"),
    printcolumn(name = "Used Buckets", type_ = "string", json_path = ".status.used.buckets"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct S3TeamQuotaSpec {
    /// The team, as the label of its namespaces says it. Default: the name of this object. Of several objects for one team all hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub team: Option<String>,
    /// The limits. Reaching one is allowed, passing it is not.
    pub hard: QuotaLimits,
}

impl S3TeamQuota {
    /// The team it limits.
    pub fn team(&self) -> &str {
        self.spec.team.as_deref().or(self.metadata.name.as_deref()).unwrap_or_default()
    }
}

/// What the team has asked for.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3TeamQuotaStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Sum over the claims of the team: what each has or was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<QuotaLimits>,
    /// What each namespace of the team has of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceUsage>,
    /// `Ready`: the sum is within the limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// What one namespace has.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceUsage {
    /// Name of the namespace.
    pub name: String,
    /// Bytes, over its claims.
    pub size: String,
    /// Objects, over its claims.
    pub objects: String,
    /// Buckets, over its claims.
    pub buckets: i64,
}
