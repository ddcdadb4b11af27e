//! The fences: admission policies the API server evaluates itself, so they stand while the operator is down.
//!
//! 1. Choosing a class, changing it and leaving it need the verb `use` on that class, whichever way a Namespace is written.
//! 2. Only the operator writes bindings.
//! 3. Objects stamped from a class with `protect: true` are written by the operator alone.
//!
//! Guarantees: every expression is total, so no policy fails on an object it was not made for; what does not concern a fence
//! passes it; Kubernetes' own controllers and `system:masters` are never locked out of fences 2 and 3.

use croft_api::namespaces::{CLASS_LABEL, PROTECTED_LABEL, STAMP_LABEL, USE_VERB};
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
        Validation, Variable,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

pub const CHOICE: &str = "croft-class-choice";
pub const BINDINGS: &str = "croft-bindings";
pub const PROTECTION: &str = "croft-protected-objects";

/// What the fences have to know about the installation.
#[derive(Debug)]
pub struct Grounds<'a> {
    /// The operator as the API server sees it.
    pub operator: &'a str,
    /// Namespaces no class is applied to, besides those whose name starts with `kube-`.
    pub system_namespaces: &'a [String],
}

/// Each policy with the binding that puts it in force.
pub fn policies(grounds: &Grounds<'_>) -> Vec<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)> {
    [choice(grounds), bindings(grounds), protection(grounds)]
        .into_iter()
        .map(|policy| {
            let binding = in_force(&policy);
            (policy, binding)
        })
        .collect()
}

/// Fence 1. `use` is asked for on the cluster, not in the namespace: who may do everything inside a namespace may patch that
/// Namespace too, and must not thereby choose its class.
fn choice(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let system: Vec<_> = grounds.system_namespaces.iter().map(|name| quoted(name)).collect();
    let system = system.join(", ");
    let may_use = |class: &str| {
        format!(
            "authorizer.group('akuity.io').resource('namespaceclasses').name(variables.{class}).check('{USE_VERB}').allowed()"
        )
    };
    let needs_use = |what: &str, class: &str| {
        format!(
            "'{what} needs the verb `{USE_VERB}` on namespaceclasses.akuity.io/' + variables.{class} + \
             ', which ' + request.userInfo.?username.orValue('nobody') + ' does not have'"
        )
    };
    policy(
        CHOICE,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("", &["namespaces", "namespaces/*"], &["CREATE", "UPDATE"], None)),
            variables: Some(vec![
                variable("before", format!("oldObject == null ? '' : {}", label_of("oldObject", CLASS_LABEL))),
                variable("after", label_of("object", CLASS_LABEL)),
                variable("chosen", "variables.before != variables.after && variables.after != ''".into()),
                variable("left", "variables.before != variables.after && variables.before != ''".into()),
                variable("name", "object.metadata.?name.orValue('')".into()),
            ]),
            validations: Some(vec![
                denied_unless(
                    format!(
                        "!variables.chosen || !(variables.name.startsWith('kube-') || variables.name in [{system}])"
                    ),
                    "'namespace ' + variables.name + ' belongs to the system: no class can be applied to it'".into(),
                ),
                denied_unless(
                    format!("!variables.chosen || {}", may_use("after")),
                    needs_use("choosing this class", "after"),
                ),
                denied_unless(
                    format!("!variables.left || {}", may_use("before")),
                    needs_use("leaving this class", "before"),
                ),
            ]),
            ..ValidatingAdmissionPolicySpec::default()
        },
    )
}

/// Fence 2.
fn bindings(grounds: &Grounds<'_>) -> ValidatingAdmissionPolicy {
    let resources = ["namespaceclassbindings", "namespaceclassbindings/*"];
    policy(
        BINDINGS,
        ValidatingAdmissionPolicySpec {
            match_constraints: Some(matched("akuity.io", &resources, &["CREATE", "UPDATE", "DELETE"], None)),
            validations: Some(vec![denied_unless(
                trusted(grounds),
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
                condition("by-an-outsider", format!("!({})", trusted(grounds))),
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

/// The operator, Kubernetes' own components, and the administrators of last resort.
fn trusted(grounds: &Grounds<'_>) -> String {
    let user = "request.userInfo.?username.orValue('')";
    let users = [grounds.operator, "system:kube-controller-manager", "system:kube-scheduler"].map(quoted).join(", ");
    format!(
        "{user} in [{users}] || {user}.startsWith('system:serviceaccount:kube-system:') || \
         request.userInfo.?groups.orValue([]).exists(group, group in ['system:masters', 'system:nodes'])"
    )
}

/// The value of a label, empty where there is none.
fn label_of(object: &str, label: &str) -> String {
    format!("{object}.metadata.?labels[?{}].orValue('')", quoted(label))
}

/// A CEL string; names of namespaces, users and labels need no escapes.
fn quoted(text: &str) -> String {
    format!("'{text}'")
}

fn policy(name: &str, spec: ValidatingAdmissionPolicySpec) -> ValidatingAdmissionPolicy {
    ValidatingAdmissionPolicy {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(ValidatingAdmissionPolicySpec { failure_policy: Some("Fail".into()), ..spec }),
        status: None,
    }
}

fn in_force(policy: &ValidatingAdmissionPolicy) -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: policy.metadata.clone(),
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: policy.metadata.name.clone(),
            validation_actions: Some(vec!["Deny".into()]),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }),
    }
}

fn matched(group: &str, resources: &[&str], operations: &[&str], objects: Option<LabelSelector>) -> MatchResources {
    let strings = |items: &[&str]| Some(items.iter().map(ToString::to_string).collect());
    // Stamped objects are always namespaced: what is not never comes near that fence.
    let scope = if objects.is_some() { "Namespaced" } else { "*" };
    MatchResources {
        match_policy: Some("Equivalent".into()),
        namespace_selector: Some(LabelSelector::default()),
        object_selector: Some(objects.unwrap_or_default()),
        resource_rules: Some(vec![NamedRuleWithOperations {
            api_groups: strings(&[group]),
            api_versions: strings(&["*"]),
            resources: strings(resources),
            operations: strings(operations),
            scope: Some(scope.into()),
            resource_names: None,
        }]),
        exclude_resource_rules: None,
    }
}

fn variable(name: &str, expression: String) -> Variable {
    Variable { name: name.to_owned(), expression }
}

fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

fn denied_unless(expression: String, message: String) -> Validation {
    Validation { expression, message_expression: Some(message), message: None, reason: Some("Forbidden".into()) }
}
