//! The gate of a class as it is stored: observes for [`croft_core::namespaces::gate`].

use std::{collections::BTreeMap, sync::Arc};

use croft_api::namespaces::{CLASS_LABEL, GATE_LABEL, Gate, NamespaceClass};
use croft_core::namespaces::gate::{GateStep, Seen, Standing};
use croft_core::plan::Failure;
use k8s_openapi::{
    api::admissionregistration::v1::{
        MatchResources, ParamRef, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
        ValidatingAdmissionPolicyBindingSpec,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{ResourceExt, api::ObjectMeta};

use super::{
    CLASS, NAMESPACES,
    class::ClassReconciler,
    fences::{GATE, gate_policy},
    revisions::owner,
};
use crate::{
    engine::{Cache, Change, EngineBuilder, Key, Written},
    objects,
};

/// The gates there are, and the policies they may put in force.
#[derive(Debug)]
pub(super) struct Gates {
    raised: Arc<Cache<ValidatingAdmissionPolicyBinding>>,
    policies: Arc<Cache<ValidatingAdmissionPolicy>>,
}

impl Gates {
    /// A class looks again when something happens to its gate, and each that wants one when something happens to their policy.
    pub(super) fn watch(engine: &mut EngineBuilder, classes: Arc<Cache<NamespaceClass>>) -> Self {
        let gates = Self { raised: engine.cluster_objects(NAMESPACES), policies: engine.cluster_objects(NAMESPACES) };
        gates.raised.wakes(|change: Change<'_, ValidatingAdmissionPolicyBinding>| {
            change.both().filter_map(class_named).map(|class| Key::cluster(CLASS, class)).collect()
        });
        gates.policies.wakes(move |change: Change<'_, ValidatingAdmissionPolicy>| {
            let all = if change.object().name_any() == GATE { classes.all() } else { Vec::new() };
            let concerned = all.iter().filter(|class| wants_gate(class));
            concerned.map(|class| Key::cluster(CLASS, class.name_any())).collect()
        });
        gates
    }

    fn standing(&self, class: &NamespaceClass) -> Standing {
        let gate = self.raised.get("", &name_of(&class.name_any()));
        standing(class, gate.as_deref(), self.policies.get("", GATE).as_deref())
    }
}

fn wants_gate(class: &NamespaceClass) -> bool {
    class.spec.gate == Some(Gate::Pods)
}

fn name_of(class: &str) -> String {
    format!("{GATE}-{class}")
}

/// The class whose gate has this name, whoever made it.
fn class_named(gate: &ValidatingAdmissionPolicyBinding) -> Option<String> {
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

fn standing(
    class: &NamespaceClass,
    stored: Option<&ValidatingAdmissionPolicyBinding>,
    policy: Option<&ValidatingAdmissionPolicy>,
) -> Standing {
    let Some(stored) = stored else { return Standing::Nothing };
    let name = class.name_any();
    if stored.labels().get(GATE_LABEL) != Some(&name) || objects::controller(&stored.metadata) != class.uid() {
        return Standing::Foreign;
    }
    let holds = || policy.is_some_and(|policy| policy.spec == gate_policy().spec);
    match stored.spec.as_ref() == Some(&spec_of(&name)) {
        true if holds() => Standing::Raised,
        true => Standing::Idle,
        false => Standing::Changed,
    }
}

impl ClassReconciler {
    pub(super) fn see_gate(&self, class: &NamespaceClass) -> Seen {
        Seen {
            wanted: wants_gate(class),
            standing: self.gates.standing(class),
            name: name_of(&class.name_any()),
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
        let (gate, policy) = (of_class(&class), gate_policy());
        let standing = |gate: Option<&ValidatingAdmissionPolicyBinding>| super::standing(&class, gate, Some(&policy));
        assert_eq!(class_named(&gate).as_deref(), Some("team"));
        assert_eq!(standing(None), Standing::Nothing);
        assert_eq!(standing(Some(&gate)), Standing::Raised);
        let mut changed = gate.clone();
        changed.spec.as_mut().unwrap().validation_actions = Some(vec!["Warn".into()]);
        assert_eq!(standing(Some(&changed)), Standing::Changed);
        let mut weaker = policy.clone();
        weaker.spec.as_mut().unwrap().failure_policy = Some("Ignore".into());
        for policy in [None, Some(&weaker)] {
            assert_eq!(super::standing(&class, Some(&gate), policy), Standing::Idle, "it holds nobody");
        }
        let mut unlabelled = gate.clone();
        unlabelled.metadata.labels = None;
        let mut unowned = gate;
        unowned.metadata.owner_references = None;
        for foreign in [unlabelled, unowned] {
            assert_eq!(standing(Some(&foreign)), Standing::Foreign);
        }
    }
}
