//! S3Class -> whether its gateway can be worked with: observes for [`croft_core::storage::class`] and carries out its steps.

use std::{collections::BTreeSet, sync::Arc};

use croft_api::storage::{CLASS_FINALIZER, S3Class, validate};
use croft_core::{
    plan::{Failure, Outcome, Plan},
    storage::{
        CONFIRM_CLUSTER,
        class::{self, ClassSeen, Gateway, Observed, Step},
    },
    time::Timestamp,
};
use kube::ResourceExt;

use super::{CLASS, CLASS_INDEX, Caches, ceph::failure, claim::target};
use crate::{
    conditions,
    engine::{Key, Reconciler, Report, Work, Writer, Written, is_deleting},
    objects,
};

#[derive(Debug)]
pub(super) struct ClassReconciler {
    caches: Caches,
    writer: Writer,
}

#[derive(Debug)]
pub(super) struct Seen {
    raw: Arc<S3Class>,
    observed: Observed,
}

impl ClassReconciler {
    pub(super) fn new(caches: Caches, writer: Writer) -> Self {
        Self { caches, writer }
    }

    async fn probe(&self, class: &Arc<S3Class>) -> Result<Gateway, Failure> {
        let ceph = self.caches.gateways.reach(class).await?;
        let probe = ceph.gateway.probe().await.map_err(failure)?;
        let croft_rgw::Probe { admin, may_write, release, cluster_id } = probe;
        Ok(Gateway { admin: admin.to_string(), may_write, release, cluster_id })
    }
}

impl Reconciler for ClassReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        CLASS
    }

    fn all(&self) -> Vec<Key> {
        self.caches.classes.all().iter().map(|class| key(class)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(raw) = self.caches.classes.get("", &key.name) else { return Ok(None) };
        let class = class_seen(&raw);
        let others = self.caches.classes.all();
        let others = others.iter().filter(|other| other.name_any() != key.name);
        let is_used = |class: &S3Class| !self.caches.users.by(CLASS_INDEX, &class.name_any()).is_empty();
        let others: Vec<_> = others.map(|other| ClassSeen { is_used: is_used(other), ..class_seen(other) }).collect();
        let users = self.caches.users.by(CLASS_INDEX, &key.name);
        let users: BTreeSet<_> = users.iter().map(|user| user.name_any()).collect();
        let asks = class::asks_gateway(&class, !users.is_empty());
        let gateway = if asks { Some(self.probe(&raw).await) } else { None };
        Ok(Some(Seen { raw, observed: Observed { class, others, users, gateway } }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        class::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.raw, CLASS_FINALIZER).await,
            Step::RemoveFinalizer { .. } => self.writer.release_finalizer(&*seen.raw, CLASS_FINALIZER).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let before = &seen.observed.class.status;
        let status = class::report(&seen.observed, outcomes, now);
        let events = conditions::news(&before.conditions, &status.conditions);
        let is_new = seen.raw.status.is_none() || *before != status;
        let status = is_new.then(|| objects::status_over(seen.raw.status.as_ref(), &status)).flatten();
        Report::on(&*seen.raw, status.as_ref(), events)
    }
}

pub(super) fn key(class: &S3Class) -> Key {
    Key::cluster(CLASS, class.name_any())
}

/// A class as stored.
pub(super) fn class_seen(class: &S3Class) -> ClassSeen {
    let created = class.metadata.creation_timestamp.as_ref();
    ClassSeen {
        target: target(&class.metadata),
        created: created.map(|time| Timestamp(time.0.to_string())).unwrap_or_default(),
        generation: class.metadata.generation.unwrap_or_default(),
        deleting: is_deleting(&class.metadata),
        finalizer: objects::has_finalizer(&class.metadata, CLASS_FINALIZER),
        default: class.spec.default,
        confirmed_cluster: class.annotations().get(CONFIRM_CLUSTER).cloned(),
        is_used: false,
        spec: validate::class(class),
        status: objects::status(class.status.as_ref()),
    }
}
