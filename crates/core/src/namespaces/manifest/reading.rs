//! A manifest read field by field. What has another type than Kubernetes takes there is a problem that names the field; nothing
//! is dropped or guessed. `null` is the same as nothing, as it is for Kubernetes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    namespaces::field::{Step, path},
    problem::{MOST_PROBLEMS, Problem},
};

/// A map of texts: labels, annotations, the data of a Secret.
pub(super) type Texts = BTreeMap<String, String>;

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(super) struct Reading {
    problems: Vec<Problem>,
}

impl Reading {
    /// `read`, if nothing was wrong.
    pub(super) fn or_problems<T>(self, read: T) -> Result<T, Vec<Problem>> {
        if self.problems.is_empty() { Ok(read) } else { Err(self.problems) }
    }

    /// Something wrong with the manifest as a whole.
    pub(super) fn refuse(&mut self, message: impl Into<String>) {
        self.refuse_field(String::new(), message);
    }

    fn refuse_field(&mut self, field: String, message: impl Into<String>) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(Problem::new(field, message));
        }
    }

    /// A text that must be there; empty if it is not.
    pub(super) fn required<'a>(&mut self, field: &str, value: Option<&'a Value>) -> &'a str {
        match value {
            Some(Value::String(text)) if !text.is_empty() => return text,
            None | Some(Value::Null | Value::String(_)) => self.refuse(format!("{field} is missing")),
            Some(other) => self.refuse_field(field.to_owned(), not_a_text(other)),
        }
        ""
    }

    pub(super) fn map<'a>(&mut self, field: &str, value: Option<&'a Value>) -> Option<&'a Map<String, Value>> {
        match value? {
            Value::Object(map) => return Some(map),
            Value::Null => {}
            other => self.refuse_field(field.to_owned(), format!("must be a map, not {}", type_of(other))),
        }
        None
    }

    pub(super) fn texts(&mut self, field: &str, value: Option<&Value>) -> Option<Texts> {
        let map = match value? {
            Value::Object(map) => map,
            Value::Null => return None,
            other => {
                let message = format!("must be a map of texts, not {}; give every text a key", type_of(other));
                self.refuse_field(field.to_owned(), message);
                return None;
            }
        };
        let mut texts = Texts::new();
        for (key, value) in map {
            match value {
                Value::String(text) => {
                    texts.insert(key.clone(), text.clone());
                }
                other => self.refuse_field(path(field, &[Step::Key(key)]), not_a_text(other)),
            }
        }
        Some(texts)
    }
}

fn not_a_text(value: &Value) -> String {
    let fix = if value.is_number() || value.is_boolean() { "put it in quotes" } else { "write one" };
    format!("must be a text, not {}; {fix}", type_of(value))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
