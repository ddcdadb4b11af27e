//! The class as one namespace has it: while a roll-out is under way that is not what the class says now.

use std::borrow::Cow;

use croft_api::namespaces::{NamespaceClass, NamespaceClassBinding, validate};
use croft_core::namespaces::rollout::{self, digest_of};
use kube::Client;

use crate::{
    namespaces::revisions::{class_at, moved},
    steering::revisions,
};

/// The class in the form that is in force where the binding is, and what is to be said about that.
pub(super) async fn in_force<'c>(
    client: &Client,
    operator_namespace: &str,
    class: &'c NamespaceClass,
    binding: &NamespaceClassBinding,
) -> (Cow<'c, NamespaceClass>, Option<String>) {
    let status = class.status.as_ref();
    let released = status.and_then(|status| status.revision.as_deref());
    let staged_since = status.and_then(|status| status.rollout.as_ref()?.staged_since);
    let moved = moved(binding);
    let Some(digest) = rollout::in_force(released, staged_since, moved.as_ref()) else {
        return (Cow::Borrowed(class), None);
    };
    if digest_of(&validate::content(&class.spec)) == digest {
        return (Cow::Borrowed(class), None);
    }
    let kept = revisions(client, operator_namespace, class).await;
    let kept = kept.ok().and_then(|kept| kept.into_iter().find(|revision| revision.kept.digest == digest));
    let Some(revision) = kept else {
        let note = format!(
            "the namespace has an earlier revision, which cannot be read in namespace {operator_namespace}: compared with what the \
             class says now"
        );
        return (Cow::Borrowed(class), Some(note));
    };
    let note = format!("the namespace has revision {}, not what the class says now", revision.kept.number);
    (Cow::Owned(class_at(class, &revision)), Some(note))
}
