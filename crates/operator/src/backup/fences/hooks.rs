//! Fence 7. Velero runs what annotations of pods tell it to, in everybody's turn: not for long, and not at all where the
//! administrator does not want it.

use croft_core::backup::hook_annotations;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};

use super::{brings, by_others};
use crate::policies::{condition, denied_unless, matched, policy, quoted};

pub(super) const HOOKS: &str = "croft-velero-hooks";

/// What is said of timeouts that are too long.
pub(super) const TOO_LONG: &str = "timeouts of hooks are durations from 0s to 10m";

/// In no more characters than these a duration of that pattern is written that is more than any can be.
const LONGEST: usize = 20;

/// Whether a pod gets the timeout of a hook that is more than others can be asked to wait.
pub(super) fn brings_a_lasting() -> String {
    let lasts = |annotation: &String| {
        let value = format!("object.metadata.annotations[{}]", quoted(annotation));
        format!(
            "({} && !({value}.size() <= {LONGEST} && {value}.matches('^([0-9]{{1,6}}([.][0-9]{{1,3}})?(ms|s|m|h))+$') && \
             duration({value}) <= duration('10m')))",
            brings(annotation)
        )
    };
    let all = hook_annotations();
    let timeouts = all.iter().filter(|annotation| annotation.ends_with("timeout"));
    format!("({})", timeouts.map(lasts).collect::<Vec<_>>().join(" || "))
}

/// Whether a pod gets an annotation by which it tells Velero to run something in it.
fn brings_a_hook() -> String {
    let all = hook_annotations();
    format!("({})", all.iter().map(|annotation| brings(annotation)).collect::<Vec<_>>().join(" || "))
}

/// The fence, where hooks are allowed and where they are not.
pub(super) fn hooks(velero_namespace: &str, are_allowed: bool) -> ValidatingAdmissionPolicy {
    let (brings, why) = if are_allowed {
        (brings_a_lasting(), TOO_LONG)
    } else {
        (brings_a_hook(), "annotations by which Velero runs commands in pods are the administrator\\'s to set")
    };
    policy(
        HOOKS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("", &["pods", "pods/*"], &["CREATE", "UPDATE"], None)),
            match_conditions: Some(vec![
                condition("has-metadata", "object != null && has(object.metadata)".into()),
                condition("by-others", by_others(velero_namespace)),
            ]),
            validations: Some(vec![denied_unless(format!("!{brings}"), format!("'{why}'"))]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
