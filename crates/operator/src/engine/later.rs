//! One look for a burst of changes.
//!
//! Changes to many objects of one owner arrive one by one. Looking after each would repeat for every object what needs to be
//! done once for all of them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_core::queue::Priority;
use tokio::time::Instant;

use super::{Key, Pusher};

/// Pushes keys when their changes have stopped for a moment, and in any case after some time. No change is missed: one that
/// comes after the push makes its key due again.
#[derive(Clone)]
pub struct Later {
    pusher: Pusher,
    /// Asked when a key is due: whether it still matters.
    matters: Arc<dyn Fn(&Key) -> bool + Send + Sync>,
    calm: Duration,
    most: Duration,
    /// When the last change of a key that is due came.
    due: Arc<Mutex<BTreeMap<Key, Instant>>>,
}

impl fmt::Debug for Later {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Later").field("calm", &self.calm).field("most", &self.most).finish_non_exhaustive()
    }
}

impl Later {
    pub fn new(pusher: Pusher, calm: Duration, most: Duration) -> Self {
        Self { pusher, matters: Arc::new(|_| true), calm, most, due: Arc::default() }
    }

    /// Pushes only what, by then, still matters.
    #[must_use]
    pub fn if_it_matters(self, matters: impl Fn(&Key) -> bool + Send + Sync + 'static) -> Self {
        Self { matters: Arc::new(matters), ..self }
    }

    pub fn push(&self, key: Key) {
        let now = Instant::now();
        if self.due().insert(key.clone(), now).is_some() {
            return;
        }
        let later = self.clone();
        tokio::spawn(async move {
            later.calmed(&key, now + later.most).await;
            if (later.matters)(&key) {
                later.pusher.push(key, Priority::Live);
            }
        });
    }

    /// Ends when the key is due no more.
    async fn calmed(&self, key: &Key, latest: Instant) {
        loop {
            let until = self.due().get(key).map_or(latest, |last| latest.min(*last + self.calm));
            tokio::time::sleep_until(until).await;
            let mut due = self.due();
            let calm = due.get(key).is_none_or(|last| *last + self.calm <= until);
            if calm || until == latest {
                due.remove(key);
                return;
            }
        }
    }

    fn due(&self) -> MutexGuard<'_, BTreeMap<Key, Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Part, dispatch},
        *,
    };

    const CALM: Duration = Duration::from_millis(100);
    const MOST: Duration = Duration::from_millis(500);

    fn key(name: &str) -> Key {
        Key::cluster(Part::Namespaces.work("test"), name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_one_push_when_it_is_over() {
        let (pusher, mut queue) = dispatch::channel();
        let later = Later::new(pusher, CALM, MOST);
        let start = Instant::now();
        for _ in 0..3 {
            later.push(key("a"));
            tokio::time::sleep(CALM / 2).await;
        }
        assert_eq!(queue.recv().await.unwrap().0, key("a"));
        assert_eq!(start.elapsed(), CALM * 2);
        assert!(queue.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_matter_when_it_is_due_is_not_pushed() {
        let (pusher, mut queue) = dispatch::channel();
        let later = Later::new(pusher, CALM, MOST).if_it_matters(|due| *due != key("a"));
        later.push(key("a"));
        later.push(key("b"));
        assert_eq!(queue.recv().await.unwrap().0, key("b"));
        tokio::time::sleep(MOST).await;
        assert!(queue.try_recv().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_without_end_is_not_waited_for_and_nothing_of_it_is_missed() {
        let (pusher, mut queue) = dispatch::channel();
        let later = Later::new(pusher, CALM, MOST);
        let start = Instant::now();
        let (endless, another) = (later.clone(), later.clone());
        tokio::spawn(async move {
            for _ in 0..20 {
                endless.push(key("a"));
                tokio::time::sleep(CALM / 2).await;
            }
        });
        another.push(key("b"));
        assert_eq!((queue.recv().await.unwrap().0, start.elapsed()), (key("b"), CALM));
        assert_eq!((queue.recv().await.unwrap().0, start.elapsed()), (key("a"), MOST));
        assert_eq!(queue.recv().await.unwrap().0, key("a"));
        assert!(start.elapsed() >= CALM * 10, "the last change is followed by a push");
    }
}
