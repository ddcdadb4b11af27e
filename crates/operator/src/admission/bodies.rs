//! What comes in, read within bounds: whoever can reach the port must not fill the memory or hold a place for ever.
//!
//! Reviews are small as a rule, and many small ones fit. Large ones are read and judged one at a time: what is made of one may be
//! many times its size.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, http::StatusCode};
use futures::TryStreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A review carries the object twice, and the API server takes objects of up to 3 MiB.
pub(super) const MOST_BYTES: usize = 8 << 20;
/// Up to here a body is small.
const SMALL: usize = 128 << 10;
const MOST_AT_ONCE: usize = 256;
/// The API server sends a review in one go.
const TIME: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub(super) struct Bodies {
    places: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MOST_AT_ONCE)), large: Arc::new(Semaphore::new(1)) }
    }
}

/// A whole body; it keeps its place until it is dropped.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) text: Vec<u8>,
    _places: [Option<OwnedSemaphorePermit>; 2],
}

impl Bodies {
    /// Where there is no answer to give, the code of an error.
    pub(super) async fn receive(&self, body: Body) -> Result<Received, StatusCode> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
        let received = tokio::time::timeout(TIME, self.read(body));
        let (text, large) = received.await.map_err(|_| StatusCode::REQUEST_TIMEOUT)??;
        Ok(Received { text, _places: [Some(place), large] })
    }

    async fn read(&self, body: Body) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), StatusCode> {
        let mut chunks = body.into_data_stream();
        let (mut text, mut large) = (Vec::new(), None);
        while let Some(chunk) = chunks.try_next().await.map_err(|_| StatusCode::BAD_REQUEST)? {
            let length = text.len().saturating_add(chunk.len());
            if length > MOST_BYTES {
                return Err(StatusCode::PAYLOAD_TOO_LARGE);
            }
            if length > SMALL && large.is_none() {
                large = self.large.clone().acquire_owned().await.ok();
            }
            text.extend_from_slice(&chunk);
        }
        Ok((text, large))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures::{StreamExt, stream};

    use super::*;

    fn whole(length: usize) -> Body {
        Body::from(vec![b'x'; length])
    }

    /// Sends one byte and then nothing, for ever.
    fn stalled() -> Body {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
        Body::from_stream(first.chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_to_its_end_keeps_its_place_for_a_few_seconds() {
        let bodies = Bodies::default();
        let stalling = futures::future::join_all((0..MOST_AT_ONCE).map(|_| bodies.receive(stalled())));
        let late = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let refused = bodies.receive(whole(10)).await.err();
            tokio::time::sleep(TIME).await;
            (refused, bodies.receive(whole(10)).await.map(|received| received.text.len()).ok())
        };
        let (stalled, (refused, received)) = futures::future::join(stalling, late).await;
        assert!(stalled.iter().all(|one| one.as_ref().err() == Some(&StatusCode::REQUEST_TIMEOUT)));
        assert_eq!((refused, received), (Some(StatusCode::SERVICE_UNAVAILABLE), Some(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_large_body_is_held_at_a_time_while_small_ones_pass() {
        let bodies = Bodies::default();
        let first = bodies.receive(whole(SMALL + 1)).await.expect("there is room");
        assert_eq!(bodies.receive(whole(SMALL + 1)).await.err(), Some(StatusCode::REQUEST_TIMEOUT));
        assert!(bodies.receive(whole(SMALL)).await.is_ok());
        drop(first);
        assert!(bodies.receive(whole(SMALL + 1)).await.is_ok());
    }

    #[tokio::test]
    async fn nothing_larger_than_a_review_can_be_is_read() {
        let bodies = Bodies::default();
        assert_eq!(bodies.receive(whole(MOST_BYTES + 1)).await.err(), Some(StatusCode::PAYLOAD_TOO_LARGE));
        assert!(bodies.receive(whole(MOST_BYTES)).await.is_ok());
    }
}
