//! A raw class -> a checked one. Admission and the reconciler call the same function.

use croft_core::{
    namespaces::{
        blueprint::Blueprint,
        manifest::group_of,
        params::{Declared, Kind},
        resources::Policy,
    },
    problem::MOST_PROBLEMS,
};

use serde_json::{Map, Value};

use super::{NamespaceClass, OnClassDelete, OnConflict, OnDrift, OnImmutable, Param, ParamType};
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
    let blueprint = blueprint(class);
    let problems = blueprint.problems();
    if problems.is_empty() { Ok(blueprint) } else { Err(problems) }
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
        report_drift: chosen.on_drift == OnDrift::Report,
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
