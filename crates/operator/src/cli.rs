//! The command line.

mod manifests;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

pub use self::manifests::{ManifestOptions, ValueOptions};
use crate::{
    engine::Part,
    parts,
    preview::Format,
    steering::{self, PauseOptions, RollbackOptions},
    telemetry::logs::LogFormat,
    uninstall::{self, UninstallOptions},
};

/// Croft gives the tenants of a Kubernetes cluster a plot of their own: a namespace furnished from a class, object storage
/// on Ceph with exact quotas, and backups and restores on Velero, by self-service and inside fences the administrator sets.
#[derive(Debug, Parser)]
#[command(
    name = "croft",
    version,
    max_term_width = 110,
    after_help = "\
First steps:
  croft manifests --image IMAGE | kubectl apply --server-side -f -     install into the cluster of your kubeconfig
  croft run                                                            or run outside of it, as the current user
  croft plan team.yaml                                                 what a class would do, before it does it
  kubectl label namespace team-a namespaceclass.akuity.io/name=team"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator until SIGTERM or Ctrl-C
    Run(RunOptions),
    /// Print the CustomResourceDefinitions as YAML
    Crds,
    /// Print everything an installation needs as YAML: namespace, CRDs, rights, webhook, Deployment
    Manifests(ManifestOptions),
    /// Print the choices an installation has, each with its default, as YAML for `croft manifests --values` and for Helm
    Values(ValueOptions),
    /// Tell what a `NamespaceClass` would do to the cluster as it is; changes nothing
    ///
    /// Every namespace that has the class or asks for it is planned as the operator would plan it, and every step is sent to the
    /// API server as a dry run, with the rights of the current user: what is refused then is refused for a reason worth knowing.
    #[command(after_help = PLAN_HELP)]
    Plan(PlanOptions),
    /// Tell which class put an object into a namespace, whether it is as it should be, and what would remove it
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainOptions),
    /// Let a `NamespaceClass` say again what it said before
    #[command(after_help = steering::ROLLBACK_HELP)]
    Rollback(RollbackOptions),
    /// Leave every namespace of a `NamespaceClass` at the revision it has
    #[command(after_help = steering::PAUSE_HELP)]
    Pause(PauseOptions),
    /// Roll a paused `NamespaceClass` out
    #[command(after_help = steering::PAUSE_HELP)]
    Resume(PauseOptions),
    /// Take Croft out of the cluster; `--dry-run` says what that would do
    #[command(after_help = uninstall::HELP)]
    Uninstall(UninstallOptions),
    /// Print the version, and the commit it was built of
    Version,
}

const PLAN_HELP: &str = "\
Exit code: 0 nothing would change, 1 something would change, 2 problems (an invalid class, conflicts, refusals).

Examples:
  croft plan team.yaml                    every namespace that has class `team` or is labelled with it
  croft plan team.yaml -n team-a          as if namespace team-a were labelled with it
  croft plan team --to 3                  as if class `team` said again what its revision 3 said
  croft plan --delete team                as if class `team` were deleted
  croft plan --unlabel -n team-a          as if namespace team-a were labelled no more
  kubectl get namespaceclass team -o yaml | croft plan -
  croft plan team.yaml -o json | jq .sum";

const EXPLAIN_HELP: &str = "\
Exit code: 0 a class put it there, 1 no class did, 2 it cannot be told (no such kind or object, no cluster).

Examples:
  croft explain networkpolicy/deny-all -n team-a
  croft explain cm/settings -n team-a
  croft explain s3userclaims.s3.snappcloud.io/app -n team-a";

/// Which cluster, and as whom.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterOptions {
    /// The file that names the cluster; default: KUBECONFIG, else the cluster this pod runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of that file to use; default: its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,

    /// Act as this user, as `kubectl --as` does
    #[arg(long = "as", value_name = "USER")]
    pub as_user: Option<String>,

    /// Act as a member of this group, too; may be given several times
    #[arg(long, value_name = "GROUP", requires = "as_user")]
    pub as_group: Vec<String>,
}

#[derive(Debug, Args)]
pub struct RunOptions {
    /// YAML file with settings; read again whenever it changes
    #[arg(long, env = "CROFT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The parts to run
    #[arg(
        long,
        env = "CROFT_ENABLE",
        value_delimiter = ',',
        value_parser = parts::value_parser(),
        default_values = parts::names(),
        value_name = "PARTS"
    )]
    pub enable: Vec<Part>,

    #[command(flatten)]
    pub cluster: ClusterOptions,

    /// The operator's own namespace: its lease and certificates live there
    #[arg(long, env = "CROFT_NAMESPACE", default_value = "croft-system", value_name = "NAME")]
    pub namespace: String,

    /// Name of this replica in the lease; default: host name and process id
    #[arg(long, env = "CROFT_IDENTITY", value_name = "NAME")]
    pub identity: Option<String>,

    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, env = "CROFT_METRICS_LISTEN", default_value = "[::]:8080", value_name = "ADDRESS")]
    pub metrics_listen: SocketAddr,

    /// Where the admission webhook is served over TLS
    #[arg(long, env = "CROFT_WEBHOOK_LISTEN", default_value = "[::]:9443", value_name = "ADDRESS")]
    pub webhook_listen: SocketAddr,

    /// How the API server reaches the webhook, if not through the Service: for running outside the cluster
    #[arg(long, env = "CROFT_WEBHOOK_URL", value_name = "URL")]
    pub webhook_url: Option<String>,

    /// What to log: a level, or a filter such as `info,croft=debug`
    #[arg(long, env = "CROFT_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,

    /// Logs for people or for machines
    #[arg(long, env = "CROFT_LOG_FORMAT", value_enum, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormat,
}

#[derive(Debug, Args)]
pub struct PlanOptions {
    /// File with one `NamespaceClass`, as YAML or JSON; `-` reads standard input. With --to the name of a class
    #[arg(value_name = "CLASS.yaml", required_unless_present_any = ["delete", "unlabel"])]
    pub class: Option<PathBuf>,

    /// Only this namespace, as if it were labelled with the class
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// As if the class said again what this revision of it said: a number, or the beginning of a digest
    #[arg(long, value_name = "REVISION", requires = "class")]
    pub to: Option<String>,

    /// As if this class were deleted
    #[arg(long, value_name = "CLASS", conflicts_with_all = ["class", "to", "unlabel", "namespace"])]
    pub delete: Option<String>,

    /// As if the label were taken off the namespace
    #[arg(long, requires = "namespace", conflicts_with_all = ["class", "to"])]
    pub unlabel: bool,

    /// The operator's own namespace: revisions are kept there
    #[arg(long, env = "CROFT_NAMESPACE", default_value = "croft-system", value_name = "NAME")]
    pub operator_namespace: String,

    #[command(flatten)]
    pub cluster: ClusterOptions,

    /// For people, or everything for programs
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
}

#[derive(Debug, Args)]
pub struct ExplainOptions {
    /// Kind and name of the object; the kind as kubectl takes it: `ConfigMap/a`, `configmaps/a`, `cm/a`
    #[arg(value_name = "KIND/NAME")]
    pub object: String,

    /// The namespace it is in; default: that of the context
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// The operator's own namespace, where revisions of classes are kept
    #[arg(long, env = "CROFT_NAMESPACE", default_value = "croft-system", value_name = "NAME")]
    pub operator_namespace: String,

    #[command(flatten)]
    pub cluster: ClusterOptions,
}
