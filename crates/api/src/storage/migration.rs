//! Moving buckets from one user to another.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Time, schema};

/// What to move. Cannot be changed; a migration runs once.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "s3.snappcloud.io",
    version = "v1alpha1",
    kind = "UserMigration",
    plural = "usermigrations",
    status = "UserMigrationStatus",
    derive = "PartialEq",
    doc = "Moves buckets from the user of one S3UserClaim to that of another, once, and then deletes the first. For administrators: whoever may make one can give any tenant's data to any other.",
    printcolumn(name = "From NS", type_ = "string", json_path = ".spec.currentUser.namespace"),
    printcolumn(name = "From", type_ = "string", json_path = ".spec.currentUser.name"),
    printcolumn(name = "To NS", type_ = "string", json_path = ".spec.targetUser.namespace"),
    printcolumn(name = "To", type_ = "string", json_path = ".spec.targetUser.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Moved", type_ = "string", json_path = ".status.moved"),
    printcolumn(
        name = "Why",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("a migration cannot be changed: make a new one")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "self.currentUser.name != self.targetUser.name || self.currentUser.__namespace__ != self.targetUser.__namespace__"
    )
    .message("currentUser and targetUser are the same"),
)]
#[serde(rename_all = "camelCase")]
pub struct UserMigrationSpec {
    /// The claim whose user has the buckets now.
    pub current_user: UserReference,
    /// The claim whose user gets them. If there is no such claim it is made, like the current one.
    pub target_user: UserReference,
    /// Names of the buckets to move.
    #[schemars(length(min = 1, max = 1000), inner(length(min = 3, max = 63)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub buckets: Vec<String>,
    /// Whether the current claim is deleted afterwards. Its user goes only if it has no bucket left. Default: true.
    #[serde(default = "yes")]
    pub delete_current_user: bool,
}

fn yes() -> bool {
    true
}

/// An S3UserClaim.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserReference {
    /// Namespace of the claim.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Name of the claim.
    #[schemars(length(min = 1, max = 189))]
    pub name: String,
}

/// How far the migration is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UserMigrationStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Pending`: being checked. `Running`: buckets are moving. `Succeeded` and `Failed` are final.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MigrationPhase>,
    /// How many of the buckets are moved, as `1/2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<String>,
    /// When the first bucket began to move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the migration ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// One entry per bucket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub buckets: Vec<BucketMove>,
    /// `Ready`: the migration succeeded. `Reconciling`: it is running. `Stalled`: somebody must act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// Where a migration stands.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MigrationPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// How far one bucket is.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BucketMove {
    /// Name of the bucket.
    pub name: String,
    /// `Pending`; `PolicyRemoved`: the old policy is off; `Linked`: the bucket belongs to the target user; `Returning`: a policy
    /// keeps the new owner from setting one, it goes back; `Moved`: its policy is set for the new owner; `Failed`: it was not moved, or not
    /// to its end; see `message`.
    pub state: BucketMoveState,
    /// Id of the bucket in Ceph, which it keeps when its owner changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The policy the bucket had, as JSON, kept until the new one is set, or the old one again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Why it was not moved, or what was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How far one bucket is.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BucketMoveState {
    #[default]
    Pending,
    PolicyRemoved,
    Linked,
    Returning,
    Moved,
    Failed,
}
