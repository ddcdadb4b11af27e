//! When the policies around Velero can be relied on.

use std::time::Duration;

/// In this time every API server has taken up a policy that was stored.
const SETTLED: Duration = Duration::from_secs(10);

/// How long to wait until a policy that came so long ago can be relied on, if that is to come.
pub fn settles_in(ago: Duration) -> Option<Duration> {
    SETTLED.checked_sub(ago).filter(|wait| !wait.is_zero())
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
}
