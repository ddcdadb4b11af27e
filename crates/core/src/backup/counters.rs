//! How far the transfers of volumes are, counted by phase.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many are in each phase; those in none are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counts(BTreeMap<String, u64>);

/// Phases of the transfers behind one Velero object; no phase is the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Volumes copied through the file system.
    pub file_system: Vec<String>,
    /// Snapshots moved by a data mover.
    pub data_mover: Vec<String>,
}

const FILE_SYSTEM: &[(&str, &str)] =
    &[("New", "new"), ("InProgress", "inProgress"), ("Failed", "failed"), ("Completed", "completed")];

const DATA_MOVER: &[(&str, &str)] = &[
    ("New", "new"),
    ("Accepted", "accepted"),
    ("Prepared", "prepared"),
    ("InProgress", "inProgress"),
    ("Canceling", "canceling"),
    ("Canceled", "canceled"),
    ("Failed", "failed"),
    ("Completed", "completed"),
];

impl Transfers {
    pub(super) fn of_file_system(&self) -> Option<Counts> {
        count(&self.file_system, FILE_SYSTEM)
    }

    pub(super) fn of_data_mover(&self) -> Option<Counts> {
        count(&self.data_mover, DATA_MOVER)
    }
}

/// Phases nobody knows count in the total only.
fn count(phases: &[String], known: &[(&str, &str)]) -> Option<Counts> {
    let total = u64::try_from(phases.len()).ok().filter(|total| *total > 0)?;
    let mut counts = BTreeMap::from([("total".to_owned(), total)]);
    for phase in phases {
        let phase = if phase.is_empty() { "New" } else { phase };
        if let Some((_, field)) = known.iter().find(|(name, _)| *name == phase) {
            *counts.entry((*field).to_owned()).or_default() += 1;
        }
    }
    Some(Counts(counts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn transfers_are_counted_by_phase() {
        let phases = |phases: &[&str]| phases.iter().map(ToString::to_string).collect();
        let transfers = Transfers {
            file_system: phases(&["", "New", "Completed", "Prepared"]),
            data_mover: phases(&["Prepared", "Canceled", "Canceled", "OfTomorrow"]),
        };
        assert_eq!(json!(transfers.of_file_system()), json!({ "total": 4, "new": 2, "completed": 1 }));
        assert_eq!(json!(transfers.of_data_mover()), json!({ "total": 4, "prepared": 1, "canceled": 2 }));
        assert_eq!(Transfers::default().of_file_system(), None);
    }
}
