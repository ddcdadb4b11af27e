//! Whether the storage location a backup names can be used yet.

use super::{Phase, Policy, validate::Refusal};

/// The storage location the backup names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// None, and the namespace has no vault: Velero's default, where that is for tenants.
    Default {
        /// Phase of the Velero `BackupStorageLocation`, if it is known which one that is.
        velero: Option<LocationPhase>,
    },
    Missing {
        name: String,
    },
    /// The vault of the namespace has no location of its own yet.
    OfVaultToCome {
        vault: String,
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
    /// Velero stores and deletes nothing there.
    ReadOnly,
    Other,
}

impl Location {
    /// Name of the Velero location to store in; none for Velero's default.
    pub(super) fn usable(&self, policy: &Policy) -> Result<Option<&str>, Refusal> {
        let not_yet = |message: String| Err(Refusal::not_yet("LocationNotReady", message));
        match self {
            Location::Default { velero } if !policy.no_default_location => match velero {
                None | Some(LocationPhase::Available) => Ok(None),
                Some(LocationPhase::Other) => not_yet(
                    "the default storage location of Velero is not in available state and can not be used for the NonAdminBackup"
                        .into(),
                ),
                Some(LocationPhase::ReadOnly) => not_yet(
                    "the default storage location of Velero is read-only and can not be used for the NonAdminBackup".into(),
                ),
            },
            Location::Default { .. } => Err(Refusal::not_yet(
                "NoVault",
                "NonAdminBackup spec.backupSpec.storageLocation is not set and the namespace has no BackupVault; make one or \
                 name a NonAdminBackupStorageLocation",
            )),
            Location::Missing { name } => Err(Refusal::invalid(format!(
                "NonAdminBackupStorageLocation not found in the namespace: \
                 nonadminbackupstoragelocations.oadp.openshift.io \"{name}\" not found"
            ))),
            Location::OfVaultToCome { vault } => {
                not_yet(format!("BackupVault \"{vault}\" has no storage location of its own yet"))
            }
            Location::Found { phase, .. } if *phase != Some(Phase::Created) => not_yet(
                "NonAdminBackupStorageLocation is not in created state and can not be used for the NonAdminBackup"
                    .into(),
            ),
            Location::Found { nacuuid: None, .. } => not_yet(
                "unable to get VeleroBackupStorageLocation UUID from NonAdminBackupStorageLocation Status".into(),
            ),
            Location::Found { nacuuid: Some(nacuuid), velero, .. } => match velero {
                None => not_yet(format!(
                    "VeleroBackupStorageLocation with NACUUID {nacuuid} not found in the OADP namespace"
                )),
                Some(LocationPhase::Other) => not_yet(format!(
                    "VeleroBackupStorageLocation with NACUUID {nacuuid} is not in available state and can not be used for \
                     the NonAdminBackup"
                )),
                // Velero would refuse it only once its turn has come.
                Some(LocationPhase::ReadOnly) => not_yet(format!(
                    "VeleroBackupStorageLocation with NACUUID {nacuuid} is read-only and can not be used for the NonAdminBackup"
                )),
                Some(LocationPhase::Available) => Ok(Some(nacuuid)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn veleros_own_default_is_used_while_it_can_be_or_nobody_says_which_one_it_is() {
        let open = Policy { no_default_location: false, ..Policy::default() };
        let told = |velero| match (Location::Default { velero }).usable(&open) {
            Ok(location) => location.unwrap_or("the default").to_owned(),
            Err(Refusal::NotYet { reason, message }) => format!("{reason}: {message}"),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!([None, Some(LocationPhase::Available)].map(told), ["the default"; 2]);
        let [other, read_only] = [LocationPhase::Other, LocationPhase::ReadOnly].map(|phase| told(Some(phase)));
        assert!(
            other.starts_with("LocationNotReady: the default storage location of Velero is not in available"),
            "{other}"
        );
        assert!(read_only.starts_with("LocationNotReady") && read_only.contains("read-only"), "{read_only}");
        let closed = Policy { no_default_location: true, ..Policy::default() };
        for velero in [None, Some(LocationPhase::Available), Some(LocationPhase::Other)] {
            let refused = Location::Default { velero }.usable(&closed).err();
            assert!(matches!(refused, Some(Refusal::NotYet { reason: "NoVault", .. })), "{refused:?}");
        }
    }
}
