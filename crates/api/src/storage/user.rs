//! The cluster's record of a claim's Ceph user.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quota::ReportedQuota;
use crate::{Condition, is_false, schema};

/// The Ceph user and the claim it belongs to.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "s3.snappcloud.io",
    version = "v1alpha1",
    kind = "S3User",
    plural = "s3users",
    status = "S3UserStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "The user behind an S3UserClaim, named `<namespace>.<claim>`. Written by the operator; it outlives the claim until the Ceph user is gone. An administrator removes `spec.claimRef.uid` to give a released user to the claim of that name.",
    printcolumn(name = "S3USERCLASS", type_ = "string", json_path = ".spec.s3UserClass"),
    printcolumn(name = "CLAIM NS", type_ = "string", json_path = ".spec.claimRef.namespace"),
    printcolumn(name = "CLAIM NAME", type_ = "string", json_path = ".spec.claimRef.name"),
    printcolumn(name = "MAX OBJECTS", type_ = "string", json_path = ".spec.quota.maxObjects"),
    printcolumn(name = "MAX SIZE", type_ = "string", json_path = ".spec.quota.maxSize"),
    printcolumn(name = "MAX BUCKETS", type_ = "string", json_path = ".spec.quota.maxBuckets"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("!has(oldSelf.cephUser) || (has(self.cephUser) && self.cephUser == oldSelf.cephUser)")
        .message("cephUser is immutable: it says where the data is")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "!has(oldSelf.cephUser) || !(has(oldSelf.s3ClassName) || has(oldSelf.s3UserClass)) || \
         (has(self.s3ClassName) ? self.s3ClassName : has(self.s3UserClass) ? self.s3UserClass : '') == \
         (has(oldSelf.s3ClassName) ? oldSelf.s3ClassName : oldSelf.s3UserClass)"
    )
    .message("the class of a user is immutable: it says in which Ceph the data is")
    .reason(Reason::FieldValueForbidden),
)]
#[serde(rename_all = "camelCase")]
pub struct S3UserSpec {
    /// Class of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_class_name: Option<String>,
    /// Same as `s3ClassName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_user_class: Option<String>,
    /// Id of the user in Ceph: `<tenant>$<id>`. Recorded before the user is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceph_user: Option<String>,
    /// Name of the read Secret in the claim's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_secret_name: Option<String>,
    /// Name of the admin Secret in the claim's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_secret_name: Option<String>,
    /// Subusers made for the claim. Recorded before they are made, forgotten when they are gone.
    // Always written: a merge patch leaves what it does not name.
    #[serde(default)]
    pub subusers: Vec<String>,
    /// The last change of keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = StructMerge::Atomic)]
    pub key_rotation: Option<KeyRotation>,
    /// The claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = StructMerge::Atomic)]
    pub claim_ref: Option<ClaimReference>,
    /// Display name the Ceph user bore when it was given to the claim. Recorded before it is taken over, forgotten when it bears the
    /// claim's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over_from: Option<String>,
    /// The UserMigration that moves buckets of this user: until it is over, no claim or S3Bucket is worked on against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = StructMerge::Atomic)]
    pub held_by: Option<MigrationReference>,
    /// Whether a UserMigration moved the buckets of this user and deletes its claim: what is found with the user then was made
    /// meanwhile, and is kept whatever the class says. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub moved_away: bool,
    /// Quota granted to the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<ReportedQuota>,
    /// Buckets that UserMigrations brought. Recorded before they come: their policies keep out whoever had them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub moved_buckets: Vec<MovedBucket>,
}

/// A bucket that came from others.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MovedBucket {
    /// Name of the bucket.
    pub name: String,
    /// Id of the bucket in Ceph: another one of that name is not meant.
    pub id: String,
    /// Tenants in Ceph whose users had the bucket.
    pub former_tenants: Vec<String>,
}

/// A UserMigration.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MigrationReference {
    /// Name of the migration.
    pub name: String,
    /// UID of the migration.
    pub uid: String,
}

/// A change of all keys of a user.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyRotation {
    /// Value of the claim's annotation `s3.snappcloud.io/rotate-keys` that asked for it.
    #[serde(default)]
    pub asked: String,
    /// Names of the access keys there were before. They are handed out no more and removed once the new ones are.
    #[serde(default)]
    pub retired_keys: Vec<String>,
}

/// The claim a user belongs to.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimReference {
    /// `s3.snappcloud.io/v1alpha1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `S3UserClaim`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID of the claim: one made again under the same name is another claim. An administrator removes it to give the user, with
    /// all its buckets, to whichever claim has this namespace and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Where the user stands.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3UserStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Bound`: the claim exists. `Removing`: the claim was deleted, what it has in Ceph is being removed. `Released`: the claim
    /// is gone, the user is suspended and its buckets are kept. While its S3Class gives everything up, what it has in Ceph is being
    /// removed whatever is said here, as the reason `Deleting` tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<S3UserPhase>,
    /// Buckets without an S3Bucket that are never removed with the claim: their S3Buckets said `retain`, were taken away
    /// with their namespace or class while there was something in them, or are not known because the S3User was made anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_buckets: Vec<String>,
    /// Whether there were more of them than 1000, which are not listed: then every bucket without an S3Bucket is kept but those that
    /// are listed as left. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_all_buckets: bool,
    /// Buckets nobody could look into when their S3Buckets went with their namespace: removed if they turn out to be empty,
    /// otherwise kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_buckets: Vec<String>,
    /// How far the removal of the user's buckets has come, where the class says `onDelete: Purge`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge: Option<S3UserPurge>,
    /// UID of the namespace whose class took the claim away. If the class brings the claim again, that one gets the user. Of a
    /// BackupVault: of the namespace it is or was in; one of its name that is made there gets the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns_to: Option<String>,
    /// `Ready`: Ceph has the user as recorded here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// The removal of a user's buckets with all their objects.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct S3UserPurge {
    /// Buckets to remove, in all.
    pub buckets: u32,
    /// The bucket the gateway is removing.
    pub bucket: String,
    /// Objects that were in it when it was last looked at.
    pub objects: i64,
    /// When that was.
    pub time: String,
}

/// Whether a claim stands behind the user.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum S3UserPhase {
    Bound,
    Removing,
    Released,
}
