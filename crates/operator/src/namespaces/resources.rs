//! Binding -> resources: observes for [`croft_core::namespaces::resources`] and carries out its steps.

use std::{collections::BTreeMap, sync::Arc};

use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding, validate::validate};
use croft_core::{
    namespaces::{
        manifest::Identity,
        resources::{self, Binding, Class, ClassSeen, KindSeen, Live, Observed, ResourceStep, Status},
    },
    plan::{Failure, FailureClass, Outcome, Plan},
    time::Timestamp,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DynamicObject, PartialObjectMeta},
};
use serde_json::Value;

use super::{BINDING, Caches, kinds::{Kind, Kinds}};
use crate::engine::{
    Key, Reconciler, Report, Target, Work, Writer, Written,
    events::{Note, about},
    is_deleting,
    write::read,
};

#[derive(Debug)]
pub(super) struct ResourcesReconciler {
    caches: Caches,
    writer: Writer,
    kinds: Kinds,
}

#[derive(Debug)]
pub(super) struct Seen {
    binding: Arc<NamespaceClassBinding>,
    observed: Observed,
    kinds: BTreeMap<(String, String), Kind>,
}

impl ResourcesReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, kinds: Kinds) -> Self {
        Self { caches, writer, kinds }
    }

    /// The class, and only after a live look "gone": deleting on the word of a cache is how things get lost.
    async fn class(&self, name: &str) -> Result<ClassSeen, Failure> {
        if let Some(class) = self.caches.classes.get("", name) {
            return Ok(present(&class));
        }
        if self.caches.classes.exists("", name) {
            return Ok(ClassSeen::Unreadable);
        }
        let api: Api<PartialObjectMeta<NamespaceClass>> = Api::all(self.writer.client());
        Ok(match read(api.get_opt(name)).await? {
            None => ClassSeen::Gone,
            Some(_) => ClassSeen::Unreadable,
        })
    }

    fn unknown_class(&self, namespace: &str, bound: &str) -> Option<String> {
        let namespace = self.caches.namespaces.get("", namespace)?;
        let label = namespace.labels().get(CLASS_LABEL).filter(|label| !label.is_empty() && *label != bound)?;
        (!self.caches.classes.exists("", label)).then(|| label.clone())
    }

    async fn look_up_kinds(&self, seen: &ClassSeen, status: &Status) -> Result<BTreeMap<(String, String), Kind>, Failure> {
        let mut kinds = BTreeMap::new();
        let items = match seen {
            ClassSeen::Present(class) => class.items.as_slice(),
            ClassSeen::Gone | ClassSeen::Unreadable => &[],
        };
        let wanted = items.iter().map(|item| (item.api_version.clone(), item.identity.kind.clone()));
        let recorded = status.applied_resources.iter().map(|applied| (applied.api_version.clone(), applied.kind.clone()));
        for (api_version, kind) in wanted.chain(recorded) {
            if !kinds.contains_key(&(api_version.clone(), kind.clone())) {
                let found = self.kinds.look_up(&api_version, &kind).await?;
                kinds.insert((api_version, kind), found);
            }
        }
        Ok(kinds)
    }

    /// Reads what the status does not vouch for.
    async fn live(&self, seen: &Observed, kinds: &BTreeMap<(String, String), Kind>) -> Result<BTreeMap<Identity, Live>, Failure> {
        let mut live = BTreeMap::new();
        for (api_version, identity) in seen.to_read() {
            let Some(kind) = kinds.get(&(api_version, identity.kind.clone())) else { continue };
            if kind.seen != KindSeen::Namespaced {
                continue;
            }
            let api: Api<DynamicObject> = Api::namespaced_with(self.writer.client(), &seen.namespace, &kind.resource);
            match read(api.get_metadata_opt(&identity.name)).await {
                Ok(Some(object)) => {
                    live.insert(identity, Live { uid: object.uid().unwrap_or_default(), ours: is_ours(&object, &seen.binding.uid) });
                }
                Ok(None) => {}
                // Without the right to read, applying says it better: with the name of the object.
                Err(failure) if failure.class == FailureClass::Forbidden => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(live)
    }

    fn kind<'s>(&self, seen: &'s Seen, api_version: &str, identity: &Identity) -> Result<&'s Kind, Failure> {
        seen.kinds.get(&(api_version.to_owned(), identity.kind.clone())).ok_or_else(|| {
            Failure::new(FailureClass::Stale, "NotFound", format!("{} is not served", identity.kind))
        })
    }
}

fn present(class: &NamespaceClass) -> ClassSeen {
    let (items, problems) = match validate(class) {
        Ok(items) => (items, Vec::new()),
        Err(problems) => (Vec::new(), problems),
    };
    ClassSeen::Present(Class {
        name: class.name_any(),
        uid: class.uid().unwrap_or_default(),
        generation: class.metadata.generation.unwrap_or_default(),
        items,
        problems,
    })
}

/// Ours is what this very binding controls.
fn is_ours(object: &PartialObjectMeta<DynamicObject>, binding_uid: &str) -> bool {
    object.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.uid == binding_uid)
}

/// The status as the core reads it: both shapes are the API's.
fn status_of(binding: &NamespaceClassBinding) -> Status {
    let status = serde_json::to_value(binding.status.clone().unwrap_or_default()).unwrap_or_default();
    serde_json::from_value(status).unwrap_or_default()
}

impl Reconciler for ResourcesReconciler {
    type Seen = Seen;
    type Step = ResourceStep;

    fn work(&self) -> Work {
        BINDING
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        // Only the binding named like its namespace counts: another one is nobody's wish.
        if key.name != key.namespace {
            return Ok(None);
        }
        let Some(binding) = self.caches.bindings.get(&key.namespace, &key.name) else { return Ok(None) };
        let class = self.class(&binding.spec.class_name).await?;
        let status = status_of(&binding);
        let kinds = self.look_up_kinds(&class, &status).await?;
        let namespace = self.caches.namespaces.get("", &key.namespace);
        let mut observed = Observed {
            namespace: key.namespace.clone(),
            terminating: namespace.as_ref().is_none_or(|namespace| is_deleting(namespace.meta())),
            unlabelled: namespace.as_ref().is_some_and(|namespace| !namespace.labels().contains_key(CLASS_LABEL)),
            unknown_class: self.unknown_class(&key.namespace, &binding.spec.class_name),
            binding: Binding {
                uid: binding.uid().unwrap_or_default(),
                generation: binding.metadata.generation.unwrap_or_default(),
                class: binding.spec.class_name.clone(),
                deleting: is_deleting(binding.meta()),
                status,
            },
            class,
            kinds: kinds.iter().map(|(name, kind)| (name.clone(), kind.seen)).collect(),
            live: BTreeMap::new(),
        };
        observed.live = self.live(&observed, &kinds).await?;
        Ok(Some(Seen { binding, observed, kinds }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<ResourceStep> {
        resources::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &ResourceStep) -> Result<Written, Failure> {
        let namespace = seen.observed.namespace.as_str();
        match step {
            ResourceStep::DeleteBinding { uid, .. } => {
                self.writer.delete::<NamespaceClassBinding>(Target { namespace, name: namespace, uid }).await
            }
            ResourceStep::RecordIntent { status } => {
                let target = Target { namespace, name: namespace, uid: &seen.observed.binding.uid };
                self.writer.status::<NamespaceClassBinding>(target, status).await
            }
            ResourceStep::Apply { identity, api_version, manifest, .. } => {
                let kind = self.kind(seen, api_version, identity)?;
                self.writer.apply(&kind.resource, namespace, &identity.name, manifest).await
            }
            ResourceStep::Prune { identity, api_version, uid } => {
                let kind = self.kind(seen, api_version, identity)?;
                self.writer.delete_dynamic(&kind.resource, Target { namespace, name: &identity.name, uid }).await
            }
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&ResourceStep, Outcome)], now: &Timestamp) -> Report {
        let observed = &seen.observed;
        if observed.terminating || observed.binding.deleting {
            return Report::default();
        }
        let status = resources::report(observed, outcomes, now);
        if status == observed.binding.status {
            return Report::default();
        }
        let told = observed.binding.status.conditions.reason("Ready");
        let events = match status.conditions.get("Ready") {
            Some(ready) if told != Some(&ready.reason) && ready.reason == "ReconcileSuccess" => {
                vec![Note::normal("ReconcileSucceeded", &ready.message)]
            }
            Some(ready) if told != Some(&ready.reason) => vec![Note::warning(&ready.reason, &ready.message)],
            _ => Vec::new(),
        };
        let status: Option<Value> = serde_json::to_value(status).ok();
        Report { status, events, about: Some(about(&*seen.binding)), ..Report::default() }
    }

    async fn write_status(&self, seen: &Seen, status: Value) -> Result<Written, Failure> {
        let namespace = seen.observed.namespace.as_str();
        let target = Target { namespace, name: namespace, uid: &seen.observed.binding.uid };
        self.writer.status::<NamespaceClassBinding>(target, &status).await
    }
}
