//! Connections others open to us: so many at once, so many of one address, none that says nothing for long, none for ever.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{Router, response::Response};
use http::{HeaderValue, Request, header::CONNECTION};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::util::{MapRequest, MapResponse};
use tracing::{debug, warn};

/// Whoever opens a connection has something to ask,
const FIRST_REQUEST: Duration = Duration::from_secs(5);
/// and keeps it while there is more.
const IDLE: Duration = Duration::from_secs(120);
/// Then it is opened anew.
const OLDEST: Duration = Duration::from_secs(600);
/// Requests under way may take this long when a connection is closed.
const DRAIN: Duration = Duration::from_secs(5);

/// Requests under way on one connection.
const MOST_STREAMS: u32 = 64;
/// What a client may send before anybody reads it.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
const HEADERS: usize = 64 << 10;

/// Whoever can reach us must not fill the memory, nor shut others out by taking all places from one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) all: usize,
    pub(crate) of_one_address: usize,
}

/// How a server comes to its end.
#[derive(Clone, Debug, Default)]
pub struct End {
    /// Nobody should come back: whoever is answered is asked to hang up, and whoever comes all the same is answered. To close
    /// what is open would cut off who is just about to ask: over HTTP/1 nobody could tell him that he was not heard.
    pub near: CancellationToken,
    /// Nobody comes any more: what is still open is closed.
    pub here: CancellationToken,
}

/// Who asks: an extension of every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Connections there are, by address, the oldest first.
#[derive(Clone, Debug)]
struct Places {
    limits: Limits,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    /// With what ends them.
    by_address: BTreeMap<IpAddr, BTreeMap<u64, CancellationToken>>,
    last: u64,
}

/// Given back when it is dropped.
struct Place {
    places: Places,
    address: IpAddr,
    number: u64,
    /// Somebody else needs it more.
    end: CancellationToken,
}

impl Places {
    fn new(limits: Limits) -> Self {
        Self { limits, taken: Arc::default() }
    }

    fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let of_this = taken.by_address.get(&address).map_or(0, BTreeMap::len);
        if of_this >= self.limits.of_one_address {
            return None;
        }
        let all: usize = taken.by_address.values().map(BTreeMap::len).sum();
        if all >= self.limits.all && !taken.make_room(of_this) {
            return None;
        }
        let (number, end) = (taken.last + 1, CancellationToken::new());
        taken.last = number;
        taken.by_address.entry(address).or_default().insert(number, end.clone());
        Some(Place { places: self.clone(), address, number, end })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Ends the oldest connection of the address that has the most, unless whoever comes would have as many.
    fn make_room(&mut self, of_who_comes: usize) -> bool {
        let most = self.by_address.values_mut().max_by_key(|connections| connections.len());
        let most = most.filter(|connections| connections.len() > of_who_comes + 1);
        let oldest = most.and_then(BTreeMap::pop_first);
        oldest.map(|(_, end)| end.cancel()).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let by_address = &mut self.places.taken().by_address;
        if let Some(connections) = by_address.get_mut(&self.address) {
            connections.remove(&self.number);
        }
        by_address.retain(|_, connections| !connections.is_empty());
    }
}

/// Hands connections to `serve` until `stop`, then lets the requests under way finish.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    limits: Limits,
    stop: CancellationToken,
    serve: impl Fn(TcpStream, Peer) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let connections = TaskTracker::new();
    let places = Places::new(limits);
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                // One of IPv4 has another form where both are listened to.
                let address = peer.ip().to_canonical();
                let Some(place) = places.take(address) else {
                    debug!(%peer, "too many connections; this one is closed");
                    continue;
                };
                let serving = serve(stream, Peer(address));
                connections.spawn(async move {
                    place.end.run_until_cancelled(serving).await;
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                // Out of file descriptors, most likely: accepting at once would only spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        warn!("some requests did not finish before the end");
    }
}

/// Answers what is asked over one connection, until the end or until it has had its time.
pub(crate) async fn answer<S>(stream: S, peer: Peer, routes: Router, end: End)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (asked, asking) = watch::channel(());
    let near = end.near;
    let parting = MapResponse::new(routes, move |mut response: Response| {
        if near.is_cancelled() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    });
    let service = MapRequest::new(parting, move |mut request: Request<Incoming>| {
        asked.send_replace(());
        request.extensions_mut().insert(peer);
        request
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().max_buf_size(HEADERS);
    builder
        .http2()
        .max_concurrent_streams(MOST_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = has_had_its_time(asking, &end.here) => {
            serving.as_mut().graceful_shutdown();
            // One that has not even said which protocol it speaks does not hear that.
            match tokio::time::timeout(DRAIN, serving).await {
                Ok(ended) => ended,
                Err(_) => return debug!(peer = %peer.0, "connection cut off"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, peer = %peer.0, "connection ended");
    }
}

async fn has_had_its_time(asking: watch::Receiver<()>, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(OLDEST) => {}
        () = silence(asking) => {}
    }
}

/// Ends when nobody has asked anything for too long.
async fn silence(mut asking: watch::Receiver<()>) {
    let mut patience = FIRST_REQUEST;
    while let Ok(Ok(())) = tokio::time::timeout(patience, asking.changed()).await {
        patience = IDLE;
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
        time::Instant,
    };

    use super::*;

    const LIMITS: Limits = Limits { all: 6, of_one_address: 4 };
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: croft\r\n\r\n";

    fn here(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn one_address_cannot_take_the_places_of_all_others() {
        let places = Places::new(LIMITS);
        let mut taken: Vec<_> = (0..LIMITS.of_one_address).filter_map(|_| places.take(here(1))).collect();
        assert_eq!((taken.len(), places.take(here(1)).is_none()), (LIMITS.of_one_address, true));
        assert!(places.take(here(2)).is_some());
        taken.pop();
        assert!(places.take(here(1)).is_some(), "a place that was given back");
        drop(taken);
        assert!(places.taken().by_address.is_empty());
    }

    #[test]
    fn who_has_few_connections_finds_a_place_where_others_have_taken_all() {
        let places = Places::new(LIMITS);
        let many: Vec<_> = [1, 1, 1, 2, 2, 2].into_iter().filter_map(|last| places.take(here(last))).collect();
        assert_eq!(many.len(), LIMITS.all);
        let first = places.take(here(3)).expect("a place");
        let ended = || many.iter().filter(|place| place.end.is_cancelled()).count();
        assert_eq!(ended(), 1);
        let second = places.take(here(3)).expect("another, while somebody has more");
        assert_eq!(ended(), 2);
        assert!(places.take(here(3)).is_none(), "all have the same");
        drop((first, second));
        drop(many);
        assert!(places.taken().by_address.is_empty());
    }

    /// A connection that is served; ends with how long it was.
    fn served() -> (DuplexStream, impl Future<Output = Duration>) {
        let (client, server) = tokio::io::duplex(1 << 16);
        let routes = Router::new().route("/", get(|| async { "ok" }));
        let serving = answer(server, Peer(here(1)), routes, End::default());
        let lasted = async move {
            let begun = Instant::now();
            serving.await;
            begun.elapsed()
        };
        (client, lasted)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_on_which_nothing_is_asked_is_closed_within_seconds_whatever_it_began_to_say() {
        for said in [b"".as_slice(), &PREFACE[..10], PREFACE, &REQUEST[..20]] {
            let (mut client, lasted) = served();
            client.write_all(said).await.unwrap();
            let lasted = lasted.await;
            assert!(lasted <= FIRST_REQUEST + DRAIN, "{lasted:?} after {:?}", String::from_utf8_lossy(said));
        }
    }

    /// Asks this often, and once at the beginning.
    async fn ask_every(pause: Duration, mut client: DuplexStream) {
        let mut answer = [0; 1 << 10];
        while client.write_all(REQUEST).await.is_ok() {
            assert!(client.read(&mut answer).await.is_ok());
            tokio::time::sleep(pause).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_used_stays_for_a_while_and_none_stays_for_ever() {
        for (pause, longest) in [(IDLE * 2, IDLE), (IDLE / 2, OLDEST)] {
            let (client, lasted) = served();
            let asking = tokio::spawn(ask_every(pause, client));
            let lasted = lasted.await;
            asking.abort();
            assert!(lasted >= longest && lasted <= longest + DRAIN, "{lasted:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_end_is_near_who_asks_is_answered_and_asked_to_hang_up() {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let (routes, end) = (Router::new().route("/", get(|| async { "ok" })), End::default());
        let serving = tokio::spawn(answer(server, Peer(here(1)), routes, end.clone()));
        let mut said = [0; 1 << 10];
        client.write_all(REQUEST).await.unwrap();
        let length = client.read(&mut said).await.unwrap();
        assert!(!String::from_utf8_lossy(&said[..length]).contains("connection: close"));

        end.near.cancel();
        tokio::time::sleep(FIRST_REQUEST).await;
        assert!(!serving.is_finished(), "he may be about to ask");
        client.write_all(REQUEST).await.unwrap();
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.unwrap();
        assert!(rest.starts_with("HTTP/1.1 200") && rest.contains("connection: close"), "{rest}");
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn who_takes_all_places_of_one_address_shuts_nobody_else_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let routes = Router::new().route("/", get(|| async { "ok" }));
        let _until_the_end = stop.clone().drop_guard();
        tokio::spawn(accept(listener, LIMITS, stop.clone(), move |stream, peer| {
            answer(stream, peer, routes.clone(), End { here: stop.clone(), ..End::default() })
        }));
        let mut silent = Vec::new();
        for _ in 0..200 {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
            silent.push(socket.connect(address).await.unwrap());
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
}
