//! What comes in, read within bounds: whoever can reach the port must not fill the memory, nor keep others waiting.
//!
//! Reviews are small as a rule, and many small ones fit. Large ones have a budget of bytes. Each address has its own share of
//! both, so that one that sends much and slowly stands in its own way only.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    http::StatusCode,
};
use futures::TryStreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A review carries the object twice, and the API server takes objects of up to 3 MiB.
pub(super) const MOST_BYTES: usize = 8 << 20;
/// Up to here a body is small.
const SMALL: usize = 128 << 10;

/// Bodies of all, and of one address.
const MOST_AT_ONCE: usize = 256;
const MOST_OF_ONE: usize = 64;

/// Large bodies are counted in these.
const UNIT: usize = 4 << 10;
const LARGE: usize = 2 * LARGE_OF_ONE;
const LARGE_OF_ONE: usize = MOST_BYTES / UNIT;

/// The API server sends a review in one go.
const TIME: Duration = Duration::from_secs(3);

/// Places for bodies, and units for the large ones.
#[derive(Debug)]
struct Room {
    places: Arc<Semaphore>,
    units: Arc<Semaphore>,
}

impl Room {
    fn new(places: usize, units: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), units: Arc::new(Semaphore::new(units)) }
    }
}

/// Taken from the room of one address and from that of all.
type Taken = [Option<OwnedSemaphorePermit>; 2];

#[derive(Clone, Debug)]
pub(super) struct Bodies {
    all: Arc<Room>,
    by_address: Arc<Mutex<BTreeMap<IpAddr, Arc<Room>>>>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self { all: Arc::new(Room::new(MOST_AT_ONCE, LARGE)), by_address: Arc::default() }
    }
}

/// A whole body.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) text: Vec<u8>,
    /// To be kept as long as the text is.
    pub(super) units: Taken,
    /// To be kept until it is answered.
    pub(super) place: Place,
}

/// What a body takes from its address, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _taken: Taken,
    _own: Arc<Room>,
}

impl Received {
    pub(super) fn is_large(&self) -> bool {
        self.text.len() > SMALL
    }
}

impl Bodies {
    /// Where there is no answer to give, the code of an error.
    pub(super) async fn receive(&self, body: Body, from: IpAddr) -> Result<Received, StatusCode> {
        let own = self.room_of(from);
        let mut code = StatusCode::SERVICE_UNAVAILABLE;
        let receiving = async {
            let taken = [take(&own.places, 1).await, take(&self.all.places, 1).await];
            code = StatusCode::REQUEST_TIMEOUT;
            let (text, units) = self.read(body, &own).await?;
            Ok::<_, StatusCode>((text, units, taken))
        };
        let (text, units, taken) = match tokio::time::timeout(TIME, receiving).await {
            Ok(received) => received?,
            Err(_) => return Err(code),
        };
        Ok(Received { text, units, place: Place { _taken: taken, _own: own } })
    }

    async fn read(&self, body: Body, own: &Room) -> Result<(Vec<u8>, Taken), StatusCode> {
        let announced = body.size_hint().upper().and_then(|length| usize::try_from(length).ok()).unwrap_or(MOST_BYTES);
        let mut chunks = body.into_data_stream();
        let (mut text, mut units) = (Vec::new(), [None, None]);
        while let Some(chunk) = chunks.try_next().await.map_err(|_| StatusCode::BAD_REQUEST)? {
            let length = text.len().saturating_add(chunk.len());
            if length > MOST_BYTES {
                return Err(StatusCode::PAYLOAD_TOO_LARGE);
            }
            if length > SMALL && units[0].is_none() {
                // All it may need at once: two that each have half of what they need would wait for each other.
                let needed = announced.clamp(length, MOST_BYTES).div_ceil(UNIT);
                units = [take(&own.units, needed).await, take(&self.all.units, needed).await];
            }
            text.extend_from_slice(&chunk);
        }
        Ok((text, units))
    }

    /// Kept for as long as somebody of this address is served.
    fn room_of(&self, address: IpAddr) -> Arc<Room> {
        let mut rooms = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|_, room| Arc::strong_count(room) > 1);
        rooms.entry(address).or_insert_with(|| Arc::new(Room::new(MOST_OF_ONE, LARGE_OF_ONE))).clone()
    }
}

/// The semaphores are never closed.
async fn take(from: &Arc<Semaphore>, permits: usize) -> Option<OwnedSemaphorePermit> {
    from.clone().acquire_many_owned(u32::try_from(permits).unwrap_or(u32::MAX)).await.ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures::{StreamExt, future::join_all, stream};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    fn whole(length: usize) -> Body {
        Body::from(vec![b'x'; length])
    }

    /// Sends so many bytes and then nothing, for ever.
    fn stalled(length: usize) -> Body {
        let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from(vec![b'{'; length]))]);
        Body::from_stream(first.chain(stream::pending()))
    }

    /// What becomes of a body of this length while many from another address do not come to their end.
    async fn beside_stalled(bodies: &Bodies, stalled_at: usize, length: usize) -> Result<usize, StatusCode> {
        let stalling = join_all((0..1000).map(|_| bodies.receive(stalled(stalled_at), THERE)));
        let late = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let begun = tokio::time::Instant::now();
            let received = bodies.receive(whole(length), HERE).await;
            assert!(begun.elapsed().is_zero(), "it waited {:?}", begun.elapsed());
            received.map(|received| received.text.len())
        };
        let (stalled, received) = futures::future::join(stalling, late).await;
        assert!(stalled.iter().all(Result::is_err));
        received
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_one_address_that_do_not_come_to_their_end_keep_nobody_else_waiting() {
        let bodies = Bodies::default();
        for (stalled_at, length) in [(1, 10), (1, MOST_BYTES), (SMALL + 1, 10), (SMALL + 1, MOST_BYTES)] {
            assert_eq!(beside_stalled(&bodies, stalled_at, length).await, Ok(length), "{stalled_at}");
        }
        assert!(bodies.receive(whole(10), THERE).await.is_ok(), "and their own address for a few seconds only");
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_waits_for_one() {
        let bodies = Bodies::default();
        let holding = join_all((0..MOST_OF_ONE).map(|_| bodies.receive(whole(10), HERE))).await;
        assert!(holding.iter().all(Result::is_ok));
        let freed = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(holding);
        };
        let (received, ()) = futures::future::join(bodies.receive(whole(10), HERE), freed).await;
        assert!(received.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_in_time_is_told_so_and_who_does_not_end_in_time_too() {
        let bodies = Bodies::default();
        let _holding = join_all((0..MOST_OF_ONE).map(|_| bodies.receive(whole(10), HERE))).await;
        assert_eq!(bodies.receive(whole(10), HERE).await.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(bodies.receive(stalled(1), THERE).await.err(), Some(StatusCode::REQUEST_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_a_budget_and_small_ones_need_none() {
        let bodies = Bodies::default();
        let mut first = bodies.receive(whole(MOST_BYTES), HERE).await.expect("there is room");
        assert!(first.is_large());
        assert_eq!(bodies.receive(whole(SMALL + 1), HERE).await.err(), Some(StatusCode::REQUEST_TIMEOUT));
        assert!(bodies.receive(whole(SMALL), HERE).await.is_ok());
        first.units = [None, None];
        let several = join_all((0..10).map(|_| bodies.receive(whole(SMALL * 2), HERE))).await;
        assert!(several.iter().all(Result::is_ok), "as many as fit");
    }

    #[tokio::test]
    async fn nothing_larger_than_a_review_can_be_is_read() {
        let bodies = Bodies::default();
        assert_eq!(bodies.receive(whole(MOST_BYTES + 1), HERE).await.err(), Some(StatusCode::PAYLOAD_TOO_LARGE));
        assert!(bodies.receive(whole(MOST_BYTES), HERE).await.is_ok());
    }

    #[tokio::test]
    async fn an_address_nobody_comes_from_any_more_is_forgotten() {
        let bodies = Bodies::default();
        drop(bodies.receive(whole(10), HERE).await);
        assert!(bodies.receive(whole(10), THERE).await.is_ok());
        assert_eq!(bodies.by_address.lock().unwrap().keys().collect::<Vec<_>>(), [&THERE]);
    }
}
