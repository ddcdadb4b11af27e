//! Passing requests on, and doing to them what the rules say.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::{Context, Result};
use http::{HeaderValue, Response, Uri, header, uri};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::Connect},
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tower::BoxError;

use super::{
    Seen, reply,
    request::{Dialect, Request},
    rule::{Action, Moment, Rule, Rules},
    stream::{self, Body, OPEN, Tap},
};

type HttpRequest = http::Request<Incoming>;

/// The real server.
#[derive(Debug)]
pub(super) struct Upstream {
    scheme: uri::Scheme,
    authority: uri::Authority,
    dialect: Dialect,
}

impl Upstream {
    pub(super) fn new(url: &Uri, dialect: Dialect) -> Result<Self> {
        Ok(Self {
            scheme: url.scheme().cloned().with_context(|| format!("{url} has no scheme"))?,
            authority: url.authority().cloned().with_context(|| format!("{url} has no host"))?,
            dialect,
        })
    }

    fn redirect(&self, request: &mut HttpRequest) -> Result<(), BoxError> {
        // HTTP/2 clients name the host in the URL; it must survive, because signatures cover it.
        if let Some(authority) = request.uri().authority().cloned() {
            request.headers_mut().entry(header::HOST).or_insert(HeaderValue::from_str(authority.as_str())?);
        }
        let mut parts = request.uri().clone().into_parts();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        *request.uri_mut() = Uri::from_parts(parts)?;
        *request.version_mut() = http::Version::HTTP_11;
        request.headers_mut().remove(header::CONNECTION);
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    upstream: Upstream,
    pub(super) rules: Rules,
    log: Mutex<Vec<Seen>>,
    pub(super) tap: watch::Sender<Tap>,
}

impl Shared {
    pub(super) fn new(upstream: Upstream) -> Self {
        Self { upstream, rules: Rules::default(), log: Mutex::default(), tap: watch::Sender::new(OPEN) }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end_watches(&self, gone: bool) {
        self.tap.send_modify(|tap| {
            tap.generation += 1;
            tap.gone = gone;
        });
    }

    /// Notes the request and its rule; the entry is found again by its time, as the log may be cleared meanwhile.
    fn note(&self, mut request: Request) -> (Request, Option<Rule>, Instant) {
        let mut log = self.log();
        request.occurrence += log.iter().filter(|seen| seen.request.is_again(&request)).count();
        let rule = self.rules.choose(&request);
        let fault = rule.as_ref().map(|rule| format!("{:?} {:?}", rule.moment(), rule.action()).to_lowercase());
        let mut at = Instant::now();
        if let Some(last) = log.last() {
            at = at.max(last.at + std::time::Duration::from_nanos(1));
        }
        log.push(Seen { request: request.clone(), status: None, fault, at });
        (request, rule, at)
    }

    fn note_answer(&self, at: Instant, status: u16) {
        let mut log = self.log();
        if let Ok(index) = log.binary_search_by_key(&at, |seen| seen.at) {
            log[index].status = Some(status);
        }
    }
}

pub(super) async fn serve<C>(listener: TcpListener, client: Client<C, Incoming>, shared: Arc<Shared>)
where
    C: Connect + Clone + Send + Sync + 'static,
{
    // The set ends its tasks, and with them their connections, when this task ends.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else { continue };
        let _ = stream.set_nodelay(true);
        let (client, shared) = (client.clone(), shared.clone());
        connections.spawn(async move {
            let service = service_fn(move |request| handle(request, client.clone(), shared.clone()));
            // A connection that ends badly is what rules ask for; the client sees it.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error closes the connection (HTTP/1.1) or the stream (HTTP/2) without an answer.
async fn handle<C>(
    request: HttpRequest,
    client: Client<C, Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Body>, BoxError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let dialect = shared.upstream.dialect;
    let path = request.uri().path().to_owned();
    let (named, rule, at) = shared.note(Request::parse(dialect, request.method(), request.uri()));
    let is_watch = dialect == Dialect::Kubernetes && named.verb == "watch";

    if let Some(rule) = rule.as_ref().filter(|rule| rule.moment() == Moment::Before)
        && let Some(answer) = strike(rule, dialect, &path).await?
    {
        return Ok(answer);
    }
    // Looked at before the request is sent: a watch cut while it is being opened is cut.
    let born = shared.tap.borrow().generation;
    let answer = forward(request, &client, &shared.upstream).await?;
    shared.note_answer(at, answer.status().as_u16());
    if let Some(rule) = rule.as_ref().filter(|rule| rule.moment() == Moment::After)
        && let Some(answer) = strike(rule, dialect, &path).await?
    {
        return Ok(answer);
    }
    Ok(answer.map(
        |body| {
            if is_watch { stream::tapped(body, shared.tap.subscribe(), born) } else { stream::passed_on(body) }
        },
    ))
}

/// Does what the rule says; `None` = go on as if nothing had happened.
async fn strike(rule: &Rule, dialect: Dialect, path: &str) -> Result<Option<Response<Body>>, BoxError> {
    match rule.action() {
        Action::Kill(victim) => {
            let victim = victim.clone();
            // It may wait for the process it kills.
            tokio::task::spawn_blocking(move || victim()).await?;
            Err("the client was killed by a rule".into())
        }
        Action::Drop => Err("dropped by a rule".into()),
        Action::Delay(time) => {
            tokio::time::sleep(*time).await;
            Ok(None)
        }
        Action::Hold => {
            rule.released().await;
            Ok(None)
        }
        Action::Status(code) => Ok(Some(reply::error(dialect, path, *code))),
        Action::Gone410 => Ok(Some(reply::error(dialect, path, 410))),
        Action::WatchGone410 => Ok(Some(reply::watch_gone())),
    }
}

async fn forward<C>(
    mut request: HttpRequest,
    client: &Client<C, Incoming>,
    upstream: &Upstream,
) -> Result<Response<Incoming>, BoxError>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    upstream.redirect(&mut request)?;
    let mut answer = client.request(request).await?;
    answer.headers_mut().remove(header::CONNECTION);
    Ok(answer)
}
