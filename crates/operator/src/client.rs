//! The connection to the API server: no hidden retries, every call counted.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::Context as _;
use http::{Method, Request, Response};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{Layer, Service};

use crate::{cli::ClusterOptions, telemetry::metrics::Metrics};

/// Finds the cluster: the file given, else `KUBECONFIG`, else the service account of the pod we run in.
pub async fn config(cluster: &ClusterOptions) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: cluster.context.clone(), ..KubeConfigOptions::default() };
    let mut config = match &cluster.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("--kubeconfig {}: cannot be read", path.display()))?;
            Config::from_custom_kubeconfig(file, &options)
                .await
                .with_context(|| format!("--kubeconfig {}: names no usable cluster", path.display()))?
        }
        None if cluster.context.is_some() => {
            Config::from_kubeconfig(&options).await.context("--context: KUBECONFIG names no usable cluster for it")?
        }
        None => Config::infer().await.map_err(|error| {
            let missing = "no cluster to talk to: give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster";
            // Where there is a file, what is wrong with it says more.
            if has_file() { anyhow::Error::new(error).context(missing) } else { anyhow::anyhow!(missing) }
        })?,
    };
    if let Some(user) = &cluster.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(cluster.as_group.clone()).filter(|groups| !groups.is_empty());
    }
    // Retrying belongs to the queue, which knows the key; a hidden retry of a write would break the lease.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(config)
}

/// Whether somebody has written down a cluster.
fn has_file() -> bool {
    let home = || std::env::home_dir().is_some_and(|home| home.join(".kube/config").exists());
    std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty()) || home()
}

/// A client whose calls are counted by verb and code.
pub fn connect(config: Config, metrics: Arc<Metrics>) -> anyhow::Result<Client> {
    let builder =
        ClientBuilder::try_from(config).context("the cluster's TLS or authentication settings are not usable")?;
    Ok(builder.with_layer(&Counting { metrics }).build())
}

#[derive(Clone, Debug)]
struct Counting {
    metrics: Arc<Metrics>,
}

impl<S> Layer<S> for Counting {
    type Service = CountingService<S>;

    fn layer(&self, inner: S) -> CountingService<S> {
        CountingService { inner, metrics: self.metrics.clone() }
    }
}

#[derive(Clone, Debug)]
struct CountingService<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, B> Service<Request<Body>> for CountingService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = verb(&request);
        let metrics = self.metrics.clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            metrics.call(verb, answer.as_ref().map_or(0, |response| response.status().as_u16()));
            answer
        })
    }
}

/// The verb as RBAC names it. Asking what is served is none of its verbs, and renewals of the lease have one of their own: they
/// never rest.
fn verb(request: &Request<Body>) -> &'static str {
    let query = request.uri().query().unwrap_or_default();
    match *request.method() {
        Method::GET if query.contains("watch=true") => "watch",
        Method::GET => reading_verb(request.uri().path()),
        Method::POST => "create",
        Method::PUT if request.uri().path().contains("/leases/") => "renew",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

fn reading_verb(path: &str) -> &'static str {
    let steps: Vec<_> = path.split('/').filter(|step| !step.is_empty()).collect();
    let below_version = match steps.as_slice() {
        ["api", _, below @ ..] | ["apis", _, _, below @ ..] => below,
        _ => &[],
    };
    match below_version {
        [] => "discover",
        [_resource] | ["namespaces", _, _resource] => "list",
        _ => "get",
    }
}

/// A client of which no answer is ever needed.
#[cfg(test)]
pub(crate) fn nobody() -> Client {
    let nobody = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(tower::BoxError::from("nobody is asked"))
    });
    Client::new(nobody, "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_one_object_of_many_and_of_what_is_served_are_told_apart() {
        for (path, verb) in [
            ("/api", "discover"),
            ("/apis", "discover"),
            ("/api/v1", "discover"),
            ("/apis/apps/v1", "discover"),
            ("/api/v1/namespaces", "list"),
            ("/api/v1/configmaps", "list"),
            ("/api/v1/namespaces/a/configmaps", "list"),
            ("/apis/akuity.io/v1alpha1/namespaceclasses", "list"),
            ("/apis/akuity.io/v1alpha1/namespaces/a/namespaceclassbindings", "list"),
            ("/api/v1/namespaces/a", "get"),
            ("/api/v1/namespaces/a/configmaps/b", "get"),
            ("/apis/akuity.io/v1alpha1/namespaceclasses/a", "get"),
            ("/apis/apps/v1/namespaces/a/deployments/b/status", "get"),
        ] {
            assert_eq!(reading_verb(path), verb, "{path}");
        }
    }
}
