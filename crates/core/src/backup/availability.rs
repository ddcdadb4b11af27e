//! Whether the storage location a backup names can be used yet.

use super::{Phase, validate::Refusal};

/// The storage location the backup names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// None: Velero's default.
    Default,
    /// None, and Velero's default is not for tenants.
    NotNamed,
    Missing {
        name: String,
    },
    Found {
        phase: Option<Phase>,
        nacuuid: Option<String>,
        /// Phase of the Velero `BackupStorageLocation`, if there is one and it is this location's.
        velero: Option<LocationPhase>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationPhase {
    Available,
    Other,
}

impl Location {
    /// Name of the Velero location to store in; none for Velero's default.
    pub(super) fn usable(&self) -> Result<Option<&str>, Refusal> {
        let refuse = |message: String| Err(Refusal(message));
        match self {
            Location::Default => Ok(None),
            Location::NotNamed => refuse(
                "NonAdminBackup spec.backupSpec.storageLocation is not set and the namespace has no BackupVault; make one or \
                 name a NonAdminBackupStorageLocation"
                    .into(),
            ),
            Location::Missing { name } => refuse(format!(
                "NonAdminBackupStorageLocation not found in the namespace: \
                 nonadminbackupstoragelocations.oadp.openshift.io \"{name}\" not found"
            )),
            Location::Found { phase, .. } if *phase != Some(Phase::Created) => refuse(
                "NonAdminBackupStorageLocation is not in created state and can not be used for the NonAdminBackup"
                    .into(),
            ),
            Location::Found { nacuuid: None, .. } => refuse(
                "unable to get VeleroBackupStorageLocation UUID from NonAdminBackupStorageLocation Status".into(),
            ),
            Location::Found { nacuuid: Some(nacuuid), velero, .. } => match velero {
                None => refuse(format!(
                    "VeleroBackupStorageLocation with NACUUID {nacuuid} not found in the OADP namespace"
                )),
                Some(LocationPhase::Other) => refuse(format!(
                    "VeleroBackupStorageLocation with NACUUID {nacuuid} is not in available state and can not be used for \
                     the NonAdminBackup"
                )),
                Some(LocationPhase::Available) => Ok(Some(nacuuid)),
            },
        }
    }
}
