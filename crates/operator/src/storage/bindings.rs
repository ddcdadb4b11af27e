//! What a NamespaceClass stamped: observes for [`croft_core::storage::Stamp`].

use std::sync::Arc;

use croft_api::namespaces::{AppliedResource, AppliedState, NamespaceClassBinding};
use croft_core::{
    plan::Failure,
    storage::{BindingSeen, Stamp},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, Resource, ResourceExt};

use crate::engine::{Cache, is_deleting, write::read};

#[derive(Clone, Debug)]
pub(super) struct Bindings(pub(super) Arc<Cache<NamespaceClassBinding>>);

impl Bindings {
    /// Told if a binding controls the object. Whoever goes may be seen to go before his binding: then the API server itself is
    /// asked.
    pub(super) async fn stamp<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        client: &Client,
    ) -> Result<Option<Stamp>, Failure> {
        let Some(owner) = stamped_by(object) else { return Ok(None) };
        let namespace = object.namespace().unwrap_or_default();
        let is_the_one = |binding: &NamespaceClassBinding| binding.uid().as_ref() == Some(&owner.uid);
        let seen = |binding: &NamespaceClassBinding| is_the_one(binding).then(|| binding_seen(binding, object));
        let cached = Stamp(self.0.get(&namespace, &owner.name).and_then(|binding| seen(&binding)));
        if !is_deleting(object.meta()) || cached.is_withdrawn() {
            return Ok(Some(cached));
        }
        let api: Api<NamespaceClassBinding> = Api::namespaced(client.clone(), &namespace);
        let live = read(api.get_opt(&owner.name)).await?;
        Ok(Some(Stamp(live.and_then(|binding| seen(&binding)))))
    }
}

/// The binding that has an object stamped.
pub(super) fn stamped_by<K: Resource>(object: &K) -> Option<&OwnerReference> {
    let kind = NamespaceClassBinding::kind(&());
    object.owner_references().iter().find(|owner| owner.controller == Some(true) && owner.kind == kind)
}

fn binding_seen<K: Resource<DynamicType = ()>>(binding: &NamespaceClassBinding, object: &K) -> BindingSeen {
    let uid = object.meta().uid.as_ref();
    let is_it = |entry: &&AppliedResource| {
        entry.name == object.name_any() && (entry.uid.is_none() || entry.uid.as_ref() == uid)
    };
    BindingSeen {
        deleting: is_deleting(&binding.metadata),
        keeps: inventory::<K>(binding).filter(is_it).any(|entry| entry.state != AppliedState::Pruning),
    }
}

/// What a binding says of its objects of one kind.
pub(super) fn inventory<K: Resource<DynamicType = ()>>(
    binding: &NamespaceClassBinding,
) -> impl Iterator<Item = &AppliedResource> {
    let applied = binding.status.iter().flat_map(|status| &status.applied_resources);
    applied.filter(|entry| entry.kind == K::kind(&()))
}
