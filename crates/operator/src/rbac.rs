//! The rights the code uses, and the roles made from them. Each part lists its own; nothing is granted that is not listed.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::{engine::Part, parts};

/// Where a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Within {
    Cluster,
    /// The namespace the operator runs in.
    OperatorNamespace,
    VeleroNamespace,
}

/// One resource and the verbs the code calls on it.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    pub group: &'static str,
    /// A plural, or `plural/subresource`.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    pub within: Within,
}

/// What the engine itself uses, whatever parts are enabled.
pub const ENGINE_USES: &[Use] = &[
    Use {
        group: "apiextensions.k8s.io",
        resource: "customresourcedefinitions",
        verbs: &["list", "watch"],
        within: Within::Cluster,
    },
    Use {
        group: "apiregistration.k8s.io",
        resource: "apiservices",
        verbs: &["list", "watch"],
        within: Within::Cluster,
    },
    Use { group: "events.k8s.io", resource: "events", verbs: &["create"], within: Within::Cluster },
    Use {
        group: "coordination.k8s.io",
        resource: "leases",
        verbs: &["create", "get", "list", "update", "watch"],
        within: Within::OperatorNamespace,
    },
];

/// Resources of which the operator touches single objects, known by name. Listing and watching them is done with a field
/// selector on the name, which such a rule allows.
const BY_NAME: &[(&str, &str, &str)] = &[
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", crate::admission::CONFIGURATION),
    ("rbac.authorization.k8s.io", "clusterroles", crate::roles::CLASS_CONTENTS),
];

fn only_name(group: &str, resource: &str) -> Option<Vec<String>> {
    let entry = BY_NAME.iter().find(|entry| (entry.0, entry.1) == (group, resource));
    entry.map(|entry| vec![entry.2.to_owned()])
}

/// All rights of the engine and the given parts.
pub fn uses(parts: &[Part]) -> Vec<Use> {
    let mut uses = ENGINE_USES.to_vec();
    uses.extend_from_slice(crate::admission::USES);
    uses.extend(parts::of(parts).flat_map(|part| part.uses));
    uses
}

/// The rules for one place, merged and sorted so that the output is stable.
pub fn rules(uses: &[Use], within: Within) -> Vec<PolicyRule> {
    let mut verbs: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for needed in uses.iter().filter(|needed| needed.within == within) {
        let merged = verbs.entry((needed.group, needed.resource)).or_default();
        merged.extend(needed.verbs);
        merged.sort_unstable();
        merged.dedup();
    }
    verbs
        .into_iter()
        .map(|((group, resource), verbs)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: only_name(group, resource),
            verbs: verbs.into_iter().map(str::to_owned).collect(),
            ..PolicyRule::default()
        })
        .collect()
}
