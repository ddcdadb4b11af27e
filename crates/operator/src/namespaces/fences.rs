//! The fences: admission policies the API server evaluates itself, so they stand while the operator is down.
//!
//! 1. Choosing a class, changing it and leaving it need the verb `use` on that class, whichever way a Namespace is written.
//! 2. Only the operator writes bindings.
//! 3. Objects stamped from a class with `protect: true` are written by the operator alone.
//! 4. A class that is not to take its objects with it is not deleted before the operator holds it: once it is gone, nobody can
//!    read in it what was wanted.
//!
//! Guarantees: every expression is total, so no policy fails on an object it was not made for; what does not concern a fence
//! passes it; Kubernetes' own controllers and `system:masters` are never locked out of fences 2 and 3.

use croft_api::namespaces::{CLASS_LABEL, PROTECTED_LABEL, STAMP_LABEL};
use k8s_openapi::{
    api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::class::FINALIZER;
use crate::policies::{Choice, condition, denied_unless, label_of, matched, policy, quoted, trusted, variable};

pub const CHOICE: &str = "croft-class-choice";
pub const BINDINGS: &str = "croft-bindings";
pub const PROTECTION: &str = "croft-protected-objects";
pub const CLASS_DELETION: &str = "croft-class-deletion";

/// What the fences have to know about the installation.
#[derive(Debug)]
pub struct Grounds<'a> {
    /// The operator as the API server sees it.
    pub operator: &'a str,
    /// Namespaces no class is applied to, besides those whose name starts with `kube-`.
    pub system_namespaces: &'a [String],
}

pub fn policies(grounds: &Grounds<'_>) -> [ValidatingAdmissionPolicy; 4] {
    [choice(grounds), bindings(grounds), protection(grounds), class_deletion()]
}

/// Fence 1.
fn choice(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let system: Vec<_> = grounds.system_namespaces.iter().map(|name| quoted(name)).collect();
    let system = system.join(", ");
    let Choice { mut variables, mut validations } =
        Choice::by_label(CLASS_LABEL, "class", "akuity.io", "namespaceclasses");
    variables.push(variable("name", "object.metadata.?name.orValue('')".into()));
    validations.insert(
        0,
        denied_unless(
            format!("!variables.chosen || !(variables.name.startsWith('kube-') || variables.name in [{system}])"),
            "'namespace ' + variables.name + ' belongs to the system: no class can be applied to it'".into(),
        ),
    );
    Choice { variables, validations }.policy(CHOICE)
}

/// Fence 2.
fn bindings(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let resources = ["namespaceclassbindings", "namespaceclassbindings/*"];
    policy(
        BINDINGS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("akuity.io", &resources, &["CREATE", "UPDATE", "DELETE"], None)),
            validations: Some(vec![denied_unless(
                trusted(grounds.operator),
                format!(
                    "'bindings are written by the operator only: to bind this namespace, set its label {CLASS_LABEL}; \
                     to unbind it, remove the label'"
                ),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// Fence 3. What counts is the object as it is stored: labelled, and controlled by a binding. So nobody gets out by taking a mark
/// off, and a copy of a stamped object (a restored backup, say) locks nobody out.
///
/// The status belongs to whichever controller RBAC lets write it, as long as the metadata stays: some kinds let metadata be
/// written with the status.
fn protection(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let labelled = LabelSelector {
        match_labels: Some([(PROTECTED_LABEL.to_owned(), "true".to_owned())].into()),
        ..LabelSelector::default()
    };
    let stamped = format!(
        "oldObject != null && {} == 'true' && oldObject.metadata.?ownerReferences.orValue([]).exists(owner, \
         owner.kind == 'NamespaceClassBinding' && owner.apiVersion.startsWith('akuity.io/') && owner.?controller.orValue(false))",
        label_of("oldObject", PROTECTED_LABEL)
    );
    let same = |field: &str, none: &str| {
        format!("object.metadata.?{field}.orValue({none}) == oldObject.metadata.?{field}.orValue({none})")
    };
    let status_only = [
        "request.operation == 'UPDATE' && request.?subResource.orValue('') == 'status' && object != null".to_owned(),
        same("labels", "{}"),
        same("annotations", "{}"),
        same("finalizers", "[]"),
        same("ownerReferences", "[]"),
    ];
    policy(
        PROTECTION,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("*", &["*/*"], &["UPDATE", "DELETE"], Some(labelled))),
            match_conditions: Some(vec![
                condition("stamped-and-protected", stamped),
                condition("by-an-outsider", format!("!({})", trusted(grounds.operator))),
            ]),
            validations: Some(vec![denied_unless(
                status_only.join(" && "),
                format!(
                    "'class ' + {} + ' protects the objects it puts into a namespace: change the class, or set its \
                     spec.protect to false'",
                    label_of("oldObject", STAMP_LABEL)
                ),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// Fence 4. There is always a way out: a class that says `Delete` goes at once.
fn class_deletion() -> ValidatingAdmissionPolicy {
    let wanted = "oldObject.?spec.?policy.?onClassDelete.orValue('Delete')";
    let is_held = format!("oldObject.metadata.?finalizers.orValue([]).exists(held, held == {})", quoted(FINALIZER));
    policy(
        CLASS_DELETION,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("akuity.io", &["namespaceclasses"], &["DELETE"], None)),
            validations: Some(vec![denied_unless(
                format!("oldObject == null || {wanted} == 'Delete' || {is_held}"),
                format!(
                    "'class ' + oldObject.metadata.name + ' has spec.policy.onClassDelete: ' + {wanted} + ', and the operator does \
                     not hold it yet: try again in a moment; if the operator does not run, start it, or set that to Delete'"
                ),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}
