//! The books of a team's storage.
//!
//! A ledger is cluster-scoped, because a team spans namespaces and tenants must not be able to write it. Everything is in
//! `spec` and there is no status: one update with a `resourceVersion` then decides over all of it at once.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Time;

/// What every claim of the team, or of the namespace, was promised.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "s3.snappcloud.io",
    version = "v1alpha1",
    kind = "S3QuotaLedger",
    plural = "s3quotaledgers",
    derive = "PartialEq",
    derive = "Default",
    doc = "The quota promised to the claims of a team, or of a namespace without a team. Written by the operator only.",
    printcolumn(name = "Team", type_ = "string", json_path = ".spec.team"),
    printcolumn(name = "Namespace", type_ = "string", json_path = ".spec.namespace"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = Rule::new("has(self.team) != has(self.__namespace__)")
    .message("a ledger is for a team or for a namespace"))]
#[serde(rename_all = "camelCase")]
pub struct S3QuotaLedgerSpec {
    /// The team whose claims are booked here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The namespace whose claims are booked here, where it has no team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One entry per claim, by `<namespace>/<claim>`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[x_kube(merge_strategy = MapMerge::Atomic)]
    pub entries: BTreeMap<String, LedgerEntry>,
}

/// What one claim was promised. It is charged with the largest of `granted`, `stored` and `pending`, member by member.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// UID of the claim, once it is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Generation of the claim when `granted` was last changed: what was asked for before that no longer changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// What Ceph is, or is being, set to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<LedgerAmount>,
    /// What Ceph has stored beyond `granted`, of what there is more: it counts, and gives no right to as much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<LedgerAmount>,
    /// What was reserved at admission and not yet confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<LedgerAmount>,
    /// When `pending` was reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_at: Option<Time>,
    /// UID of the admission request that reserved it.
    #[serde(default, rename = "requestUID", skip_serializing_if = "Option::is_none")]
    pub request_uid: Option<String>,
    /// UID of the claim `pending` is reserved for.
    #[serde(default, rename = "reservedForUID", skip_serializing_if = "Option::is_none")]
    pub reserved_for_uid: Option<String>,
    /// Generation the claim has once that request is stored: `pending` stays until the claim was seen like that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_for_generation: Option<i64>,
}

/// Whole numbers, so that sums are exact.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerAmount {
    /// Bytes.
    #[schemars(range(min = 0))]
    pub size: i64,
    /// Objects.
    #[schemars(range(min = 0))]
    pub objects: i64,
    /// Buckets.
    #[schemars(range(min = 0))]
    pub buckets: i64,
}
