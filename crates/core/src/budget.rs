//! A budget for what is worth saying but not at any price.

use std::{collections::BTreeMap, time::Duration};

use crate::time::Instant;

/// At most `burst` at once, and one more whenever `every` has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    burst: u32,
    every: Duration,
    left: u32,
    counted: Instant,
}

impl Budget {
    pub fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every, left: burst, counted: Instant::default() }
    }

    /// Takes one, if there is one.
    pub fn spend(&mut self, now: Instant) -> bool {
        let granted = self.has_left(now);
        self.left = self.left.saturating_sub(1);
        granted
    }

    /// Whether there is one to take.
    pub fn has_left(&mut self, now: Instant) -> bool {
        self.earn(now);
        self.left > 0
    }

    /// Whether it is as if nothing had ever been taken.
    fn is_whole(&mut self, now: Instant) -> bool {
        self.earn(now);
        self.left == self.burst
    }

    fn earn(&mut self, now: Instant) {
        let earned = now.since(self.counted).as_millis() / self.every.as_millis().max(1);
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(earned).min(self.burst);
        self.counted = if self.left == self.burst { now } else { self.counted + self.every.saturating_mul(earned) };
    }
}

/// The same budget for each of many things. Only what was wished for lately is kept.
#[derive(Clone, Debug)]
pub struct Budgets<K> {
    each: Budget,
    begun: BTreeMap<K, Budget>,
}

impl<K: Ord> Budgets<K> {
    pub fn new(each: Budget) -> Self {
        Self { each, begun: BTreeMap::new() }
    }

    /// Takes one of what there is for `thing`, if there is one.
    pub fn spend(&mut self, thing: K, now: Instant) -> bool {
        self.begun.retain(|_, budget| !budget.is_whole(now));
        self.begun.entry(thing).or_insert(self.each).spend(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(budget: &mut Budget, wishes: u32, now: u64) -> u32 {
        (0..wishes).map(|_| u32::from(budget.spend(Instant(now)))).sum()
    }

    #[test]
    fn a_burst_is_granted_at_once_and_then_one_at_a_time() {
        let mut budget = Budget::new(3, Duration::from_millis(100));
        assert_eq!(granted(&mut budget, 10, 1000), 3);
        assert_eq!(granted(&mut budget, 10, 1099), 0);
        assert_eq!(granted(&mut budget, 10, 1250), 2);
        assert_eq!(granted(&mut budget, 10, 1299), 0);
        assert_eq!(granted(&mut budget, 10, 1300), 1);
    }

    #[test]
    fn nothing_is_saved_beyond_the_burst() {
        let mut budget = Budget::new(3, Duration::from_millis(100));
        assert_eq!(granted(&mut budget, 10, 1_000_000), 3);
        assert_eq!(granted(&mut budget, 10, 2_000_000), 3);
    }

    #[test]
    fn to_ask_takes_nothing() {
        let mut budget = Budget::new(1, Duration::from_millis(100));
        assert!(budget.has_left(Instant(1000)) && budget.has_left(Instant(1000)));
        assert!(budget.spend(Instant(1000)) && !budget.has_left(Instant(1099)) && budget.has_left(Instant(1100)));
    }

    #[test]
    fn each_thing_has_its_own_and_is_forgotten_when_nothing_is_owed() {
        let mut budgets = Budgets::new(Budget::new(2, Duration::from_millis(100)));
        let spent = |budgets: &mut Budgets<&str>, thing, now| budgets.spend(thing, Instant(now));
        assert_eq!([1000; 3].map(|now| spent(&mut budgets, "a", now)), [true, true, false]);
        assert!(spent(&mut budgets, "b", 1000), "another thing");
        assert!(spent(&mut budgets, "a", 1100), "earned again");
        assert_eq!(budgets.begun.len(), 1, "b is whole again");
        assert!(spent(&mut budgets, "c", 9000));
        assert_eq!(budgets.begun.keys().collect::<Vec<_>>(), [&"c"]);
    }
}
