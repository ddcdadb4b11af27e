//! HTTPS, with a certificate that can be exchanged while serving.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwapOption;
use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, error, warn};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(30);
/// API servers need a few each; whoever else can reach us must not fill the memory,
const MOST_CONNECTIONS: usize = 256;
/// nor shut the API servers out by taking all places from one address.
const MOST_OF_ONE_ADDRESS: usize = 64;
const MOST_STREAMS: u32 = 64;
/// Requests under way may take this long when we stop.
const DRAIN: Duration = Duration::from_secs(5);

/// The certificate new connections get; none until there is one.
#[derive(Debug, Default)]
pub struct ServingCertificate(ArcSwapOption<CertifiedKey>);

impl ServingCertificate {
    /// Whether the API server can be answered.
    pub fn is_there(&self) -> bool {
        self.0.load().is_some()
    }

    pub(super) fn set(&self, certified: CertifiedKey) {
        self.0.store(Some(Arc::new(certified)));
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// Connections there are, by address.
#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

/// Given back when it is dropped.
struct Place {
    places: Places,
    address: IpAddr,
}

impl Places {
    fn take(&self, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let (all, of_this) = (taken.values().sum::<usize>(), taken.get(&address).copied().unwrap_or_default());
        if all >= MOST_CONNECTIONS || of_this >= MOST_OF_ONE_ADDRESS {
            return None;
        }
        taken.insert(address, of_this + 1);
        Some(Place { places: self.clone(), address })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(count) = taken.get_mut(&self.address) {
            *count = count.saturating_sub(1);
        }
        taken.retain(|_, count| *count > 0);
    }
}

fn acceptor(serving: Arc<ServingCertificate>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until `stop`, then lets the requests under way finish.
pub(super) async fn serve(
    listener: TcpListener,
    serving: Arc<ServingCertificate>,
    routes: Router,
    stop: CancellationToken,
) {
    let acceptor = match acceptor(serving) {
        Ok(acceptor) => acceptor,
        Err(error) => return error!(%error, "the admission server cannot start"),
    };
    let connections = TaskTracker::new();
    let places = Places::default();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                let Some(place) = places.take(peer.ip()) else {
                    debug!(%peer, "too many connections; this one is closed");
                    continue;
                };
                let serving = connection(stream, acceptor.clone(), routes.clone(), stop.clone());
                connections.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                // Out of file descriptors, most likely: accepting at once would only spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        warn!("some admission requests did not finish before the end");
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, routes: Router, stop: CancellationToken) {
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "TLS handshake failed"),
        Err(_) => return debug!("TLS handshake took too long"),
    };
    let mut builder = Builder::new(TokioExecutor::new());
    // Who says nothing, or is no longer there, keeps no place.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(IDLE).keep_alive_timeout(IDLE);
    http2.max_concurrent_streams(MOST_STREAMS);
    let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, time::SystemTime};

    use rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    };
    use serde_json::{Value, json};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::*;
    use crate::admission::{answers::routes, authority::Authority, context::Context, hooks::HOOKS};

    /// A server on loopback, until the value is dropped.
    struct Running {
        address: SocketAddr,
        serving: Arc<ServingCertificate>,
        stop: CancellationToken,
        ended: tokio::task::JoinHandle<()>,
    }

    impl Running {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (serving, stop) = (Arc::<ServingCertificate>::default(), CancellationToken::new());
            let routes = routes(&HOOKS, &Context::default(), &Arc::default());
            let ended = tokio::spawn(serve(listener, serving.clone(), routes, stop.clone()));
            Self { address, serving, stop, ended }
        }

        /// Connects as a client that trusts `bundle` and nothing else.
        async fn connect(&self, bundle: &str) -> std::io::Result<TlsStream<TcpStream>> {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
                roots.add(certificate.unwrap()).unwrap();
            }
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let stream = TcpStream::connect(self.address).await?;
            let name = ServerName::try_from("croft.croft-system.svc").unwrap();
            TlsConnector::from(Arc::new(config)).connect(name, stream).await
        }

        /// The certificate a client that trusts `bundle` is shown.
        async fn leaf(&self, bundle: &str) -> CertificateDer<'static> {
            let stream = self.connect(bundle).await.unwrap();
            stream.get_ref().1.peer_certificates().unwrap()[0].clone()
        }

        async fn post(&self, bundle: &str, path: &str, body: &str) -> String {
            let mut stream = self.connect(bundle).await.unwrap();
            let length = body.len();
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: croft\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }
    }

    fn leaf_for(authority: &Authority, host: &str) -> CertifiedKey {
        authority.leaf(&[host.to_owned()], SystemTime::now()).unwrap().certified
    }

    fn authority() -> Authority {
        Authority::generate(None, SystemTime::now()).unwrap()
    }

    const HOST: &str = "croft.croft-system.svc";

    #[tokio::test]
    async fn a_rotated_leaf_is_served_without_a_restart_and_trusted_as_the_one_before() {
        let (server, authority) = (Running::start().await, authority());
        server.serving.set(leaf_for(&authority, HOST));
        let first = server.leaf(authority.bundle()).await;
        server.serving.set(leaf_for(&authority, HOST));
        let second = server.leaf(authority.bundle()).await;
        assert_ne!(first, second);
    }

    #[tokio::test]
    async fn leafs_of_the_old_and_of_the_new_authority_are_trusted_during_a_change() {
        let (server, old) = (Running::start().await, authority());
        let new = Authority::generate(Some(&old), SystemTime::now()).unwrap();
        let new = Authority::parse(new.bundle(), &new.key()).unwrap();
        for signer in [&old, &new] {
            server.serving.set(leaf_for(signer, HOST));
            server.leaf(new.bundle()).await;
        }
        assert!(server.connect(old.bundle()).await.is_err(), "the new leaf is not signed by the old authority");
    }

    #[tokio::test]
    async fn a_leaf_for_another_name_is_not_trusted() {
        let (server, authority) = (Running::start().await, authority());
        server.serving.set(leaf_for(&authority, "other.croft-system.svc"));
        assert!(server.connect(authority.bundle()).await.is_err());
    }

    #[tokio::test]
    async fn there_is_no_connection_before_there_is_a_certificate() {
        let server = Running::start().await;
        assert!(server.connect(authority().bundle()).await.is_err());
    }

    #[tokio::test]
    async fn a_review_sent_over_tls_is_answered() {
        let (server, authority) = (Running::start().await, authority());
        server.serving.set(leaf_for(&authority, HOST));
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "42", "operation": "CREATE", "name": "photos", "namespace": "team-a", "userInfo": {},
                "kind": { "group": "s3.snappcloud.io", "version": "v1alpha1", "kind": "S3Bucket" },
                "resource": { "group": "s3.snappcloud.io", "version": "v1alpha1", "resource": "s3buckets" },
                "object": {
                    "apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3Bucket",
                    "metadata": { "name": "photos", "namespace": "team-a" }, "spec": { "s3UserRef": "app" }
                },
                "oldObject": null
            }
        });
        let path = "/validate-s3-snappcloud-io-v1alpha1-s3bucket";
        let answer = server.post(authority.bundle(), path, &review.to_string()).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["response"], json!({ "uid": "42", "allowed": true, "status": {} }));
        let answer = server.post(authority.bundle(), path, "{}").await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }

    #[test]
    fn one_address_cannot_take_the_places_of_all_others() {
        let (places, here) = (Places::default(), |last: u8| IpAddr::from([10, 0, 0, last]));
        let mut taken: Vec<_> = (0..MOST_OF_ONE_ADDRESS).filter_map(|_| places.take(here(1))).collect();
        assert_eq!((taken.len(), places.take(here(1)).is_none()), (MOST_OF_ONE_ADDRESS, true));
        assert!(places.take(here(2)).is_some());
        taken.pop();
        assert!(places.take(here(1)).is_some(), "a place that was given back");
        drop(taken);
        assert!(places.taken().is_empty());
    }

    #[tokio::test]
    async fn an_idle_connection_does_not_hold_up_the_end() {
        let (server, authority) = (Running::start().await, authority());
        server.serving.set(leaf_for(&authority, HOST));
        let _idle = server.connect(authority.bundle()).await.unwrap();
        server.stop.cancel();
        tokio::time::timeout(DRAIN, server.ended).await.unwrap().unwrap();
    }
}
