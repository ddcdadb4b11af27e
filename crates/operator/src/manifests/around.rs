//! What stands around the Deployment: how many replicas may go at a time, who reaches them, who measures them, who certifies them.

use croft_api::yaml_document;
use k8s_openapi::{
    api::{
        networking::v1::{
            IPBlock, NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use serde_json::{Value, json};

use super::{
    ACCOUNT, Installation, METRICS_SERVICE, SERVICE,
    values::{IssuerKind, OwnNetworkPolicy},
    workload::{METRICS_PORT, WEBHOOK_PORT, labels, metrics_service},
};

/// Where cert-manager puts the certificate.
pub(crate) const CERTIFICATE: &str = "croft-webhook-certificate";

/// Each as a YAML document, those that were chosen.
pub(super) fn documents(installation: &Installation) -> Vec<String> {
    let (own, values) = (installation.namespace.as_str(), &installation.values);
    let mut documents = Vec::new();
    if values.pod_disruption_budget.enabled {
        documents.push(yaml_document(&budget(own, values.pod_disruption_budget.max_unavailable)));
    }
    if values.network_policy.enabled {
        documents.push(yaml_document(&network_policy(own, &values.network_policy)));
    }
    if values.service_monitor.enabled {
        documents.push(yaml_document(&metrics_service(own)));
        documents.push(yaml_document(&monitor(installation)));
    }
    if values.cert_manager.enabled {
        documents.extend(certificate(installation).iter().map(yaml_document));
    }
    documents
}

fn meta(own: &str) -> ObjectMeta {
    ObjectMeta { name: Some(ACCOUNT.into()), namespace: Some(own.into()), ..ObjectMeta::default() }
}

fn replicas() -> LabelSelector {
    LabelSelector { match_labels: Some(labels()), ..LabelSelector::default() }
}

fn budget(own: &str, most: i32) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: meta(own),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(most)),
            selector: Some(replicas()),
            ..PodDisruptionBudgetSpec::default()
        }),
        status: None,
    }
}

/// Whom the operator itself calls is not limited: gateways are where `S3Classes` say.
fn network_policy(own: &str, chosen: &OwnNetworkPolicy) -> NetworkPolicy {
    let callers = chosen.webhook_from.iter().map(|range| NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: range.clone(), except: None }),
        ..NetworkPolicyPeer::default()
    });
    NetworkPolicy {
        metadata: meta(own),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(replicas()),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(vec![from(callers.collect(), WEBHOOK_PORT), from(chosen.metrics_from.clone(), METRICS_PORT)]),
            egress: None,
        }),
    }
}

fn from(peers: Vec<NetworkPolicyPeer>, port: i32) -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        from: (!peers.is_empty()).then_some(peers),
        ports: Some(vec![NetworkPolicyPort {
            port: Some(IntOrString::Int(port)),
            protocol: Some("TCP".into()),
            end_port: None,
        }]),
    }
}

fn monitor(installation: &Installation) -> Value {
    let chosen = &installation.values.service_monitor;
    let mut metadata = json!({ "name": ACCOUNT, "namespace": installation.namespace });
    if !chosen.labels.is_empty() {
        metadata["labels"] = json!(chosen.labels);
    }
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": metadata,
        "spec": {
            "selector": { "matchLabels": { "app.kubernetes.io/component": METRICS_SERVICE } },
            "endpoints": [{ "port": "metrics", "interval": chosen.interval }],
        },
    })
}

/// The Certificate, and the Issuer where there is none to ask.
fn certificate(installation: &Installation) -> Vec<Value> {
    let (own, issuer) = (&installation.namespace, &installation.values.cert_manager.issuer);
    let (kind, name) = match issuer.name.as_str() {
        "" => (IssuerKind::Issuer, ACCOUNT),
        name => (issuer.kind, name),
    };
    let certificate = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": { "name": SERVICE, "namespace": own },
        "spec": {
            "secretName": CERTIFICATE,
            "dnsNames": [format!("{SERVICE}.{own}.svc"), format!("{SERVICE}.{own}.svc.cluster.local")],
            "issuerRef": { "group": "cert-manager.io", "kind": kind, "name": name },
        },
    });
    let of_its_own = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Issuer",
        "metadata": { "name": ACCOUNT, "namespace": own },
        "spec": { "selfSigned": {} },
    });
    if issuer.name.is_empty() { vec![of_its_own, certificate] } else { vec![certificate] }
}
