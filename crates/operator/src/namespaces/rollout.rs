//! What a class's reconciler sees of revisions and does about them: observes for [`croft_core::namespaces::rollout`].

use std::{cell::OnceCell, collections::BTreeSet, sync::Arc};

use croft_api::namespaces::{
    CLASS_LABEL, CONFIRM_ANNOTATION, NamespaceClass, NamespaceClassBinding, NamespaceClassBindingStatus, OnUnbind,
    validate,
};
use croft_core::{
    namespaces::{
        blueprint::Furnished,
        class::{Bound, Observed},
        inventory,
        manifest::Identity,
        params::Texts,
        rollout::{self, Deletions, RolloutStep, Wishes, deletions_in},
        template::Facts,
    },
    plan::Failure,
    time::Timestamp,
};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Namespace};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{
    class::ClassReconciler,
    described::{facts, orphans},
    revisions::{Holder, InForce, Revision, generation_note, had_by, moved, of_class},
};
use crate::{
    engine::{Target, Written, is_deleting, timestamp},
    objects,
};

/// A class and what is kept of it.
#[derive(Debug)]
pub(super) struct Edition {
    pub(super) class: Arc<NamespaceClass>,
    pub(super) newest: Arc<str>,
    pub(super) kept: Vec<Revision>,
}

impl Edition {
    /// Earlier revisions that namespaces have, or get when they are bound.
    pub(super) fn in_force<'k>(&'k self, bindings: &[Arc<NamespaceClassBinding>]) -> Vec<&'k Revision> {
        let released = self.class.status.as_ref().and_then(|status| status.revision.as_deref());
        let moved = bindings.iter().filter_map(|binding| binding.spec.revision.as_deref());
        let digests: BTreeSet<_> = moved.chain(released).filter(|digest| **digest != *self.newest).collect();
        self.kept.iter().filter(|revision| digests.contains(revision.kept.digest.as_str())).collect()
    }
}

/// Since when a binding has said that its namespace is not ready.
fn unready_since(status: Option<&NamespaceClassBindingStatus>) -> Option<Timestamp> {
    let ready = status?.conditions.iter().find(|condition| condition.type_ == "Ready")?;
    (ready.status != "True").then(|| Timestamp(ready.last_transition_time.0.to_string()))
}

impl ClassReconciler {
    pub(super) fn edition(&self, class: &Arc<NamespaceClass>) -> Edition {
        Edition {
            class: class.clone(),
            newest: self.revisions.blueprints.digest_of(class),
            kept: self.revisions.of(class),
        }
    }

    /// One namespace as the class sees it.
    pub(super) fn bound(&self, binding: &NamespaceClassBinding, edition: &Edition) -> Bound {
        let Edition { class, newest, kept } = edition;
        let status = binding.status.as_ref();
        let is_true = |kind: &str| {
            let mut conditions = status.iter().flat_map(|status| &status.conditions);
            conditions.find(|condition| condition.type_ == kind && condition.status == "True")
        };
        let name = binding.namespace().unwrap_or_default();
        let has = had_by(binding, class, newest, kept);
        let order = class.spec.rollout.iter().flat_map(|rollout| &rollout.order);
        let order: Vec<_> = order.map(|group| group.match_labels.clone()).collect();
        let namespace = self.caches.namespaces.get("", &name).filter(|namespace| !is_deleting(namespace.meta()));
        let asks_for_it = |namespace: &&Arc<Namespace>| namespace.labels().get(CLASS_LABEL) == Some(&class.name_any());
        let namespace = namespace.as_ref().filter(asks_for_it);
        Bound {
            uid: binding.uid().unwrap_or_default(),
            version: binding.resource_version().unwrap_or_default(),
            updated: has.as_deref() == Some(&**newest),
            ready: is_true("Ready").is_some(),
            unready_since: unready_since(status),
            stalled: is_true("Stalled").map(|condition| condition.reason.clone()),
            heard: status.is_some_and(|status| status.observed_generation == binding.metadata.generation),
            moved: moved(binding),
            turn: namespace.map_or(order.len(), |namespace| rollout::turn(&order, namespace.labels())),
            leaving: namespace.is_none(),
            has,
            name,
        }
    }

    pub(super) fn see_rollout(&self, edition: &Edition) -> rollout::Seen {
        let Edition { class, newest, kept } = edition;
        let is_fit = self.revisions.blueprints.of(class).is_ok();
        let holder = self.revisions.holder_of(class, newest);
        let place = || format!("{}/{}", self.revisions.namespace, rollout::name_of(&class.name_any(), newest));
        rollout::Seen {
            newest: is_fit.then(|| newest.to_string()),
            // What cannot be read may be what keeps everybody where they are.
            wishes: validate::wishes(class).unwrap_or(Wishes { paused: true, ..Wishes::default() }),
            kept: kept.iter().map(|revision| revision.kept.clone()).collect(),
            not_kept: (holder == Some(Holder::Stranger)).then(|| {
                format!("ControllerRevision {} has the name of its newest revision and is not it; delete it", place())
            }),
            predecessor: match holder {
                Some(Holder::Predecessor { uid }) => Some(uid),
                Some(Holder::Stranger) | None => None,
            },
            confirmed: class.annotations().get(CONFIRM_ANNOTATION).cloned(),
            deletions: Deletions::default(),
            now: timestamp(),
        }
    }

    /// What the newest revision would delete, where that has to be known.
    pub(super) fn count_deletions(
        &self,
        observed: &mut Observed,
        class: &Arc<NamespaceClass>,
        bindings: &[Arc<NamespaceClassBinding>],
    ) {
        let checked = self.revisions.blueprints.of(class);
        let Ok(blueprint) = checked.as_ref() else { return };
        if !rollout::must_count(observed) || class.spec.policy.on_unbind == OnUnbind::Orphan {
            return;
        }
        for binding in bindings {
            let Some(namespace) = self.caches.namespaces.get("", &binding.name_any()) else { continue };
            let before = binding.status.as_ref().map(|status| status.params.clone()).unwrap_or_default();
            let Ok(furnished) = blueprint.items(&facts(&namespace), &before) else { continue };
            let status: inventory::Status = objects::status(binding.status.as_ref());
            let now = OnceCell::new();
            let now = || now.get_or_init(|| self.deleting_now(class, binding, &facts(&namespace), &before)).as_ref();
            let is_let_in = |identity: &Identity| now().is_some_and(|now| !now.may_want(identity));
            let here = deletions_in(&status.applied_resources, |identity| furnished.may_want(identity), is_let_in);
            observed.rollout.deletions = observed.rollout.deletions.and(here);
        }
    }

    /// What the class in force in a namespace makes there, if it deletes everything else.
    fn deleting_now(
        &self,
        class: &Arc<NamespaceClass>,
        binding: &NamespaceClassBinding,
        namespace: &Facts,
        before: &Texts,
    ) -> Option<Furnished> {
        let InForce { class, checked, withheld: None, .. } = self.revisions.in_force(class, binding) else {
            return None;
        };
        let blueprint = checked.as_ref().as_ref().ok()?;
        (!orphans(&class)).then(|| blueprint.items(namespace, before).ok())?
    }

    /// One step is one call.
    pub(super) async fn roll_out(&self, class: &NamespaceClass, step: &RolloutStep) -> Result<Written, Failure> {
        let own = self.revisions.namespace.as_str();
        let name_of = |revision: &str| rollout::name_of(&class.name_any(), revision);
        match step {
            RolloutStep::Keep { revision, number } => {
                self.writer.create(&of_class(class, own, revision, *number)).await
            }
            RolloutStep::Renumber { revision, uid, version, number } => {
                let name = name_of(revision);
                let patch = json!({ "revision": number, "metadata": { "annotations": generation_note(class) } });
                let target = Target { namespace: own, name: &name, uid };
                self.writer.merge::<ControllerRevision>(target, Some(version), patch).await
            }
            RolloutStep::Move { namespace, uid, version, revision, since, failing } => {
                let failed_before = failing.then_some(true);
                let spec = json!({ "revision": revision, "stagedSince": since, "failedBefore": failed_before });
                let patch = json!({ "spec": spec });
                let target = Target { namespace, name: namespace, uid };
                self.writer.merge::<NamespaceClassBinding>(target, Some(version), patch).await
            }
            RolloutStep::Discard { revision, uid } | RolloutStep::Forget { revision, uid } => {
                let name = name_of(revision);
                self.writer.delete::<ControllerRevision>(Target { namespace: own, name: &name, uid }, None).await
            }
        }
    }
}
