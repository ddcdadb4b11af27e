//! Leaving a class needs the verb `leave` on it: who may use a class may not thereby get rid of what it enforces.
//!
//! Classes are the parameters of this policy, so that a class that does not exist holds nobody. Where classes are no longer known,
//! nobody is held up either.

use k8s_openapi::{
    api::admissionregistration::v1::{ParamKind, ParamRef, ValidatingAdmissionPolicySpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{CLASSES, LEAVING, with_a_class};
use crate::policies::{Fence, plain, policy};
use croft_api::namespaces::LEAVE_VERB;

pub(super) fn leaving() -> Fence {
    judged_by_each_class(
        LEAVING,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(with_a_class(&["namespaces", "namespaces/*"], &["UPDATE"])),
            variables: Some(CLASSES.variables()),
            validations: Some(vec![CLASSES.leaving(LEAVE_VERB, "variables.before == params.metadata.name")]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// A policy that is judged once for every class.
pub(super) fn judged_by_each_class(name: &str, spec: ValidatingAdmissionPolicySpec) -> Fence {
    let (mut policy, mut binding) = plain(policy(name, spec));
    if let Some(spec) = &mut policy.spec {
        spec.failure_policy = Some("Ignore".into());
        spec.param_kind =
            Some(ParamKind { api_version: Some("akuity.io/v1alpha1".into()), kind: Some("NamespaceClass".into()) });
    }
    if let Some(spec) = &mut binding.spec {
        spec.param_ref = Some(ParamRef {
            selector: Some(LabelSelector::default()),
            parameter_not_found_action: Some("Allow".into()),
            ..ParamRef::default()
        });
    }
    (policy, binding)
}
