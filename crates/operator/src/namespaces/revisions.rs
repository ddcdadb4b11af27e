//! Revisions of classes: each is a ControllerRevision in the operator's namespace, named by the class and a digest of what it said.
//!
//! Guarantee: what is not what its name says, or does not belong to the class, is not used.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use croft_api::namespaces::{
    NamespaceClass, NamespaceClassBinding, NamespaceClassSpec, Policy, REVISION_GENERATION_ANNOTATION, REVISION_LABEL,
    validate,
};
use croft_core::namespaces::{
    resources::Withheld,
    rollout::{self, Kept, Moved},
};
use k8s_openapi::{
    api::apps::v1::ControllerRevision,
    apimachinery::pkg::{apis::meta::v1::OwnerReference, runtime::RawExtension},
};
use kube::{Resource, ResourceExt, api::ObjectMeta};

use super::blueprints::{Blueprints, Checked};
use crate::{engine::Cache, objects};

/// By the class a revision is of.
pub(super) const REVISION_INDEX: &str = "revision-of";

/// A revision that can be trusted.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) kept: Kept,
    /// The generation of the class that said so last.
    pub(crate) generation: Option<i64>,
    pub(crate) spec: NamespaceClassSpec,
}

impl Revision {
    /// What is kept of the class, if it is what it says.
    pub(crate) fn read(stored: &ControllerRevision, class: &NamespaceClass) -> Option<Self> {
        let content = &stored.data.as_ref()?.0;
        let digest = rollout::digest_of(content);
        let is_ours = stored.labels().get(REVISION_LABEL) == Some(&class.name_any())
            && objects::controller(stored.meta()) == class.uid()
            && stored.name_any() == rollout::name_of(&class.name_any(), &digest);
        if !is_ours {
            return None;
        }
        let generation = stored.annotations().get(REVISION_GENERATION_ANNOTATION);
        Some(Self {
            kept: Kept {
                digest,
                uid: stored.uid().unwrap_or_default(),
                version: stored.resource_version().unwrap_or_default(),
                number: stored.revision,
            },
            generation: generation.and_then(|generation| generation.parse().ok()),
            spec: validate::from_content(content)?,
        })
    }
}

/// What has the name of a revision of a class and is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// It was one of an earlier class of the same name, which said the same.
    Predecessor {
        uid: String,
    },
    Stranger,
}

impl Holder {
    fn of(stored: &ControllerRevision, class: &NamespaceClass) -> Option<Self> {
        if Revision::read(stored, class).is_some() {
            return None;
        }
        let mut earlier = class.clone();
        earlier.metadata.uid = objects::controller(stored.meta()).filter(|uid| Some(uid) != class.uid().as_ref());
        let was_one = earlier.uid().is_some() && Revision::read(stored, &earlier).is_some();
        Some(if was_one { Self::Predecessor { uid: stored.uid().unwrap_or_default() } } else { Self::Stranger })
    }
}

/// The object that keeps what the class says now.
pub(super) fn of_class(class: &NamespaceClass, namespace: &str, digest: &str, number: i64) -> ControllerRevision {
    let name = class.name_any();
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(rollout::name_of(&name, digest)),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(REVISION_LABEL.to_owned(), name)])),
            annotations: Some(generation_note(class)),
            owner_references: Some(vec![owner(class)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(validate::content(&class.spec))),
        revision: number,
    }
}

/// What belongs to a class goes with it.
pub(super) fn owner(class: &NamespaceClass) -> OwnerReference {
    OwnerReference {
        api_version: NamespaceClass::api_version(&()).into(),
        kind: NamespaceClass::kind(&()).into(),
        name: class.name_any(),
        uid: class.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }
}

/// By which a binding that records no revision tells which one it has.
pub(super) fn generation_note(class: &NamespaceClass) -> BTreeMap<String, String> {
    let generation = class.metadata.generation.unwrap_or_default();
    BTreeMap::from([(REVISION_GENERATION_ANNOTATION.to_owned(), generation.to_string())])
}

/// What a binding records about being moved.
pub(crate) fn moved(binding: &NamespaceClassBinding) -> Option<Moved> {
    let spec = &binding.spec;
    Some(Moved { revision: spec.revision.clone()?, since: spec.staged_since?, failed_before: spec.failed_before })
}

/// The class as one namespace has it.
#[derive(Clone, Debug)]
pub(super) struct InForce {
    pub(super) class: Arc<NamespaceClass>,
    pub(super) checked: Arc<Checked>,
    pub(super) revision: Option<String>,
    pub(super) withheld: Option<Withheld>,
}

/// All revisions there are.
#[derive(Clone, Debug)]
pub(super) struct Revisions {
    pub(super) cache: Arc<Cache<ControllerRevision>>,
    pub(super) blueprints: Blueprints,
    pub(super) namespace: String,
}

impl Revisions {
    /// Those of the class that can be trusted.
    pub(super) fn of(&self, class: &NamespaceClass) -> Vec<Revision> {
        let stored = self.cache.by(REVISION_INDEX, &class.name_any());
        stored.iter().filter_map(|stored| Revision::read(stored, class)).collect()
    }

    fn find(&self, class: &NamespaceClass, digest: &str) -> Option<Revision> {
        let stored = self.cache.get(&self.namespace, &rollout::name_of(&class.name_any(), digest))?;
        Revision::read(&stored, class)
    }

    /// What has the name of a revision and is not it.
    pub(super) fn holder_of(&self, class: &NamespaceClass, digest: &str) -> Option<Holder> {
        let name = rollout::name_of(&class.name_any(), digest);
        match self.cache.get(&self.namespace, &name) {
            Some(stored) => Holder::of(&stored, class),
            // There, and cannot be read.
            None => self.cache.exists(&self.namespace, &name).then_some(Holder::Stranger),
        }
    }

    /// The class at the revision the namespace of a binding has.
    pub(super) fn in_force(&self, class: &Arc<NamespaceClass>, binding: &NamespaceClassBinding) -> InForce {
        let newest = self.blueprints.digest_of(class);
        let status = class.status.as_ref();
        let released = status.and_then(|status| status.revision.as_deref());
        let staged_since = status.and_then(|status| status.rollout.as_ref()?.staged_since);
        let moved = moved(binding);
        let checked = self.blueprints.of(class);
        let newest_form = |revision: Option<String>, withheld: Option<Withheld>| InForce {
            class: class.clone(),
            checked: checked.clone(),
            revision,
            withheld,
        };
        match rollout::in_force(released, staged_since, moved.as_ref()) {
            Some(revision) if *revision == *newest => newest_form(Some(revision.to_owned()), None),
            Some(revision) => match self.find(class, revision) {
                Some(kept) => self.at(class, kept),
                None => newest_form(None, Some(Withheld::Lost { revision: revision.to_owned() })),
            },
            // Whoever has it already needs no leave; and what is invalid gets nowhere.
            None if checked.is_err() || has_generation(binding, class) => newest_form(Some(newest.to_string()), None),
            None => newest_form(None, Some(Withheld::Preparing)),
        }
    }

    /// The class at each of its revisions: the likeliest first, then the newest. A class may be large, so none is read before it is asked for.
    pub(super) fn kept(&self, class: &NamespaceClass, likeliest: Option<&str>) -> impl Iterator<Item = InForce> {
        let name = likeliest.map(|digest| rollout::name_of(&class.name_any(), digest));
        let mut stored = self.cache.by(REVISION_INDEX, &class.name_any());
        stored.sort_by_key(|stored| (name.as_ref() != Some(&stored.name_any()), Reverse(stored.revision)));
        stored.into_iter().filter_map(|stored| Some(self.at(class, Revision::read(&stored, class)?)))
    }

    fn at(&self, class: &NamespaceClass, kept: Revision) -> InForce {
        let then = class_at(class, &kept);
        let digest = kept.kept.digest;
        let checked = self.blueprints.at(&then, &digest);
        InForce { class: Arc::new(then), checked, revision: Some(digest), withheld: None }
    }
}

/// The class as it was. What it says about its own end is about now.
pub(crate) fn class_at(class: &NamespaceClass, revision: &Revision) -> NamespaceClass {
    let mut then = class.clone();
    then.metadata.generation = revision.generation.or(class.metadata.generation);
    let policy = Policy { on_class_delete: class.spec.policy.on_class_delete, ..revision.spec.policy };
    then.spec = NamespaceClassSpec { policy, ..revision.spec.clone() };
    then
}

/// Whether the binding says that its namespace has this very form of the class.
fn has_generation(binding: &NamespaceClassBinding, class: &NamespaceClass) -> bool {
    binding.status.as_ref().is_some_and(|status| {
        status.observed_class_uid == class.metadata.uid
            && status.observed_class_generation == class.metadata.generation
            && class.metadata.generation.is_some()
    })
}

/// The revision a binding says its namespace has: by its digest, or by the generation of the class where it records none.
pub(super) fn had_by(
    binding: &NamespaceClassBinding,
    class: &NamespaceClass,
    newest: &str,
    kept: &[Revision],
) -> Option<String> {
    let status = binding.status.as_ref()?;
    if status.observed_class_uid != class.metadata.uid {
        return None;
    }
    if status.observed_revision.is_some() {
        return status.observed_revision.clone();
    }
    if has_generation(binding, class) {
        return Some(newest.to_owned());
    }
    let generation = status.observed_class_generation?;
    kept.iter().find(|kept| kept.generation == Some(generation)).map(|kept| kept.kept.digest.clone())
}

#[cfg(test)]
mod tests {
    use croft_api::namespaces::NamespaceClassBindingStatus;
    use serde_json::json;

    use super::*;

    fn class() -> NamespaceClass {
        let mut class =
            NamespaceClass::new("web", NamespaceClassSpec { protect: true, ..NamespaceClassSpec::default() });
        class.metadata.uid = Some("u".into());
        class.metadata.generation = Some(4);
        class
    }

    fn stored() -> ControllerRevision {
        let digest = rollout::digest_of(&validate::content(&class().spec));
        of_class(&class(), "croft-system", &digest, 7)
    }

    #[test]
    fn a_revision_that_is_not_what_it_says_is_not_used() {
        let read = Revision::read(&stored(), &class()).unwrap();
        assert_eq!((read.kept.number, read.generation, read.spec.protect), (7, Some(4), true));

        let mut other_content = stored();
        other_content.data = Some(RawExtension(json!({})));
        let mut other_name = stored();
        other_name.metadata.name = Some("web-1".into());
        let mut other_owner = stored();
        other_owner.metadata.owner_references = None;
        let mut other_label = stored();
        other_label.metadata.labels = None;
        let mut none = stored();
        none.data = None;
        for forged in [other_content, other_name, other_owner, other_label, none] {
            assert!(Revision::read(&forged, &class()).is_none(), "{forged:?}");
        }
    }

    #[test]
    fn what_an_earlier_class_of_the_name_left_is_told_from_what_is_somebody_elses() {
        let mut made_again = class();
        made_again.metadata.uid = Some("another".into());
        let mut left = stored();
        left.metadata.uid = Some("r".into());
        assert!(Revision::read(&left, &made_again).is_none(), "a class made again is another one");
        assert_eq!(Holder::of(&left, &made_again), Some(Holder::Predecessor { uid: "r".into() }));
        assert_eq!(Holder::of(&left, &class()), None);
        let mut nobodys = left.clone();
        nobodys.metadata.owner_references = None;
        let mut other_content = left;
        other_content.data = Some(RawExtension(json!({})));
        for strange in [nobodys, other_content] {
            assert_eq!(Holder::of(&strange, &made_again), Some(Holder::Stranger), "{strange:?}");
        }
    }

    #[test]
    fn a_binding_from_before_there_were_revisions_tells_which_it_has_by_the_generation() {
        let mut binding = NamespaceClassBinding::default();
        let kept = [Revision::read(&stored(), &class()).unwrap()];
        let later = NamespaceClass { metadata: ObjectMeta { generation: Some(5), ..class().metadata }, ..class() };
        assert_eq!(had_by(&binding, &class(), "newest", &kept), None);
        let status = binding.status.insert(NamespaceClassBindingStatus::default());
        status.observed_class_uid = Some("u".into());
        status.observed_class_generation = Some(4);
        assert_eq!(had_by(&binding, &class(), "newest", &kept).as_deref(), Some("newest"));
        assert_eq!(had_by(&binding, &later, "newest", &kept), Some(kept[0].kept.digest.clone()));
    }
}
