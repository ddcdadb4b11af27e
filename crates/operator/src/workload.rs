//! The operator as it runs in a cluster: its Deployment, and the Service in front of the webhook.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector,
            PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext,
            Service, ServicePort, ServiceSpec,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};

use crate::{
    cli::ManifestOptions,
    manifests::{ACCOUNT, SERVICE},
};

const WEBHOOK_PORT: i32 = 9443;
const METRICS_PORT: i32 = 8080;

pub(crate) fn service(namespace: &str) -> Service {
    Service {
        metadata: ObjectMeta { name: Some(SERVICE.into()), namespace: Some(namespace.into()), ..ObjectMeta::default() },
        spec: Some(ServiceSpec {
            selector: Some(labels()),
            ports: Some(vec![ServicePort {
                name: Some("webhook".into()),
                port: 443,
                target_port: Some(IntOrString::Int(WEBHOOK_PORT)),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

pub(crate) fn deployment(options: &ManifestOptions) -> Deployment {
    Deployment {
        metadata: ObjectMeta {
            name: Some(ACCOUNT.into()),
            namespace: Some(options.namespace.clone()),
            labels: Some(labels()),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(2),
            selector: LabelSelector { match_labels: Some(labels()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels()), ..ObjectMeta::default() }),
                spec: Some(pod(options)),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn pod(options: &ManifestOptions) -> PodSpec {
    PodSpec {
        service_account_name: Some(ACCOUNT.into()),
        enable_service_links: Some(false),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        // Longer than what is under way may take to finish, and the lease to be handed over.
        termination_grace_period_seconds: Some(30),
        containers: vec![container(options)],
        ..PodSpec::default()
    }
}

fn container(options: &ManifestOptions) -> Container {
    let parts: Vec<_> = options.enable.iter().map(ToString::to_string).collect();
    Container {
        name: ACCOUNT.into(),
        image: Some(options.image.clone()),
        args: Some(vec!["run".into(), format!("--enable={}", parts.join(","))]),
        env: Some(vec![from_pod("CROFT_NAMESPACE", "metadata.namespace"), from_pod("CROFT_IDENTITY", "metadata.name")]),
        ports: Some(vec![port("webhook", WEBHOOK_PORT), port("metrics", METRICS_PORT)]),
        liveness_probe: Some(probe("/healthz")),
        readiness_probe: Some(Probe { period_seconds: Some(5), ..probe("/readyz") }),
        resources: Some(ResourceRequirements {
            requests: Some(amounts(&[("cpu", "50m"), ("memory", "32Mi")])),
            limits: Some(amounts(&[("memory", "256Mi")])),
            claims: None,
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

fn labels() -> BTreeMap<String, String> {
    [("app.kubernetes.io/name".to_owned(), ACCOUNT.to_owned())].into()
}

fn from_pod(name: &str, field: &str) -> EnvVar {
    let source = EnvVarSource {
        field_ref: Some(ObjectFieldSelector { field_path: field.into(), api_version: None }),
        ..EnvVarSource::default()
    };
    EnvVar { name: name.into(), value: None, value_from: Some(source) }
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort { name: Some(name.into()), container_port: number, ..ContainerPort::default() }
}

fn probe(path: &str) -> Probe {
    let request = HTTPGetAction {
        path: Some(path.into()),
        port: IntOrString::String("metrics".into()),
        ..HTTPGetAction::default()
    };
    Probe { http_get: Some(request), ..Probe::default() }
}

fn amounts(of: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    of.iter().map(|(resource, amount)| ((*resource).to_owned(), Quantity((*amount).to_owned()))).collect()
}
