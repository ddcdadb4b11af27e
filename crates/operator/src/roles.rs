//! `ClusterRole`s for people: what tenants may do with our kinds, and where administrators add to what classes may contain.

use k8s_openapi::{
    api::rbac::v1::{AggregationRule, ClusterRole, PolicyRule},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

use crate::{engine::Part, parts};

/// The operator's rights beyond its own: the sum of all `ClusterRole`s with [`AGGREGATE_LABEL`].
pub const CLASS_CONTENTS: &str = "croft-namespace-classes";
/// On a `ClusterRole`: `"true"` lets classes contain what it grants.
pub const AGGREGATE_LABEL: &str = "croft.dev/aggregate-to-namespace-classes";

/// By which tenants write objects of ours.
pub(crate) const TENANTS_ROLE: &str = "croft-edit";

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Kinds of one group in the hands of tenants: who views a namespace may read them, who edits it may write them.
#[derive(Debug)]
pub struct TenantKinds {
    pub group: &'static str,
    pub viewed: &'static [&'static str],
    pub edited: &'static [&'static str],
}

/// `croft-view` and `croft-edit`, which Kubernetes adds to its own `view`, `edit` and `admin`.
pub fn tenants(parts: &[Part]) -> [ClusterRole; 2] {
    let enabled = || {
        let mut kinds: Vec<_> = parts::of(parts).flat_map(|part| part.tenants).collect();
        kinds.sort_by_key(|kinds| kinds.group);
        kinds.into_iter()
    };
    let viewed = enabled().map(|kinds| rule(kinds.group, kinds.viewed, READ)).collect();
    let edited = enabled()
        .filter(|kinds| !kinds.edited.is_empty())
        .map(|kinds| rule(kinds.group, kinds.edited, WRITE))
        .collect();
    [
        labelled_role("croft-view", "rbac.authorization.k8s.io/aggregate-to-view", viewed),
        labelled_role(TENANTS_ROLE, "rbac.authorization.k8s.io/aggregate-to-edit", edited),
    ]
}

/// Empty at first; Kubernetes fills it from every `ClusterRole` with [`AGGREGATE_LABEL`].
pub fn class_contents() -> ClusterRole {
    let selector = LabelSelector {
        match_labels: Some([(AGGREGATE_LABEL.to_owned(), "true".to_owned())].into()),
        ..LabelSelector::default()
    };
    ClusterRole {
        metadata: ObjectMeta { name: Some(CLASS_CONTENTS.to_owned()), ..ObjectMeta::default() },
        aggregation_rule: Some(AggregationRule { cluster_role_selectors: Some(vec![selector]) }),
        rules: None,
    }
}

/// For kinds of the cluster that people read.
pub fn readers(name: &str, group: &str, resources: &[&str]) -> ClusterRole {
    ClusterRole {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        rules: Some(vec![rule(group, resources, READ)]),
        ..ClusterRole::default()
    }
}

fn labelled_role(name: &str, label: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(label.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        rules: Some(rules),
        aggregation_rule: None,
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let strings = |items: &[&str]| items.iter().map(ToString::to_string).collect();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(strings(resources)),
        verbs: strings(verbs),
        ..PolicyRule::default()
    }
}
