//! The operator as it runs in a cluster: its Deployment, and the Service in front of the webhook.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{
            Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction,
            LocalObjectReference, ObjectFieldSelector, PodSecurityContext, PodSpec, PodTemplateSpec, Probe,
            ResourceRequirements, SeccompProfile, SecurityContext, Service, ServicePort, ServiceSpec,
            TopologySpreadConstraint, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};

use super::{
    ACCOUNT, Installation, METRICS_SERVICE, SERVICE, SETTINGS_FILE,
    values::{LogForm, PullPolicy, Spread, WhenUnsatisfiable},
};

pub(super) const WEBHOOK_PORT: i32 = 9443;
pub(super) const METRICS_PORT: i32 = 8080;

/// Where the settings are mounted.
const SETTINGS_FOLDER: &str = "/etc/croft";
/// On pods: what they have read at their start and do not read again.
const STARTED_WITH: &str = "croft.dev/started-with";

pub(super) fn service(namespace: &str) -> Service {
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

pub(super) fn metrics_service(namespace: &str) -> Service {
    let component = [("app.kubernetes.io/component".to_owned(), METRICS_SERVICE.to_owned())];
    Service {
        metadata: ObjectMeta {
            name: Some(METRICS_SERVICE.into()),
            namespace: Some(namespace.into()),
            labels: Some(component.into()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            selector: Some(labels()),
            ports: Some(vec![ServicePort {
                name: Some("metrics".into()),
                port: METRICS_PORT,
                target_port: Some(IntOrString::String("metrics".into())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

pub(super) fn deployment(installation: &Installation) -> Deployment {
    let started_with = [(STARTED_WITH.to_owned(), installation.read_at_start())];
    Deployment {
        metadata: ObjectMeta {
            name: Some(ACCOUNT.into()),
            namespace: Some(installation.namespace.clone()),
            labels: Some(labels()),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(installation.values.replicas),
            selector: LabelSelector { match_labels: Some(labels()), ..LabelSelector::default() },
            strategy: Some(never_fewer()),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels()),
                    annotations: Some(started_with.into()),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(installation)),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// Admission is served all the time: a new replica is ready before an old one goes.
fn never_fewer() -> DeploymentStrategy {
    DeploymentStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDeployment {
            max_unavailable: Some(IntOrString::Int(0)),
            max_surge: Some(IntOrString::Int(1)),
        }),
    }
}

fn pod(installation: &Installation) -> PodSpec {
    let values = &installation.values;
    let secrets = values.image.pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() });
    PodSpec {
        service_account_name: Some(ACCOUNT.into()),
        automount_service_account_token: Some(true),
        enable_service_links: Some(false),
        image_pull_secrets: some(secrets.collect()),
        priority_class_name: Some(values.priority_class_name.clone()).filter(|name| !name.is_empty()),
        node_selector: Some(values.node_selector.clone()).filter(|labels| !labels.is_empty()),
        tolerations: some(values.tolerations.clone()),
        topology_spread_constraints: some(values.topology_spread.iter().map(spread).collect()),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".into(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        // Longer than what is under way may take to finish, and the lease to be handed over.
        termination_grace_period_seconds: Some(30),
        containers: vec![container(installation)],
        volumes: Some(vec![Volume {
            name: "settings".into(),
            config_map: Some(ConfigMapVolumeSource { name: ACCOUNT.into(), ..ConfigMapVolumeSource::default() }),
            ..Volume::default()
        }]),
        ..PodSpec::default()
    }
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}

fn spread(chosen: &Spread) -> TopologySpreadConstraint {
    let otherwise = match chosen.when_unsatisfiable {
        WhenUnsatisfiable::DoNotSchedule => "DoNotSchedule",
        WhenUnsatisfiable::ScheduleAnyway => "ScheduleAnyway",
    };
    TopologySpreadConstraint {
        topology_key: chosen.topology_key.clone(),
        max_skew: chosen.max_skew,
        when_unsatisfiable: otherwise.into(),
        label_selector: Some(LabelSelector { match_labels: Some(labels()), ..LabelSelector::default() }),
        ..TopologySpreadConstraint::default()
    }
}

fn container(installation: &Installation) -> Container {
    let values = &installation.values;
    let pull = match values.image.pull_policy {
        PullPolicy::Always => "Always",
        PullPolicy::IfNotPresent => "IfNotPresent",
        PullPolicy::Never => "Never",
    };
    Container {
        name: ACCOUNT.into(),
        image: Some(installation.image()),
        image_pull_policy: Some(pull.into()),
        args: Some(arguments(installation)),
        env: Some(vec![from_pod("CROFT_NAMESPACE", "metadata.namespace"), from_pod("CROFT_IDENTITY", "metadata.name")]),
        ports: Some(vec![port("webhook", WEBHOOK_PORT), port("metrics", METRICS_PORT)]),
        liveness_probe: Some(probe("/healthz")),
        readiness_probe: Some(Probe { period_seconds: Some(5), ..probe("/readyz") }),
        resources: Some(ResourceRequirements {
            requests: amounts(&values.resources.requests),
            limits: amounts(&values.resources.limits),
            claims: None,
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), add: None }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![VolumeMount {
            name: "settings".into(),
            mount_path: SETTINGS_FOLDER.into(),
            read_only: Some(true),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    }
}

fn arguments(installation: &Installation) -> Vec<String> {
    let parts: Vec<_> = installation.parts().iter().map(ToString::to_string).collect();
    let log = &installation.values.log;
    let format = match log.format {
        LogForm::Text => "text",
        LogForm::Json => "json",
    };
    vec![
        "run".into(),
        format!("--enable={}", parts.join(",")),
        format!("--config={SETTINGS_FOLDER}/{SETTINGS_FILE}"),
        format!("--log={}", log.filter),
        format!("--log-format={format}"),
    ]
}

pub(super) fn labels() -> BTreeMap<String, String> {
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

fn amounts(of: &BTreeMap<String, String>) -> Option<BTreeMap<String, Quantity>> {
    let amounts: BTreeMap<_, _> = of.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect();
    (!amounts.is_empty()).then_some(amounts)
}
