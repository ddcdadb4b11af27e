//! What is done for a location.

use std::fmt;

use crate::{
    backup::{Victim, ownership::Origin, validate::SecretKey, velero::Fields},
    plan,
};

/// One external call. The content of a Secret is never part of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    AddFinalizer {
        uid: String,
    },
    CreateSecret {
        origin: Origin,
        source: SecretKey,
    },
    UpdateSecret {
        origin: Origin,
        uid: String,
        source: SecretKey,
    },
    CreateLocation {
        origin: Origin,
        spec: Fields,
        serves_registry: bool,
        /// The API server judges by it what Velero finds there.
        is_own_bucket: bool,
    },
    UpdateLocation {
        name: String,
        uid: String,
        spec: Fields,
        is_own_bucket: bool,
    },
    /// Only as it was seen: Velero takes one that is deleted as its turn comes for running for ever, and serves nobody any more.
    TakeFromQueue {
        backup: Victim,
        version: String,
    },
    DeleteSecret(Victim),
    DeleteLocation(Victim),
    DeleteBackup(Victim),
    /// Takes notes of what was let go off the location.
    ForgetLetGo {
        uid: String,
        names: Vec<String>,
    },
    ReleaseFinalizer {
        uid: String,
    },
}

impl plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::AddFinalizer { .. } => "AddFinalizer",
            Step::CreateSecret { .. } => "CreateSecretCopy",
            Step::UpdateSecret { .. } => "UpdateSecretCopy",
            Step::CreateLocation { .. } => "CreateVeleroLocation",
            Step::UpdateLocation { .. } => "UpdateVeleroLocation",
            Step::TakeFromQueue { .. } => "DeleteVeleroBackup",
            Step::DeleteSecret(_) => "DeleteSecretCopy",
            Step::DeleteLocation(_) => "DeleteVeleroLocation",
            Step::DeleteBackup(_) => "DeleteNonAdminBackup",
            Step::ForgetLetGo { .. } => "ForgetLetGo",
            Step::ReleaseFinalizer { .. } => "ReleaseFinalizer",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::AddFinalizer { uid } => {
                write!(out, "add finalizer (uid {uid}): Velero objects will need cleaning up")
            }
            Step::CreateSecret { origin, source } => {
                write!(out, "create Secret {} (absent): copy of {}, key {}", origin.nacuuid, source.name, source.key)
            }
            Step::UpdateSecret { origin, uid, source } => write!(
                out,
                "update Secret {} (uid {uid}): {}, key {}, has changed",
                origin.nacuuid, source.name, source.key
            ),
            Step::CreateLocation { origin, .. } => {
                write!(out, "create Velero BackupStorageLocation {} (absent): accepted", origin.nacuuid)
            }
            Step::UpdateLocation { name, uid, .. } => {
                write!(out, "update Velero BackupStorageLocation {name} (uid {uid}): it is not as wanted")
            }
            Step::TakeFromQueue { backup: Victim { name, uid }, .. } => {
                write!(
                    out,
                    "delete Velero Backup {name} (uid {uid}): Velero has not begun with it, and its location goes"
                )
            }
            Step::DeleteSecret(Victim { name, uid }) => {
                write!(out, "delete Secret {name} (uid {uid}): its location is deleted")
            }
            Step::DeleteLocation(Victim { name, uid }) => {
                write!(out, "delete Velero BackupStorageLocation {name} (uid {uid}): its request is deleted")
            }
            Step::DeleteBackup(Victim { name, uid }) => {
                write!(out, "delete NonAdminBackup {name} (uid {uid}): its location is deleted")
            }
            Step::ForgetLetGo { uid, names } => {
                write!(out, "forget (uid {uid}) that {} backups were let go: they are gone", names.len())
            }
            Step::ReleaseFinalizer { uid } => write!(out, "release finalizer (uid {uid}): nothing of it is left"),
        }
    }
}
