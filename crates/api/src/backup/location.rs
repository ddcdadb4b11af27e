//! A tenant's own place for backups.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::NonAdminPhase;
use crate::velero::{BackupStorageLocationSpec, BackupStorageLocationStatus};
use crate::{Condition, schema};

/// The location wanted.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "oadp.openshift.io",
    version = "v1alpha1",
    kind = "NonAdminBackupStorageLocation",
    plural = "nonadminbackupstoragelocations",
    shortname = "nabsl",
    namespaced,
    status = "NonAdminBackupStorageLocationStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A place where the backups of the namespace are stored.",
    printcolumn(
        name = "Request-Approved",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='ClusterAdminApproved')].status"
    ),
    printcolumn(name = "Request-Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Velero-Phase",
        type_ = "string",
        json_path = ".status.veleroBackupStorageLocation.status.phase"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminBackupStorageLocationSpec {
    /// A Velero BackupStorageLocationSpec. `credential` names a Secret in this namespace, for example the admin Secret of
    /// an S3UserClaim with the key `cloud`.
    pub backup_storage_location_spec: BackupStorageLocationSpec,
}

/// How the location is doing.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminBackupStorageLocationStatus {
    /// `New`: not yet checked, or waiting for approval. `BackingOff`: refused. `Created`: handed to Velero. `Deleting`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<NonAdminPhase>,
    /// `Accepted`: the spec is allowed. `ClusterAdminApproved`: an administrator agreed. `SpecUpdateApproved`: the latest
    /// change is in force. `SecretSynced`, `BackupStorageLocationSynced`: Velero has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_in_order")]
    pub conditions: Vec<Condition>,
    /// The Velero BackupStorageLocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub velero_backup_storage_location: Option<VeleroLocationReference>,
    /// The copy of the Secret in Velero's namespace as the operator left it. One in another version was changed by somebody else,
    /// and is put right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_copy: Option<SecretCopy>,
}

/// One state of a Secret.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretCopy {
    /// Its UID.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
}

/// The Velero BackupStorageLocation behind a NonAdminBackupStorageLocation.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VeleroLocationReference {
    /// Unique name chosen before the location is made; its label carries the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nacuuid: Option<String>,
    /// Name of the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Copy of the location's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub status: Option<BackupStorageLocationStatus>,
}
