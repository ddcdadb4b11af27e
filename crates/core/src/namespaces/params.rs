//! Inputs of a class: declared by its author, given by the namespace, checked before any template sees them.
//!
//! A value is the namespace's annotation, else its label, else the default. It is taken only if it is of the declared type and
//! within the declared limits; a declaration that is itself broken lets no value through. Instead of one that is not taken the last
//! one that was stays in force, else the default: whoever may give values must not thereby stop what the class enforces.

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

use super::template::{Facts, is_metadata_key, is_param_name, quoted};
use crate::problem::Problem;

/// Most parameters of a class, as its schema has it.
pub const MOST_PARAMS: usize = 32;

/// Most values in the enum of a parameter, as its schema has it.
pub const MOST_VALUES: usize = 32;

/// Longest value; with [`MAX_PATTERN_PROGRAM`] it bounds the time one match can take.
pub const MAX_VALUE: usize = 1024;

/// Longest pattern.
pub const MAX_PATTERN: usize = 256;

/// Largest compiled pattern in bytes: `(a{100}){100}` is short and huge.
const MAX_PATTERN_PROGRAM: usize = 32 * 1024;

/// One input of a class, as its author declared it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    pub name: String,
    pub kind: Kind,
    pub default: Option<String>,
    /// The whole value must match.
    pub pattern: Option<String>,
    /// The values allowed; empty: no such list.
    pub one_of: Vec<String>,
    pub minimum: Option<i64>,
    pub maximum: Option<i64>,
    pub from_namespace_annotation: Option<String>,
    pub from_namespace_label: Option<String>,
}

/// Type of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    String,
    Integer,
    Boolean,
}

/// Everything wrong with the declarations themselves.
pub fn check_declarations(declared: &[Declared]) -> Vec<Problem> {
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for (index, param) in declared.iter().enumerate() {
        let mut add = |field: &str, message: String| {
            problems.push(Problem::new(format!("spec.params[{index}].{field}"), message));
        };
        if !names.insert(&param.name) {
            add("name", format!("parameter {} is declared twice", param.name));
        }
        param.check(&mut add);
    }
    problems
}

/// Values by the names of their parameters, as text.
pub type Texts = BTreeMap<String, String>;

/// The parameters of a class for one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    pub values: BTreeMap<String, Value>,
    /// What was taken, as it was given: it stays in force if what is given next cannot be taken.
    pub in_force: Texts,
    /// What is given and not taken, and what is not given and has no default.
    pub refused: Vec<Problem>,
}

/// The values of declared parameters for one namespace; `before` is what was in force last. One may have no value at all: then only
/// what uses it cannot be made.
pub fn resolve(declared: &[Declared], namespace: &Facts, before: &Texts) -> Resolved {
    let mut resolved = Resolved::default();
    for param in declared {
        let problem = |message: String| Problem::new(format!("{VALUES}{}", param.name), message);
        let taken = match param.resolve(namespace) {
            Ok(taken) => Some(taken),
            Err(message) => {
                let instead = param.instead(before);
                let kept = instead.as_ref().map(|(text, _)| format!("; {} stays in force", quoted(text)));
                resolved.refused.push(problem(message + &kept.unwrap_or_default()));
                instead
            }
        };
        if let Some((text, value)) = taken {
            resolved.values.insert(param.name.clone(), value);
            resolved.in_force.insert(param.name.clone(), text);
        }
    }
    resolved
}

/// Where problems with values stand, as opposed to those of the class.
const VALUES: &str = "params.";

impl Declared {
    fn check(&self, add: &mut dyn FnMut(&str, String)) {
        if !self.can_be_named(add) {
            return;
        }
        if self.sources().is_empty() && self.default.is_none() {
            add(
                "default",
                format!("parameter {} can never have a value: give a default or fromNamespaceAnnotation", self.name),
            );
        }
        if self.kind != Kind::Integer && (self.minimum.is_some() || self.maximum.is_some()) {
            add("minimum", "minimum and maximum are for type integer".into());
        }
        if let (Some(minimum), Some(maximum)) = (self.minimum, self.maximum)
            && minimum > maximum
        {
            add("minimum", format!("minimum {minimum} is above maximum {maximum}"));
        }
        match self.compiled() {
            _ if self.pattern.is_some() && self.kind != Kind::String => {
                add("pattern", "pattern is for type string".into());
            }
            Err(message) => add("pattern", message),
            Ok(_) if self.one_of.len() > MOST_VALUES => {
                add("enum", format!("has {} values; give at most {MOST_VALUES}", self.one_of.len()));
            }
            Ok(pattern) => self.check_own_values(pattern.as_ref(), add),
        }
    }

    /// Whether templates can name the parameter and namespaces can give it. What cannot be named is not worth more words.
    fn can_be_named(&self, add: &mut dyn FnMut(&str, String)) -> bool {
        let mut can = true;
        if !is_param_name(&self.name) {
            let name = quoted(&self.name);
            add(
                "name",
                format!("{name} cannot be used in templates: give a letter, then letters, digits or _, at most 63"),
            );
            can = false;
        }
        for (field, key) in [
            ("fromNamespaceAnnotation", &self.from_namespace_annotation),
            ("fromNamespaceLabel", &self.from_namespace_label),
        ] {
            if let Some(key) = key.as_deref().filter(|key| !is_metadata_key(key)) {
                let example = if can { &self.name } else { "name" };
                add(field, format!("{} cannot be a key; give one like example.com/{example}", quoted(key)));
                can = false;
            }
        }
        can
    }

    /// The values the author wrote down must pass the author's own rules.
    fn check_own_values(&self, pattern: Option<&Regex>, add: &mut dyn FnMut(&str, String)) {
        let unlisted = Declared { one_of: Vec::new(), ..self.clone() };
        for (index, value) in self.one_of.iter().enumerate() {
            if unlisted.accept(value, pattern).is_none() {
                add(&format!("enum[{index}]"), unlisted.not_allowed(value));
            }
        }
        if let Some(default) = self.default.as_deref().filter(|default| self.accept(default, pattern).is_none()) {
            add("default", self.not_allowed(default));
        }
    }

    /// The value, and as it was given.
    fn resolve(&self, namespace: &Facts) -> Result<(String, Value), String> {
        let from =
            |key: &Option<String>, map: &BTreeMap<String, String>| key.as_ref().and_then(|key| map.get(key)).cloned();
        let given = from(&self.from_namespace_annotation, &namespace.annotations)
            .or_else(|| from(&self.from_namespace_label, &namespace.labels))
            .or_else(|| self.default.clone());
        let Some(text) = given else { return Err(self.missing()) };
        self.taken(&text).map(|value| (text.clone(), value)).ok_or_else(|| self.not_allowed(&text))
    }

    /// What is in force where the value that is given cannot be: the last one that could, else the default.
    fn instead(&self, before: &Texts) -> Option<(String, Value)> {
        let mut kept = before.get(&self.name).into_iter().chain(&self.default);
        kept.find_map(|text| Some((text.clone(), self.taken(text)?)))
    }

    fn taken(&self, text: &str) -> Option<Value> {
        self.compiled().ok().and_then(|pattern| self.accept(text, pattern.as_ref()))
    }

    /// The pattern, ready to match; compiling it is by far the most work there is about a parameter.
    fn compiled(&self) -> Result<Option<Regex>, String> {
        self.pattern.as_deref().map(whole).transpose()
    }

    /// The value, if it is of the right type and within all limits.
    fn accept(&self, text: &str, pattern: Option<&Regex>) -> Option<Value> {
        let listed = self.one_of.is_empty() || self.one_of.iter().any(|allowed| allowed == text);
        if !listed || text.len() > MAX_VALUE {
            return None;
        }
        match self.kind {
            Kind::String => pattern.is_none_or(|pattern| pattern.is_match(text)).then(|| text.into()),
            Kind::Integer => {
                let number: i64 = text.parse().ok()?;
                // One way to write each number: no "+5", no "007" that somebody else reads as octal.
                let within = self.minimum.is_none_or(|minimum| number >= minimum)
                    && self.maximum.is_none_or(|maximum| number <= maximum);
                (within && number.to_string() == text).then(|| number.into())
            }
            Kind::Boolean => match text {
                "true" => Some(true.into()),
                "false" => Some(false.into()),
                _ => None,
            },
        }
    }

    fn not_allowed(&self, text: &str) -> String {
        let sources = self.sources();
        let fix = if sources.is_empty() { String::new() } else { format!(" in {sources}") };
        format!("parameter {} cannot be {}; give {}{fix}", self.name, quoted(text), self.allowed())
    }

    fn missing(&self) -> String {
        match self.sources().as_str() {
            "" => format!("parameter {} has no value: the class must give it a default", self.name),
            sources => format!("parameter {} has no value; give {} in {sources}", self.name, self.allowed()),
        }
    }

    /// Where the namespace can give the value, in words.
    fn sources(&self) -> String {
        let annotation = self.from_namespace_annotation.iter().map(|key| format!("annotation {key}"));
        let label = self.from_namespace_label.iter().map(|key| format!("label {key}"));
        let sources: Vec<_> = annotation.chain(label).collect();
        if sources.is_empty() { String::new() } else { format!("{} of the namespace", sources.join(" or ")) }
    }

    /// What can be given, in words.
    fn allowed(&self) -> String {
        if !self.one_of.is_empty() {
            let values: Vec<_> = self.one_of.iter().map(|value| quoted(value)).collect();
            return format!("one of {}", values.join(", "));
        }
        match (self.kind, &self.pattern, self.minimum, self.maximum) {
            (Kind::String, Some(pattern), ..) => {
                format!("a text that matches {} as a whole, at most {MAX_VALUE} bytes", quoted(pattern))
            }
            (Kind::String, None, ..) => format!("a text of at most {MAX_VALUE} bytes"),
            (Kind::Boolean, ..) => "true or false".into(),
            (Kind::Integer, _, None, None) => "an integer".into(),
            (Kind::Integer, _, Some(minimum), None) => format!("an integer of at least {minimum}"),
            (Kind::Integer, _, None, Some(maximum)) => format!("an integer of at most {maximum}"),
            (Kind::Integer, _, Some(minimum), Some(maximum)) => format!("an integer from {minimum} to {maximum}"),
        }
    }
}

/// The pattern made to match whole values only.
fn whole(pattern: &str) -> Result<Regex, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("longer than {MAX_PATTERN} bytes"));
    }
    let build = |pattern: &str| RegexBuilder::new(pattern).size_limit(MAX_PATTERN_PROGRAM).build();
    // By itself first: `a)|(?:b` is no pattern, and must not become one by what is put around it.
    build(pattern)
        .and_then(|_| build(&format!(r"\A(?:{pattern})\z")))
        .map_err(|error| format!("{} is not a usable regular expression: {error}", quoted(pattern)))
}
