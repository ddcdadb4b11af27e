//! The one place that touches the network and the clock.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use http::{Method, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use jiff::Timestamp;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::{Credentials, RgwError, answer::Answer, request::Request, sign::sign};

/// How long a call may take unless told otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Below the 65 s after which a gateway closes an idle connection.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);
/// More than any answer we ask for; an endpoint gone wild must not fill our memory.
const MAX_ANSWER: usize = 64 << 20;
/// Every answer of a gateway carries this header, and pages of a proxy do not.
const REQUEST_ID: &str = "x-amz-request-id";

/// Where a gateway is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// `http://host[:port]` or `https://host[:port]`.
    pub url: String,
    /// As requests are signed for; most gateways take any.
    pub region: String,
    /// The only certificate authorities to trust, in PEM; without it the public ones.
    pub ca_pem: Option<String>,
}

/// A gateway and the key to call it with.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    transport: Arc<Transport>,
    credentials: Arc<Credentials>,
}

#[derive(Clone)]
struct Transport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    origin: Uri,
    region: String,
    timeout: Duration,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(endpoint: Endpoint, credentials: Credentials) -> Result<Self, RgwError> {
        let transport = Transport {
            origin: origin_of(&endpoint.url)?,
            client: Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_CONNECTION)
                .build(connector(endpoint.ca_pem.as_deref())?),
            region: endpoint.region,
            timeout: DEFAULT_TIMEOUT,
        };
        Ok(Self { transport: Arc::new(transport), credentials: Arc::new(credentials) })
    }

    /// The same gateway and connections with another key.
    pub(crate) fn with_credentials(&self, credentials: Credentials) -> Self {
        Self { transport: Arc::clone(&self.transport), credentials: Arc::new(credentials) }
    }

    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Self {
        Arc::make_mut(&mut self.transport).timeout = timeout;
        self
    }

    pub(crate) fn origin(&self) -> &Uri {
        &self.transport.origin
    }

    pub(crate) fn access_key(&self) -> &str {
        &self.credentials.access_key
    }

    /// A 2xx answer; everything else is an error.
    pub(crate) async fn send(&self, request: Request) -> Result<Answer, RgwError> {
        self.send_after(std::future::ready(()), request).await
    }

    /// Waits for `turn`, and keeps it until the answer is there. The time allowed is for both together.
    pub(crate) async fn send_after<T>(
        &self,
        turn: impl Future<Output = T>,
        request: Request,
    ) -> Result<Answer, RgwError> {
        let call = request.call.clone();
        let after = self.transport.timeout;
        let in_turn = async {
            let _turn = turn.await;
            self.exchange(request).await
        };
        let result = match tokio::time::timeout(after, in_turn).await {
            Ok(result) => result,
            Err(_) => Err(RgwError::TimedOut { call: call.clone(), after }),
        };
        match &result {
            Ok(_) => tracing::debug!(call, "gateway call done"),
            Err(error) => tracing::debug!(call, reason = error.reason(), "gateway call failed"),
        }
        result
    }

    async fn exchange(&self, request: Request) -> Result<Answer, RgwError> {
        let call = request.call.clone();
        let answer = self
            .transport
            .client
            .request(self.signed(request)?)
            .await
            .map_err(|error| self.unreachable(&call, &error))?;
        let (head, body) = answer.into_parts();
        let body = self.collect(&call, body).await?;
        if head.status.is_success() {
            return Ok(Answer { call, headers: head.headers, body });
        }
        let from_gateway = head.headers.contains_key(REQUEST_ID);
        Err(RgwError::refused(call, head.status.as_u16(), from_gateway, &body))
    }

    fn signed(&self, request: Request) -> Result<http::Request<Full<Bytes>>, RgwError> {
        let Transport { origin, region, .. } = &*self.transport;
        let host = host_of(origin);
        let signature = sign(&request, &host, region, &self.credentials, Timestamp::now());
        let scheme = origin.scheme_str().unwrap_or_default();
        let target = format!("{scheme}://{host}{}", request.path_and_query());
        let mut builder = http::Request::builder();
        if request.method == Method::PUT || request.method == Method::POST {
            // hyper says nothing of an empty body, and the gateway answers 411 to that.
            builder = builder.header(header::CONTENT_LENGTH, request.body.len());
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        builder
            .method(request.method)
            .uri(target)
            .header(header::HOST, host)
            .header(header::AUTHORIZATION, signature.authorization)
            .header("x-amz-date", signature.date)
            .header("x-amz-content-sha256", signature.content_sha256)
            .body(Full::new(request.body))
            // All but the access key is encoded or was checked with the endpoint.
            .map_err(|_| RgwError::InvalidAccessKey { call: request.call })
    }

    async fn collect(&self, call: &str, body: Incoming) -> Result<Bytes, RgwError> {
        match Limited::new(body, MAX_ANSWER).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                let cause = format!("it is longer than {MAX_ANSWER} bytes");
                Err(RgwError::Unreadable { call: call.to_owned(), cause })
            }
            Err(error) => Err(self.unreachable(call, &*error)),
        }
    }

    fn unreachable(&self, call: &str, error: &dyn Error) -> RgwError {
        let host = host_of(&self.transport.origin);
        RgwError::Unreachable { call: call.to_owned(), host, cause: with_sources(error) }
    }
}

/// hyper's own words are "client error (Connect)"; the cause worth reading is further down.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |error| Error::source(*error))
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

fn origin_of(url: &str) -> Result<Uri, RgwError> {
    let invalid = |cause| RgwError::InvalidEndpoint { cause };
    let uri: Uri = url.parse().map_err(|_| invalid("it is not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(invalid("it is neither http nor https"));
    }
    if uri.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(invalid("a user name does not belong in it"));
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err(invalid("a path or query does not belong in it"));
    }
    Ok(uri)
}

/// As it is sent and signed: a port only where it is not the scheme's own.
pub(crate) fn host_of(origin: &Uri) -> String {
    let host = origin.host().unwrap_or_default();
    match (origin.scheme_str(), origin.port_u16()) {
        (_, None) | (Some("http"), Some(80)) | (Some("https"), Some(443)) => host.to_owned(),
        (_, Some(port)) => format!("{host}:{port}"),
    }
}

pub(crate) fn connector(ca_pem: Option<&str>) -> Result<HttpsConnector<HttpConnector>, RgwError> {
    secured(HttpConnector::new(), ca_pem)
}

/// The same over connections of one's own choice.
pub(crate) fn secured<R>(
    mut tcp: HttpConnector<R>,
    ca_pem: Option<&str>,
) -> Result<HttpsConnector<HttpConnector<R>>, RgwError> {
    let builder = HttpsConnectorBuilder::new();
    let builder = match ca_pem {
        Some(pem) => builder.with_tls_config(trusting(pem)?),
        None => builder
            .with_provider_and_webpki_roots(ring::default_provider())
            .map_err(|error| RgwError::InvalidCaBundle { cause: error.to_string() })?,
    };
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    Ok(builder.https_or_http().enable_http1().wrap_connector(tcp))
}

fn trusting(ca_pem: &str) -> Result<ClientConfig, RgwError> {
    let invalid = |cause: String| RgwError::InvalidCaBundle { cause };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(invalid("it holds no certificate".to_owned()));
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::ErrorClass;

    fn session(url: &str) -> Result<Session, RgwError> {
        let endpoint = Endpoint { url: url.to_owned(), region: "us-east-1".into(), ca_pem: None };
        Session::new(endpoint, Credentials::new("AK", "hush"))
    }

    fn any_request() -> Request {
        Request::new("get user acme$bob".into(), Method::GET, "/admin/user")
    }

    #[tokio::test]
    async fn a_gateway_that_is_down_is_a_transient_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = session(&url).unwrap().send(any_request()).await.err().unwrap();
        assert_eq!((error.class(), error.reason()), (ErrorClass::Transient, "GatewayUnreachable"));
        assert!(error.to_string().contains("Connection refused"), "{error}");
    }

    #[tokio::test]
    async fn a_gateway_that_never_answers_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let session = session(&url).unwrap().with_timeout(Duration::from_millis(50));
        let error = session.send(any_request()).await.err().unwrap();
        assert_eq!((error.class(), error.reason()), (ErrorClass::Transient, "GatewayTimeout"));
    }

    #[tokio::test]
    async fn an_access_key_that_fits_in_no_header_is_refused() {
        let session = session("http://rgw").unwrap();
        let session = session.with_credentials(Credentials::new("AK\n", "hush"));
        let error = session.send(any_request()).await.err().unwrap();
        assert_eq!((error.class(), error.reason()), (ErrorClass::Terminal, "InvalidAccessKey"));
    }

    #[tokio::test]
    async fn unusable_endpoints_are_refused_without_being_quoted() {
        for url in
            ["", "rgw:80", "ftp://rgw", "http://u:hush@rgw", "http://rgw/prefix", "http://rgw/?hush", "not a url"]
        {
            let error = session(url).unwrap_err();
            assert_eq!(error.reason(), "InvalidEndpoint", "{url}");
            assert!(!error.to_string().contains("hush"));
        }
    }

    #[tokio::test]
    async fn a_bundle_without_certificates_is_refused() {
        let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for pem in ["", "no certificate", damaged] {
            assert_eq!(trusting(pem).unwrap_err().reason(), "InvalidCaBundle", "{pem}");
        }
    }

    #[test]
    fn only_an_unusual_port_is_part_of_the_host() {
        for (url, host) in [
            ("http://rgw", "rgw"),
            ("http://rgw:80", "rgw"),
            ("https://rgw:443/", "rgw"),
            ("https://rgw:80", "rgw:80"),
            ("http://[::1]:8000", "[::1]:8000"),
        ] {
            assert_eq!(host_of(&origin_of(url).unwrap()), host);
        }
    }
}
