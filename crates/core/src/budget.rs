//! A budget for what is worth saying but not at any price.

use std::time::Duration;

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
        let earned = now.since(self.counted).as_millis() / self.every.as_millis().max(1);
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(earned).min(self.burst);
        self.counted = if self.left == self.burst { now } else { self.counted + self.every.saturating_mul(earned) };
        let granted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        granted
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
}
