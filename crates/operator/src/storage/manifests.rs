//! What an installation with storage needs besides CRDs and the operator's own rights.

use croft_api::yaml_document;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Subject};

use super::{GROUP, fences};
use crate::{
    manifests::{Installation, reference},
    policies, roles,
};

const OFFERS: &str = "croft-s3classes";

/// Each as a YAML document.
pub(super) fn manifests(_: &Installation) -> Vec<String> {
    offers().into_iter().chain(policies::documents(&policies::plain(fences::team()))).collect()
}

/// Whoever may claim storage must be able to see what is on offer: the rights a tenant has in her namespace never reach kinds
/// of the cluster.
fn offers() -> [String; 2] {
    let role = roles::readers(OFFERS, GROUP, &["s3classes"]);
    let everybody = Subject {
        api_group: Some("rbac.authorization.k8s.io".to_owned()),
        kind: "Group".to_owned(),
        name: "system:authenticated".to_owned(),
        namespace: None,
    };
    let binding = ClusterRoleBinding {
        metadata: role.metadata.clone(),
        role_ref: reference("ClusterRole", OFFERS),
        subjects: Some(vec![everybody]),
    };
    [yaml_document(&role), yaml_document(&binding)]
}
