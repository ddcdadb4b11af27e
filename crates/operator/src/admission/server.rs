//! HTTPS, with a certificate that can be exchanged while serving.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use axum::Router;
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, error};

use crate::{
    connections::{self, End, Limits, Peer},
    settings::SharedSettings,
};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// API servers need a few each; but until the first is there, each request of many at once opens one of its own.
const LIMITS: Limits = Limits { all: 256, of_one_address: 224 };

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

fn acceptor(serving: Arc<ServingCertificate>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until the end is here, then lets the requests under way finish.
pub(super) async fn serve(
    listener: TcpListener,
    serving: Arc<ServingCertificate>,
    settings: SharedSettings,
    routes: Router,
    end: End,
) {
    let acceptor = match acceptor(serving) {
        Ok(acceptor) => acceptor,
        Err(error) => return error!(%error, "the admission server cannot start"),
    };
    let until = end.here.clone();
    let serve = |stream, peer: Peer| {
        let (acceptor, routes, end) = (acceptor.clone(), routes.clone(), end.clone());
        let is_answered = settings.load().admission.answers(peer.0);
        async move {
            if !is_answered {
                return debug!(address = %peer.0, "not among admission.callers; its connection is closed");
            }
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => connections::answer(stream, peer, routes, end).await,
                Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
                Err(_) => debug!("TLS handshake took too long"),
            }
        }
    };
    connections::accept(listener, LIMITS, until, serve).await;
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, time::SystemTime};

    use rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    };
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };
    use tokio_rustls::{TlsConnector, client::TlsStream};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        admission::{answers::routes, authority::Authority, context::Context, hooks::HOOKS},
        settings::Settings,
    };

    /// A server on loopback, until the value is dropped.
    struct Running {
        address: SocketAddr,
        serving: Arc<ServingCertificate>,
        settings: SharedSettings,
        stop: CancellationToken,
        ended: tokio::task::JoinHandle<()>,
    }

    impl Running {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (serving, stop) = (Arc::<ServingCertificate>::default(), CancellationToken::new());
            let routes = routes(&HOOKS, &Context::default(), &Arc::default());
            let settings = SharedSettings::default();
            let end = End { here: stop.clone(), ..End::default() };
            let ended = tokio::spawn(serve(listener, serving.clone(), settings.clone(), routes, end));
            Self { address, serving, settings, stop, ended }
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
    async fn an_api_server_that_asks_two_hundred_things_at_once_is_let_in_with_each() {
        let (server, authority) = (Running::start().await, authority());
        server.serving.set(leaf_for(&authority, HOST));
        let asked = futures::future::join_all((0..200).map(|_| server.connect(authority.bundle()))).await;
        assert!(asked.iter().all(Result::is_ok), "{} of 200 are let in", asked.iter().flatten().count());
    }

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
    async fn nobody_is_answered_but_the_callers_the_settings_name_and_they_may_change() {
        let (server, authority) = (Running::start().await, authority());
        server.serving.set(leaf_for(&authority, HOST));
        let only = |callers: &str| {
            let settings = Settings::parse(&format!("admission: {{callers: [{callers}]}}")).unwrap();
            server.settings.store(Arc::new(settings));
        };
        only("192.0.2.0/24");
        assert!(server.connect(authority.bundle()).await.is_err());
        only("192.0.2.0/24, 127.0.0.1");
        server.leaf(authority.bundle()).await;
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

    #[tokio::test]
    async fn an_idle_connection_does_not_hold_up_the_end() {
        let (server, authority) = (Running::start().await, authority());
        server.serving.set(leaf_for(&authority, HOST));
        let _idle = server.connect(authority.bundle()).await.unwrap();
        server.stop.cancel();
        tokio::time::timeout(Duration::from_secs(4), server.ended).await.unwrap().unwrap();
    }
}
