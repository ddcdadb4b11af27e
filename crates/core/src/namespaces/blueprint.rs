//! A whole class: what is wrong with it, and what it means for one namespace.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    manifest::{self, Item},
    params::{self, Declared, Resolved, Texts},
    template::{self, Facts, Inputs, quoted},
};
use crate::{
    name::is_label_value,
    problem::{MOST_PROBLEMS, Problem},
};

/// Most objects in a class, as its schema has it. Here as well, so that the work is bounded whoever asks for it.
pub const MOST_RESOURCES: usize = 100;

/// Most labels, and most annotations, for the Namespace, as the schema has it.
pub const MOST_METADATA: usize = 64;

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

/// What a class means for one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Furnished {
    pub items: Vec<Item>,
    /// The values in force.
    pub params: Texts,
    /// Values that are given and not in force.
    pub refused: Vec<Problem>,
}

impl Blueprint {
    /// Everything wrong with the class that can be told without a namespace, all at once; at most [`MOST_PROBLEMS`].
    pub fn problems(&self) -> Vec<Problem> {
        if let Some(problem) = self.too_many() {
            return vec![problem];
        }
        let mut problems = params::check_declarations(&self.params);
        for (index, resource) in self.resources.iter().enumerate() {
            if problems.len() >= MOST_PROBLEMS {
                break;
            }
            problems.extend(template::check(resource, &format!("spec.resources[{index}]"), &self.params));
        }
        problems.extend(manifest::parse_all(self.resources.iter().cloned()).err().unwrap_or_default());
        problems.extend(self.problems_of_metadata());
        problems.truncate(MOST_PROBLEMS);
        problems
    }

    fn too_many(&self) -> Option<Problem> {
        let counts = [
            ("spec.resources", self.resources.len(), MOST_RESOURCES),
            ("spec.params", self.params.len(), params::MOST_PARAMS),
            ("spec.namespaceMetadata.labels", self.labels.len(), MOST_METADATA),
            ("spec.namespaceMetadata.annotations", self.annotations.len(), MOST_METADATA),
        ];
        let (field, count, most) = counts.into_iter().find(|(_, count, most)| count > most)?;
        Some(Problem::new(field, format!("has {count} entries; give at most {most}")))
    }

    /// Labels and annotations the Namespace may not have, or the API server would refuse.
    fn problems_of_metadata(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (field, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            let mut problem =
                |message: String| problems.push(Problem::new(format!("spec.namespaceMetadata.{field}"), message));
            for (key, value) in map {
                if RESERVED.iter().any(|reserved| key.starts_with(reserved)) {
                    problem(format!("{} is reserved; remove it", quoted(key)));
                } else if !template::is_metadata_key(key) {
                    problem(format!(
                        "{} cannot be a key; give [prefix/]name of letters, digits, - _ and .",
                        quoted(key)
                    ));
                } else if field == "labels" && !is_label_value(value) {
                    problem(format!(
                        "{key}: {} cannot be the value of a label; give at most 63 letters, digits, - _ and ., \
                         a letter or digit first and last",
                        quoted(value)
                    ));
                }
            }
        }
        problems
    }

    /// The objects for one namespace, or everything that is in the way there. `before` are the values last in force there.
    pub fn items(&self, namespace: &Facts, before: &Texts) -> Result<Furnished, Vec<Problem>> {
        if let Some(problem) = self.too_many() {
            return Err(vec![problem]);
        }
        let Resolved { values, in_force, refused } = params::resolve(&self.params, namespace, before)?;
        let inputs = Inputs { namespace: namespace.clone(), class: self.class.clone(), params: values };
        let mut rendered = Vec::new();
        let mut problems = Vec::new();
        for result in template::render_all(&self.resources, &inputs) {
            match result {
                Ok(manifest) => rendered.push(manifest),
                Err(found) => problems.extend(found),
            }
        }
        if !problems.is_empty() {
            problems.truncate(MOST_PROBLEMS);
            return Err(problems);
        }
        // Checked again after rendering: a template may have made two names one.
        Ok(Furnished { items: manifest::parse_all(rendered)?, params: in_force, refused })
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
        let problems = blueprint.items(&facts(), &Texts::new()).unwrap_err();
        assert!(problems[0].message.contains("twice"), "{problems:?}");
    }

    #[test]
    fn metadata_the_api_server_would_refuse_is_a_problem_of_the_class() {
        let with_label = |key: &str, value: &str| {
            let labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            Blueprint { labels, ..Blueprint::default() }.problems().len()
        };
        for (key, value) in [("a", ""), ("croft.dev/tier", "gold-1"), ("pod-security.kubernetes.io/enforce", "x_y.z")] {
            assert_eq!(with_label(key, value), 0, "{key}={value}");
        }
        let long = "x".repeat(64);
        for (key, value) in
            [("a", "-x"), ("a", "x."), ("a", "two words"), ("a", long.as_str()), ("a b", "x"), ("", "x")]
        {
            assert_eq!(with_label(key, value), 1, "{key}={value}");
        }
        let annotations = BTreeMap::from([("a".to_owned(), "any text at all".to_owned())]);
        assert!(Blueprint { annotations, ..Blueprint::default() }.problems().is_empty());
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
