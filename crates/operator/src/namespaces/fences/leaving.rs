//! Leaving a class needs the verb `leave` on it: who may use a class may not thereby get rid of what it enforces.
//!
//! Classes are the parameters of this policy, so that a class that does not exist holds nobody. Where classes are no longer known,
//! nobody is held up either.

use k8s_openapi::{
    api::admissionregistration::v1::{MatchCondition, ParamKind, ParamRef, ValidatingAdmissionPolicySpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{CLASSES, LEAVING, with_a_class};
use crate::policies::{Fence, condition, label_of, plain, policy};
use croft_api::namespaces::{CLASS_LABEL, LEAVE_VERB};

pub(super) fn leaving() -> Fence {
    let before = label_of("oldObject", CLASS_LABEL);
    judged_by_each_class(
        LEAVING,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(with_a_class(&["namespaces", "namespaces/*"], &["UPDATE"])),
            match_conditions: Some(vec![concerned(format!(
                "{before} == params.metadata.name && {before} != {}",
                label_of("object", CLASS_LABEL)
            ))]),
            variables: Some(CLASSES.variables()),
            validations: Some(vec![CLASSES.leaving(LEAVE_VERB)]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// A class that has nothing to say is asked this and no more: every write of a Namespace that has a class is judged by all of them.
pub(super) fn concerned(expression: String) -> MatchCondition {
    condition("concerned", expression)
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
