//! Reading what a signed URL leads to. The URL is as good as a key: nothing here tells it.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    vec,
};

use http::Uri;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper_util::{
    client::legacy::{
        Client,
        connect::{HttpConnector, dns::Name},
    },
    rt::TokioExecutor,
};
use tokio::net::lookup_host;
use tower::service_fn;

use crate::{
    DEFAULT_TIMEOUT, RgwError,
    transport::{host_of, secured, with_sources},
};

/// What is told instead of the URL.
const CALL: &str = "get what a signed URL leads to";
const OUT_OF_REACH: &str = "it leads where nothing may be read";

/// Whether an address may be connected to.
type Reach = fn(IpAddr) -> bool;

/// The object behind a signed URL, unless it is longer than `most` bytes. `ca_pem` as in [`crate::Endpoint`]. No redirect is
/// followed, and nobody is connected to outside of `reach`, whatever a name resolves to.
pub async fn fetch(url: &str, ca_pem: Option<&str>, most: usize, reach: fn(IpAddr) -> bool) -> Result<Bytes, RgwError> {
    let uri: Uri = url.parse().map_err(|_| RgwError::InvalidEndpoint { cause: "it is not a URL" })?;
    let answer = tokio::time::timeout(DEFAULT_TIMEOUT, get(uri, ca_pem, most, reach)).await;
    answer.unwrap_or_else(|_| Err(RgwError::TimedOut { call: CALL.to_owned(), after: DEFAULT_TIMEOUT }))
}

/// Where a name leads, within reach.
async fn resolved(name: Name, reach: Reach) -> io::Result<vec::IntoIter<SocketAddr>> {
    let found = lookup_host((name.as_str(), 0)).await?;
    let within: Vec<_> = found.filter(|address| reach(address.ip())).collect();
    if within.is_empty() {
        return Err(io::Error::other(OUT_OF_REACH));
    }
    Ok(within.into_iter())
}

async fn get(uri: Uri, ca_pem: Option<&str>, most: usize, reach: Reach) -> Result<Bytes, RgwError> {
    let host = host_of(&uri);
    // An address is not resolved.
    let literal = uri.host().map(|host| host.trim_start_matches('[').trim_end_matches(']'));
    if literal.and_then(|host| host.parse().ok()).is_some_and(|address| !reach(address)) {
        return Err(RgwError::InvalidEndpoint { cause: OUT_OF_REACH });
    }
    let tcp = HttpConnector::new_with_resolver(service_fn(move |name| resolved(name, reach)));
    let unreachable = |cause| RgwError::Unreachable { call: CALL.to_owned(), host: host.clone(), cause };
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(secured(tcp, ca_pem)?);
    let (head, body) = client.get(uri).await.map_err(|error| unreachable(with_sources(&error)))?.into_parts();
    let body = match Limited::new(body, most).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Err(RgwError::Unreadable {
                call: CALL.to_owned(),
                cause: format!("it is longer than {most} bytes"),
            });
        }
        Err(error) => return Err(unreachable(with_sources(&*error))),
    };
    if head.status.is_success() {
        return Ok(body);
    }
    Err(RgwError::refused(CALL.to_owned(), head.status.as_u16(), false, &body))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// What is told of a server that answers this, once.
    async fn told(answer: &'static str) -> Result<Bytes, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/list?X-Amz-Signature=hush", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let fetched = fetch(&url, None, 8, |_| true).await.map_err(|error| error.to_string());
        server.await.unwrap();
        fetched
    }

    #[tokio::test]
    async fn an_object_is_read_and_no_error_tells_the_url() {
        assert_eq!(told("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlist").await.unwrap(), "list");
        for refused in [
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nlistlists",
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 301 Moved Permanently\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
            "nonsense",
        ] {
            let error = told(refused).await.unwrap_err();
            assert!(!error.contains("hush"), "{error}");
        }
        assert!(!fetch("no url hush", None, 8, |_| true).await.unwrap_err().to_string().contains("hush"));
    }

    #[tokio::test]
    async fn nobody_is_connected_to_out_of_reach_by_address_or_by_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
            let url = format!("http://{host}:{port}/list");
            assert!(fetch(&url, None, 8, |address| !address.to_canonical().is_loopback()).await.is_err(), "{host}");
        }
        let asked = tokio::time::timeout(std::time::Duration::from_millis(100), listener.accept()).await;
        assert!(asked.is_err(), "somebody came");
    }
}
