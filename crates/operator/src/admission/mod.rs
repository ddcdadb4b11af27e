//! The admission server: refuses at the door what the reconcilers could not carry out.
//!
//! Guarantees:
//! - what an object says of itself is judged from memory; only what is judged beside others may cost a call;
//! - every review has a deadline below that of the API server, and says so in a way clients try again;
//! - an update is refused only for a problem it brings, so finalizers can always be released and old objects edited;
//! - every request is answered in a few words, whatever is in it, and a panic in one review ends that review and nothing else;
//! - every replica serves, leading or not;
//! - certificates change without a restart; leafs of our own authority, and that authority itself, without a moment in
//!   which the API server does not trust us;
//! - of all webhook configurations only our own, [`CONFIGURATION`], is touched, and of it only `caBundle`.

#![cfg_attr(
    not(test),
    warn(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::todo,
        clippy::unimplemented,
        clippy::unreachable,
        clippy::unwrap_used,
    )
)]

mod answers;
mod authority;
mod bodies;
mod certificates;
mod configuration;
mod context;
mod hooks;
mod injection;
mod refusal;
mod review;
mod scopes;
mod server;
mod succession;

use std::sync::Arc;

use kube::{Api, Client};
use tokio::{net::TcpListener, sync::watch};

pub use self::context::Grounds;
pub use self::server::ServingCertificate;
pub use self::{
    certificates::CA_SECRET,
    configuration::{CONFIGURATION, WebhookTarget, webhook_configuration},
};
use self::{certificates::Certificates, hooks::HOOKS};
pub(crate) use self::{
    context::Context,
    hooks::{Hook, Operation, Review, WhenDown},
    refusal::Refusal,
    review::{Checked, Request, Rule, Verdict, review},
    scopes::ClusterScoped,
};
use crate::{
    connections::End,
    engine::{Writer, watch::Surroundings},
    panics::restarted,
    rbac::{Use, Within},
    settings::SharedSettings,
    telemetry::metrics::Metrics,
};

/// The rights used here. Those on the configuration are granted for [`CONFIGURATION`] alone.
pub const USES: &[Use] = &[
    Use {
        group: "",
        resource: "secrets",
        verbs: &["create", "list", "patch", "watch"],
        within: Within::OperatorNamespace,
    },
    Use {
        group: "admissionregistration.k8s.io",
        resource: "validatingwebhookconfigurations",
        verbs: &["list", "patch", "watch"],
        within: Within::Cluster,
    },
];

/// Where the API server finds us.
#[derive(Clone, Debug)]
pub struct AdmissionOptions {
    pub operator_namespace: String,
    /// Name of the Service in front of the replicas.
    pub service: String,
    /// IP addresses and names the API server may call us by, besides the Service's.
    pub extra_hosts: Vec<String>,
}

impl AdmissionOptions {
    /// The names our certificate is good for.
    fn hosts(&self) -> Vec<String> {
        let service = format!("{}.{}.svc", self.service, self.operator_namespace);
        std::iter::once(service).chain(self.extra_hosts.iter().cloned()).collect()
    }
}

/// Where requests come in, what is known there, and where it is counted what went wrong with them.
#[derive(Debug)]
pub struct Door {
    pub listener: TcpListener,
    pub certificate: Arc<ServingCertificate>,
    pub metrics: Arc<Metrics>,
    pub grounds: Grounds,
}

/// Serves until the end is here, keeps the certificate fresh and the API server's trust in it.
pub async fn run(
    options: AdmissionOptions,
    client: Client,
    settings: SharedSettings,
    door: Door,
    surroundings: Surroundings,
    end: End,
) {
    let stop = end.here.clone();
    let cluster_scoped = ClusterScoped::default();
    let (trust, trusted) = watch::channel(None);
    let certificates = Certificates {
        secrets: Api::namespaced(client.clone(), &options.operator_namespace),
        surroundings: surroundings.clone(),
        writer: Writer::new(client.clone()),
        hosts: options.hosts(),
        namespace: options.operator_namespace,
        settings,
        serving: door.certificate.clone(),
        trust,
    };
    let context = Context::new(cluster_scoped.clone(), door.grounds);
    let routes = answers::routes(&HOOKS, &context, &door.metrics);
    let metrics = door.metrics.as_ref();
    tokio::join!(
        server::serve(door.listener, door.certificate, certificates.settings.clone(), routes, end),
        stop.run_until_cancelled(restarted("scopes", metrics, || {
            cluster_scoped.clone().keep(client.clone(), surroundings.kinds.changes())
        })),
        stop.run_until_cancelled(restarted("certificates", metrics, || certificates.keep())),
        stop.run_until_cancelled(restarted("trust", metrics, || {
            injection::keep(client.clone(), surroundings.clone(), trusted.clone())
        })),
    );
}
