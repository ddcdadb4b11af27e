//! Real Kubernetes, Ceph and Velero on loopback, for tests, demo and benchmark.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use croft_testbed::Testbed;
//!
//! let bed = Testbed::kubernetes().with_ceph().with_velero().start().await?; // its own; dropped = gone
//! let shared = croft_testbed::shared(Testbed::kubernetes()).await?; // one per process, for parallel tests
//! let namespace = shared.namespace("example").await?;
//! shared.admin().kubectl(&["get", "pods", "-n", &namespace]).await?;
//! # Ok(()) }
//! ```
//!
//! Guarantees: every daemon listens on 127.0.0.1 only (those of a [`node`] in a network of their own) and dies with its owner, however that ends; instances in any
//! number of processes run side by side; nothing here is a mock.

mod accounts;
pub mod ceph;
mod digest;
pub mod fault;
mod http_client;
pub mod identity;
mod kubernetes;
pub mod node;
pub mod parts;
mod pki;
pub mod ports;
pub mod process;
pub mod product;
mod rundir;
mod runtime;
mod s3;
mod upload;
pub mod velero;
pub mod wait;

use std::{
    fmt,
    future::Future,
    net::Ipv4Addr,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::{core::v1::Namespace, rbac::v1::PolicyRule};
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tokio::sync::OnceCell;

use crate::{
    accounts::Accounts,
    kubernetes::Kubernetes,
    parts::{Parts, VeleroParts},
    rundir::RunDir,
};
pub use crate::{
    ceph::Ceph,
    fault::FaultProxy,
    identity::Identity,
    process::Process,
    product::{Installed, Operator},
    rundir::cache_root,
    s3::S3Call,
    upload::Upload,
    velero::Velero,
};

/// Which parts an instance has; Kubernetes is always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "call start() to get a testbed"]
pub struct Want {
    pub ceph: bool,
    pub velero: bool,
    /// The API server collects its garbage when it is asked to, or at [`kubernetes::MOST_GARBAGE`].
    pub collects_on_request: bool,
    pub place: Place,
}

/// Where the daemons listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    #[default]
    Loopback,
    /// Inside an [`node::enclosure`], where pods reach them.
    Node,
}

impl Place {
    fn address(self) -> Ipv4Addr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST,
            Self::Node => node::ADDRESS,
        }
    }
}

impl Want {
    pub fn with_ceph(self) -> Self {
        Self { ceph: true, ..self }
    }

    /// Velero stores in Ceph, so that comes with it.
    pub fn with_velero(self) -> Self {
        Self { ceph: true, velero: true, ..self }
    }

    /// For measurements: a collection takes as long as much of what is measured, and comes when it comes.
    pub fn collecting_on_request(self) -> Self {
        Self { collects_on_request: true, ..self }
    }

    /// Everything within reach of the pods of a [`node::Node`].
    pub fn on_a_node(self) -> Self {
        Self { place: Place::Node, ..self }
    }

    /// A new instance; dropping it ends all its processes and removes its files. Its Kubernetes is never the one of `KUBECONFIG`:
    /// whoever wants an instance of his own may take it apart.
    pub async fn start(self) -> Result<Testbed> {
        runtime::run(Testbed::start(self, None)).await
    }
}

/// One running instance. Its methods may be called from any runtime, by many tests at once.
pub struct Testbed {
    timings: Mutex<Vec<Timing>>,
    // Dropped in this order: what uses before what is used, the files last.
    velero: OnceCell<Velero>,
    ceph: OnceCell<Ceph>,
    kubernetes: Kubernetes,
    run: RunDir,
}

/// How long a part took to be ready.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub part: &'static str,
    pub took: Duration,
}

/// The one instance all tests of this process share; parts not yet running are started. Its Kubernetes is that of `KUBECONFIG`,
/// where that is set.
///
/// It ends with the process. Tests that stop or restart parts, or take Croft out again, take an instance of their own.
pub async fn shared(want: Want) -> Result<&'static Testbed> {
    static SHARED: OnceCell<Testbed> = OnceCell::const_new();
    runtime::run(async move {
        let bed = SHARED.get_or_try_init(|| Testbed::start(want, kubernetes::given())).await?;
        bed.grow(want).await?;
        Ok(bed)
    })
    .await
}

impl Testbed {
    pub fn kubernetes() -> Want {
        Want::default()
    }

    /// Boxed: the future of everything is too big to be carried around.
    fn start(want: Want, given: Option<PathBuf>) -> BoxFuture<'static, Result<Self>> {
        Self::start_parts(want, given).boxed()
    }

    async fn start_parts(want: Want, given: Option<PathBuf>) -> Result<Self> {
        let parts = runtime::run_blocking(move || Parts::ensure(&want)).await?;
        let run = RunDir::create()?;
        let clock = Instant::now();
        let (kubernetes, ceph) = tokio::try_join!(timed(Kubernetes::start(&parts, &run, want, given)), async {
            if want.ceph { timed(start_ceph(want.place)).await.map(Some) } else { Ok(None) }
        })?;
        let bed = Self {
            timings: Mutex::new(vec![Timing { part: "kubernetes", took: kubernetes.1 }]),
            velero: OnceCell::new(),
            ceph: OnceCell::new(),
            kubernetes: kubernetes.0,
            run,
        };
        if let Some((ceph, took)) = ceph {
            bed.ceph.set(ceph)?;
            bed.record("ceph", took);
        }
        bed.grow(want).await?;
        bed.record("all", clock.elapsed());
        Ok(bed)
    }

    /// Starts what `want` names and is not running yet.
    async fn grow(&self, want: Want) -> Result<()> {
        if want.ceph {
            self.ceph
                .get_or_try_init(|| async {
                    let (ceph, took) = timed(start_ceph(want.place)).await?;
                    self.record("ceph", took);
                    anyhow::Ok(ceph)
                })
                .await?;
        }
        if want.velero {
            self.velero
                .get_or_try_init(|| async {
                    let (velero, took) = timed(self.start_velero()).await?;
                    self.record("velero", took);
                    anyhow::Ok(velero)
                })
                .await?;
        }
        Ok(())
    }

    async fn start_velero(&self) -> Result<Velero> {
        let parts = runtime::run_blocking(VeleroParts::ensure).await?;
        let admin = &self.admin().client;
        let accounts = self.accounts();
        let (account, ()) =
            tokio::try_join!(accounts.cluster_admin(velero::NAMESPACE, "velero"), velero::install_crds(&parts, admin))?;
        Velero::start(&parts, &self.run, admin, &account).await
    }

    /// Member of `system:masters`.
    pub fn admin(&self) -> &Identity {
        &self.kubernetes.admin
    }

    /// A service account with a token for a day; it and its namespace are created where missing.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<Identity> {
        self.accounts().service_account(namespace, name).await
    }

    /// A service account that may do everything.
    pub async fn cluster_admin(&self, namespace: &str, name: &str) -> Result<Identity> {
        self.accounts().cluster_admin(namespace, name).await
    }

    /// A real user (client certificate, group `tenants`) with `rules` in `namespace` and nothing elsewhere.
    pub async fn tenant(&self, name: &str, namespace: &str, rules: Vec<PolicyRule>) -> Result<Identity> {
        self.accounts().tenant(name, namespace, rules).await
    }

    /// A new namespace with a unique name that begins with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let created = Api::all(self.admin().client.clone()).create(&PostParams::default(), &namespace).await?;
        Ok(created.name_any())
    }

    /// Panics where the instance was started without Ceph.
    pub fn ceph(&self) -> &Ceph {
        self.ceph.get().expect("this testbed has no Ceph: start it with .with_ceph()")
    }

    /// Panics where the instance was started without Velero.
    pub fn velero(&self) -> &Velero {
        self.velero.get().expect("this testbed has no Velero: start it with .with_velero()")
    }

    /// Velero's CRDs alone, for a test that wants them late or without a server.
    pub async fn install_velero_crds(&self) -> Result<()> {
        let parts = runtime::run_blocking(VeleroParts::ensure).await?;
        velero::install_crds(&parts, &self.admin().client).await
    }

    /// Another Velero, with its kinds, its namespace and its account, for a test that has taken away the one there was. It ends with
    /// the caller.
    pub async fn another_velero(&self) -> Result<Velero> {
        self.start_velero().await
    }

    /// Kills the API server; etcd keeps its data.
    pub fn stop_api_server(&self) -> Result<()> {
        self.kubernetes.control_plane()?.stop_api_server();
        Ok(())
    }

    /// Brings it back on the same port and waits until it is ready.
    pub async fn start_api_server(&self) -> Result<()> {
        self.kubernetes.control_plane()?.start_api_server().await
    }

    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server()?;
        self.start_api_server().await
    }

    /// Kills the controllers of Kubernetes, the garbage collector among them, for good.
    pub fn stop_controllers(&self) -> Result<()> {
        self.kubernetes.control_plane()?.stop_controllers();
        Ok(())
    }

    /// Drops all history from etcd. Exact and paged lists of the past answer 410 at once; watches from the past do so
    /// after [`Testbed::restart_api_server`], which empties the server's own event cache.
    pub async fn compact_etcd(&self) -> Result<()> {
        self.kubernetes.control_plane()?.compact_etcd().await
    }

    /// Resident memory of the control plane by program; nothing for a cluster that is not ours.
    pub fn rss_kib(&self) -> Vec<(&'static str, u64)> {
        self.kubernetes.control_plane().map(kubernetes::ControlPlane::rss_kib).unwrap_or_default()
    }

    pub fn timings(&self) -> Vec<Timing> {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This instance's directory, for files that should go with it.
    pub fn dir(&self) -> &std::path::Path {
        self.run.path()
    }

    fn accounts(&self) -> Accounts<'_> {
        Accounts { access: &self.kubernetes.access, admin: &self.kubernetes.admin.client }
    }

    fn record(&self, part: &'static str, took: Duration) {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).push(Timing { part, took });
    }
}

impl fmt::Debug for Testbed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Testbed").field("run", &self.run).field("timings", &self.timings()).finish_non_exhaustive()
    }
}

async fn start_ceph(place: Place) -> Result<Ceph> {
    runtime::run_blocking(parts::ensure_ceph).await?;
    Ceph::start_in(RunDir::create()?, place.address()).await
}

async fn timed<T>(work: impl Future<Output = Result<T>>) -> Result<(T, Duration)> {
    let clock = Instant::now();
    Ok((work.await?, clock.elapsed()))
}
