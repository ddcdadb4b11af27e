//! Velero's queues, as its Backups and Restores tell: who is where, and whose place has changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use croft_api::velero::{Backup, Restore};
use croft_core::backup::{
    Fields, Progress,
    queue_position::{Line, Turn},
};
use kube::{Resource, ResourceExt};

use super::{marks::Tags, request};
use crate::engine::{Change, Key, Work};

/// What Velero works on one after the other.
pub(super) trait Queued: Resource {
    fn status(&self) -> Option<&Fields>;

    fn turn(&self) -> Turn {
        Turn {
            created: request::time(self.meta().creation_timestamp.as_ref()),
            finished: self.status().is_some_and(|status| Progress(status).is_finished()),
        }
    }
}

impl Queued for Backup {
    fn status(&self) -> Option<&Fields> {
        self.status.as_ref().map(|status| &status.0.0)
    }
}

impl Queued for Restore {
    fn status(&self) -> Option<&Fields> {
        self.status.as_ref().map(|status| &status.0.0)
    }
}

/// The queue of one kind, kept by its watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Arc<Mutex<Line<Key>>>);

impl Queue {
    /// The place of one among all, whoever made them.
    pub(super) fn position<K: Queued>(&self, own: &K) -> u64 {
        self.line().position(&own.name_any(), &own.turn())
    }

    /// Follows a change. Wakes the request behind the changed object and, when a place in the queue has become free, those
    /// that move up.
    pub(super) fn woken<K: Queued>(&self, work: Work, tags: Tags, change: Change<'_, K>) -> Vec<Key> {
        let request = |object: &K| tags.request(work, object.meta());
        let mut keys: Vec<_> = change.both().filter_map(request).collect();
        keys.dedup();
        let (before, after) = (change.before.map(Queued::turn), change.after.map(Queued::turn));
        let mut line = self.line();
        let name = change.object().name_any();
        let moved = line.change(&name, before.as_ref(), after.as_ref(), change.after.and_then(request));
        keys.extend(moved.cloned());
        keys
    }

    fn line(&self) -> MutexGuard<'_, Line<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use croft_core::backup::ownership::Origin;
    use serde_json::json;

    use super::*;
    use crate::backup::{BACKUP, marks};

    fn backup(number: usize, phase: &str) -> Backup {
        let origin =
            Origin { namespace: "shop".into(), name: format!("n{number}"), nacuuid: format!("shop-n{number}") };
        let mut metadata = json!(marks::BACKUP.metadata(&origin, "velero"));
        metadata["creationTimestamp"] = json!(format!("2026-01-01T00:{:02}:{:02}Z", number / 60, number % 60));
        let status = match phase {
            "Completed" => json!({ "phase": phase, "completionTimestamp": "2026-01-02T00:00:00Z" }),
            _ => json!({ "phase": phase }),
        };
        serde_json::from_value(json!({ "metadata": metadata, "spec": {}, "status": status })).unwrap()
    }

    fn names(keys: &[Key]) -> Vec<&str> {
        keys.iter().map(|key| key.name.as_str()).collect()
    }

    #[test]
    fn who_is_done_wakes_itself_and_those_that_move_up() {
        let queue = Queue::default();
        let woken = |before: Option<&Backup>, after: Option<&Backup>| {
            queue.woken(BACKUP, marks::BACKUP, Change { before, after, live: true })
        };
        let waiting = [1, 2, 3].map(|number| backup(number, "InProgress"));
        for backup in &waiting {
            assert_eq!(woken(None, Some(backup)).len(), 1, "nobody else has moved");
        }
        assert_eq!(queue.position(&waiting[2]), 3);
        let done = backup(2, "Completed");
        assert_eq!(names(&woken(Some(&waiting[1]), Some(&done))), ["n2", "n3"]);
        assert_eq!((queue.position(&done), queue.position(&waiting[2])), (0, 2));
        assert_eq!(names(&woken(Some(&done), None)), ["n2"], "what was done long ago holds nobody up");
        assert_eq!(names(&woken(Some(&waiting[0]), None)), ["n1", "n3"]);
        assert_eq!(queue.position(&waiting[2]), 1);
    }
}
