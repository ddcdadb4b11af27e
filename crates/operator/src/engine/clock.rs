//! The two clocks: a monotonic one for waiting, the wall clock for marks in objects.

use croft_core::time::{Instant, Timestamp};

/// Monotonic time of this process. It goes on while the process is stopped, so a woken process knows how late it is.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: tokio::time::Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self { start: tokio::time::Instant::now() }
    }

    pub fn now(&self) -> Instant {
        Instant(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The same point for tokio's timers.
    pub fn at(&self, instant: Instant) -> tokio::time::Instant {
        self.start + std::time::Duration::from_millis(instant.0)
    }
}

/// The wall clock as Kubernetes writes it.
pub fn timestamp() -> Timestamp {
    Timestamp(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
