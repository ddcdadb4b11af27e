//! Templates in the manifests of a class: `"{{ namespace.name }}-quota"`.
//!
//! What holds for every class and every namespace:
//!
//! - Only text *values* are templates, never keys, `apiVersion` or `kind`. A template is filled in inside its own JSON value, so
//!   no input can add a field, an item or an object: keys and lengths of lists stay as the author wrote them.
//! - The variables are a closed set ([`Variable`]); there are no functions and no lookups.
//! - What is filled in is never read as a template again.
//! - A text that is nothing but `{{ params.x }}` becomes a number or a boolean if the parameter is one, except where
//!   Kubernetes takes only text: in `metadata`, and in the data of ConfigMaps and Secrets.
//! - A name made by a template is a DNS subdomain, so it can never mean another object in a request path.
//! - The text `{{` itself is written `{{ "{{" }}`.
//! - The result is bounded: at most [`MAX_FILLED_IN`] bytes more than the class, half of what is left of them in one manifest;
//!   nothing deeper than [`MAX_DEPTH`].

mod expression;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Map, Value};

pub use expression::Variable;
pub(super) use expression::{is_metadata_key, is_param_name, quoted};

use self::expression::{NO_VARIABLE, OPEN, Part, parse};
use super::{
    field::{Step, path},
    params::Declared,
};
use crate::{
    name::{LONGEST_NAME, is_dns_subdomain},
    problem::{MOST_PROBLEMS, Problem},
};

/// Most bytes that variables may add to all manifests of a class for one namespace.
pub const MAX_FILLED_IN: usize = 256 * 1024;

/// Deepest nesting of a manifest.
pub const MAX_DEPTH: usize = 100;

/// What a template is filled with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    pub namespace: Facts,
    /// Name of the class.
    pub class: String,
    /// From [`super::params::resolve`].
    pub params: BTreeMap<String, Value>,
}

/// What templates and parameters can know about a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl Inputs {
    fn text(&self, variable: &Variable) -> Result<Cow<'_, str>, String> {
        let namespace = &self.namespace;
        match variable {
            Variable::NamespaceName => Ok(Cow::Borrowed(&namespace.name)),
            Variable::NamespaceUid => Ok(Cow::Borrowed(&namespace.uid)),
            Variable::ClassName => Ok(Cow::Borrowed(&self.class)),
            Variable::NamespaceLabel(key) => present(&namespace.labels, "label", key),
            Variable::NamespaceAnnotation(key) => present(&namespace.annotations, "annotation", key),
            Variable::Param(name) => match self.param(name)? {
                Value::String(text) => Ok(Cow::Borrowed(text)),
                other => Ok(Cow::Owned(other.to_string())),
            },
        }
    }

    fn param(&self, name: &str) -> Result<&Value, String> {
        self.params.get(name).ok_or_else(|| format!("parameter {name} has no value"))
    }
}

fn present<'a>(map: &'a BTreeMap<String, String>, what: &str, key: &str) -> Result<Cow<'a, str>, String> {
    match map.get(key) {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => Err(format!("the namespace has no {what} {key}; set it, or use a parameter with a default")),
    }
}

/// Every variable of a template, also of one that has problems elsewhere.
pub fn variables(manifest: &Map<String, Value>) -> BTreeSet<Variable> {
    let mut found = BTreeSet::new();
    each_text_in(manifest, 0, &mut |text| {
        let parts = parse(text).unwrap_or_default();
        found.extend(parts.into_iter().filter_map(|part| match part {
            Part::Variable(variable) => Some(variable),
            Part::Text(_) => None,
        }));
    });
    found
}

fn each_text_in(map: &Map<String, Value>, depth: usize, visit: &mut dyn FnMut(&str)) {
    for (key, value) in map {
        visit(key);
        each_text(value, depth + 1, visit);
    }
}

fn each_text(value: &Value, depth: usize, visit: &mut dyn FnMut(&str)) {
    match value {
        // Not looked into: rendering says that it is too deep.
        _ if depth > MAX_DEPTH => {}
        Value::String(text) => visit(text),
        Value::Array(list) => list.iter().for_each(|item| each_text(item, depth + 1, visit)),
        Value::Object(map) => each_text_in(map, depth, visit),
        _ => {}
    }
}

/// Everything wrong with one manifest that can be told without a namespace; `field` is where it stands: `spec.resources[3]`.
pub fn check(manifest: &Map<String, Value>, field: &str, declared: &[Declared]) -> Vec<Problem> {
    // Names that cannot be used at all are told with the declarations.
    let declared: Vec<_> =
        declared.iter().map(|param| param.name.as_str()).filter(|name| is_param_name(name)).collect();
    // What is in a Secret is not repeated to those who may read the class's problems.
    let is_secret = manifest.get("kind").and_then(Value::as_str) == Some("Secret");
    let said = |error: String| if is_secret { format!("what stands after {OPEN} {NO_VARIABLE}") } else { error };
    let mut check_text = |text: &str, _| {
        for part in parse(text).map_err(said)? {
            match part {
                Part::Variable(Variable::Param(name)) if !declared.contains(&name.as_str()) => {
                    let known = if declared.is_empty() { "none".to_owned() } else { declared.join(", ") };
                    return Err(format!("there is no parameter {name} in spec.params; declared: {known}"));
                }
                _ => {}
            }
        }
        Ok(Value::Null)
    };
    Walk::new(manifest, field, &mut check_text).run(manifest).err().unwrap_or_default()
}

/// The manifests of a class, in order, with everything filled in, or everything that is in the way. One that cannot be rendered
/// does not stop the others, and leaves them the room it would have taken.
pub fn render_all(resources: &[Map<String, Value>], inputs: &Inputs) -> Vec<Result<Map<String, Value>, Vec<Problem>>> {
    let mut filling = Filling::new(inputs);
    let numbered = resources.iter().enumerate();
    numbered.map(|(index, manifest)| filling.render(manifest, &format!("spec.resources[{index}]"))).collect()
}

/// The name a manifest has in a namespace, where that can be told.
pub(super) fn name_in(manifest: &Map<String, Value>, inputs: &Inputs) -> Option<String> {
    let name = manifest.get("metadata")?.get("name")?.as_str()?;
    if !is_template(name) {
        return Some(name.to_owned());
    }
    let filled = Filling::new(inputs).fill(name, Place::Name).ok()?;
    filled.as_str().map(str::to_owned)
}

/// Whether the text holds a template: what it stands for is known only for a namespace.
pub(super) fn is_template(text: &str) -> bool {
    text.contains(OPEN)
}

/// Fills in templates while the room for it lasts.
struct Filling<'a> {
    inputs: &'a Inputs,
    room: usize,
}

impl<'a> Filling<'a> {
    fn new(inputs: &'a Inputs) -> Self {
        Self { inputs, room: MAX_FILLED_IN }
    }

    /// No manifest gets more than half of what is left: a value that somebody made very large is at nobody else's cost.
    fn render(&mut self, manifest: &Map<String, Value>, field: &str) -> Result<Map<String, Value>, Vec<Problem>> {
        let left = self.room;
        self.room = left.div_ceil(2);
        let given = self.room;
        let rendered = Walk::new(manifest, field, &mut |text, place| self.fill(text, place)).run(manifest);
        let taken = if rendered.is_ok() { given.saturating_sub(self.room) } else { 0 };
        self.room = left.saturating_sub(taken);
        rendered
    }

    fn fill(&mut self, text: &str, place: Place) -> Result<Value, String> {
        let parts = parse(text)?;
        if let ([Part::Variable(Variable::Param(name))], Place::Anything) = (parts.as_slice(), place) {
            let value = self.inputs.param(name)?;
            if value.is_number() || value.is_boolean() {
                return Ok(value.clone());
            }
        }
        let filled = self.text(&parts)?;
        if place == Place::Name && !is_dns_subdomain(&filled) {
            return Err(format!(
                "the template gives the name {}, which no object can have; allowed are at most {LONGEST_NAME} lower case \
                 letters, digits, - and ., with a letter or digit at the start and end of each part",
                quoted(&filled)
            ));
        }
        Ok(Value::String(filled))
    }

    fn text(&mut self, parts: &[Part<'_>]) -> Result<String, String> {
        let mut filled = String::new();
        for part in parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Variable(variable) => {
                    let text = self.inputs.text(variable)?;
                    self.room = self.room.checked_sub(text.len()).ok_or_else(|| {
                        format!(
                            "{variable} does not fit: variables may add {MAX_FILLED_IN} bytes to a class, and half of what is \
                             left of them to one object"
                        )
                    })?;
                    filled.push_str(&text);
                }
            }
        }
        Ok(filled)
    }
}

/// What a text may become where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Decides which kind is made: no templates.
    Fixed,
    Name,
    Text,
    Anything,
}

/// Where a value stands, from the inside out; written down only when there is a problem.
#[derive(Clone, Copy)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

fn steps<'a>(at: Option<&Path<'a>>) -> Vec<Step<'a>> {
    let mut steps: Vec<_> = std::iter::successors(at, |path| path.parent).map(|path| path.step).collect();
    steps.reverse();
    steps
}

/// What is made of a text with `{{` in it.
type Leaf<'a> = &'a mut dyn FnMut(&str, Place) -> Result<Value, String>;

/// Goes through a manifest and replaces every text that holds a template; everything else stays as it is.
struct Walk<'a> {
    field: &'a str,
    /// ConfigMap or Secret: their data is text.
    data_is_text: bool,
    leaf: Leaf<'a>,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn new(manifest: &Map<String, Value>, field: &'a str, leaf: Leaf<'a>) -> Self {
        let text = |key| manifest.get(key).and_then(Value::as_str);
        let data_is_text = matches!((text("apiVersion"), text("kind")), (Some("v1"), Some("ConfigMap" | "Secret")));
        Self { field, data_is_text, leaf, problems: Vec::new() }
    }

    fn run(mut self, manifest: &Map<String, Value>) -> Result<Map<String, Value>, Vec<Problem>> {
        let made = self.object(manifest, None, 0);
        if self.problems.is_empty() { Ok(made) } else { Err(self.problems) }
    }

    fn object(&mut self, map: &Map<String, Value>, at: Option<&Path<'_>>, depth: usize) -> Map<String, Value> {
        let fields = map.iter().map(|(key, value)| {
            let path = Path { parent: at, step: Step::Key(key) };
            if key.contains(OPEN) {
                self.refuse(Some(&path), "a key cannot be a template; templates go into text values".into());
            }
            (key.clone(), self.value(value, Some(&path), depth + 1))
        });
        fields.collect()
    }

    fn value(&mut self, value: &Value, at: Option<&Path<'_>>, depth: usize) -> Value {
        match value {
            _ if depth > MAX_DEPTH => self.refuse(at, format!("nested deeper than {MAX_DEPTH} levels")),
            Value::String(text) if text.contains(OPEN) => self.template(text, at),
            Value::Array(list) => {
                let items = list.iter().enumerate().map(|(index, item)| {
                    let path = Path { parent: at, step: Step::Index(index) };
                    self.value(item, Some(&path), depth + 1)
                });
                items.collect()
            }
            Value::Object(map) => Value::Object(self.object(map, at, depth)),
            other => other.clone(),
        }
    }

    fn template(&mut self, text: &str, at: Option<&Path<'_>>) -> Value {
        let made = match self.place(&steps(at)) {
            Place::Fixed => Err("cannot be a template: which kinds a class makes is fixed; write it out".into()),
            place => (self.leaf)(text, place),
        };
        made.unwrap_or_else(|message| self.refuse(at, message))
    }

    fn place(&self, steps: &[Step<'_>]) -> Place {
        match steps {
            [Step::Key("apiVersion" | "kind")] => Place::Fixed,
            [Step::Key("metadata"), Step::Key("name")] => Place::Name,
            [Step::Key("metadata"), ..] => Place::Text,
            [Step::Key("data" | "stringData" | "binaryData"), ..] if self.data_is_text => Place::Text,
            _ => Place::Anything,
        }
    }

    fn refuse(&mut self, at: Option<&Path<'_>>, message: String) -> Value {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(Problem::new(path(self.field, &steps(at)), message));
        }
        Value::Null
    }
}
