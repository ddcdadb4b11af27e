//! The work queue: a pure state machine, driven by one task of the shell.
//!
//! Guarantees, each checked from every small world in `tests/queue`:
//! - **No lost wake-up.** A key pushed while it runs is run again afterwards.
//! - **Serial per key.** A key is never handed out twice at once, so two writers never race on one object.
//! - **Fair between tenants.** Ready keys are taken round robin over tenants: a tenant with ten thousand keys delays
//!   another one by a single key per turn.
//! - **Live changes first.** A backlog never delays a change somebody just made by more than [`PATIENCE`] keys, and
//!   nobody is starved: whatever waits is taken after it was passed [`PATIENCE`] times.
//! - **Room for live changes.** Less urgent keys take at most seven eighths of what may run at once: however many they are, a
//!   change somebody just made finds a free place.
//! - **Slow ones keep nobody waiting.** An attempt that somebody outside holds up gives its place to others.
//! - **One outside keeps nobody else waiting.** Of those who need the same only some run at once; who waits for it waits as fairly
//!   as everybody else, and takes no place meanwhile.
//! - **Per-key backoff.** Attempts in a row that did not settle delay only their own key; a fresh change is tried at once,
//!   and only a real attempt counts. What has failed [`MANY`] times in a row is tried no more often than every [`FLOOR`],
//!   however much changes about it.
//! - **Cheap.** Every operation costs the logarithm of what waits.

mod lanes;
mod lines;
mod turns;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use self::{lanes::Lanes, lines::Lines, turns::Ticket};
use crate::{backoff::Backoff, plan::Next, time::Instant};

/// How many of `places` whatever is no change somebody has just made may take.
pub fn room_for_background(places: usize) -> usize {
    places.saturating_sub(places.div_ceil(8)).max(1)
}

/// How many urgent keys may pass a less urgent one.
pub const PATIENCE: u32 = 8;

/// So many times as many keys as have a place may be under way without one, because they take long.
pub const SLOW: usize = 8;

/// So many attempts in a row have failed that the next change is hardly the cure.
pub const MANY: u32 = 8;
/// The least time between two attempts then.
pub const FLOOR: Duration = Duration::from_secs(1);

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
    /// One change concerns many: all of them at once, and nobody asked for any one of them.
    RollOut,
    /// Everything is looked at after a start, after a change of leader, and now and then.
    Resync,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done; look again as said.
    Settled(Next),
    /// Failed; try again after the key's backoff.
    Failed,
    /// The world had moved on meanwhile; look again after a backoff that starts short, should no watch tell before.
    Stale,
    /// Not attempted, because it is not its turn for this long. Neither success nor failure.
    Early { wait: Duration },
    /// Not attempted; something will push the key when it can be. Neither success nor failure.
    Parked,
}

/// How an attempt on a key may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    Now,
    /// As one of a few who need the same outside.
    In {
        lane: String,
    },
    /// Not yet; something will push the key when it may.
    NotYet,
}

/// An attempt on a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// How many before it, in a row, did not settle.
    pub failures: u32,
    /// Something has just changed.
    pub live: bool,
}

/// How soon a key comes back, by how its attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoffs {
    pub failed: Backoff,
    pub stale: Backoff,
}

impl Default for Backoffs {
    fn default() -> Self {
        Self {
            failed: Backoff::default(),
            stale: Backoff { first: Duration::from_millis(250), most: Duration::from_secs(60) },
        }
    }
}

#[derive(Debug)]
enum Place {
    Ready {
        priority: Priority,
        since: Instant,
        ticket: Ticket,
    },
    /// For its lane.
    Waiting {
        priority: Priority,
        since: Instant,
    },
    Delayed {
        until: Instant,
    },
    Running {
        again: Option<Priority>,
        live: bool,
        /// It takes long and has given its place to others.
        slow: bool,
    },
    /// Kept only so that its failures are not forgotten.
    Parked,
}

#[derive(Debug)]
struct Entry {
    place: Place,
    failures: u32,
}

/// See the module documentation for what it guarantees.
#[derive(Debug)]
pub struct Queue<K> {
    entries: BTreeMap<K, Entry>,
    ready: Lines<K>,
    lanes: Lanes<K>,
    delayed: BTreeSet<(Instant, K)>,
    /// How many keys have been ready, or waited for their lane, since when.
    waiting: BTreeMap<Instant, usize>,
    depth: usize,
    /// Those that have a place.
    running: usize,
    slow: usize,
    most_running: usize,
    /// How many of the running ones are not live changes.
    background: usize,
    backoffs: Backoffs,
}

impl<K: Key> Queue<K> {
    /// A queue that hands out at most `most_running` keys at once, and `most_in_lane` of those who need the same outside.
    pub fn new(most_running: usize, most_in_lane: usize, backoffs: Backoffs) -> Self {
        Self {
            entries: BTreeMap::new(),
            ready: Lines::default(),
            lanes: Lanes::new(most_in_lane),
            delayed: BTreeSet::new(),
            waiting: BTreeMap::new(),
            depth: 0,
            running: 0,
            slow: 0,
            most_running,
            background: 0,
            backoffs,
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
            Some(Entry { place: Place::Ready { priority: waiting, since, ticket }, failures }) => {
                // More urgent now: it moves up, but does not lose the time it has waited.
                let (waiting, since, ticket, failures) = (*waiting, *since, *ticket, *failures);
                self.ready.remove(&key, waiting, ticket);
                self.stop_waiting(since);
                self.make_ready(key, priority, since, failures);
                return;
            }
            Some(Entry { place: Place::Waiting { priority: waiting, since }, failures }) => {
                // It keeps its place in the lane, if that is still the one it needs.
                let (waiting, since, failures) = (*waiting, *since, *failures);
                self.stop_waiting(since);
                self.make_ready(key, priority.min(waiting), since, failures);
                return;
            }
            Some(Entry { place: Place::Delayed { until }, failures }) => {
                let (until, failures) = (*until, *failures);
                self.delayed.remove(&(until, key.clone()));
                if failures >= MANY {
                    self.make_delayed(key, until.min(now + FLOOR), failures);
                    return;
                }
                failures
            }
            Some(Entry { place: Place::Parked, failures }) => *failures,
        };
        self.make_ready(key, priority, now, failures);
    }

    /// The next key to work on, if one is ready that may start and fewer than the allowed number are running.
    pub fn pop(&mut self, now: Instant, mut start: impl FnMut(&K) -> Start) -> Option<K> {
        self.wake(now);
        while self.running < self.most_running {
            let has_room = self.background < room_for_background(self.most_running);
            let (key, priority) = self.ready.next(|priority| has_room || priority == Priority::Live)?;
            let start = start(&key);
            let may_start = self.enter_lane(&key, priority, &start, now);
            let entry = self.entries.get_mut(&key)?;
            let Place::Ready { since, .. } = entry.place else { continue };
            if may_start {
                let live = priority == Priority::Live;
                entry.place = Place::Running { again: None, live, slow: false };
                self.stop_waiting(since);
                self.running += 1;
                self.background += usize::from(!live);
                return Some(key);
            }
            if start != Start::NotYet {
                entry.place = Place::Waiting { priority, since };
                continue;
            }
            let failures = entry.failures;
            self.stop_waiting(since);
            self.park(key, failures);
        }
        None
    }

    /// The attempt on `key` takes long: somebody outside keeps it waiting. Its place goes to others, as long as there are not
    /// too many such.
    pub fn takes_long(&mut self, key: &K) {
        if self.slow >= self.most_running.saturating_mul(SLOW) {
            return;
        }
        if let Some(Entry { place: Place::Running { slow: slow @ false, live, .. }, .. }) = self.entries.get_mut(key) {
            *slow = true;
            self.slow += 1;
            self.running -= 1;
            self.background -= usize::from(!*live);
        }
    }

    /// The attempt on `key` ended.
    pub fn done(&mut self, key: &K, verdict: Verdict, now: Instant) {
        let Some(Entry { place: Place::Running { again, live, slow }, failures }) = self.entries.remove(key) else {
            return;
        };
        if slow {
            self.slow -= 1;
        } else {
            self.running -= 1;
            self.background -= usize::from(!live);
        }
        let failures = match verdict {
            Verdict::Settled(_) => 0,
            Verdict::Failed | Verdict::Stale => failures.saturating_add(1),
            Verdict::Early { .. } | Verdict::Parked => failures,
        };
        let delay = match verdict {
            Verdict::Settled(Next::Settled) | Verdict::Parked => None,
            Verdict::Settled(Next::After(delay)) | Verdict::Early { wait: delay } => Some(delay),
            Verdict::Failed => Some(self.backoffs.failed.delay(failures, key.spread())),
            Verdict::Stale => Some(self.backoffs.stale.delay(failures, key.spread())),
        };
        match (again, delay) {
            (Some(_), Some(delay)) if failures >= MANY => {
                self.make_delayed(key.clone(), now + delay.min(FLOOR), failures);
            }
            (Some(priority), _) => self.make_ready(key.clone(), priority, now, failures),
            (None, Some(delay)) => self.make_delayed(key.clone(), now + delay, failures),
            (None, None) => self.park(key.clone(), failures),
        }
        self.leave_lane(key, now);
    }

    /// Forgets everything that is not running: somebody else looks after it now.
    pub fn clear(&mut self) {
        self.entries.retain(|_, entry| matches!(entry.place, Place::Running { .. }));
        for entry in self.entries.values_mut() {
            entry.failures = 0;
            if let Place::Running { again, .. } = &mut entry.place {
                *again = None;
            }
        }
        self.ready = Lines::default();
        self.lanes.clear();
        self.delayed.clear();
        self.waiting.clear();
        self.depth = 0;
    }

    /// When to call [`Queue::pop`] again although nothing was pushed.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.delayed.first().map(|(until, _)| *until)
    }

    /// Keys that wait for nothing but their turn.
    pub fn depth(&self) -> usize {
        self.depth
    }

    pub fn running(&self) -> usize {
        self.running + self.slow
    }

    /// How long the oldest ready key has been waiting.
    pub fn oldest_wait(&self, now: Instant) -> Duration {
        self.waiting.keys().next().map(|since| now.since(*since)).unwrap_or_default()
    }

    /// What is known about the attempt under way on `key`.
    pub fn attempt(&self, key: &K) -> Attempt {
        self.entries.get(key).map_or_else(Attempt::default, |entry| Attempt {
            failures: entry.failures,
            live: matches!(entry.place, Place::Running { live: true, .. }),
        })
    }

    /// Whether the queue will hand out `key` without another push.
    pub fn remembers(&self, key: &K) -> bool {
        match self.entries.get(key).map(|entry| &entry.place) {
            None | Some(Place::Parked) => false,
            Some(Place::Running { again, .. }) => again.is_some(),
            Some(Place::Ready { .. } | Place::Waiting { .. } | Place::Delayed { .. }) => true,
        }
    }

    fn make_ready(&mut self, key: K, priority: Priority, since: Instant, failures: u32) {
        let ticket = self.ready.push(key.clone(), priority);
        *self.waiting.entry(since).or_default() += 1;
        self.depth += 1;
        self.entries.insert(key, Entry { place: Place::Ready { priority, since, ticket }, failures });
    }

    fn stop_waiting(&mut self, since: Instant) {
        if let Some(count) = self.waiting.get_mut(&since) {
            self.depth -= 1;
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

    /// Whether `key` may start, as far as its lane is concerned.
    fn enter_lane(&mut self, key: &K, priority: Priority, start: &Start, now: Instant) -> bool {
        let lane = match start {
            Start::In { lane } => Some(lane.as_str()),
            Start::Now | Start::NotYet => None,
        };
        if self.lanes.lane_of(key) != lane {
            self.leave_lane(key, now);
        }
        *start != Start::NotYet && lane.is_none_or(|lane| self.lanes.enter(key, lane, priority))
    }

    /// Who waits for the place `key` had comes next, among those as urgent as itself.
    fn leave_lane(&mut self, key: &K, now: Instant) {
        if let Some((called, priority)) = self.lanes.leave(key) {
            self.push(called, priority, now);
        }
    }

    /// Only its failures are remembered.
    fn park(&mut self, key: K, failures: u32) {
        if failures > 0 {
            self.entries.insert(key, Entry { place: Place::Parked, failures });
        } else {
            self.entries.remove(&key);
        }
    }
}
