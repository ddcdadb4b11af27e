//! Objects whose fields belong to somebody else, with typed access to the few we touch.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object that keeps every field it was read with.
///
/// A field that is `null` counts as absent, as it does for the programs that own these objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpenObject(pub Map<String, Value>);

impl OpenObject {
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    pub fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.0.insert(field.to_owned(), value.into());
    }

    pub fn remove(&mut self, field: &str) {
        self.0.remove(field);
    }

    /// A text that is not empty.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.get(field)?.as_str().filter(|text| !text.is_empty())
    }

    pub fn flag(&self, field: &str) -> Option<bool> {
        self.get(field)?.as_bool()
    }

    pub fn integer(&self, field: &str) -> Option<i64> {
        self.get(field)?.as_i64()
    }

    /// A list of texts. An empty list is `Some`: to Velero it is not the same as no list.
    pub fn texts(&self, field: &str) -> Option<Vec<&str>> {
        self.get(field)?.as_array().map(|items| items.iter().filter_map(Value::as_str).collect())
    }

    pub fn text_map(&self, field: &str) -> Option<BTreeMap<&str, &str>> {
        let entries = self.get(field)?.as_object()?.iter();
        Some(entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect())
    }

    pub fn timestamp(&self, field: &str) -> Option<Timestamp> {
        self.text(field)?.parse().ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Map<String, Value>> for OpenObject {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields)
    }
}

/// Defines a named kind of [`OpenObject`]. Reads and writes go through to it.
macro_rules! open_type {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $crate::open::OpenObject);

        impl std::ops::Deref for $name {
            type Target = $crate::open::OpenObject;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl std::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }

        impl From<serde_json::Map<String, serde_json::Value>> for $name {
            fn from(fields: serde_json::Map<String, serde_json::Value>) -> Self {
                Self(fields.into())
            }
        }
    };
}
pub(crate) use open_type;
