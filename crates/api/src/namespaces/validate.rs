//! A raw class -> manifests that can be applied. Admission and the reconciler call the same function.

use croft_core::namespaces::{
    manifest::{self, Item},
    params::{Declared, Kind},
};

use super::{NamespaceClass, Param, ParamType};
use crate::Problem;

/// The items of the class, or everything that is wrong with it.
pub fn validate(class: &NamespaceClass) -> Result<Vec<Item>, Vec<Problem>> {
    manifest::parse_all(&class.spec.resources)
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
