//! A whole class: what is wrong with it, and what it means for one namespace.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    manifest::{self, Item},
    params::{self, Declared},
    template::{self, Facts, Inputs},
};
use crate::problem::Problem;

/// Labels and annotations a class may not put on a Namespace: they are ours, or Kubernetes' own.
const RESERVED: [&str; 4] =
    ["namespaceclass.akuity.io/", "akuity.io/", "kubernetes.io/metadata.name", "snappcloud.io/team"];

/// The spec of a class in the vocabulary of the core.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blueprint {
    pub class: String,
    pub resources: Vec<Map<String, Value>>,
    pub params: Vec<Declared>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl Blueprint {
    /// Everything wrong with the class that can be told without a namespace, all at once.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = params::check_declarations(&self.params);
        for (index, resource) in self.resources.iter().enumerate() {
            problems.extend(template::check(resource, &format!("spec.resources[{index}]"), &self.params));
        }
        problems.extend(manifest::parse_all(&self.resources).err().unwrap_or_default());
        for (field, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            for key in map.keys().filter(|key| RESERVED.iter().any(|reserved| key.starts_with(reserved))) {
                problems.push(Problem::new(
                    format!("spec.namespaceMetadata.{field}"),
                    format!("{key} is reserved; remove it"),
                ));
            }
        }
        problems
    }

    /// The objects for one namespace, or everything that is in the way there.
    pub fn items(&self, namespace: &Facts) -> Result<Vec<Item>, Vec<Problem>> {
        let params = params::resolve(&self.params, namespace)?;
        let inputs = Inputs { namespace: namespace.clone(), class: self.class.clone(), params };
        let mut rendered = Vec::new();
        let mut problems = Vec::new();
        for result in template::render_all(&self.resources, &inputs) {
            match result {
                Ok(manifest) => rendered.push(manifest),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        // Checked again after rendering: a template may have made two names one.
        manifest::parse_all(&rendered)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn blueprint(resources: &Value, params: Vec<Declared>) -> Blueprint {
        let resources = resources.as_array().unwrap().iter().map(|r| r.as_object().unwrap().clone()).collect();
        Blueprint { class: "web".into(), resources, params, ..Blueprint::default() }
    }

    fn facts() -> Facts {
        Facts { name: "team-a".into(), uid: "u".into(), ..Facts::default() }
    }

    #[test]
    fn a_template_that_makes_two_names_one_is_refused_for_that_namespace() {
        let names = ["team-a", "{{ namespace.name }}"];
        let resources = names.map(|name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}));
        let blueprint = blueprint(&json!(resources), Vec::new());
        assert!(blueprint.problems().is_empty());
        let problems = blueprint.items(&facts()).unwrap_err();
        assert!(problems[0].message.contains("twice"), "{problems:?}");
    }

    #[test]
    fn problems_of_every_kind_are_listed_at_once() {
        let mut blueprint = blueprint(
            &json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "{{ params.nope }}"}}, {"kind": "X"}]),
            vec![Declared { name: "p".into(), pattern: Some("(".into()), ..Declared::default() }],
        );
        blueprint.labels.insert("namespaceclass.akuity.io/name".into(), "x".into());
        let fields: Vec<_> = blueprint.problems().into_iter().map(|problem| problem.field).collect();
        for field in
            ["spec.params[0].pattern", "spec.resources[0].data.k", "spec.resources[1]", "spec.namespaceMetadata.labels"]
        {
            assert!(fields.iter().any(|found| found == field), "{field} is not among {fields:?}");
        }
    }
}
