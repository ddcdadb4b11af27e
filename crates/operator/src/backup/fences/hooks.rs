//! Fence 7. Velero runs what annotations of pods tell it to, in everybody's turn: not for long, and not at all where the
//! administrator does not want it.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};

use super::{brings, by_others};
use crate::policies::{condition, denied_unless, matched, policy};

const HOOKS: &str = "croft-velero-hooks";

/// Whether `key` is an annotation by which a pod tells Velero to run something in it.
const IS_HOOK: &str = "key.matches('(^|[.])hook[.](backup|restore)[.]velero[.]io/')";

/// What is said of timeouts that are too long.
pub(super) const TOO_LONG: &str = "timeouts of hooks are durations from 0s to 10m";

/// Whether `key` is the timeout of such an annotation, and more than others can be asked to wait.
pub(super) fn is_lasting() -> String {
    let value = "object.metadata.annotations[key]";
    format!(
        "key.matches('(^|[.])hook[.](backup|restore)[.]velero[.]io/(exec-|wait-)?timeout$') && \
         !({value}.matches('^([0-9]{{1,6}}([.][0-9]{{1,3}})?(ms|s|m|h))+$') && duration({value}) <= duration('10m'))"
    )
}

/// The fence, where hooks are allowed and where they are not.
pub(super) fn hooks(velero_namespace: &str, are_allowed: bool) -> ValidatingAdmissionPolicy {
    let (such, why) = if are_allowed {
        (is_lasting(), TOO_LONG)
    } else {
        (IS_HOOK.to_owned(), "annotations by which Velero runs commands in pods are the administrator\\'s to set")
    };
    policy(
        HOOKS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("", &["pods", "pods/*"], &["CREATE", "UPDATE"], None)),
            match_conditions: Some(vec![
                condition("has-metadata", "object != null && has(object.metadata)".into()),
                condition("by-others", by_others(velero_namespace)),
            ]),
            validations: Some(vec![denied_unless(format!("!({})", brings(&such)), format!("'{why}'"))]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
