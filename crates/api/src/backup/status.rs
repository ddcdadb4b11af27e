//! What the statuses of this part share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::is_zero;

/// Where a request stands. It only moves forward.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NonAdminPhase {
    #[default]
    New,
    BackingOff,
    Created,
    Deleting,
}

/// Place in Velero's queue.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueInfo {
    /// 1: next, or running. 0: done.
    pub estimated_queue_position: i64,
}

/// Transfers of volume snapshots, counted by phase.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataMoverCounts {
    /// All of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub total: i64,
    /// Not begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub new: i64,
    /// Taken by a node.
    #[serde(skip_serializing_if = "is_zero")]
    pub accepted: i64,
    /// Ready to transfer.
    #[serde(skip_serializing_if = "is_zero")]
    pub prepared: i64,
    /// Transferring.
    #[serde(skip_serializing_if = "is_zero")]
    pub in_progress: i64,
    /// Being cancelled.
    #[serde(skip_serializing_if = "is_zero")]
    pub canceling: i64,
    /// Cancelled.
    #[serde(skip_serializing_if = "is_zero")]
    pub canceled: i64,
    /// Failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i64,
    /// Done.
    #[serde(skip_serializing_if = "is_zero")]
    pub completed: i64,
}

/// Volumes copied through the file system, counted by phase.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemCounts {
    /// All of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub total: i64,
    /// Not begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub new: i64,
    /// Being copied.
    #[serde(skip_serializing_if = "is_zero")]
    pub in_progress: i64,
    /// Failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: i64,
    /// Done.
    #[serde(skip_serializing_if = "is_zero")]
    pub completed: i64,
}
