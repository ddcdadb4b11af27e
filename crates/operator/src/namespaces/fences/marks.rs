//! The marks of protected objects are set by the operator alone: whoever could set them could make objects nobody may delete.
//!
//! What Velero restores carries our labels, but no owners: as that protects nothing, Velero may bring them back. The stamp alone
//! protects nothing either, and is not looked at here.

use croft_api::namespaces::PROTECTED_LABEL;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};

use super::{Grounds, MARKS};
use crate::policies::{by_velero, condition, denied_unless, for_real, matched, policy, quoted, variable};

pub(super) fn marks(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let label = |object: &str| format!("{object}.?metadata.?labels[?{}].orValue('')", quoted(PROTECTED_LABEL));
    let bindings = |object: &str| {
        format!(
            "{object}.?metadata.?ownerReferences.orValue([]).filter(owner, owner.kind == 'NamespaceClassBinding' && \
             owner.apiVersion.startsWith('akuity.io/')).map(owner, owner.uid)"
        )
    };
    let carries_one = format!("object != null && ({} != '' || {}.size() > 0)", label("object"), bindings("object"));
    let mut constraints = matched("*", &["*/*"], &["CREATE", "UPDATE"], None);
    for rule in constraints.resource_rules.iter_mut().flatten() {
        // Stamped objects are always namespaced.
        rule.scope = Some("Namespaced".into());
    }
    policy(
        MARKS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(constraints),
            match_conditions: Some(vec![
                for_real(),
                condition("by-an-outsider", format!("!({})", grounds.trusted())),
                condition("marked", carries_one),
            ]),
            variables: Some(vec![
                variable("before", format!("oldObject == null ? '' : {}", label("oldObject"))),
                variable("after", label("object")),
                variable("owners", format!("oldObject == null ? [] : {}", bindings("oldObject"))),
            ]),
            validations: Some(vec![
                denied_unless(
                    format!(
                        "variables.after in ['', variables.before] || ({})",
                        by_velero(grounds.velero_namespace)
                    ),
                    format!(
                        "'the label {PROTECTED_LABEL} is set by the operator alone: leave it out; to have objects protected, put \
                         them into a class with spec.protect: true'"
                    ),
                ),
                denied_unless(
                    format!("{}.all(owner, owner in variables.owners)", bindings("object")),
                    "'objects are given to a NamespaceClassBinding by the operator alone: leave that owner reference out, or put \
                     the object into the class'"
                        .into(),
                ),
            ]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
