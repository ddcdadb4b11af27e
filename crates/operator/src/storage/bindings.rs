//! What a NamespaceClass stamped: observes for [`croft_core::storage::Stamp`].

use std::sync::Arc;

use croft_api::namespaces::{AppliedResource, AppliedState, NamespaceClassBinding};
use croft_core::{
    plan::Failure,
    storage::{BindingSeen, Stamp},
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, Client, Resource, ResourceExt};

use super::Caches;
use crate::engine::{Cache, Writer, is_deleting, write::read};

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

impl Caches {
    /// Whether the namespace goes in which an object is. Where that is in doubt, the API server itself is asked.
    pub(super) async fn is_terminating_with<K: Resource<DynamicType = ()>>(
        &self,
        namespace: &str,
        object: Option<&K>,
        stamp: Option<&Stamp>,
        writer: &Writer,
    ) -> Result<bool, Failure> {
        let is_terminating = self.is_terminating(namespace);
        let is_going = object.is_some_and(|object| is_deleting(object.meta()));
        if !stamp.is_some_and(|stamp| stamp.leaves_doubt(is_going, is_terminating)) {
            return Ok(is_terminating);
        }
        let live = read(Api::<Namespace>::all(writer.client()).get_opt(namespace)).await?;
        Ok(live.is_none_or(|namespace| is_deleting(&namespace.metadata)))
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
