//! What a NamespaceClass stamped: whether it is still wanted by what owns it.

use std::sync::Arc;

use croft_api::{
    namespaces::{AppliedState, NamespaceClassBinding},
    storage::S3Bucket,
};
use kube::{Resource, ResourceExt};

use crate::engine::{Cache, is_deleting};

#[derive(Clone, Debug)]
pub(super) struct Bindings(pub(super) Arc<Cache<NamespaceClassBinding>>);

impl Bindings {
    /// Whether the bucket was stamped, and its binding is gone, going, or takes it away.
    pub(super) fn no_longer_want(&self, bucket: &S3Bucket) -> bool {
        let owners = bucket.metadata.owner_references.iter().flatten();
        let kind = NamespaceClassBinding::kind(&());
        let Some(owner) = owners.into_iter().find(|owner| owner.controller == Some(true) && owner.kind == kind) else {
            return false;
        };
        let binding = self.0.get(&bucket.namespace().unwrap_or_default(), &owner.name);
        binding
            .filter(|binding| binding.uid().as_ref() == Some(&owner.uid))
            .is_none_or(|binding| is_deleting(&binding.metadata) || !wants(&binding, &bucket.name_any()))
    }
}

fn wants(binding: &NamespaceClassBinding, bucket: &str) -> bool {
    let applied = binding.status.iter().flat_map(|status| &status.applied_resources);
    applied
        .filter(|object| object.kind == S3Bucket::kind(&()) && object.name == bucket)
        .any(|object| object.state != AppliedState::Pruning)
}
