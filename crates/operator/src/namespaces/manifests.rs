//! What an installation with classes needs besides CRDs and the operator's own rights.

use croft_api::yaml_document;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;

use super::fences::{self, Grounds, Requirement};
use crate::{
    manifests::{Installation, account, operator, reference},
    policies, roles,
};

/// Each as a YAML document.
pub(super) fn manifests(chosen: &Installation) -> Vec<String> {
    class_contents(&chosen.namespace).into_iter().chain(fence_policies(chosen)).collect()
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

fn fence_policies(chosen: &Installation) -> Vec<String> {
    let system_namespaces = chosen.system_namespaces();
    let operator = operator(&chosen.namespace);
    let grounds = Grounds {
        operator: &operator,
        trusted_users: &chosen.values.trusted_users,
        velero_namespace: chosen.velero_namespace(),
        requirement: chosen
            .class_required()
            .map(|required| Requirement { label: (&required.label, &required.value), classes: &required.classes }),
        system_namespaces: &system_namespaces,
    };
    let gate = yaml_document(&fences::gate_policy());
    fences::all(&grounds).iter().flat_map(policies::documents).chain([gate]).collect()
}
