//! The witness of drift is the content of an object, as the API server answered our own write.
//!
//! Who may update an object may write anything into its managedFields, so they tell nothing about it. Two digests do:
//! - `content`, of all there is but `status` and what the server keeps in metadata. The watch tells it without a read; as long as
//!   it is the one on record nothing has happened, also after a restart;
//! - `fields`, of what the class sets. Where the content is another one, a read tells by it whether that concerns us, whatever
//!   the API server made of the values when it stored them. How much that is, [`Care`] says.
//!
//! Whoever may read bindings may not guess at Secrets by their digests: those are keyed.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    excess::owned,
    manifest::{Rendered, canonical, long, short, write_canonical, write_list, write_object},
};

/// What the API server keeps in metadata, or what says nothing about what an object is.
const KEPT_BY_SERVER: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The key under which Secrets are digested.
#[derive(Clone)]
pub struct Seal([u8; 32]);

impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Seal")
    }
}

impl Seal {
    pub fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Of a text about an object of which `object` tells the kind.
    fn hash(&self, object: &Value, text: &[u8]) -> Vec<u8> {
        if is_secret(object) { self.keyed(text) } else { Sha256::digest(text).to_vec() }
    }

    fn keyed(&self, text: &[u8]) -> Vec<u8> {
        // A key of any length will do, so this cannot fail.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return Vec::new() };
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    }

    /// An object ready to be applied, its digests keyed where they must be.
    #[must_use]
    pub fn sealed(&self, rendered: Rendered) -> Rendered {
        if !is_secret(&rendered.manifest) {
            return rendered;
        }
        let keyed = |value: &Value| short(&self.keyed(&canonical(value)));
        let (digest, shape) = (keyed(&rendered.manifest), keyed(&rendered.shape.as_str().into()));
        Rendered { digest, shape, ..rendered }
    }
}

fn is_secret(object: &Value) -> bool {
    is_of_core(object, "Secret")
}

fn is_of_core(object: &Value, kind: &str) -> bool {
    let says = |field: &str, value: &str| object.get(field).and_then(Value::as_str) == Some(value);
    says("kind", kind) && says("apiVersion", "v1")
}

/// What a live object shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// Digest of the values at the places a manifest sets.
    pub fields: String,
    /// Digest of everything but what the server keeps; the object's `apiVersion` is part of it.
    pub content: String,
    /// Something is left in it that the class has dropped.
    pub rest: bool,
}

/// Ends the text of a witness of an object in which something is left.
const REST: char = '+';

impl Witness {
    /// What `object` shows of `manifest`.
    pub fn of(object: &Value, manifest: &Value, seal: &Seal, care: Care) -> Self {
        let mut shown = Vec::new();
        match care {
            Care::Places => write_shown(object, manifest, &mut shown),
            Care::Parts => write_parts(object, manifest, &mut shown),
            Care::Exact => write_canonical(&owned(object, manifest), &mut shown),
        }
        Self { fields: short(&seal.hash(object, &shown)), content: content(object, seal), rest: false }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (text, rest) = text.strip_suffix(REST).map_or((text, false), |text| (text, true));
        let (fields, content) = text.split_once('.')?;
        (!content.contains('.')).then(|| Self { fields: fields.to_owned(), content: content.to_owned(), rest })
    }
}

/// How much of an object counts as set by a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Care {
    /// Every part of the object that the manifest touches, whole: only the API server knows which maps and lists are of one
    /// piece, such as a selector. What others added to one that is not costs an apply that changes nothing.
    #[default]
    Parts,
    /// The places the manifest sets and no other: where drift is only reported, additions of others are not worth a word.
    Places,
    /// Everything in what the manifest touches, but for what it says is left to others.
    Exact,
}

impl fmt::Display for Witness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.fields, self.content)?;
        if self.rest { write!(out, "{REST}") } else { Ok(()) }
    }
}

/// Digest of everything in an object but what the server keeps. Whoever may write the object may choose what is in it, so it is
/// long: nobody shall find two forms of an object that look the same.
pub fn content(object: &Value, seal: &Seal) -> String {
    let mut text = Vec::new();
    match object {
        Value::Object(all) => {
            let kept = all.iter().filter(|(name, _)| *name != "status");
            write_object(kept.map(|(name, value)| (name, (name, value))), &mut text, |(name, value), out| {
                match (name.as_str(), value) {
                    ("metadata", Value::Object(metadata)) => {
                        let kept = metadata.iter().filter(|(name, _)| !KEPT_BY_SERVER.contains(&name.as_str()));
                        write_object(kept, out, write_canonical);
                    }
                    _ => write_canonical(value, out),
                }
            });
        }
        other => write_canonical(other, &mut text),
    }
    long(&seal.hash(object, &text))
}

/// The parts of `live` that `manifest` touches; of what is known to be shared, metadata and plain data, the places it sets.
fn write_parts(live: &Value, manifest: &Value, out: &mut Vec<u8>) {
    let is_plain = ["ConfigMap", "Secret"].iter().any(|kind| is_of_core(live, kind));
    let is_shared = |key: &str| key == "metadata" || (is_plain && matches!(key, "data" | "binaryData"));
    let (Value::Object(live), Value::Object(manifest)) = (live, manifest) else { return write_canonical(live, out) };
    let touched = manifest.iter().map(|(key, value)| (key, (key, value)));
    write_object(touched, out, |(key, value), out| match live.get(key) {
        Some(shared) if is_shared(key) => write_shown(shared, value, out),
        other => write_canonical(other.unwrap_or(&Value::Null), out),
    });
}

/// The part of `live` at the places that `manifest` sets.
fn write_shown(live: &Value, manifest: &Value, out: &mut Vec<u8>) {
    match (live, manifest) {
        (Value::Object(live), Value::Object(manifest)) => {
            let set = manifest.iter().map(|(key, value)| (key, (live.get(key), value)));
            write_object(set, out, |(live, value), out| match live {
                Some(live) => write_shown(live, value, out),
                None => write_canonical(&Value::Null, out),
            });
        }
        (Value::Array(live), Value::Array(manifest)) if live.len() == manifest.len() => {
            write_list(live.iter().zip(manifest), out, |(live, value), out| write_shown(live, value, out));
        }
        _ => write_canonical(live, out),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::namespaces::manifest::digest;

    const SEAL: Seal = Seal([7; 32]);

    fn quota(cpu: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "labels": {"a": "b"}},
               "spec": {"hard": {"cpu": cpu}}})
    }

    fn with(mut object: Value, path: &str, value: Value) -> Value {
        let (parent, name) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[name] = value;
        object
    }

    #[test]
    fn what_the_server_keeps_is_no_content_and_everything_else_is() {
        let live = quota("1");
        let same = |path: &str, value: Value| content(&with(live.clone(), path, value), &SEAL) == content(&live, &SEAL);
        for name in KEPT_BY_SERVER {
            assert!(same(&format!("/metadata/{name}"), json!("other")), "{name}");
        }
        assert!(same("/status", json!({"used": {"cpu": "1"}})));
        for (path, value) in [
            ("/spec/hard/cpu", json!("2")),
            ("/spec/scopes", json!([])),
            ("/metadata/labels/a", json!("c")),
            ("/metadata/annotations", json!({"x": "y"})),
            ("/metadata/ownerReferences", json!([])),
            ("/apiVersion", json!("v2")),
        ] {
            assert!(!same(path, value), "{path}");
        }
    }

    #[test]
    fn values_are_compared_as_the_server_stored_them_and_additions_do_not_count() {
        let manifest = quota("1000m");
        let witness = |live: &Value, care| Witness::of(live, &manifest, &SEAL, care);
        let added = with(quota("1"), "/spec/scopes", json!(["BestEffort"]));
        let annotated = with(quota("1"), "/metadata/annotations", json!({"x": "y"}));
        for care in [Care::Places, Care::Parts] {
            let answered = witness(&quota("1"), care);
            assert_eq!(witness(&annotated, care).fields, answered.fields, "metadata is shared");
            assert_ne!(witness(&annotated, care).content, answered.content);
            assert_eq!(witness(&added, care).fields == answered.fields, care == Care::Places);
            for changed in [
                quota("2"),
                with(quota("1"), "/spec/hard", json!({})),
                with(quota("1"), "/metadata/labels", json!(null)),
            ] {
                assert_ne!(witness(&changed, care).fields, answered.fields);
            }
        }
    }

    #[test]
    fn what_is_added_to_a_selector_or_to_a_member_of_a_list_is_seen() {
        let policy = |selector: Value, peer: Value| {
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny"},
                   "spec": {"podSelector": selector, "ingress": [{"from": [peer]}]}})
        };
        let manifest = policy(json!({}), json!({"podSelector": {"matchLabels": {"app": "web"}}}));
        let fields = |live: &Value| Witness::of(live, &manifest, &SEAL, Care::Parts).fields;
        let narrowed =
            policy(json!({"matchLabels": {"no": "pod"}}), json!({"podSelector": {"matchLabels": {"app": "web"}}}));
        let widened =
            policy(json!({}), json!({"podSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}));
        for changed in [narrowed, widened] {
            assert_ne!(fields(&changed), fields(&manifest), "{changed}");
        }
    }

    #[test]
    fn members_of_lists_are_compared_one_by_one() {
        let list = |ports: Value| json!({"spec": {"ports": ports}});
        let fields = |live: Value| Witness::of(&list(live), &list(json!([{"port": 80}])), &SEAL, Care::Places).fields;
        let defaulted = fields(json!([{"port": 80, "protocol": "TCP"}]));
        assert_eq!(fields(json!([{"port": 80, "protocol": "TCP", "nodePort": 3}])), defaulted);
        assert_ne!(fields(json!([{"port": 81, "protocol": "TCP"}])), defaulted);
        assert_ne!(fields(json!([{"port": 80}, {"port": 81}])), defaulted);
    }

    #[test]
    fn digests_of_secrets_tell_nothing_without_the_key() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "eA=="}});
        let other = Seal::new([8; 32]);
        assert_ne!(content(&secret, &SEAL), content(&secret, &other));
        let fields = |seal: &Seal| Witness::of(&secret, &secret, seal, Care::Parts).fields;
        assert_ne!(fields(&SEAL), fields(&other));
        let rendered = Rendered { manifest: secret.clone().into(), digest: digest(&secret), ..Rendered::default() };
        let sealed = |seal: &Seal| seal.sealed(rendered.clone()).digest;
        assert!(sealed(&SEAL) != sealed(&other) && sealed(&SEAL) != rendered.digest);
        assert_eq!(content(&quota("1"), &SEAL), content(&quota("1"), &other), "others need no key");
        assert_eq!(format!("{SEAL:?}"), "Seal");
    }

    #[test]
    fn a_witness_stays_as_it_is_because_it_is_on_record() {
        let live = with(with(quota("1"), "/metadata/uid", json!("u")), "/spec/scopes", json!([{"a": 1, "b": [null]}]));
        let manifest = with(quota("1000m"), "/spec/scopes", json!([{"a": 2}]));
        let text = |care| Witness::of(&live, &manifest, &SEAL, care).to_string();
        assert_eq!(text(Care::Parts), "f909fbc1818e2909.f909fbc1818e2909d87a3d34ca207c23");
        assert_eq!(text(Care::Places), "f384418f13b6d19c.f909fbc1818e2909d87a3d34ca207c23");
    }

    #[test]
    fn a_witness_survives_being_written_and_read() {
        let witness = Witness::of(&quota("1"), &quota("1"), &SEAL, Care::Parts);
        assert_eq!(witness.content.len(), 32, "as long as it takes");
        assert_eq!(Witness::parse(&witness.to_string()), Some(witness));
        assert_eq!((Witness::parse("a"), Witness::parse("a.b.c")), (None, None));
    }
}
