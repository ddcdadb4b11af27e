//! A Namespace that has a class has no more in its metadata than can be read at once, by us and by the fences, which read it once for
//! each class.

use croft_api::namespaces::CLASS_LABEL;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};

use super::{Grounds, SIZE, with_a_class};
use crate::policies::{condition, denied_unless, label_of, policy, variable};

/// Most labels, and most of everything else. Of annotations the API server bounds the length as well.
const MOST: u32 = 500;

/// What is counted, where it is, and how CEL writes that there is none.
const COUNTED: [(&str, &str, &str, &str); 5] = [
    ("labels", "metadata", "labels", "{}"),
    ("annotations", "metadata", "annotations", "{}"),
    ("finalizers", "metadata", "finalizers", "[]"),
    ("owner references", "metadata", "ownerReferences", "[]"),
    ("finalizers of its content", "spec", "finalizers", "[]"),
];

/// What was too much before the fence stood may become less.
pub(super) fn size(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let few = COUNTED.map(|(what, part, field, nothing)| {
        let count = |object: &str| format!("{object}.?{part}.?{field}.orValue({nothing}).size()");
        let now = count("object");
        denied_unless(
            format!(
                "variables.after == '' || {now} <= {MOST} || variables.before != '' && {now} <= {}",
                count("oldObject")
            ),
            format!("'a namespace with a class has at most {MOST} {what}, and this one would have ' + string({now}) + ': remove some'"),
        )
    });
    policy(
        SIZE,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(with_a_class(&["namespaces", "namespaces/*"], &["CREATE", "UPDATE"])),
            match_conditions: Some(vec![condition("by-an-outsider", format!("!({})", grounds.trusted()))]),
            variables: Some(vec![
                variable("before", format!("oldObject == null ? '' : {}", label_of("oldObject", CLASS_LABEL))),
                variable("after", label_of("object", CLASS_LABEL)),
            ]),
            validations: Some(few.into()),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
