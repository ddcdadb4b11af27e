//! Labels and annotations that a class with `protect: true` sets on the Namespace stay as it set them. Which they are is noted on the
//! Namespace, by the operator alone; the note counts as long as the Namespace has a class.

use croft_api::namespaces::{CLASS_LABEL, PROTECTED_ANNOTATIONS_ANNOTATION, PROTECTED_LABELS_ANNOTATION};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec};

use super::{Grounds, METADATA};
use crate::policies::{by_velero, condition, denied_unless, for_real, label_of, matched, policy, quoted, variable};

pub(super) fn metadata(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let notes = [PROTECTED_LABELS_ANNOTATION, PROTECTED_ANNOTATIONS_ANNOTATION];
    let note = |object: &str, note: &str| format!("{object}.metadata.?annotations[?{}].orValue('')", quoted(note));
    // A note that is changed is refused below, so the one before it counts.
    let changed = |map: &str, by: &str| {
        let value = |object: &str| format!("{object}.metadata.?{map}[?key]");
        format!(
            "variables.class == '' || {noted} == '' ? [] : {noted}.split(',').filter(key, {} != {})",
            value("oldObject"),
            value("object"),
            noted = note("oldObject", by)
        )
    };
    let kept = |what: &str| {
        denied_unless(
            format!("variables.{what}s.size() == 0"),
            format!(
                "'class ' + variables.class + ' protects the {what} ' + variables.{what}s[0] + ' it has set: change the class, or \
                 set its spec.protect to false'"
            ),
        )
    };
    let same = notes.map(|by| {
        let (before, after) = (format!("(oldObject == null ? '' : {})", note("oldObject", by)), note("object", by));
        let is_left = format!("variables.class == '' && {after} == ''");
        let by_velero = format!("oldObject == null && {}", by_velero(grounds.velero_namespace));
        denied_unless(
            format!("{before} == {after} || {is_left} || {by_velero}"),
            format!("'the annotation {by} is written by the operator alone: leave it as it is'"),
        )
    });
    policy(
        METADATA,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("", &["namespaces", "namespaces/*"], &["CREATE", "UPDATE"], None)),
            match_conditions: Some(vec![for_real(), condition("by-an-outsider", format!("!({})", grounds.trusted()))]),
            variables: Some(vec![
                variable("class", format!("oldObject == null ? '' : {}", label_of("oldObject", CLASS_LABEL))),
                variable("labels", changed("labels", PROTECTED_LABELS_ANNOTATION)),
                variable("annotations", changed("annotations", PROTECTED_ANNOTATIONS_ANNOTATION)),
            ]),
            validations: Some(same.into_iter().chain(["label", "annotation"].map(kept)).collect()),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
