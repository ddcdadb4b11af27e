//! Amounts of storage, as asked for, as allowed and as reported.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{Quantity, schema};

/// How much storage a claim asks for. Every member has two spellings; give one of them. A member left out takes the
/// default of the class.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("!has(self.size) || !has(self.maxSize)").message("give size or maxSize, not both"),
    validation = Rule::new("!has(self.objects) || !has(self.maxObjects)").message("give objects or maxObjects, not both"),
    validation = Rule::new("!has(self.buckets) || !has(self.maxBuckets)").message("give buckets or maxBuckets, not both"),
)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRequest {
    /// Bytes over all buckets of the user, for example `5Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Objects over all buckets of the user, for example `1k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub objects: Option<Quantity>,
    /// Number of buckets; 0 means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub buckets: Option<i64>,
    /// Other spelling of `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub max_size: Option<Quantity>,
    /// Other spelling of `objects`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub max_objects: Option<Quantity>,
    /// Other spelling of `buckets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_buckets: Option<i64>,
}

impl QuotaRequest {
    /// The size asked for, in either spelling.
    pub fn requested_size(&self) -> Option<&Quantity> {
        self.size.as_ref().or(self.max_size.as_ref())
    }

    /// The number of objects asked for, in either spelling.
    pub fn requested_objects(&self) -> Option<&Quantity> {
        self.objects.as_ref().or(self.max_objects.as_ref())
    }

    /// The number of buckets asked for, in either spelling.
    pub fn requested_buckets(&self) -> Option<i64> {
        self.buckets.or(self.max_buckets)
    }
}

/// Amounts an administrator sets. A member left out is not limited.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaLimits {
    /// Bytes, for example `100Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Objects, for example `1M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub objects: Option<Quantity>,
    /// Buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub buckets: Option<i64>,
}

/// A quota in force, in canonical form. It is written in both spellings, so that readers of either find it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedQuota {
    /// Bytes over all buckets of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Objects over all buckets of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub objects: Option<Quantity>,
    /// Number of buckets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<i64>,
    /// Same as `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub max_size: Option<Quantity>,
    /// Same as `objects`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub max_objects: Option<Quantity>,
    /// Same as `buckets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_buckets: Option<i64>,
}

impl ReportedQuota {
    /// Both spellings from one set of amounts.
    pub fn new(size: Quantity, objects: Quantity, buckets: i64) -> Self {
        Self {
            max_size: Some(size.clone()),
            max_objects: Some(objects.clone()),
            max_buckets: Some(buckets),
            size: Some(size),
            objects: Some(objects),
            buckets: Some(buckets),
        }
    }
}

/// What is stored, as quotas count it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedUsage {
    /// Bytes; each object counts rounded up to 4 KiB.
    #[schemars(schema_with = "schema::quantity")]
    pub size: Quantity,
    /// Number of objects; old versions count too.
    pub objects: i64,
    /// Number of buckets of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<i64>,
}
