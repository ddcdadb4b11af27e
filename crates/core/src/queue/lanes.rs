//! Keys that need the same outside share a lane: so many of them run at once, the others wait their turn, and nobody else
//! notices.
//!
//! Whoever waits is called when one of its lane leaves, and has its place from then on; so as long as somebody waits somebody is
//! inside, and every leaving calls the next.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Lanes<K> {
    /// Places in each lane.
    most: usize,
    lanes: BTreeMap<String, Lane<K>>,
    /// Who has a place, and in which lane.
    inside: BTreeMap<K, String>,
    /// Who waits, in which lane and with which number.
    waiting: BTreeMap<K, (String, u64)>,
    /// The last number given.
    numbers: u64,
}

#[derive(Debug)]
struct Lane<K> {
    taken: usize,
    waiting: BTreeSet<(u64, K)>,
}

impl<K: Ord + Clone> Lanes<K> {
    pub fn new(most: usize) -> Self {
        Self { most, lanes: BTreeMap::new(), inside: BTreeMap::new(), waiting: BTreeMap::new(), numbers: 0 }
    }

    /// Whether `key` may run; otherwise it waits to be called. Who needs no lane may always.
    pub fn enter(&mut self, key: &K, lane: Option<&str>) -> bool {
        if self.inside.contains_key(key) {
            return true;
        }
        if self.waiting.get(key).is_some_and(|(other, _)| lane == Some(other)) {
            return false;
        }
        self.stop_waiting(key);
        let Some(name) = lane else { return true };
        let lane = self.lanes.entry(name.to_owned()).or_insert_with(|| Lane { taken: 0, waiting: BTreeSet::new() });
        if lane.taken < self.most {
            lane.taken += 1;
            self.inside.insert(key.clone(), name.to_owned());
            return true;
        }
        self.numbers += 1;
        lane.waiting.insert((self.numbers, key.clone()));
        self.waiting.insert(key.clone(), (name.to_owned(), self.numbers));
        false
    }

    /// `key` gives back its place, if it has one; who is called takes it.
    pub fn leave(&mut self, key: &K) -> Option<K> {
        let name = self.inside.remove(key)?;
        let lane = self.lanes.get_mut(&name)?;
        if let Some((_, next)) = lane.waiting.pop_first() {
            self.waiting.remove(&next);
            self.inside.insert(next.clone(), name);
            return Some(next);
        }
        lane.taken -= 1;
        if lane.taken == 0 {
            self.lanes.remove(&name);
        }
        None
    }

    pub fn clear(&mut self) {
        self.lanes.clear();
        self.inside.clear();
        self.waiting.clear();
    }

    fn stop_waiting(&mut self, key: &K) {
        if let Some((name, number)) = self.waiting.remove(key)
            && let Some(lane) = self.lanes.get_mut(&name)
        {
            lane.waiting.remove(&(number, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lane_lets_nobody_in_and_hinders_nobody_else() {
        let mut lanes = Lanes::new(2);
        assert!(lanes.enter(&1, Some("slow")) && lanes.enter(&2, Some("slow")));
        assert!(!lanes.enter(&3, Some("slow")));
        assert!(lanes.enter(&4, Some("fast")) && lanes.enter(&5, None));
    }

    #[test]
    fn who_waits_is_called_in_order_and_once() {
        let mut lanes = Lanes::new(1);
        assert!(lanes.enter(&1, Some("a")));
        assert!(!lanes.enter(&2, Some("a")) && !lanes.enter(&3, Some("a")) && !lanes.enter(&2, Some("a")));
        assert_eq!(lanes.leave(&1), Some(2));
        assert!(!lanes.enter(&1, Some("a")), "the place is the called one's");
        assert!(lanes.enter(&2, Some("a")));
        assert_eq!(lanes.leave(&2), Some(3));
        assert_eq!(lanes.leave(&3), Some(1));
        assert_eq!(lanes.leave(&1), None);
        assert!(lanes.lanes.is_empty() && lanes.inside.is_empty());
    }

    #[test]
    fn who_is_called_and_needs_the_lane_no_more_calls_the_next_when_it_ends() {
        let mut lanes = Lanes::new(1);
        assert!(lanes.enter(&1, Some("a")));
        assert!(!lanes.enter(&2, Some("a")) && !lanes.enter(&3, Some("a")));
        assert_eq!(lanes.leave(&1), Some(2));
        assert!(lanes.enter(&2, None) && lanes.enter(&2, Some("b")));
        assert_eq!(lanes.leave(&2), Some(3));
    }

    proptest::proptest! {
        #[test]
        fn as_long_as_somebody_waits_somebody_is_inside(moves in proptest::collection::vec((0u8..8, 0u8..3, proptest::bool::ANY), 0..200)) {
            let mut lanes = Lanes::new(2);
            for (key, lane, enters) in moves {
                let name = ["a", "b"].get(usize::from(lane)).copied();
                if enters { lanes.enter(&key, name); } else { lanes.leave(&key); }
                for (name, lane) in &lanes.lanes {
                    let inside = lanes.inside.values().filter(|inside| *inside == name).count();
                    assert_eq!(inside, lane.taken);
                    assert!(lane.taken <= 2 && (lane.waiting.is_empty() || lane.taken == 2));
                }
            }
        }
    }
}
