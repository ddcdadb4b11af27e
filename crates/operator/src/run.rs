//! `croft run`: wiring, from options to running tasks to an orderly end.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use croft_core::lease::Timing;
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{info, warn};

use crate::{
    admission::{self, AdmissionOptions, Door, ServingCertificate},
    cli::RunOptions,
    client,
    connections::End,
    engine::{
        Clock, EngineBuilder, Readiness, Writer,
        events::Events,
        lease::{Election, Leadership},
    },
    manifests::SERVICE,
    panics::essential,
    parts::{self, Ground},
    settings::{self, Settings, SharedSettings},
    telemetry::{logs, metrics::Metrics, server},
};

/// The Lease all replicas campaign for.
pub(crate) const LEASE: &str = "croft";

/// Worker threads: the work is waiting, not computing.
const THREADS: usize = 2;

/// Runs until SIGTERM or Ctrl-C. An error is a wrong configuration; everything else is retried and logged.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    logs::start(options.log_format, &options.log)?;
    // Exactly one TLS implementation, chosen before anybody uses one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let settings = match &options.config {
        Some(path) => Settings::read(path)?,
        None => Settings::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let result = runtime.block_on(operate(options, settings));
    // Watches never end by themselves; nothing of value is left in them.
    runtime.shutdown_timeout(Duration::from_millis(100));
    result
}

async fn operate(options: RunOptions, settings: Settings) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::default());
    let config = client::config(&options.cluster).await?;
    info!(version = env!("CARGO_PKG_VERSION"), cluster = %config.cluster_url, "starting");
    let client = client::connect(config, metrics.clone())?;
    let health = server::bind(options.metrics_listen, "--metrics-listen").await?;
    let webhook = server::bind(options.webhook_listen, "--webhook-listen").await?;

    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let clock = Clock::start();
    let linger = linger(options.webhook_url.as_deref());
    let identity = options.identity.clone().unwrap_or_else(default_identity);
    let settings: SharedSettings = Arc::new(ArcSwap::from_pointee(settings));
    let leadership = Leadership::new(clock);
    let engine = assemble(&options, &client, &metrics, &settings, clock);
    let (surroundings, grounds) = (engine.surroundings(), engine.grounds());
    if let Some(path) = options.config.clone() {
        let pusher = engine.pusher();
        let reloaded = move || pusher.push_everything();
        tasks.spawn(essential("settings", settings::follow(path, settings.clone(), reloaded, stop.clone())));
    }
    let events = Events::new(client.clone(), &identity, clock);
    let concurrency = settings.load().concurrency;
    let running = engine.start(&events, &leadership, concurrency, &tasks, &stop);
    let certificate = Arc::new(ServingCertificate::default());
    let readiness = running.readiness.clone();
    let health = server::serve(health, metrics.clone(), readiness.clone(), certificate.clone(), stop.clone());
    tasks.spawn(essential("health", health));
    let end = End { near: stop.clone(), here: CancellationToken::new() };
    let door = Door { listener: webhook, certificate, metrics, grounds };
    let admission =
        admission::run(admission_options(&options), client.clone(), settings, door, surroundings.clone(), end.clone());
    let admission = tokio::spawn(essential("admission", admission));
    tasks.spawn(announce(readiness, clock));

    let election = Election {
        client,
        namespace: options.namespace,
        name: LEASE.into(),
        identity,
        timing: Timing::default(),
        clock,
        leadership,
    };
    let handed_over = CancellationToken::new();
    let campaign = tokio::spawn(essential("election", election.run(surroundings, handed_over.clone())));
    asked_to_stop().await?;
    info!("stopping: finishing what is under way");
    stop.cancel();
    let hand_over = async {
        // The lease is kept until nothing of ours writes any more, and only then handed over.
        running.drained().await;
        handed_over.cancel();
        let _ = tokio::time::timeout(HANDOVER, campaign).await;
    };
    let close_door = async {
        tokio::time::sleep(linger).await;
        end.here.cancel();
        let _ = admission.await;
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(hand_over, close_door) } => info!("stopped"),
        _ = asked_to_stop() => info!("stopped at once, as it was asked twice"),
    }
    Ok(())
}

/// The API server may call this replica until it has heard that it is no longer ready: by a Service until every node has.
fn linger(webhook_url: Option<&str>) -> Duration {
    Duration::from_secs(if webhook_url.is_some() { 2 } else { 15 })
}

/// Two calls to the API server; without an answer the lease simply runs out.
const HANDOVER: Duration = Duration::from_secs(3);

fn assemble(
    options: &RunOptions,
    client: &Client,
    metrics: &Arc<Metrics>,
    settings: &SharedSettings,
    clock: Clock,
) -> EngineBuilder {
    let mut engine = EngineBuilder::new(client.clone(), metrics.clone(), clock);
    let ground = Ground {
        writer: Writer::new(client.clone()),
        settings: settings.clone(),
        operator_namespace: options.namespace.clone(),
    };
    for part in parts::of(&options.enable) {
        (part.install)(&mut engine, &ground);
    }
    engine
}

fn admission_options(options: &RunOptions) -> AdmissionOptions {
    let host = options.webhook_url.as_deref().and_then(|url| url.parse::<http::Uri>().ok());
    let host = host.as_ref().and_then(http::Uri::host).map(str::to_owned);
    AdmissionOptions {
        operator_namespace: options.namespace.clone(),
        service: SERVICE.into(),
        extra_hosts: host.into_iter().collect(),
    }
}

/// Says once when everything is seen, and until then every few seconds what is missing.
async fn announce(readiness: Readiness, clock: Clock) {
    let mut changes = readiness.changes();
    loop {
        if readiness.is_ready() {
            info!(after_ms = clock.now().0, "ready: every watch is synced");
            return;
        }
        match tokio::time::timeout(Duration::from_secs(5), changes.changed()).await {
            Err(_) => warn!("not ready yet:\n{}", readiness.detail().trim_end()),
            Ok(Err(_)) => return,
            Ok(Ok(())) => {}
        }
    }
}

/// The first time anybody asks for it from now on.
pub(crate) async fn asked_to_stop() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn default_identity() -> String {
    let host = std::env::var("HOSTNAME").ok().or_else(|| std::fs::read_to_string("/etc/hostname").ok());
    format!("{}-{}", host.as_deref().unwrap_or("croft").trim(), std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_behind_a_service_answers_until_every_node_has_heard_that_he_stops() {
        assert!(linger(None) >= Duration::from_secs(10));
        assert!(linger(Some("https://10.0.0.1:9443")) < Duration::from_secs(5));
    }
}
