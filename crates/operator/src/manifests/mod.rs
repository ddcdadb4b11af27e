//! `croft manifests`: everything an installation needs, generated from the code.

mod around;
mod forms;
mod installation;
mod table;
pub mod values;
mod workload;

use croft_api::{yaml_document, yaml_stream};
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Namespace, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

pub(crate) use self::around::CERTIFICATE;
pub use self::{installation::Installation, table::commented as values_yaml};
use crate::{
    admission::{self, WebhookTarget},
    parts,
    rbac::{self, Within},
    roles,
};

/// The Service in front of the webhook.
pub const SERVICE: &str = "croft-webhook";
/// The one in front of the metrics, where somebody reads them by a Service.
const METRICS_SERVICE: &str = "croft-metrics";
pub(crate) const ACCOUNT: &str = "croft";
/// The Role, and its binding, in Velero's namespace: that may be the operator's own, where there is one of the account's name.
pub(crate) const VELERO_ROLE: &str = "croft-velero";
/// Where the settings are in their ConfigMap.
const SETTINGS_FILE: &str = "settings.yaml";

/// The manifests as one YAML stream, in the order they can be applied.
pub fn yaml(installation: &Installation) -> String {
    let mut all = vec![yaml_document(&namespace(installation))];
    if installation.values.crds.install {
        // Kinds of parts that do not run may be another operator's here.
        let groups: Vec<_> = parts::of(&installation.parts()).flat_map(|part| part.groups).collect();
        let crds = croft_api::crds();
        all.extend(crds.iter().filter(|crd| groups.iter().any(|group| **group == crd.spec.group)).map(yaml_document));
    }
    all.extend(objects(installation));
    yaml_stream(all)
}

/// Everything else, each as a document. All are built of Kubernetes' own types: a field that does not exist does not compile.
fn objects(installation: &Installation) -> Vec<String> {
    let parts = installation.parts();
    let uses = rbac::uses(&parts);
    let own = installation.namespace.as_str();
    let mut objects = vec![yaml_document(&service_account(own))];
    objects.extend(cluster_role(rbac::rules(&uses, Within::Cluster), own));
    objects.extend(role(ACCOUNT, rbac::rules(&uses, Within::OperatorNamespace), own, own));
    let velero = rbac::rules(&uses, Within::VeleroNamespace);
    if !velero.is_empty() {
        let place = installation.velero_namespace();
        // Whoever takes away what is printed here must not take Velero's namespace with it, and every backup that is known there.
        if place != own && installation.values.velero.create_namespace {
            objects.push(yaml_document(&Namespace {
                metadata: ObjectMeta {
                    name: Some(place.to_owned()),
                    annotations: Some(croft_api::never_pruned()),
                    ..ObjectMeta::default()
                },
                ..Namespace::default()
            }));
        }
        objects.extend(role(VELERO_ROLE, velero, place, own));
    }
    objects.extend(roles::tenants(&parts).iter().map(yaml_document));
    objects.extend(parts::of(&parts).flat_map(|part| (part.manifests)(installation)));
    let target = if let Some(url) = &installation.webhook_url {
        WebhookTarget::Url(url.clone())
    } else {
        objects.extend(running(installation));
        WebhookTarget::Service { namespace: own.to_owned(), name: SERVICE.to_owned(), port: 443 }
    };
    objects.push(yaml_document(&admission::webhook_configuration(&target, &parts)));
    objects
}

/// The operator inside the cluster.
fn running(installation: &Installation) -> Vec<String> {
    let mut objects = vec![
        yaml_document(&settings(installation)),
        yaml_document(&workload::service(&installation.namespace)),
        yaml_document(&workload::deployment(installation)),
    ];
    objects.extend(around::documents(installation));
    objects
}

fn settings(installation: &Installation) -> ConfigMap {
    let file = yaml_document(&installation.settings());
    ConfigMap {
        metadata: meta(Some(&installation.namespace)),
        data: Some([(SETTINGS_FILE.to_owned(), file)].into()),
        ..ConfigMap::default()
    }
}

/// Nobody who merely uses the account gets its token: the operator's pods ask for it.
fn service_account(own: &str) -> ServiceAccount {
    ServiceAccount {
        metadata: meta(Some(own)),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

fn namespace(installation: &Installation) -> Namespace {
    let restricted = ("pod-security.kubernetes.io/enforce".to_owned(), "restricted".to_owned());
    Namespace {
        metadata: ObjectMeta {
            name: Some(installation.namespace.clone()),
            labels: Some([restricted].into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

fn cluster_role(rules: Vec<PolicyRule>, own: &str) -> [String; 2] {
    let role = ClusterRole { metadata: meta(None), rules: Some(rules), aggregation_rule: None };
    let binding = ClusterRoleBinding {
        metadata: meta(None),
        role_ref: reference("ClusterRole", ACCOUNT),
        subjects: Some(account(own)),
    };
    [yaml_document(&role), yaml_document(&binding)]
}

fn role(name: &str, rules: Vec<PolicyRule>, namespace: &str, own: &str) -> [String; 2] {
    let meta = || ObjectMeta { name: Some(name.to_owned()), ..meta(Some(namespace)) };
    let role = Role { metadata: meta(), rules: Some(rules) };
    let binding = RoleBinding { metadata: meta(), role_ref: reference("Role", name), subjects: Some(account(own)) };
    [yaml_document(&role), yaml_document(&binding)]
}

pub(crate) fn reference(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: "rbac.authorization.k8s.io".into(), kind: kind.into(), name: name.into() }
}

/// The operator as the API server sees it.
pub(crate) fn operator(own: &str) -> String {
    format!("system:serviceaccount:{own}:{ACCOUNT}")
}

/// The account the operator runs as.
pub(crate) fn account(own: &str) -> Vec<Subject> {
    vec![Subject { api_group: None, kind: "ServiceAccount".into(), name: ACCOUNT.into(), namespace: Some(own.into()) }]
}

fn meta(namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta { name: Some(ACCOUNT.into()), namespace: namespace.map(str::to_owned), ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::cli::{Cli, Command};

    fn all() -> Vec<Value> {
        chosen(&[])
    }

    fn chosen(arguments: &[&str]) -> Vec<Value> {
        let all = ["croft", "manifests", "--image", "registry.example.com/croft"].iter().chain(arguments).copied();
        let Command::Manifests(options) = Cli::parse_from(all).command else { unreachable!() };
        serde_saphyr::from_multiple(&yaml(&options.installation().unwrap())).unwrap()
    }

    fn text<'a>(object: &'a Value, place: &str) -> &'a str {
        object.pointer(place).and_then(Value::as_str).unwrap_or_default()
    }

    #[test]
    fn only_the_kinds_of_the_parts_that_run_are_installed() {
        let groups = |arguments: &[&str]| -> BTreeSet<String> {
            let objects = chosen(arguments);
            let crds = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition");
            crds.map(|crd| text(crd, "/spec/group").to_owned()).collect()
        };
        assert_eq!(groups(&["--enable", "namespaces"]), BTreeSet::from(["akuity.io".to_owned()]));
        assert_eq!(groups(&["--enable", "storage"]), BTreeSet::from(["s3.snappcloud.io".to_owned()]));
        assert_eq!(groups(&[]).len(), 4);
    }

    #[test]
    fn only_the_kinds_of_the_parts_that_run_are_checked_at_the_door() {
        let groups = |arguments: &[&str]| -> BTreeSet<String> {
            let objects = chosen(arguments);
            let of = objects.iter().find(|object| object["kind"] == "ValidatingWebhookConfiguration").unwrap();
            let hooks = of["webhooks"].as_array().unwrap();
            hooks.iter().map(|hook| text(hook, "/rules/0/apiGroups/0").to_owned()).collect()
        };
        assert_eq!(groups(&["--enable", "namespaces"]), BTreeSet::from(["akuity.io".to_owned()]));
        assert_eq!(groups(&["--enable", "storage"]), BTreeSet::from(["s3.snappcloud.io".to_owned()]));
        assert_eq!(groups(&[]).len(), 4);
    }

    #[test]
    fn what_others_depend_on_is_not_pruned_by_whoever_deploys() {
        let objects = chosen(&["--create-velero-namespace"]);
        let is_depended_on = |object: &&Value| {
            object["kind"] == "CustomResourceDefinition"
                || text(object, "/metadata/name") == "velero" && object["kind"] == "Namespace"
        };
        let kept: Vec<_> = objects.iter().filter(is_depended_on).collect();
        assert_eq!(kept.len(), croft_api::crds().len() + 1);
        for object in kept {
            let annotations = &object["metadata"]["annotations"];
            assert_eq!(annotations["argocd.argoproj.io/sync-options"], "Prune=false,Delete=false", "{annotations}");
            assert_eq!(annotations["kustomize.toolkit.fluxcd.io/prune"], "disabled", "{annotations}");
        }
    }

    #[test]
    fn whom_and_what_the_fences_know_can_be_added_to() {
        let objects = chosen(&["--trusted-user", "breakglass", "--system-namespace", "monitoring"]);
        let policy = |name: &str| {
            let is_it = |object: &&Value| {
                object["kind"] == "ValidatingAdmissionPolicy" && text(object, "/metadata/name") == name
            };
            objects.iter().find(is_it).unwrap().to_string()
        };
        for name in ["croft-bindings", "croft-protected-objects", "croft-marks", "croft-namespace-metadata"] {
            assert!(policy(name).contains("'breakglass'"), "{name}");
        }
        assert!(policy("croft-class-choice").contains("'monitoring'"));
    }

    #[test]
    fn veleros_namespace_is_printed_for_those_only_who_ask_for_it() {
        let namespaces = |arguments: &[&str]| {
            let objects = chosen(arguments);
            let all = objects.iter().filter(|object| object["kind"] == "Namespace");
            all.map(|object| text(object, "/metadata/name").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(namespaces(&[]), ["croft-system"]);
        assert_eq!(namespaces(&["--create-velero-namespace"]), ["croft-system", "velero"]);
    }

    #[test]
    fn every_object_has_a_kind_and_a_name_of_its_own_also_in_veleros_namespace() {
        for place in ["croft-system", "velero"] {
            let objects = chosen(&["--namespace", place]);
            is_each_there_once(&objects);
        }
    }

    fn is_each_there_once(objects: &[Value]) {
        let names: BTreeSet<_> = objects
            .iter()
            .map(|object| ["/kind", "/metadata/namespace", "/metadata/name"].map(|place| text(object, place)))
            .collect();
        assert_eq!(names.len(), objects.len());
        assert!(names.iter().all(|[kind, _, name]| !kind.is_empty() && !name.is_empty()), "{names:?}");
    }

    #[test]
    fn every_binding_gives_a_role_that_is_there_and_all_but_one_to_the_account_that_runs() {
        let objects = all();
        let of_kind = |kind: &str| objects.iter().filter(move |object| object["kind"] == kind).collect::<Vec<_>>();
        let accounts = of_kind("ServiceAccount");
        let account = json_subject(accounts[0]);
        assert_eq!(
            text(of_kind("Deployment")[0], "/spec/template/spec/serviceAccountName"),
            text(accounts[0], "/metadata/name")
        );
        let bindings = [of_kind("RoleBinding"), of_kind("ClusterRoleBinding")].concat();
        assert_eq!(bindings.len(), 5);
        for binding in bindings {
            // What is on offer is for everybody to read.
            let is_for_everybody = text(binding, "/metadata/name") == "croft-s3classes";
            assert_eq!(binding["subjects"] == account, !is_for_everybody, "{binding}");
            let role = of_kind(text(binding, "/roleRef/kind")).into_iter().find(|role| {
                text(role, "/metadata/name") == text(binding, "/roleRef/name")
                    && role["metadata"]["namespace"] == binding["metadata"]["namespace"]
            });
            assert!(
                role.is_some_and(|role| !role["rules"].is_null() || !role["aggregationRule"].is_null()),
                "{binding}"
            );
        }
    }

    fn json_subject(account: &Value) -> Value {
        let (name, namespace) = (&account["metadata"]["name"], &account["metadata"]["namespace"]);
        serde_json::json!([{ "kind": "ServiceAccount", "name": name, "namespace": namespace }])
    }

    #[test]
    fn the_service_leads_to_the_deployment() {
        let objects = all();
        let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
        let (service, deployment) = (of_kind("Service"), of_kind("Deployment"));
        assert_eq!(service["spec"]["selector"], deployment["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"]);
        let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
        assert_eq!(service["spec"]["ports"][0]["targetPort"], ports[0]["containerPort"]);
    }

    #[test]
    fn the_settings_follow_from_the_other_values_and_can_be_read() {
        let objects = chosen(&["--velero-namespace", "safe", "--system-namespace", "monitoring", "--without-hooks"]);
        let file = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let settings = crate::settings::Settings::parse(text(file, "/data/settings.yaml")).unwrap();
        assert_eq!((settings.backup.velero_namespace.as_str(), settings.backup.hooks), ("safe", false));
        assert!(settings.namespaces.system_namespaces.contains(&"monitoring".to_owned()));
        assert!(settings.storage.restorers.contains(&"system:serviceaccount:safe:velero".to_owned()));
    }

    #[test]
    fn an_operator_outside_of_the_cluster_needs_no_image_and_nothing_of_it_runs_inside() {
        let arguments = ["croft", "manifests", "--webhook-url", "https://10.0.0.1"];
        let Command::Manifests(options) = Cli::parse_from(arguments).command else { unreachable!() };
        let yaml = yaml(&options.installation().unwrap());
        assert!(!yaml.contains("kind: Deployment"));
        let Command::Manifests(options) = Cli::parse_from(["croft", "manifests"]).command else { unreachable!() };
        assert!(options.installation().unwrap_err().to_string().contains("--image"));
    }
}
