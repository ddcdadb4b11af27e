//! How long to wait after the n-th failure in a row.

use std::time::Duration;

/// Doubling delays from `first` up to `most`, spread by a quarter so that keys failing together do not return together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), most: Duration::from_secs(300) }
    }
}

impl Backoff {
    /// The delay after `failures` failures in a row. `spread` is any number that differs between keys (a hash): the same
    /// key always gets the same delay, which keeps this pure.
    pub fn delay(&self, failures: u32, spread: u64) -> Duration {
        let doublings = failures.saturating_sub(1).min(32);
        let full = self.first.saturating_mul(1 << doublings.min(31)).min(self.most);
        // Whole 1024ths of a quarter: integers only, and never more than a quarter less.
        let parts = u32::try_from(spread % 1024).unwrap_or_default();
        full.saturating_sub(full / 4 / 1024 * parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_stay_within_their_bounds() {
        let backoff = Backoff::default();
        for spread in [0, 17, 511, 1023, u64::MAX] {
            let mut last = Duration::ZERO;
            for failures in 1..100 {
                let delay = backoff.delay(failures, spread);
                assert!(delay >= last, "failure {failures}: {delay:?} after {last:?}");
                assert!(delay >= backoff.first * 3 / 4 && delay <= backoff.most);
                last = delay;
            }
        }
    }

    #[test]
    fn keys_that_fail_together_do_not_return_together() {
        let backoff = Backoff::default();
        assert_ne!(backoff.delay(5, 1), backoff.delay(5, 600));
    }
}
