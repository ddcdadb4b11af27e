//! A budget for what is worth saying but not at any price.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

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

    /// How long until there is one to take.
    pub fn wait(&mut self, now: Instant) -> Duration {
        if self.has_left(now) { Duration::ZERO } else { (self.counted + self.every).since(now) }
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
    /// More than so many are worth a look at which of them can be forgotten.
    many: usize,
}

impl<K: Ord> Budgets<K> {
    pub fn new(each: Budget) -> Self {
        Self { each, begun: BTreeMap::new(), many: 0 }
    }

    /// Takes one of what there is for `thing`, if there is one.
    pub fn spend(&mut self, thing: K, now: Instant) -> bool {
        let granted = self.begun.entry(thing).or_insert(self.each).spend(now);
        // Twice as many as were left the last time: on the whole each is looked at once for every time it is spent.
        if self.begun.len() > self.many {
            self.begun.retain(|_, budget| !budget.is_whole(now));
            self.many = self.begun.len().saturating_mul(2);
        }
        granted
    }

    /// Of the things from `first` on that belong together those there is nothing left for, and how long until there is.
    pub(crate) fn spent(
        &mut self,
        first: K,
        belongs: impl Fn(&K) -> bool,
        now: Instant,
    ) -> impl Iterator<Item = (&K, Duration)> {
        let things = self.begun.range_mut(first..).take_while(move |(thing, _)| belongs(thing));
        things.map(move |(thing, budget)| (thing, budget.wait(now))).filter(|(_, wait)| !wait.is_zero())
    }

    /// How long until there is one to take for `thing`.
    pub(crate) fn wait(&mut self, thing: &K, now: Instant) -> Duration {
        self.begun.get_mut(thing).map_or(Duration::ZERO, |budget| budget.wait(now))
    }
}

/// Who does not come within this time of its turn must ask for another one.
const LATE: Duration = Duration::from_secs(60);

/// A budget shared by many, who each have one of their own as well. Who finds nothing left is given a turn, in the order in which
/// they asked, and at most one: nobody comes in vain twice, and whoever asks again and again gets no more than others.
#[derive(Clone, Debug)]
pub struct Appointments<K> {
    each: Budgets<K>,
    burst: u32,
    every: Duration,
    /// When everything that was given will have been earned.
    earned: Instant,
    turns: BTreeMap<K, Instant>,
    by_time: BTreeSet<(Instant, K)>,
}

impl<K: Ord + Clone> Appointments<K> {
    /// For all together `burst` at once and then one `every` while; for each of them as `each` says.
    pub fn new(burst: u32, every: Duration, each: Budget) -> Self {
        let each = Budgets::new(each);
        Self { each, burst, every, earned: Instant::default(), turns: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    /// How long `who` must wait before it asks again; nothing if it is its turn.
    pub fn wait(&mut self, who: &K, now: Instant) -> Duration {
        self.forget_late(now);
        if let Some(turn) = self.turns.get(who).copied() {
            if turn <= now {
                self.turns.remove(who);
                self.by_time.remove(&(turn, who.clone()));
            }
            return turn.since(now);
        }
        let own = self.each.wait(who, now);
        if !own.is_zero() {
            return own;
        }
        self.each.spend(who.clone(), now);
        let turn = self.give(now);
        if turn > now {
            self.turns.insert(who.clone(), turn);
            self.by_time.insert((turn, who.clone()));
        }
        turn.since(now)
    }

    /// The next turn there is.
    fn give(&mut self, now: Instant) -> Instant {
        self.earned = self.earned.max(now) + self.every;
        now + self.earned.since(now + self.every.saturating_mul(self.burst))
    }

    fn forget_late(&mut self, now: Instant) {
        while let Some((turn, who)) = self.by_time.first().filter(|(turn, _)| *turn + LATE < now).cloned() {
            self.by_time.remove(&(turn, who.clone()));
            self.turns.remove(&who);
        }
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
        let spent = |budgets: &mut Budgets<u32>, thing, now| budgets.spend(thing, Instant(now));
        assert_eq!([1000; 3].map(|now| spent(&mut budgets, 1, now)), [true, true, false]);
        assert!(spent(&mut budgets, 2, 1000), "another thing");
        assert!(spent(&mut budgets, 1, 1100), "earned again");
        assert!(spent(&mut budgets, 3, 9000));
        assert_eq!(budgets.begun.keys().collect::<Vec<_>>(), [&3]);
        for thing in 0..10_000 {
            spent(&mut budgets, thing, 10_000 + u64::from(thing) * 10);
            assert!(budgets.begun.len() <= 50, "{} are kept", budgets.begun.len());
        }
    }

    #[test]
    fn what_belongs_together_and_is_spent_is_told() {
        let mut budgets = Budgets::new(Budget::new(1, Duration::from_millis(100)));
        for thing in [("a", 1), ("b", 1), ("b", 2), ("c", 1)] {
            budgets.spend(thing, Instant(1000));
        }
        let mut of_b = |now| budgets.spent(("b", 0), |(group, _)| *group == "b", Instant(now)).count();
        assert_eq!((of_b(1050), of_b(1100)), (2, 0));
    }

    fn appointments() -> Appointments<u32> {
        Appointments::new(3, Duration::from_millis(100), Budget::new(2, Duration::from_secs(1)))
    }

    fn waits(appointments: &mut Appointments<u32>, who: u32, now: u64) -> u128 {
        appointments.wait(&who, Instant(now)).as_millis()
    }

    #[test]
    fn who_finds_nothing_left_is_given_a_turn_and_does_not_come_in_vain() {
        let mut all = appointments();
        assert_eq!([1, 2, 3, 4, 5].map(|who| waits(&mut all, who, 1000)), [0, 0, 0, 100, 200]);
        assert_eq!(waits(&mut all, 5, 1050), 150, "who comes early keeps its turn");
        assert_eq!(waits(&mut all, 6, 1050), 250);
        assert_eq!(waits(&mut all, 4, 1180), 0, "late is not too late");
        assert_eq!([5, 6].map(|who| waits(&mut all, who, 1300)), [0, 0]);
        assert_eq!(waits(&mut all, 7, 1300), 100);
        assert_eq!(waits(&mut all, 7, 1400), 0);
        assert!(all.turns.is_empty() && all.by_time.is_empty());
        assert_eq!([1, 2, 3, 4].map(|who| waits(&mut all, who, 9000)), [0, 0, 0, 100], "nothing is saved");
    }

    #[test]
    fn who_asks_too_often_waits_for_its_own_and_takes_nothing_from_others() {
        let mut all = appointments();
        assert_eq!([1000; 4].map(|now| waits(&mut all, 1, now)), [0, 0, 1000, 1000]);
        assert_eq!([2, 3].map(|who| waits(&mut all, who, 1000)), [0, 100]);
        assert_eq!(waits(&mut all, 1, 2000), 0);
    }

    #[test]
    fn where_forty_are_noisy_everybody_else_has_its_turn_within_a_second() {
        let mut all = Appointments::new(100, Duration::from_millis(20), Budget::new(10, Duration::from_secs(2)));
        for now in (0..60_000).step_by(125) {
            (0..40).for_each(|noisy| _ = waits(&mut all, noisy, now));
            let quiet = 1000 + u32::try_from(now).unwrap();
            let wait = waits(&mut all, quiet, now);
            assert!(wait <= 1000, "{wait} ms at {now}");
        }
    }

    #[test]
    fn who_never_comes_is_forgotten() {
        let mut all = appointments();
        (0..1000).for_each(|who| _ = waits(&mut all, who, 0));
        assert_eq!(all.turns.len(), 997);
        waits(&mut all, 0, 99_700 + 60_001);
        assert!(all.turns.is_empty() && all.by_time.is_empty());
    }
}
