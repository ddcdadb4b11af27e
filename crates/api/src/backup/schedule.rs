//! Backups by the clock.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Condition, is_false, schema, velero::BackupSpec};

/// The schedule wanted.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "croft.dev",
    version = "v1alpha1",
    kind = "BackupSchedule",
    plural = "backupschedules",
    namespaced,
    status = "BackupScheduleStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Makes NonAdminBackups of the namespace by the clock, one at a time, and deletes those that are no longer to be kept. Its backups stay when it is deleted.",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Last", type_ = "date", json_path = ".status.lastScheduleTime"),
    printcolumn(name = "Next", type_ = "string", json_path = ".status.nextScheduleTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct BackupScheduleSpec {
    /// When, as cron has it: minute, hour, day of month, month and day of week, as in `30 3 * * 1-5`; or `@hourly`, `@daily`,
    /// `@weekly`, `@monthly`, `@yearly`. Of the times missed while a backup was still running, or while nothing ran at all, one is
    /// made up for.
    pub schedule: String,
    /// The time zone of the schedule, as in `Europe/Paris`. A time its clocks skip comes right after; one they show twice comes
    /// once. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// No backups are made while it is true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub suspend: bool,
    /// The backups to make.
    pub template: BackupTemplate,
    /// The backups to keep. Default: all of them, as long as their `ttl` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<KeptBackups>,
}

/// What a schedule makes.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupTemplate {
    /// `spec.backupSpec` of the NonAdminBackups.
    pub backup_spec: BackupSpec,
}

/// Which backups of a schedule are kept. What is not is deleted with its data; the last good one always stays.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptBackups {
    /// So many good ones; at most three that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub last: Option<i64>,
    /// None older than this, as in `720h`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
}

/// How the schedule is doing.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupScheduleStatus {
    /// The `metadata.generation` this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time the last backup was made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<String>,
    /// Name of the last NonAdminBackup that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_backup_name: Option<String>,
    /// When the next one is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<String>,
    /// `Ready`: backups are made in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}
