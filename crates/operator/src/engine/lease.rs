//! The election loop around [`croft_core::lease`]: watches the Lease, writes it when the core says so.

use std::{fmt, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use croft_core::{
    lease::{Candidate, Decision, Record, Term, Timing},
    plan::{Failure, FailureClass},
};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    clock::Clock,
    watch::{Known, Surroundings, follow},
    write::call,
};

/// A call ends this long before the term does.
const MARGIN: Duration = Duration::from_millis(300);

/// Whether this process may write, checked before and during each call.
///
/// The answer is computed from the clock at the time of asking, so a process that was stopped and woken knows at once that
/// its term is over.
#[derive(Clone)]
pub struct Leadership {
    clock: Clock,
    term: Arc<watch::Sender<Term>>,
    leading: Arc<watch::Sender<Leading>>,
}

/// Whether we lead, and how often we began to: an end that was followed at once by a beginning is an end all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leading {
    pub now: bool,
    pub terms: u64,
}

impl fmt::Debug for Leadership {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Leadership").field("holds", &self.holds()).finish_non_exhaustive()
    }
}

impl Leadership {
    pub fn new(clock: Clock) -> Self {
        Self { clock, term: Arc::new(watch::Sender::new(Term::default())), leading: Arc::default() }
    }

    pub fn holds(&self) -> bool {
        self.term.borrow().allows_until(self.clock.now() + MARGIN)
    }

    /// Told when a term begins and when it has ended.
    pub fn changes(&self) -> watch::Receiver<Leading> {
        self.leading.subscribe()
    }

    /// Makes a call within the term: not at all if there is none, and cut off before it ends. Renewals extend it meanwhile.
    pub async fn within_term<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        if !self.holds() {
            return Err(not_leading());
        }
        let mut over = pin!(self.over());
        tokio::select! {
            // First: whoever was stopped and is woken sends nothing more, also where no timer has been told yet how late it is.
            biased;
            () = poll_fn(|context| if self.holds() { over.as_mut().poll(context) } else { Poll::Ready(()) }) => {
                Err(not_leading())
            }
            result = call => result,
        }
    }

    /// Ends [`MARGIN`] before the term does.
    async fn over(&self) {
        let mut changes = self.term.subscribe();
        loop {
            let term = *changes.borrow_and_update();
            let Some(ends) = term.ends.filter(|_| term.allows_until(self.clock.now() + MARGIN)) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(self.clock.at(ends) - MARGIN) => {}
                Ok(()) = changes.changed() => {}
            }
        }
    }

    fn set(&self, term: Term) {
        self.term.send_if_modified(|current| std::mem::replace(current, term) != term);
        let leads = self.holds();
        self.leading.send_if_modified(|leading| {
            let has_changed = leading.now != leads;
            leading.terms += u64::from(has_changed && leads);
            leading.now = leads;
            has_changed
        });
    }
}

fn not_leading() -> Failure {
    Failure::new(FailureClass::Stale, "NotLeading", "this replica leads no more; whoever leads goes on")
}

/// The Lease object and who we are.
#[derive(Clone)]
pub struct Election {
    pub client: Client,
    pub namespace: String,
    pub name: String,
    pub identity: String,
    pub timing: Timing,
    pub clock: Clock,
    pub leadership: Leadership,
}

impl fmt::Debug for Election {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Election").field("name", &self.name).field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Election {
    /// Campaigns until cancelled; then hands the lease over.
    ///
    /// A holder that cannot renew stops writing when its term ends and goes back to being a candidate with warm caches.
    pub async fn run(self, surroundings: Surroundings, stop: CancellationToken) {
        let mut candidate = Candidate::new(&self.identity, self.timing);
        let mut lease = follow(self.api(), &self.name, surroundings);
        loop {
            self.leadership.set(candidate.term());
            let now = self.clock.now();
            let wait = match candidate.decide(now) {
                _ if !candidate.has_looked() => now + self.timing.renew,
                Decision::Wait { until } => until,
                decision => match self.write(&mut candidate, decision).await {
                    Ok(()) if !stop.is_cancelled() => continue,
                    Ok(()) => break,
                    Err(_) => self.clock.now() + candidate.pause(self.clock.now()),
                },
            };
            let wait = candidate.term().ends.filter(|end| *end > self.clock.now()).map_or(wait, |end| wait.min(end));
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(self.clock.at(wait)) => {
                    if !candidate.has_looked() {
                        self.look(&mut candidate).await;
                    }
                }
                known = lease.changed() => match known {
                    Known::Nothing => {}
                    Known::Present(lease) => candidate.told(record(&lease), self.clock.now()),
                    Known::Absent { deleted_at: Some(version) } => candidate.gone(&version, self.clock.now()),
                    // A list may be older than our own last write: only a look tells.
                    Known::Absent { deleted_at: None } => self.look(&mut candidate).await,
                }
            }
        }
        self.hand_over(candidate).await;
    }

    async fn look(&self, candidate: &mut Candidate) {
        // Shorter than the common timeout: the end of a term must not be slept through.
        let answer = tokio::time::timeout(self.timing.renew, call("get lease", self.api().get_opt(&self.name))).await;
        match answer.unwrap_or_else(|_| Err(super::failure::timed_out("the lease"))) {
            Ok(lease) => candidate.observed(lease.as_ref().map(record), self.clock.now()),
            Err(failure) => warn!(%failure, lease = self.name, "cannot read the lease; will try again"),
        }
        // Another holder ends our term now, and so does time: not after the next wait.
        self.leadership.set(candidate.term());
    }

    fn api(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn write(&self, candidate: &mut Candidate, decision: Decision) -> Result<(), Failure> {
        let was_leading = self.leadership.holds();
        let sent = self.clock.now();
        let api = self.api();
        let attempt = async {
            match decision {
                Decision::Create => call("lease", api.create(&PostParams::default(), &self.lease(None, 0))).await,
                Decision::Write { version, transitions } => {
                    let lease = self.lease(Some(version), transitions);
                    call("lease", api.replace(&self.name, &PostParams::default(), &lease)).await
                }
                Decision::Wait { .. } => Err(super::failure::timed_out("a lease that is not to be written")),
            }
        };
        // One that hangs must leave time for another; a candidate has all the time that the result is worth something.
        let longest = if was_leading { self.timing.renew } else { self.timing.term };
        let result = tokio::time::timeout(longest, attempt).await;
        let result = result.unwrap_or_else(|_| Err(super::failure::timed_out("the lease")));
        match result {
            Ok(lease) => {
                candidate.won(record(&lease), sent, self.clock.now());
                self.leadership.set(candidate.term());
                if !was_leading {
                    info!(identity = self.identity, "leading");
                }
                Ok(())
            }
            Err(failure) => {
                debug!(%failure, "lease not written");
                self.leadership.set(candidate.term());
                // Somebody else wrote, or our own write got through without us hearing: look before trying again.
                self.look(candidate).await;
                Err(failure)
            }
        }
    }

    /// Clears the holder so that a standby takes over at once.
    async fn hand_over(&self, candidate: Candidate) {
        let held = candidate.term().allows_until(self.clock.now());
        self.leadership.set(Term::default());
        if !held {
            return;
        }
        let Ok(Some(mut lease)) = call("get lease", self.api().get_opt(&self.name)).await else { return };
        let ours = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.identity);
        if ours && let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            let released = call("release lease", self.api().replace(&self.name, &PostParams::default(), &lease)).await;
            info!(released = released.is_ok(), "lease handed over");
        }
    }

    fn lease(&self, version: Option<String>, transitions: i32) -> Lease {
        let now = MicroTime(jiff::Timestamp::now());
        Lease {
            metadata: ObjectMeta { name: Some(self.name.clone()), resource_version: version, ..ObjectMeta::default() },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(self.timing.lease.as_secs()).ok(),
                lease_transitions: Some(transitions),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        transitions: spec.lease_transitions.unwrap_or_default(),
        version: lease.resource_version().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn call_of(length: Duration) -> Result<(), Failure> {
        tokio::time::sleep(length).await;
        Ok(())
    }

    fn term(leadership: &Leadership, left: Duration) {
        leadership.set(Term { ends: Some(leadership.clock.now() + left) });
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_before_the_term_does() {
        let leadership = Leadership::new(Clock::start());
        assert!(leadership.within_term(call_of(Duration::ZERO)).await.is_err(), "without a term nothing is called");
        term(&leadership, Duration::from_secs(3));
        let begun = tokio::time::Instant::now();
        assert!(leadership.within_term(call_of(Duration::from_secs(10))).await.is_err());
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert!(!leadership.holds(), "in the last moments nothing is begun");
    }

    #[tokio::test(start_paused = true)]
    async fn who_wakes_after_the_term_sends_nothing_more() {
        for _ in 0..100 {
            let leadership = Leadership::new(Clock::start());
            term(&leadership, Duration::from_secs(3));
            let (woken, sent) = (tokio::sync::Notify::new(), std::cell::Cell::new(false));
            let call = async {
                woken.notified().await;
                sent.set(true);
                Ok(())
            };
            let stopped = async {
                tokio::time::advance(Duration::from_secs(10)).await;
                woken.notify_one();
            };
            let (result, ()) = futures::future::join(leadership.within_term(call), stopped).await;
            assert!(result.is_err() && !sent.get());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_term_that_ends_and_begins_anew_unobserved_is_another_term() {
        let leadership = Leadership::new(Clock::start());
        term(&leadership, Duration::from_secs(3));
        let mut changes = leadership.changes();
        let first = *changes.borrow_and_update();
        leadership.set(Term::default());
        term(&leadership, Duration::from_secs(3));
        assert!(changes.has_changed().unwrap());
        let second = *changes.borrow_and_update();
        assert!(first.now && second.now && first != second, "{first:?} {second:?}");
        term(&leadership, Duration::from_secs(4));
        assert!(!changes.has_changed().unwrap(), "a renewal is the same term");
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_lets_a_call_go_on_and_a_lost_lease_cuts_it_off() {
        let leadership = Leadership::new(Clock::start());
        term(&leadership, Duration::from_secs(3));
        let renewing = tokio::spawn({
            let leadership = leadership.clone();
            async move {
                for _ in 0..8 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    term(&leadership, Duration::from_secs(3));
                }
                leadership.set(Term::default());
            }
        });
        assert!(leadership.within_term(call_of(Duration::from_secs(7))).await.is_ok());
        let begun = tokio::time::Instant::now();
        assert!(leadership.within_term(call_of(Duration::from_secs(7))).await.is_err());
        assert_eq!(begun.elapsed(), Duration::from_secs(1), "at once when the lease is lost");
        renewing.await.unwrap();
    }
}
