//! A tenant's restore into its namespace.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::{DataMoverCounts, FileSystemCounts, NonAdminPhase, QueueInfo};
use crate::velero::{RestoreSpec, RestoreStatus};
use crate::{Condition, is_zero, schema};

/// What to restore.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "oadp.openshift.io",
    version = "v1alpha1",
    kind = "NonAdminRestore",
    plural = "nonadminrestores",
    shortname = "nar",
    namespaced,
    status = "NonAdminRestoreStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A restore into the namespace it is in.",
    printcolumn(name = "Request-Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Velero-Phase", type_ = "string", json_path = ".status.veleroRestore.status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminRestoreSpec {
    /// A Velero RestoreSpec. `backupName` names a NonAdminBackup in this namespace; namespaces cannot be chosen.
    pub restore_spec: RestoreSpec,
}

/// How the restore is doing.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminRestoreStatus {
    /// `New`: not yet checked. `BackingOff`: refused until you change it. `Created`: handed to Velero. `Deleting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<NonAdminPhase>,
    /// `Accepted`: the spec is allowed. `Queued`: Velero has the restore. `Deleting`: deletion is under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_in_order")]
    pub conditions: Vec<Condition>,
    /// The Velero Restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub velero_restore: Option<VeleroRestoreReference>,
    /// Transfers of volume snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_mover_data_downloads: Option<DataMoverCounts>,
    /// Volumes copied through the file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system_pod_volume_restores: Option<FileSystemCounts>,
    /// Place in Velero's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_info: Option<QueueInfo>,
    /// What of the backup did not come back, once the restore has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
}

/// What of the backup did not come back. Empty: everything did.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeftOut {
    /// By kind and reason.
    #[schemars(length(max = 50))]
    pub kinds: Vec<LeftOutKind>,
    /// How many more there are than `kinds` has room for.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_kinds: i64,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<String>,
}

/// Objects of one kind that did not come back for one reason.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOutKind {
    /// As `version/Kind` or `group/version/Kind`.
    pub kind: String,
    /// How many objects.
    pub count: i64,
    /// `ClusterScoped`: it belongs to the cluster. `NotForTenants`: the administrator does not list the kind. `NotSelected`: the
    /// restore does not ask for it, or it has ended (pods, jobs). `NotWritten`: there is one of the name that differs, and
    /// `existingResourcePolicy` is not `update`; or it was refused. A NonAdminDownloadRequest for `RestoreResults` says which.
    pub reason: String,
}

/// The Velero Restore behind a NonAdminRestore.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VeleroRestoreReference {
    /// Unique name chosen before the Restore is made; its label carries the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nacuuid: Option<String>,
    /// Name of the Restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// UID of the Restore that was made for this request: no other one is taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Copy of the Restore's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub status: Option<RestoreStatus>,
}
