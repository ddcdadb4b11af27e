//! S3UserClaim -> Ceph user, Secrets and S3User: observes for [`croft_core::storage::claim`] and carries out its steps.

mod words;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use croft_api::storage::{CLAIM_FINALIZER, S3User, S3UserClaim};
use croft_core::{
    budget::{Budget, Budgets},
    plan::{Failure, Outcome, Plan},
    storage::{
        self,
        claim::{self, Backend, Books, Claim, Inquiry, Observed, Reached, Record, SecretSeen, Spec, Step, Version},
        ledger::{Form, Ledger, Limits, Units, entry_key},
        record_name,
    },
    time::Timestamp,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt, core::PartialObjectMeta};
use serde_json::json;

pub(super) use self::words::{MANAGED_BY, claim_seen, exactly, rotation_asked};
use self::words::{claim_status, cluster, is_labelled, owner, owner_claim, secret, secret_seen, unchanged_for};
use super::{
    CLAIM, Caches,
    ceph::Ceph,
    ledgers::{Change, Ledgers},
    user,
};
pub(super) use crate::objects::{controller, seen as target};
use crate::{
    conditions,
    engine::{Clock, Key, NewStatus, Reconciler, Report, Work, Writer, Written, is_deleting, timestamp, write::read},
};

/// How often it is asked what a user has stored: so often at once, for whoever asks for less a few times,
const USAGE_AT_ONCE: u32 = 5;
/// and once more each time this long has passed.
const USAGE_EVERY: Duration = Duration::from_secs(60);

/// How many Secrets of one claim are read side by side.
const SECRETS_AT_ONCE: usize = 8;

#[derive(Debug)]
pub(super) struct ClaimReconciler {
    caches: Caches,
    writer: Writer,
    ledgers: Ledgers,
    clock: Clock,
    usages: Mutex<Budgets<Key>>,
}

#[derive(Debug)]
pub(super) struct Seen {
    claim: Option<Arc<S3UserClaim>>,
    record: Option<Arc<S3User>>,
    ceph: Option<Ceph>,
    observed: Observed,
    /// The S3User made in this reconcile.
    made: OnceLock<Version>,
}

impl ClaimReconciler {
    pub(super) fn new(caches: Caches, writer: Writer, ledgers: Ledgers) -> Self {
        let usages = Mutex::new(Budgets::new(Budget::new(USAGE_AT_ONCE, USAGE_EVERY)));
        Self { caches, writer, ledgers, clock: Clock::start(), usages }
    }

    /// What the books say.
    async fn books(
        &self,
        key: &Key,
        claim: Option<&Claim>,
        record: Option<&Record>,
        backend: &Backend,
    ) -> Result<Books, Failure> {
        let wanted = match (claim, backend) {
            (Some(Claim { spec: Ok(spec), deleting: false, .. }), Backend::Reached(reached)) => {
                Some(Units::from(&claim::wanted(&spec.quota, record, &reached.class.default_quota)))
            }
            _ => None,
        };
        self.ledgers.books(&key.namespace, &entry_key(&key.namespace, &key.name), wanted).await
    }

    async fn book(&self, namespace: &str, change: Change) -> Result<Written, Failure> {
        Ok(self.ledgers.change(namespace, change).await?)
    }

    /// The claim from the cache, or from the API server itself: if it could not be read, or a user is about to be taken down because it
    /// is missing.
    async fn claim(&self, key: &Key) -> Result<Option<Arc<S3UserClaim>>, Failure> {
        if let Some(claim) = self.caches.claims.as_stored(&key.namespace, &key.name) {
            return Ok(Some(claim));
        }
        let api: Api<S3UserClaim> = Api::namespaced(self.writer.client(), &key.namespace);
        Ok(read(api.get_opt(&key.name)).await?.map(Arc::new))
    }

    /// Whether more is booked for a claim than it was granted: somebody was interrupted before that was given back.
    fn has_to_settle(&self, claim: &S3UserClaim) -> bool {
        let (namespace, name) = (claim.namespace().unwrap_or_default(), claim.name_any());
        let record = self.caches.users.get("", &record_name(&namespace, &name));
        let record = record.as_deref().map(user::record);
        let booked = self.ledgers.entry(&namespace, &entry_key(&namespace, &name));
        claim::has_to_settle(Some(&claim_seen(claim)), record.as_ref(), booked.as_ref())
    }

    /// What the user has stored is not asked for at every look: a tenant may have the claim looked at at any time, and the gateway
    /// has to go through all its buckets.
    fn inquiry(&self, key: &Key, claim: Option<&Claim>, record: Option<&Record>) -> Inquiry {
        let booked = self.ledgers.entry(&key.namespace, &entry_key(&key.namespace, &key.name));
        let inquiry = claim::inquiry(claim, record, booked.as_ref(), claim.map(unchanged_for).unwrap_or_default());
        let mut usages = self.usages.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(inquiry, Inquiry::Usage { .. }) && !usages.spend(key.clone(), self.clock.now()) {
            return Inquiry::Nothing;
        }
        inquiry
    }

    async fn backend(&self, key: &Key, claim: Option<&Claim>, record: Option<&Record>) -> (Backend, Option<Ceph>) {
        let chosen = match self.caches.gateways.class(claim::class_of(claim, record), claim::is_new(claim, record)) {
            Ok(chosen) => chosen,
            Err(why) => return (Backend::NoClass(why), None),
        };
        let ceph = match self.caches.gateways.connect(&chosen).await {
            Ok(ceph) => ceph,
            Err(failure) => return (Backend::Unreachable(failure), None),
        };
        let name = claim::ceph_user(&chosen.class, &key.namespace, &key.name, record);
        let inquiry = self.inquiry(key, claim, record);
        let user = if claim::may_exist(claim, record) { ceph.user_for(&name, &inquiry).await } else { Ok(None) };
        self.caches.gateways.heed(&chosen.class.name, &user);
        let backend = match user {
            Ok(user) => {
                let allowed = chosen.allows(&self.caches.labels_of(&key.namespace));
                let in_a_team = self.caches.team_of(&key.namespace).is_some();
                Backend::Reached(Box::new(Reached { class: chosen.class, allowed, in_a_team, user }))
            }
            Err(failure) => Backend::Unreachable(failure),
        };
        (backend, Some(ceph))
    }

    /// Claims that are gone and whose S3User, if it is meant, is not.
    fn left_behind(&self, is_meant: impl Fn(&Record) -> bool) -> impl Iterator<Item = Key> {
        let users = self.caches.users.all();
        let left = users.into_iter().filter_map(|user| {
            let (namespace, name) = super::claim_of(&user)?;
            let is_left = !self.caches.claims.exists(&namespace, &name) && is_meant(&user::record(&user));
            is_left.then(|| Key::new(CLAIM, namespace, name))
        });
        left.collect::<Vec<_>>().into_iter()
    }

    /// The Secrets the spec names, with their contents, and those the claim owns besides. One nobody has told of is not asked for:
    /// should it be there after all, making it fails, and with that all that would have followed.
    async fn secrets(&self, claim: &Claim, spec: &Spec) -> Result<Vec<SecretSeen>, Failure> {
        let namespace = &claim.target.namespace;
        let api: Api<Secret> = Api::namespaced(self.writer.client(), namespace);
        let names: Vec<_> = spec.identities(&claim.target.name).into_iter().map(|identity| identity.secret).collect();
        let told = names.iter().filter(|name| self.caches.secrets.exists(namespace, name));
        let reads: Vec<_> = told.map(|name| read(api.get_opt(name))).collect();
        let found: Vec<_> = stream::iter(reads).buffered(SECRETS_AT_ONCE).try_collect().await?;
        let mut seen: Vec<_> = found.iter().flatten().map(secret_seen).collect();
        let is_named = |name: &str| names.iter().any(|other| other == name);
        let owned = self.caches.secrets.by(super::OWNER_INDEX, &claim.target.uid);
        // Anybody may name the claim as an owner, in a namespace of his own.
        let is_surplus = |secret: &PartialObjectMeta<Secret>| {
            secret.namespace().as_ref() == Some(namespace)
                && !is_named(&secret.name_any())
                && !is_deleting(&secret.metadata)
        };
        seen.extend(owned.iter().filter(|secret| is_surplus(secret)).map(|secret| SecretSeen {
            target: target(&secret.metadata),
            owner: controller(&secret.metadata),
            owner_claim: owner_claim(&secret.metadata),
            labelled: is_labelled(&secret.metadata),
            immutable: false,
            data: BTreeMap::new(),
        }));
        Ok(seen)
    }

    /// One step is one call.
    async fn carry_out(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        match step {
            Step::AddFinalizer { .. } => self.writer.add_finalizer(seen.raw()?, CLAIM_FINALIZER).await,
            Step::RemoveFinalizer { .. } => self.writer.release_finalizer(seen.raw()?, CLAIM_FINALIZER).await,
            Step::Confirm { claim, generation, units } => {
                let (place, form, units) = (entry_key(&claim.namespace, &claim.name), form(claim, *generation), *units);
                let change =
                    move |ledger: &mut Ledger, limits: &Limits| Ok(ledger.confirm(&place, &form, units, limits)?);
                self.book(&claim.namespace, Arc::new(change)).await
            }
            Step::Settle { claim, form, seen, has } => {
                let (seen, form, has) = (seen.clone(), form.clone(), *has);
                let place = entry_key(&claim.namespace, &claim.name);
                let change = move |ledger: &mut Ledger, _: &Limits| Ok(ledger.settle(&place, &seen, &form, has)?);
                self.book(&claim.namespace, Arc::new(change)).await
            }
            Step::ReleaseQuota { namespace, claim, seen } => {
                let (place, seen) = (entry_key(namespace, claim), seen.clone());
                let change = move |ledger: &mut Ledger, _: &Limits| Ok(ledger.release(&place, &seen)?);
                self.book(namespace, Arc::new(change)).await
            }
            Step::CreateRecord { name, body } => {
                let written = self.writer.create(&S3User::new(name, user::record_spec(body))).await?;
                seen.made(&written);
                Ok(written)
            }
            Step::UpdateRecord { name, uid, resource_version, body } => {
                let patch = user::record_patch(body);
                self.writer.merge::<S3User>(cluster(name, uid), Some(resource_version), patch).await
            }
            Step::MarkRecord { name, seen: version, mark } => {
                let version = version.as_ref().or_else(|| seen.made.get()).ok_or_else(super::no_longer_there)?;
                let status = user::record_status(seen.record.as_deref(), mark, &timestamp());
                let status = NewStatus::at::<S3User>(cluster(name, &version.uid), json!(status));
                self.writer.status(&status.only_at(&version.resource_version)).await
            }
            Step::DeleteRecord { name, seen: Version { uid, resource_version } } => {
                self.writer.delete::<S3User>(cluster(name, uid), Some(resource_version)).await
            }
            Step::CreateSecret { namespace, name, body } => self.writer.create(&secret(namespace, name, body)).await,
            Step::UpdateSecret { secret, body } => {
                let data: BTreeMap<_, _> = body.data.iter().map(|(key, value)| (key, value.expose())).collect();
                let metadata =
                    json!({ "labels": { MANAGED_BY.0: MANAGED_BY.1 }, "ownerReferences": [owner(&body.owner)] });
                let patch = json!({ "metadata": metadata, "stringData": data });
                self.writer.merge::<Secret>(exactly(secret), Some(&secret.resource_version), patch).await
            }
            Step::DeleteSecret { secret } => self.writer.delete::<Secret>(exactly(secret), None).await,
            on_ceph => seen.ceph()?.carry_out(on_ceph).await,
        }
    }
}

pub(super) fn form(claim: &storage::Target, generation: i64) -> Form {
    Form { uid: claim.uid.clone(), generation }
}

impl Reconciler for ClaimReconciler {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        CLAIM
    }

    fn all(&self) -> Vec<Key> {
        let claims = self.caches.claims.all();
        let is_unsettled = |claim: &S3UserClaim| !self.caches.is_settled(claim) || self.has_to_settle(claim);
        let unsettled = claims.iter().filter(|claim| is_unsettled(claim)).map(|claim| super::claim_key(claim));
        unsettled.chain(self.left_behind(|record| !record.rests_without_claim(self.caches.on_delete(record)))).collect()
    }

    /// All of them: what others change in Ceph tells nobody.
    fn resync(&self) -> Vec<Key> {
        let claims = self.caches.claims.all();
        claims.iter().map(|claim| super::claim_key(claim)).chain(self.left_behind(|_| true)).collect()
    }

    fn lane(&self, key: &Key) -> Option<String> {
        let claim = self.caches.claims.get(&key.namespace, &key.name);
        let record = self.caches.users.get("", &record_name(&key.namespace, &key.name));
        let (claim, record) = (claim.as_deref().map(claim_seen), record.as_deref().map(user::record));
        self.caches.gateways.address(claim::class_of(claim.as_ref(), record.as_ref()))
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        // Before the record: what one that goes has noted there is to be seen.
        let buckets = self.caches.buckets_of(&key.namespace, &key.name);
        let record = self.caches.users.get("", &record_name(&key.namespace, &key.name));
        if record.is_none() && !self.caches.claims.exists(&key.namespace, &key.name) {
            return Ok(None);
        }
        let raw = self.claim(key).await?;
        let seen_claim = raw.as_deref().map(claim_seen);
        if seen_claim.as_ref().is_none_or(|claim| claim.deleting) {
            self.caches.buckets_are_known(&key.namespace)?;
        }
        let stamp = match raw.as_deref() {
            Some(claim) => self.caches.bindings.stamp(claim, &self.writer.client()).await?,
            None => None,
        };
        let seen_record = record.as_deref().map(user::record);
        let (backend, ceph) = self.backend(key, seen_claim.as_ref(), seen_record.as_ref()).await;
        let books = self.books(key, seen_claim.as_ref(), seen_record.as_ref(), &backend).await?;
        let secrets = match (&backend, &seen_claim) {
            (Backend::Reached(_), Some(claim @ Claim { spec: Ok(spec), deleting: false, .. })) => {
                self.secrets(claim, spec).await?
            }
            _ => Vec::new(),
        };
        let is_held = seen_record.as_ref().is_some_and(|record| self.caches.holder(record).is_some());
        let lost = match &backend {
            Backend::Reached(reached) => self.caches.lost_keys.among(reached.user.as_ref()),
            _ => BTreeSet::new(),
        };
        let namespace_terminating =
            self.caches.is_terminating_with(&key.namespace, raw.as_deref(), stamp.as_ref(), &self.writer).await?;
        let observed = Observed {
            claim: seen_claim,
            namespace_terminating,
            namespace_uid: self.caches.namespaces.get("", &key.namespace).and_then(|namespace| namespace.uid()),
            stamp,
            record: seen_record,
            is_held,
            buckets,
            backend,
            books,
            secrets,
            lost,
            fresh: user::fresh_keys(),
        };
        Ok(Some(Seen { claim: raw, record, ceph, observed, made: OnceLock::new() }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        claim::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let done = self.carry_out(seen, step).await;
        if let Backend::Reached(reached) = &seen.observed.backend {
            self.caches.gateways.heed(&reached.class.name, &done);
        }
        done
    }

    fn report(&self, seen: &Seen, outcomes: &[(&Step, Outcome)], now: &Timestamp) -> Report {
        let retry = claim::must_retry(&seen.observed);
        let (Some(raw), Some(status)) = (&seen.claim, claim::report(&seen.observed, outcomes, now)) else {
            return Report { retry, ..Report::default() };
        };
        let old = raw.status.clone().unwrap_or_default();
        let events = conditions::news(&conditions::from_api(&old.conditions), &status.conditions);
        let status = Some(claim_status(&status)).filter(|status| *status != old);
        let version = raw.resource_version().unwrap_or_default();
        Report { retry, ..Report::on(&**raw, status.as_ref(), events).only_at(&version) }
    }

    fn unseen(&self, key: &Key, failure: &Failure, now: &Timestamp) -> Report {
        let claim = self.caches.claims.get(&key.namespace, &key.name);
        claim.map_or_else(Report::default, |claim| {
            let version = claim.resource_version().unwrap_or_default();
            conditions::unseen(&*claim, claim.status.as_ref(), failure, now).only_at(&version)
        })
    }
}

impl Seen {
    fn raw(&self) -> Result<&S3UserClaim, Failure> {
        self.claim.as_deref().ok_or_else(super::no_longer_there)
    }

    fn made(&self, written: &Written) {
        let version = written.echo.as_ref().and_then(|echo| echo.version);
        if let (Some(uid), Some(version)) = (&written.uid, version) {
            drop(self.made.set(Version { uid: uid.clone(), resource_version: version.to_string() }));
        }
    }

    fn ceph(&self) -> Result<&Ceph, Failure> {
        self.ceph.as_ref().ok_or_else(super::no_longer_there)
    }
}
