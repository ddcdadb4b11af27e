//! Binding -> resources: observes for [`croft_core::namespaces::resources`] and carries out its steps.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding, OnUnbind, validate};
use croft_core::{
    namespaces::{
        inventory::Status,
        manifest::{Identity, Stamp, shows},
        resources::{
            self, Binding, Class, ClassSeen, KindName, KindSeen, Namespace, NamespaceMetadata, Observed, Owner, Read,
            ResourceStep, Stamped,
        },
        template::Facts,
    },
    plan::{Failure, FailureClass, Next, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::{api::core::v1, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
};
use serde_json::{Value, json};

use super::{
    BINDING, Caches,
    blueprints::{Blueprints, Checked},
    kinds::{Kind, Kinds},
    stamped::{self, Controller, Stamps, Watching, controller_of},
    unreported::Unreported,
};
use crate::engine::{
    Key, Reconciler, Report, Target, Work, Writer, Written,
    events::{Note, about},
    is_deleting, witness,
    write::read,
};

#[derive(Debug)]
pub(super) struct ResourcesReconciler {
    pub(super) caches: Caches,
    pub(super) writer: Writer,
    pub(super) kinds: Kinds,
    pub(super) stamps: Stamps,
    /// UIDs of bindings we deleted, by namespace, until the cache has seen it: nothing may be made in their name any more.
    pub(super) deleted: Mutex<BTreeMap<String, String>>,
    pub(super) unreported: Unreported,
    pub(super) blueprints: Blueprints,
}

#[derive(Debug)]
pub(super) struct Seen {
    binding: Arc<NamespaceClassBinding>,
    /// The status as it is written; the observed one may be ahead of it.
    stored: Status,
    observed: Observed,
    kinds: BTreeMap<KindName, Kind>,
}

impl ResourcesReconciler {
    fn deleted(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_deleted(&self, namespace: &str, uid: &str) -> bool {
        self.deleted().get(namespace).is_some_and(|deleted| deleted == uid)
    }
    /// The class, and only after a live look "gone": deleting on the word of a cache is how things get lost.
    async fn class(&self, name: &str, binding_uid: &str, namespace: &Facts) -> Result<ClassSeen, Failure> {
        if let Some(class) = self.caches.classes.get("", name) {
            return Ok(present(&class, &self.blueprints.of(&class), binding_uid, namespace));
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

    fn unknown_class(&self, namespace: &v1::Namespace, bound: &str) -> Option<String> {
        let label = namespace.labels().get(CLASS_LABEL).filter(|label| !label.is_empty() && *label != bound)?;
        (!self.caches.classes.exists("", label)).then(|| label.clone())
    }

    fn is_relabelled(&self, namespace: &v1::Namespace, bound: &str) -> bool {
        namespace.labels().get(CLASS_LABEL).is_some_and(|label| label != bound && self.caches.can_be_chosen(label))
    }

    fn orphans(&self, class: &str) -> bool {
        self.caches.classes.get("", class).is_some_and(|class| orphans(&class))
    }

    /// Whether the class has recorded every kind it is about to make objects of.
    fn has_recorded(class: &NamespaceClass, kinds: &BTreeMap<KindName, Kind>) -> bool {
        let recorded = class.status.iter().flat_map(|status| &status.kinds);
        let recorded: Vec<_> = recorded.map(|kind| (kind.api_version.as_str(), kind.kind.as_str())).collect();
        let stampable = |name: &&KindName| kinds.get(*name).is_some_and(|kind| kind.stampable().is_some());
        let names = super::kinds_named_by(class);
        names.iter().filter(stampable).all(|name| recorded.contains(&(name.0.as_str(), name.1.as_str())))
    }

    /// A watch of the class's kinds that has not told yet what is there: whoever decides now decides on half a picture.
    fn starting_watch(&self, class: &NamespaceClass, kinds: &BTreeMap<KindName, Kind>) -> Option<String> {
        let names = super::kinds_named_by(class);
        let kinds = names.iter().filter_map(|name| kinds.get(name)?.stampable());
        kinds.into_iter().find(|kind| self.stamps.state(kind) == Watching::Starting).map(|kind| kind.kind)
    }

    /// Whether objects of the class can be made; fails while it cannot be told.
    fn is_prepared(&self, class: &str, kinds: &BTreeMap<KindName, Kind>) -> Result<bool, Failure> {
        let Some(class) = self.caches.classes.get("", class) else { return Ok(true) };
        if !Self::has_recorded(&class, kinds) {
            return Ok(false);
        }
        match self.starting_watch(&class, kinds) {
            None => Ok(true),
            Some(kind) => {
                Err(Failure::new(FailureClass::Stale, "NotSynced", format!("the watch of {kind} is starting")))
            }
        }
    }

    fn kind_seen(&self, kind: &Kind) -> KindSeen {
        match kind.stampable() {
            Some(stampable) if self.stamps.state(&stampable) == Watching::Forbidden => {
                KindSeen::Forbidden { resource: kind.resource.plural.clone() }
            }
            _ => kind.seen.clone(),
        }
    }

    fn stamped(&self, namespace: &str, binding_uid: &str) -> BTreeMap<Identity, Stamped> {
        let objects = self.stamps.in_namespace(namespace).into_iter();
        let described = |entry: stamped::Entry| {
            let orphan = self.orphans(&entry.class);
            stamped_entry(entry, orphan, binding_uid)
        };
        objects.map(|(identity, entry)| (identity, described(entry))).collect()
    }
}

/// The kinds of wanted and of recorded objects.
pub(crate) async fn look_up_kinds(
    known: &Kinds,
    seen: &ClassSeen,
    status: &Status,
) -> Result<BTreeMap<KindName, Kind>, Failure> {
    let mut kinds = BTreeMap::new();
    let items = match seen {
        ClassSeen::Present(class) => class.items.as_slice(),
        ClassSeen::Gone | ClassSeen::Unreadable => &[],
    };
    let wanted = items.iter().map(|item| (item.api_version.clone(), item.identity.kind.clone()));
    let recorded = status.applied_resources.iter().map(|applied| (applied.api_version.clone(), applied.kind.clone()));
    for name in wanted.chain(recorded) {
        if let Entry::Vacant(place) = kinds.entry(name) {
            let (api_version, kind) = place.key();
            let found = known.look_up(api_version, kind).await?;
            place.insert(found);
        }
    }
    Ok(kinds)
}

/// A stamped object, and whether its class leaves it behind.
pub(crate) fn stamped_entry(entry: stamped::Entry, orphan: bool, binding_uid: &str) -> Stamped {
    Stamped {
        api_version: entry.api_version.to_string(),
        owner: owner(entry.controller.as_ref(), binding_uid),
        orphan,
        suspect: entry.is_suspect(),
        version: entry.version.to_string(),
        uid: entry.uid,
        class: entry.class,
        entry: entry.entry,
        deleting: entry.deleting,
        created: entry.created,
    }
}

/// Reads what the watches cannot tell.
pub(crate) async fn read_doubtful(
    client: &Client,
    seen: &Observed,
    kinds: &BTreeMap<KindName, Kind>,
) -> Result<BTreeMap<Identity, Option<Read>>, Failure> {
    let mut found = BTreeMap::new();
    for (api_version, identity) in seen.to_read() {
        let Some(kind) = kinds.get(&(api_version.clone(), identity.kind.clone())) else { continue };
        if kind.stampable().is_none() {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &seen.namespace.name, &kind.resource);
        let object = match seen.shown_by(&identity) {
            None => read(api.get_metadata_opt(&identity.name)).await?.map(|object| (object.metadata, false)),
            Some(manifest) => read(api.get_opt(&identity.name)).await?.map(|object| {
                let as_wanted = shows(&json!(object), manifest);
                (object.metadata, as_wanted)
            }),
        };
        let object = object
            .map(|(metadata, as_wanted)| Read { as_wanted, ..described(api_version, &metadata, &seen.binding.uid) });
        found.insert(identity, object);
    }
    Ok(found)
}

/// One step of the plan is one call.
pub(crate) async fn carry_out(
    writer: &Writer,
    namespace: &str,
    kinds: &BTreeMap<KindName, Kind>,
    step: &ResourceStep,
) -> Result<Written, Failure> {
    match step {
        ResourceStep::ApplyNamespaceMetadata { metadata } => {
            let metadata = json!({ "labels": metadata.labels, "annotations": metadata.annotations });
            writer.namespace_metadata(namespace, &metadata).await
        }
        ResourceStep::Create { identity, api_version, manifest, .. } => {
            writer.stamp(resource_of(kinds, api_version, identity)?, namespace, manifest).await
        }
        ResourceStep::Apply { identity, api_version, uid, manifest, .. } => {
            let resource = resource_of(kinds, api_version, identity)?;
            writer.apply(resource, namespace, &identity.name, &only_if(manifest, uid)).await
        }
        ResourceStep::TakeFields { identity, api_version, uid, version, fields } => {
            let resource = resource_of(kinds, api_version, identity)?;
            let target = Target { namespace, name: &identity.name, uid };
            let patch = json!({ "metadata": { "managedFields": fields } });
            writer.merge_dynamic(resource, target, version, patch).await
        }
        ResourceStep::Release { identity, api_version, uid, version, owners } => {
            let resource = resource_of(kinds, api_version, identity)?;
            let target = Target { namespace, name: &identity.name, uid };
            writer.merge_dynamic(resource, target, version, released(owners)).await
        }
        ResourceStep::Prune { identity, api_version, uid, version } => {
            let resource = resource_of(kinds, api_version, identity)?;
            writer.delete_dynamic(resource, Target { namespace, name: &identity.name, uid }, version).await
        }
        ResourceStep::DeleteBinding { uid, version, .. } => {
            let target = Target { namespace, name: namespace, uid };
            writer.delete::<NamespaceClassBinding>(target, Some(version)).await
        }
    }
}

/// The manifest for exactly this object: a precondition, not a field; the API server compares it and owns it itself.
pub(crate) fn only_if(manifest: &Value, uid: &str) -> Value {
    let mut manifest = manifest.clone();
    manifest["metadata"]["uid"] = uid.into();
    manifest
}

/// How the kind of an object is reached.
pub(crate) fn resource_of<'k>(
    kinds: &'k BTreeMap<KindName, Kind>,
    api_version: &str,
    identity: &Identity,
) -> Result<&'k ApiResource, Failure> {
    let kind = kinds.get(&(api_version.to_owned(), identity.kind.clone())).map(|kind| &kind.resource);
    kind.ok_or_else(|| Failure::new(FailureClass::Stale, "NotFound", format!("{} is not served", identity.kind)))
}

/// Whether objects of a class stay where it is no longer wanted.
pub(crate) fn orphans(class: &NamespaceClass) -> bool {
    class.spec.policy.on_unbind == OnUnbind::Orphan
}

/// The class as it is for one namespace; whether its kinds are recorded is for the caller to say.
pub(crate) fn present(class: &NamespaceClass, checked: &Checked, binding_uid: &str, namespace: &Facts) -> ClassSeen {
    let name = class.name_any();
    let stamp = Stamp { namespace: &namespace.name, class: &name, binding_uid, protect: class.spec.protect };
    let (items, problems) = match checked.as_ref().map_err(Clone::clone).and_then(|class| class.items(namespace)) {
        Ok(items) => (items.iter().map(|item| item.stamped(&stamp)).collect(), Vec::new()),
        Err(problems) => (Vec::new(), problems),
    };
    let metadata = class.spec.namespace_metadata.clone().unwrap_or_default();
    ClassSeen::Present(Class {
        uid: class.uid().unwrap_or_default(),
        generation: class.metadata.generation.unwrap_or_default(),
        items,
        problems,
        policy: validate::policy(class),
        namespace_metadata: NamespaceMetadata { labels: metadata.labels, annotations: metadata.annotations },
        deleting: is_deleting(class.meta()),
        kinds_recorded: false,
        name,
    })
}

fn owner(controller: Option<&Controller>, binding_uid: &str) -> Owner {
    match controller {
        None => Owner::Nobody,
        Some(controller) if controller.uid == binding_uid => Owner::ThisBinding,
        // There is one binding of a name at a time: one of another UID is no more.
        Some(controller) if controller.is_binding => Owner::FormerBinding,
        Some(_) => Owner::Other,
    }
}

pub(crate) fn described(api_version: String, metadata: &ObjectMeta, binding_uid: &str) -> Read {
    let others = metadata.owner_references.iter().flatten().filter(|owner| owner.uid != binding_uid);
    Read {
        api_version,
        uid: metadata.uid.clone().unwrap_or_default(),
        version: metadata.resource_version.clone().unwrap_or_default(),
        owner: owner(controller_of(metadata).as_ref(), binding_uid),
        deleting: metadata.deletion_timestamp.is_some(),
        as_wanted: false,
        taken_fields: witness::taken_over(metadata),
        other_owners: json!(others.collect::<Vec<_>>()),
    }
}

/// The status as the core reads it: both shapes are the API's.
fn status_of(binding: &NamespaceClassBinding) -> Status {
    let status = serde_json::to_value(binding.status.clone().unwrap_or_default()).unwrap_or_default();
    serde_json::from_value(status).unwrap_or_default()
}

pub(crate) fn described_namespace(namespace: &v1::Namespace, relabelled: bool) -> Namespace {
    Namespace {
        name: namespace.name_any(),
        terminating: is_deleting(namespace.meta()),
        unlabelled: !namespace.labels().contains_key(CLASS_LABEL),
        relabelled,
        labels: namespace.labels().clone(),
        annotations: namespace.annotations().clone(),
    }
}

pub(crate) fn described_binding(binding: &NamespaceClassBinding) -> Binding {
    Binding {
        uid: binding.uid().unwrap_or_default(),
        version: binding.resource_version().unwrap_or_default(),
        generation: binding.metadata.generation.unwrap_or_default(),
        class: binding.spec.class_name.clone(),
        deleting: is_deleting(binding.meta()),
        status: status_of(binding),
    }
}

pub(crate) fn facts(namespace: &v1::Namespace) -> Facts {
    Facts {
        name: namespace.name_any(),
        uid: namespace.uid().unwrap_or_default(),
        labels: namespace.labels().clone(),
        annotations: namespace.annotations().clone(),
    }
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
        let Some(binding) = self.caches.bindings.get(&key.namespace, &key.name) else {
            self.deleted().remove(&key.namespace);
            self.unreported.forget(&key.namespace);
            self.stamps.forget(&key.namespace);
            return Ok(None);
        };
        let Some(namespace) = self.caches.namespaces.get("", &key.namespace) else { return Ok(None) };
        let uid = binding.uid().unwrap_or_default();
        if self.is_deleted(&key.namespace, &uid) {
            return Ok(None);
        }
        let class_name = binding.spec.class_name.clone();
        let mut class = self.class(&class_name, &uid, &facts(&namespace)).await?;
        let mut bound = described_binding(&binding);
        let stored = bound.status;
        bound.status = self.unreported.status(&key.namespace, &uid, &stored);
        let kinds = look_up_kinds(&self.kinds, &class, &bound.status).await?;
        if let ClassSeen::Present(class) = &mut class {
            class.kinds_recorded = self.is_prepared(&class_name, &kinds)?;
        }
        let mut observed = Observed {
            namespace: described_namespace(&namespace, self.is_relabelled(&namespace, &class_name)),
            unknown_class: self.unknown_class(&namespace, &class_name),
            stamped: self.stamped(&key.namespace, &uid),
            orphan_unstamped: self.orphans(bound.status.observed_class_name.as_deref().unwrap_or(&class_name)),
            binding: bound,
            class,
            kinds: kinds.iter().map(|(name, kind)| (name.clone(), self.kind_seen(kind))).collect(),
            read: BTreeMap::new(),
        };
        observed.read = read_doubtful(&self.writer.client(), &observed, &kinds).await?;
        Ok(Some(Seen { binding, stored, observed, kinds }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<ResourceStep> {
        resources::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &ResourceStep) -> Result<Written, Failure> {
        let namespace = seen.observed.namespace.name.as_str();
        let written = carry_out(&self.writer, namespace, &seen.kinds, step).await?;
        if let ResourceStep::DeleteBinding { uid, .. } = step {
            self.deleted().insert(namespace.to_owned(), uid.clone());
        }
        if let (Some(identity), Some((_, version))) = (step.identity(), &written.echo) {
            self.stamps.vouch(namespace, identity, *version);
        }
        Ok(written)
    }

    fn report(&self, seen: &Seen, outcomes: &[(&ResourceStep, Outcome)], now: &Timestamp) -> Report {
        let observed = &seen.observed;
        if observed.namespace.terminating || observed.binding.deleting {
            return Report::default();
        }
        let gone = |(step, outcome): &(&ResourceStep, Outcome)| {
            matches!(step, ResourceStep::DeleteBinding { .. }) && outcome.is_done()
        };
        if outcomes.iter().any(gone) {
            return Report::default();
        }
        let status = resources::report(observed, outcomes, now);
        // Nobody announces when a foreign object goes away: look again, ever more rarely.
        let retry = status.conditions.reason("Ready") == Some("Conflict");
        if status == seen.stored {
            return Report { retry, ..Report::default() };
        }
        let (namespace, binding) = (&observed.namespace.name, &observed.binding.uid);
        if let Some(left) = self.unreported.wait(namespace, binding, &seen.stored, &status) {
            return Report { next: Next::After(left), ..Report::default() };
        }
        let told = observed.binding.status.conditions.reason("Ready");
        let events = match status.conditions.get("Ready") {
            Some(ready) if told == Some(&ready.reason) => Vec::new(),
            Some(ready) if ready.reason == "ReconcileSuccess" => {
                vec![Note::normal("ReconcileSucceeded", &ready.message)]
            }
            Some(ready) if ready.reason != "RolloutPending" => vec![Note::warning(&ready.reason, &ready.message)],
            _ => Vec::new(),
        };
        let status = serde_json::to_value(status).ok();
        Report { status, events, about: Some(about(&*seen.binding)), retry, ..Report::default() }
    }

    async fn write_status(&self, seen: &Seen, status: Value) -> Result<Written, Failure> {
        let namespace = seen.observed.namespace.name.as_str();
        let target = Target { namespace, name: namespace, uid: &seen.observed.binding.uid };
        let written = self.writer.status::<NamespaceClassBinding>(target, &status).await?;
        let status: Status = serde_json::from_value(status).unwrap_or_default();
        // Where it is not all well, the next look goes on from what has just been recorded.
        if let (true, Some((_, version))) = (status.is_ready(), &written.echo) {
            self.stamps.vouch_for_binding(namespace, *version);
        }
        Ok(written)
    }
}

/// A patch that makes an object nobody's again: our owner reference and our labels go, the rest stays.
fn released(other_owners: &Value) -> Value {
    use croft_api::namespaces::{PROTECTED_LABEL, STAMP_LABEL};
    json!({ "metadata": {
        "ownerReferences": other_owners,
        "labels": { STAMP_LABEL: null, PROTECTED_LABEL: null },
    } })
}
