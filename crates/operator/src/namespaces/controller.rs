//! Who controls an object, by its owner references: anybody may have written them.

use std::sync::Arc;

use croft_api::namespaces::NamespaceClassBinding;
use croft_core::{conditions::cut, namespaces::manifest::group_of};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::objects::controlling;

/// No object has a longer one.
const LONGEST_UID: usize = 128;

/// Who controls an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) uid: Arc<str>,
    /// A binding of the object's namespace, this one or an earlier one.
    pub(super) is_binding: bool,
}

pub(super) fn controller_of(metadata: &ObjectMeta) -> Option<Controller> {
    let owner = controlling(metadata)?;
    let is_binding = owner.kind == NamespaceClassBinding::kind(&())
        && group_of(&owner.api_version) == NamespaceClassBinding::group(&())
        && Some(&owner.name) == metadata.namespace.as_ref();
    // Of any length, whoever writes it; one that is cut is nobody's.
    Some(Controller { uid: cut(owner.uid.clone(), LONGEST_UID).into(), is_binding })
}
