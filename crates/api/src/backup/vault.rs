//! A place for backups that nobody but Velero can write.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, Quantity, schema, storage::ReportedUsage};

/// The vault wanted.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "croft.dev",
    version = "v1alpha1",
    kind = "BackupVault",
    plural = "backupvaults",
    shortname = "vault",
    namespaced,
    status = "BackupVaultStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A bucket for the backups of the namespace whose keys only Velero has, and the NonAdminBackupStorageLocation of the same name. Backups that name no location go here.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Used", type_ = "string", json_path = ".status.used.size"),
    printcolumn(name = "Size", type_ = "string", json_path = ".status.quota.size"),
    printcolumn(name = "Last-Backup", type_ = "date", json_path = ".status.lastBackup.completionTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BackupVaultSpec {
    /// The S3Class the bucket is made in. Default: the S3Class that is marked as default. It counts when the vault is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_class_name: Option<String>,
    /// How much the vault may hold. It counts like a claim of the namespace. A member left out takes the default of the class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<VaultQuota>,
    /// What becomes of the backups when the vault is deleted, also with its namespace or by a NamespaceClass that stamped it.
    #[serde(default)]
    pub on_delete: VaultOnDelete,
}

/// How much a vault may hold.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VaultQuota {
    /// Bytes, for example `50Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub size: Option<Quantity>,
    /// Objects, for example `10k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub objects: Option<Quantity>,
}

/// What becomes of the backups when a vault is deleted.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VaultOnDelete {
    /// They are kept, and a vault of this name in this namespace has them back. Until then nobody can read or write them.
    #[default]
    Retain,
    /// They go with it.
    Purge,
}

/// How the vault is doing.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupVaultStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The class the bucket is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3_class_name: Option<String>,
    /// Name of the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// How much it may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<VaultQuota>,
    /// What is in it. Looked at when a backup is finished, and now and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<ReportedUsage>,
    /// The last backup in it that was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup: Option<LastBackup>,
    /// `Ready`: backups can be stored in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// A finished backup.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastBackup {
    /// Name of the NonAdminBackup it was made for.
    pub name: String,
    /// When it was finished.
    pub completion_time: String,
}
