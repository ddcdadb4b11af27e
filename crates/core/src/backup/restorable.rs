//! What a tenant's restore may bring back: kinds by name, none by pattern. A bucket she can write may hold anything, and Velero
//! restores with all rights.

use serde_json::Value;

use super::{
    Policy,
    velero::{Fields, field},
};

/// A kind as the archive files it, and what its objects are. An object that calls itself something else than the folder it lies in
/// is taken for what the folder says: Velero would look for a kind that does not exist, for ever, and everybody's restores would
/// wait behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// `plural` or `plural.group`.
    pub name: &'static str,
    pub api_version: &'static str,
    pub kind: &'static str,
}

const fn kind(name: &'static str, api_version: &'static str, kind: &'static str) -> Kind {
    Kind { name, api_version, kind }
}

/// Kinds that live in a namespace and give nobody more than its owner has: no rights, quotas, limits or endpoints, and none of
/// our own.
pub const USUAL: [Kind; 19] = [
    kind("configmaps", "v1", "ConfigMap"),
    kind("secrets", "v1", "Secret"),
    kind("serviceaccounts", "v1", "ServiceAccount"),
    kind("services", "v1", "Service"),
    kind("persistentvolumeclaims", "v1", "PersistentVolumeClaim"),
    kind("pods", "v1", "Pod"),
    kind("podtemplates", "v1", "PodTemplate"),
    kind("replicationcontrollers", "v1", "ReplicationController"),
    kind("controllerrevisions.apps", "apps/v1", "ControllerRevision"),
    kind("daemonsets.apps", "apps/v1", "DaemonSet"),
    kind("deployments.apps", "apps/v1", "Deployment"),
    kind("replicasets.apps", "apps/v1", "ReplicaSet"),
    kind("statefulsets.apps", "apps/v1", "StatefulSet"),
    kind("horizontalpodautoscalers.autoscaling", "autoscaling/v2", "HorizontalPodAutoscaler"),
    kind("cronjobs.batch", "batch/v1", "CronJob"),
    kind("jobs.batch", "batch/v1", "Job"),
    kind("ingresses.networking.k8s.io", "networking.k8s.io/v1", "Ingress"),
    kind("networkpolicies.networking.k8s.io", "networking.k8s.io/v1", "NetworkPolicy"),
    kind("poddisruptionbudgets.policy", "policy/v1", "PodDisruptionBudget"),
];

/// The kinds a restore brings back, and what was asked for in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    pub(super) restored: Vec<String>,
    pub(super) in_vain: Vec<String>,
}

impl Kinds {
    pub(super) fn of(spec: &Fields, policy: &Policy) -> Self {
        let restorable = USUAL.iter().map(|usual| usual.name).chain(policy.restorable.iter().map(String::as_str));
        let (included, excluded) = (names(spec, "includedResources"), names(spec, "excludedResources"));
        let is_wanted = |kind: &&str| {
            (included.is_empty() || included.iter().any(|name| is_named(kind, name)))
                && !excluded.iter().any(|name| is_named(kind, name))
        };
        let is_known = |name: &&str| restorable.clone().any(|kind| is_named(kind, name));
        Self {
            restored: restorable.clone().filter(is_wanted).map(str::to_owned).collect(),
            in_vain: included.iter().filter(|name| !is_known(name)).map(ToString::to_string).collect(),
        }
    }
}

fn names<'a>(spec: &'a Fields, list: &str) -> Vec<&'a str> {
    field(spec, list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// People write `deployments.apps`, `deployments` or `*`.
fn is_named(kind: &str, name: &str) -> bool {
    let plural = kind.split('.').next().unwrap_or_default();
    name == "*" || name.eq_ignore_ascii_case(kind) || name.eq_ignore_ascii_case(plural)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kinds(spec: &Value, more: &[&str]) -> Kinds {
        let policy = Policy { restorable: more.iter().map(ToString::to_string).collect(), ..Policy::default() };
        Kinds::of(spec.as_object().expect("an object"), &policy)
    }

    #[test]
    fn whoever_names_nothing_gets_all_that_may_be_restored_and_no_pattern() {
        for everything in [json!({}), json!({ "includedResources": ["*"] }), json!({ "includedResources": [] })] {
            assert_eq!(
                kinds(&everything, &[]),
                Kinds { restored: USUAL.map(|usual| usual.name.to_owned()).into(), in_vain: vec![] }
            );
        }
    }

    #[test]
    fn what_gives_rights_is_asked_for_in_vain() {
        let asked =
            json!({ "includedResources": ["configmaps", "Deployments", "rolebindings", "resourcequotas", "nodes"] });
        let found = kinds(&asked, &[]);
        assert_eq!(found.restored, ["configmaps", "deployments.apps"]);
        assert_eq!(found.in_vain, ["rolebindings", "resourcequotas", "nodes"]);
    }

    #[test]
    fn the_administrator_may_add_kinds_and_the_tenant_leave_some_out() {
        let found = kinds(&json!({ "excludedResources": ["secrets", "pods"] }), &["widgets.example.com"]);
        assert!(found.restored.contains(&"widgets.example.com".to_owned()));
        assert!(!found.restored.iter().any(|kind| kind == "secrets" || kind == "pods"));
        assert!(kinds(&json!({ "excludedResources": ["*"] }), &[]).restored.is_empty());
    }
}
