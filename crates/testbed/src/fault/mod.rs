//! A proxy that loses, delays, refuses and cuts at chosen requests, between the operator and a real server.
//!
//! ```no_run
//! # async fn example(bed: &croft_testbed::Testbed, operator: &croft_testbed::Identity) -> anyhow::Result<()> {
//! use croft_testbed::fault::{Action, FaultProxy, Match};
//!
//! let proxy = FaultProxy::kubernetes(bed, operator).await?;
//! // The first binding is created at the server, and the answer gets lost.
//! let lost = proxy.on(Match::verb("create").resource("namespaceclassbindings").nth(1)).after(Action::Drop);
//! // ... run the operator with KUBECONFIG=proxy.kubeconfig(), then:
//! assert_eq!(lost.fired(), 1);
//! # Ok(()) }
//! ```
//!
//! Guarantees: without rules it changes nothing; what a rule does `before` the server never sees, what it does
//! `after` the server has answered.

mod proxy;
mod reply;
mod request;
mod rule;
mod stream;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result};
use http::Uri;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::client::ConfigExt;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use self::{proxy::Upstream, request::Dialect};
pub use self::{
    request::Request,
    rule::{Action, Match, On, Rule},
};
use crate::{Identity, Testbed, identity::write_kubeconfig, runtime};

/// A request the proxy has seen, in order of arrival.
#[derive(Debug, Clone)]
pub struct Seen {
    pub request: Request,
    /// What the server answered; `None` while it has not, and for good where it never saw the request.
    pub status: Option<u16>,
    /// What was done to it, e.g. `before Drop`.
    pub fault: Option<String>,
    pub at: Instant,
}

/// A proxy on loopback; dropping it closes all connections through it.
#[derive(Debug)]
pub struct FaultProxy {
    endpoint: String,
    kubeconfig: Option<PathBuf>,
    shared: Arc<proxy::Shared>,
    _server: AbortOnDropHandle<()>,
}

impl FaultProxy {
    /// In front of the API server. [`FaultProxy::kubeconfig`] acts as `identity`: a token passes through the proxy, a
    /// client certificate is used by the proxy.
    pub async fn kubernetes(bed: &Testbed, identity: &Identity) -> Result<Self> {
        let config = identity.config();
        let connector = config.rustls_https_connector().context("preparing TLS to the API server")?;
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let upstream = Upstream::new(&config.cluster_url, Dialect::Kubernetes)?;
        let mut proxy = Self::start(upstream, client).await?;
        let path = bed.dir().join(format!("fault-{:08x}.kubeconfig", rand::random::<u32>()));
        write_kubeconfig(&path, &json!({ "server": proxy.endpoint }), &json!(config.auth_info))?;
        proxy.kubeconfig = Some(path);
        Ok(proxy)
    }

    /// In front of a Ceph gateway, or anything that speaks plain HTTP. The `Host` header stays as the client signed it.
    pub async fn rgw(endpoint: &str) -> Result<Self> {
        let client = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        let endpoint: Uri = endpoint.parse().with_context(|| format!("{endpoint} is no URL"))?;
        Self::start(Upstream::new(&endpoint, Dialect::Gateway)?, client).await
    }

    async fn start<C>(upstream: Upstream, client: Client<C, hyper::body::Incoming>) -> Result<Self>
    where
        C: hyper_util::client::legacy::connect::Connect + Clone + Send + Sync + 'static,
    {
        let shared = Arc::new(proxy::Shared::new(upstream));
        let state = shared.clone();
        let (endpoint, server) = runtime::run(async move {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("binding the fault proxy")?;
            let endpoint = format!("http://{}", listener.local_addr()?);
            Ok((endpoint, tokio::spawn(proxy::serve(listener, client, state))))
        })
        .await?;
        Ok(Self { endpoint, kubeconfig: None, shared, _server: AbortOnDropHandle::new(server) })
    }

    /// The URL clients talk to instead of the server's.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Panics for a proxy in front of a gateway.
    pub fn kubeconfig(&self) -> &Path {
        self.kubeconfig.as_deref().expect("only a proxy in front of Kubernetes has a kubeconfig")
    }

    /// A client through this proxy, usable from any runtime.
    pub async fn client(&self) -> Result<kube::Client> {
        let kubeconfig = kube::config::Kubeconfig::read_from(self.kubeconfig())?;
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
        config.proxy_url = None;
        runtime::client(config)
    }

    /// Selects requests; say what happens with [`On::before`] or [`On::after`].
    pub fn on(&self, matching: Match) -> On<'_> {
        On { rules: &self.shared.rules, matching }
    }

    /// Ends all rules and lets go what they hold.
    pub fn clear_rules(&self) {
        self.shared.rules.clear();
    }

    /// Everything seen since the start or the last [`FaultProxy::clear_log`].
    pub fn log(&self) -> Vec<Seen> {
        self.shared.log().clone()
    }

    /// The part of the log that changes something, without leases and events.
    pub fn writes(&self) -> Vec<Seen> {
        self.log().into_iter().filter(|seen| seen.request.is_deliberate_write()).collect()
    }

    pub fn clear_log(&self) {
        self.shared.log().clear();
    }

    /// Open watches fall silent, like a slow network: events wait, none is lost.
    pub fn pause_watches(&self) {
        self.shared.tap.send_modify(|tap| tap.paused = true);
    }

    pub fn resume_watches(&self) {
        self.shared.tap.send_modify(|tap| tap.paused = false);
    }

    /// Breaks the connection of every open watch.
    pub fn cut_watches(&self) {
        self.shared.end_watches(false);
    }

    /// Ends every open watch with a 410 event.
    pub fn expire_watches(&self) {
        self.shared.end_watches(true);
    }
}
