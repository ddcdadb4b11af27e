//! The journal's promises, in every interleaving of own writes, their answers and echoes, foreign writes, relists, restarts, and
//! watches that move to another version of the API.

use std::time::Duration;

use croft_core::{
    journal::{Journal, PATIENCE, Pace},
    time::Instant,
};

const STREAM: &str = "configmaps";
const PACE: Pace = Pace { calm: Duration::from_millis(2), most: Duration::from_millis(5) };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    We,
    Somebody,
}

/// A version of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    by: Author,
    /// Which of the objects of this name it is of.
    uid: usize,
    gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    SomebodyWrites,
    SomebodyDeletes,
    WeWrite,
    WeDelete,
    OurAnswerArrives,
    WatchShows,
    WatchListsAnew,
    TimePasses,
    LookBegins,
    LookEnds,
    WeRestart,
    WatchMoves,
}

const EVENTS: [Event; 12] = [
    Event::SomebodyWrites,
    Event::SomebodyDeletes,
    Event::WeWrite,
    Event::WeDelete,
    Event::OurAnswerArrives,
    Event::WatchShows,
    Event::WatchListsAnew,
    Event::TimePasses,
    Event::LookBegins,
    Event::LookEnds,
    Event::WeRestart,
    Event::WatchMoves,
];

/// One key that looks after one object, which somebody made before.
#[derive(Clone, Debug)]
struct World {
    journal: Journal<(), ()>,
    now: Instant,
    /// Version 1, 2, ...
    versions: Vec<Version>,
    /// Versions the watch has shown.
    shown: usize,
    /// An own write that is committed and not answered.
    unanswered: Option<usize>,
    answered: usize,
    queued: bool,
    looking: bool,
    looks: usize,
    /// The newest version the last look could see.
    looked_at: usize,
    /// We restarted, or the watch moved.
    disturbed: bool,
}

impl World {
    fn new() -> Self {
        let mut journal = Journal::default();
        journal.opened(STREAM);
        journal.listed(STREAM, 1, |()| true);
        journal.start();
        Self {
            journal,
            now: Instant(0),
            versions: vec![Version { by: Author::Somebody, uid: 0, gone: false }],
            shown: 1,
            unanswered: None,
            answered: 0,
            queued: true,
            looking: false,
            looks: 0,
            looked_at: 0,
            disturbed: false,
        }
    }

    fn is_possible(&self, event: Event) -> bool {
        let written_by = |author| self.versions.iter().skip(1).filter(|version| version.by == author).count();
        let is_there = self.versions.last().is_some_and(|version| !version.gone);
        match event {
            Event::SomebodyWrites => written_by(Author::Somebody) < 2,
            Event::SomebodyDeletes => is_there && written_by(Author::Somebody) < 2,
            Event::WeWrite => self.looking && self.unanswered.is_none() && written_by(Author::We) < 2,
            // A deletion has a precondition: it is refused where the object is not the one that was looked at.
            Event::WeDelete => {
                is_there && self.is_possible(Event::WeWrite) && self.uid_at(self.looked_at) == self.uid()
            }
            Event::OurAnswerArrives => self.unanswered.is_some(),
            Event::WatchShows => self.shown < self.versions.len(),
            Event::WatchListsAnew => self.shown + 1 < self.versions.len(),
            // Watches are slow here, not dead: giving up on one has a test of its own.
            Event::TimePasses => self.journal.next_wakeup().is_some_and(|at| at < self.now + PATIENCE / 2),
            Event::LookBegins => self.queued && !self.looking,
            Event::LookEnds => self.looking && self.unanswered.is_none(),
            Event::WeRestart | Event::WatchMoves => !self.disturbed,
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::SomebodyWrites => self.write(Author::Somebody),
            Event::SomebodyDeletes => self.delete(Author::Somebody),
            Event::WeWrite => {
                self.write(Author::We);
                self.unanswered = Some(self.versions.len());
            }
            Event::WeDelete => {
                self.delete(Author::We);
                self.unanswered = Some(self.versions.len());
            }
            Event::OurAnswerArrives => self.hear_the_answer(),
            Event::WatchShows => self.show(self.shown + 1, false),
            Event::WatchListsAnew => self.show(self.versions.len(), true),
            Event::TimePasses => {
                self.now = self.now.max(self.journal.next_wakeup().unwrap_or_default());
                self.queued |= !self.journal.due(self.now).is_empty();
            }
            Event::LookBegins => self.look(),
            Event::LookEnds => {
                self.looking = false;
                self.queued |= self.journal.looked(&(), self.now);
            }
            Event::WeRestart => {
                let fresh = World::new();
                self.journal = fresh.journal;
                (self.shown, self.answered, self.unanswered) = (0, 0, None);
                (self.queued, self.looking, self.disturbed) = (true, false, true);
                // Nothing is looked at before the first list is complete.
                self.show(self.versions.len(), true);
            }
            Event::WatchMoves => {
                self.queued |= !self.journal.closed(STREAM).is_empty();
                self.journal.opened(STREAM);
                (self.shown, self.disturbed) = (0, true);
                self.show(self.versions.len(), true);
                // Whoever uses a kind is woken when its watch has come to stand.
                self.queued = true;
            }
        }
    }

    /// The object's uid at a version; nothing where it is not there.
    fn uid_at(&self, version: usize) -> Option<usize> {
        let version = self.versions.get(version.checked_sub(1)?)?;
        (!version.gone).then_some(version.uid)
    }

    fn uid(&self) -> Option<usize> {
        self.uid_at(self.versions.len())
    }

    fn write(&mut self, by: Author) {
        let uid = self.uid().unwrap_or(self.versions.len());
        self.versions.push(Version { by, uid, gone: false });
    }

    fn delete(&mut self, by: Author) {
        let uid = self.uid().unwrap_or_default();
        self.versions.push(Version { by, uid, gone: true });
    }

    fn hear_the_answer(&mut self) {
        let Some(version) = self.unanswered.take() else { return };
        self.answered = version;
        let Version { uid, gone, .. } = self.versions[version - 1];
        if gone {
            let shown = self.uid_at(self.shown) == Some(uid);
            self.journal.deleted(&(), STREAM, &(), shown);
        } else {
            let shown = self.uid_at(self.shown).is_some();
            self.queued |= self.journal.wrote(&(), STREAM, &(), version as u64, shown);
        }
    }

    /// One event, which tells what happened to the object, or a list, which tells only what is there.
    fn show(&mut self, version: usize, is_list: bool) {
        let (before, after) = (self.uid_at(self.shown), self.uid_at(version));
        self.shown = version;
        if before.is_some() && after.is_none() {
            self.queued |= !self.journal.gone(&(), STREAM, &(), PACE, self.now).is_empty();
        } else if before.is_some() && before != after {
            self.queued |= !self.journal.removed(STREAM, &()).is_empty();
        }
        if after.is_some() {
            self.journal.saw(&(), STREAM, &(), version as u64, PACE, self.now);
        }
        self.queued |= if is_list {
            !self.journal.listed(STREAM, version as u64, |()| after.is_some()).is_empty()
        } else {
            !self.journal.progressed(STREAM, version as u64).is_empty()
        };
    }

    fn look(&mut self) {
        self.queued = false;
        if !self.journal.may_look(&(), self.now) {
            return;
        }
        self.journal.looks(&());
        assert!(self.answered <= self.shown, "looked before the last own write was shown");
        (self.looking, self.looked_at) = (true, self.shown);
        self.looks += 1;
    }

    /// Lets everything under way come to its end.
    fn come_to_rest(&mut self) {
        for _ in 0..100 {
            let order =
                [Event::OurAnswerArrives, Event::LookEnds, Event::WatchShows, Event::LookBegins, Event::TimePasses];
            match order.into_iter().find(|event| self.is_possible(*event)) {
                Some(event) => self.happens(event),
                None => return,
            }
        }
        panic!("it never comes to rest");
    }

    fn check_at_rest(&self) {
        let by = |author: Author| move |version: &Version| version.by == author;
        let somebody = self.versions.iter().rposition(by(Author::Somebody)).map_or(0, |index| index + 1);
        let overwritten = self.versions.iter().skip(somebody).any(by(Author::We));
        // What came and went, unseen, since we looked or deleted it ourselves is as if it had never been.
        let known = self.looked_at.max(self.answered);
        let nothing_there = [self.uid_at(known), self.uid()] == [None, None];
        assert!(overwritten || nothing_there || self.looked_at >= somebody, "version {somebody} was never looked at");
        if somebody <= 1 && !self.disturbed {
            assert_eq!(self.looks, 1, "own writes alone wake nobody");
        }
        assert!(self.journal.is_empty() && self.journal.next_wakeup().is_none(), "something is remembered for nothing");
    }
}

fn explore(world: &World, depth: usize, story: &mut Vec<Event>, stories: &mut u64) {
    let mut rest = world.clone();
    let told = story.clone();
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        rest.come_to_rest();
        rest.check_at_rest();
    }));
    assert!(checked.is_ok(), "in the story {told:?}");
    *stories += 1;
    if depth == 0 {
        return;
    }
    for event in EVENTS.into_iter().filter(|event| world.is_possible(*event)) {
        let mut next = world.clone();
        story.push(event);
        next.happens(event);
        explore(&next, depth - 1, story, stories);
        story.pop();
    }
}

#[test]
fn no_news_is_lost_no_own_write_is_missed_and_no_echo_wakes_anybody() {
    let mut stories = 0;
    explore(&World::new(), 11, &mut Vec::new(), &mut stories);
    assert!(stories > 100_000, "only {stories} stories");
}

#[test]
fn a_deletion_of_ours_is_waited_for_and_no_news_whichever_comes_first() {
    let mut journal: Journal<u8, u8> = Journal::default();
    journal.opened(STREAM);
    journal.start();
    journal.deleted(&1, STREAM, &7, true);
    assert!(!journal.may_look(&1, Instant(0)), "the picture still holds it");
    assert_eq!(journal.gone(&1, STREAM, &7, PACE, Instant(1)), [1]);
    assert!(journal.may_look(&1, Instant(1)) && journal.is_empty());

    journal.gone(&1, STREAM, &7, PACE, Instant(2));
    journal.deleted(&1, STREAM, &7, false);
    assert!(journal.may_look(&1, Instant(2)), "it is gone already");
    assert!(journal.due(Instant(100)).is_empty() && journal.is_empty());
}

#[test]
fn whoever_waits_for_an_object_to_go_may_look_as_soon_as_it_is_gone_whomever_it_concerns() {
    let mut journal: Journal<u8, u8> = Journal::default();
    journal.opened(STREAM);
    journal.start();
    for key in [1, 2] {
        journal.deleted(&key, STREAM, &7, true);
        assert!(!journal.may_look(&key, Instant(0)));
    }
    assert!(journal.removed(STREAM, &8).is_empty() && journal.removed("another", &7).is_empty());
    assert_eq!(journal.removed(STREAM, &7), [1, 2]);
    assert!(journal.is_empty() && journal.next_wakeup().is_none());
    journal.deleted(&1, STREAM, &7, false);
    assert!(journal.may_look(&1, Instant(0)), "the watch was faster than the answer");
}

#[test]
fn an_echo_that_never_comes_is_given_up() {
    let mut journal: Journal<u8, u8> = Journal::default();
    journal.opened(STREAM);
    journal.start();
    journal.wrote(&1, STREAM, &7, 5, true);
    assert!(!journal.may_look(&1, Instant(0)));
    let end = Instant(0) + PATIENCE;
    assert_eq!(journal.next_wakeup(), Some(end));
    assert_eq!(journal.due(end), [1]);
    assert!(journal.may_look(&1, end) && journal.is_empty());
}

#[test]
fn a_watch_that_ends_or_never_was_is_not_waited_for() {
    let mut journal: Journal<u8, u8> = Journal::default();
    journal.start();
    journal.wrote(&1, "nobody watches this", &7, 5, false);
    assert!(journal.may_look(&1, Instant(0)));
    journal.opened(STREAM);
    journal.wrote(&1, STREAM, &7, 5, true);
    assert!(!journal.may_look(&1, Instant(0)));
    assert_eq!(journal.closed(STREAM), [1]);
    assert!(journal.may_look(&1, Instant(0)) && journal.is_empty());
}

#[test]
fn a_burst_is_one_look_when_it_is_over_and_a_burst_without_end_is_not_waited_for() {
    let mut journal: Journal<u8, u8> = Journal::default();
    journal.opened(STREAM);
    journal.start();
    for (at, version) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        assert!(journal.due(Instant(at)).is_empty());
        journal.saw(&1, STREAM, &7, version, PACE, Instant(at));
    }
    assert_eq!(journal.next_wakeup(), Some(Instant(5)), "5 after the first, though the last is 2 ago");
    assert_eq!(journal.due(Instant(5)), [1]);
    journal.saw(&1, STREAM, &7, 5, PACE, Instant(6));
    assert_eq!(journal.next_wakeup(), Some(Instant(8)), "a new burst");
}

#[test]
fn whoever_does_not_lead_remembers_nothing() {
    let mut journal: Journal<u8, u8> = Journal::default();
    journal.opened(STREAM);
    journal.saw(&1, STREAM, &7, 1, PACE, Instant(0));
    journal.wrote(&1, STREAM, &7, 2, true);
    assert!(journal.is_empty());
    journal.start();
    journal.wrote(&1, STREAM, &7, 3, true);
    journal.saw(&2, STREAM, &8, 4, PACE, Instant(0));
    assert_eq!(journal.len(), 2);
    journal.stop();
    assert!(journal.is_empty() && journal.next_wakeup().is_none() && journal.may_look(&1, Instant(0)));
}

#[test]
fn where_the_store_was_put_back_own_writes_are_waited_for_as_before() {
    let mut journal: Journal<u8, u8> = Journal::default();
    journal.opened(STREAM);
    journal.start();
    journal.progressed(STREAM, 1000);
    journal.listed(STREAM, 10, |_| true);
    journal.wrote(&1, STREAM, &7, 11, true);
    assert!(!journal.may_look(&1, Instant(0)), "not seen yet");
    assert_eq!(journal.progressed(STREAM, 11), [1]);
    journal.wrote(&1, STREAM, &7, 12, true);
    assert!(!journal.may_look(&1, Instant(0)));
    assert_eq!(journal.listed(STREAM, 12, |_| true), [1]);
}
