//! A raw class -> a checked one. Admission and the reconciler call the same function.

use croft_core::{
    backup::duration,
    namespaces::{
        blueprint::Blueprint,
        gate,
        manifest::{group_of, is_own_label},
        params::{Declared, Kind},
        resources::Policy,
        rollout::{self, Share, Wishes},
    },
    problem::MOST_PROBLEMS,
};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value};

use super::{
    Gate, NamespaceClass, NamespaceClassSpec, OnClassDelete, OnConflict, OnDrift, OnImmutable, Param, ParamType,
};
use crate::Problem;

/// The class in the vocabulary of the core, whatever is wrong with it.
pub fn blueprint(class: &NamespaceClass) -> Blueprint {
    let metadata = class.spec.namespace_metadata.clone().unwrap_or_default();
    Blueprint {
        class: class.metadata.name.clone().unwrap_or_default(),
        resources: class.spec.resources.clone(),
        params: class.spec.params.iter().map(Declared::from).collect(),
        labels: metadata.labels,
        annotations: metadata.annotations,
    }
}

/// The checked class, or everything that is wrong with it.
pub fn validate(class: &NamespaceClass) -> Result<Blueprint, Vec<Problem>> {
    match (furnishing(class), wishes(class)) {
        (checked, Ok(_)) => checked,
        (checked, Err(wishes)) => Err(checked.err().into_iter().flatten().chain(wishes).collect()),
    }
}

/// What the class means for namespaces, or everything that is wrong with that: how it is rolled out is another matter.
pub fn furnishing(class: &NamespaceClass) -> Result<Blueprint, Vec<Problem>> {
    let blueprint = blueprint(class);
    let mut problems = blueprint.problems();
    if class.spec.gate == Some(Gate::Pods) {
        problems.extend(gate::problems(&class.spec.resources));
    }
    if problems.is_empty() { Ok(blueprint) } else { Err(problems) }
}

/// What the class says about its roll-outs, or everything that is wrong with that.
pub fn wishes(class: &NamespaceClass) -> Result<Wishes, Vec<Problem>> {
    let Some(rollout) = &class.spec.rollout else { return Ok(Wishes::default()) };
    let mut problems = Vec::new();
    let mut share = |field: &str, given: Option<&IntOrString>| {
        let share = given.map(share_of);
        if share == Some(None) {
            let message = "is neither a number nor a percentage; give for example 10, or 10%";
            problems.push(Problem::new(format!("spec.rollout.{field}"), message));
        }
        share.flatten()
    };
    let mut wishes = Wishes {
        batch: share("batch", rollout.batch.as_ref()),
        stop_when_failing: share("stopWhenFailing", rollout.stop_when_failing.as_ref()),
        max_deletions: share("maxDeletions", rollout.max_deletions.as_ref()),
        paused: rollout.paused,
        ..Wishes::default()
    };
    match rollout.pause.as_deref().map(duration::parse) {
        Some(None) => {
            problems.push(Problem::new("spec.rollout.pause", "is not a length of time; give for example 10m"));
        }
        pause => wishes.pause = pause.flatten().unwrap_or_default(),
    }
    if problems.is_empty() { Ok(wishes) } else { Err(problems) }
}

fn share_of(given: &IntOrString) -> Option<Share> {
    match given {
        IntOrString::Int(number) => u64::try_from(*number).ok().map(Share::Number),
        IntOrString::String(text) => Share::parse(text),
    }
}

/// What a revision of a class holds. Guarantee: [`from_content`] makes the same class of it, but for `spec.rollout` and `spec.gate`.
pub fn content(spec: &NamespaceClassSpec) -> Value {
    let fields = |value| match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    rollout::content(fields(serde_json::to_value(spec)), &fields(serde_json::to_value(super::Policy::default())))
}

/// The spec a revision holds, if it is one.
pub fn from_content(content: &Value) -> Option<NamespaceClassSpec> {
    serde_json::from_value(content.clone()).ok()
}

/// Labels of items that only we set. What a class says there from before is not heeded.
pub fn own_labels(class: &NamespaceClass) -> Vec<Problem> {
    let items = class.spec.resources.iter().enumerate();
    let labels = items.flat_map(|(index, item)| {
        let labels = item.get("metadata").and_then(|metadata| metadata.get("labels")?.as_object());
        labels.into_iter().flat_map(Map::keys).map(move |label| (index, label))
    });
    let problem = |(index, label): (usize, &String)| {
        Problem::new(
            format!("spec.resources[{index}].metadata.labels"),
            format!("{label} is set by the operator alone; remove it"),
        )
    };
    labels.filter(|(_, label)| is_own_label(label)).map(problem).take(MOST_PROBLEMS).collect()
}

/// Objects that would not live in the namespace, by what the cluster says about their kinds.
pub fn not_namespaced(class: &NamespaceClass, is_cluster_scoped: impl Fn(&str, &str) -> bool) -> Vec<Problem> {
    let items = class.spec.resources.iter().enumerate();
    let items = items.filter(|(_, item)| is_cluster_scoped(group_of(text(item, "apiVersion")), text(item, "kind")));
    let problem = |(index, item)| {
        let kind = text(item, "kind");
        Problem::new(
            format!("spec.resources[{index}]"),
            format!("{kind} is not namespaced: a class holds namespaced objects only; remove it"),
        )
    };
    items.map(problem).take(MOST_PROBLEMS).collect()
}

/// Secrets whose values stand in the class: who may read the class may read them.
pub fn readable_secrets(class: &NamespaceClass) -> Vec<String> {
    let has_values = |item: &Map<String, Value>| ["data", "stringData"].iter().any(|field| item.contains_key(*field));
    let items = class.spec.resources.iter().enumerate();
    let secrets = items.filter(|(_, item)| text(item, "kind") == "Secret" && has_values(item));
    let warning =
        |(index, _)| format!("spec.resources[{index}]: whoever may read this class can read the values of this Secret");
    secrets.map(warning).collect()
}

fn text<'a>(item: &'a Map<String, Value>, field: &str) -> &'a str {
    item.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// What the class does when the world is not as it wants it.
pub fn policy(class: &NamespaceClass) -> Policy {
    let chosen = class.spec.policy;
    Policy {
        adopt: chosen.on_conflict == OnConflict::Adopt,
        replace: chosen.on_conflict == OnConflict::Replace,
        report_drift: chosen.on_drift == OnDrift::Report,
        exact: chosen.on_drift == OnDrift::Exact,
        recreate_immutable: chosen.on_immutable == OnImmutable::Recreate,
        orphan_on_class_delete: chosen.on_class_delete == OnClassDelete::Orphan,
        block_class_delete: chosen.on_class_delete == OnClassDelete::Block,
    }
}

impl From<&Param> for Declared {
    fn from(param: &Param) -> Self {
        Self {
            name: param.name.clone(),
            kind: match param.type_ {
                ParamType::String => Kind::String,
                ParamType::Integer => Kind::Integer,
                ParamType::Boolean => Kind::Boolean,
            },
            default: param.default.clone(),
            pattern: param.pattern.clone(),
            one_of: param.enum_.clone(),
            minimum: param.minimum,
            maximum: param.maximum,
            from_namespace_annotation: param.from_namespace_annotation.clone(),
            from_namespace_label: param.from_namespace_label.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(spec: &Value) -> NamespaceClass {
        NamespaceClass::new("web", serde_json::from_value(spec.clone()).unwrap())
    }

    #[test]
    fn everything_wrong_with_a_roll_out_is_told_with_its_field_and_what_to_give() {
        let wrong = class(
            &json!({"rollout": {"batch": "some", "stopWhenFailing": -1, "maxDeletions": "101%", "pause": "soon"}}),
        );
        let fields: Vec<_> = validate(&wrong).unwrap_err().into_iter().map(|problem| problem.field).collect();
        let expected =
            ["batch", "stopWhenFailing", "maxDeletions", "pause"].map(|field| format!("spec.rollout.{field}"));
        assert_eq!(fields, expected);
        let right = class(&json!({"rollout": {"batch": "10%", "stopWhenFailing": 2, "pause": "90s"}}));
        let wishes = wishes(&right).unwrap();
        assert_eq!((wishes.batch, wishes.stop_when_failing), (Some(Share::Percent(10)), Some(Share::Number(2))));
        assert_eq!(wishes.pause.as_secs(), 90);
    }

    #[test]
    fn a_revision_holds_the_whole_class_but_its_roll_out_and_its_gate() {
        let spec = json!({
            "resources": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": ""}}],
            "policy": {"onDrift": "Report"},
            "params": [{"name": "p"}],
            "protect": true,
            "rollout": {"batch": 1},
            "gate": "Pods",
        });
        let spec = class(&spec).spec;
        let back = from_content(&content(&spec)).unwrap();
        assert_eq!(back, NamespaceClassSpec { rollout: None, gate: None, ..spec });
        assert_eq!(content(&NamespaceClassSpec::default()), json!({}));
        assert_eq!(from_content(&json!({})), Some(NamespaceClassSpec::default()));
    }
}
