//! What becomes of a panic, which is always a bug: a piece of work for one object is contained where it is done; work that goes on
//! for ever is begun anew, or ends the process. Nothing just stops while everything looks well.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt;
use tracing::error;

use crate::telemetry::metrics::Metrics;

/// What panics again at once must not spin.
const PAUSE: Duration = Duration::from_secs(5);

/// Does work that can be begun anew; whenever it panics, it is.
pub(crate) async fn restarted<Work: Future<Output = ()>>(
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

/// Does work without which the process is of no use; should it panic, another process begins anew.
pub(crate) async fn essential(place: &'static str, work: impl Future<Output = ()>) {
    if AssertUnwindSafe(work).catch_unwind().await.is_err() {
        error!(place, "panicked: a bug in croft; the process ends");
        std::process::abort();
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
