//! `ValidatingAdmissionPolicies`, which the API server evaluates itself: what the fences of all parts are made of.

use croft_api::{namespaces::USE_VERB, yaml_document};
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchCondition, MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy,
        ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
        Validation, Variable,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};

/// The policy, and the binding that puts it in force.
pub(crate) fn documents(policy: &ValidatingAdmissionPolicy) -> [String; 2] {
    [yaml_document(policy), yaml_document(&in_force(policy))]
}

/// A label of Namespaces whose value stands for an object of the cluster: setting, changing and removing it need the verb `use`
/// on that object, whichever way a Namespace is written. `use` is asked for on the cluster, not in the namespace: who may do
/// everything inside a namespace may patch that Namespace too, and must not thereby choose.
pub(crate) struct Choice {
    /// `before` and `after` are values of the label; `chosen` and `left` say what becomes of them.
    pub(crate) variables: Vec<Variable>,
    pub(crate) validations: Vec<Validation>,
}

impl Choice {
    /// `what` the label chooses: a `resource` of a `group`.
    pub(crate) fn by_label(label: &str, what: &str, group: &str, resource: &str) -> Self {
        let may_use = |name: &str| {
            format!(
                "authorizer.group('{group}').resource('{resource}').name(variables.{name}).check('{USE_VERB}').allowed()"
            )
        };
        let needs_use = |verb: &str, name: &str| {
            format!(
                "'{verb} this {what} needs the verb `{USE_VERB}` on {resource}.{group}/' + variables.{name} + \
                 ', which ' + request.userInfo.?username.orValue('nobody') + ' does not have'"
            )
        };
        Self {
            variables: vec![
                variable("before", format!("oldObject == null ? '' : {}", label_of("oldObject", label))),
                variable("after", label_of("object", label)),
                variable("chosen", "variables.before != variables.after && variables.after != ''".into()),
                variable("left", "variables.before != variables.after && variables.before != ''".into()),
            ],
            validations: vec![
                denied_unless(format!("!variables.chosen || {}", may_use("after")), needs_use("choosing", "after")),
                denied_unless(format!("!variables.left || {}", may_use("before")), needs_use("leaving", "before")),
            ],
        }
    }

    pub(crate) fn policy(self, name: &str) -> ValidatingAdmissionPolicy {
        policy(
            name,
            ValidatingAdmissionPolicySpec {
                match_constraints: Some(matched("", &["namespaces", "namespaces/*"], &["CREATE", "UPDATE"], None)),
                variables: Some(self.variables),
                validations: Some(self.validations),
                ..ValidatingAdmissionPolicySpec::default()
            },
        )
    }
}

/// The value of a label, empty where there is none.
pub(crate) fn label_of(object: &str, label: &str) -> String {
    format!("{object}.metadata.?labels[?{}].orValue('')", quoted(label))
}

/// The operator, Kubernetes' own components, and the administrators of last resort.
pub(crate) fn trusted(operator: &str) -> String {
    let user = "request.userInfo.?username.orValue('')";
    let users = [operator, "system:kube-controller-manager", "system:kube-scheduler"].map(quoted).join(", ");
    format!(
        "{user} in [{users}] || {user}.startsWith('system:serviceaccount:kube-system:') || \
         request.userInfo.?groups.orValue([]).exists(group, group in ['system:masters', 'system:nodes'])"
    )
}

/// A CEL string; names of namespaces, users and labels need no escapes.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{text}'")
}

pub(crate) fn policy(name: &str, spec: ValidatingAdmissionPolicySpec) -> ValidatingAdmissionPolicy {
    ValidatingAdmissionPolicy {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: Some(ValidatingAdmissionPolicySpec { failure_policy: Some("Fail".into()), ..spec }),
        status: None,
    }
}

pub(crate) fn in_force(policy: &ValidatingAdmissionPolicy) -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: policy.metadata.clone(),
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: policy.metadata.name.clone(),
            validation_actions: Some(vec!["Deny".into()]),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }),
    }
}

pub(crate) fn matched(
    group: &str,
    resources: &[&str],
    operations: &[&str],
    objects: Option<LabelSelector>,
) -> MatchResources {
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

pub(crate) fn variable(name: &str, expression: String) -> Variable {
    Variable { name: name.to_owned(), expression }
}

pub(crate) fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

pub(crate) fn denied_unless(expression: String, message: String) -> Validation {
    Validation { expression, message_expression: Some(message), message: None, reason: Some("Forbidden".into()) }
}
