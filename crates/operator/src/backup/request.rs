//! What the three reconcilers of this part have in common: reading a request and telling about it.

use std::time::Duration;

use croft_api::velero::{RESTORE_NAME_LABEL, Restore};
use croft_core::{
    backup::{
        Enforced, Fields, Handed, Hosts, Limits, Object, OnDelete, Policy, Transfers, Tried, Victim,
        approval::OwnBuckets, queue_position,
    },
    conditions::Conditions,
    plan::{Failure, FailureClass},
    time::Timestamp,
    watching::Standing,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Caches,
    fences::UNFINISHED_LABEL,
    marks::Tags,
    queue::{Queue, Queued},
};
use crate::{
    conditions,
    engine::{
        Report, Target, Writer, Written, is_deleting, timestamp,
        write::{FIELD_MANAGER, Object as Kind, call, gone_is_done, resource_name, written},
    },
    objects::{self, has_finalizer},
    settings::{self, SharedSettings},
};

/// The settings as the core reads them. Velero's namespace is the one that is watched, until the next start.
pub(super) fn policy(caches: &Caches, shared: &SharedSettings) -> Policy {
    let shared = shared.load();
    let settings = &shared.backup;
    let classes = caches.classes.all();
    let mut policy = Policy {
        velero_namespace: caches.velero_namespace.clone(),
        on_delete: match settings.on_delete {
            settings::OnDelete::Hold => OnDelete::Hold,
            settings::OnDelete::Release => OnDelete::Release,
        },
        enforced: Enforced {
            backup: settings.enforce_backup_spec.clone(),
            restore: settings.enforce_restore_spec.clone(),
            location: settings.enforce_bsl_spec.clone(),
        },
        providers: settings.providers.clone(),
        hosts: Hosts {
            classes: classes.iter().map(|class| class.spec.endpoint.clone()).collect(),
            listed: settings.hosts.clone(),
        },
        restorable: settings.restorable_kinds.clone(),
        no_hooks: !settings.hooks,
        no_default_location: settings.default_location == settings::DefaultLocation::Deny,
        own_buckets: match settings.own_buckets {
            settings::OwnBuckets::Approve => OwnBuckets::Approve,
            settings::OwnBuckets::Allow => OwnBuckets::Allow,
            settings::OwnBuckets::Deny => OwnBuckets::Deny,
        },
        limits: Limits {
            backups: settings.limits.unfinished_backups,
            restores: settings.limits.unfinished_restores,
            locations: settings.limits.locations,
            schedules: settings.limits.schedules,
        },
        mistake: None,
    };
    caches.applications_say(&mut policy);
    policy
}

/// On a namespace of which Velero backs up nothing.
const EXCLUDE_LABEL: &str = "velero.io/exclude-from-backup";

/// Whether Velero passes the namespace over.
pub(super) fn is_excluded(namespace: &Namespace) -> bool {
    namespace.labels().get(EXCLUDE_LABEL).is_some_and(|value| value == "true")
}

impl Caches {
    fn is_excluded(&self, namespace: &str) -> bool {
        self.namespaces.get("", namespace).is_some_and(|namespace| is_excluded(&namespace))
    }

    fn applications_say(&self, policy: &mut Policy) {
        let is_hidden = matches!(&*self.applications_stand.borrow(), Standing::Forbidden | Standing::Failing(_));
        let all = self.applications.all();
        let said = all.iter().map(|application| application.spec.non_admin.as_ref().map(|said| &said.0));
        policy.heed_applications(said, !is_hidden && !self.applications.has_unreadable_in(&self.velero_namespace));
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
        namespace_is_excluded: caches.is_excluded(&namespace),
        velero: caches.velero_presence(),
        is_brought_back: request.labels().contains_key(RESTORE_NAME_LABEL),
        ahead: 0,
        tried: tried(request),
        namespace,
    }
}

/// On a request that is handed over to Velero: its UID, which a copy of it does not have, and when that was begun.
pub(super) const TRIED_ANNOTATION: &str = "croft.dev/handed-over";

/// When it was noted that it is handed over, unless that was of another.
pub(super) fn tried<K: Kind>(request: &K) -> Option<Tried> {
    let (uid, at) = request.annotations().get(TRIED_ANNOTATION)?.split_once('/')?;
    let at = Timestamp(at.to_owned());
    let ago = since(&at).filter(|_| request.uid().as_deref() == Some(uid))?;
    Some(Tried { at, ago })
}

/// Holds the request exactly as it was seen, and notes on it that it is handed over next.
pub(super) async fn hold<K: Kind>(writer: &Writer, request: &K, finalizer: &str) -> Result<Written, Failure> {
    let uid = request.uid().unwrap_or_default();
    let mut finalizers = request.finalizers().to_vec();
    if !has_finalizer(request.meta(), finalizer) {
        finalizers.push(finalizer.to_owned());
    }
    let note = format!("{uid}/{}", timestamp());
    let patch = json!({ "metadata": { "finalizers": finalizers, "annotations": { TRIED_ANNOTATION: note } } });
    let version = request.resource_version();
    writer.merge::<K>(objects::target(request.meta()), version.as_deref(), patch).await
}

/// A Velero Restore that Velero does not get done with, as it was seen.
pub(super) async fn end(writer: &Writer, target: Target<'_>, version: &str) -> Result<Written, Failure> {
    let status = json!({ "phase": "PartiallyFailed", "completionTimestamp": timestamp(),
                         "failureReason": "Velero did not get done with it" });
    writer.merge::<Restore>(target, Some(version), json!({ "status": status })).await
}

/// From now on the API server does not judge by this Velero Restore any more.
pub(super) async fn count_as_finished(writer: &Writer, target: Target<'_>) -> Result<Written, Failure> {
    let patch = json!({ "metadata": { "labels": { UNFINISHED_LABEL: null } } });
    gone_is_done(writer.merge::<Restore>(target, None, patch).await)
}

/// On a Velero Backup or Restore: fingerprint of the spec it was made for.
pub(super) const MADE_FOR_ANNOTATION: &str = "croft.dev/made-for";

/// Metadata of a Velero object that also tells which spec it was made for.
pub(super) fn made_for(mut metadata: ObjectMeta, fingerprint: &str) -> ObjectMeta {
    metadata.annotations.get_or_insert_default().insert(MADE_FOR_ANNOTATION.into(), fingerprint.to_owned());
    metadata
}

/// A Velero Backup or Restore as the core reads it.
pub(super) fn handed<K: Queued>(object: &K, tags: Tags, spec: &Fields, queue: &Queue, transfers: Transfers) -> Handed {
    let status = object.status().cloned().unwrap_or_default();
    Handed {
        uid: object.uid().unwrap_or_default(),
        version: object.resource_version().unwrap_or_default(),
        marks: tags.marks(object.meta()),
        made_for: object.annotations().get(MADE_FOR_ANNOTATION).cloned(),
        spec: spec.clone(),
        position: queue_position::told(&status, queue.position(object)),
        status,
        is_deleting: is_deleting(object.meta()),
        transfers,
    }
}

pub(super) fn time(time: Option<&Time>) -> Timestamp {
    Timestamp(time.map(|time| time.0.to_string()).unwrap_or_default())
}

/// Nothing is left once it is past.
pub(super) fn left_until(time: jiff::Timestamp) -> Duration {
    Duration::try_from(time.duration_since(jiff::Timestamp::now())).unwrap_or_default()
}

/// No time at all if it is to come.
pub(super) fn passed_since(time: jiff::Timestamp) -> Duration {
    Duration::try_from(jiff::Timestamp::now().duration_since(time)).unwrap_or_default()
}

/// How long ago it was; nothing if it is no time, and no time at all if it is to come.
pub(super) fn since(time: &Timestamp) -> Option<Duration> {
    let time: jiff::Timestamp = time.0.parse().ok()?;
    Some(passed_since(time))
}

/// How long ago it was made.
pub(super) fn age(object: &impl Resource) -> Duration {
    let created = object.meta().creation_timestamp.as_ref();
    created.map(|created| passed_since(created.0)).unwrap_or_default()
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
    replaced(api, target, fields).await.map(|(written, _)| written)
}

/// The same, with the object as it is stored since.
pub(super) async fn replaced<K: Kind>(
    api: Api<K>,
    target: Target<'_>,
    fields: impl IntoIterator<Item = (&'static str, Value)>,
) -> Result<(Written, K), Failure> {
    let guard = json!({ "op": "test", "path": "/metadata/uid", "value": target.uid });
    let changes = fields.into_iter().map(|(path, value)| json!({ "op": "add", "path": path, "value": value }));
    let patch: Value = std::iter::once(guard).chain(changes).collect();
    let patch = serde_json::from_value(patch)
        .map_err(|error| Failure::new(FailureClass::Rejected, "InvalidObject", error.to_string()))?;
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    let made = call("patch", api.patch(target.name, &params, &Patch::<Value>::Json(patch))).await?;
    Ok((written(&made, &resource_name::<K>()), made))
}

/// Deletes an object in a namespace, if it still is the one that was seen.
pub(super) async fn delete<K: Kind>(writer: &Writer, namespace: &str, victim: &Victim) -> Result<Written, Failure> {
    writer.delete::<K>(Target { namespace, name: &victim.name, uid: &victim.uid }, None).await
}

/// As [`delete`], in Velero's namespace: nobody's namespace is held up because we are not let near that one.
pub(super) async fn remove<K: Kind>(
    writer: &Writer,
    caches: &Caches,
    object: &Object,
    victim: &Victim,
    version: Option<&str>,
) -> Result<Written, Failure> {
    let target = Target { namespace: &caches.velero_namespace, name: &victim.name, uid: &victim.uid };
    match writer.delete::<K>(target, version).await {
        Err(failure) if object.leaves_behind(&failure) => Ok(Written::elsewhere()),
        result => result,
    }
}
