//! The election loop around [`croft_core::lease`]: reads and watches the Lease, writes when the core says so.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use croft_core::{
    lease::{Candidate, Decision, Record, Timing},
    plan::Failure,
    time::Instant,
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, ResourceExt,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{clock::Clock, write::call};

/// A step is not started in the last moments of a term.
const MARGIN: Duration = Duration::from_millis(300);

/// Whether this process may write, checked before each step.
///
/// The answer is computed from the clock at the time of asking, so a process that was stopped and woken knows at once that
/// its term is over.
#[derive(Clone)]
pub struct Leadership {
    clock: Clock,
    /// End of the term in the clock's milliseconds; zero while there is none.
    term_ends: Arc<AtomicU64>,
    leading: Arc<watch::Sender<bool>>,
}

impl fmt::Debug for Leadership {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Leadership").field("holds", &self.holds()).finish_non_exhaustive()
    }
}

impl Leadership {
    pub fn new(clock: Clock) -> Self {
        Self { clock, term_ends: Arc::default(), leading: Arc::new(watch::Sender::new(false)) }
    }

    pub fn holds(&self) -> bool {
        self.clock.now() + MARGIN < Instant(self.term_ends.load(Ordering::SeqCst))
    }

    /// Told when a term begins and when it has ended.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.leading.subscribe()
    }

    /// Ends the term here and now: no further step starts.
    pub fn resign(&self) {
        self.set(None);
    }

    fn set(&self, term_ends: Option<Instant>) {
        self.term_ends.store(term_ends.map_or(0, |end| end.0), Ordering::SeqCst);
        let leads = self.holds();
        self.leading.send_if_modified(|leading| std::mem::replace(leading, leads) != leads);
    }
}

/// The Lease object and who we are.
#[derive(Clone)]
pub struct Election {
    pub api: Api<Lease>,
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
    pub async fn run(self, stop: CancellationToken) {
        let mut candidate = Candidate::new(&self.identity, self.timing);
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let changes = watcher(self.api.clone(), config).default_backoff();
        pin_mut!(changes);
        let mut known = false;
        let mut newest = 0;
        loop {
            self.leadership.set(candidate.term_ends());
            let wait = match candidate.decide(self.clock.now()) {
                _ if !known => self.clock.now() + self.timing.renew,
                Decision::Wait { until } => until,
                decision => match self.write(&mut candidate, decision).await {
                    Ok(revision) => {
                        newest = newest.max(revision);
                        continue;
                    }
                    Err(_) => self.clock.now() + self.timing.renew / 2,
                },
            };
            let wait = candidate.term_ends().filter(|end| *end > self.clock.now()).map_or(wait, |end| wait.min(end));
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep_until(self.clock.at(wait)) => {
                    if !known { known = self.look(&mut candidate).await; }
                }
                event = changes.next() => match event {
                    Some(Ok(watcher::Event::Apply(lease) | watcher::Event::InitApply(lease))) => {
                        // A watch may lag behind our own writes: old news must not end a term.
                        let revision = revision(&lease);
                        if revision >= newest {
                            newest = revision;
                            candidate.observed(Some(record(&lease)), self.clock.now());
                        }
                        known = true;
                    }
                    Some(Ok(watcher::Event::Delete(_))) => candidate.observed(None, self.clock.now()),
                    Some(Ok(watcher::Event::InitDone)) if !known => known = self.look(&mut candidate).await,
                    Some(Err(error)) => debug!(%error, "watch on the lease interrupted"),
                    _ => {}
                }
            }
        }
        self.hand_over(candidate).await;
    }

    async fn look(&self, candidate: &mut Candidate) -> bool {
        // Shorter than the common timeout: the end of a term must not be slept through.
        let answer = tokio::time::timeout(self.timing.renew, call("get lease", self.api.get_opt(&self.name))).await;
        match answer.unwrap_or_else(|_| Err(super::failure::timed_out("the lease"))) {
            Ok(lease) => {
                candidate.observed(lease.as_ref().map(record), self.clock.now());
                true
            }
            Err(failure) => {
                warn!(%failure, lease = self.name, "cannot read the lease; will try again");
                false
            }
        }
    }

    async fn write(&self, candidate: &mut Candidate, decision: Decision) -> Result<u64, Failure> {
        let was_leading = self.leadership.holds();
        let sent = self.clock.now();
        // A renewal that takes longer than a term is worth nothing.
        let attempt = tokio::time::timeout(self.timing.term, async {
            match decision {
                Decision::Create => self.api.create(&PostParams::default(), &self.lease(None, 0)).await,
                Decision::Write { version, transitions } => {
                    self.api.replace(&self.name, &PostParams::default(), &self.lease(Some(version), transitions)).await
                }
                Decision::Wait { .. } => unreachable!("waiting writes nothing"),
            }
        });
        let result = match attempt.await {
            Ok(result) => call("lease", async { result }).await,
            Err(_) => Err(super::failure::timed_out("the lease")),
        };
        match result {
            Ok(lease) => {
                candidate.won(record(&lease), sent, self.clock.now());
                self.leadership.set(candidate.term_ends());
                if !was_leading {
                    info!(identity = self.identity, "leading");
                }
                Ok(revision(&lease))
            }
            Err(failure) => {
                debug!(%failure, "lease not written");
                self.leadership.set(candidate.term_ends());
                // Somebody else wrote, or our own write got through without us hearing: look before trying again.
                self.look(candidate).await;
                Err(failure)
            }
        }
    }

    /// Clears the holder so that a standby takes over at once.
    async fn hand_over(&self, candidate: Candidate) {
        let held = candidate.term_ends().is_some_and(|end| end > self.clock.now());
        self.leadership.resign();
        if !held {
            return;
        }
        let Ok(Some(mut lease)) = call("get lease", self.api.get_opt(&self.name)).await else { return };
        let ours = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.identity);
        if ours && let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            let released = call("release lease", self.api.replace(&self.name, &PostParams::default(), &lease)).await;
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

fn revision(lease: &Lease) -> u64 {
    lease.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}
