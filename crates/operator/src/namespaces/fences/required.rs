//! Namespaces of tenants are never without a class, where the administrator says so.

use croft_api::namespaces::CLASS_LABEL;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicySpec;

use super::{Grounds, REQUIRED};
use crate::policies::{Fence, condition, denied_unless, label_of, matched, plain, policy, quoted, variable};

/// Which namespaces must have a class, and which classes will do.
#[derive(Debug)]
pub struct Requirement<'a> {
    /// A label by which tenants' namespaces are known.
    pub label: (&'a str, &'a str),
    /// Any, where there are none.
    pub classes: &'a [String],
}

/// What was there before counts as well as what comes: nobody gets out by taking the label off first. What is as it was is
/// nobody's fault.
pub(super) fn required(grounds: &Grounds<'_>, requirement: &Requirement<'_>) -> Fence {
    let (key, value) = requirement.label;
    let is_tenants = |object: &str| format!("{} == {}", label_of(object, key), quoted(value));
    let classes: Vec<_> = requirement.classes.iter().map(|class| quoted(class)).collect();
    let will_do = |class: &str| match classes.as_slice() {
        [] => format!("variables.{class} != ''"),
        classes => format!("variables.{class} in [{}]", classes.join(", ")),
    };
    let wanted =
        if classes.is_empty() { "a class".to_owned() } else { format!("one of {}", requirement.classes.join(", ")) };
    let plain_policy = policy(
        REQUIRED,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("", &["namespaces", "namespaces/*"], &["CREATE", "UPDATE"], None)),
            match_conditions: Some(vec![condition("by-an-outsider", format!("!({})", grounds.trusted()))]),
            variables: Some(vec![
                variable("before", format!("oldObject == null ? '' : {}", label_of("oldObject", CLASS_LABEL))),
                variable("after", label_of("object", CLASS_LABEL)),
                variable("was", format!("oldObject != null && {}", is_tenants("oldObject"))),
                variable("is", is_tenants("object")),
            ]),
            validations: Some(vec![
                denied_unless(
                    format!(
                        "!(variables.was || variables.is) || {} || variables.was == variables.is && variables.before == variables.after",
                        will_do("after")
                    ),
                    format!(
                        "'a namespace with the label {key}: {value} has {wanted}: set its label {CLASS_LABEL} to that'"
                    ),
                ),
                denied_unless(
                    "!variables.was || variables.is".into(),
                    format!("'the label {key}: {value} stays: a namespace that has it must have {wanted}'"),
                ),
            ]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    );
    plain(plain_policy)
}
