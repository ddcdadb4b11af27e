//! What an installation with classes needs besides CRDs and the operator's own rights.

use croft_api::yaml_document;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

use super::fences::{self, Grounds, Requirement};
use crate::{
    cli::ManifestOptions,
    manifests::{account, operator, reference},
    policies, roles,
    settings::NamespacesSettings,
};

/// Each as a YAML document.
pub(super) fn manifests(options: &ManifestOptions) -> Vec<String> {
    class_contents(&options.namespace).into_iter().chain(fence_policies(options)).collect()
}

/// What an administrator adds to the rights a class may use goes to the operator.
fn class_contents(own: &str) -> [String; 2] {
    let role = roles::class_contents();
    let binding = ClusterRoleBinding {
        metadata: role.metadata.clone(),
        role_ref: reference("ClusterRole", roles::CLASS_CONTENTS),
        subjects: Some(account(own)),
    };
    [yaml_document(&role), yaml_document(&binding)]
}

fn fence_policies(options: &ManifestOptions) -> Vec<String> {
    let mut system_namespaces = NamespacesSettings::default().system_namespaces;
    system_namespaces.extend([options.namespace.clone(), options.velero_namespace.clone()]);
    system_namespaces.extend(options.system_namespace.iter().cloned());
    system_namespaces.sort();
    system_namespaces.dedup();
    let operator = operator(&options.namespace);
    let grounds = Grounds {
        operator: &operator,
        trusted_users: &options.trusted_user,
        velero_namespace: &options.velero_namespace,
        requirement: options
            .class_required
            .as_ref()
            .map(|(key, value)| Requirement { label: (key, value), classes: &options.required_class }),
        system_namespaces: &system_namespaces,
    };
    let gate = yaml_document(&fences::gate_policy());
    fences::all(&grounds).iter().flat_map(policies::documents).chain([gate]).collect()
}
