//! Stories of a queue: what happens to it, and what must hold after each event.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use croft_core::{
    plan::Next,
    queue::{Priority, Queue, SLOW, Start, Verdict},
    time::Instant,
};

use super::{KEYS, Work, queue};

/// What the keys of a world need, and how many may run at once.
#[derive(Clone, Copy)]
pub(super) struct World {
    start: fn(&Needs, Work) -> Start,
    most_running: usize,
}

/// What keys need at the moment.
#[derive(Default)]
struct Needs {
    /// These may not start.
    held: BTreeSet<Work>,
    /// Keys come to need another outside.
    moved: u8,
}

/// Nobody needs anything.
pub(super) const FREE: World = World { start: |_, _| Start::Now, most_running: 2 };

/// All need the same outside, and one of them may have it.
pub(super) const LANED: World = World { start: |_, _| Start::In { lane: "gateway".into() }, most_running: 2 };

/// Some need nothing, some one outside or the other, some may not start yet, and all of that changes.
pub(super) const MIXED: World = World {
    start: |needs, key| match key.1.wrapping_add(needs.moved) % 4 {
        _ if needs.held.contains(&key) => Start::NotYet,
        0 => Start::In { lane: "one".into() },
        1 => Start::In { lane: "other".into() },
        _ => Start::Now,
    },
    most_running: 1,
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Push(Work, Priority),
    Pop,
    TakesLong(Work),
    Done(Work, Verdict),
    Wait(u64),
    /// It may not start until further notice.
    Hold(Work),
    LetGo(Work),
    /// What keys need has changed.
    Move,
    /// Somebody else leads.
    Clear,
}

pub(super) fn events() -> Vec<Event> {
    let mut events = vec![Event::Pop, Event::Wait(15)];
    for key in KEYS {
        for priority in [Priority::Live, Priority::Retry, Priority::Resync] {
            events.push(Event::Push(key, priority));
        }
        events.push(Event::TakesLong(key));
        for verdict in [
            Verdict::Settled(Next::Settled),
            Verdict::Failed,
            Verdict::Stale,
            Verdict::Parked,
            Verdict::Settled(Next::After(Duration::from_millis(5))),
        ] {
            events.push(Event::Done(key, verdict));
        }
    }
    events
}

/// More keys than may be under way, and everything that can happen to them.
pub(super) fn all_events() -> Vec<Event> {
    let keys = (0..12).map(|number| Work(if number % 3 == 0 { "a" } else { "b" }, number));
    let of_key = |key: Work| {
        let early = Verdict::Early { wait: Duration::from_millis(7) };
        let own = [
            Event::Push(key, Priority::Live),
            Event::Push(key, Priority::RollOut),
            Event::Push(key, Priority::Resync),
            Event::Pop,
            Event::Pop,
            Event::TakesLong(key),
            Event::TakesLong(key),
            Event::Done(key, Verdict::Settled(Next::Settled)),
            Event::Done(key, Verdict::Failed),
            Event::Done(key, early),
            Event::Hold(key),
            Event::LetGo(key),
        ];
        own.into_iter()
    };
    keys.flat_map(of_key).chain([Event::Wait(15), Event::Move, Event::Clear]).collect()
}

/// A queue, and what is known about it from outside.
struct Play<'s> {
    world: World,
    queue: Queue<Work>,
    now: Instant,
    needs: Needs,
    /// Each with the lane it was let into.
    running: BTreeMap<Work, Option<String>>,
    slow: BTreeSet<Work>,
    /// Keys pushed since they were last handed out: the queue must still hand them out.
    owed: BTreeSet<Work>,
    /// Keys that were not let start: they are pushed when they may.
    waiting: BTreeSet<Work>,
    story: &'s [Event],
}

impl<'s> Play<'s> {
    fn new(world: World, story: &'s [Event]) -> Self {
        Self {
            world,
            queue: queue(world.most_running),
            now: Instant(0),
            needs: Needs::default(),
            running: BTreeMap::new(),
            slow: BTreeSet::new(),
            owed: BTreeSet::new(),
            waiting: BTreeSet::new(),
            story,
        }
    }

    fn push(&mut self, key: Work, priority: Priority) {
        self.queue.push(key, priority, self.now);
        self.owed.insert(key);
    }

    fn pop(&mut self) -> Option<Work> {
        let Self { world, needs, waiting, owed, .. } = self;
        let mut lane = None;
        let key = self.queue.pop(self.now, |key| {
            let start = (world.start)(needs, *key);
            lane = match &start {
                Start::In { lane } => Some(lane.clone()),
                Start::Now => None,
                Start::NotYet => {
                    waiting.insert(*key);
                    owed.remove(key);
                    None
                }
            };
            start
        })?;
        self.owed.remove(&key);
        assert!(self.running.insert(key, lane).is_none(), "{key:?} handed out twice: {:?}", self.story);
        Some(key)
    }

    fn done(&mut self, key: Work, verdict: Verdict) {
        if self.running.remove(&key).is_some() {
            self.slow.remove(&key);
            self.queue.done(&key, verdict, self.now);
            if matches!(verdict, Verdict::Failed | Verdict::Stale | Verdict::Early { .. }) {
                assert!(self.queue.remembers(&key), "a failed key was forgotten: {:?}", self.story);
            }
        }
    }

    fn let_go(&mut self, key: Work) {
        self.needs.held.remove(&key);
        if self.waiting.remove(&key) {
            self.push(key, Priority::Live);
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Push(key, priority) => self.push(key, priority),
            Event::Pop => drop(self.pop()),
            Event::TakesLong(key) if self.running.contains_key(&key) => {
                self.queue.takes_long(&key);
                self.slow.insert(key);
            }
            Event::TakesLong(_) => {}
            Event::Done(key, verdict) => self.done(key, verdict),
            Event::Wait(delay) => self.now = self.now + Duration::from_millis(delay),
            Event::Hold(key) => drop(self.needs.held.insert(key)),
            Event::LetGo(key) => self.let_go(key),
            Event::Move => self.needs.moved = self.needs.moved.wrapping_add(1),
            Event::Clear => {
                self.queue.clear();
                self.owed.clear();
                self.waiting.clear();
            }
        }
    }

    fn check(&self) {
        let Self { world: World { most_running, .. }, running, slow, story, .. } = self;
        // Who took long while there was room for more of those has given its place away.
        let most_slow = most_running * SLOW;
        assert!(
            running.len().saturating_sub(slow.len().min(most_slow)) <= *most_running,
            "too many at once: {story:?}"
        );
        assert!(running.len() <= most_running + most_slow, "too many under way: {story:?}");
        for lane in running.values().flatten() {
            let in_lane = running.values().flatten().filter(|other| *other == lane).count();
            assert_eq!(in_lane, 1, "too many in lane {lane}: {story:?}");
        }
        for key in &self.owed {
            assert!(self.queue.remembers(key), "lost wake-up of {key:?}: {story:?}");
        }
    }

    /// After the last event everything owed is handed out once the running ones end.
    fn drain(mut self) {
        for key in self.running.keys().copied().collect::<Vec<_>>() {
            self.done(key, Verdict::Settled(Next::Settled));
        }
        for key in self.needs.held.clone() {
            self.let_go(key);
        }
        for _ in 0..100 {
            if let Some(key) = self.pop() {
                self.done(key, Verdict::Settled(Next::Settled));
            } else if let Some(wakeup) = self.queue.next_wakeup() {
                self.now = self.now.max(wakeup);
            } else {
                break;
            }
        }
        assert!(self.owed.is_empty(), "never handed out: {:?} in {:?}", self.owed, self.story);
        assert_eq!(self.queue.depth() + self.queue.running(), 0, "{:?}", self.story);
    }
}

/// Replays `story` and checks every promise after each event; returns how many were under way at most.
pub(super) fn check(story: &[Event], world: World) -> usize {
    let mut play = Play::new(world, story);
    let mut most = 0;
    for event in story {
        play.happens(*event);
        play.check();
        most = most.max(play.running.len());
    }
    play.drain();
    most
}
