//! Velero's queues, as its Backups and Restores tell: who is where, and whose place has changed.

use croft_api::velero::{Backup, Restore};
use croft_core::backup::{
    Fields, Progress,
    queue_position::{self, Turn},
};
use kube::Resource;

use super::{marks::Tags, request};
use crate::engine::{Cache, Change, Key, Work};

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

/// The place of one among all, whoever made them.
pub(super) fn position<K: Queued>(own: &K, all: &Cache<K>) -> u64 {
    let turns: Vec<Turn> = all.all().iter().map(|other| other.turn()).collect();
    queue_position::position(&own.turn(), &turns)
}

/// The request behind a changed object and, when a place in the queue has become free, all that still wait.
pub(super) fn woken<K: Queued>(work: Work, tags: Tags, change: Change<'_, K>, all: &Cache<K>) -> Vec<Key> {
    let own = change.both().filter_map(|object| tags.request(work, object.meta()));
    let waits = |object: Option<&K>| object.is_some_and(|object| !object.turn().finished);
    let waiting = if waits(change.before) && !waits(change.after) { all.all() } else { Vec::new() };
    let waiting = waiting.iter().filter(|other| !other.turn().finished);
    let waiting = waiting.filter_map(|other| tags.request(work, other.meta()));
    let mut keys: Vec<Key> = own.chain(waiting).collect();
    keys.sort();
    keys.dedup();
    keys
}
