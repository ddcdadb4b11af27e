//! What we wrote ourselves: is a watch event our own echo or news, and may a key be looked at yet?
//!
//! Every write of ours comes back through a watch. Two things follow from that, and both are decided here, for one key at a
//! time, from the same few facts:
//! - **Read your writes.** A key is not looked at before the watches have shown what it wrote last: a look at an older picture
//!   would do the work a second time.
//! - **An echo is no news.** Looking again because our own write came back would double the work of a roll-out for nothing;
//!   what somebody else wrote, before or after, is news, and is looked at once its burst is over.
//!
//! Guarantees, each checked in every interleaving of a small world in `tests/journal.rs`: news that is not overwritten by us
//! leads to a look at a picture that holds it; a look never misses an own write that was answered; own writes alone wake nobody;
//! nothing waits for ever, and nothing is remembered that nobody will ask for.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::time::Instant;

/// An echo that does not come back in this time is given up: better a stale look than none.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long news is collected before it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// This long after the last news of a burst,
    pub calm: Duration,
    /// but this long after the first at the latest.
    pub most: Duration,
}

/// One object of one watch.
type Object<O> = (String, O);

/// A change of an object: one of ours that a watch has still to show, or one it has shown that was not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Version(u64),
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    since: Instant,
    due: Instant,
}

/// What is known about one key.
#[derive(Clone, Debug)]
struct Entry<O> {
    expected: BTreeMap<Object<O>, Change>,
    news: BTreeMap<Object<O>, Change>,
    burst: Option<Burst>,
    /// Somebody wants to look, and waits until then at the longest.
    waits_until: Option<Instant>,
    /// It is being looked at: answers to its writes are still under way.
    looking: bool,
}

impl<O> Default for Entry<O> {
    fn default() -> Self {
        Self { expected: BTreeMap::new(), news: BTreeMap::new(), burst: None, waits_until: None, looking: false }
    }
}

impl<O> Entry<O> {
    fn is_idle(&self) -> bool {
        let waits = self.burst.is_some() || self.waits_until.is_some() || self.looking;
        !waits && self.expected.is_empty() && self.news.is_empty()
    }
}

/// How far a watch has come, and who waits for it to come further.
#[derive(Clone, Debug)]
struct Stream<K, O> {
    seen: u64,
    awaited: BTreeMap<u64, BTreeSet<(K, O)>>,
    /// Who waits for an object to go.
    leaving: BTreeMap<O, BTreeSet<K>>,
}

impl<K, O> Default for Stream<K, O> {
    fn default() -> Self {
        Self { seen: 0, awaited: BTreeMap::new(), leaving: BTreeMap::new() }
    }
}

/// See the module documentation for what it guarantees. `K` is a unit of work, `O` names an object within a watch.
#[derive(Clone, Debug)]
pub struct Journal<K, O> {
    keeping: bool,
    streams: BTreeMap<String, Stream<K, O>>,
    entries: BTreeMap<K, Entry<O>>,
    timers: BTreeSet<(Instant, K, Timer)>,
}

/// What a key's time has come for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Burst,
    Wait,
}

impl<K, O> Default for Journal<K, O> {
    fn default() -> Self {
        Self { keeping: false, streams: BTreeMap::new(), entries: BTreeMap::new(), timers: BTreeSet::new() }
    }
}

impl<K: Ord + Clone, O: Ord + Clone> Journal<K, O> {
    /// From now on everything is noted: we lead, and everything has just been asked to be looked at.
    pub fn start(&mut self) {
        self.keeping = true;
    }

    /// Somebody else leads: what they do is none of our business, and what we did is theirs to look after.
    pub fn stop(&mut self) {
        self.keeping = false;
        self.entries.clear();
        self.timers.clear();
        for stream in self.streams.values_mut() {
            stream.awaited.clear();
            stream.leaving.clear();
        }
    }

    /// A watch begins: from now on its echoes are waited for.
    pub fn opened(&mut self, stream: &str) {
        self.streams.entry(stream.to_owned()).or_default();
    }

    /// A watch has ended: nothing more is to be heard from it. Returns the keys that may be looked at now.
    pub fn closed(&mut self, stream: &str) -> Vec<K> {
        self.streams.remove(stream);
        let waiting = self.entries.iter_mut().filter_map(|(key, entry)| {
            let before = entry.expected.len();
            entry.expected.retain(|(from, _), _| from != stream);
            entry.news.retain(|(from, _), _| from != stream);
            (entry.expected.len() < before).then(|| key.clone())
        });
        let waiting: Vec<K> = waiting.collect();
        self.released(waiting)
    }

    /// Everything up to `revision` has been shown. Returns the keys that may be looked at now.
    pub fn progressed(&mut self, stream: &str, revision: u64) -> Vec<K> {
        let Some(known) = self.streams.get_mut(stream) else { return Vec::new() };
        known.seen = known.seen.max(revision);
        let shown = self.shown(stream);
        self.released(shown.into_iter().map(|(key, _)| key))
    }

    /// Everything was listed as it is at `revision`, which may be an earlier one: the API server's store was put back. Returns the
    /// keys that may be looked at now, and those that made something the list does not hold: somebody took it away unseen.
    pub fn listed(&mut self, stream: &str, revision: u64, holds: impl Fn(&O) -> bool) -> Vec<K> {
        let Some(known) = self.streams.get_mut(stream) else { return Vec::new() };
        known.seen = revision;
        let shown = self.shown(stream);
        let mut keys: BTreeSet<K> = BTreeSet::new();
        for (key, object) in shown.iter().filter(|(_, object)| !holds(object)) {
            keys.extend(self.lost(key, (stream.to_owned(), object.clone())));
        }
        keys.extend(self.released(shown.into_iter().map(|(key, _)| key)));
        keys.into_iter().collect()
    }

    /// What `key` made is gone. While it is being looked at it may have deleted it itself: that is judged when the look ends.
    fn lost(&mut self, key: &K, what: Object<O>) -> Option<K> {
        let entry = self.entries.get_mut(key)?;
        if !entry.looking {
            return Some(key.clone());
        }
        entry.news.insert(what, Change::Gone);
        entry.burst.get_or_insert(Burst { since: Instant(0), due: Instant(0) });
        None
    }

    /// The writes the watch has come past, and whose they were.
    fn shown(&mut self, stream: &str) -> Vec<(K, O)> {
        let Some(known) = self.streams.get_mut(stream) else { return Vec::new() };
        let seen = known.seen;
        let mut shown = Vec::new();
        while let Some(first) = known.awaited.first_entry()
            && *first.key() <= seen
        {
            shown.extend(first.remove());
        }
        shown.retain(|(key, object)| {
            let what = (stream.to_owned(), object.clone());
            let expected = self.entries.get_mut(key).map(|entry| &mut entry.expected);
            let Some(expected) = expected else { return false };
            let is_past = matches!(expected.get(&what), Some(Change::Version(version)) if *version <= seen);
            is_past && expected.remove(&what).is_some()
        });
        shown
    }

    /// `key` wrote this version of an object; `shown` is whether the watch's picture holds it. Returns whether it is gone again
    /// already, unseen, and must be looked at.
    pub fn wrote(&mut self, key: &K, stream: &str, object: &O, version: u64, shown: bool) -> bool {
        let Some(known) = self.streams.get_mut(stream).filter(|_| self.keeping) else { return false };
        let entry = self.entries.entry(key.clone()).or_default();
        let what = (stream.to_owned(), object.clone());
        if entry.news.get(&what) == Some(&Change::Version(version)) {
            entry.news.remove(&what);
        }
        let newest = !matches!(entry.expected.get(&what), Some(Change::Version(newer)) if *newer >= version);
        let is_past = known.seen >= version;
        let is_lost = is_past && !shown && !entry.news.contains_key(&what);
        if !is_past && newest {
            entry.expected.insert(what, Change::Version(version));
            known.awaited.entry(version).or_default().insert((key.clone(), object.clone()));
        }
        self.tidy(key);
        is_lost
    }

    /// `key` deleted an object; `shown` is whether the watch's picture still holds it.
    pub fn deleted(&mut self, key: &K, stream: &str, object: &O, shown: bool) {
        let Some(known) = self.streams.get_mut(stream).filter(|_| self.keeping) else { return };
        let entry = self.entries.entry(key.clone()).or_default();
        let what = (stream.to_owned(), object.clone());
        if entry.news.get(&what) == Some(&Change::Gone) {
            entry.news.remove(&what);
        } else if shown {
            entry.expected.insert(what, Change::Gone);
            known.leaving.entry(object.clone()).or_default().insert(key.clone());
        }
        self.tidy(key);
    }

    /// A watch's picture holds an object no longer, whomever it concerns. Returns the keys that may be looked at now.
    pub fn removed(&mut self, stream: &str, object: &O) -> Vec<K> {
        let Some(known) = self.streams.get_mut(stream) else { return Vec::new() };
        let keys = known.leaving.remove(object).unwrap_or_default();
        let what = (stream.to_owned(), object.clone());
        for key in &keys {
            if let Some(entry) = self.entries.get_mut(key)
                && entry.expected.get(&what) == Some(&Change::Gone)
            {
                entry.expected.remove(&what);
            }
        }
        self.released(keys)
    }

    /// A watch showed this version of an object that concerns `key`. Returns whether it is news.
    pub fn saw(&mut self, key: &K, stream: &str, object: &O, version: u64, pace: Pace, now: Instant) -> bool {
        let what = (stream.to_owned(), object.clone());
        let entry = self.entries.get_mut(key);
        match entry.as_ref().and_then(|entry| entry.expected.get(&what)) {
            // Whatever was done to it before we deleted it is over.
            Some(Change::Gone) => false,
            Some(Change::Version(ours)) if version < *ours => false,
            Some(Change::Version(ours)) if version == *ours => {
                // What came before it, we have overwritten.
                if let Some(entry) = entry {
                    entry.news.remove(&what);
                }
                false
            }
            _ => self.note(key, what, Change::Version(version), pace, now),
        }
    }

    /// A watch showed that an object that concerns `key` is gone. Returns the keys that may be looked at now.
    pub fn gone(&mut self, key: &K, stream: &str, object: &O, pace: Pace, now: Instant) -> Vec<K> {
        let what = (stream.to_owned(), object.clone());
        let ours = self.entries.get_mut(key).filter(|entry| entry.expected.contains_key(&what));
        if let Some(entry) = ours {
            // We deleted it, or have written it anew since.
            entry.news.remove(&what);
        } else {
            self.note(key, what, Change::Gone, pace, now);
        }
        self.removed(stream, object)
    }

    fn note(&mut self, key: &K, what: Object<O>, change: Change, pace: Pace, now: Instant) -> bool {
        if !self.keeping {
            return false;
        }
        let entry = self.entries.entry(key.clone()).or_default();
        entry.news.insert(what, change);
        let since = entry.burst.map_or(now, |burst| burst.since);
        let due = (now + pace.calm).min(since + pace.most);
        if let Some(before) = entry.burst.replace(Burst { since, due }) {
            self.timers.remove(&(before.due, key.clone(), Timer::Burst));
        }
        self.timers.insert((due, key.clone(), Timer::Burst));
        true
    }

    /// Whether `key` may be looked at. If not, it is returned by one of the other calls as soon as it may be.
    pub fn may_look(&mut self, key: &K, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return true };
        if entry.expected.is_empty() {
            return true;
        }
        if entry.waits_until.is_none() {
            let until = now + PATIENCE;
            entry.waits_until = Some(until);
            self.timers.insert((until, key.clone(), Timer::Wait));
        }
        false
    }

    /// A look at `key` begins: it sees whatever was news. What comes meanwhile is judged when it ends, because only then the
    /// answers to its writes are there and tell which of it was ours.
    pub fn looks(&mut self, key: &K) {
        if !self.keeping {
            return;
        }
        let entry = self.entries.entry(key.clone()).or_default();
        entry.news.clear();
        entry.looking = true;
        if let Some(burst) = entry.burst.take() {
            self.timers.remove(&(burst.due, key.clone(), Timer::Burst));
        }
    }

    /// The look at `key` has ended. Returns whether news that came meanwhile is to be looked at now.
    pub fn looked(&mut self, key: &K, now: Instant) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        entry.looking = false;
        let due = entry.burst.take_if(|burst| burst.due <= now);
        let again = due.is_some() && !entry.news.is_empty();
        if let Some(burst) = due {
            self.timers.remove(&(burst.due, key.clone(), Timer::Burst));
        }
        self.tidy(key);
        again
    }

    /// Keys whose news is due, or that have waited long enough. News that turned out to be our own echo wakes nobody.
    pub fn due(&mut self, now: Instant) -> Vec<K> {
        let mut keys = Vec::new();
        while let Some((_, key, timer)) = self.timers.first().filter(|(at, ..)| *at <= now).cloned() {
            self.timers.pop_first();
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            let wakes = match timer {
                Timer::Burst if entry.looking => false,
                Timer::Burst => {
                    entry.burst = None;
                    !entry.news.is_empty()
                }
                Timer::Wait => {
                    entry.waits_until = None;
                    entry.expected.clear();
                    true
                }
            };
            if wakes {
                keys.push(key.clone());
            }
            self.tidy(&key);
        }
        keys
    }

    /// When to call [`Journal::due`] next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.timers.first().map(|(at, ..)| *at)
    }

    /// How many keys something is remembered about.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Of `keys` those that waited and wait for nothing any more.
    fn released(&mut self, keys: impl IntoIterator<Item = K>) -> Vec<K> {
        let mut released = Vec::new();
        for key in keys {
            if let Some(entry) = self.entries.get_mut(&key)
                && entry.expected.is_empty()
                && let Some(until) = entry.waits_until.take()
            {
                self.timers.remove(&(until, key.clone(), Timer::Wait));
                released.push(key.clone());
            }
            self.tidy(&key);
        }
        released
    }

    fn tidy(&mut self, key: &K) {
        if self.entries.get(key).is_some_and(Entry::is_idle) {
            self.entries.remove(key);
        }
    }
}
