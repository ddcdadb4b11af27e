//! What is queued: one object of one kind of work.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use croft_core::queue;

/// A part of the product, by its name; [`crate::parts`] says what each of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Part(pub &'static str);

impl Part {
    /// A kind of work of this part.
    pub const fn work(self, name: &'static str) -> Work {
        Work { part: self, name }
    }

    pub fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// One kind of work: the reconciler that does it, by its stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    pub part: Part,
    pub name: &'static str,
}

/// One object to look at. Cluster-scoped objects have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub work: Work,
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn new(work: Work, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { work, namespace: namespace.into(), name: name.into() }
    }

    pub fn cluster(work: Work, name: impl Into<String>) -> Self {
        Self::new(work, "", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ", self.work.name)?;
        if !self.namespace.is_empty() {
            write!(out, "{}/", self.namespace)?;
        }
        out.write_str(&self.name)
    }
}

impl queue::Key for Key {
    /// Namespaces are tenants; each cluster-scoped object is a tenant of its own.
    fn tenant(&self) -> &str {
        if self.namespace.is_empty() { &self.name } else { &self.namespace }
    }

    fn spread(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}
