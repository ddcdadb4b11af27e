//! The Kubernetes part: etcd, kube-apiserver and kube-controller-manager, or the cluster `KUBECONFIG` names.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::{
    Api, Client,
    config::{Cluster, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{
    Place, Want, http_client,
    identity::{Access, Credential, Identity},
    parts::Parts,
    pki::{Authority, signing_keys},
    ports::PortBlock,
    process::{self, Process},
    rundir::{RunDir, write_private},
    wait,
};

const START_LIMIT: Duration = Duration::from_secs(180);
/// Whoever collects garbage on request does so by himself when he has this much.
pub(crate) const MOST_GARBAGE: &str = "6GiB";
const SERVICES: &str = "10.0.0.0/24";
/// The first of [`SERVICES`]: the API server as pods reach it.
const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

pub(crate) struct Kubernetes {
    pub(crate) access: Access,
    pub(crate) admin: Identity,
    own: Option<ControlPlane>,
}

impl Kubernetes {
    /// One of its own, unless a cluster is given.
    pub(crate) async fn start(parts: &Parts, run: &RunDir, want: Want, given: Option<PathBuf>) -> Result<Self> {
        match given {
            Some(path) => Self::existing(parts, run, path).await,
            None => Self::own(parts, run, want).await,
        }
    }

    async fn own(parts: &Parts, run: &RunDir, want: Want) -> Result<Self> {
        let files = Files::create(run, want)?;
        let block = PortBlock::reserve()?;
        let access = Access {
            cluster: Cluster {
                server: Some(format!("https://{}:{}", want.place.address(), block.get(API_SERVER))),
                certificate_authority_data: Some(BASE64_STANDARD.encode(&files.ca)),
                ..Cluster::default()
            },
            kubectl: parts.kubectl.clone(),
            dir: run.sub("identities")?,
        };
        let admin = access.identity("admin", Credential::Token(files.admin_token.clone())).await?;
        let own = ControlPlane::start(parts, files, block, &admin, want).await?;
        if let Some(version) = &parts.version {
            own.is_of(version).await?;
        }
        Ok(Self { access, admin, own: Some(own) })
    }

    async fn existing(parts: &Parts, run: &RunDir, path: PathBuf) -> Result<Self> {
        eprintln!(
            "testbed: using the cluster of KUBECONFIG={} (CROFT_TESTBED_OWN=1 starts one instead)",
            path.display()
        );
        let access = Access {
            cluster: current_cluster(&Kubeconfig::read_from(&path)?)?,
            kubectl: parts.kubectl.clone(),
            dir: run.sub("identities")?,
        };
        let admin = access.load("admin", path).await?;
        Ok(Self { access, admin, own: None })
    }

    pub(crate) fn control_plane(&self) -> Result<&ControlPlane> {
        self.own
            .as_ref()
            .context("the cluster of KUBECONFIG is not ours to stop: unset KUBECONFIG or set CROFT_TESTBED_OWN=1")
    }
}

/// The cluster that the user of the tests gives them.
pub(crate) fn given() -> Option<PathBuf> {
    if std::env::var_os("CROFT_TESTBED_OWN").is_some() {
        return None;
    }
    std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn current_cluster(kubeconfig: &Kubeconfig) -> Result<Cluster> {
    let context = kubeconfig.current_context.as_deref().context("KUBECONFIG has no current context")?;
    let cluster = kubeconfig
        .contexts
        .iter()
        .find(|named| named.name == context)
        .and_then(|named| named.context.as_ref())
        .map(|context| &context.cluster);
    kubeconfig
        .clusters
        .iter()
        .find(|named| Some(&named.name) == cluster)
        .and_then(|named| named.cluster.clone())
        .with_context(|| format!("KUBECONFIG has no cluster for its current context {context}"))
}

/// Places in the port block.
const ETCD_CLIENT: u16 = 0;
const ETCD_PEER: u16 = 1;
const API_SERVER: u16 = 2;
const CONTROLLER_MANAGER: u16 = 3;

/// Keys, certificates and data directories of one control plane.
struct Files {
    dir: PathBuf,
    ca: String,
    admin_token: String,
}

impl Files {
    fn create(run: &RunDir, want: Want) -> Result<Self> {
        let dir = run.sub("kubernetes")?;
        let authority = Authority::new()?;
        let server = authority.server(&[want.place.address(), API_SERVICE])?;
        let admin_token = format!("{:032x}", rand::random::<u128>());
        let (signing_key, signing_key_public) = signing_keys()?;
        for (name, content) in [
            ("ca.crt", authority.certificate()),
            ("ca.key", &authority.key()),
            ("server.crt", &server.certificate),
            ("server.key", &server.key),
            ("service-account.key", &signing_key),
            ("service-account.pub", &signing_key_public),
            ("tokens.csv", &format!("{admin_token},admin,admin,\"system:masters\"\n")),
        ] {
            write_private(&dir.join(name), content)?;
        }
        Ok(Self { ca: authority.certificate().to_owned(), dir, admin_token })
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_string_lossy().into_owned()
    }
}

/// Daemons of our own, each dying with us.
pub(crate) struct ControlPlane {
    controller_manager: OnceLock<Process>,
    api_server: Mutex<Option<Process>>,
    etcd: Process,
    api_server_program: PathBuf,
    want: Want,
    files: Files,
    block: PortBlock,
    client: Client,
}

impl ControlPlane {
    async fn start(parts: &Parts, files: Files, block: PortBlock, admin: &Identity, want: Want) -> Result<Self> {
        let etcd = start(&files, &etcd_command(&parts.etcd, &files, &block))?;
        let plane = Self {
            controller_manager: OnceLock::new(),
            api_server: Mutex::new(None),
            etcd,
            api_server_program: parts.kube_apiserver.clone(),
            want,
            files,
            block,
            client: admin.client.clone(),
        };
        plane.start_api_server().await?;
        // Only now: the controller manager waits ten seconds for an API server and then gives up.
        plane.start_controllers(&parts.kube_controller_manager, admin).await?;
        Ok(plane)
    }

    /// Binaries that were brought along may be of another Kubernetes than was asked for.
    async fn is_of(&self, version: &str) -> Result<()> {
        let runs = self.client.apiserver_version().await?.git_version;
        ensure!(
            runs.starts_with(&format!("v{version}.")),
            "{} is Kubernetes {runs}, not {version}: unset KUBEBUILDER_ASSETS or {}",
            self.api_server_program.display(),
            crate::parts::VERSION
        );
        Ok(())
    }

    pub(crate) fn stop_api_server(&self) {
        self.api_server.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    pub(crate) async fn start_api_server(&self) -> Result<()> {
        {
            let mut api_server = self.api_server.lock().unwrap_or_else(PoisonError::into_inner);
            if api_server.is_none() {
                let mut command =
                    api_server_command(&self.api_server_program, &self.files, &self.block, self.want.place);
                if self.want.collects_on_request {
                    command.env("GOGC", "off").env("GOMEMLIMIT", MOST_GARBAGE);
                }
                *api_server = Some(start(&self.files, &command)?);
            }
        }
        self.wait_for_api_server().await
    }

    pub(crate) fn stop_controllers(&self) {
        if let Some(controllers) = self.controller_manager.get() {
            controllers.kill();
        }
    }

    /// Forgets all history but the newest revision.
    pub(crate) async fn compact_etcd(&self) -> Result<()> {
        let url = format!("http://127.0.0.1:{}/v3/kv", self.block.get(ETCD_CLIENT));
        let key = BASE64_STANDARD.encode("compact");
        let range = http_client::post_json(&format!("{url}/range"), &json!({ "key": key })).await?;
        let revision = range.pointer("/header/revision").and_then(Value::as_str).context("etcd told no revision")?;
        http_client::post_json(&format!("{url}/compaction"), &json!({ "revision": revision, "physical": true }))
            .await?;
        Ok(())
    }

    pub(crate) fn rss_kib(&self) -> Vec<(&'static str, u64)> {
        let api_server = self.api_server.lock().unwrap_or_else(PoisonError::into_inner);
        vec![
            ("etcd", self.etcd.rss_kib()),
            ("kube-apiserver", api_server.as_ref().map_or(0, Process::rss_kib)),
            ("kube-controller-manager", self.controller_manager.get().map_or(0, Process::rss_kib)),
        ]
    }

    async fn wait_for_api_server(&self) -> Result<()> {
        wait::until("the API server to be ready", START_LIMIT, || async {
            if let Err(ended) = self.ensure_running() {
                return Ok(Some(Err(ended)));
            }
            let ready = self.client.request_text(http::Request::get("/readyz").body(Vec::new())?).await?;
            Ok((ready == "ok").then_some(Ok(())))
        })
        .await
        .map_err(|error| anyhow!("{error:#}\n{}", self.api_server_log()))?
    }

    /// The two objects every namespace gets show that the controllers work, not only run.
    async fn start_controllers(&self, program: &Path, admin: &Identity) -> Result<()> {
        let mut command = controller_manager_command(program, &self.files, &self.block, &admin.kubeconfig);
        if self.want.place == Place::Node {
            // Else a pod with a volume sometimes waits for fifteen seconds.
            command.arg("--pvclaimbinder-sync-period=1s");
        }
        let started = start(&self.files, &command)?;
        let controller_manager = self.controller_manager.get_or_init(|| started);
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), "default");
        let config_maps = Api::<ConfigMap>::namespaced(self.client.clone(), "default");
        wait::until("the controller manager to work", START_LIMIT, || async {
            if let Err(ended) = controller_manager.ensure_running() {
                return Ok(Some(Err(ended)));
            }
            let account = accounts.get_opt("default").await?;
            let root_ca = config_maps.get_opt("kube-root-ca.crt").await?;
            Ok(account.and(root_ca).map(|_| Ok(())))
        })
        .await
        .with_context(|| controller_manager.log_tail())?
    }

    fn ensure_running(&self) -> Result<()> {
        self.etcd.ensure_running()?;
        match &*self.api_server.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(api_server) => api_server.ensure_running(),
            None => bail!("the API server was stopped"),
        }
    }

    fn api_server_log(&self) -> String {
        let api_server = self.api_server.lock().unwrap_or_else(PoisonError::into_inner);
        api_server.as_ref().map(Process::log_tail).unwrap_or_default()
    }
}

fn start(files: &Files, command: &Command) -> Result<Process> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    process::spawn(&name, command, &files.dir.join(format!("{name}.log")))
}

fn etcd_command(program: &Path, files: &Files, block: &PortBlock) -> Command {
    let client = format!("http://127.0.0.1:{}", block.get(ETCD_CLIENT));
    let peer = format!("http://127.0.0.1:{}", block.get(ETCD_PEER));
    let mut command = process::in_go(program);
    command.args([
        format!("--data-dir={}", files.path("etcd")),
        "--unsafe-no-fsync".into(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=error".into(),
    ]);
    command
}

fn api_server_command(program: &Path, files: &Files, block: &PortBlock, place: Place) -> Command {
    let mut command = process::in_go(program);
    command.args([
        format!("--etcd-servers=http://127.0.0.1:{}", block.get(ETCD_CLIENT)),
        format!("--bind-address={}", place.address()),
        format!("--secure-port={}", block.get(API_SERVER)),
        format!("--cert-dir={}", files.path("api-server")),
        format!("--tls-cert-file={}", files.path("server.crt")),
        format!("--tls-private-key-file={}", files.path("server.key")),
        format!("--client-ca-file={}", files.path("ca.crt")),
        format!("--token-auth-file={}", files.path("tokens.csv")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-signing-key-file={}", files.path("service-account.key")),
        format!("--service-account-key-file={}", files.path("service-account.pub")),
        "--authorization-mode=RBAC".into(),
        // As OpenShift does: whoever names an owner that waits for what it owns needs a right on the owner.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement".into(),
        format!("--service-cluster-ip-range={SERVICES}"),
    ]);
    if place == Place::Node {
        command.args(["--kubelet-preferred-address-types=InternalIP", "--allow-privileged"]);
    }
    command
}

/// More workers and no client-side rate limit: the same behaviour, sooner.
fn controller_manager_command(program: &Path, files: &Files, block: &PortBlock, kubeconfig: &Path) -> Command {
    let mut command = process::in_go(program);
    command.args([
        format!("--kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", block.get(CONTROLLER_MANAGER)),
        format!("--cert-dir={}", files.path("controller-manager")),
        "--leader-elect=false".into(),
        "--use-service-account-credentials=false".into(),
        format!("--service-account-private-key-file={}", files.path("service-account.key")),
        format!("--root-ca-file={}", files.path("ca.crt")),
        format!("--cluster-signing-cert-file={}", files.path("ca.crt")),
        format!("--cluster-signing-key-file={}", files.path("ca.key")),
        "--kube-api-qps=2000".into(),
        "--kube-api-burst=4000".into(),
        "--concurrent-namespace-syncs=50".into(),
        "--concurrent-gc-syncs=50".into(),
        "--concurrent-resource-quota-syncs=20".into(),
        "--concurrent-serviceaccount-token-syncs=20".into(),
        "--namespace-sync-period=30s".into(),
    ]);
    command
}
