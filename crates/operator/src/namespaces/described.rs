//! Kubernetes objects in the words of [`croft_core::namespaces::resources`].

use std::collections::BTreeSet;

use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding, OnUnbind, validate};
use croft_core::namespaces::{
    blueprint::Furnished,
    manifest::{Item, Stamp},
    params::Texts,
    resources::{Binding, Class, ClassSeen, KindName, Namespace, NamespaceMetadata, Owner, Read, Stamped},
    template::Facts,
    witness::Seal,
};
use k8s_openapi::{api::core::v1, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::{
    blueprints::Checked,
    controller::{Controller, controller_of},
    entries::{Entry, held_by},
    fields,
};
use crate::{engine::is_deleting, objects};

/// Whether objects of a class stay where it is no longer wanted.
pub(crate) fn orphans(class: &NamespaceClass) -> bool {
    class.spec.policy.on_unbind == OnUnbind::Orphan
}

/// The class as it is for one namespace.
pub(crate) fn present(
    class: &NamespaceClass,
    checked: &Checked,
    seal: &Seal,
    binding: &Binding,
    namespace: &Facts,
) -> ClassSeen {
    let name = class.name_any();
    let binding_uid = binding.uid.as_str();
    // Values of another class say nothing about this one.
    let is_in_force = binding.status.observed_class_name.as_ref().is_none_or(|observed| *observed == name);
    let before = if is_in_force { binding.status.params.clone() } else { Texts::new() };
    let stamp = Stamp { namespace: &namespace.name, class: &name, binding_uid, protect: class.spec.protect };
    let checked = checked.as_ref().map_err(Clone::clone);
    let (furnished, problems) = match checked.and_then(|class| class.items(namespace, &before)) {
        Ok(furnished) => (furnished, Vec::new()),
        Err(problems) => (Furnished::default(), problems),
    };
    let metadata = class.spec.namespace_metadata.clone().unwrap_or_default();
    let policy = validate::policy(class);
    let made = |item: Item| policy.made_of(seal.sealed(item.stamped(&stamp)));
    ClassSeen::Present(Class {
        uid: class.uid().unwrap_or_default(),
        generation: class.metadata.generation.unwrap_or_default(),
        items: furnished.items.into_iter().map(made).collect(),
        problems,
        misfits: furnished.misfits,
        params: furnished.params,
        refused_params: furnished.refused,
        policy,
        protect: class.spec.protect,
        namespace_metadata: NamespaceMetadata { labels: metadata.labels, annotations: metadata.annotations },
        deleting: is_deleting(class.meta()),
        recorded_kinds: recorded_kinds(class),
        revision: None,
        withheld: None,
        name,
    })
}

/// The kinds the class has recorded, and whose watches therefore run.
fn recorded_kinds(class: &NamespaceClass) -> BTreeSet<KindName> {
    let recorded = class.status.iter().flat_map(|status| &status.kinds);
    recorded.map(|kind| (kind.api_version.clone(), kind.kind.clone())).collect()
}

fn owner(controller: Option<&Controller>, binding_uid: &str) -> Owner {
    match controller {
        None => Owner::Nobody,
        Some(controller) if *controller.uid == *binding_uid => Owner::ThisBinding,
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
        held_by: held_by(metadata).map(String::from),
        witness: None,
        excess: None,
        is_locked: false,
        changed_by: fields::changed_last_by(metadata),
        changed_field: None,
        gives_more: false,
        taken_fields: fields::taken_over(metadata),
        other_owners: json!(others.collect::<Vec<_>>()),
    }
}

pub(crate) fn described_namespace(namespace: &v1::Namespace, relabelled: bool, system: bool) -> Namespace {
    Namespace {
        name: namespace.name_any(),
        uid: namespace.uid().unwrap_or_default(),
        terminating: is_deleting(namespace.meta()),
        unlabelled: !namespace.labels().contains_key(CLASS_LABEL),
        relabelled,
        system,
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
        status: objects::status(binding.status.as_ref()),
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

/// A stamped object, and whether its class leaves it behind.
pub(crate) fn stamped_entry(entry: Entry, orphan: bool, binding_uid: &str) -> Stamped {
    Stamped {
        api_version: entry.api_version.to_string(),
        owner: owner(entry.controller.as_ref(), binding_uid),
        orphan,
        version: entry.version.into(),
        uid: entry.uid,
        class: entry.class.to_string(),
        content: entry.content,
        deleting: entry.deleting,
        held_by: entry.held_by.map(String::from),
        created: entry.created,
    }
}
