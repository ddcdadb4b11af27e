//! The calls a plan may make. Each is one request, and each says what must hold for it.

use std::fmt;

use crate::{
    backup::{Victim, ownership::Origin, velero::Fields},
    plan,
};

/// One external call.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    AddFinalizer {
        uid: String,
    },
    /// The finalizer, and the note that it is handed over to Velero next.
    Hold {
        uid: String,
    },
    CreateBackup {
        origin: Origin,
        spec: Fields,
        /// See [`fingerprint`](crate::backup::fingerprint).
        made_for: String,
    },
    /// As one in a tenant's own bucket.
    Label(Victim),
    /// The user asked in the spec; the API server has to be told.
    DeleteSelf {
        uid: String,
    },
    DeleteRestore(Victim),
    CreateDeletion {
        name: String,
        origin: Origin,
        backup: Victim,
    },
    /// Only as it was seen: Velero goes on with one it has begun with, and the policies around own buckets go by it.
    DeleteDeletion {
        deletion: Victim,
        version: String,
    },
    /// Velero will find in the bucket what is deleted here; the location says that nobody wants it back.
    NoteLetGo {
        location: Victim,
        nacuuid: String,
    },
    /// Only as it was seen: Velero takes one that is deleted as its turn comes for running for ever, and serves nobody any more.
    DeleteBackup {
        backup: Victim,
        version: String,
    },
    ReleaseFinalizer {
        uid: String,
        because: Release,
    },
}

/// Why the finalizer may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    NothingLeft,
    Forced,
    NamespaceGoes,
    VeleroAway,
    /// See [`leftover`](crate::backup::leftover).
    VeleroAtWork,
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::Hold { .. } => "Hold",
            Step::CreateBackup { .. } => "CreateVeleroBackup",
            Step::Label(_) => "LabelVeleroBackup",
            Step::DeleteSelf { .. } => "DeleteNonAdminBackup",
            Step::DeleteRestore(_) => "DeleteNonAdminRestore",
            Step::CreateDeletion { .. } => "CreateDeleteBackupRequest",
            Step::DeleteDeletion { .. } => "DeleteDeleteBackupRequest",
            Step::NoteLetGo { .. } => "NoteLetGo",
            Step::DeleteBackup { .. } => "DeleteVeleroBackup",
            Step::ReleaseFinalizer { .. } => "ReleaseFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { uid } => {
                write!(out, "add finalizer (uid {uid}): a Velero Backup will need cleaning up")
            }
            Step::Hold { uid } => write!(out, "add finalizer and note (uid {uid}): a Velero Backup is made next"),
            Step::CreateBackup { origin, .. } => {
                write!(out, "create Velero Backup {} (absent): accepted", origin.nacuuid)
            }
            Step::Label(Victim { name, uid }) => {
                write!(out, "label Velero Backup {name} (uid {uid}): it is in a bucket of the tenant's own")
            }
            Step::DeleteSelf { uid } => write!(out, "delete NonAdminBackup (uid {uid}): its spec says so"),
            Step::DeleteRestore(Victim { name, uid }) => {
                write!(out, "delete NonAdminRestore {name} (uid {uid}): its backup goes")
            }
            Step::CreateDeletion { name, backup, .. } => {
                write!(out, "create DeleteBackupRequest {name} (absent) for uid {}: deleteBackup", backup.uid)
            }
            Step::DeleteDeletion { deletion: Victim { name, uid }, .. } => {
                write!(out, "delete DeleteBackupRequest {name} (uid {uid}): it is of no more use")
            }
            Step::NoteLetGo { location: Victim { name, uid }, nacuuid } => {
                write!(
                    out,
                    "note in NonAdminBackupStorageLocation {name} (uid {uid}) that {nacuuid} is let go for good"
                )
            }
            Step::DeleteBackup { backup: Victim { name, uid }, .. } => {
                write!(out, "delete Velero Backup {name} (uid {uid}): let go, its data stays")
            }
            Step::ReleaseFinalizer { uid, because } => write!(
                out,
                "release finalizer (uid {uid}): {}",
                match because {
                    Release::NothingLeft => "nothing of it is left",
                    Release::Forced => "forceDeleteBackup",
                    Release::NamespaceGoes => "the namespace is being deleted",
                    Release::VeleroAway => "Velero is not there",
                    Release::VeleroAtWork => "what Velero is working on goes when that is done",
                }
            ),
        }
    }
}
