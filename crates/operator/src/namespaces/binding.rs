//! Namespace -> binding: observes for [`croft_core::namespaces::binding`] and carries out its steps.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use croft_api::namespaces::{CLASS_LABEL, NamespaceClassBinding, NamespaceClassBindingSpec};
use croft_core::{
    namespaces::binding::{self, Binding, BindingStep, Observed},
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{Caches, NAMESPACE};
use crate::{
    engine::{
        Key, Reconciler, Report, Target, Work, Writer, Written,
        events::{Note, about},
        is_deleting,
    },
    parts::Ground,
    settings::{Settings, SharedSettings},
};

#[derive(Debug)]
pub(super) struct BindingReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
    operator_namespace: String,
    /// The last trouble told of each namespace, with its UID: a namespace has no status of ours to remember it in.
    told: Mutex<BTreeMap<String, (String, String)>>,
}

#[derive(Debug)]
pub(super) struct Seen {
    namespace: Arc<Namespace>,
    observed: Observed,
}

impl BindingReconciler {
    pub(super) fn new(caches: Caches, ground: &Ground) -> Self {
        let Ground { writer, settings, operator_namespace } = ground.clone();
        Self { caches, writer, settings, operator_namespace, told: Mutex::default() }
    }

    /// Events for a change of trouble only.
    fn news(&self, seen: &Seen) -> Vec<Note> {
        let (name, uid) = (seen.namespace.name_any(), seen.namespace.uid().unwrap_or_default());
        let mut told = self.told();
        match binding::trouble(&seen.observed) {
            None => {
                told.remove(&name);
                Vec::new()
            }
            Some(trouble) => {
                let message = trouble.to_string();
                let telling = (uid, message.clone());
                let known = told.insert(name, telling.clone()).is_some_and(|old| old == telling);
                if known { Vec::new() } else { vec![Note::warning(trouble.reason(), message)] }
            }
        }
    }
}

impl BindingReconciler {
    fn told(&self) -> MutexGuard<'_, BTreeMap<String, (String, String)>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a namespace belongs to the cluster, not to a tenant: as the fences say, which may be missing. Velero's is one, and our
/// own, where it is known.
pub(crate) fn is_system(settings: &Settings, own: Option<&str>, namespace: &str) -> bool {
    let named = settings.namespaces.system_namespaces.iter().chain([&settings.backup.velero_namespace]);
    namespace.starts_with("kube-") || named.map(String::as_str).chain(own).any(|name| name == namespace)
}

/// A namespace and its binding as the core sees them.
pub(crate) fn observed(
    namespace: &Namespace,
    binding: Option<&NamespaceClassBinding>,
    can_be_chosen: impl Fn(&str) -> bool,
    exists: impl Fn(&str) -> bool,
    system: bool,
) -> Observed {
    let name = namespace.name_any();
    let label = namespace.labels().get(CLASS_LABEL).cloned();
    Observed {
        is_wanted_class_leaving: label.as_deref().is_some_and(|class| exists(class) && !can_be_chosen(class)),
        wanted_class: label.clone().filter(|class| can_be_chosen(class)),
        binding: binding.map(|binding| Binding {
            uid: binding.uid().unwrap_or_default(),
            version: binding.resource_version().unwrap_or_default(),
            class: binding.spec.class_name.clone(),
            deleting: is_deleting(binding.meta()),
        }),
        namespace: binding::Namespace {
            uid: namespace.uid().unwrap_or_default(),
            terminating: is_deleting(namespace.meta()),
            system,
            label,
            name,
        },
    }
}

impl Reconciler for BindingReconciler {
    type Seen = Seen;
    type Step = BindingStep;

    fn work(&self) -> Work {
        NAMESPACE
    }

    fn all(&self) -> Vec<Key> {
        self.caches.namespaces.all().iter().map(|namespace| Key::cluster(NAMESPACE, namespace.name_any())).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        // What its label was before it could no longer be read says nothing about now.
        let Some(namespace) = self.caches.namespaces.as_stored("", &key.name) else {
            self.told().remove(&key.name);
            return Ok(None);
        };
        let binding = self.caches.bindings.get(&key.name, &key.name);
        let can_be_chosen = |class: &str| self.caches.can_be_chosen(class);
        let is_system = is_system(&self.settings.load(), Some(&self.operator_namespace), &key.name);
        let exists = |class: &str| self.caches.classes.exists("", class);
        let observed = observed(&namespace, binding.as_deref(), can_be_chosen, exists, is_system);
        Ok(Some(Seen { namespace, observed }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<BindingStep> {
        binding::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &BindingStep) -> Result<Written, Failure> {
        let name = seen.namespace.name_any();
        match step {
            BindingStep::CreateBinding { class, owner } => {
                let spec =
                    NamespaceClassBindingSpec { class_name: class.clone(), ..NamespaceClassBindingSpec::default() };
                let mut binding = NamespaceClassBinding::new(&name, spec);
                binding.metadata.namespace = Some(name.clone());
                binding.metadata.owner_references = Some(vec![OwnerReference {
                    api_version: "v1".into(),
                    kind: "Namespace".into(),
                    name,
                    uid: owner.clone(),
                    controller: Some(true),
                    block_owner_deletion: Some(false),
                }]);
                self.writer.create(&binding).await
            }
            BindingStep::Rebind { uid, version, to, .. } => {
                let target = Target { namespace: &name, name: &name, uid };
                // Where it was moved to was a revision of the other class.
                let patch =
                    json!({"spec": {"className": to, "revision": null, "stagedSince": null, "failedBefore": null}});
                self.writer.merge::<NamespaceClassBinding>(target, Some(version), patch).await
            }
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&BindingStep, Outcome)], _now: &Timestamp) -> Report {
        let done = outcomes.iter().filter(|(_, outcome)| outcome.is_done()).map(|(step, _)| match step {
            BindingStep::CreateBinding { class, .. } => {
                Note::normal("BindingCreated", format!("bound to class {class}"))
            }
            BindingStep::Rebind { from, to, .. } => {
                Note::normal("BindingUpdated", format!("bound to class {to} instead of {from}"))
            }
        });
        let events = done.chain(self.news(seen)).collect();
        Report { events, about: Some(about(&*seen.namespace)), ..Report::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_and_velero_live_in_namespaces_of_the_cluster_whatever_they_are_called() {
        let mut settings = Settings::default();
        settings.backup.velero_namespace = "backups".into();
        for system in ["kube-system", "default", "croft-system", "ops", "backups"] {
            assert!(is_system(&settings, Some("ops"), system), "{system}");
        }
        for tenant in ["team-a", "ops-a", "kubernetes"] {
            assert!(!is_system(&settings, Some("ops"), tenant), "{tenant}");
        }
        assert!(!is_system(&settings, None, "ops"), "it is not known where the operator is");
    }
}
