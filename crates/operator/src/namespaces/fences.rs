//! The fences: admission policies the API server evaluates itself, so they stand while the operator is down.
//!
//! 1. Choosing a class needs the verb `use` on it, leaving it the verb `leave`, whichever way a Namespace is written. Where the
//!    administrator says so, namespaces of tenants have a class.
//! 2. Only the operator writes bindings.
//! 3. Objects stamped from a class with `protect: true` are written by the operator alone, and so are the marks by which such an
//!    object is known: nobody makes one that nobody can delete. So are the labels such a class sets on the Namespace.
//! 4. A class that is not to take its objects with it is not deleted before the operator holds it: once it is gone, nobody can
//!    read in it what was wanted.
//!
//! 5. Pods of a gated class wait until their namespace has had everything of it.
//!
//! Beside them stands a help: values a class does not take are refused when a namespace gives them.
//!
//! Guarantees: every expression is total, so no policy fails on an object it was not made for; what does not concern a fence
//! passes it; Kubernetes' own controllers and `system:masters` are never locked out of fences 2 and 3.

use croft_api::namespaces::{CLASS_LABEL, PROTECTED_LABEL, STAMP_LABEL};
use k8s_openapi::{
    api::admissionregistration::v1::{MatchResources, ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};

mod gate;
mod leaving;
mod marks;
mod metadata;
mod params;
mod required;
mod size;

pub use self::required::Requirement;

use super::class::FINALIZER;
use crate::policies::{
    Choice, Chosen, Fence, condition, denied_unless, for_real, label_of, matched, plain, policy, quoted,
    trusted_besides, variable,
};

pub const CHOICE: &str = "croft-class-choice";
pub const LEAVING: &str = "croft-class-leaving";
pub const REQUIRED: &str = "croft-class-required";
pub const BINDINGS: &str = "croft-bindings";
pub const PROTECTION: &str = "croft-protected-objects";
pub const MARKS: &str = "croft-marks";
pub const METADATA: &str = "croft-namespace-metadata";
pub const PARAMS: &str = "croft-class-params";
pub const SIZE: &str = "croft-namespace-size";
/// Also how the names of its bindings begin, one for each gated class.
pub const GATE: &str = croft_core::namespaces::gate::POLICY;
pub const CLASS_DELETION: &str = "croft-class-deletion";

/// The label that chooses a class.
const CLASSES: Chosen = Chosen { label: CLASS_LABEL, what: "class", group: "akuity.io", resource: "namespaceclasses" };

/// What the fences have to know about the installation.
#[derive(Debug)]
pub struct Grounds<'a> {
    /// The operator as the API server sees it.
    pub operator: &'a str,
    /// Users who are trusted like it.
    pub trusted_users: &'a [String],
    /// The namespace Velero runs in.
    pub velero_namespace: &'a str,
    /// Which namespaces must have a class.
    pub requirement: Option<Requirement<'a>>,
    /// Namespaces no class is applied to, besides those whose name starts with `kube-`.
    pub system_namespaces: &'a [String],
}

impl Grounds<'_> {
    fn trusted(&self) -> String {
        trusted_besides(self.operator, self.trusted_users)
    }
}

/// Of the namespaces that take no class by the settings, those that the installed fence does not know.
pub(crate) fn unfenced<'s>(installed: &ValidatingAdmissionPolicy, settings: &'s [String]) -> Vec<&'s str> {
    let validations = installed.spec.iter().flat_map(|spec| spec.validations.iter().flatten());
    let expressions: Vec<_> = validations.map(|validation| validation.expression.as_str()).collect();
    let is_known = |name: &str| expressions.iter().any(|expression| expression.contains(&quoted(name)));
    settings.iter().map(String::as_str).filter(|name| !is_known(name)).collect()
}

/// Put in force by the operator, for each class that wants it.
pub(crate) fn gate_policy() -> ValidatingAdmissionPolicy {
    gate::gate()
}

pub(crate) fn all(grounds: &Grounds<'_>) -> Vec<Fence> {
    let plain = [
        choice(grounds),
        bindings(grounds),
        protection(grounds),
        marks::marks(grounds),
        metadata::metadata(grounds),
        size::size(grounds),
        class_deletion(),
    ]
    .map(plain);
    let required = grounds.requirement.as_ref().map(|requirement| required::required(grounds, requirement));
    plain.into_iter().chain([leaving::leaving(), params::params()]).chain(required).collect()
}

/// Namespaces that have a class, before or after: whatever else somebody writes into one that has none, no fence reads it.
fn with_a_class(resources: &[&str], operations: &[&str]) -> MatchResources {
    let has_a_class = LabelSelectorRequirement { key: CLASS_LABEL.into(), operator: "Exists".into(), values: None };
    let selector = LabelSelector { match_expressions: Some(vec![has_a_class]), ..LabelSelector::default() };
    MatchResources { object_selector: Some(selector), ..matched("", resources, operations, None) }
}

/// Fence 1.
fn choice(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let system: Vec<_> = grounds.system_namespaces.iter().map(|name| quoted(name)).collect();
    let system = system.join(", ");
    let mut variables = CLASSES.variables();
    variables.push(variable("name", "object.metadata.?name.orValue('')".into()));
    let to_tenants = denied_unless(
        format!("!variables.chosen || !(variables.name.startsWith('kube-') || variables.name in [{system}])"),
        "'namespace ' + variables.name + ' belongs to the system: no class can be applied to it'".into(),
    );
    Choice { variables, validations: vec![to_tenants, CLASSES.choosing()] }.policy(CHOICE)
}

/// Fence 2.
fn bindings(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let resources = ["namespaceclassbindings", "namespaceclassbindings/*"];
    policy(
        BINDINGS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("akuity.io", &resources, &["CREATE", "UPDATE", "DELETE"], None)),
            validations: Some(vec![denied_unless(
                grounds.trusted(),
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
/// written with the status. And what is being deleted is held by nobody longer than whoever holds it says.
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
    let lets_go = [
        "request.operation == 'UPDATE' && request.?subResource.orValue('') == '' && object != null".to_owned(),
        "has(oldObject.metadata.deletionTimestamp)".to_owned(),
        same("labels", "{}"),
        same("annotations", "{}"),
        same("ownerReferences", "[]"),
        "object.metadata.?finalizers.orValue([]).all(held, held in oldObject.metadata.?finalizers.orValue([]))"
            .to_owned(),
        "object.all(field, field == 'metadata' || field in oldObject && object[field] == oldObject[field])".to_owned(),
        "oldObject.all(field, field in object)".to_owned(),
    ];
    policy(
        PROTECTION,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("*", &["*/*"], &["UPDATE", "DELETE"], Some(labelled))),
            match_conditions: Some(vec![
                for_real(),
                condition("stamped-and-protected", stamped),
                condition("by-an-outsider", format!("!({})", grounds.trusted())),
            ]),
            validations: Some(vec![denied_unless(
                format!("{} || {}", status_only.join(" && "), lets_go.join(" && ")),
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

/// Fence 4. There is always a way out: the fence can be deleted.
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
                     not hold it yet: try again in a moment; if the operator does not run, start it, or delete the \
                     ValidatingAdmissionPolicyBinding {CLASS_DELETION}'"
                ),
            )]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_the_fence_does_not_know_are_found() {
        let fenced = ["default".to_owned()];
        let grounds = Grounds {
            operator: "o",
            trusted_users: &[],
            velero_namespace: "velero",
            requirement: None,
            system_namespaces: &fenced,
        };
        let settings = ["default".to_owned(), "monitoring".to_owned()];
        assert_eq!(unfenced(&choice(&grounds), &settings), ["monitoring"]);
    }
}
