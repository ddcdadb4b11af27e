//! `/healthz`, `/readyz` and `/metrics` over plain HTTP.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anyhow::Context as _;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use crate::{
    admission::ServingCertificate,
    connections::{self, End, Limits},
    engine::Readiness,
    parts::PARTS,
};

/// A kubelet and whoever collects metrics need one or two each.
const LIMITS: Limits = Limits { all: 64, of_one_address: 16 };

#[derive(Clone, Debug)]
struct Health {
    metrics: Arc<Metrics>,
    readiness: Readiness,
    certificate: Arc<ServingCertificate>,
}

/// Binds at once, so that a taken port is a clear error at start. Every address of either kind is every one of IPv4 where there is no other.
pub async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    let bound = match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.with_context(|| format!("cannot listen on {address}; choose another with {flag}"))
}

/// Serves until `stop`.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    readiness: Readiness,
    certificate: Arc<ServingCertificate>,
    stop: CancellationToken,
) {
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(text))
        .with_state(Health { metrics, readiness, certificate });
    let until = stop.clone();
    let serve =
        |stream, peer| connections::answer(stream, peer, routes.clone(), End { here: stop.clone(), ..End::default() });
    connections::accept(listener, LIMITS, until, serve).await;
}

/// Ready means: every watch has a full picture, or waits for a kind that somebody else installs; and admission can answer.
async fn ready(State(health): State<Health>) -> impl IntoResponse {
    let answers = health.certificate.is_there();
    let code = if answers && health.readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let admission = if answers { "[+] admission: serving" } else { "[-] admission: waiting for a certificate" };
    (code, format!("{}{admission}\n", health.readiness.detail()))
}

async fn text(State(health): State<Health>) -> impl IntoResponse {
    for part in PARTS.iter().map(|definition| definition.part) {
        health.metrics.waiting(part, health.readiness.waits_for(part).is_some());
    }
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], health.metrics.text())
}
