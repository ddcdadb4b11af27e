//! The work queue: a pure state machine, driven by one task of the shell.
//!
//! Guarantees, each checked from every small world in `tests/queue.rs`:
//! - **No lost wake-up.** A key pushed while it runs is run again afterwards.
//! - **Serial per key.** A key is never handed out twice at once, so two writers never race on one object.
//! - **Fair between tenants.** Ready keys are taken round robin over tenants: a tenant with ten thousand keys delays
//!   another one by a single key per turn.
//! - **Live changes first.** A resync backlog never delays a change somebody just made by more than [`PATIENCE`] keys, and
//!   is itself never starved: after [`PATIENCE`] urgent keys in a row one less urgent key is taken.
//! - **Room for live changes.** Less urgent keys take at most half of what may run at once: however many they are, a change
//!   somebody just made finds a free place.
//! - **Per-key backoff.** Failures in a row delay only their own key; a fresh change is tried at once, and only a real
//!   attempt counts as a failure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{backoff::Backoff, plan::Next, time::Instant};

/// How many urgent keys may pass a less urgent one.
pub const PATIENCE: u32 = 8;

/// A unit of work that belongs to somebody.
pub trait Key: Ord + Clone {
    /// Whose work this is; fairness is between these.
    fn tenant(&self) -> &str;

    /// Any number that differs between keys; spreads retries.
    fn spread(&self) -> u64;
}

/// Why a key is in the queue; smaller is more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Something changed.
    Live,
    /// The last attempt failed, or asked to look again.
    Retry,
    /// Everything is looked at once after a start or a change of leader.
    Resync,
}

const PRIORITIES: usize = 3;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done; look again as said.
    Settled(Next),
    /// Failed; try again after the key's backoff.
    Failed,
    /// The observation was stale; something will push the key when it is fresh. Neither success nor failure.
    Parked,
}

#[derive(Debug)]
enum Place {
    Ready { priority: Priority, since: Instant },
    Delayed { until: Instant },
    Running { again: Option<Priority>, live: bool },
}

#[derive(Debug)]
struct Entry {
    place: Place,
    failures: u32,
}

/// Ready keys of one priority, by tenant, in the order the tenants take turns.
#[derive(Debug)]
struct Turns<K> {
    order: VecDeque<String>,
    keys: BTreeMap<String, VecDeque<K>>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { order: VecDeque::new(), keys: BTreeMap::new() }
    }
}

impl<K: Key> Turns<K> {
    fn push(&mut self, key: K) {
        let tenant = key.tenant().to_owned();
        let waiting = self.keys.entry(tenant.clone()).or_default();
        if waiting.is_empty() {
            self.order.push_back(tenant);
        }
        waiting.push_back(key);
    }

    fn pop(&mut self) -> Option<K> {
        let tenant = self.order.pop_front()?;
        let waiting = self.keys.get_mut(&tenant)?;
        let key = waiting.pop_front();
        if waiting.is_empty() {
            self.keys.remove(&tenant);
        } else {
            self.order.push_back(tenant);
        }
        key
    }

    fn remove(&mut self, key: &K) {
        let tenant = key.tenant();
        if let Some(waiting) = self.keys.get_mut(tenant) {
            waiting.retain(|other| other != key);
            if waiting.is_empty() {
                self.keys.remove(tenant);
                self.order.retain(|other| other != tenant);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// See the module documentation for what it guarantees.
#[derive(Debug)]
pub struct Queue<K> {
    entries: BTreeMap<K, Entry>,
    ready: [Turns<K>; PRIORITIES],
    delayed: BTreeSet<(Instant, K)>,
    /// How many ready keys have waited since when.
    waiting: BTreeMap<Instant, usize>,
    running: usize,
    most_running: usize,
    /// How many of the running ones are not live changes.
    background: usize,
    /// How many keys were taken past a waiting, less urgent one.
    passed: u32,
    backoff: Backoff,
}

impl<K: Key> Queue<K> {
    /// A queue that hands out at most `most_running` keys at once.
    pub fn new(most_running: usize, backoff: Backoff) -> Self {
        Self {
            entries: BTreeMap::new(),
            ready: Default::default(),
            delayed: BTreeSet::new(),
            waiting: BTreeMap::new(),
            running: 0,
            most_running,
            background: 0,
            passed: 0,
            backoff,
        }
    }

    /// Something about `key` may need work. Cheap and idempotent.
    pub fn push(&mut self, key: K, priority: Priority, now: Instant) {
        let failures = match self.entries.get_mut(&key) {
            None => 0,
            Some(Entry { place: Place::Running { again, .. }, .. }) => {
                *again = Some(again.map_or(priority, |other| other.min(priority)));
                return;
            }
            Some(Entry { place: Place::Ready { priority: waiting, .. }, .. }) if *waiting <= priority => return,
            Some(Entry { place: Place::Ready { priority: waiting, since }, .. }) => {
                // More urgent now: it moves up, but does not lose the time it has waited.
                let (waiting, since) = (*waiting, *since);
                self.ready[waiting as usize].remove(&key);
                self.stop_waiting(since);
                let failures = self.entries[&key].failures;
                self.make_ready(key, priority, since, failures);
                return;
            }
            // A resync says nothing new about a key that waits for its retry.
            Some(Entry { place: Place::Delayed { .. }, .. }) if priority == Priority::Resync => return,
            Some(Entry { place: Place::Delayed { until }, failures }) => {
                self.delayed.remove(&(*until, key.clone()));
                *failures
            }
        };
        self.make_ready(key, priority, now, failures);
    }

    /// The next key to work on, if one is ready and fewer than the allowed number are running.
    pub fn pop(&mut self, now: Instant) -> Option<K> {
        self.wake(now);
        if self.running >= self.most_running {
            return None;
        }
        let level = self.turn()?;
        let live = level == Priority::Live as usize;
        let key = self.ready[level].pop()?;
        let entry = self.entries.get_mut(&key)?;
        if let Place::Ready { since, .. } = std::mem::replace(&mut entry.place, Place::Running { again: None, live }) {
            self.stop_waiting(since);
        }
        self.running += 1;
        self.background += usize::from(!live);
        Some(key)
    }

    /// The attempt on `key` ended.
    pub fn done(&mut self, key: &K, verdict: Verdict, now: Instant) {
        let Some(Entry { place: Place::Running { again, live }, failures }) = self.entries.remove(key) else { return };
        self.running -= 1;
        self.background -= usize::from(!live);
        let failures = match verdict {
            Verdict::Settled(_) => 0,
            Verdict::Failed => failures.saturating_add(1),
            Verdict::Parked => failures,
        };
        let delay = match verdict {
            Verdict::Settled(Next::Settled) | Verdict::Parked => None,
            Verdict::Settled(Next::After(delay)) => Some(delay),
            Verdict::Failed => Some(self.backoff.delay(failures, key.spread())),
        };
        match (again, delay) {
            (Some(priority), _) => self.make_ready(key.clone(), priority, now, failures),
            (None, Some(delay)) => self.make_delayed(key.clone(), now + delay, failures),
            (None, None) if failures > 0 => {
                // Parked after failures: the count must outlive the wait, so the key stays known, far in the future.
                self.make_delayed(key.clone(), now + self.backoff.most, failures);
            }
            (None, None) => {}
        }
    }

    /// When to call [`Queue::pop`] again although nothing was pushed.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.delayed.first().map(|(until, _)| *until)
    }

    /// Keys ready but not running.
    pub fn depth(&self) -> usize {
        self.waiting.values().sum()
    }

    pub fn running(&self) -> usize {
        self.running
    }

    /// How long the oldest ready key has been waiting.
    pub fn oldest_wait(&self, now: Instant) -> std::time::Duration {
        self.waiting.keys().next().map(|since| now.since(*since)).unwrap_or_default()
    }

    /// Whether the queue will hand out `key` without another push.
    pub fn remembers(&self, key: &K) -> bool {
        match self.entries.get(key).map(|entry| &entry.place) {
            None => false,
            Some(Place::Running { again, .. }) => again.is_some(),
            Some(_) => true,
        }
    }

    fn make_ready(&mut self, key: K, priority: Priority, since: Instant, failures: u32) {
        self.ready[priority as usize].push(key.clone());
        *self.waiting.entry(since).or_default() += 1;
        self.entries.insert(key, Entry { place: Place::Ready { priority, since }, failures });
    }

    fn stop_waiting(&mut self, since: Instant) {
        if let Some(count) = self.waiting.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&since);
            }
        }
    }

    fn make_delayed(&mut self, key: K, until: Instant, failures: u32) {
        self.delayed.insert((until, key.clone()));
        self.entries.insert(key, Entry { place: Place::Delayed { until }, failures });
    }

    /// Moves keys whose delay is over to the ready ones.
    fn wake(&mut self, now: Instant) {
        while let Some((until, key)) = self.delayed.first().cloned() {
            if until > now {
                break;
            }
            self.delayed.pop_first();
            let failures = self.entries.get(&key).map_or(0, |entry| entry.failures);
            self.make_ready(key, Priority::Retry, until, failures);
        }
    }

    /// The priority whose turn it is: the most urgent one, unless a less urgent one has been passed often enough.
    fn turn(&mut self) -> Option<usize> {
        let levels = if self.background < self.most_running.div_ceil(2) { PRIORITIES } else { 1 };
        let mut waiting = (0..levels).filter(|level| !self.ready[*level].is_empty());
        let urgent = waiting.next()?;
        match waiting.next_back() {
            None => {
                self.passed = 0;
                Some(urgent)
            }
            Some(patient) if self.passed >= PATIENCE => {
                self.passed = 0;
                Some(patient)
            }
            Some(_) => {
                self.passed += 1;
                Some(urgent)
            }
        }
    }
}
