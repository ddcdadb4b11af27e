//! What every reconciler needs of a typed object: which one it is, and its status in the core's words.

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::api::ObjectMeta;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::engine::Target;

/// Exactly this object, for a write that may touch no other.
pub fn target(metadata: &ObjectMeta) -> Target<'_> {
    fn text(text: Option<&String>) -> &str {
        text.map(String::as_str).unwrap_or_default()
    }
    let ObjectMeta { namespace, name, uid, .. } = metadata;
    Target { namespace: text(namespace.as_ref()), name: text(name.as_ref()), uid: text(uid.as_ref()) }
}

/// A Secret the operator keeps for itself.
pub fn own_secret(namespace: &str, name: &str, data: impl IntoIterator<Item = (&'static str, ByteString)>) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([("app.kubernetes.io/managed-by".to_owned(), "croft".to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ..Secret::default()
    }
}

/// An object as it was seen, in the core's words.
pub fn seen(metadata: &ObjectMeta) -> croft_core::storage::Target {
    croft_core::storage::Target {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// What controls the object.
pub fn controlling(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// UID of what controls the object.
pub fn controller(metadata: &ObjectMeta) -> Option<String> {
    controlling(metadata).map(|owner| owner.uid.clone())
}

pub fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata.finalizers.iter().flatten().any(|other| other == finalizer)
}

/// A status of the API as the core reads it: both have the shape of the CRD. What cannot be read was not written by us and is
/// written anew.
pub fn status<S: DeserializeOwned + Default>(status: Option<&impl Serialize>) -> S {
    // By way of text: that is half the work of a tree of values, and done at every look.
    let text = status.and_then(|status| serde_json::to_vec(status).ok());
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// A status of the core over the one the API has: what the core does not know of stays, what it has as `null` goes.
pub fn status_over(old: Option<&impl Serialize>, new: &impl Serialize) -> Option<Value> {
    let mut status = old.and_then(|old| serde_json::to_value(old).ok()).unwrap_or_default();
    let new = serde_json::to_value(new).ok()?;
    if !status.is_object() {
        status = Value::Object(serde_json::Map::new());
    }
    let fields = status.as_object_mut()?;
    fields.extend(new.as_object()?.clone());
    fields.retain(|_, value| !value.is_null());
    Some(status)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_exactly_one_object() {
        let metadata: ObjectMeta =
            serde_json::from_value(json!({ "namespace": "shop", "name": "nightly", "uid": "u" })).unwrap();
        let Target { namespace, name, uid } = target(&metadata);
        assert_eq!((namespace, name, uid), ("shop", "nightly", "u"));
        assert_eq!(target(&ObjectMeta::default()).uid, "");
    }

    #[test]
    fn only_our_finalizer_counts() {
        let metadata = ObjectMeta { finalizers: Some(vec!["theirs".into()]), ..ObjectMeta::default() };
        assert!(has_finalizer(&metadata, "theirs") && !has_finalizer(&metadata, "ours"));
    }

    #[test]
    fn a_status_that_cannot_be_read_is_written_anew() {
        assert_eq!(status::<Vec<u8>>(Some(&json!([1, 2]))), [1, 2]);
        assert_eq!(status::<Vec<u8>>(Some(&json!("nonsense"))), [0; 0]);
        assert_eq!(status::<Vec<u8>>(None::<&Value>), [0; 0]);
    }

    #[test]
    fn what_the_core_does_not_know_of_stays_and_what_is_over_goes() {
        let old = json!({ "policy": "theirs", "reason": "it was empty", "created": false });
        let new = json!({ "reason": null, "created": true });
        assert_eq!(status_over(Some(&old), &new), Some(json!({ "policy": "theirs", "created": true })));
        assert_eq!(status_over(None::<&Value>, &new), Some(json!({ "created": true })));
    }
}
