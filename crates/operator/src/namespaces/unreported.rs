//! Reports that wait a moment for more of their kind.
//!
//! Writing a status costs the API server more than making an object. Where many objects of a namespace are made good one after
//! the other, and nothing people act on has changed, one report for all of them does.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_core::namespaces::inventory::Status;
use tokio::time::Instant;

/// A report is written when nothing was added to it for this long.
const CALM: Duration = Duration::from_millis(500);
/// But this long after its first news at the latest.
const MOST: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Waiting {
    binding_uid: String,
    /// What is written, to which the report is news.
    stored: Status,
    status: Status,
    since: Instant,
    last: Instant,
}

impl Waiting {
    fn due(&self) -> Instant {
        (self.last + CALM).min(self.since + MOST)
    }
}

/// By namespace.
#[derive(Debug, Default)]
pub(super) struct Unreported(Mutex<BTreeMap<String, Waiting>>);

impl Unreported {
    /// The status as it is, written or not: whatever was written in the meantime counts more.
    pub(super) fn status(&self, namespace: &str, binding_uid: &str, stored: &Status) -> Status {
        let mut waiting = self.waiting();
        match waiting.get(namespace) {
            Some(report) if report.binding_uid == binding_uid && report.stored == *stored => report.status.clone(),
            Some(_) => {
                waiting.remove(namespace);
                stored.clone()
            }
            None => stored.clone(),
        }
    }

    /// How long a report may still wait; none if it is to be written now. It is kept until the cache has seen it written.
    pub(super) fn wait(
        &self,
        namespace: &str,
        binding_uid: &str,
        stored: &Status,
        status: &Status,
    ) -> Option<Duration> {
        let mut waiting = self.waiting();
        if !stored.tells_the_same_as(status) {
            waiting.remove(namespace);
            return None;
        }
        let now = Instant::now();
        let report = waiting.entry(namespace.to_owned()).or_insert_with(|| Waiting {
            binding_uid: binding_uid.to_owned(),
            stored: stored.clone(),
            status: stored.clone(),
            since: now,
            last: now,
        });
        if report.status != *status {
            report.status = status.clone();
            report.last = now;
        }
        Some(report.due().saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    pub(super) fn forget(&self, namespace: &str) {
        self.waiting().remove(namespace);
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use croft_core::namespaces::inventory::{Applied, State};

    use super::*;

    fn status(uid: u32) -> Status {
        let applied =
            Applied { name: "a".into(), uid: Some(uid.to_string()), state: State::Applied, ..Applied::default() };
        Status { applied_resources: vec![applied], ..Status::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn news_that_changes_nothing_for_people_is_told_once_it_stops_or_after_a_while() {
        let (unreported, stored) = (Unreported::default(), status(0));
        let start = Instant::now();
        let mut uid = 1;
        while let Some(left) = unreported.wait("a", "b", &stored, &status(uid)) {
            assert!(left <= CALM);
            assert_eq!(unreported.status("a", "b", &stored), status(uid), "what is not written yet counts");
            tokio::time::sleep(CALM / 2).await;
            uid += 1;
        }
        assert_eq!(start.elapsed(), MOST);
        let calm = Instant::now();
        assert_eq!(unreported.status("a", "b", &status(uid)), status(uid), "written");
        while unreported.wait("a", "b", &status(uid), &status(100)).is_some() {
            tokio::time::sleep(CALM / 5).await;
        }
        assert_eq!(calm.elapsed(), CALM);
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_else_wrote_counts_more() {
        let unreported = Unreported::default();
        unreported.wait("a", "b", &status(0), &status(1));
        assert_eq!(unreported.status("a", "b", &status(7)), status(7));
        assert_eq!(unreported.status("a", "b", &status(0)), status(0), "and it is forgotten");
        unreported.wait("a", "b", &status(0), &status(1));
        assert_eq!(unreported.status("a", "another binding", &status(0)), status(0));
    }

    #[tokio::test(start_paused = true)]
    async fn news_for_people_is_told_at_once() {
        let mut news = status(0);
        news.observed_class_generation = Some(2);
        assert_eq!(Unreported::default().wait("a", "b", &status(0), &news), None);
    }
}
