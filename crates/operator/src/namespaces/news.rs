//! What is news to a binding: changes that are not the echo of our own writes.
//!
//! Every write of ours comes back through a watch. Looking again because of it would double the work of a roll-out for
//! nothing. By the time a burst of changes is over ([`crate::engine::Later`]) the answers to our writes are there and tell which
//! of the changes were ours.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use croft_core::namespaces::manifest::Identity;

/// What has changed: an object, or the binding itself.
pub(super) type Source = Option<Identity>;

/// Newer than every version: a deletion has none that could be ours.
const GONE: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Versions {
    /// Seen, and not known to be ours.
    seen: BTreeMap<Source, u64>,
    /// Written by us, and not seen yet.
    ours: BTreeMap<Source, u64>,
}

/// By namespace.
#[derive(Debug, Default)]
pub(super) struct News(Mutex<BTreeMap<String, Versions>>);

impl News {
    /// A watch told this version.
    pub(super) fn changed(&self, namespace: &str, source: Source, version: u64) {
        let mut all = self.all();
        let versions = all.entry(namespace.to_owned()).or_default();
        match versions.ours.get(&source) {
            Some(ours) if version < *ours => {}
            Some(ours) if version == *ours => {
                versions.ours.remove(&source);
                versions.seen.remove(&source);
            }
            _ => {
                versions.ours.remove(&source);
                versions.seen.insert(source, version);
            }
        }
    }

    pub(super) fn gone(&self, namespace: &str, source: Source) {
        self.changed(namespace, source, GONE);
    }

    /// We wrote this version ourselves, and it is as it should be.
    pub(super) fn wrote(&self, namespace: &str, source: Source, version: u64) {
        let mut all = self.all();
        let versions = all.entry(namespace.to_owned()).or_default();
        match versions.seen.get(&source) {
            Some(seen) if *seen > version => {}
            Some(seen) if *seen == version => {
                versions.seen.remove(&source);
            }
            _ => {
                versions.ours.insert(source, version);
            }
        }
    }

    /// Whether there is any; told once.
    pub(super) fn take(&self, namespace: &str) -> bool {
        let mut all = self.all();
        let Some(versions) = all.get_mut(namespace) else { return false };
        let news = !versions.seen.is_empty();
        versions.seen.clear();
        if versions.ours.is_empty() {
            all.remove(namespace);
        }
        news
    }

    /// The binding is gone: nothing about it is news any more.
    pub(super) fn forget(&self, namespace: &str) {
        self.all().remove(namespace);
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Versions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Changed(u64),
        Wrote(u64),
    }

    fn told(events: &[Event]) -> bool {
        let news = News::default();
        for event in events {
            match *event {
                Event::Changed(version) => news.changed("a", None, version),
                Event::Wrote(version) => news.wrote("a", None, version),
            }
        }
        news.take("a")
    }

    #[test]
    fn our_own_writes_are_no_news_whichever_comes_first() {
        use Event::{Changed, Wrote};
        for events in [
            [Changed(5), Wrote(5)].as_slice(),
            &[Wrote(5), Changed(5)],
            &[Changed(4), Changed(5), Wrote(5)],
            &[Wrote(5), Changed(4), Changed(5)],
            &[Wrote(5), Wrote(6), Changed(5), Changed(6)],
        ] {
            assert!(!told(events), "{events:?}");
        }
    }

    #[test]
    fn what_came_after_our_write_is_news() {
        use Event::{Changed, Wrote};
        for events in [
            [Changed(5)].as_slice(),
            &[Wrote(5), Changed(5), Changed(6)],
            &[Changed(5), Changed(6), Wrote(5)],
            &[Wrote(5), Changed(6)],
            &[Wrote(5), Changed(GONE)],
            &[Changed(GONE), Wrote(5)],
        ] {
            assert!(told(events), "{events:?}");
        }
    }

    #[test]
    fn news_is_told_once_and_by_namespace() {
        let news = News::default();
        news.changed("a", None, 5);
        assert!(!news.take("b"));
        assert!(news.take("a") && !news.take("a"));
        news.gone("a", None);
        news.forget("a");
        assert!(!news.take("a"));
    }
}
