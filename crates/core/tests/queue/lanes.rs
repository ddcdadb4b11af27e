//! Who waits for an outside that others need, too.

use std::time::Duration;

use croft_core::{
    plan::Next,
    queue::{Backoffs, PATIENCE, Priority, Queue, Start, Verdict},
    time::Instant,
};

use super::{KEYS, Work, pop_in_lane, queue};

fn settle(queue: &mut Queue<Work>, key: Work) {
    queue.done(&key, Verdict::Settled(Next::Settled), Instant(1));
}

#[test]
fn a_tenant_with_many_keys_delays_another_by_one_key_also_in_a_lane() {
    let mut queue = queue(4);
    for number in 0..100 {
        queue.push(Work("big", number), Priority::Live, Instant(0));
    }
    let first = pop_in_lane(&mut queue, Instant(0)).expect("the lane is free");
    assert_eq!(pop_in_lane(&mut queue, Instant(0)), None, "all others wait for it");
    queue.push(Work("small", 0), Priority::Live, Instant(1));
    assert_eq!(pop_in_lane(&mut queue, Instant(1)), None);
    assert_eq!((queue.depth(), queue.oldest_wait(Instant(1))), (100, Duration::from_millis(1)));
    settle(&mut queue, first);
    let second = pop_in_lane(&mut queue, Instant(1)).expect("somebody is called");
    settle(&mut queue, second);
    assert!([second, pop_in_lane(&mut queue, Instant(1)).unwrap()].contains(&Work("small", 0)));
}

#[test]
fn a_backlog_in_a_lane_leaves_the_room_for_live_changes() {
    let mut queue = Queue::new(16, 16, Backoffs::default());
    for number in 0..50 {
        queue.push(Work("resync", number), Priority::Resync, Instant(0));
    }
    // The gateway is slow: the lane fills up, and all others wait for it.
    let slow: Vec<_> = std::iter::from_fn(|| {
        let key = pop_in_lane(&mut queue, Instant(0))?;
        queue.takes_long(&key);
        Some(key)
    })
    .collect();
    assert_eq!(slow.len(), 16, "the whole lane");
    for key in slow {
        settle(&mut queue, key);
    }
    let called: Vec<_> = std::iter::from_fn(|| pop_in_lane(&mut queue, Instant(1))).collect();
    assert_eq!(called.len(), 14, "seven eighths of the places");
    for number in 0..2 {
        queue.push(Work("live", number), Priority::Live, Instant(1));
        assert_eq!(pop_in_lane(&mut queue, Instant(1)), Some(Work("live", number)));
    }
}

#[test]
fn a_live_change_is_the_next_in_a_lane_with_a_backlog_and_the_backlog_still_moves() {
    let mut queue = queue(4);
    for number in 0..50 {
        queue.push(Work("resync", number), Priority::Resync, Instant(0));
    }
    let mut inside = pop_in_lane(&mut queue, Instant(0)).expect("the lane is free");
    let mut resynced = 0;
    for round in 0..45_u8 {
        assert_eq!(pop_in_lane(&mut queue, Instant(0)), None);
        queue.push(Work("live", round), Priority::Live, Instant(1));
        assert_eq!(pop_in_lane(&mut queue, Instant(1)), None);
        settle(&mut queue, inside);
        inside = pop_in_lane(&mut queue, Instant(1)).expect("somebody is called");
        resynced += u32::from(inside.0 == "resync");
    }
    assert!((3..=45 / PATIENCE).contains(&resynced), "one in {} or so goes to the backlog: {resynced}", PATIENCE + 1);
}

#[test]
fn who_waits_for_a_lane_and_is_pushed_needs_the_one_it_needs_now() {
    let mut queue = queue(4);
    let [stuck, moved, _] = KEYS;
    for key in [stuck, moved] {
        queue.push(key, Priority::Live, Instant(0));
    }
    assert_eq!(pop_in_lane(&mut queue, Instant(0)), Some(stuck));
    assert_eq!(pop_in_lane(&mut queue, Instant(0)), None);
    queue.push(moved, Priority::Resync, Instant(1));
    assert_eq!(queue.pop(Instant(1), |_| Start::In { lane: "other".into() }), Some(moved));
    assert!(queue.attempt(&moved).live, "as urgent as it was");
}
