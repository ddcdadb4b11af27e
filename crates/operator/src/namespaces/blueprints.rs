//! Checked classes: a class is checked once per generation, not once per namespace.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use croft_api::namespaces::{
    NamespaceClass,
    validate::{content, furnishing},
};
use croft_core::{
    namespaces::{blueprint::Blueprint, rollout},
    problem::Problem,
};
use kube::ResourceExt;

/// A class, or everything that is wrong with it.
pub(crate) type Checked = Result<Blueprint, Vec<Problem>>;

/// What identifies a form of a class.
type Form = (Option<String>, Option<i64>);

/// By name of the class, its newest form and those that namespaces still have.
#[derive(Clone, Debug, Default)]
pub(super) struct Blueprints(Arc<Mutex<BTreeMap<String, Known>>>);

#[derive(Clone, Debug)]
struct Known {
    form: Form,
    checked: Arc<Checked>,
    digest: Arc<str>,
    /// By digest.
    earlier: BTreeMap<String, Arc<Checked>>,
}

impl Known {
    fn of(class: &NamespaceClass, form: Form) -> Self {
        let digest = rollout::digest_of(&content(&class.spec));
        Self { form, checked: Arc::new(furnishing(class)), digest: digest.into(), earlier: BTreeMap::new() }
    }
}

impl Blueprints {
    /// The class of that name is gone.
    pub(super) fn forget(&self, class: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(class);
    }

    fn with<T>(&self, class: &NamespaceClass, answer: impl FnOnce(&mut Known) -> T) -> T {
        let form = (class.uid(), class.metadata.generation);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(class.name_any()).or_insert_with(|| Known::of(class, form.clone()));
        if known.form != form {
            *known = Known::of(class, form);
        }
        answer(known)
    }

    pub(super) fn of(&self, class: &NamespaceClass) -> Arc<Checked> {
        self.with(class, |known| known.checked.clone())
    }

    /// The revision of the class as it is now.
    pub(super) fn digest_of(&self, class: &NamespaceClass) -> Arc<str> {
        self.with(class, |known| known.digest.clone())
    }

    /// The class as it was: `then` is one whose newest form is known.
    pub(super) fn at(&self, then: &NamespaceClass, digest: &str) -> Arc<Checked> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(&then.name_any()) {
            Some(known) => {
                let check = || Arc::new(furnishing(then));
                known.earlier.entry(digest.to_owned()).or_insert_with(check).clone()
            }
            None => Arc::new(furnishing(then)),
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
