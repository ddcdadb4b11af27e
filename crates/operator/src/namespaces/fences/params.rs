//! Values of a class's inputs are refused at the door. It is a help, no fence: what gets past it changes nothing, since the last
//! value that was allowed stays in force.

use croft_api::namespaces::CLASS_LABEL;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicySpec;

use super::{
    PARAMS,
    leaving::{concerned, judged_by_each_class},
    with_a_class,
};
use crate::policies::{Fence, denied_unless, label_of, variable};

/// Only the class that the Namespace names says anything. Where a pattern means nothing to the API server, nobody is held up.
pub(super) fn params() -> Fence {
    let of = |object: &str, map: &str, key: &str| format!("{object}.metadata.?{map}[?p.{key}].orValue('')");
    let given = |object: &str| {
        let annotation = of(object, "annotations", "fromNamespaceAnnotation");
        let label = of(object, "labels", "fromNamespaceLabel");
        format!("has(p.fromNamespaceAnnotation) ? {annotation} : (has(p.fromNamespaceLabel) ? {label} : '')")
    };
    // A value that stays as it is was judged when it came.
    let asked = format!(
        "params.?spec.?params.orValue([]).filter(p, ({}) != '' && (variables.chosen || ({}) != ({})))",
        given("object"),
        given("object"),
        given("oldObject")
    );
    let is_whole = "v.matches('^(0|-?[1-9][0-9]{0,17})$')";
    let allowed = format!(
        "variables.asked.filter(p, [{}].exists(v, v.size() > 1024 || has(p.enum) && p.enum.size() > 0 && !(v in p.enum) || \
         p.?type.orValue('string') == 'boolean' && !(v in ['true', 'false']) || \
         p.?type.orValue('string') == 'integer' && (!{is_whole} || has(p.minimum) && int(v) < p.minimum || \
         has(p.maximum) && int(v) > p.maximum) || \
         has(p.pattern) && !v.matches('\\\\A(?:' + p.pattern + ')\\\\z')))",
        given("object")
    );
    let bounds = "(has(p.enum) && p.enum.size() > 0 ? ' one of ' + p.enum.join(', ') : '') + \
                  (has(p.minimum) ? ' at least ' + string(p.minimum) : '') + \
                  (has(p.maximum) ? ' at most ' + string(p.maximum) : '') + \
                  (has(p.pattern) ? ' matching ' + p.pattern : '')";
    let message = format!(
        "variables.refused.map(p, 'parameter ' + p.name + ' of class ' + params.metadata.name + ' cannot be ' + ({}) + ': give ' + \
         p.?type.orValue('string') + {bounds} + ' in ' + (has(p.fromNamespaceAnnotation) ? 'annotation ' + \
         p.fromNamespaceAnnotation : 'label ' + p.fromNamespaceLabel)).join('; ')",
        given("object")
    );
    judged_by_each_class(
        PARAMS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(with_a_class(&["namespaces"], &["CREATE", "UPDATE"])),
            match_conditions: Some(vec![concerned(format!(
                "{} == params.metadata.name && params.?spec.?params.orValue([]).size() > 0",
                label_of("object", CLASS_LABEL)
            ))]),
            variables: Some(vec![
                variable(
                    "chosen",
                    format!(
                        "oldObject == null || {} != {}",
                        label_of("object", CLASS_LABEL),
                        label_of("oldObject", CLASS_LABEL)
                    ),
                ),
                variable("asked", asked),
                variable("refused", allowed),
            ]),
            validations: Some(vec![denied_unless("variables.refused.size() == 0".into(), message)]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
