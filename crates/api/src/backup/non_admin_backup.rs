//! A tenant's backup of its namespace.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::{DataMoverCounts, FileSystemCounts, NonAdminPhase, QueueInfo};
use crate::velero::{BackupSpec, BackupStatus, DeleteBackupRequestStatus};
use crate::{Condition, is_false, schema};

/// What to back up.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "oadp.openshift.io",
    version = "v1alpha1",
    kind = "NonAdminBackup",
    plural = "nonadminbackups",
    shortname = "nab",
    namespaced,
    status = "NonAdminBackupStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A backup of the namespace it is in.",
    printcolumn(name = "Request-Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Velero-Phase", type_ = "string", json_path = ".status.veleroBackup.status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminBackupSpec {
    /// A Velero BackupSpec; `{}` backs up the whole namespace. `includedNamespaces` is always this namespace, and
    /// `storageLocation` names a NonAdminBackupStorageLocation in it.
    pub backup_spec: BackupSpec,
    /// Set to true to delete the backup with its data and its restores. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete_backup: bool,
    /// Set to true to delete the backup without waiting for its data to go. Wins over `deleteBackup`. Default: false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force_delete_backup: bool,
}

/// How the backup is doing.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminBackupStatus {
    /// `New`: not yet checked. `BackingOff`: refused until you change it. `Created`: handed to Velero. `Deleting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<NonAdminPhase>,
    /// `Accepted`: the spec is allowed. `Queued`: Velero has the backup. `Deleting`: deletion is under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_in_order")]
    pub conditions: Vec<Condition>,
    /// The Velero Backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub velero_backup: Option<VeleroBackupReference>,
    /// The Velero DeleteBackupRequest, while the backup is being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub velero_delete_backup_request: Option<VeleroDeletionReference>,
    /// Transfers of volume snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_mover_data_uploads: Option<DataMoverCounts>,
    /// Volumes copied through the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system_pod_volume_backups: Option<FileSystemCounts>,
    /// Place in Velero's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_info: Option<QueueInfo>,
}

/// The Velero Backup behind a NonAdminBackup.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VeleroBackupReference {
    /// Unique name chosen before the Backup is made; its label carries the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nacuuid: Option<String>,
    /// Name of the Backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// UID of the Backup that was made for this request: no other one is taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Copy of the Backup's spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub spec: Option<BackupSpec>,
    /// Copy of the Backup's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub status: Option<BackupStatus>,
}

/// The Velero DeleteBackupRequest of a NonAdminBackup.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VeleroDeletionReference {
    /// `nacuuid` of the Velero Backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nacuuid: Option<String>,
    /// Name of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Copy of the request's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub status: Option<DeleteBackupRequestStatus>,
}
