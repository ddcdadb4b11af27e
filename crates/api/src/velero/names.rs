//! Velero's own labels.

/// On everything Velero or we make for a Backup: its name, in label-safe form.
pub const BACKUP_NAME_LABEL: &str = "velero.io/backup-name";
/// On a DeleteBackupRequest: UID of the Backup.
pub const BACKUP_UID_LABEL: &str = "velero.io/backup-uid";
/// On everything Velero makes for a Restore: its name, in label-safe form.
pub const RESTORE_NAME_LABEL: &str = "velero.io/restore-name";
/// On a Backup: its storage location.
pub const STORAGE_LOCATION_LABEL: &str = "velero.io/storage-location";
/// On a Backup: the Schedule of Velero's that made it.
pub const SCHEDULE_NAME_LABEL: &str = "velero.io/schedule-name";
/// On a Restore: how long it waits for the volumes of a pod.
pub const VOLUME_TIMEOUT_ANNOTATION: &str = "velero.io/pod-volume-timeout";
