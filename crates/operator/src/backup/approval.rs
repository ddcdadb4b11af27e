//! `NonAdminBackupStorageLocationRequest`: observes for [`croft_core::backup::approval`] and carries out its steps.

use croft_api::{
    backup::{
        APPROVING_MEANS_ANNOTATION, AWAITS_CHANGE_ANNOTATION, ApprovalDecision, NABSL_FINALIZER,
        NonAdminBackupStorageLocation, NonAdminBackupStorageLocationRequest, NonAdminBackupStorageLocationRequestSpec,
        validate,
    },
    velero::BackupStorageLocationSpec,
};
use croft_core::{
    backup::{
        Policy, Presence,
        approval::{self, Before, Decision, Location, Observed, Request, Standing, Step},
        location,
        ownership::Origin,
    },
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
};
use kube::ResourceExt;
use serde_json::json;

use super::{APPROVAL, Caches, LOCATION, key, marks, request, vaults::velero_name};
use crate::{
    engine::{Change, Key, NewStatus, Reconciler, Report, Target, Work, Writer, Written, is_deleting},
    objects,
    settings::SharedSettings,
};

/// Index: the location a request says it is of -> requests.
const OF_LOCATION: &str = "location";

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
        let (policy, spec) = (request::policy(self, settings), &location.spec.backup_storage_location_spec.0.0);
        if self.is_request_unreadable(&origin) {
            return approval::standing_unknown(policy.own_buckets);
        }
        let request = self.requests.get(&self.velero_namespace, &origin.nacuuid).map(|request| request_seen(&request));
        let request = request.filter(|request| origin.owns(&request.marks));
        approval::standing(policy.own_buckets, spec, self.before(location, &origin, &policy), request.as_ref())
    }

    /// What was approved of a location, by its request.
    pub(super) fn approved_spec(&self, location: &NonAdminBackupStorageLocation) -> Option<BackupStorageLocationSpec> {
        let request = self.requests.get(&self.velero_namespace, velero_name(location)?)?;
        request.status.as_ref()?.non_admin_backup_storage_location.as_ref()?.approved_spec.clone()
    }

    /// Whatever its last readable form says, somebody may have decided otherwise since.
    fn is_request_unreadable(&self, origin: &Origin) -> bool {
        let (namespace, name) = (&self.velero_namespace, &origin.nacuuid);
        self.requests.exists(namespace, name) && self.requests.as_stored(namespace, name).is_none()
    }

    /// What Velero had of it before anybody could be asked.
    fn before(&self, location: &NonAdminBackupStorageLocation, origin: &Origin, policy: &Policy) -> Before {
        let status: location::Status = objects::status(location.status.as_ref());
        let velero = self.velero_locations.get(&self.velero_namespace, &origin.nacuuid);
        let velero = velero.filter(|velero| origin.owns(&marks::LOCATION.marks(&velero.metadata)));
        let velero = velero.filter(|_| status.was_never_asked_for());
        let wanted = validate::location(location, policy).ok();
        Before::of(velero.as_ref().map(|velero| &velero.spec.0.0), wanted.as_ref(), &origin.nacuuid)
    }

    fn origin_of(&self, location: &NonAdminBackupStorageLocation) -> Origin {
        let status: location::Status = objects::status(location.status.as_ref());
        let object = request::object(self, location, NABSL_FINALIZER);
        object.origin(status.velero_backup_storage_location.as_ref())
    }

    /// A request is looked at when its location or somebody changes it; and its location when the request has changed.
    pub(super) fn wake_approvals(&self) {
        self.requests.index(OF_LOCATION, |request: &NonAdminBackupStorageLocationRequest| {
            location_of(request).map(|key| place(&key.namespace, &key.name)).into_iter().collect()
        });
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

/// The location a request says it is of.
fn location_of(request: &NonAdminBackupStorageLocationRequest) -> Option<Key> {
    marks::LOCATION.request(APPROVAL, &request.metadata)
}

/// What a location of that name is found under.
fn place(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl ApprovalReconciler {
    /// Requests of a location of that name but for the one called `own`: each is of one that is gone.
    fn of_others(&self, key: &Key, own: Option<&str>) -> Vec<(Origin, Request)> {
        let requests = self.caches.requests.by(OF_LOCATION, &place(&key.namespace, &key.name));
        let others = requests.iter().filter(|request| Some(request.name_any().as_str()) != own);
        others
            .map(|request| {
                let (namespace, name) = (key.namespace.clone(), key.name.clone());
                (Origin { namespace, name, nacuuid: request.name_any() }, request_seen(request))
            })
            .collect()
    }

    fn location(&self, location: &NonAdminBackupStorageLocation, policy: &Policy) -> Option<Location> {
        let recorded = location.status.as_ref().and_then(|status| status.velero_backup_storage_location.as_ref());
        let is_recorded = recorded.is_some_and(|velero| velero.nacuuid.is_some());
        (!is_deleting(&location.metadata)).then(|| Location {
            spec: location.spec.backup_storage_location_spec.0.0.clone(),
            is_acceptable: is_recorded && validate::location(location, policy).is_ok(),
            is_vaults: self.caches.vault_of(location).is_some(),
            was: self.caches.before(location, &self.caches.origin_of(location), policy),
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
        let requests = self.caches.requests.all();
        let left = requests.iter().filter_map(|request| location_of(request));
        let left = left.filter(|key| !self.caches.locations.exists(&key.namespace, &key.name));
        locations.iter().map(|location| key(APPROVAL, &**location)).chain(left).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Observed>, Failure> {
        // Requests live beside Velero, and go with it.
        if self.caches.velero_presence() != Presence::Here {
            return Ok(None);
        }
        let location = self.caches.locations.as_stored(&key.namespace, &key.name);
        if location.is_none() && self.caches.locations.exists(&key.namespace, &key.name) {
            // What it asks for nobody can tell, and what was decided about it stays.
            return Ok(None);
        }
        let origin = location.as_ref().map(|location| self.caches.origin_of(location));
        if origin.as_ref().is_some_and(|origin| self.caches.is_request_unreadable(origin)) {
            return Ok(None);
        }
        let request = |origin: &Origin| self.caches.requests.get(&self.caches.velero_namespace, &origin.nacuuid);
        let policy = request::policy(&self.caches, &self.settings);
        Ok(Some(Observed {
            request: origin.as_ref().and_then(request).map(|request| request_seen(&request)),
            of_others: self.of_others(key, origin.as_ref().map(|origin| origin.nacuuid.as_str())),
            origin,
            location: location.and_then(|location| self.location(&location, &policy)),
            policy: policy.own_buckets,
            policy_is_clear: policy.is_clear().is_ok(),
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
            Step::DeleteRequest { request, version } => {
                let target = target(request.name.as_str(), request.uid.as_str());
                self.writer.delete::<NonAdminBackupStorageLocationRequest>(target, version.as_deref()).await
            }
        }
    }

    fn report(&self, _: &Observed, _: &[(&Step, Outcome)], _: &Timestamp) -> Report {
        Report::default()
    }
}
