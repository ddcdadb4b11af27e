//! Waiting for the world to get somewhere, never sleeping in the hope that it has.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};

const POLL: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Asks `probe` until it answers `Some`, at most for `timeout`.
///
/// Between two looks it rests for some times as long as a look takes: a probe that starts a program, as kubectl is, would
/// otherwise take from the machine what the parts it waits for need.
///
/// An error of the probe means "not yet"; the last one is part of the error on time-out. A probe that hangs is cut off
/// at the deadline.
pub async fn until<T, Probe, Answer>(what: &str, timeout: Duration, mut probe: Probe) -> Result<T>
where
    Probe: FnMut() -> Answer,
    Answer: Future<Output = Result<Option<T>>>,
{
    let deadline = Instant::now() + timeout;
    let mut last_error = None;
    loop {
        let began = Instant::now();
        let left = deadline.saturating_duration_since(began);
        match tokio::time::timeout(left, probe()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => last_error = None,
            Ok(Err(error)) => last_error = Some(error),
            Err(_elapsed) => last_error = last_error.or(Some(anyhow!("the last look did not finish in time"))),
        }
        if Instant::now() >= deadline {
            let given_up = format!("waited {timeout:?} in vain for {what}");
            return match last_error {
                Some(error) => Err(error).context(given_up),
                None => Err(anyhow!(given_up)),
            };
        }
        let pause = (began.elapsed() * 3).clamp(POLL, LONGEST_PAUSE);
        tokio::time::sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
}

/// [`until`] for a yes-or-no question.
pub async fn until_true<Probe, Answer>(what: &str, timeout: Duration, mut probe: Probe) -> Result<()>
where
    Probe: FnMut() -> Answer,
    Answer: Future<Output = Result<bool>>,
{
    until(what, timeout, || {
        let answer = probe();
        async move { Ok(answer.await?.then_some(())) }
    })
    .await
}
