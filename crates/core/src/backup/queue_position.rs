//! How many are ahead in Velero's queue. An estimate: Velero does not promise to work in the order of creation.

use crate::time::Timestamp;

/// One Backup (or Restore) in Velero's namespace, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub created: Timestamp,
    /// Velero is done with it, well or badly.
    pub finished: bool,
}

/// 0: served. 1: running, or first in line. Otherwise one more than the number of unfinished ones that came before.
pub fn position<'a>(own: &Turn, all: impl IntoIterator<Item = &'a Turn>) -> u64 {
    if own.finished {
        return 0;
    }
    let ahead = all.into_iter().filter(|other| !other.finished && other.created < own.created).count();
    1 + u64::try_from(ahead).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(second: u32, finished: bool) -> Turn {
        Turn { created: Timestamp(format!("2026-01-01T00:00:{second:02}Z")), finished }
    }

    #[test]
    fn the_running_one_is_first_and_the_finished_one_is_served() {
        let own = turn(5, false);
        assert_eq!(position(&own, [&own]), 1);
        assert_eq!(position(&turn(5, true), [&turn(1, false)]), 0);
    }

    #[test]
    fn only_unfinished_older_ones_are_ahead() {
        let own = turn(5, false);
        let all = [turn(1, true), turn(2, false), turn(3, false), turn(5, false), turn(6, false), own.clone()];
        assert_eq!(position(&own, &all), 3);
    }
}
