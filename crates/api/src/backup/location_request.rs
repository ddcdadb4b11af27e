//! An administrator's decision on a tenant's location.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::velero::BackupStorageLocationSpec;

/// The decision.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "oadp.openshift.io",
    version = "v1alpha1",
    kind = "NonAdminBackupStorageLocationRequest",
    plural = "nonadminbackupstoragelocationrequests",
    shortname = "nabslrequest",
    namespaced,
    status = "NonAdminBackupStorageLocationRequestStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Asks an administrator to approve a NonAdminBackupStorageLocation. Made by the operator in Velero's namespace.",
    printcolumn(name = "Request-Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Request-Namespace",
        type_ = "string",
        json_path = ".status.nonAdminBackupStorageLocation.namespace"
    ),
    printcolumn(name = "Request-Name", type_ = "string", json_path = ".status.nonAdminBackupStorageLocation.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminBackupStorageLocationRequestSpec {
    /// `approve`, `reject` or `pending`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_decision: Option<ApprovalDecision>,
}

/// What the administrator decided.
#[derive(JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDecision {
    Approve,
    Reject,
    Pending,
}

/// What is to be decided.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NonAdminBackupStorageLocationRequestStatus {
    /// `Pending`, `Approved` or `Rejected`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RequestPhase>,
    /// The location in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_admin_backup_storage_location: Option<RequestedLocation>,
}

/// Where a request for approval stands.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RequestPhase {
    #[default]
    Pending,
    Approved,
    Rejected,
}

/// The location an administrator is asked about.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestedLocation {
    /// Unique name of the Velero location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nacuuid: Option<String>,
    /// Name of the NonAdminBackupStorageLocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The spec to decide on.
    #[schemars(schema_with = "schema::open_object")]
    pub requested_spec: BackupStorageLocationSpec,
    /// The spec approved before; it stays in force while a newer one waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub approved_spec: Option<BackupStorageLocationSpec>,
}
