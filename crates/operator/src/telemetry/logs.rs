//! Logs as text for people or JSON for machines, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging; `filter` is a level or a `tracing` filter such as `info,croft=debug`.
pub fn start(format: LogFormat, filter: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!("--log {filter:?} is no log filter ({error}); try `info` or `info,croft=debug`")
    })?;
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
