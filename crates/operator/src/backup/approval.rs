//! `NonAdminBackupStorageLocationRequest`: observes for [`croft_core::backup::approval`] and carries out its steps.

use std::sync::Arc;

use croft_api::backup::{
    APPROVING_MEANS_ANNOTATION, AWAITS_CHANGE_ANNOTATION, ApprovalDecision, NABSL_FINALIZER,
    NonAdminBackupStorageLocation, NonAdminBackupStorageLocationRequest, NonAdminBackupStorageLocationRequestSpec,
    NonAdminPhase, validate,
};
use croft_core::{
    backup::{
        Policy, Presence,
        approval::{self, Decision, Location, Observed, Request, Standing, Step},
        location,
        ownership::Origin,
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use kube::ResourceExt;
use serde_json::json;

use super::{APPROVAL, Caches, LOCATION, key, marks, request};
use crate::{
    conditions,
    engine::{Change, Key, NewStatus, Reconciler, Report, Target, Work, Writer, Written, is_deleting},
    objects,
    settings::SharedSettings,
};

#[derive(Debug)]
pub(super) struct ApprovalReconciler {
    caches: Caches,
    writer: Writer,
    settings: SharedSettings,
}

impl ApprovalReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, settings: SharedSettings) -> Self {
        Self { caches, writer, settings }
    }
}

impl Caches {
    /// How a location stands, by its request.
    pub(super) fn standing(&self, location: &NonAdminBackupStorageLocation, settings: &SharedSettings) -> Standing {
        if self.vault_of(location).is_some() {
            return Standing::Vault;
        }
        let origin = self.origin_of(location);
        let request = self.requests.get(&self.velero_namespace, &origin.nacuuid).map(|request| request_seen(&request));
        let request = request.filter(|request| origin.owns(&request.marks));
        let spec = &location.spec.backup_storage_location_spec.0.0;
        approval::standing(
            request::policy(self, settings).own_buckets,
            spec,
            is_grandfathered(location),
            request.as_ref(),
        )
    }

    fn origin_of(&self, location: &NonAdminBackupStorageLocation) -> Origin {
        let status: location::Status = objects::status(location.status.as_ref());
        let object = request::object(self, location, NABSL_FINALIZER);
        object.origin(status.velero_backup_storage_location.as_ref())
    }

    /// A request is looked at when its location or somebody changes it; and its location when the request has changed.
    pub(super) fn wake_approvals(&self) {
        self.locations.wakes(|change: Change<'_, NonAdminBackupStorageLocation>| {
            let recorded = |it: &NonAdminBackupStorageLocation| {
                let velero = it.status.as_ref().and_then(|status| status.velero_backup_storage_location.as_ref());
                (it.metadata.generation, is_deleting(&it.metadata), velero.and_then(|velero| velero.nacuuid.clone()))
            };
            let is_news = change.before.map(recorded) != change.after.map(recorded);
            is_news.then(|| key(APPROVAL, change.object())).into_iter().collect()
        });
        self.requests.wakes(|change: Change<'_, NonAdminBackupStorageLocationRequest>| {
            let metadata = &change.object().metadata;
            [APPROVAL, LOCATION].into_iter().filter_map(|work| marks::LOCATION.request(work, metadata)).collect()
        });
    }
}

/// It was in force before anybody could be asked.
fn is_grandfathered(location: &NonAdminBackupStorageLocation) -> bool {
    location.status.as_ref().is_some_and(|status| {
        let was_asked = conditions::from_api(&status.conditions).get("ClusterAdminApproved").is_some();
        status.phase == Some(NonAdminPhase::Created) && !was_asked
    })
}

fn request_seen(request: &NonAdminBackupStorageLocationRequest) -> Request {
    Request {
        uid: request.uid().unwrap_or_default(),
        version: request.resource_version().unwrap_or_default(),
        marks: marks::LOCATION.marks(&request.metadata),
        decision: match request.spec.approval_decision {
            Some(ApprovalDecision::Approve) => Decision::Approve,
            Some(ApprovalDecision::Reject) => Decision::Reject,
            Some(ApprovalDecision::Pending) | None => Decision::Pending,
        },
        awaits_change: request.annotations().contains_key(AWAITS_CHANGE_ANNOTATION),
        status: objects::status(request.status.as_ref()),
    }
}

fn decided(decision: Decision) -> ApprovalDecision {
    match decision {
        Decision::Approve => ApprovalDecision::Approve,
        Decision::Reject => ApprovalDecision::Reject,
        Decision::Pending => ApprovalDecision::Pending,
    }
}

impl ApprovalReconciler {
    /// Requests whose location is gone: they are known by their marks only.
    fn left_behind(&self) -> Vec<(Key, Arc<NonAdminBackupStorageLocationRequest>)> {
        let requests = self.caches.requests.all().into_iter();
        let marked =
            requests.filter_map(|request| Some((marks::LOCATION.request(APPROVAL, &request.metadata)?, request)));
        marked.filter(|(key, _)| !self.caches.locations.exists(&key.namespace, &key.name)).collect()
    }

    fn location(&self, location: &NonAdminBackupStorageLocation, policy: &Policy) -> Option<Location> {
        let recorded = location.status.as_ref().and_then(|status| status.velero_backup_storage_location.as_ref());
        let is_recorded = recorded.is_some_and(|velero| velero.nacuuid.is_some());
        (!is_deleting(&location.metadata)).then(|| Location {
            spec: location.spec.backup_storage_location_spec.0.0.clone(),
            is_acceptable: is_recorded && validate::location(location, policy).is_ok(),
            is_vaults: self.caches.vault_of(location).is_some(),
            is_grandfathered: is_grandfathered(location),
        })
    }
}

impl Reconciler for ApprovalReconciler {
    type Seen = Observed;
    type Step = Step;

    fn work(&self) -> Work {
        APPROVAL
    }

    fn all(&self) -> Vec<Key> {
        let locations = self.caches.locations.all();
        let left = self.left_behind().into_iter().map(|(key, _)| key);
        locations.iter().map(|location| key(APPROVAL, &**location)).chain(left).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Observed>, Failure> {
        // Requests live beside Velero, and go with it.
        if self.caches.velero_presence() != Presence::Here {
            return Ok(None);
        }
        let location = self.caches.locations.get(&key.namespace, &key.name);
        let left = || {
            let (_, request) = self.left_behind().into_iter().find(|(place, _)| place == key)?;
            Some(Origin { namespace: key.namespace.clone(), name: key.name.clone(), nacuuid: request.name_any() })
        };
        let origin = location.as_ref().map(|location| self.caches.origin_of(location));
        let Some(origin) = origin.or_else(left) else { return Ok(None) };
        let request = self.caches.requests.get(&self.caches.velero_namespace, &origin.nacuuid);
        let policy = request::policy(&self.caches, &self.settings);
        Ok(Some(Observed {
            origin,
            location: location.and_then(|location| self.location(&location, &policy)),
            policy: policy.own_buckets,
            request: request.map(|request| request_seen(&request)),
        }))
    }

    fn plan(&self, seen: &Observed, _: &Timestamp) -> Plan<Step> {
        approval::plan(seen)
    }

    async fn execute(&self, _: &Observed, step: &Step) -> Result<Written, Failure> {
        let velero = self.caches.velero_namespace.as_str();
        let target = |name, uid| Target { namespace: velero, name, uid };
        match step {
            Step::CreateRequest { origin, decision } => {
                let mut metadata = marks::LOCATION.metadata(origin, velero);
                let notes = metadata.annotations.get_or_insert_default();
                notes.insert(APPROVING_MEANS_ANNOTATION.into(), approval::APPROVING_MEANS.into());
                let spec = NonAdminBackupStorageLocationRequestSpec { approval_decision: Some(decided(*decision)) };
                self.writer.create(&NonAdminBackupStorageLocationRequest { metadata, spec, status: None }).await
            }
            Step::Decide { name, uid, version, decision, awaits_change } => {
                let mark = awaits_change.then_some("true");
                let patch = json!({
                    "metadata": { "annotations": { AWAITS_CHANGE_ANNOTATION: mark } },
                    "spec": { "approvalDecision": decided(*decision) },
                });
                let target = target(name.as_str(), uid.as_str());
                self.writer.merge::<NonAdminBackupStorageLocationRequest>(target, Some(version), patch).await
            }
            Step::WriteStatus { name, uid, version, status } => {
                let target = target(name.as_str(), uid.as_str());
                let status = NewStatus::at::<NonAdminBackupStorageLocationRequest>(target, json!(status));
                self.writer.status(&status.only_at(version)).await
            }
            Step::DeleteRequest(victim) => {
                request::delete::<NonAdminBackupStorageLocationRequest>(&self.writer, velero, victim).await
            }
        }
    }

    fn report(&self, _: &Observed, _: &[(&Step, Outcome)], _: &Timestamp) -> Report {
        Report::default()
    }
}
