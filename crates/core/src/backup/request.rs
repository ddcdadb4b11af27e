//! What the three kinds of request share.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Policy, names, ownership::Origin, velero::Fields};
use crate::{
    plan::{Failure, FailureClass},
    time::Timestamp,
};

/// Where a request stands. The order is the order of life: a request never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Phase {
    New,
    BackingOff,
    Created,
    Deleting,
}

impl Phase {
    /// `to`, unless the request is already further.
    pub fn forward(now: Option<Phase>, to: Phase) -> Phase {
        now.map_or(to, |now| now.max(to))
    }

    /// Where a request stands once nothing speaks against it: what was refused begins anew.
    pub(super) fn accepted(self) -> Phase {
        if self == Phase::BackingOff { Phase::New } else { self }
    }
}

/// Whether Velero can be worked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Presence {
    #[default]
    Here,
    /// Its namespace or its kinds are not there, and so nothing of it is.
    Gone,
    /// We are not let near it: what is known of its objects may be anything.
    Hidden,
}

/// The request itself, as far as every kind needs it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    /// Ours, not just any.
    pub has_finalizer: bool,
    pub is_deleting: bool,
    /// Its namespace is being deleted: nothing may hold that up.
    pub namespace_is_terminating: bool,
    /// It is labelled as one of which Velero backs up nothing.
    pub namespace_is_excluded: bool,
    pub velero: Presence,
    /// It came out of a backup: it carries the mark of a Velero Restore.
    pub is_brought_back: bool,
    /// Others of its kind in the namespace that count before it where so many and no more may; see [`super::Limits`].
    pub ahead: u64,
    /// When it was last noted on it that it is handed over to Velero next.
    pub tried: Option<Tried>,
}

/// A try to hand a request over to Velero, noted before it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    pub at: Timestamp,
    pub ago: Duration,
}

impl Object {
    pub(super) fn velero_is_away(&self) -> bool {
        self.velero != Presence::Here
    }

    /// Velero is away, and nobody waits for it: nothing of it is left, or the namespace goes.
    pub(super) fn needs_no_velero(&self) -> bool {
        self.velero == Presence::Gone || self.namespace_is_terminating
    }

    /// Whether a call to Velero's namespace that failed may be left at that: we are not let near it, and the namespace goes.
    pub fn leaves_behind(&self, failure: &Failure) -> bool {
        self.namespace_is_terminating && failure.class == FailureClass::Forbidden
    }

    /// The identity of what is made for this request. A name on record stays: it may have been chosen elsewhere.
    pub fn origin(&self, recorded: Option<&Reference>) -> Origin {
        let recorded = recorded.and_then(|reference| reference.nacuuid.clone()).filter(|nacuuid| !nacuuid.is_empty());
        Origin {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            nacuuid: recorded.unwrap_or_else(|| names::nacuuid(&self.namespace, &self.name, &self.uid)),
        }
    }
}

/// A part of a request's status: the Velero object that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reference {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nacuuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Of exactly this object, once it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Fields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Fields>,
}

impl Reference {
    /// Points at the object of `origin` in Velero's namespace; what was copied from it is kept.
    pub(super) fn record(&mut self, origin: &Origin, policy: &Policy) {
        self.nacuuid = Some(origin.nacuuid.clone());
        self.name = Some(origin.nacuuid.clone());
        self.namespace = Some(policy.velero_namespace.clone());
    }

    pub(super) fn is_recorded(reference: Option<&Reference>) -> bool {
        reference.is_some_and(|reference| reference.nacuuid.as_ref().is_some_and(|nacuuid| !nacuuid.is_empty()))
    }
}

/// A part of a request's status: its place in Velero's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueInfo {
    pub estimated_queue_position: u64,
}

/// An object to be deleted: exactly this one, not another of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub name: String,
    pub uid: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_never_goes_back() {
        assert_eq!(Phase::forward(None, Phase::New), Phase::New);
        assert_eq!(Phase::forward(Some(Phase::BackingOff), Phase::New), Phase::BackingOff);
        assert_eq!(Phase::forward(Some(Phase::BackingOff), Phase::Created), Phase::Created);
        assert_eq!(Phase::forward(Some(Phase::Created), Phase::BackingOff), Phase::Created);
        assert_eq!(Phase::forward(Some(Phase::Deleting), Phase::Created), Phase::Deleting);
    }
}
