//! A whole class: what is wrong with it, and what it means for one namespace.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    manifest::{self, Identity, Item, group_of},
    params::{self, Declared, Resolved, Texts},
    template::{self, Facts, Inputs, is_template, quoted},
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

/// Whether a label or annotation of a Namespace is no class's to set.
pub(super) fn is_reserved(key: &str) -> bool {
    RESERVED.iter().any(|reserved| key.starts_with(reserved))
}

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
    /// What cannot be made here.
    pub misfits: Vec<Misfit>,
    /// The values in force.
    pub params: Texts,
    /// Values that are given and not in force, or missing.
    pub refused: Vec<Problem>,
}

impl Furnished {
    /// Whether an object is wanted, or may be once everything fits.
    pub fn may_want(&self, identity: &Identity) -> bool {
        self.items.iter().any(|item| item.identity == *identity)
            || self.misfits.iter().any(|misfit| misfit.may_be(identity))
    }
}

/// A manifest of which nothing can be made in one namespace: it blocks itself, and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfit {
    pub group: String,
    pub kind: String,
    /// The name of its object, unless that is what cannot be told,
    pub name: Option<String>,
    /// and the template it is made of.
    pub named_by: Option<String>,
    pub problems: Vec<Problem>,
}

impl Misfit {
    fn of(manifest: &Map<String, Value>, inputs: &Inputs, problems: Vec<Problem>) -> Self {
        let text = |field: &str| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
        let group = group_of(text("apiVersion")).to_owned();
        let (name, named_by) = (template::name_in(manifest, inputs), named_by(manifest));
        Self { group, kind: text("kind").to_owned(), name, named_by, problems }
    }

    /// Whether it may have made what is on record as named by that template, or by none.
    pub fn may_have_made(&self, named_by: Option<&str>) -> bool {
        self.name.is_some() || self.named_by.as_deref() == named_by
    }

    /// Whether an object may be the one that cannot be made now.
    pub fn may_be(&self, identity: &Identity) -> bool {
        let is_kind = self.group == identity.group && self.kind == identity.kind;
        is_kind && self.name.as_ref().is_none_or(|name| *name == identity.name)
    }
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
                if is_reserved(key) {
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

    /// The objects for one namespace. `before` are the values last in force there. Fails only for what is no class.
    pub fn items(&self, namespace: &Facts, before: &Texts) -> Result<Furnished, Vec<Problem>> {
        if let Some(problem) = self.too_many() {
            return Err(vec![problem]);
        }
        let Resolved { values, in_force, refused } = params::resolve(&self.params, namespace, before);
        let inputs = Inputs { namespace: namespace.clone(), class: self.class.clone(), params: values };
        let rendered = self.resources.iter().zip(template::render_all(&self.resources, &inputs)).enumerate();
        let mut rendered: Vec<_> = rendered.collect();
        // A template may make two names one: the name that was written out counts, whatever a namespace gives for the other.
        rendered.sort_by_key(|(_, (manifest, _))| templated_name(manifest).is_some());
        let (mut items, mut misfits, mut names) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for (index, (manifest, rendered)) in rendered {
            match rendered.and_then(|rendered| manifest::parse_next(index, rendered, &mut names)) {
                Ok(mut item) => {
                    item.named_by = named_by(manifest);
                    items.insert(index, item);
                }
                Err(problems) => misfits.push(Misfit::of(manifest, &inputs, problems)),
            }
        }
        Ok(Furnished { items: items.into_values().collect(), misfits, params: in_force, refused })
    }
}

/// How much of a template is remembered: it is on record for every object.
const LONGEST_TEMPLATE: usize = 253;

fn named_by(manifest: &Map<String, Value>) -> Option<String> {
    templated_name(manifest).map(|template| template.chars().take(LONGEST_TEMPLATE).collect())
}

/// The template a name is made of, if it is.
fn templated_name(manifest: &Map<String, Value>) -> Option<&str> {
    let name = manifest.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    name.filter(|name| is_template(name))
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
    fn where_a_template_makes_two_names_one_the_name_that_was_written_out_counts() {
        let names = ["{{ namespace.name }}", "team-a", "other"];
        let resources = names.map(|name| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"from": name.len().to_string()}})
        });
        let blueprint = blueprint(&json!(resources), Vec::new());
        assert!(blueprint.problems().is_empty());
        let Furnished { items, misfits, .. } = blueprint.items(&facts(), &Texts::new()).unwrap();
        assert_eq!(items.iter().map(|item| item.identity.name.as_str()).collect::<Vec<_>>(), ["team-a", "other"]);
        let stamp = manifest::Stamp { namespace: "team-a", class: "web", binding_uid: "b", protect: false };
        let made = items[0].clone().stamped(&stamp);
        assert_eq!(made.manifest["data"]["from"], "6", "the one that was written out");
        assert!(misfits.len() == 1 && misfits[0].problems[0].message.contains("twice"), "{misfits:?}");
        assert!(misfits[0].may_be(&items[0].identity) && !misfits[0].may_be(&items[1].identity));
    }

    #[test]
    fn what_does_not_fit_a_namespace_keeps_nothing_else_of_the_class_from_it() {
        let config_map = |name: &str, value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
        let resources = json!([
            config_map("fence", "{{ namespace.name }}"),
            config_map("noted", "{{ namespace.annotations['x'] }}"),
            config_map("{{ namespace.labels['y'] }}", "1"),
            config_map("sized", "{{ params.size }}"),
            config_map("large", "{{ namespace.annotations['large'] }}{{ namespace.annotations['large'] }}"),
            config_map("last", "{{ namespace.name }}"),
        ]);
        let size =
            Declared { name: "size".into(), from_namespace_annotation: Some("size".into()), ..Declared::default() };
        let mut facts = facts();
        facts.annotations.insert("large".into(), "x".repeat(200_000));
        let furnished = blueprint(&resources, vec![size]).items(&facts, &Texts::new()).unwrap();
        let made: Vec<_> = furnished.items.iter().map(|item| item.identity.name.as_str()).collect();
        assert_eq!(made, ["fence", "last"]);
        let names: Vec<_> = furnished.misfits.iter().map(|misfit| misfit.name.as_deref()).collect();
        assert_eq!(names, [Some("noted"), Some("sized"), Some("large"), None]);
        assert_eq!(furnished.refused.len(), 1, "the parameter nobody gave: {:?}", furnished.refused);
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
