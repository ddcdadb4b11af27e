//! A raw class -> manifests that can be applied. Admission and the reconciler call the same function.

use croft_core::namespaces::manifest::{self, Item};

use super::NamespaceClass;
use crate::Problem;

/// The items of the class, or everything that is wrong with it.
pub fn validate(class: &NamespaceClass) -> Result<Vec<Item>, Vec<Problem>> {
    manifest::parse_all(&class.spec.resources)
}
