//! Velero's statuses, open, with typed access to what we read.

use std::fmt;

use jiff::Timestamp;

use crate::open::open_type;

open_type!(
    /// How a backup is doing.
    #[derive(Debug)]
    BackupStatus
);

open_type!(
    /// How a restore is doing.
    #[derive(Debug)]
    RestoreStatus
);

open_type!(
    /// What became of a deletion.
    #[derive(Debug)]
    DeleteBackupRequestStatus
);

open_type!(
    /// The signed URL. `Debug` leaves it out: whoever has it can download.
    DownloadRequestStatus
);

open_type!(
    /// Whether the location can be used.
    #[derive(Debug)]
    BackupStorageLocationStatus
);

open_type!(
    /// How one volume is doing.
    #[derive(Debug)]
    WorkStatus
);

macro_rules! with_phase {
    ($($status:ident),+) => {
        $(impl $status {
            pub fn phase(&self) -> Option<&str> {
                self.text("phase")
            }
        })+
    };
}

with_phase!(
    BackupStatus,
    RestoreStatus,
    DeleteBackupRequestStatus,
    DownloadRequestStatus,
    BackupStorageLocationStatus,
    WorkStatus
);

macro_rules! with_times {
    ($($status:ident),+) => {
        $(impl $status {
            pub fn start_timestamp(&self) -> Option<Timestamp> {
                self.timestamp("startTimestamp")
            }

            pub fn completion_timestamp(&self) -> Option<Timestamp> {
                self.timestamp("completionTimestamp")
            }

            pub fn failure_reason(&self) -> Option<&str> {
                self.text("failureReason")
            }
        })+
    };
}

with_times!(BackupStatus, RestoreStatus);

impl BackupStatus {
    /// When Velero will delete the backup.
    pub fn expiration(&self) -> Option<Timestamp> {
        self.timestamp("expiration")
    }
}

impl DeleteBackupRequestStatus {
    /// Why Velero refused; empty if it did not.
    pub fn errors(&self) -> Vec<&str> {
        self.texts("errors").unwrap_or_default()
    }
}

impl DownloadRequestStatus {
    pub fn download_url(&self) -> Option<&str> {
        self.text("downloadURL")
    }

    /// When the URL stops working.
    pub fn expiration(&self) -> Option<Timestamp> {
        self.timestamp("expiration")
    }
}

impl fmt::Debug for DownloadRequestStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DownloadRequestStatus")
            .field("phase", &self.phase())
            .field("expiration", &self.expiration())
            .field("has_url", &self.download_url().is_some())
            .finish()
    }
}

impl BackupStorageLocationStatus {
    pub fn message(&self) -> Option<&str> {
        self.text("message")
    }
}
