//! UserMigration -> buckets that change hands: observes for [`croft_core::storage::migration`] and carries out its steps.

use std::sync::Arc;

use croft_api::storage::{
    BUCKET_FINALIZER, MIGRATION_FINALIZER, S3Bucket, S3BucketSpec, S3User, S3UserClaim, UserMigration, UserReference,
};
use croft_core::{
    plan::{Failure, Outcome, Plan},
    storage::{
        self, CephUser, ClassChoice, KeyPair, Place,
        claim::{Holder, Version},
        migration::{
            self, BucketSeen, Gateway, Look, Migration, MoveState, Object, Observed, PolicySeen, Reached, Side, Spec,
            Step,
        },
        record_name,
    },
    time::Timestamp,
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    CLAIM, Caches, MIGRATION,
    ceph::Ceph,
    claim::{claim_seen, exactly, target},
    has_finalizer,
    lost_keys::Used,
    user,
};
use crate::{
    conditions,
    engine::{Key, NewStatus, Reconciler, Report, Target, Work, Writer, Written, is_deleting},
    objects,
};

#[derive(Debug)]
pub(super) struct MigrationReconciler {
    caches: Caches,
    writer: Writer,
}

#[derive(Debug)]
pub(super) struct Seen {
    raw: Arc<UserMigration>,
    ceph: Option<Ceph>,
    observed: Observed,
}

impl MigrationReconciler {
    pub(super) fn new(caches: Caches, writer: Writer) -> Self {
        Self { caches, writer }
    }

    fn side(&self, place: &Place) -> Side {
        let namespace = self.caches.namespaces.get("", &place.namespace);
        let object = self.caches.users.get("", &record_name(&place.namespace, &place.name));
        let mut record = object.as_deref().map(user::record);
        // Whoever holds it must be there.
        if let Some(record) = record.as_mut().filter(|record| self.caches.holder(record).is_none()) {
            record.body.held_by = None;
        }
        Side {
            namespace: namespace.is_some_and(|namespace| !is_deleting(&namespace.metadata)),
            claim: self.caches.claims.get(&place.namespace, &place.name).as_deref().map(claim_seen),
            record,
            buckets: self.caches.buckets_of(&place.namespace, &place.name),
            moved_in: object.as_deref().map(user::moved_in).unwrap_or_default(),
        }
    }

    async fn gateway(&self, migration: &Migration, current: &Side, target: &Side) -> (Gateway, Option<Ceph>) {
        let classes = [current, target].map(|side| side.record.as_ref().and_then(|record| record.body.class.clone()));
        let users = [current, target].map(|side| side.record.as_ref().and_then(|record| record.body.user.clone()));
        let ([Some(class), Some(other)], [Some(from), Some(to)]) = (classes, users) else {
            return (Gateway::Unasked, None);
        };
        let [class, other] = [class, other].map(|name| self.caches.gateways.class(ClassChoice::Named(&name), false));
        let chosen = match (class, other) {
            (Ok(class), Ok(other)) if !class.is_of_one_ceph_with(&other) => return (Gateway::Apart, None),
            (Ok(class), Ok(_)) => class,
            (Err(why), _) | (_, Err(why)) => return (Gateway::NoClass(why), None),
        };
        match self.caches.gateways.connect(&chosen).await {
            Err(failure) => (Gateway::Unreachable(failure), None),
            Ok(ceph) => {
                let look = migration::look(migration, current, target);
                let seen = self.ask(&ceph, migration, &look, current, [&from, &to]).await;
                self.caches.gateways.heed(&chosen.class.name, &seen);
                (seen.map_or_else(Gateway::Unreachable, |seen| Gateway::Reached(Box::new(seen))), Some(ceph))
            }
        }
    }

    async fn ask(
        &self,
        ceph: &Ceph,
        migration: &Migration,
        look: &Look<'_>,
        current_side: &Side,
        [from, to]: [&CephUser; 2],
    ) -> Result<Reached, Failure> {
        let (current, target) = tokio::try_join!(
            ceph.user_listed(from, look.all_of_current, false),
            ceph.user_listed(to, look.all_of_target, true)
        )?;
        let lost = [&current, &target].into_iter().flat_map(|user| self.caches.lost_keys.among(user.as_ref()));
        let lost = lost.collect();
        let key = current.as_ref().and_then(|user| current_side.key(user, &lost));
        let mut buckets = Vec::new();
        for name in &look.buckets {
            let in_current = ceph.bucket_in(&from.tenant, name).await?;
            let in_target = ceph.bucket_in(&to.tenant, name).await?;
            let policy = match key.filter(|_| in_current.as_ref().is_some_and(|bucket| bucket.owner == *from)) {
                Some(key) => {
                    let policy = policy_seen(ceph, name, key).await;
                    self.heed(policy.as_ref().err(), ceph, (from, key), &migration.spec.current).await;
                    policy?
                }
                None => PolicySeen::None,
            };
            let object = |place: &Place| self.caches.buckets.get(&place.namespace, name).as_deref().map(object_seen);
            let (current_object, target_object) = (object(&migration.spec.current), object(&migration.spec.target));
            let name = (*name).to_owned();
            buckets.push(BucketSeen { name, in_current, in_target, policy, current_object, target_object });
        }
        Ok(Reached { current, target, buckets, lost })
    }

    /// The key of one of the two was used.
    async fn heed(&self, failure: Option<&Failure>, ceph: &Ceph, (user, key): (&CephUser, &KeyPair), place: &Place) {
        let holder = Key::new(CLAIM, &place.namespace, &place.name);
        self.caches.lost_keys.heed(failure, Used { ceph, user, key, holder }).await;
    }

    fn bucket(&self, seen: &storage::Target) -> Result<Arc<S3Bucket>, Failure> {
        let bucket = self.caches.buckets.get(&seen.namespace, &seen.name);
        bucket.filter(|bucket| bucket.uid().as_ref() == Some(&seen.uid)).ok_or_else(super::no_longer_there)
    }

    async fn hold(&self, record: &str, version: &Version, by: Option<Holder>) -> Result<Written, Failure> {
        let holder = by.map(|by| json!({ "name": by.name, "uid": by.uid }));
        let record = Target { namespace: "", name: record, uid: &version.uid };
        let patch = json!({ "spec": { "heldBy": holder } });
        self.writer.merge::<S3User>(record, Some(&version.resource_version), patch).await
    }

    async fn save_policy(&self, seen: &Seen, bucket: &str, policy: &str) -> Result<Written, Failure> {
        let mut status = seen.observed.migration.status.clone();
        for entry in status.buckets.iter_mut().filter(|entry| entry.name == bucket) {
            (entry.policy, entry.state) = (Some(policy.to_owned()), MoveState::Pending);
        }
        let whole = objects::status_over(seen.raw.status.as_ref(), &status).ok_or_else(super::no_longer_there)?;
        self.writer.status(&NewStatus::of(&*seen.raw, whole)).await
    }

    /// One step is one call.
    async fn carry_out(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let ceph = || seen.ceph.as_ref().ok_or_else(super::no_longer_there);
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.raw, MIGRATION_FINALIZER).await,
            Step::RemoveFinalizer { .. } => self.writer.release_finalizer(&*seen.raw, MIGRATION_FINALIZER).await,
            Step::CreateClaim { like, claim } => {
                let model = self.caches.claims.get(&like.namespace, &like.name).ok_or_else(super::no_longer_there)?;
                let mut made = S3UserClaim::new(&claim.name, model.spec.clone());
                made.metadata.namespace = Some(claim.namespace.clone());
                self.writer.create(&made).await
            }
            Step::Hold { record, seen: version } => {
                let migration = &seen.observed.migration.target;
                let by = Holder { name: migration.name.clone(), uid: migration.uid.clone() };
                self.hold(record, version, Some(by)).await
            }
            Step::LetGo { record, seen: version } => self.hold(record, version, None).await,
            Step::Remember { record, seen: version, moved_in } => {
                let target = Target { namespace: "", name: record, uid: &version.uid };
                let patch = user::moved_in_patch(moved_in);
                self.writer.merge::<S3User>(target, Some(&version.resource_version), patch).await
            }
            Step::GiveUpNothing { record, seen: version } => {
                let target = Target { namespace: "", name: record, uid: &version.uid };
                let patch = json!({ "spec": { "movedAway": true } });
                self.writer.merge::<S3User>(target, Some(&version.resource_version), patch).await
            }
            Step::SavePolicy { bucket, policy } => self.save_policy(seen, bucket, policy).await,
            Step::DeletePolicy { bucket, key, .. } => ceph()?.delete_policy(bucket, key).await,
            Step::LinkBucket { tenant, bucket, id, to } => ceph()?.link_bucket(tenant, bucket, id, to).await,
            Step::PutPolicy { bucket, key, policy, .. } => ceph()?.put_policy(bucket, key, policy).await,
            Step::RenewLifecycle { bucket, key, .. } => ceph()?.renew_lifecycle(bucket, key).await,
            Step::CountUsage { user } => ceph()?.count_usage(user).await,
            Step::Note { record, seen: version, bucket, note } => {
                let object = self.caches.users.get("", record).ok_or_else(super::no_longer_there)?;
                let target = Target { namespace: "", name: record, uid: &version.uid };
                let status = NewStatus::at::<S3User>(target, json!(user::noted(&object, bucket, *note)));
                self.writer.status(&status.only_at(&version.resource_version)).await
            }
            Step::CreateObject { like, claim } => {
                let model = self.bucket(like)?;
                let spec = S3BucketSpec { s3_user_ref: claim.name.clone(), ..model.spec.clone() };
                let mut made = S3Bucket::new(&like.name, spec);
                made.metadata.namespace = Some(claim.namespace.clone());
                self.writer.create(&made).await
            }
            Step::ReleaseObject { object } => {
                self.writer.release_finalizer(&*self.bucket(object)?, BUCKET_FINALIZER).await
            }
            Step::DeleteObject { object } => self.writer.delete::<S3Bucket>(exactly(object), None).await,
            Step::DeleteClaim { claim } => self.writer.delete::<S3UserClaim>(exactly(claim), None).await,
        }
    }
}

impl Reconciler for MigrationReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        MIGRATION
    }

    fn all(&self) -> Vec<Key> {
        let all = self.caches.migrations.all();
        let open = all.iter().filter(|it| {
            let seen = migration_seen(it);
            !seen.is_over() || seen.finalizer
        });
        open.map(|migration| Key::cluster(MIGRATION, migration.name_any())).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(raw) = self.caches.migrations.get("", &key.name) else { return Ok(None) };
        let migration = migration_seen(&raw);
        let (current, target) = (self.side(&migration.spec.current), self.side(&migration.spec.target));
        let (gateway, ceph) = if migration.is_over() {
            (Gateway::Unasked, None)
        } else {
            self.gateway(&migration, &current, &target).await
        };
        Ok(Some(Seen { raw, ceph, observed: Observed { migration, current, target, gateway } }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        migration::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let done = self.carry_out(seen, step).await;
        if let (
            Some(ceph),
            Step::DeletePolicy { user, key, .. }
            | Step::PutPolicy { user, key, .. }
            | Step::RenewLifecycle { user, key, .. },
        ) = (&seen.ceph, step)
        {
            let spec = &seen.observed.migration.spec;
            let place = if seen.observed.target.is_of(user) { &spec.target } else { &spec.current };
            self.heed(done.as_ref().err(), ceph, (user, key), place).await;
        }
        done
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let retry = migration::must_retry(&seen.observed);
        let before = &seen.observed.migration.status;
        let status = migration::report(&seen.observed, outcomes, now);
        let events = conditions::news(&before.conditions, &status.conditions);
        let is_new = seen.raw.status.is_none() || *before != status;
        let status = is_new.then(|| objects::status_over(seen.raw.status.as_ref(), &status)).flatten();
        Report { retry, ..Report::on(&*seen.raw, status.as_ref(), events) }
    }
}

async fn policy_seen(ceph: &Ceph, bucket: &str, key: &KeyPair) -> Result<PolicySeen, Failure> {
    Ok(match ceph.policy(bucket, key).await? {
        Ok(None) => PolicySeen::None,
        Ok(Some(policy)) => PolicySeen::Text(policy.to_string()),
        Err(why) => PolicySeen::Unreadable(why),
    })
}

/// A migration as stored.
pub(super) fn migration_seen(migration: &UserMigration) -> Migration {
    let place = |user: &UserReference| Place { namespace: user.namespace.clone(), name: user.name.clone() };
    Migration {
        target: target(&migration.metadata),
        generation: migration.metadata.generation.unwrap_or_default(),
        deleting: is_deleting(&migration.metadata),
        finalizer: objects::has_finalizer(&migration.metadata, MIGRATION_FINALIZER),
        spec: Spec {
            current: place(&migration.spec.current_user),
            target: place(&migration.spec.target_user),
            buckets: migration.spec.buckets.clone(),
            delete_current: migration.spec.delete_current_user,
        },
        status: objects::status(migration.status.as_ref()),
    }
}

fn object_seen(bucket: &S3Bucket) -> Object {
    Object {
        target: target(&bucket.metadata),
        claim: bucket.spec.s3_user_ref.clone(),
        deleting: is_deleting(&bucket.metadata),
        finalizer: has_finalizer(bucket),
        bound: bucket.spec.s3_subuser_binding.iter().map(|binding| binding.name.clone()).collect(),
    }
}
