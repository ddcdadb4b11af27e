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

use crate::manifests::operator;

/// A policy with the binding that puts it in force.
pub(crate) type Fence = (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding);

/// In force everywhere.
pub(crate) fn plain(policy: ValidatingAdmissionPolicy) -> Fence {
    let binding = in_force(&policy);
    (policy, binding)
}

pub(crate) fn documents((policy, binding): &Fence) -> [String; 2] {
    [yaml_document(policy), yaml_document(binding)]
}

/// A label of Namespaces whose value stands for an object of the cluster: setting and changing it need the verb `use` on that
/// object, whichever way a Namespace is written. Rights are asked for on the cluster, not in the namespace: who may do everything
/// inside a namespace may patch that Namespace too, and must not thereby choose.
pub(crate) struct Choice {
    /// `before` and `after` are values of the label; `chosen` and `left` say what becomes of them.
    pub(crate) variables: Vec<Variable>,
    pub(crate) validations: Vec<Validation>,
}

/// What a label chooses: a resource of a group, and what people call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub(crate) label: &'static str,
    pub(crate) what: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
}

impl Chosen {
    /// Whether the user has a verb on the object that the label names: `before` or `after`.
    fn may(self, verb: &str, name: &str) -> String {
        let Self { group, resource, .. } = self;
        format!("authorizer.group('{group}').resource('{resource}').name(variables.{name}).check('{verb}').allowed()")
    }

    fn refused(self, doing: &str, verb: &str, name: &str) -> String {
        let Self { what, group, resource, .. } = self;
        format!(
            "'{doing} this {what} needs the verb `{verb}` on {resource}.{group}/' + variables.{name} + \
             ', which ' + request.userInfo.?username.orValue('nobody') + ' does not have'"
        )
    }

    pub(crate) fn variables(self) -> Vec<Variable> {
        let label = self.label;
        vec![
            variable("before", format!("oldObject == null ? '' : {}", label_of("oldObject", label))),
            variable("after", label_of("object", label)),
            variable("chosen", "variables.before != variables.after && variables.after != ''".into()),
            variable("left", "variables.before != variables.after && variables.before != ''".into()),
        ]
    }

    /// Choosing needs `use` on what is chosen.
    pub(crate) fn choosing(self) -> Validation {
        let may = self.may(USE_VERB, "after");
        denied_unless(format!("!variables.chosen || {may}"), self.refused("choosing", USE_VERB, "after"))
    }

    /// Leaving needs a verb on what is left.
    pub(crate) fn leaving(self, verb: &str) -> Validation {
        let may = self.may(verb, "before");
        denied_unless(format!("!variables.left || {may}"), self.refused("leaving", verb, "before"))
    }
}

impl Choice {
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
    trusted_besides(operator, &[])
}

/// As [`trusted`], and whom an administrator names.
pub(crate) fn trusted_besides(operator: &str, users: &[String]) -> String {
    let user = "request.userInfo.?username.orValue('')";
    let known = [operator, "system:kube-controller-manager", "system:kube-scheduler"];
    let users: Vec<_> = known.into_iter().chain(users.iter().map(String::as_str)).map(quoted).collect();
    let users = users.join(", ");
    format!(
        "{user} in [{users}] || {user}.startsWith('system:serviceaccount:kube-system:') || \
         request.userInfo.?groups.orValue([]).exists(group, group in ['system:masters', 'system:nodes'])"
    )
}

/// Nothing is stored: what fences keep from being changed may be tried out, so that an administrator can see what a class would do.
pub(crate) fn for_real() -> MatchCondition {
    condition("for-real", "!request.?dryRun.orValue(false)".into())
}

/// Whoever runs in Velero's namespace works for Velero, whatever its account is called; but for the operator, should it be there.
pub(crate) fn by_velero(velero_namespace: &str) -> String {
    let accounts = quoted(&format!("system:serviceaccount:{velero_namespace}:"));
    let operator = quoted(&operator(velero_namespace));
    let user = "request.userInfo.?username.orValue('')";
    format!("{user}.startsWith({accounts}) && {user} != {operator}")
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
