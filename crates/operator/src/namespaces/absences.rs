//! That a class is gone, as a live look tells: one look serves all namespaces of the class, for a moment.
//!
//! Nothing is taken away on the word of a cache. But a thousand namespaces that lose their class at once need not ask a thousand
//! times: what one hears holds for the others as long as it would hold for itself, since its own steps take a moment too. It is
//! forgotten as soon as the cache shows a class of the name, also while the look is under way.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_core::plan::Failure;
use tokio::time::Instant;

/// How long a look counts, from its beginning.
const BELIEVED: Duration = Duration::from_secs(1);

/// By name of the class. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Absences(Arc<Mutex<BTreeMap<String, Arc<Absence>>>>);

/// One asks, the others wait for what it hears.
#[derive(Debug, Default)]
struct Absence(tokio::sync::Mutex<Option<Heard>>);

#[derive(Clone, Debug)]
struct Heard {
    began: Instant,
    ended: Instant,
    is_gone: Result<bool, Failure>,
}

impl Heard {
    /// Whether it answers who began to ask then: it waited for this answer, or this is a fresh one.
    fn answers(&self, asked: Instant) -> bool {
        self.ended > asked || (self.is_gone == Ok(true) && asked.duration_since(self.began) < BELIEVED)
    }
}

impl Absences {
    /// Whether the class is gone: what `look` tells, or what one tells that was made just now.
    pub(super) async fn is_gone(
        &self,
        class: &str,
        look: impl Future<Output = Result<bool, Failure>>,
    ) -> Result<bool, Failure> {
        let asked = Instant::now();
        let absence = self.of(class);
        let mut heard = absence.0.lock().await;
        if let Some(heard) = heard.as_ref().filter(|heard| heard.answers(asked)) {
            return heard.is_gone.clone();
        }
        let began = Instant::now();
        let is_gone = look.await;
        *heard = Some(Heard { began, ended: Instant::now(), is_gone: is_gone.clone() });
        is_gone
    }

    /// The cache has shown something about a class of that name: whoever asks from now on looks again.
    pub(super) fn forget(&self, class: &str) {
        self.lock().remove(class);
    }

    fn of(&self, class: &str) -> Arc<Absence> {
        let mut all = self.lock();
        // Of what nobody asks about any more nothing is kept.
        all.retain(|_, absence| Arc::strong_count(absence) > 1 || absence.is_believed());
        all.entry(class.to_owned()).or_default().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Absence>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Absence {
    fn is_believed(&self) -> bool {
        let heard = self.0.try_lock();
        heard.is_ok_and(|heard| heard.as_ref().is_some_and(|heard| heard.began.elapsed() < BELIEVED))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use croft_core::plan::FailureClass;
    use futures::future::join_all;

    use super::*;

    const TAKES: Duration = Duration::from_millis(100);

    #[derive(Default)]
    struct Looks(AtomicU32);

    impl Looks {
        async fn ask(&self, absences: &Absences, tells: Result<bool, Failure>) -> Result<bool, Failure> {
            let look = async {
                self.0.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(TAKES).await;
                tells
            };
            absences.is_gone("web", look).await
        }

        fn made(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_look_serves_all_who_ask_at_once_and_for_a_moment_after() {
        let (absences, looks) = (Absences::default(), Looks::default());
        let all = join_all((0..50).map(|_| looks.ask(&absences, Ok(true)))).await;
        assert!(all.iter().all(|gone| *gone == Ok(true)));
        assert_eq!((looks.ask(&absences, Ok(false)).await, looks.made()), (Ok(true), 1));
        tokio::time::sleep(BELIEVED.saturating_sub(TAKES)).await;
        assert_eq!(
            (looks.ask(&absences, Ok(false)).await, looks.made()),
            (Ok(false), 2),
            "it counts from its beginning"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_that_is_there_or_cannot_be_asked_about_is_never_believed_gone() {
        let (absences, looks) = (Absences::default(), Looks::default());
        let failure = Failure::new(FailureClass::Transient, "TimedOut", "no answer");
        let all = join_all((0..50).map(|_| looks.ask(&absences, Err(failure.clone())))).await;
        assert!(all.iter().all(|heard| *heard == Err(failure.clone())));
        assert_eq!(looks.made(), 1, "who waited hears the same");
        assert_eq!((looks.ask(&absences, Ok(false)).await, looks.made()), (Ok(false), 2));
        assert_eq!((looks.ask(&absences, Ok(true)).await, looks.made()), (Ok(true), 3), "only gone is remembered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_counts_for_nobody_after_the_cache_has_shown_the_class() {
        let (absences, looks) = (Absences::default(), Looks::default());
        assert_eq!(looks.ask(&absences, Ok(true)).await, Ok(true));
        absences.forget("web");
        assert_eq!((looks.ask(&absences, Ok(false)).await, looks.made()), (Ok(false), 2));

        let under_way = looks.ask(&absences, Ok(true));
        let shown = async {
            tokio::time::sleep(TAKES / 2).await;
            absences.forget("web");
            looks.ask(&absences, Ok(false)).await
        };
        assert_eq!(tokio::join!(under_way, shown), (Ok(true), Ok(false)));
        assert_eq!((looks.ask(&absences, Ok(false)).await, looks.made()), (Ok(false), 5), "not even afterwards");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_about_classes_nobody_asks_about() {
        let absences = Absences::default();
        for class in ["a", "b", "c"] {
            absences.is_gone(class, async { Ok(true) }).await.unwrap();
        }
        tokio::time::sleep(BELIEVED).await;
        absences.is_gone("d", async { Ok(true) }).await.unwrap();
        assert_eq!(absences.lock().keys().collect::<Vec<_>>(), ["d"]);
    }
}
