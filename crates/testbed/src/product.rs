//! The product under test, installed on a testbed the way an administrator installs it.
//!
//! Only its command line is used (`manifests`, `run`): what works here works for everybody who has the program.
//! Guarantees: every replica has ports of its own, and the API server reaches whichever replicas are alive, as it
//! would through a Service.

use std::{
    fmt,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use http::{Request, StatusCode};
use http_body_util::Full;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    Ceph, Identity, Testbed, http_client,
    ports::PortBlock,
    process::{self, Process},
    runtime, wait,
};

const NAMESPACE: &str = "croft-system";
const ACCOUNT: &str = "croft";
const CLASS_LIMIT: Duration = Duration::from_secs(20);
const TRUST_LIMIT: Duration = Duration::from_secs(10);
/// Places in the port block of a replica, and of the front door.
const METRICS: u16 = 0;
const WEBHOOK: u16 = 1;

/// Manifests, CRDs and an `S3Class` called `default` (where there is a Ceph) are in the cluster; replicas can be started.
#[derive(Debug)]
pub struct Installed {
    /// The operator's own service account, with the generated rights and no others.
    pub identity: Identity,
    /// Where the API server calls the admission webhook.
    pub webhook_port: u16,
    pub namespace: String,
    program: PathBuf,
    front: FrontDoor,
}

impl Installed {
    /// Installs the program `croft` on `bed`. Nothing of it runs yet.
    pub async fn new(bed: &Testbed, croft: &Path) -> Result<Self> {
        let front = FrontDoor::open().await?;
        apply(bed, &manifests(croft, &front).await?).await?;
        let (identity, ()) = tokio::try_join!(bed.service_account(NAMESPACE, ACCOUNT), async {
            match bed.ceph.get() {
                Some(ceph) => make_class(bed, ceph).await,
                None => Ok(()),
            }
        })?;
        Ok(Self {
            identity,
            webhook_port: front.ports.get(WEBHOOK),
            namespace: NAMESPACE.to_owned(),
            program: croft.to_owned(),
            front,
        })
    }

    /// Applies the manifests once more, as an administrator does who has lost some of them.
    pub async fn apply_again(&self, bed: &Testbed) -> Result<()> {
        apply(bed, &manifests(&self.program, &self.front).await?).await
    }

    /// Starts a replica called `name` with the rights of `kubeconfig`; `extra` are more arguments of `croft run`.
    pub fn start(&self, bed: &Testbed, name: &str, kubeconfig: &Path, extra: &[&str]) -> Result<Operator> {
        let ports = PortBlock::reserve()?;
        let address = |place| format!("127.0.0.1:{}", ports.get(place));
        let mut command = Command::new(&self.program);
        command
            .args(["run", "--namespace", &self.namespace, "--identity", name, "--webhook-url", &self.front.url()])
            .args(["--metrics-listen", &address(METRICS), "--webhook-listen", &address(WEBHOOK)])
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(extra);
        let process = process::spawn("croft", &command, &bed.dir().join(format!("{name}.log")))?;
        self.front.leads_to(ports.get(WEBHOOK));
        let health = format!("http://{}", address(METRICS));
        let classes = ApiResource::from_gvk(&GroupVersionKind::gvk("akuity.io", "v1alpha1", "NamespaceClass"));
        let classes = ApiResource { plural: "namespaceclasses".into(), ..classes };
        let classes = Api::all_with(bed.admin().client.clone(), &classes);
        let webhook = format!("https://{}", address(WEBHOOK));
        Ok(Operator { process, health, webhook, classes, _ports: ports })
    }
}

/// One running replica; dropped = gone.
#[derive(Debug)]
pub struct Operator {
    pub process: Process,
    /// Base address of `/healthz`, `/readyz` and `/metrics`.
    pub health: String,
    /// Base address of its own admission webhook, past the front door.
    pub webhook: String,
    classes: Api<DynamicObject>,
    _ports: PortBlock,
}

impl Operator {
    /// Waits until it says it is ready; ends at once, with its log, if it has died.
    pub async fn ready(&self, timeout: Duration) -> Result<()> {
        wait::until("croft to be ready", timeout, || async {
            if let Err(ended) = self.process.ensure_running() {
                return Ok(Some(Err(ended)));
            }
            let (ready, detail) = self.readiness().await?;
            ensure!(ready, "it says no:\n{detail}");
            Ok(Some(Ok(())))
        })
        .await
        .map_err(|error| anyhow!("{error:#}\n{}", self.process.log_tail()))??;
        // Where a test wants the API server never to trust it, this is not waited for.
        let _ = wait::until("the API server to trust its certificate", TRUST_LIMIT, || self.is_trusted()).await;
        Ok(())
    }

    /// Whether the API server, which hears of a new certificate a moment later, can call the webhook.
    async fn is_trusted(&self) -> Result<Option<()>> {
        let class = json!({ "apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass",
                            "metadata": { "name": "is-it-trusted" }, "spec": { "resources": [] } });
        let class: DynamicObject = serde_json::from_value(class)?;
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let answer = self.classes.create(&params, &class).await;
        let is_called = !answer.is_err_and(|error| error.to_string().contains("failed calling webhook"));
        Ok(is_called.then_some(()))
    }

    /// Whether it says it is ready, and its detail.
    pub async fn readiness(&self) -> Result<(bool, String)> {
        let (status, detail) = self.get("/readyz").await?;
        Ok((status.is_success(), detail))
    }

    pub async fn metrics(&self) -> Result<String> {
        let (status, text) = self.get("/metrics").await?;
        ensure!(status.is_success(), "/metrics answered {status}");
        Ok(text)
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, String)> {
        let request = Request::get(format!("{}{path}", self.health)).body(Full::default())?;
        let (status, body) = http_client::send(request).await?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

/// What the Service is in a real cluster: one address in front of all replicas.
struct FrontDoor {
    ports: PortBlock,
    replicas: Arc<Mutex<Vec<u16>>>,
    _task: AbortOnDropHandle<()>,
}

impl FrontDoor {
    async fn open() -> Result<Self> {
        runtime::run(async {
            let ports = PortBlock::reserve()?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, ports.get(WEBHOOK))).await?;
            let replicas = Arc::new(Mutex::new(Vec::new()));
            let task = runtime::handle().spawn(pass_on(listener, replicas.clone()));
            Ok(Self { ports, replicas, _task: AbortOnDropHandle::new(task) })
        })
        .await
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.get(WEBHOOK))
    }

    /// The newest first: older ones may be dead, stopped or on their way out.
    fn leads_to(&self, port: u16) {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner).insert(0, port);
    }
}

impl fmt::Debug for FrontDoor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FrontDoor")
            .field("ports", &self.ports)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

async fn manifests(croft: &Path, front: &FrontDoor) -> Result<String> {
    let url = front.url();
    let arguments = ["manifests", "--namespace", NAMESPACE, "--webhook-url", &url, "--create-velero-namespace"];
    printed(croft, &arguments).await
}

async fn pass_on(listener: TcpListener, replicas: Arc<Mutex<Vec<u16>>>) {
    while let Ok((mut caller, _)) = listener.accept().await {
        let ports = replicas.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tokio::spawn(async move {
            for port in ports {
                if let Ok(mut replica) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                    // Either side may hang up; the other then sees it.
                    let _ = tokio::io::copy_bidirectional(&mut caller, &mut replica).await;
                    return;
                }
            }
        });
    }
}

/// What the program prints when it is called so.
pub async fn printed(croft: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = tokio::process::Command::new(croft);
    command.args(arguments).kill_on_drop(true);
    let line = format!("{} {}", croft.display(), arguments.join(" "));
    runtime::run(async move {
        let output = command.output().await.with_context(|| format!("running {line}"))?;
        ensure!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8(output.stdout)?)
    })
    .await
}

/// Applies manifests as the administrator.
pub async fn apply(bed: &Testbed, manifests: &str) -> Result<()> {
    let arguments = ["apply", "--server-side", "--force-conflicts", "--validate=ignore", "-f", "-"];
    bed.admin().kubectl_stdin(&arguments, manifests).await?;
    Ok(())
}

/// The testbed's Ceph, for every claim that names no class.
pub async fn make_class(bed: &Testbed, ceph: &Ceph) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "ceph-admin", "namespace": NAMESPACE },
        "stringData": { "accessKey": ceph.access_key, "secretKey": ceph.secret_key },
    });
    let class = json!({
        "apiVersion": "s3.snappcloud.io/v1alpha1",
        "kind": "S3Class",
        "metadata": { "name": "default" },
        "spec": {
            "endpoint": ceph.endpoint,
            "region": ceph.region,
            "tenantPrefix": "croft",
            "adminSecret": { "name": "ceph-admin" },
            "default": true,
        },
    });
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [secret, class] }).to_string();
    // A new kind is served a moment after its CRD was accepted.
    wait::until("the S3Class `default` to be accepted", CLASS_LIMIT, || async { apply(bed, &list).await.map(Some) })
        .await
}
