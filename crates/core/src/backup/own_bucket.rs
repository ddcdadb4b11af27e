//! A backup in a bucket of the tenant's own. With a backup Velero deletes the snapshots its bucket names, whosever they are: so
//! there it deletes only while none is within its reach, by request and in time; see [`super::backup::plan`].

use std::time::Duration;

/// What counts of a tenant's own bucket where a backup in it is to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnBucket {
    pub reach: Reach,
    /// How long the backup is kept yet; nothing is left of one whose time has come.
    pub expires_in: Option<Duration>,
    /// Velero has it without the label its location has: it was made before there was one.
    pub lacks_label: bool,
}

/// What Velero could reach that is not the tenant's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Names of the `VolumeSnapshotLocations`.
    pub snapshot_locations: Vec<String>,
    /// Whether there are such cannot be seen.
    pub snapshots_are_hidden: bool,
    /// Admission policies around such a deletion that are not in force.
    pub missing_fences: Vec<String>,
}

impl Reach {
    /// Why nothing is deleted.
    pub fn withholds(&self) -> Option<String> {
        let because = match (self.snapshot_locations.as_slice(), self.missing_fences.as_slice()) {
            ([], _) if self.snapshots_are_hidden => {
                "until the administrator lets the operator see Velero's VolumeSnapshotLocations".to_owned()
            }
            ([], []) => return None,
            ([], fences) => format!("until the administrator installs these admission policies: {}", fences.join(", ")),
            (places, _) => {
                format!("while Velero has snapshots elsewhere, in VolumeSnapshotLocations: {}", places.join(", "))
            }
        };
        Some(format!(
            "nothing is deleted from a bucket of a tenant's own {because}; spec.forceDeleteBackup lets the backup go and leaves what \
             is stored"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_within_reach_withholds_a_deletion_by_name() {
        let reach = |places: &[&str], fences: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let (snapshot_locations, missing_fences) = (owned(places), owned(fences));
            Reach { snapshot_locations, snapshots_are_hidden: false, missing_fences }.withholds()
        };
        let hidden = Reach { snapshots_are_hidden: true, ..Reach::default() }.withholds();
        assert!(hidden.is_some_and(|why| why.contains("see Velero's VolumeSnapshotLocations;")));
        assert_eq!(reach(&[], &[]), None);
        assert!(reach(&["aws"], &[]).is_some_and(|why| why.contains("VolumeSnapshotLocations: aws;")));
        assert!(reach(&[], &["a", "b"]).is_some_and(|why| why.contains("admission policies: a, b;")));
        assert!(reach(&["aws"], &["a"]).is_some_and(|why| why.contains("VolumeSnapshotLocations: aws;")));
    }
}
