//! Logs as text for people or JSON for machines, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging; `directives` is a level or a `tracing` filter such as `info,croft=debug`.
pub fn start(format: LogFormat, directives: &str) -> anyhow::Result<()> {
    let filter: Targets = directives.parse().map_err(|error| {
        anyhow::anyhow!("--log {directives:?} is no log filter ({error}); try `info` or `info,croft=debug`")
    })?;
    // The client library quotes answers it cannot read, whatever is in them.
    let says_itself = directives.contains("kube_client");
    let filter = if says_itself { filter } else { filter.with_target("kube_client", LevelFilter::ERROR) };
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => registry
            .with(
                fmt::layer().with_target(false).with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr),
            )
            .try_init()?,
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr)).try_init()?;
        }
    }
    Ok(())
}
