//! What a download request names, as it is now.

use crate::backup::ownership::Lies;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    NoBackup,
    NoRestore,
    /// Its backup is stored elsewhere than in a location of the namespace.
    NotInOwnLocation,
    /// Velero is not done with it, or what Velero has is not proven to be its own.
    NotReady(&'static str),
    /// Name of the Velero Backup or Restore, proven to be of a request in this namespace.
    Proven(String),
}

/// The Velero Backup under the name of a backup's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFound {
    pub name: String,
    /// It is on record as made for the backup; see [`Claimant`](crate::backup::ownership::Claimant).
    pub is_proven: bool,
    pub lies: Lies,
    pub is_finished: bool,
}

/// The Velero Restore under the name of a restore's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreFound {
    pub name: String,
    /// It is on record as made for the restore, and carries its marks.
    pub is_proven: bool,
    /// The Velero Backup it restores from.
    pub from: Option<String>,
    pub is_finished: bool,
}

impl Subject {
    pub fn of_backup(found: Option<BackupFound>) -> Self {
        let Some(BackupFound { name, is_proven, lies, is_finished }) = found else {
            return Subject::NotReady("Velero does not have the backup");
        };
        match lies {
            _ if !is_proven => Subject::NotReady("what Velero has under the name of the backup is not known to be it"),
            Lies::WithAdministrator => Subject::NotInOwnLocation,
            Lies::Nowhere => Subject::NotReady("the location of the backup is gone"),
            Lies::WithTenant(_) if is_finished => Subject::Proven(name),
            Lies::WithTenant(_) => Subject::NotReady("the backup is not finished"),
        }
    }

    /// The files of a restore lie beside those of its backup: `self`.
    #[must_use]
    pub fn or_of_restore(self, found: Option<RestoreFound>) -> Self {
        let Subject::Proven(backup) = self else { return self };
        let found = found.filter(|found| found.is_proven && found.from.as_ref() == Some(&backup));
        match found {
            None => Subject::NotReady("Velero does not have the restore"),
            Some(RestoreFound { name, is_finished: true, .. }) => Subject::Proven(name),
            Some(_) => Subject::NotReady("the restore is not finished"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EITHER: [bool; 2] = [false, true];

    #[test]
    fn only_a_finished_backup_of_hers_in_her_own_location_is_handed_out() {
        assert!(matches!(Subject::of_backup(None), Subject::NotReady(_)));
        for (is_proven, is_finished) in EITHER.into_iter().flat_map(|one| EITHER.map(|other| (one, other))) {
            for lies in [Lies::Nowhere, Lies::WithAdministrator, Lies::WithTenant("shop".into())] {
                let found = BackupFound { name: "velero".into(), is_proven, lies: lies.clone(), is_finished };
                let subject = Subject::of_backup(Some(found));
                let may = is_proven && is_finished && matches!(lies, Lies::WithTenant(_));
                assert_eq!(subject == Subject::Proven("velero".into()), may, "{is_proven} {is_finished} {lies:?}");
                let is_elsewhere = is_proven && lies == Lies::WithAdministrator;
                assert_eq!(subject == Subject::NotInOwnLocation, is_elsewhere, "{is_proven} {is_finished} {lies:?}");
            }
        }
    }

    #[test]
    fn only_a_finished_restore_of_hers_from_that_backup_is_handed_out() {
        let backup = || Subject::Proven("backup".into());
        assert!(matches!(backup().or_of_restore(None), Subject::NotReady(_)));
        for (is_proven, is_finished) in EITHER.into_iter().flat_map(|one| EITHER.map(|other| (one, other))) {
            for from in [None, Some("backup"), Some("another")] {
                let found =
                    || RestoreFound { name: "restore".into(), is_proven, from: from.map(str::to_owned), is_finished };
                let may = is_proven && is_finished && from == Some("backup");
                let subject = backup().or_of_restore(Some(found()));
                assert_eq!(subject == Subject::Proven("restore".into()), may, "{is_proven} {is_finished} {from:?}");
                for none in [Subject::NoBackup, Subject::NotInOwnLocation, Subject::NotReady("not yet")] {
                    assert_eq!(none.clone().or_of_restore(Some(found())), none);
                }
            }
        }
    }
}
