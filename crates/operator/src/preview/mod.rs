//! `croft plan` and `croft explain`: what a class would do, and what one did. Nothing is ever changed.
//!
//! The plan is the operator's own, made by the same function from a world read live; its steps go to the API server as dry
//! runs. Everything happens with the rights of the current user.

mod class;
mod diff;
mod dropped;
mod effect;
mod explain;
mod find;
mod former;
mod furnished;
mod going;
mod observe;
mod plan;
mod print;
mod progress;
mod rehearse;
mod revision;
mod yaml;

use std::{future::Future, sync::Arc};

use anyhow::Context as _;
use clap::ValueEnum;
use croft_core::plan::Failure;
use kube::Client;

use crate::{
    cli::{ClusterOptions, ExplainOptions, PlanOptions},
    client, steering,
    telemetry::metrics::Metrics,
};

/// How a plan is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// What to print and how to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
    pub code: u8,
}

/// What the class in a file would do, or one at an earlier revision; or what would happen without it.
pub fn plan(options: &PlanOptions) -> anyhow::Result<Answer> {
    let (only, operator_namespace) = (options.namespace.as_deref(), options.operator_namespace.as_str());
    // Read before anything is asked: a file that is wrong is told without a cluster.
    let written = match (&options.class, &options.to) {
        (Some(file), None) => Some(class::read(file)?),
        _ => None,
    };
    let preview = block_on(async {
        let (client, _) = connect(&options.cluster).await?;
        match (&options.delete, only, &options.class, &options.to) {
            (Some(class), ..) => going::deletion(&client, class).await,
            (None, Some(namespace), ..) if options.unlabel => going::unlabelling(&client, namespace).await,
            (None, _, Some(class), Some(revision)) => {
                let name = class.display().to_string();
                let then = steering::class_at(&client, &name, operator_namespace, revision).await?;
                plan::preview(&client, &class::Written::of(&then)?, only, operator_namespace).await
            }
            _ => {
                let written = written.as_ref().context("give a file with a NamespaceClass, --delete or --unlabel")?;
                plan::preview(&client, written, only, operator_namespace).await
            }
        }
    })?;
    let text = match options.output {
        Format::Text => print::text(&preview),
        Format::Json => serde_json::to_string_pretty(&preview).context("the plan cannot be written as JSON")? + "\n",
    };
    Ok(Answer { text, code: preview.verdict().code() })
}

/// Where an object comes from.
pub fn explain(options: &ExplainOptions) -> anyhow::Result<Answer> {
    block_on(async {
        let (client, of_context) = connect(&options.cluster).await?;
        let namespace = options.namespace.as_ref().unwrap_or(&of_context);
        let explained =
            Box::pin(explain::explain(&client, &options.object, namespace, &options.operator_namespace)).await?;
        Ok(Answer { text: explained.to_string(), code: u8::from(!explained.is_ours()) })
    })
}

pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    // Exactly one TLS implementation, chosen before anybody uses one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// The cluster, and the namespace one is in there.
pub(crate) async fn connect(cluster: &ClusterOptions) -> anyhow::Result<(Client, String)> {
    let config = client::config(cluster).await?;
    let namespace = config.default_namespace.clone();
    Ok((client::connect(config, Arc::new(Metrics::default()))?, namespace))
}

/// A failed call, with what it was for.
pub(crate) fn because(what: impl Into<String>) -> impl FnOnce(Failure) -> anyhow::Error {
    let what = what.into();
    move |failure| anyhow::Error::new(failure).context(what)
}
