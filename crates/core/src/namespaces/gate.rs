//! The gate of a class: Pods come into a namespace only once it has had everything of its class.
//!
//! The API server keeps it, so that it is shut also while the operator is down; what is decided here is whether one is raised. The
//! operator raises gates and takes none down, as it takes no fence down: a gate goes with its class, or by the hand of whoever may
//! write policies.

use std::fmt;

use serde_json::{Map, Value};

use crate::{plan::Step, problem::Problem};

/// The policy that every gate puts in force for its class.
pub const POLICY: &str = "croft-gate";

/// The reason while a class wants a gate and has none.
pub const NOT_RAISED: &str = "GateNotRaised";
/// The reason while a class has a gate and wants none.
pub const LEFT: &str = "GateLeft";

/// What a class says about its gate, and what there is of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub wanted: bool,
    /// The name it has.
    pub name: String,
    pub standing: Standing,
    /// Why it could not be raised just now.
    pub failure: Option<String>,
}

/// What there is under the name of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    #[default]
    Nothing,
    /// Of this class, as it was raised.
    Raised,
    /// Of this class, as it was raised; but what it puts in force is not there, or somebody changed that.
    Idle,
    /// Of this class, and somebody changed it.
    Changed,
    /// Somebody else's.
    Foreign,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateStep {
    Raise,
}

impl Step for GateStep {
    fn kind(&self) -> &'static str {
        match self {
            GateStep::Raise => "RaiseGate",
        }
    }
}

impl fmt::Display for GateStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateStep::Raise => out.write_str("raise the gate: Pods wait until their namespace has all of the class"),
        }
    }
}

/// Objects that would wait for the class while the class waits for them.
pub fn problems(resources: &[Map<String, Value>]) -> Vec<Problem> {
    let is = |item: &Map<String, Value>, field: &str, text: &str| item.get(field).and_then(Value::as_str) == Some(text);
    let is_pod = |item: &Map<String, Value>| is(item, "apiVersion", "v1") && is(item, "kind", "Pod");
    let pods = resources.iter().enumerate().filter(|(_, item)| is_pod(item));
    let message =
        "a Pod would wait for the class, and the class for the Pod; put it into a Deployment, or leave out spec.gate";
    pods.map(|(index, _)| Problem::new(format!("spec.resources[{index}]"), message)).collect()
}

pub(super) fn step(seen: &Seen) -> Option<GateStep> {
    (seen.wanted && seen.standing == Standing::Nothing).then_some(GateStep::Raise)
}

/// Reason and message, if the gate is not what the class wants.
pub(super) fn trouble(seen: &Seen) -> Option<(&'static str, String)> {
    let Seen { wanted, name, standing, failure } = seen;
    let delete = format!("kubectl delete validatingadmissionpolicybinding {name}");
    let told = match (wanted, standing, failure) {
        (true, Standing::Nothing, Some(failure)) => format!("the gate {name} cannot be raised: {failure}"),
        (true, Standing::Idle, _) => {
            format!(
                "the policy {POLICY} that the gate {name} puts in force is not as `croft manifests` prints it; apply that"
            )
        }
        (true, Standing::Changed, _) => format!("somebody changed the gate {name}; to have it raised anew: {delete}"),
        (true, Standing::Foreign, _) => {
            format!("what has the name of the gate is not ours; to have the gate raised: {delete}")
        }
        (false, Standing::Raised | Standing::Idle | Standing::Changed, _) => {
            let message =
                format!("Pods may still wait for the class; the operator takes no fence down, so do it: {delete}");
            return Some((LEFT, message));
        }
        (true, Standing::Nothing | Standing::Raised, _) | (false, Standing::Nothing | Standing::Foreign, _) => {
            return None;
        }
    };
    Some((NOT_RAISED, format!("{told}. Until then Pods may come in before the class")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Standing; 5] =
        [Standing::Nothing, Standing::Raised, Standing::Idle, Standing::Changed, Standing::Foreign];

    fn seen(wanted: bool, standing: Standing) -> Seen {
        Seen { wanted, standing, name: "croft-gate-team".into(), failure: None }
    }

    #[test]
    fn a_gate_is_raised_where_one_is_wanted_and_nothing_has_its_name() {
        for (wanted, standing) in [true, false].into_iter().flat_map(|wanted| ALL.map(|standing| (wanted, standing))) {
            let is_raised = step(&seen(wanted, standing)) == Some(GateStep::Raise);
            assert_eq!(is_raised, wanted && standing == Standing::Nothing, "{wanted} {standing:?}");
        }
    }

    #[test]
    fn whatever_is_not_as_the_class_wants_it_is_told_with_what_to_do() {
        let told = |wanted, standing| trouble(&seen(wanted, standing));
        let reasons = |wanted| ALL.map(|standing| told(wanted, standing).map(|(reason, _)| reason));
        assert_eq!(reasons(true), [None, None, Some(NOT_RAISED), Some(NOT_RAISED), Some(NOT_RAISED)]);
        assert_eq!(reasons(false), [None, Some(LEFT), Some(LEFT), Some(LEFT), None]);
        for (standing, wanted) in ALL.into_iter().flat_map(|standing| [(standing, true), (standing, false)]) {
            let Some((_, message)) = told(wanted, standing) else { continue };
            let cure = match standing {
                Standing::Idle if wanted => "croft manifests",
                _ => "kubectl delete validatingadmissionpolicybinding croft-gate-team",
            };
            assert!(message.contains(cure), "{message}");
        }
        let refused = Seen { failure: Some("forbidden".into()), ..seen(true, Standing::Nothing) };
        assert!(trouble(&refused).unwrap().1.contains("cannot be raised: forbidden"));
    }

    #[test]
    fn a_pod_in_a_gated_class_is_named_and_nothing_else_is() {
        let item = |api_version: &str, kind: &str| {
            let item = serde_json::json!({"apiVersion": api_version, "kind": kind});
            item.as_object().unwrap().clone()
        };
        let problems = problems(&[item("v1", "ConfigMap"), item("v1", "Pod"), item("x.dev/v1", "Pod")]);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].field, "spec.resources[1]");
    }
}
