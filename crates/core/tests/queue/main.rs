//! The queue's promises, checked on every sequence of events of a small world.

mod lanes;
mod play;

use std::time::Duration;

use croft_core::{
    backoff::Backoff,
    plan::Next,
    queue::{Backoffs, FLOOR, Key, MANY, PATIENCE, Priority, Queue, SLOW, Start, Verdict},
    time::Instant,
};

use self::play::{Event, FREE, LANED, MIXED, World, all_events, check, events};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work(&'static str, u8);

impl Key for Work {
    fn tenant(&self) -> &str {
        self.0
    }

    fn spread(&self) -> u64 {
        0
    }
}

const KEYS: [Work; 3] = [Work("a", 1), Work("a", 2), Work("b", 1)];

fn queue(most_running: usize) -> Queue<Work> {
    let backoff = |first, most| Backoff { first: Duration::from_millis(first), most: Duration::from_millis(most) };
    Queue::new(most_running, 1, Backoffs { failed: backoff(10, 40), stale: backoff(2, 64) })
}

/// The next key, where none needs a lane.
fn pop(queue: &mut Queue<Work>, now: Instant) -> Option<Work> {
    queue.pop(now, |_| Start::Now)
}

/// The next key, where all need the same outside, and one of them may have it.
fn pop_in_lane(queue: &mut Queue<Work>, now: Instant) -> Option<Work> {
    queue.pop(now, |_| Start::In { lane: "gateway".into() })
}

fn explore(world: World, events: &[Event], depth: usize, story: &mut Vec<Event>, stories: &mut u64) {
    check(story, world);
    *stories += 1;
    if depth == 0 {
        return;
    }
    for event in events {
        story.push(*event);
        explore(world, events, depth - 1, story, stories);
        story.pop();
    }
}

fn explore_five_events(world: World) {
    let events = events();
    assert_eq!(events.len(), 2 + KEYS.len() * 9);
    let mut stories = 0_u64;
    let mut story = Vec::new();
    // The first event is a push without loss of generality: everything before it leaves an empty queue empty.
    for key in KEYS {
        story.push(Event::Push(key, Priority::Live));
        explore(world, &events, 4, &mut story, &mut stories);
        story.pop();
    }
    assert!(stories > 100_000, "only {stories} stories were explored");
}

#[test]
fn no_story_of_five_events_loses_a_wake_up_or_runs_a_key_twice() {
    explore_five_events(FREE);
}

#[test]
fn no_story_of_five_events_in_a_lane_loses_a_wake_up_or_lets_two_in() {
    explore_five_events(LANED);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

    #[test]
    fn no_long_story_in_a_lane_loses_a_wake_up_or_lets_two_in(
        story in proptest::collection::vec(proptest::sample::select(events()), 0..60)
    ) {
        check(&story, LANED);
    }

    #[test]
    fn no_long_story_of_many_keys_that_come_to_need_something_else_loses_a_wake_up_or_lets_too_many_in(
        story in proptest::collection::vec(proptest::sample::select(all_events()), 0..300)
    ) {
        check(&story, MIXED);
    }
}

#[test]
fn as_many_as_may_be_under_way_are_and_no_more() {
    let keys = (2..).step_by(4).map(|number| Work("a", number)).take(SLOW + 3);
    let story: Vec<_> =
        keys.flat_map(|key| [Event::Push(key, Priority::Live), Event::Pop, Event::TakesLong(key)]).collect();
    assert_eq!(check(&story, MIXED), SLOW + 1);
}

#[test]
fn a_tenant_with_many_keys_delays_another_by_one_key() {
    let mut queue = queue(1);
    for number in 0..200 {
        queue.push(Work("big", number), Priority::Live, Instant(0));
    }
    queue.push(Work("small", 0), Priority::Live, Instant(1));
    let order: Vec<_> = std::iter::from_fn(|| {
        let key = pop(&mut queue, Instant(2))?;
        queue.done(&key, Verdict::Settled(Next::Settled), Instant(2));
        Some(key)
    })
    .collect();
    assert_eq!(order.len(), 201);
    assert!(
        order[..2].contains(&Work("small", 0)),
        "small was served at {:?}",
        order.iter().position(|k| k.0 == "small")
    );
}

#[test]
fn a_live_change_passes_a_resync_backlog_and_the_backlog_still_moves() {
    let mut queue = queue(1);
    for number in 0..50 {
        queue.push(Work("resync", number), Priority::Resync, Instant(0));
    }
    let mut resynced = 0;
    for round in 0..45_u8 {
        queue.push(Work("live", round), Priority::Live, Instant(1));
        let key = pop(&mut queue, Instant(1)).expect("something is ready");
        if key.0 == "resync" {
            resynced += 1;
        }
        queue.done(&key, Verdict::Settled(Next::Settled), Instant(1));
    }
    assert_eq!(resynced, 45 / (PATIENCE + 1), "one in {} goes to the backlog", PATIENCE + 1);
}

#[test]
fn however_many_keys_wait_a_live_change_finds_a_free_place() {
    let mut queue = queue(16);
    for number in 0..50 {
        queue.push(Work("roll-out", number), Priority::RollOut, Instant(0));
        queue.push(Work("resync", number), Priority::Resync, Instant(0));
    }
    let background: Vec<_> = std::iter::from_fn(|| pop(&mut queue, Instant(0))).collect();
    assert_eq!(background.len(), 14, "seven eighths of the places");
    for number in 0..2 {
        queue.push(Work("live", number), Priority::Live, Instant(1));
        assert_eq!(pop(&mut queue, Instant(1)), Some(Work("live", number)));
    }
    queue.push(Work("live", 2), Priority::Live, Instant(1));
    assert_eq!(pop(&mut queue, Instant(1)), None, "all places are taken");
    queue.done(&background[0], Verdict::Settled(Next::Settled), Instant(2));
    assert_eq!(pop(&mut queue, Instant(2)), Some(Work("live", 2)), "urgent keys come first");
    queue.done(&background[1], Verdict::Failed, Instant(2));
    assert!(pop(&mut queue, Instant(2)).is_some_and(|key| key.0 != "live"), "and the others still move");
}

#[test]
fn failures_delay_only_their_own_key_and_success_forgets_them() {
    let mut queue = queue(4);
    let (bad, good) = (Work("a", 1), Work("a", 2));
    let mut now = Instant(0);
    let mut delays = Vec::new();
    queue.push(bad, Priority::Live, now);
    for _ in 0..4 {
        assert_eq!(pop(&mut queue, now), Some(bad));
        queue.done(&bad, Verdict::Failed, now);
        let wakeup = queue.next_wakeup().expect("a failed key comes back");
        delays.push(wakeup.since(now).as_millis());
        queue.push(good, Priority::Live, now);
        assert_eq!(pop(&mut queue, now), Some(good), "the other key is served at once");
        queue.done(&good, Verdict::Settled(Next::Settled), now);
        now = wakeup;
    }
    assert_eq!(delays, [10, 20, 40, 40]);
    assert_eq!(pop(&mut queue, now), Some(bad));
    queue.done(&bad, Verdict::Settled(Next::Settled), now);
    queue.push(bad, Priority::Live, now);
    assert_eq!(pop(&mut queue, now), Some(bad));
    queue.done(&bad, Verdict::Failed, now);
    assert_eq!(queue.next_wakeup().unwrap().since(now).as_millis(), 10, "the count starts anew after a success");
}

#[test]
fn a_fresh_change_does_not_wait_for_the_backoff() {
    let mut queue = queue(1);
    let key = KEYS[0];
    queue.push(key, Priority::Live, Instant(0));
    pop(&mut queue, Instant(0));
    queue.done(&key, Verdict::Failed, Instant(0));
    queue.push(key, Priority::Live, Instant(1));
    assert_eq!(pop(&mut queue, Instant(1)), Some(key));
}

/// A tenant who changes something all the time must not make us ask in vain all the time.
#[test]
fn what_fails_again_and_again_is_not_tried_faster_for_being_changed() {
    let mut queue = Queue::new(1, 1, Backoffs::default());
    let (key, seconds) = (KEYS[0], 20);
    let mut attempts = 0;
    for now in (0..seconds * 1000).step_by(10).map(Instant) {
        queue.push(key, Priority::Live, now);
        if pop(&mut queue, now).is_some() {
            attempts += 1;
            // Something changes while it runs, too.
            queue.push(key, Priority::Live, now);
            queue.done(&key, Verdict::Failed, now);
        }
    }
    let most = u64::from(MANY) + seconds / FLOOR.as_secs();
    assert!((seconds..=most).contains(&attempts), "{attempts}");
}

/// After an outage a relist pushes everything: what failed during the outage must not sit out its delay.
#[test]
fn a_resync_tries_what_waits_for_its_retry() {
    let mut queue = queue(1);
    let key = KEYS[0];
    queue.push(key, Priority::Live, Instant(0));
    pop(&mut queue, Instant(0));
    queue.done(&key, Verdict::Failed, Instant(0));
    queue.push(key, Priority::Resync, Instant(1));
    assert_eq!(pop(&mut queue, Instant(1)), Some(key));
    queue.done(&key, Verdict::Failed, Instant(1));
    assert_eq!(queue.next_wakeup(), Some(Instant(21)), "and its failures still count");
}

#[test]
fn a_parked_key_waits_for_nothing_but_its_push_and_keeps_its_failures() {
    let mut queue = queue(1);
    let key = KEYS[0];
    queue.push(key, Priority::Live, Instant(0));
    pop(&mut queue, Instant(0));
    queue.done(&key, Verdict::Failed, Instant(0));
    assert_eq!(pop(&mut queue, Instant(10)), Some(key));
    queue.done(&key, Verdict::Parked, Instant(10));
    assert_eq!((queue.next_wakeup(), queue.remembers(&key)), (None, false));
    queue.push(key, Priority::Resync, Instant(11));
    assert_eq!(pop(&mut queue, Instant(11)), Some(key), "any push brings it back at once");
    queue.done(&key, Verdict::Failed, Instant(11));
    assert_eq!(queue.next_wakeup(), Some(Instant(31)), "the second failure in a row");
}

#[test]
fn who_comes_too_early_comes_back_when_told_and_neither_fails_nor_settles() {
    let mut queue = queue(1);
    let key = KEYS[0];
    queue.push(key, Priority::Live, Instant(0));
    pop(&mut queue, Instant(0));
    queue.done(&key, Verdict::Failed, Instant(0));
    let mut now = Instant(10);
    for _ in 0..20 {
        assert_eq!(pop(&mut queue, now), Some(key));
        assert_eq!(queue.attempt(&key).failures, 1);
        queue.done(&key, Verdict::Early { wait: Duration::from_millis(7) }, now);
        assert_eq!(queue.next_wakeup(), Some(now + Duration::from_millis(7)));
        now = now + Duration::from_millis(7);
    }
}

#[test]
fn a_stale_look_comes_back_soon_and_ever_more_rarely() {
    let mut queue = queue(1);
    let key = KEYS[0];
    let mut now = Instant(0);
    queue.push(key, Priority::Live, now);
    let mut delays = Vec::new();
    for _ in 0..7 {
        assert_eq!(pop(&mut queue, now), Some(key));
        queue.done(&key, Verdict::Stale, now);
        let wakeup = queue.next_wakeup().expect("it comes back");
        delays.push(wakeup.since(now).as_millis());
        now = wakeup;
    }
    assert_eq!(delays, [2, 4, 8, 16, 32, 64, 64]);
}

#[test]
fn no_priority_is_starved_by_the_ones_around_it() {
    let mut queue = queue(1);
    let priorities = [("live", Priority::Live), ("retry", Priority::Retry), ("roll-out", Priority::RollOut)];
    let mut served = std::collections::BTreeMap::new();
    for round in 0..200_u8 {
        for (name, priority) in priorities.into_iter().chain([("resync", Priority::Resync)]) {
            queue.push(Work(name, round), priority, Instant(0));
        }
        let key = pop(&mut queue, Instant(0)).expect("something is ready");
        *served.entry(key.0).or_insert(0) += 1;
        queue.done(&key, Verdict::Settled(Next::Settled), Instant(0));
    }
    let share = 200 / (i32::try_from(PATIENCE).unwrap() + 3);
    for name in ["retry", "roll-out", "resync"] {
        assert!(served.get(name).is_some_and(|times| *times >= share), "{name}: {served:?}");
    }
    assert!(served["live"] > 100, "{served:?}");
}

#[test]
fn a_key_that_becomes_urgent_moves_up_and_leaves_no_trace() {
    let mut queue = queue(1);
    for number in 0..3 {
        queue.push(Work("a", number), Priority::Resync, Instant(0));
    }
    queue.push(Work("a", 2), Priority::Live, Instant(5));
    assert_eq!(queue.oldest_wait(Instant(10)), Duration::from_millis(10), "it does not lose the time it has waited");
    let order: Vec<_> = std::iter::from_fn(|| {
        let key = pop(&mut queue, Instant(10))?;
        queue.done(&key, Verdict::Settled(Next::Settled), Instant(10));
        Some(key.1)
    })
    .collect();
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn a_cleared_queue_knows_only_what_runs() {
    let mut queue = queue(2);
    for number in 0..3 {
        queue.push(Work("a", number), Priority::Live, Instant(0));
    }
    let running = pop(&mut queue, Instant(0)).expect("ready");
    queue.push(running, Priority::Live, Instant(0));
    queue.clear();
    assert_eq!((queue.depth(), queue.running(), pop(&mut queue, Instant(1)), queue.next_wakeup()), (0, 1, None, None));
    queue.done(&running, Verdict::Settled(Next::Settled), Instant(1));
    assert_eq!(pop(&mut queue, Instant(1)), None);
    queue.push(running, Priority::Live, Instant(2));
    assert_eq!(pop(&mut queue, Instant(2)), Some(running));
}

#[test]
fn what_takes_long_gives_its_place_to_others_up_to_a_limit() {
    let mut queue = queue(1);
    let names = (0_u8..).map(|number| Work("a", number));
    for key in names.clone().take(SLOW + 3) {
        queue.push(key, Priority::Live, Instant(0));
    }
    for key in names.clone().take(SLOW) {
        assert_eq!(pop(&mut queue, Instant(0)), Some(key));
        assert_eq!(pop(&mut queue, Instant(0)), None, "one place");
        queue.takes_long(&key);
        queue.takes_long(&key);
    }
    let last = pop(&mut queue, Instant(0)).unwrap();
    queue.takes_long(&last);
    assert_eq!(pop(&mut queue, Instant(0)), None, "not for any number of them");
    queue.done(&Work("a", 0), Verdict::Settled(Next::Settled), Instant(0));
    assert_eq!(pop(&mut queue, Instant(0)), None, "it had no place to give back");
    queue.done(&last, Verdict::Settled(Next::Settled), Instant(0));
    assert!(pop(&mut queue, Instant(0)).is_some());
}
