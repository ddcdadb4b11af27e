//! Time as an argument: the shell reads the clocks, the core computes.

use std::{fmt, ops::Add, time::Duration};

use serde::{Deserialize, Serialize};

/// A point on the monotonic clock of one process, in milliseconds since some start.
///
/// Never compared between processes: two machines do not share a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// Time passed since `earlier`; zero if `earlier` lies in the future.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, delay: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// A wall-clock time as Kubernetes writes it (RFC 3339, UTC, whole seconds). Opaque: used as a mark, never for arithmetic.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub String);

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
