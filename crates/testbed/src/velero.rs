//! The Velero part: CRDs, namespace and the real server process with its AWS object-store plugin.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, anyhow};
use futures::future::try_join_all;
use k8s_openapi::{
    api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

use crate::{
    identity::Identity,
    parts::VeleroParts,
    ports::PortBlock,
    process::{self, Process},
    rundir::RunDir,
    runtime, wait,
};

pub(crate) const NAMESPACE: &str = "velero";
const START_LIMIT: Duration = Duration::from_secs(60);

/// A running Velero server.
#[derive(Debug)]
pub struct Velero {
    pub namespace: String,
    server: Process,
    _block: PortBlock,
}

impl Velero {
    /// `account` is the server's own identity, with the rights of a cluster administrator.
    pub(crate) async fn start(parts: &VeleroParts, run: &RunDir, admin: &Client, account: &Identity) -> Result<Self> {
        create_deployment(admin).await?;
        let block = PortBlock::reserve()?;
        let dir = run.sub("velero")?;
        let command = server_command(parts, run, &block, account)?;
        let server = process::spawn_family("velero", &command, &dir.join("server.log"))?;
        let velero = Self { namespace: NAMESPACE.to_owned(), server, _block: block };
        velero.wait_until_it_serves(admin).await?;
        Ok(velero)
    }

    /// Everything the server has logged.
    pub fn log(&self) -> String {
        self.server.log()
    }

    pub fn process(&self) -> &Process {
        &self.server
    }

    /// Its own controllers answer a status request: they run, and the plugins are loaded.
    async fn wait_until_it_serves(&self, admin: &Client) -> Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("velero.io", "v1", "ServerStatusRequest"));
        let requests = Api::<DynamicObject>::namespaced_with(admin.clone(), NAMESPACE, &kind);
        let mut question = DynamicObject::new("", &kind).data(json!({ "spec": {} }));
        question.metadata = ObjectMeta { generate_name: Some("testbed-".into()), ..ObjectMeta::default() };
        let name = requests.create(&PostParams::default(), &question).await?.name_any();
        wait::until("Velero to answer a status request", START_LIMIT, || async {
            if let Err(ended) = self.server.ensure_running() {
                return Ok(Some(Err(ended)));
            }
            let answered = requests.get(&name).await?.data.pointer("/status/phase") == Some(&json!("Processed"));
            Ok(answered.then_some(Ok(())))
        })
        .await
        .map_err(|error| anyhow!("{error:#}\n{}", self.server.log_tail()))?
    }
}

/// Velero's own CRDs, applied and established.
pub(crate) async fn install_crds(parts: &VeleroParts, admin: &Client) -> Result<()> {
    let program = parts.server.clone();
    let printed = runtime::run_blocking(move || {
        let output = Command::new(program)
            .args(["install", "--crds-only", "--dry-run", "-o", "json"])
            .output()
            .context("running velero install --crds-only")?;
        serde_json::from_slice::<serde_json::Value>(&output.stdout)
            .with_context(|| format!("velero install: {}", String::from_utf8_lossy(&output.stderr)))
    })
    .await?;
    let crds: Vec<CustomResourceDefinition> =
        serde_json::from_value(printed["items"].clone()).context("velero install printed something else than CRDs")?;
    try_join_all(crds.iter().map(|crd| install_crd(admin, crd))).await?;
    Ok(())
}

async fn install_crd(admin: &Client, crd: &CustomResourceDefinition) -> Result<()> {
    let crds = Api::<CustomResourceDefinition>::all(admin.clone());
    let name = crd.name_any();
    crds.patch(&name, &PatchParams::apply("croft-testbed").force(), &Patch::Apply(crd)).await?;
    wait::until_true(&format!("CRD {name} to be established"), START_LIMIT, || async {
        let conditions = crds.get(&name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True"))
    })
    .await
}

/// A restore action reads the server's Deployment: without one every restore ends `PartiallyFailed`.
async fn create_deployment(admin: &Client) -> Result<()> {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": { "name": "velero" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "deploy": "velero" } },
            "template": {
                "metadata": { "labels": { "deploy": "velero" } },
                "spec": { "containers": [{ "name": "velero", "image": "velero/velero" }] },
            },
        },
    }))?;
    Api::<Deployment>::namespaced(admin.clone(), NAMESPACE)
        .patch("velero", &PatchParams::apply("croft-testbed").force(), &Patch::Apply(&deployment))
        .await?;
    Ok(())
}

/// Short periods and no client-side rate limit: the same behaviour, sooner.
fn server_command(parts: &VeleroParts, run: &RunDir, block: &PortBlock, account: &Identity) -> Result<Command> {
    let plugins = run.sub("velero/plugins")?;
    link(&parts.aws_plugin, &plugins.join("velero-plugin-for-aws"))?;
    // Credentials of storage locations go to $TMPDIR/credentials: every instance needs its own.
    let temporary = run.sub("velero/tmp")?;
    let mut command = process::in_go(&parts.server);
    command
        .args(["server", "--namespace", NAMESPACE])
        .arg("--kubeconfig")
        .arg(&account.kubeconfig)
        .arg("--plugin-dir")
        .arg(plugins)
        .arg(format!("--metrics-address=127.0.0.1:{}", block.get(0)))
        .arg(format!("--profiler-address=127.0.0.1:{}", block.get(1)))
        .args(["--store-validation-frequency=1s", "--backup-sync-period=1s", "--item-operation-sync-frequency=1s"])
        .args(["--client-qps=1000", "--client-burst=2000"])
        .env("VELERO_NAMESPACE", NAMESPACE)
        .env("VELERO_SCRATCH_DIR", run.sub("velero/scratch")?)
        .env("TMPDIR", temporary)
        .env("HOME", run.sub("velero/home")?);
    Ok(command)
}

fn link(target: &Path, name: &Path) -> Result<()> {
    if name.is_symlink() {
        return Ok(());
    }
    std::os::unix::fs::symlink(target, name).with_context(|| format!("linking {}", name.display()))
}
