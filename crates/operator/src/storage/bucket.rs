//! S3Bucket -> bucket: observes for [`croft_core::storage::bucket`] and carries out its steps.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use croft_api::storage::{BUCKET_FINALIZER, BucketDeletionPolicy, S3Bucket, S3User, validate};
use croft_core::{
    plan::{Failure, FailureClass, Outcome, Plan},
    storage::{
        ClassChoice, OnDelete,
        bucket::{self, Bucket, Deletion, Lookup, Observed, Owner, RecordSeen, Step},
        claim::{Claim, Record},
        lost_keys::Standing,
        migration::MovedIn,
        record_name,
    },
    time::Timestamp,
};
use kube::Api;
use serde_json::json;

use super::{
    BUCKET, CLAIM, Caches,
    ceph::{Ceph, found},
    claim::{claim_seen, target},
    has_finalizer,
    lost_keys::Used,
    settings::{self, Looked},
    user,
};
use crate::{
    conditions,
    engine::{Key, NewStatus, Reconciler, Report, Target, Work, Writer, Written, write::read},
    objects,
};

#[derive(Debug)]
pub(super) struct BucketReconciler {
    caches: Caches,
    writer: Writer,
}

#[derive(Debug)]
pub(super) struct Seen {
    raw: Arc<S3Bucket>,
    record: Option<Arc<S3User>>,
    ceph: Option<Ceph>,
    looked: Looked,
    observed: Observed,
}

impl BucketReconciler {
    pub(super) fn new(caches: Caches, writer: Writer) -> Self {
        Self { caches, writer }
    }

    /// The S3Bucket from the cache, or from the API server itself if it could not be read there.
    async fn bucket(&self, key: &Key) -> Result<Option<Arc<S3Bucket>>, Failure> {
        let stored = self.caches.buckets.as_stored(&key.namespace, &key.name);
        if stored.is_some() || !self.caches.buckets.exists(&key.namespace, &key.name) {
            return Ok(stored);
        }
        let api: Api<S3Bucket> = Api::namespaced(self.writer.client(), &key.namespace);
        Ok(read(api.get_opt(&key.name)).await?.map(Arc::new))
    }

    /// The user behind the claim, what it has under the bucket's name, and what is set on that.
    async fn find(
        &self,
        bucket: &Bucket,
        claim: Option<&Claim>,
        (record, moved_in): (Option<&Record>, &[MovedIn]),
    ) -> Result<Sighting, Failure> {
        let lookup = match Lookup::new(claim, record, bucket) {
            Ok(lookup) => lookup,
            Err(owner) => return Ok(Sighting::of(*owner)),
        };
        let chosen = match self.caches.gateways.class(ClassChoice::Named(lookup.class), false) {
            Ok(chosen) => chosen,
            Err(why) => return Ok(Sighting::of(Owner::NoClass(why))),
        };
        let ceph = match self.caches.gateways.connect(&chosen).await {
            Ok(ceph) => ceph,
            Err(failure) => return Ok(Sighting::of(Owner::Unreachable(failure))),
        };
        let subusers = Lookup::subusers(claim, record);
        let asked = self.ask(&ceph, &lookup, bucket, &subusers, moved_in).await;
        self.caches.gateways.heed(lookup.class, &asked);
        match asked {
            Ok((owner, looked)) => Ok(Sighting { owner, looked, ceph: Some(ceph) }),
            Err(failure) if failure.class == FailureClass::Stale => Err(failure),
            Err(failure) => Ok(Sighting::of(Owner::Unreachable(failure))),
        }
    }

    async fn ask(
        &self,
        ceph: &Ceph,
        lookup: &Lookup<'_>,
        bucket: &Bucket,
        subusers: &BTreeSet<String>,
        moved_in: &[MovedIn],
    ) -> Result<(Owner, Looked), Failure> {
        let user = ceph.user(lookup.user).await?;
        let told = if user.is_some() { ceph.bucket(&bucket.target.name, lookup.user).await? } else { None };
        let is_empty = told.as_ref().is_none_or(|told| told.objects == 0);
        let found = found(told.as_ref(), lookup.user)?;
        let owner = || {
            let lost = self.caches.lost_keys.among(user.as_ref());
            lookup.owner(user.as_ref(), found.clone(), is_empty, &lost)
        };
        let seen = owner();
        let looked = settings::look(ceph, bucket, (&seen, told.as_ref()), subusers, moved_in).await;
        let used_a_key = looked.as_ref().map_or(true, |looked| looked.used_a_key);
        let standing = if used_a_key { self.heed(looked.as_ref().err(), bucket, &seen, ceph).await } else { None };
        match looked {
            Ok(looked) => Ok((seen, looked)),
            Err(failure) => Ok((Lookup::after(failure, standing, owner())?, Looked::default())),
        }
    }

    /// The key of the owner was used.
    async fn heed(&self, failure: Option<&Failure>, bucket: &Bucket, owner: &Owner, ceph: &Ceph) -> Option<Standing> {
        let Owner::Ready { user, key, .. } = owner else { return None };
        let claim = bucket.spec.as_ref().map(|spec| spec.claim.as_str()).unwrap_or_default();
        let holder = Key::new(CLAIM, &bucket.target.namespace, claim);
        self.caches.lost_keys.heed(failure, Used { ceph, user, key, holder }).await
    }

    async fn carry_out(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let ceph = || seen.ceph.as_ref().ok_or_else(super::no_longer_there);
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(&*seen.raw, BUCKET_FINALIZER).await,
            Step::RemoveFinalizer { .. } => self.writer.release_finalizer(&*seen.raw, BUCKET_FINALIZER).await,
            Step::CreateBucket { name, key, .. } => ceph()?.create_bucket(name, key).await,
            Step::PutPolicy { name, key, policy } => ceph()?.put_policy(name, key, policy).await,
            Step::NoteSettings { settings, .. } => {
                let noted = json!({ "managedSettings": settings });
                let status = objects::status_over(seen.raw.status.as_ref(), &noted).unwrap_or(noted);
                self.writer.status(&NewStatus::of(&*seen.raw, status)).await
            }
            Step::SetQuota { name, user, quota } => ceph()?.set_bucket_quota(name, user, *quota).await,
            Step::SetVersioning { name, key, versioning } => ceph()?.set_versioning(name, key, *versioning).await,
            Step::PutLifecycle { name, key, rules } => ceph()?.put_lifecycle(name, key, rules, &seen.looked).await,
            Step::DeleteBucket { name, user } => ceph()?.delete_own_bucket(user, name).await,
            Step::Note { record, seen: version, bucket, note } => {
                let object = seen.record.as_deref().ok_or_else(super::no_longer_there)?;
                let target = Target { namespace: "", name: record, uid: &version.uid };
                let status = NewStatus::at::<S3User>(target, json!(user::noted(object, bucket, *note)));
                self.writer.status(&status.only_at(&version.resource_version)).await
            }
        }
    }
}

/// What the gateway says about a bucket and its owner.
struct Sighting {
    owner: Owner,
    looked: Looked,
    ceph: Option<Ceph>,
}

impl Sighting {
    fn of(owner: Owner) -> Self {
        Self { owner, looked: Looked::default(), ceph: None }
    }
}

impl Reconciler for BucketReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        BUCKET
    }

    fn all(&self) -> Vec<Key> {
        let buckets = self.caches.buckets.all();
        let unsettled = buckets.iter().filter(|bucket| !bucket_seen(bucket).is_settled());
        unsettled.map(|bucket| super::bucket_key(bucket)).collect()
    }

    /// All of them: what others change in Ceph tells nobody.
    fn resync(&self) -> Vec<Key> {
        self.caches.buckets.all().iter().map(|bucket| super::bucket_key(bucket)).collect()
    }

    fn lane(&self, key: &Key) -> Option<String> {
        let bucket = self.caches.buckets.get(&key.namespace, &key.name)?;
        let record = self.caches.users.get("", &record_name(&key.namespace, &bucket.spec.s3_user_ref))?;
        self.caches.gateways.address(ClassChoice::Named(user::record(&record).body.class.as_deref()?))
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(raw) = self.bucket(key).await? else { return Ok(None) };
        let bucket = bucket_seen(&raw);
        let claim = self.caches.claims.get(&key.namespace, &raw.spec.s3_user_ref);
        let claim = claim.as_deref().map(claim_seen);
        let name = record_name(&key.namespace, &raw.spec.s3_user_ref);
        let object = self.caches.users.get("", &name);
        let record = object.as_deref().map(user::record);
        let stamp = self.caches.bindings.stamp(&*raw, &self.writer.client()).await?;
        let moved_in = object.as_deref().map(user::moved_in).unwrap_or_default();
        let sighting = self.find(&bucket, claim.as_ref(), (record.as_ref(), &moved_in)).await?;
        let Sighting { owner, looked, ceph } = sighting;
        let subusers = Lookup::subusers(claim.as_ref(), record.as_ref());
        let record_seen = record.as_ref().and_then(|record| RecordSeen::of(name, record));
        let namespace_terminating =
            self.caches.is_terminating_with(&key.namespace, Some(&*raw), stamp.as_ref(), &self.writer).await?;
        let observed = Observed {
            bucket: Some(bucket),
            namespace_terminating,
            unwanted: stamp.is_some_and(|stamp| stamp.is_withdrawn()),
            given_up: record.as_ref().and_then(|record| self.caches.on_delete(record)) == Some(OnDelete::GiveUp),
            held_by: record.as_ref().and_then(|record| self.caches.holder(record)),
            record_is_anothers: record.is_some() && record_seen.is_none(),
            record: record_seen,
            record_comes: claim.is_some_and(|claim| !claim.deleting),
            owner,
            subusers,
            state: looked.state.clone(),
        };
        Ok(Some(Seen { raw, record: object, ceph, looked, observed }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        bucket::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let done = self.carry_out(seen, step).await;
        if let (Some(bucket), Some(ceph), true) = (&seen.observed.bucket, &seen.ceph, step.uses_a_key()) {
            self.heed(done.as_ref().err(), bucket, &seen.observed.owner, ceph).await;
        }
        done
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let retry = bucket::must_retry(&seen.observed);
        let Some(status) = bucket::report(&seen.observed, outcomes, now) else { return Report::default() };
        let before = seen.observed.bucket.as_ref().map(|bucket| &bucket.status);
        let events = before.map_or_else(Vec::new, |before| conditions::news(&before.conditions, &status.conditions));
        let is_new = seen.raw.status.is_none() || before != Some(&status);
        let status = is_new.then(|| objects::status_over(seen.raw.status.as_ref(), &status)).flatten();
        Report { retry, ..Report::on(&*seen.raw, status.as_ref(), events) }
    }
}

pub(super) fn bucket_seen(bucket: &S3Bucket) -> Bucket {
    Bucket {
        target: target(&bucket.metadata),
        generation: bucket.metadata.generation.unwrap_or_default(),
        deleting: bucket.metadata.deletion_timestamp.as_ref().map(|since| {
            let passed = jiff::Timestamp::now().duration_since(since.0);
            Duration::try_from(passed).unwrap_or_default()
        }),
        finalizer: has_finalizer(bucket),
        deletion: match bucket.spec.s3_deletion_policy {
            BucketDeletionPolicy::Delete => Deletion::Delete,
            BucketDeletionPolicy::Retain => Deletion::Retain,
        },
        spec: validate::bucket(bucket),
        status: objects::status(bucket.status.as_ref()),
    }
}
