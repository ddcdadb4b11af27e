//! A tenant's request for a file of a backup or restore.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::NonAdminPhase;
use crate::velero::DownloadRequestStatus;
use crate::{Condition, schema};

/// The file wanted.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "oadp.openshift.io",
    version = "v1alpha1",
    kind = "NonAdminDownloadRequest",
    plural = "nonadmindownloadrequests",
    shortname = "nadr",
    namespaced,
    status = "NonAdminDownloadRequestStatus",
    derive = "PartialEq",
    doc = "Asks for a signed URL to a file of a backup or restore in the namespace. It goes away when the URL expires.",
    printcolumn(name = "Request-Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("self == oldSelf")
        .message("a NonAdminDownloadRequest cannot be changed: create a new one")
        .reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminDownloadRequestSpec {
    /// The file.
    pub target: DownloadTarget,
}

/// A file of a backup or restore.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DownloadTarget {
    /// Which file, for example `BackupLog`.
    pub kind: DownloadTargetKind,
    /// Name of the NonAdminBackup or NonAdminRestore in this namespace.
    #[schemars(length(max = 253))]
    pub name: String,
}

/// The files Velero hands out.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DownloadTargetKind {
    BackupLog,
    BackupContents,
    BackupVolumeSnapshots,
    BackupItemOperations,
    BackupResourceList,
    BackupResults,
    RestoreLog,
    RestoreResults,
    RestoreResourceList,
    RestoreItemOperations,
    #[serde(rename = "CSIBackupVolumeSnapshots")]
    CsiBackupVolumeSnapshots,
    #[serde(rename = "CSIBackupVolumeSnapshotContents")]
    CsiBackupVolumeSnapshotContents,
    BackupVolumeInfos,
    RestoreVolumeInfo,
}

impl DownloadTargetKind {
    /// Whether the file belongs to a restore; otherwise it belongs to a backup.
    pub fn is_of_restore(self) -> bool {
        matches!(
            self,
            Self::RestoreLog
                | Self::RestoreResults
                | Self::RestoreResourceList
                | Self::RestoreItemOperations
                | Self::RestoreVolumeInfo
        )
    }
}

/// Where the request stands.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminDownloadRequestStatus {
    /// `Created`: the URL is there. `BackingOff`: refused; the condition says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<NonAdminPhase>,
    /// `Processed`: the URL is there. `NonAdminBackupStorageLocationNotUsed`, `NonAdminBackupNotAvailable`,
    /// `NonAdminRestoreNotAvailable`: why there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_in_order")]
    pub conditions: Vec<Condition>,
    /// The Velero DownloadRequest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub velero: Option<VeleroDownload>,
}

/// The Velero DownloadRequest behind a NonAdminDownloadRequest.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VeleroDownload {
    /// Copy of its status: `downloadURL`, `expiration`, `phase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub status: Option<DownloadRequestStatus>,
}
