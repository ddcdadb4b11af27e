//! What the three reconcilers of this part have in common: reading a request and telling about it.

use std::sync::Arc;

use croft_core::{
    backup::{Object, OnDelete, Settings, Victim},
    conditions::Conditions,
    plan::{Failure, FailureClass},
    time::Timestamp,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::Caches;
use crate::{
    conditions,
    engine::{
        Report, Target, Writer, Written, is_deleting,
        write::{FIELD_MANAGER, Object as Kind, call, read, resource_name, written},
    },
    objects::has_finalizer,
    settings::{self, SharedSettings},
};

/// The settings as the core reads them. Velero's namespace is the one that is watched, until the next start.
pub(super) fn current(caches: &Caches, shared: &SharedSettings) -> Settings {
    Settings {
        velero_namespace: caches.velero_namespace.clone(),
        on_delete: match shared.load().backup.on_delete {
            settings::OnDelete::Hold => OnDelete::Hold,
            settings::OnDelete::Release => OnDelete::Release,
        },
    }
}

/// The request as the core reads it.
pub(super) fn object<K: Kind>(caches: &Caches, request: &K, finalizer: &str) -> Object {
    let namespace = request.namespace().unwrap_or_default();
    // A namespace that is already gone holds nothing either.
    let namespace_is_terminating =
        caches.namespaces.get("", &namespace).is_none_or(|namespace| is_deleting(&namespace.metadata));
    Object {
        name: request.name_any(),
        uid: request.uid().unwrap_or_default(),
        generation: request.meta().generation.unwrap_or_default(),
        has_finalizer: has_finalizer(request.meta(), finalizer),
        is_deleting: is_deleting(request.meta()),
        namespace_is_terminating,
        namespace,
    }
}

/// The request as the API server has it, where a stale look could hand it to Velero a second time.
pub(super) async fn newest<K>(
    writer: &Writer,
    cached: Arc<K>,
    conditions: &Conditions,
) -> Result<Option<Arc<K>>, Failure>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    if conditions.is_true("Queued") || cached.finalizers().is_empty() {
        return Ok(Some(cached));
    }
    let api: Api<K> = Api::namespaced(writer.client(), &cached.namespace().unwrap_or_default());
    let live = read(api.get_opt(&cached.name_any())).await?;
    Ok(live.filter(|live| live.uid() == cached.uid()).map(Arc::new))
}

pub(super) fn time(time: Option<&Time>) -> Timestamp {
    Timestamp(time.map(|time| time.0.to_string()).unwrap_or_default())
}

/// The new status, if it is new, and an Event for every condition that changed its reason.
pub(super) fn told<K: Kind, S: Serialize + PartialEq>(
    request: &K,
    (before, conditions_before): (&S, &Conditions),
    (after, conditions_after): (&S, &Conditions),
) -> Report {
    if before == after {
        return Report::default();
    }
    Report::on(request, Some(after), conditions::news(conditions_before, conditions_after))
}

/// Replaces whole fields of exactly `target`: what was in them before is gone.
pub(super) async fn replace<K: Kind>(
    api: Api<K>,
    target: Target<'_>,
    fields: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<Written, Failure> {
    let guard = json!({ "op": "test", "path": "/metadata/uid", "value": target.uid });
    let changes = fields.into_iter().map(|(path, value)| json!({ "op": "add", "path": path, "value": value }));
    let patch: Value = std::iter::once(guard).chain(changes).collect();
    let patch = serde_json::from_value(patch)
        .map_err(|error| Failure::new(FailureClass::Rejected, "InvalidObject", error.to_string()))?;
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    let made = call("patch", api.patch(target.name, &params, &Patch::<Value>::Json(patch))).await?;
    Ok(written(&made, &resource_name::<K>()))
}

/// Deletes an object in a namespace, if it still is the one that was seen.
pub(super) async fn delete<K: Kind>(writer: &Writer, namespace: &str, victim: &Victim) -> Result<Written, Failure> {
    writer.delete::<K>(Target { namespace, name: &victim.name, uid: &victim.uid }, None).await
}
