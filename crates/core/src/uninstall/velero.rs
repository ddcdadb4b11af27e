//! What Velero still does for tenants, and what it may do once nobody judges it any more.

use serde_json::{Value, json};

use crate::backup::{Fields, Progress, location::is_synchronised_never};

const READ_ONLY: &str = "ReadOnly";

/// How far Velero is with a Restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It has not begun.
    Waiting,
    AtWork,
    Over,
}

pub fn stand(restore: &Value) -> Stand {
    let none = Fields::new();
    let status = restore.get("status").and_then(Value::as_object).unwrap_or(&none);
    let progress = Progress(status);
    match (progress.is_finished(), progress.is_waiting()) {
        (true, _) => Stand::Over,
        (false, true) => Stand::Waiting,
        (false, false) => Stand::AtWork,
    }
}

/// The merge patch after which Velero does nothing by itself for what is written in the bucket of this location: it takes nothing in,
/// carries out nothing, and deletes nothing in time, but restores from it when an administrator asks. Nothing where that is so.
pub fn at_rest(location: &Value) -> Option<Value> {
    let none = Fields::new();
    let spec = location.get("spec").and_then(Value::as_object).unwrap_or(&none);
    let is_read = spec.get("accessMode").and_then(Value::as_str) == Some(READ_ONLY);
    let rests = is_read && is_synchronised_never(spec);
    (!rests).then(|| json!({ "spec": { "accessMode": READ_ONLY, "backupSyncPeriod": "0s" } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restore_that_velero_has_begun_with_is_waited_for_and_one_it_has_not_is_not() {
        let stand = |status: Value| stand(&json!({ "status": status }));
        for phase in ["InProgress", "WaitingForPluginOperations", "Finalizing", "SomethingNew"] {
            assert_eq!(stand(json!({ "phase": phase })), Stand::AtWork, "{phase}");
        }
        assert_eq!(stand(json!({ "phase": "New" })), Stand::Waiting);
        assert_eq!(super::stand(&json!({})), Stand::Waiting);
        assert_eq!(stand(json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z" })), Stand::Over);
        assert_eq!(stand(json!({ "phase": "FailedValidation" })), Stand::Over);
    }

    #[test]
    fn a_location_rests_once_it_is_read_only_and_never_synchronised() {
        for spec in [
            json!({}),
            json!({ "accessMode": "ReadOnly" }),
            json!({ "backupSyncPeriod": "0s" }),
            json!({ "accessMode": "ReadWrite", "backupSyncPeriod": "0s" }),
            json!({ "accessMode": "ReadOnly", "backupSyncPeriod": "1m" }),
        ] {
            let patch = at_rest(&json!({ "spec": spec })).unwrap();
            assert_eq!(at_rest(&patch), None, "{spec}");
        }
    }
}
