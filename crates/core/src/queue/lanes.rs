//! Keys that need the same outside share a lane: so many of them run at once, the others wait their turn, and nobody else
//! notices.
//!
//! Whoever waits is called when one of its lane leaves, and has its place from then on; so as long as somebody waits every place
//! is somebody's, and every leaving calls the next. Waiting is as fair as being ready: see [`Lines`]. One who is called but has not
//! come yet, because it is not urgent, makes room for a more urgent one, once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Key, Priority, lines::Lines, turns::Ticket};

#[derive(Debug)]
pub(super) struct Lanes<K> {
    /// Places in each lane.
    most: usize,
    lanes: BTreeMap<String, Lane<K>>,
    /// Who needs which lane, and has it or not.
    stands: BTreeMap<K, (String, Stand)>,
}

#[derive(Debug)]
struct Lane<K> {
    /// Places that are somebody's.
    taken: usize,
    /// The called ones that would make room.
    yielding: BTreeSet<(Priority, K)>,
    waiting: Lines<K>,
}

impl<K> Default for Lane<K> {
    fn default() -> Self {
        Self { taken: 0, yielding: BTreeSet::new(), waiting: Lines::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Inside,
    /// It has a place and has not come yet.
    Called {
        priority: Priority,
    },
    Waiting {
        priority: Priority,
        ticket: Ticket,
        /// It was called and made room for somebody.
        yielded: bool,
    },
}

impl<K: Key> Lanes<K> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, lanes: BTreeMap::new(), stands: BTreeMap::new() }
    }

    /// The lane `key` is in or waits for.
    pub(super) fn lane_of(&self, key: &K) -> Option<&str> {
        self.stands.get(key).map(|(lane, _)| lane.as_str())
    }

    /// Whether `key`, which needs this lane and no other, may run; otherwise it waits to be called.
    pub(super) fn enter(&mut self, key: &K, name: &str, priority: Priority) -> bool {
        let stand = self.stands.get(key).map(|(_, stand)| *stand);
        let lane = self.lanes.entry(name.to_owned()).or_default();
        let mut has_yielded = false;
        match stand {
            Some(Stand::Inside) => return true,
            Some(Stand::Called { priority: called }) => {
                lane.yielding.remove(&(called, key.clone()));
                self.stands.insert(key.clone(), (name.to_owned(), Stand::Inside));
                return true;
            }
            Some(Stand::Waiting { priority: waiting, .. }) if waiting <= priority => return false,
            Some(Stand::Waiting { priority: waiting, ticket, yielded }) => {
                lane.waiting.remove(key, waiting, ticket);
                has_yielded = yielded;
            }
            None => {}
        }
        let yields = lane.yielding.last().filter(|(called, _)| *called > priority).cloned();
        let stand = if lane.taken < self.most {
            lane.taken += 1;
            Stand::Inside
        } else if let Some((called, other)) = yields {
            lane.yielding.remove(&(called, other.clone()));
            let ticket = lane.waiting.push(other.clone(), called);
            let waits = Stand::Waiting { priority: called, ticket, yielded: true };
            self.stands.insert(other, (name.to_owned(), waits));
            Stand::Inside
        } else {
            let ticket = lane.waiting.push(key.clone(), priority);
            Stand::Waiting { priority, ticket, yielded: has_yielded }
        };
        self.stands.insert(key.clone(), (name.to_owned(), stand));
        stand == Stand::Inside
    }

    /// `key` needs its lane no more; who waits for the place it had is called.
    pub(super) fn leave(&mut self, key: &K) -> Option<(K, Priority)> {
        let (name, stand) = self.stands.remove(key)?;
        let lane = self.lanes.get_mut(&name)?;
        match stand {
            Stand::Waiting { priority, ticket, .. } => {
                lane.waiting.remove(key, priority, ticket);
                return None;
            }
            Stand::Called { priority } => drop(lane.yielding.remove(&(priority, key.clone()))),
            Stand::Inside => {}
        }
        let called = lane.waiting.next(|_| true);
        if let Some((next, priority)) = &called {
            let before = self.stands.insert(next.clone(), (name, Stand::Called { priority: *priority }));
            if !matches!(before, Some((_, Stand::Waiting { yielded: true, .. }))) {
                lane.yielding.insert((*priority, next.clone()));
            }
        } else {
            lane.taken -= 1;
            if lane.taken == 0 {
                self.lanes.remove(&name);
            }
        }
        called
    }

    /// Only those inside are remembered.
    pub(super) fn clear(&mut self) {
        self.stands.retain(|_, (_, stand)| *stand == Stand::Inside);
        self.lanes.clear();
        for (name, _) in self.stands.values() {
            self.lanes.entry(name.clone()).or_default().taken += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tens are the tenant.
    impl Key for u8 {
        fn tenant(&self) -> &str {
            ["a", "b", "c"].get(usize::from(self / 10)).copied().unwrap_or_default()
        }

        fn spread(&self) -> u64 {
            0
        }
    }

    const LIVE: Priority = Priority::Live;
    const RESYNC: Priority = Priority::Resync;

    #[test]
    fn a_full_lane_lets_nobody_in_and_hinders_nobody_else() {
        let mut lanes = Lanes::new(2);
        assert!(lanes.enter(&1, "slow", LIVE) && lanes.enter(&2, "slow", LIVE));
        assert!(!lanes.enter(&3, "slow", LIVE));
        assert!(lanes.enter(&4, "fast", LIVE));
    }

    #[test]
    fn who_waits_is_called_in_order_and_once() {
        let mut lanes = Lanes::new(1);
        assert!(lanes.enter(&1, "a", LIVE));
        assert!(!lanes.enter(&2, "a", LIVE) && !lanes.enter(&3, "a", LIVE) && !lanes.enter(&2, "a", LIVE));
        assert_eq!(lanes.leave(&1), Some((2, LIVE)));
        assert!(!lanes.enter(&1, "a", LIVE), "the place is the called one's");
        assert!(lanes.enter(&2, "a", LIVE));
        assert_eq!(lanes.leave(&2), Some((3, LIVE)));
        assert_eq!(lanes.leave(&3), Some((1, LIVE)));
        assert_eq!(lanes.leave(&1), None);
        assert!(lanes.lanes.is_empty() && lanes.stands.is_empty());
    }

    #[test]
    fn a_tenant_with_many_delays_another_by_one() {
        let mut lanes = Lanes::new(1);
        let waits = |lanes: &mut Lanes<u8>, key: u8| assert!(!lanes.enter(&key, "a", LIVE));
        assert!(lanes.enter(&1, "a", LIVE));
        (2..9).for_each(|key| waits(&mut lanes, key));
        waits(&mut lanes, 10);
        assert_eq!([1, 2, 10].map(|key| lanes.leave(&key)), [2, 10, 3].map(|key| Some((key, LIVE))));
    }

    #[test]
    fn urgent_ones_are_called_first_and_who_becomes_urgent_moves_up() {
        let mut lanes = Lanes::new(1);
        assert!(lanes.enter(&1, "a", LIVE));
        assert!(!lanes.enter(&2, "a", RESYNC) && !lanes.enter(&3, "a", RESYNC) && !lanes.enter(&4, "a", LIVE));
        assert!(!lanes.enter(&3, "a", LIVE) && !lanes.enter(&4, "a", RESYNC));
        assert_eq!(lanes.leave(&1), Some((4, LIVE)));
        assert_eq!(lanes.leave(&4), Some((3, LIVE)));
        assert_eq!(lanes.leave(&3), Some((2, RESYNC)));
    }

    #[test]
    fn who_has_not_come_yet_makes_room_for_a_more_urgent_one_once() {
        let mut lanes = Lanes::new(1);
        assert!(lanes.enter(&1, "a", LIVE));
        assert!(!lanes.enter(&2, "a", RESYNC));
        assert_eq!(lanes.leave(&1), Some((2, RESYNC)));
        assert!(!lanes.enter(&3, "a", RESYNC), "no more urgent");
        assert!(lanes.enter(&4, "a", LIVE), "more urgent");
        assert!(!lanes.enter(&2, "a", RESYNC), "it waits again");
        assert_eq!(lanes.leave(&4), Some((3, RESYNC)));
        assert_eq!(lanes.leave(&3), Some((2, RESYNC)));
        assert!(!lanes.enter(&5, "a", LIVE), "not twice");
        assert!(lanes.enter(&2, "a", RESYNC));
    }

    proptest::proptest! {
        #[test]
        fn as_long_as_somebody_waits_every_place_is_somebodys(
            moves in proptest::collection::vec((0u8..30, 0u8..2, proptest::bool::ANY, proptest::bool::ANY), 0..200)
        ) {
            let mut lanes = Lanes::new(2);
            for (key, lane, enters, live) in moves {
                let name = if lane == 0 { "a" } else { "b" };
                if !enters || lanes.lane_of(&key).is_some_and(|other| other != name) {
                    lanes.leave(&key);
                } else {
                    lanes.enter(&key, name, if live { LIVE } else { RESYNC });
                }
                for (name, lane) in &lanes.lanes {
                    let stands = lanes.stands.values().filter(|(other, _)| other == name);
                    let (waiting, placed): (Vec<_>, Vec<_>) =
                        stands.partition(|(_, stand)| matches!(stand, Stand::Waiting { .. }));
                    assert_eq!(placed.len(), lane.taken);
                    assert_eq!(waiting.is_empty(), lane.waiting.is_empty());
                    assert!(lane.taken <= 2 && (waiting.is_empty() || lane.taken == 2));
                }
            }
        }
    }
}
