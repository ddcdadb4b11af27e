//! The admission server: refuses at the door what the reconcilers could not carry out.
//!
//! Guarantees:
//! - answers come from memory only; there is no API call in the path of a request;
//! - an update is refused only for a problem it brings, so finalizers can always be released and old objects edited;
//! - every replica serves, leading or not;
//! - certificates change without a restart; leafs of our own authority, and that authority itself, without a moment in
//!   which the API server does not trust us;
//! - of all webhook configurations only our own, [`CONFIGURATION`], is touched, and of it only `caBundle`.

mod authority;
mod certificates;
mod configuration;
mod hooks;
mod injection;
mod review;
mod scopes;
mod server;

use std::{net::SocketAddr, sync::Arc};

use kube::{Api, Client};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

pub use self::server::ServingCertificate;
pub use self::{
    certificates::CA_SECRET,
    configuration::{CONFIGURATION, WebhookTarget, webhook_configuration},
};
use self::{certificates::Certificates, scopes::ClusterScoped};
use crate::{
    engine::{Writer, watch::Surroundings},
    rbac::{Use, Within},
    settings::SharedSettings,
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
    pub listen: SocketAddr,
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

/// Serves until `stop`, keeps the certificate fresh and the API server's trust in it.
pub async fn run(
    options: AdmissionOptions,
    client: Client,
    settings: SharedSettings,
    listener: TcpListener,
    serving: Arc<ServingCertificate>,
    surroundings: Surroundings,
    stop: CancellationToken,
) {
    let cluster_scoped = ClusterScoped::default();
    let (trust, trusted) = watch::channel(None);
    let certificates = Certificates {
        secrets: Api::namespaced(client.clone(), &options.operator_namespace),
        surroundings: surroundings.clone(),
        writer: Writer::new(client.clone()),
        hosts: options.hosts(),
        namespace: options.operator_namespace,
        settings,
        serving: serving.clone(),
        trust,
    };
    tokio::join!(
        server::serve(listener, serving, cluster_scoped.clone(), stop.clone()),
        stop.run_until_cancelled(cluster_scoped.keep(client.clone(), surroundings.kinds.changes())),
        stop.run_until_cancelled(certificates.keep()),
        stop.run_until_cancelled(injection::keep(client, surroundings, trusted)),
    );
}
