//! Read-your-writes: a key is not observed again before the caches have seen what it wrote last.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use super::{Key, write::Written};

/// An echo that does not come back in this time is given up: better a stale look than none.
const PATIENCE: Duration = Duration::from_secs(10);

/// The versions each key waits for, by kind.
#[derive(Clone, Debug, Default)]
pub struct Echoes {
    caches: Arc<Mutex<HashMap<String, watch::Receiver<u64>>>>,
    expected: Arc<Mutex<HashMap<Key, BTreeMap<String, u64>>>>,
}

impl Echoes {
    /// A watch on `kind` has started; `seen` tells how far it has come.
    pub fn listen(&self, kind: &str, seen: watch::Receiver<u64>) {
        self.caches().insert(kind.to_owned(), seen);
    }

    /// The watch on `kind` has ended: nobody waits for it any more.
    pub fn stop_listening(&self, kind: &str) {
        self.caches().remove(kind);
    }

    fn caches(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<u64>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `key` wrote this; kinds without a cache are not waited for.
    pub fn expect(&self, key: &Key, written: &Written) {
        if let Some((kind, version)) = &written.echo
            && self.caches().contains_key(kind)
        {
            let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
            let newest = expected.entry(key.clone()).or_default().entry(kind.clone()).or_default();
            *newest = (*newest).max(*version);
        }
    }

    /// Whether every cache has caught up with what `key` wrote. Forgets what has arrived.
    pub fn heard(&self, key: &Key) -> bool {
        let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = expected.get_mut(key) else { return true };
        let caches = self.caches();
        // From a watch that has ended nothing more is to be heard.
        let goes_on = |seen: &watch::Receiver<u64>| seen.has_changed().is_ok();
        waiting.retain(|kind, version| caches.get(kind).is_some_and(|seen| goes_on(seen) && *seen.borrow() < *version));
        let heard = waiting.is_empty();
        if heard {
            expected.remove(key);
        }
        heard
    }

    /// Ends when every echo of `key` has arrived, or after a time.
    pub async fn wait(&self, key: &Key) {
        let waiting = {
            let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
            expected.get(key).cloned().unwrap_or_default()
        };
        let all = async {
            for (kind, version) in waiting {
                let seen = self.caches().get(&kind).cloned();
                if let Some(mut seen) = seen {
                    let _ = seen.wait_for(|seen| *seen >= version).await;
                }
            }
        };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            self.expected.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Part;

    fn wrote(kind: &str, version: u64) -> Written {
        Written { echo: Some((kind.into(), version)), ..Written::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_waits_until_the_cache_has_seen_its_write() {
        let (seen, cache) = watch::channel(5);
        let echoes = Echoes::default();
        echoes.listen("pods", cache);
        let key = Key::cluster(Part::Backup.work("test"), "x");
        echoes.expect(&key, &wrote("pods", 7));
        echoes.expect(&key, &wrote("not-cached", 99));
        assert!(!echoes.heard(&key));
        let waiting = tokio::spawn({
            let (echoes, key) = (echoes.clone(), key.clone());
            async move { echoes.wait(&key).await }
        });
        seen.send_replace(7);
        waiting.await.unwrap();
        assert!(echoes.heard(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_has_ended_is_not_waited_for() {
        let (seen, cache) = watch::channel(5);
        let echoes = Echoes::default();
        echoes.listen("pods", cache);
        let key = Key::cluster(Part::Backup.work("test"), "x");
        echoes.expect(&key, &wrote("pods", 7));
        drop(seen);
        echoes.wait(&key).await;
        assert!(echoes.heard(&key));
    }

    #[tokio::test(start_paused = true)]
    async fn an_echo_that_never_comes_does_not_block_for_ever() {
        let (_seen, cache) = watch::channel(5);
        let echoes = Echoes::default();
        echoes.listen("pods", cache);
        let key = Key::cluster(Part::Backup.work("test"), "x");
        echoes.expect(&key, &wrote("pods", 7));
        echoes.wait(&key).await;
        assert!(echoes.heard(&key));
    }
}
