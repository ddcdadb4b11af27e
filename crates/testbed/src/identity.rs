//! Who talks to the API server: a kubeconfig, a client and kubectl for one real user or service account.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{Cluster, KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::{pki::Pair, rundir::write_private, runtime};

/// A user or service account with everything needed to act as it.
#[derive(Clone)]
pub struct Identity {
    /// As the API server sees it, e.g. `system:serviceaccount:croft:operator`.
    pub name: String,
    pub kubeconfig: PathBuf,
    pub client: Client,
    /// The bearer token; users with a client certificate have none.
    pub token: Option<String>,
    config: Config,
    kubectl: PathBuf,
}

pub(crate) enum Credential {
    Token(String),
    Certificate(Pair),
}

/// What every identity of one cluster shares.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) cluster: Cluster,
    pub(crate) kubectl: PathBuf,
    /// Where kubeconfig files go.
    pub(crate) dir: PathBuf,
}

impl Access {
    pub(crate) async fn identity(&self, name: &str, credential: Credential) -> Result<Identity> {
        let user = match credential {
            Credential::Token(token) => json!({ "token": token }),
            Credential::Certificate(pair) => json!({
                "client-certificate-data": BASE64_STANDARD.encode(&pair.certificate),
                "client-key-data": BASE64_STANDARD.encode(&pair.key),
            }),
        };
        let path = self.dir.join(format!("{}-{:08x}.kubeconfig", file_name(name), rand::random::<u32>()));
        write_kubeconfig(&path, &json!(self.cluster), &user)?;
        self.load(name, path).await
    }

    /// The identity of an existing kubeconfig file.
    pub(crate) async fn load(&self, name: &str, path: PathBuf) -> Result<Identity> {
        let kubeconfig = Kubeconfig::read_from(&path).with_context(|| format!("reading {}", path.display()))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A proxy of the environment is for the outside world, not for this machine's loopback.
        config.proxy_url = self.cluster.proxy_url.as_ref().map(|url| url.parse()).transpose()?;
        Ok(Identity {
            name: name.to_owned(),
            kubeconfig: path,
            client: runtime::client(config.clone())?,
            token: json!(config.auth_info)["token"].as_str().map(str::to_owned),
            config,
            kubectl: self.kubectl.clone(),
        })
    }
}

impl Identity {
    /// The client configuration, for a client of one's own.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// What kubectl prints; what it complains about becomes the error.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl_stdin(arguments, "").await
    }

    pub async fn kubectl_stdin(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .env("KUBECACHEDIR", self.kubeconfig.with_extension("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let input = input.to_owned();
        let line = format!("kubectl {} as {}", arguments.join(" "), self.name);
        runtime::run(async move {
            let mut child = command.spawn().with_context(|| format!("starting {line}"))?;
            if let Some(mut stdin) = child.stdin.take() {
                // kubectl may end without reading; its status tells the rest.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            let output = child.wait_with_output().await?;
            if !output.status.success() {
                bail!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        })
        .await
    }

    /// The API server's own answer to "may I"; `resource` is `plural` or `group/plural`.
    pub async fn can(&self, verb: &str, resource: &str, namespace: Option<&str>) -> Result<bool> {
        let (group, plural) = resource.split_once('/').unwrap_or(("", resource));
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    group: Some(group.to_owned()),
                    resource: Some(plural.to_owned()),
                    namespace: namespace.map(str::to_owned),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// Without the token.
impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Identity")
            .field("name", &self.name)
            .field("kubeconfig", &self.kubeconfig)
            .finish_non_exhaustive()
    }
}

/// One cluster, one user, one context.
pub(crate) fn write_kubeconfig(path: &Path, cluster: &serde_json::Value, user: &serde_json::Value) -> Result<()> {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "testbed", "cluster": cluster }],
        "users": [{ "name": "testbed", "user": user }],
        "contexts": [{ "name": "testbed", "context": { "cluster": "testbed", "user": "testbed" } }],
        "current-context": "testbed",
    });
    write_private(path, serde_json::to_vec_pretty(&kubeconfig)?)
}

fn file_name(identity: &str) -> String {
    identity.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
