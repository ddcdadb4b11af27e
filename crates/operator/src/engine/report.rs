//! What leaves a reconcile besides its steps.

use croft_core::plan::Next;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{ResourceExt, api::ApiResource};
use serde::Serialize;
use serde_json::Value;

use super::{
    events::{Note, about},
    write::{Object, Target, resource_name},
};

/// A whole status, and the one object it is written on.
#[derive(Clone, Debug)]
pub struct NewStatus {
    pub(super) resource: ApiResource,
    /// The watch that shows it.
    pub(super) stream: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// It holds only for the object at this version.
    pub(super) version: Option<String>,
    pub(super) value: Value,
}

impl NewStatus {
    pub fn of<K: Object>(object: &K, value: Value) -> Self {
        let (namespace, name, uid) =
            (object.namespace().unwrap_or_default(), object.name_any(), object.uid().unwrap_or_default());
        Self::at::<K>(Target { namespace: &namespace, name: &name, uid: &uid }, value)
    }

    pub fn at<K: Object>(target: Target<'_>, value: Value) -> Self {
        Self {
            resource: ApiResource::erase::<K>(&()),
            stream: resource_name::<K>(),
            namespace: target.namespace.to_owned(),
            name: target.name.to_owned(),
            uid: target.uid.to_owned(),
            version: None,
            value,
        }
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Not to be written once anybody has changed the object, its status included.
    #[must_use]
    pub fn only_at(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }
}

/// What to tell, and when to look again.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Only if it differs from the observed one.
    pub status: Option<NewStatus>,
    /// Events, only on a change of reason.
    pub events: Vec<Note>,
    /// What the events are about.
    pub about: Option<ObjectReference>,
    pub next: Next,
    /// Something is wrong that is not a failed step: try again with backoff.
    pub retry: bool,
}

impl Report {
    /// About one object: its status, if it is new, and what to say in Events.
    pub fn on<K: Object>(object: &K, status: Option<&impl Serialize>, events: Vec<Note>) -> Self {
        let status = status.and_then(|status| serde_json::to_value(status).ok());
        Self {
            status: status.map(|status| NewStatus::of(object, status)),
            events,
            about: Some(about(object)),
            ..Self::default()
        }
    }

    /// With a status that holds only for the object at this version.
    #[must_use]
    pub fn only_at(self, version: &str) -> Self {
        Self { status: self.status.map(|status| status.only_at(version)), ..self }
    }
}
