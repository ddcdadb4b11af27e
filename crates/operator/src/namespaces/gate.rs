//! The gate of a class as it is stored: observes for [`croft_core::namespaces::gate`].

use std::collections::BTreeMap;

use croft_api::namespaces::{CLASS_LABEL, GATE_LABEL, Gate, NamespaceClass};
use croft_core::namespaces::gate::{GateStep, Seen, Standing};
use croft_core::plan::Failure;
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchResources, ParamRef, ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{ResourceExt, api::ObjectMeta};

use super::{class::ClassReconciler, fences::GATE, revisions::owner};
use crate::{engine::Written, objects};

fn name_of(class: &str) -> String {
    format!("{GATE}-{class}")
}

/// The class whose gate has this name, whoever made it.
pub(super) fn class_named(gate: &ValidatingAdmissionPolicyBinding) -> Option<String> {
    let name = gate.name_any();
    Some(name.strip_prefix(GATE)?.strip_prefix('-')?.to_owned())
}

/// In the namespaces of this class every Pod is judged by the binding there. Without one there is none.
fn spec_of(class: &str) -> ValidatingAdmissionPolicyBindingSpec {
    let labels = BTreeMap::from([(CLASS_LABEL.to_owned(), class.to_owned())]);
    ValidatingAdmissionPolicyBindingSpec {
        policy_name: Some(GATE.to_owned()),
        validation_actions: Some(vec!["Deny".to_owned()]),
        param_ref: Some(ParamRef {
            selector: Some(LabelSelector::default()),
            parameter_not_found_action: Some("Deny".to_owned()),
            ..ParamRef::default()
        }),
        // As the API server stores it, so that it can be compared.
        match_resources: Some(MatchResources {
            match_policy: Some("Equivalent".to_owned()),
            namespace_selector: Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }),
            object_selector: Some(LabelSelector::default()),
            ..MatchResources::default()
        }),
    }
}

fn of_class(class: &NamespaceClass) -> ValidatingAdmissionPolicyBinding {
    let name = class.name_any();
    ValidatingAdmissionPolicyBinding {
        metadata: ObjectMeta {
            name: Some(name_of(&name)),
            labels: Some(BTreeMap::from([(GATE_LABEL.to_owned(), name.clone())])),
            // It goes with its class, also while the operator is down.
            owner_references: Some(vec![owner(class)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec_of(&name)),
    }
}

fn standing(class: &NamespaceClass, stored: Option<&ValidatingAdmissionPolicyBinding>) -> Standing {
    let Some(stored) = stored else { return Standing::Nothing };
    let name = class.name_any();
    if stored.labels().get(GATE_LABEL) != Some(&name) || objects::controller(&stored.metadata) != class.uid() {
        return Standing::Foreign;
    }
    if stored.spec.as_ref() == Some(&spec_of(&name)) { Standing::Raised } else { Standing::Changed }
}

impl ClassReconciler {
    pub(super) fn see_gate(&self, class: &NamespaceClass) -> Seen {
        let name = name_of(&class.name_any());
        Seen {
            wanted: class.spec.gate == Some(Gate::Pods),
            standing: standing(class, self.gates.get("", &name).as_deref()),
            name,
            failure: None,
        }
    }

    pub(super) async fn set_gate(&self, class: &NamespaceClass, step: &GateStep) -> Result<Written, Failure> {
        match step {
            GateStep::Raise => self.writer.create(&of_class(class)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_belongs_to_the_class_is_its_gate() {
        let mut class = NamespaceClass::new("team", croft_api::namespaces::NamespaceClassSpec::default());
        class.metadata.uid = Some("u".into());
        let gate = of_class(&class);
        assert_eq!(class_named(&gate).as_deref(), Some("team"));
        assert_eq!(standing(&class, None), Standing::Nothing);
        assert_eq!(standing(&class, Some(&gate)), Standing::Raised);
        let mut changed = gate.clone();
        changed.spec.as_mut().unwrap().validation_actions = Some(vec!["Warn".into()]);
        assert_eq!(standing(&class, Some(&changed)), Standing::Changed);
        let mut unlabelled = gate.clone();
        unlabelled.metadata.labels = None;
        let mut unowned = gate;
        unowned.metadata.owner_references = None;
        for foreign in [unlabelled, unowned] {
            assert_eq!(standing(&class, Some(&foreign)), Standing::Foreign);
        }
    }
}
