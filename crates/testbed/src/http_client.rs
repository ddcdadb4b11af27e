//! Plain HTTP to daemons on loopback.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;

use crate::runtime;

const LIMIT: Duration = Duration::from_secs(10);

/// One request on a connection of its own, for daemons that come and go under a test's hands.
pub(crate) async fn send(request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
    let what = format!("{} {}", request.method(), request.uri().path());
    runtime::run(async move {
        let exchange = async {
            let client = Client::builder(TokioExecutor::new()).build_http();
            let answer = client.request(request).await?;
            let status = answer.status();
            anyhow::Ok((status, answer.into_body().collect().await?.to_bytes()))
        };
        tokio::time::timeout(LIMIT, exchange).await?
    })
    .await
    .with_context(|| what)
}

pub(crate) async fn post_json(url: &str, body: &Value) -> Result<Value> {
    let request = Request::post(url).body(Full::from(serde_json::to_vec(body)?))?;
    let (status, answer) = send(request).await?;
    ensure!(status.is_success(), "{url} answered {status}: {}", String::from_utf8_lossy(&answer));
    Ok(serde_json::from_slice(&answer)?)
}
