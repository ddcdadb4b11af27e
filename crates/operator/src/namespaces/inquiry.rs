//! What the API server is asked about, and for how long its answer is believed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_core::{backoff::Backoff, plan::Failure};
use tokio::time::Instant;

/// What is served may change without anything that announces it.
const BELIEVED: Duration = Duration::from_secs(600);
/// What could not be asked about is asked about ever more rarely, unless something changes.
pub(super) const UNASKED: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(60) };

/// What was told is believed until it could not be asked about so often in a row.
pub(super) const HICCUPS: u32 = 3;

/// The reason when a single kind cannot be asked about.
pub(super) const UNABLE: &str = "KindUnavailable";

/// One question, and what was answered last.
pub(super) struct Inquiry<T> {
    answer: Mutex<Option<Answer<T>>>,
    /// What was answered when everybody was last told of a change, if somebody has heard something since.
    announced: Mutex<Option<Answer<T>>>,
    /// One asks, the others wait for what it hears.
    asking: tokio::sync::Mutex<()>,
}

impl<T> Default for Inquiry<T> {
    fn default() -> Self {
        Self { answer: Mutex::default(), announced: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }
}

pub(super) enum Answer<T> {
    Told {
        what: Arc<T>,
        /// Then it is asked about again: at once where it turned out not to be true any more.
        until: Instant,
        /// How often in a row it could not be asked about since it was told.
        unheard: u32,
    },
    /// It could not be asked about, this often in a row, and is not again before this moment.
    Unable { failure: Failure, times: u32, until: Instant },
}

// By hand: a derive would ask for `T: Clone`, but it is shared.
impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        match self {
            Answer::Told { what, until, unheard } => {
                Answer::Told { what: what.clone(), until: *until, unheard: *unheard }
            }
            Answer::Unable { failure, times, until } => {
                Answer::Unable { failure: failure.clone(), times: *times, until: *until }
            }
        }
    }
}

impl<T> Answer<T> {
    fn is_fresh(&self) -> bool {
        let (Answer::Told { until, .. } | Answer::Unable { until, .. }) = self;
        Instant::now() < *until
    }

    pub(super) fn told(what: T) -> Self {
        Answer::Told { what: Arc::new(what), until: Instant::now() + BELIEVED, unheard: 0 }
    }

    /// What was told stands for a while: a server that is slow once does not serve other kinds for it.
    pub(super) fn unable(failure: Failure, before: Option<&Self>) -> Self {
        let times = match before {
            Some(Answer::Unable { times, .. } | Answer::Told { unheard: times, .. }) => times.saturating_add(1),
            None => 1,
        };
        let until = Instant::now() + UNASKED.delay(times, 0);
        match before {
            Some(Answer::Told { what, .. }) if times < HICCUPS => {
                Answer::Told { what: what.clone(), until, unheard: times }
            }
            _ => Answer::Unable { failure, times, until },
        }
    }

    /// Whether what was told is believed only because nobody could be asked.
    pub(super) fn is_unheard(&self) -> bool {
        matches!(self, Answer::Told { unheard: 1.., .. })
    }

    fn given(self) -> Result<Arc<T>, Failure> {
        match self {
            Answer::Told { what, .. } => Ok(what),
            Answer::Unable { failure, .. } => Err(failure),
        }
    }
}

impl<T> Inquiry<T> {
    fn known(&self) -> MutexGuard<'_, Option<Answer<T>>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announced(&self) -> MutexGuard<'_, Option<Answer<T>>> {
        self.announced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last(&self) -> Option<Answer<T>> {
        self.known().clone()
    }

    fn fresh(&self) -> Option<Answer<T>> {
        self.last().filter(Answer::is_fresh)
    }

    /// What is known, or else what `ask` hears.
    pub(super) async fn answer(&self, ask: impl Future<Output = Result<T, Failure>>) -> Result<Arc<T>, Failure> {
        if let Some(answer) = self.fresh() {
            return answer.given();
        }
        let _asking = match (self.asking.try_lock(), self.last()) {
            (Ok(asking), _) => asking,
            // A server that keeps one waiting need not keep all waiting.
            (Err(_), Some(answer)) => return answer.given(),
            (Err(_), None) => self.asking.lock().await,
        };
        if let Some(answer) = self.fresh() {
            return answer.given();
        }
        let heard = ask.await;
        // Who asks for himself tells nobody: the next look of [`Inquiry::ask_anew`] still finds what is new.
        if let Some(last) = self.last() {
            self.announced().get_or_insert(last);
        }
        self.note(heard)
    }

    fn note(&self, heard: Result<T, Failure>) -> Result<Arc<T>, Failure> {
        let answer = match heard {
            Ok(what) => Answer::told(what),
            Err(failure) if failure.reason == UNABLE => Answer::unable(failure, self.last().as_ref()),
            Err(failure) => return Err(failure),
        };
        *self.known() = Some(answer.clone());
        answer.given()
    }

    /// Asks whatever is known; gives what was known the last time, and what is now, if that could be told. Whoever needs to know
    /// meanwhile is not kept waiting.
    pub(super) async fn ask_anew(&self, ask: impl Future<Output = Result<T, Failure>>) -> [Option<Answer<T>>; 2] {
        let _asking = self.asking.lock().await;
        let before = self.announced().take().or_else(|| self.last());
        match self.note(ask.await) {
            Err(failure) if failure.reason != UNABLE => {
                self.forget();
                [before, None]
            }
            _ => [before, self.last()],
        }
    }

    /// It is asked about before it is believed again.
    pub(super) fn forget(&self) {
        if let Some(Answer::Told { until, .. }) = &mut *self.known() {
            *until = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::failure::timed_out;

    fn unable<T>() -> Result<T, Failure> {
        Err(Failure { reason: UNABLE, ..timed_out("it") })
    }

    fn told<T: Clone>(answer: Option<Answer<T>>) -> Option<T> {
        answer.and_then(|answer| answer.given().ok()).map(|what| T::clone(&what))
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_told_stands_while_a_server_is_slow_for_a_moment_and_not_for_ever() {
        let inquiry = Inquiry::<u32>::default();
        let served = || async { Ok(1) };
        let fails = || async { unable() };
        inquiry.answer(served()).await.unwrap();
        for _ in 1..HICCUPS {
            assert_eq!(inquiry.ask_anew(fails()).await.map(told), [Some(1); 2], "nobody is woken for it");
            assert!(inquiry.last().is_some_and(|answer| answer.is_unheard()));
            assert_eq!(*inquiry.answer(std::future::pending()).await.unwrap(), 1, "and nobody asks at once");
            tokio::time::sleep(UNASKED.most).await;
        }
        assert!(inquiry.answer(fails()).await.is_err());
        tokio::time::sleep(UNASKED.most).await;
        inquiry.answer(served()).await.unwrap();
        inquiry.forget();
        assert!(inquiry.answer(fails()).await.is_ok(), "it counts anew");
        let unknown = Inquiry::<u32>::default();
        assert!(unknown.answer(fails()).await.is_err(), "what was never told is not known");
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_hears_who_asks_for_himself_is_still_news_for_all_others() {
        let inquiry = Inquiry::default();
        let hears = |what: u32| async move { Ok::<_, Failure>(what) };
        inquiry.answer(hears(1)).await.unwrap();
        tokio::time::sleep(BELIEVED).await;
        assert_eq!(*inquiry.answer(hears(2)).await.unwrap(), 2);
        assert_eq!(inquiry.ask_anew(hears(2)).await.map(told), [Some(1), Some(2)]);
        assert_eq!(inquiry.ask_anew(hears(2)).await.map(told), [Some(2), Some(2)], "once");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_keeps_nobody_waiting_who_knows_an_answer() {
        let inquiry = Inquiry::default();
        let slow = |what| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok::<_, Failure>(what)
        };
        assert_eq!(*inquiry.answer(slow(1)).await.unwrap(), 1);
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let begun = Instant::now();
            let known = *inquiry.answer(std::future::pending()).await.unwrap();
            (known, begun.elapsed())
        };
        let (_, known) = futures::future::join(inquiry.ask_anew(slow(2)), meanwhile).await;
        assert_eq!(known, (1, Duration::ZERO));
        assert_eq!(*inquiry.answer(std::future::pending()).await.unwrap(), 2);
    }
}
