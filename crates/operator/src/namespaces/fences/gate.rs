//! Where a class says so, Pods are admitted once the namespace has had everything of it. A later failure keeps nobody out: what runs
//! there must be able to move to another node.
//!
//! Each gated class has a binding of this policy, which the operator keeps; what judges a Pod is the NamespaceClassBinding of its
//! namespace, which nobody else writes.

use croft_api::namespaces::CLASS_LABEL;
use k8s_openapi::api::admissionregistration::v1::{
    ParamKind, ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec,
};

use super::GATE;
use crate::policies::{denied_unless, label_of, matched, policy};

pub(super) fn gate() -> ValidatingAdmissionPolicy {
    let class = label_of("namespaceObject", CLASS_LABEL);
    let spec = ValidatingAdmissionPolicySpec {
        param_kind: Some(ParamKind {
            api_version: Some("akuity.io/v1alpha1".into()),
            kind: Some("NamespaceClassBinding".into()),
        }),
        match_constraints: Some(matched("", &["pods"], &["CREATE"], None)),
        validations: Some(vec![denied_unless(
            format!(
                "params.metadata.name != namespaceObject.metadata.name || \
                 params.?status.?observedClassName.orValue('') == {class}"
            ),
            format!(
                "'namespace ' + namespaceObject.metadata.name + ' has not had all of class ' + {class} + ' yet and takes no Pods \
                 before: its NamespaceClassBinding says what is missing'"
            ),
        )]),
        ..ValidatingAdmissionPolicySpec::default()
    };
    policy(GATE, spec)
}
