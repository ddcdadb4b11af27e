//! When the policies around Velero can be relied on.

use std::time::Duration;

/// In this time every API server has taken up a policy that was stored.
const SETTLED: Duration = Duration::from_secs(10);

/// How long to wait until a policy that came so long ago can be relied on, if that is to come.
pub fn settles_in(ago: Duration) -> Option<Duration> {
    SETTLED.checked_sub(ago).filter(|wait| !wait.is_zero())
}

/// How long a policy that is heard of has certainly been as it is. Only of one that was there before anybody watched, and that nobody has
/// edited, its age tells.
pub fn stands_for(was_there: bool, generation: Option<i64>, age: Duration) -> Duration {
    if was_there && generation == Some(1) { age } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_has_just_come_is_not_relied_on_yet() {
        assert_eq!(settles_in(Duration::ZERO), Some(SETTLED));
        assert_eq!(settles_in(Duration::from_secs(9)), Some(Duration::from_secs(1)));
        assert_eq!((settles_in(SETTLED), settles_in(Duration::MAX)), (None, None));
    }
    #[test]
    fn a_policy_that_was_edited_while_nobody_watched_is_not_relied_on_at_once() {
        let age = Duration::from_secs(3600);
        assert_eq!(stands_for(true, Some(1), age), age);
        for (was_there, generation) in [(true, Some(2)), (true, None), (false, Some(1))] {
            assert_eq!(stands_for(was_there, generation, age), Duration::ZERO);
        }
    }
}
