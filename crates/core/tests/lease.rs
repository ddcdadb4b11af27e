//! At most one leader, in every interleaving of a small world: two candidates with clocks of their own, lost requests, lost
//! replies, watches that lag behind, pauses of any length at any moment, and somebody who deletes the lease.

use std::{collections::HashSet, time::Duration};

use croft_core::{
    lease::{Candidate, Decision, Record, Timing},
    time::Instant,
};

const TIMING: Timing =
    Timing { lease: Duration::from_millis(3), term: Duration::from_millis(2), renew: Duration::from_millis(1) };

/// A write on its way: it may arrive any time later, or never, or arrive while its reply is lost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InFlight {
    base: Option<String>,
    record: Record,
    sent: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    candidate: Candidate,
    /// How far this process's monotonic clock is off; processes do not share a clock.
    offset: u64,
    in_flight: Option<InFlight>,
    /// The server committed our write; the reply is still on its way.
    reply: Option<(Record, Instant)>,
    /// How many of the writes its watch has shown.
    shown: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    /// Whether the candidates hear of the lease without reading it.
    watches: bool,
    now: u64,
    /// Everything that was ever stored, the newest last; nothing where it was deleted. Versions count from one.
    history: Vec<Option<Record>>,
    /// How often somebody may yet delete the lease.
    deletions: usize,
    processes: Vec<Process>,
}

impl World {
    fn new(watches: bool) -> Self {
        let process = |name: &str, offset| Process {
            candidate: Candidate::new(name, TIMING),
            offset,
            in_flight: None,
            reply: None,
            shown: 0,
        };
        let processes = vec![process("a", 0), process("b", 100)];
        Self { watches, now: 0, history: Vec::new(), deletions: 0, processes }
    }

    /// A lease that `a` has just got and `b` has seen, and somebody who is about to delete it.
    fn held(watches: bool) -> Self {
        let mut world = Self { deletions: 1, ..Self::new(watches) };
        let record = Record { holder: Some("a".into()), transitions: 0, version: "1".into() };
        world.history.push(Some(record.clone()));
        let [a, b] = [0, 1].map(|index| world.clock(index));
        world.processes[0].candidate.won(record.clone(), a, a);
        world.processes[1].candidate.observed(Some(record), b);
        for process in &mut world.processes {
            process.shown = 1;
        }
        world
    }

    fn stored(&self) -> Option<&Record> {
        self.history.last().and_then(Option::as_ref)
    }

    fn clock(&self, process: usize) -> Instant {
        Instant(self.now + self.processes[process].offset)
    }

    fn leaders(&self) -> usize {
        (0..self.processes.len())
            .filter(|index| self.processes[*index].candidate.term().allows_until(self.clock(*index)))
            .count()
    }

    fn successors(&self) -> Vec<World> {
        let mut next = Vec::new();
        let mut later = self.clone();
        later.now += 1;
        next.push(later);
        if self.stored().is_some() && self.deletions > 0 {
            let mut deleted = self.clone();
            deleted.deletions -= 1;
            deleted.history.push(None);
            next.push(deleted);
        }
        for index in 0..self.processes.len() {
            next.extend(self.steps_of(index));
        }
        next
    }

    /// Everything process `index` or the network between it and the server may do next. Doing nothing (a pause of any
    /// length) is the choice of another step.
    fn steps_of(&self, index: usize) -> Vec<World> {
        let now = self.clock(index);
        let mut next = Vec::new();
        let process = &self.processes[index];

        let mut read = self.clone();
        read.processes[index].candidate.observed(self.stored().cloned(), now);
        next.push(read);

        // A watch may lag behind by any time.
        if let Some(event) = self.history.get(process.shown).filter(|_| self.watches) {
            let mut told = self.clone();
            let Process { candidate, shown, .. } = &mut told.processes[index];
            *shown += 1;
            match event {
                Some(record) => candidate.told(record.clone(), now),
                None => candidate.gone(&shown.to_string(), now),
            }
            next.push(told);
        }

        let idle = process.in_flight.is_none() && process.reply.is_none();
        next.extend(self.send(index, now).filter(|_| idle));
        if let Some(write) = &process.in_flight {
            let mut lost = self.clone();
            lost.processes[index].in_flight = None;
            next.push(lost);
            next.push(self.arrive(index, write));
        }
        if let Some((record, sent)) = &process.reply {
            let mut lost = self.clone();
            lost.processes[index].reply = None;
            next.push(lost);
            let mut told = self.clone();
            told.processes[index].reply = None;
            told.processes[index].candidate.won(record.clone(), *sent, now);
            next.push(told);
        }
        next
    }

    fn send(&self, index: usize, now: Instant) -> Option<World> {
        let candidate = &self.processes[index].candidate;
        let (base, transitions) = match candidate.decide(now) {
            Decision::Wait { .. } => return None,
            Decision::Create => (None, 0),
            Decision::Write { version, transitions } => (Some(version), transitions),
        };
        let record = Record { holder: Some(candidate.me().to_owned()), transitions, version: String::new() };
        let mut sent = self.clone();
        sent.processes[index].in_flight = Some(InFlight { base, record, sent: now });
        Some(sent)
    }

    /// The write reaches the server, which takes it only on the version it was based on.
    fn arrive(&self, index: usize, write: &InFlight) -> World {
        let mut world = self.clone();
        world.processes[index].in_flight = None;
        if world.stored().map(|record| &record.version) == write.base.as_ref() {
            let version = (world.history.len() + 1).to_string();
            let record = Record { version, ..write.record.clone() };
            world.history.push(Some(record.clone()));
            world.processes[index].reply = Some((record, write.sent));
        }
        world
    }
}

#[test]
fn at_most_one_leader_under_lost_replies_pauses_and_clock_offsets() {
    explore(World::new(false), 6, 3);
}

#[test]
fn at_most_one_leader_however_far_their_watches_lag_behind() {
    explore(World::new(true), 4, 2);
}

#[test]
fn at_most_one_leader_when_somebody_deletes_the_lease() {
    explore(World::held(false), 5, 4);
    explore(World::held(true), 4, 3);
}

fn explore(begin: World, most_time: u64, most_writes: usize) {
    let mut seen = HashSet::new();
    let mut frontier = vec![begin];
    let mut led = HashSet::new();
    while let Some(world) = frontier.pop() {
        if world.now > most_time || world.history.len() > most_writes || !seen.insert(world.clone()) {
            continue;
        }
        assert!(world.leaders() <= 1, "two leaders: {world:#?}");
        for (index, process) in world.processes.iter().enumerate() {
            if process.candidate.term().allows_until(world.clock(index)) {
                led.insert(index);
            }
        }
        frontier.extend(world.successors());
    }
    assert_eq!(led.len(), 2, "each candidate led in some world: the search is not vacuous");
    assert!(seen.len() > 10_000, "only {} worlds", seen.len());
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut standby = Candidate::new("b", TIMING);
    let record = |holder: Option<&str>, version: &str| Record {
        holder: holder.map(str::to_owned),
        transitions: 3,
        version: version.into(),
    };
    standby.observed(Some(record(Some("a"), "7")), Instant(0));
    assert_eq!(standby.decide(Instant(1)), Decision::Wait { until: Instant(3) });
    standby.observed(Some(record(None, "8")), Instant(1));
    assert_eq!(standby.decide(Instant(1)), Decision::Write { version: "8".into(), transitions: 4 });
}

#[test]
fn a_deleted_lease_is_made_anew_at_once_by_its_holder_and_later_by_others() {
    let record = Record { holder: Some("a".into()), transitions: 0, version: "1".into() };
    let [mut holder, mut standby] = ["a", "b"].map(|name| Candidate::new(name, TIMING));
    holder.won(record.clone(), Instant(0), Instant(0));
    standby.observed(Some(record), Instant(0));
    for candidate in [&mut holder, &mut standby] {
        candidate.gone("2", Instant(1));
    }
    assert_eq!(holder.decide(Instant(1)), Decision::Create);
    assert_eq!(standby.decide(Instant(1)), Decision::Wait { until: Instant(4) });
    assert_eq!(standby.decide(Instant(4)), Decision::Create);
}

#[test]
fn a_lease_that_has_changed_hands_as_often_as_can_be_counted_is_still_taken() {
    let mut standby = Candidate::new("b", TIMING);
    standby.observed(Some(Record { holder: None, transitions: i32::MAX, version: "8".into() }), Instant(1));
    assert_eq!(standby.decide(Instant(1)), Decision::Write { version: "8".into(), transitions: i32::MAX });
}

#[test]
fn a_leader_that_sees_another_holder_stops_at_once() {
    let mut leader = Candidate::new("a", TIMING);
    let mine = Record { holder: Some("a".into()), transitions: 0, version: "1".into() };
    leader.won(mine, Instant(0), Instant(0));
    assert!(leader.term().allows_until(Instant(1)));
    leader.observed(Some(Record { holder: Some("b".into()), transitions: 1, version: "2".into() }), Instant(1));
    assert!(!leader.term().allows_until(Instant(1)));
}

#[test]
fn a_clock_that_jumps_ahead_ends_the_term_and_never_extends_it() {
    let mut leader = Candidate::new("a", TIMING);
    leader.won(Record { holder: Some("a".into()), transitions: 0, version: "1".into() }, Instant(10), Instant(10));
    assert!(leader.term().allows_until(Instant(11)));
    assert!(!leader.term().allows_until(Instant(10_000)), "as after a suspended process wakes");
    assert_eq!(leader.term().ends, Some(Instant(12)));
}

#[test]
fn old_news_of_a_lagging_watch_ends_no_term() {
    let mut leader = Candidate::new("a", TIMING);
    let record =
        |holder: &str, version: &str| Record { holder: Some(holder.into()), transitions: 0, version: version.into() };
    leader.won(record("a", "100"), Instant(0), Instant(0));
    leader.told(record("b", "99"), Instant(1));
    leader.gone("98", Instant(1));
    assert!(leader.term().allows_until(Instant(1)), "both happened before our write");
    leader.gone("101", Instant(1));
    assert!(!leader.term().allows_until(Instant(1)));
    assert_eq!(leader.decide(Instant(1)), Decision::Create);
}
