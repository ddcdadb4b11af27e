//! Checked classes: a class is checked once per generation, not once per namespace.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use croft_api::namespaces::{NamespaceClass, validate::validate};
use croft_core::{namespaces::blueprint::Blueprint, problem::Problem};
use kube::ResourceExt;

/// A class, or everything that is wrong with it.
pub(crate) type Checked = Result<Blueprint, Vec<Problem>>;

/// What identifies a form of a class.
type Form = (Option<String>, Option<i64>);

/// By name of the class, its newest form.
#[derive(Clone, Debug, Default)]
pub(super) struct Blueprints(Arc<Mutex<Forms>>);

type Forms = BTreeMap<String, (Form, Arc<Checked>)>;

impl Blueprints {
    /// The class of that name is gone.
    pub(super) fn forget(&self, class: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(class);
    }

    pub(super) fn of(&self, class: &NamespaceClass) -> Arc<Checked> {
        let form = (class.uid(), class.metadata.generation);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&class.name_any()) {
            Some((same, checked)) if *same == form => checked.clone(),
            _ => {
                let checked = Arc::new(validate(class));
                known.insert(class.name_any(), (form, checked.clone()));
                checked
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use croft_api::namespaces::NamespaceClassSpec;

    use super::*;

    #[test]
    fn another_generation_or_another_class_of_the_name_is_checked_anew() {
        let class = |uid: &str, generation: i64| {
            let mut class = NamespaceClass::new("web", NamespaceClassSpec::default());
            class.metadata.uid = Some(uid.into());
            class.metadata.generation = Some(generation);
            class
        };
        let blueprints = Blueprints::default();
        let first = blueprints.of(&class("a", 1));
        assert!(Arc::ptr_eq(&first, &blueprints.of(&class("a", 1))));
        assert!(!Arc::ptr_eq(&first, &blueprints.of(&class("a", 2))));
        assert!(!Arc::ptr_eq(&blueprints.of(&class("a", 2)), &blueprints.of(&class("b", 2))));
        blueprints.forget("web");
        assert!(blueprints.0.lock().unwrap().is_empty());
    }
}
