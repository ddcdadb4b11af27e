//! Logs as text for people or JSON for machines, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging; `directives` is a level or a `tracing` filter such as `info,croft=debug`.
pub fn start(format: LogFormat, directives: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        anyhow::anyhow!("--log {directives:?} is no log filter ({error}); try `info` or `info,croft=debug`")
    })?;
    // The client library quotes answers it cannot read, whatever is in them.
    let filter =
        if directives.contains("kube_client") { filter } else { filter.add_directive("kube_client=error".parse()?) };
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
