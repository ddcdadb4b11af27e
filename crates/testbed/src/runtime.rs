//! The testbed's own tokio runtime.
//!
//! `#[tokio::test]` gives each test a runtime that ends with it, together with every socket and task made on it. What
//! tests share (clients, connections, proxies) therefore lives on one runtime that ends with the process.

use std::{
    future::Future,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll},
};

use anyhow::Result;
use futures::FutureExt;
use http::{Request, Response};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder},
};
use tokio::runtime::{Handle, Runtime};
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, Layer, Service};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("testbed")
        .enable_all()
        .build()
        .expect("a process can start one more runtime")
});

pub(crate) fn handle() -> &'static Handle {
    RUNTIME.handle()
}

/// Runs `work` on the testbed's runtime; cancelled when the caller gives up.
pub(crate) async fn run<T, Work>(work: Work) -> Result<T>
where
    T: Send + 'static,
    Work: Future<Output = Result<T>> + Send + 'static,
{
    AbortOnDropHandle::new(handle().spawn(work)).await?
}

/// Runs blocking `work` beside the runtime.
pub(crate) async fn run_blocking<T, Work>(work: Work) -> Result<T>
where
    T: Send + 'static,
    Work: FnOnce() -> Result<T> + Send + 'static,
{
    handle().spawn_blocking(work).await?
}

/// A client that any test's runtime can use, whose connections outlive all of them.
///
/// Client-side retries are off: a test wants to see what the server answered.
pub(crate) fn client(mut config: Config) -> Result<Client> {
    config.default_retry = false;
    let _inside = handle().enter();
    Ok(ClientBuilder::try_from(config)?.with_layer(&OnTestbedRuntime).build())
}

#[derive(Clone, Copy)]
struct OnTestbedRuntime;

struct OnTestbed<Inner>(Inner);

impl<Inner> Layer<Inner> for OnTestbedRuntime {
    type Service = OnTestbed<Inner>;

    fn layer(&self, inner: Inner) -> Self::Service {
        OnTestbed(inner)
    }
}

impl<Inner, B> Service<Request<Body>> for OnTestbed<Inner>
where
    Inner: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    Inner::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = AbortOnDropHandle::new(handle().spawn(self.0.call(request)));
        answer.map(|joined| joined.unwrap_or_else(|error| Err(error.into()))).boxed()
    }
}
