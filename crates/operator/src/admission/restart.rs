//! Work that never ends by itself, also not by a panic: without it certificates would quietly grow old.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tracing::error;

use crate::telemetry::metrics::Metrics;

/// What panics again at once must not spin.
const PAUSE: Duration = Duration::from_secs(5);

/// Does the work; whenever it panics, which is a bug, it is begun anew.
pub(super) async fn restarted<Work: Future<Output = ()>>(
    place: &'static str,
    metrics: &Metrics,
    begin: impl Fn() -> Work,
) {
    // What was begun is dropped with the panic: nothing half done is looked at again.
    while AssertUnwindSafe(begin()).catch_unwind().await.is_err() {
        metrics.panicked(place);
        error!(place, "panicked: a bug in croft; will begin anew");
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_panics_is_counted_and_begun_anew() {
        let (metrics, times) = (Metrics::default(), Cell::new(0));
        restarted("here", &metrics, || async {
            times.set(times.get() + 1);
            assert!(times.get() > 2, "on purpose");
        })
        .await;
        assert_eq!(times.get(), 3);
        assert!(metrics.text().contains("croft_panics_total{place=\"here\"} 2"), "{}", metrics.text());
    }
}
