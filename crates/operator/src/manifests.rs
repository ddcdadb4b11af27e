//! `croft manifests`: everything an installation needs, generated from the code.

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Namespace, Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    admission::{self, WebhookTarget},
    cli::ManifestOptions,
    engine::Part,
    namespaces::fences::{self, Grounds},
    rbac::{self, Within},
    roles,
    settings::NamespacesSettings,
};

/// The Service in front of the webhook.
pub const SERVICE: &str = "croft-webhook";
const ACCOUNT: &str = "croft";
const WEBHOOK_PORT: u16 = 9443;
const METRICS_PORT: u16 = 8080;

/// The manifests as one YAML stream, in the order they can be applied.
pub fn yaml(options: &ManifestOptions) -> String {
    let mut all = vec![namespace(options)];
    all.extend(croft_api::crds().iter().map(value));
    all.extend(objects(options));
    croft_api::yaml_stream(&all)
}

fn objects(options: &ManifestOptions) -> Vec<Value> {
    let uses = rbac::uses(&options.enable);
    let own = options.namespace.as_str();
    let mut objects = vec![value(&ServiceAccount { metadata: meta(Some(own)), ..ServiceAccount::default() })];
    objects.extend(cluster_role(rbac::rules(&uses, Within::Cluster), own));
    objects.extend(role(rbac::rules(&uses, Within::OperatorNamespace), own, own));
    let velero = rbac::rules(&uses, Within::VeleroNamespace);
    if !velero.is_empty() {
        objects.push(value(&Namespace {
            metadata: ObjectMeta { name: Some(options.velero_namespace.clone()), ..ObjectMeta::default() },
            ..Namespace::default()
        }));
        objects.extend(role(velero, &options.velero_namespace, own));
    }
    objects.extend(roles::tenants(&options.enable).iter().map(value));
    if options.enable.contains(&Part::Namespaces) {
        objects.extend(class_contents(own));
        objects.extend(fences(options));
    }
    objects.push(value(&service(own)));
    objects.push(value(&deployment(options)));
    let target = match &options.webhook_url {
        Some(url) => WebhookTarget::Url(url.clone()),
        None => WebhookTarget::Service { namespace: own.to_owned(), name: SERVICE.to_owned(), port: 443 },
    };
    objects.push(value(&admission::webhook_configuration(&target)));
    objects
}

fn namespace(options: &ManifestOptions) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": options.namespace,
            "labels": { "pod-security.kubernetes.io/enforce": "restricted" },
        },
    })
}

fn cluster_role(rules: Vec<PolicyRule>, own: &str) -> [Value; 2] {
    let role = ClusterRole { metadata: meta(None), rules: Some(rules), aggregation_rule: None };
    let binding = ClusterRoleBinding { metadata: meta(None), ..bound("ClusterRole", own) };
    [value(&role), value(&binding)]
}

/// What an administrator adds to the rights a class may use goes to the operator.
fn class_contents(own: &str) -> [Value; 2] {
    let role = roles::class_contents();
    let binding =
        ClusterRoleBinding { metadata: role.metadata.clone(), ..bound_to("ClusterRole", roles::CLASS_CONTENTS, own) };
    [value(&role), value(&binding)]
}

fn fences(options: &ManifestOptions) -> Vec<Value> {
    let mut system_namespaces = NamespacesSettings::default().system_namespaces;
    system_namespaces.extend([options.namespace.clone(), options.velero_namespace.clone()]);
    system_namespaces.sort();
    system_namespaces.dedup();
    let operator = format!("system:serviceaccount:{}:{ACCOUNT}", options.namespace);
    let grounds = Grounds { operator: &operator, system_namespaces: &system_namespaces };
    fences::policies(&grounds).iter().flat_map(|(policy, binding)| [value(policy), value(binding)]).collect()
}

fn role(rules: Vec<PolicyRule>, namespace: &str, own: &str) -> [Value; 2] {
    let role = Role { metadata: meta(Some(namespace)), rules: Some(rules) };
    let binding = RoleBinding { metadata: meta(Some(namespace)), ..bound("Role", own) };
    [value(&role), value(&binding)]
}

/// The account bound to the role of the same name.
fn bound<B: DeserializeOwned + Default>(kind: &str, own: &str) -> B {
    bound_to(kind, ACCOUNT, own)
}

fn bound_to<B: DeserializeOwned + Default>(kind: &str, role: &str, own: &str) -> B {
    typed(json!({
        "metadata": {},
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": own }],
    }))
}

fn service(own: &str) -> Service {
    typed(json!({
        "metadata": { "name": SERVICE, "namespace": own },
        "spec": {
            "selector": { "app.kubernetes.io/name": ACCOUNT },
            "ports": [{ "name": "webhook", "port": 443, "targetPort": WEBHOOK_PORT }],
        },
    }))
}

fn deployment(options: &ManifestOptions) -> Deployment {
    let labels = json!({ "app.kubernetes.io/name": ACCOUNT });
    let parts: Vec<_> = options.enable.iter().map(ToString::to_string).collect();
    typed(json!({
        "metadata": { "name": ACCOUNT, "namespace": options.namespace, "labels": labels },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "enableServiceLinks": false,
                    "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
                    "terminationGracePeriodSeconds": 10,
                    "containers": [{
                        "name": ACCOUNT,
                        "image": options.image,
                        "args": ["run", format!("--enable={}", parts.join(","))],
                        "env": [
                            { "name": "CROFT_NAMESPACE", "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } } },
                            { "name": "CROFT_IDENTITY", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                        ],
                        "ports": [
                            { "name": "webhook", "containerPort": WEBHOOK_PORT },
                            { "name": "metrics", "containerPort": METRICS_PORT },
                        ],
                        "livenessProbe": { "httpGet": { "path": "/healthz", "port": "metrics" } },
                        "readinessProbe": { "httpGet": { "path": "/readyz", "port": "metrics" }, "periodSeconds": 5 },
                        "resources": { "requests": { "cpu": "50m", "memory": "32Mi" }, "limits": { "memory": "256Mi" } },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            },
        },
    }))
}

fn meta(namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta { name: Some(ACCOUNT.into()), namespace: namespace.map(str::to_owned), ..ObjectMeta::default() }
}

/// A literal of ours in its Kubernetes type: a wrong field name is caught by the tests.
fn typed<T: DeserializeOwned + Default>(literal: Value) -> T {
    serde_json::from_value(literal).unwrap_or_default()
}

fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
