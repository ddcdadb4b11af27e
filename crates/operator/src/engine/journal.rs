//! The shell around [`croft_core::journal`]: one for all parts, with a task that wakes keys when their time has come.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use croft_core::{
    journal::{self, Pace},
    queue::Priority,
};
use tokio::sync::Notify;

use super::{
    Clock, Key, Place, Pusher,
    write::{Echo, Written},
};

/// The uid of the object a watch shows at a place.
pub(crate) type Picture = Arc<dyn Fn(&Place) -> Option<String> + Send + Sync>;

/// What we wrote, what is news, and who may look. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Mutex<journal::Journal<Key, Place>>>,
    pictures: Arc<Mutex<BTreeMap<String, Picture>>>,
    earlier: Arc<Notify>,
    clock: Clock,
    pusher: Pusher,
}

impl fmt::Debug for Journal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Journal").field("keys", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Journal {
    pub(super) fn new(clock: Clock, pusher: Pusher) -> Self {
        Self { inner: Arc::default(), pictures: Arc::default(), earlier: Arc::default(), clock, pusher }
    }

    pub(super) fn start(&self) {
        self.lock().start();
    }

    pub(super) fn stop(&self) {
        self.lock().stop();
    }

    /// The watch of `stream` begins; `picture` tells what it shows.
    pub(crate) fn opened(&self, stream: &str, picture: Picture) {
        self.pictures().insert(stream.to_owned(), picture);
        self.lock().opened(stream);
    }

    /// The watch of `stream` has ended.
    pub fn closed(&self, stream: &str) {
        self.pictures().remove(stream);
        let released = self.lock().closed(stream);
        self.push(released);
    }

    /// Everything on `stream` up to `revision` has been told.
    pub fn progressed(&self, stream: &str, revision: u64) {
        let released = self.lock().progressed(stream, revision);
        self.push(released);
    }

    /// Everything on `stream` was listed as it is at `revision`.
    pub fn listed(&self, stream: &str, revision: u64) {
        let picture = self.pictures().get(stream).cloned();
        let holds = |place: &Place| picture.as_ref().is_some_and(|picture| picture(place).is_some());
        let keys = self.lock().listed(stream, revision, holds);
        self.push(keys);
    }

    /// `key` made this call.
    pub(super) fn wrote(&self, key: &Key, written: &Written) {
        let Some(Echo { stream, place, uid, version }) = &written.echo else { return };
        let picture = self.pictures().get(stream).cloned();
        let mut journal = self.lock();
        // Under the lock: a picture that changes from now on tells us after it is noted that somebody waits for that.
        let shown = picture.and_then(|picture| picture(place));
        let is_lost = if let Some(version) = version {
            journal.wrote(key, stream, place, *version, shown.is_some())
        } else {
            journal.deleted(key, stream, place, shown.as_ref() == Some(uid));
            false
        };
        drop(journal);
        self.push(is_lost.then(|| key.clone()));
    }

    /// The picture of `stream` no longer holds the object it held at this place.
    pub(crate) fn removed(&self, stream: &str, place: &Place) {
        let released = self.lock().removed(stream, place);
        self.push(released);
    }

    /// An object that concerns `key` was shown in this version: looked at when its burst is over, unless we wrote it.
    pub fn saw(&self, key: &Key, stream: &str, place: &Place, version: u64, rhythm: Pace) {
        self.at_a_time(|journal, now| journal.saw(key, stream, place, version, rhythm, now));
    }

    /// An object that concerns `key` is gone.
    pub fn gone(&self, key: &Key, stream: &str, place: &Place, rhythm: Pace) {
        let released = self.at_a_time(|journal, now| journal.gone(key, stream, place, rhythm, now));
        self.push(released);
    }

    /// Whether `key` may be looked at; if not, it is pushed as soon as it may be.
    pub(super) fn may_look(&self, key: &Key) -> bool {
        self.at_a_time(|journal, now| journal.may_look(key, now))
    }

    pub(super) fn looks(&self, key: &Key) {
        self.lock().looks(key);
    }

    /// Whether `key` must be looked at again.
    pub(super) fn looked(&self, key: &Key) -> bool {
        let now = self.clock.now();
        self.lock().looked(key, now)
    }

    /// Pushes keys when they are due; runs for ever.
    pub(super) async fn keep(self) {
        loop {
            let wakeup = self.lock().next_wakeup().map(|at| self.clock.at(at));
            tokio::select! {
                () = self.earlier.notified() => {}
                () = super::sleep_until(wakeup) => {
                    let due = self.lock().due(self.clock.now());
                    self.push(due);
                }
            }
        }
    }

    /// Runs `change` now, and lets [`Self::keep`] know if its next wake-up is an earlier one.
    fn at_a_time<T>(
        &self,
        change: impl FnOnce(&mut journal::Journal<Key, Place>, croft_core::time::Instant) -> T,
    ) -> T {
        let mut journal = self.lock();
        let before = journal.next_wakeup();
        let result = change(&mut journal, self.clock.now());
        let after = journal.next_wakeup();
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.earlier.notify_one();
        }
        result
    }

    fn push(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            self.pusher.push(key, Priority::Live);
        }
    }

    fn pictures(&self) -> MutexGuard<'_, BTreeMap<String, Picture>> {
        self.pictures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, journal::Journal<Key, Place>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
