//! What this part does for backups: users, buckets and quota for vaults, beside those of claims.

use std::{collections::BTreeSet, sync::Arc};

use croft_api::{
    backup::BackupVault,
    storage::{S3Class, S3QuotaLedger, S3QuotaLedgerSpec, S3User, books, validate},
};
use croft_core::{
    backup::vault::{self, KeyToTry, names},
    plan::Failure,
    storage::{
        self, CephUser, Class, ClassChoice, KeyPair, QuotaAsked,
        claim::{self, Backend, Books, FreshKeys, Inquiry, Mark, Reached, Record, RecordBody, SetAside, Version},
        ledger::{Entry, Ledger, Limits, Settled, Units, vault_entry_key},
        lost_keys::Standing,
    },
};
use kube::ResourceExt;
use serde_json::json;

use super::{
    Caches, TEAM_INDEX,
    ceph::Ceph,
    claim::form,
    class::class_seen,
    ledgers::{Change, Ledgers},
    lost_keys::Used,
    user, vault_of,
    wakes::differs,
};
use crate::engine::{self, Key, NewStatus, Target, Writer, Written, is_deleting, timestamp};

/// What a look at a vault's gateway tells.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) backend: Backend,
    pub(crate) ceph: Option<Ceph>,
    pub(crate) ca_bundle: Option<String>,
    /// Keys of the user nobody gets in with.
    pub(crate) lost: BTreeSet<String>,
}

impl Looked {
    /// Nobody could look.
    pub(crate) fn blind(backend: Backend) -> Self {
        Self { backend, ceph: None, ca_bundle: None, lost: BTreeSet::new() }
    }
}

#[derive(Debug)]
pub(crate) struct Warehouse {
    caches: Caches,
    ledgers: Ledgers,
    writer: Writer,
}

impl Warehouse {
    pub(super) fn new(caches: Caches, ledgers: Ledgers, writer: Writer) -> Self {
        Self { caches, ledgers, writer }
    }

    /// The S3User of a vault.
    pub(crate) fn user(&self, namespace: &str, vault: &str) -> Option<Arc<S3User>> {
        self.caches.users.get("", &names::record_name(namespace, vault))
    }

    pub(crate) fn record(user: &S3User) -> Record {
        user::vault_record(user)
    }

    /// Namespace and name of every vault that is on record, with its record.
    pub(crate) fn records(&self) -> Vec<((String, String), Record)> {
        let users = self.caches.users.all();
        users.iter().filter_map(|user| Some((vault_of(user)?, user::vault_record(user)))).collect()
    }

    pub(crate) fn fresh_keys() -> FreshKeys {
        user::fresh_keys()
    }

    /// Whether nothing is to be done for a record while there is no vault of its name.
    pub(crate) fn rests(&self, record: &Record) -> bool {
        record.rests_without_claim(self.caches.on_delete(record))
    }

    /// Those who share it share a gateway.
    pub(crate) fn address(&self, choice: ClassChoice<'_>) -> Option<String> {
        self.caches.gateways.address(choice)
    }

    /// What the vault's location is to be, as far as the cluster tells.
    pub(crate) fn location_spec(&self, vault: &BackupVault) -> Option<serde_json::Map<String, serde_json::Value>> {
        let (namespace, name) = (vault.namespace()?, vault.name_any());
        let record = user::vault_record(&*self.user(&namespace, &name)?);
        let identity = record.body.claim.filter(|claim| Some(&claim.uid) == vault.metadata.uid.as_ref())?;
        let class = self.caches.classes.get("", &record.body.class?)?;
        let spec = validate::class(&class).ok()?;
        Some(vault::location_spec(&identity, &spec, class.spec.ca_bundle.as_deref()))
    }

    /// The gateway of a class and the user it has under the name that `called` gives.
    pub(crate) async fn look(
        &self,
        namespace: &str,
        choice: ClassChoice<'_>,
        is_new: bool,
        called: impl Fn(&Class) -> CephUser,
    ) -> Looked {
        let chosen = match self.caches.gateways.class(choice, is_new) {
            Ok(chosen) => chosen,
            Err(why) => return Looked::blind(Backend::NoClass(why)),
        };
        let ceph = match self.caches.gateways.connect(&chosen).await {
            Ok(ceph) => ceph,
            Err(failure) => return Looked::blind(Backend::Unreachable(failure)),
        };
        // Its bucket decides what becomes of it, and a gateway leaves out without a word what it cannot look into.
        let user = ceph.user_for(&called(&chosen.class), &Inquiry::Buckets(SetAside::default())).await;
        self.heed(&chosen.class.name, &user);
        let ca_bundle = chosen.ca_bundle();
        let lost = self.caches.lost_keys.among(user.as_ref().ok().and_then(Option::as_ref));
        let backend = match user {
            Ok(user) => {
                let allowed = chosen.allows(&self.caches.labels_of(namespace));
                let in_a_team = self.caches.team_of(namespace).is_some();
                Backend::Reached(Box::new(Reached { class: chosen.class, allowed, in_a_team, user }))
            }
            Err(failure) => Backend::Unreachable(failure),
        };
        Looked { backend, ceph: Some(ceph), ca_bundle, lost }
    }

    /// Tries a key that Velero cannot get in with. Whether the gateway refuses it although its user has it.
    pub(crate) async fn refuses(&self, ceph: &Ceph, tried: &KeyToTry<'_>, vault: Key) -> bool {
        let KeyToTry { user, bucket, key } = tried;
        let read = ceph.policy(bucket, key).await;
        self.heed_key(read.as_ref().err(), ceph, (user, key), vault).await.is_some()
    }

    /// A vault's key was used.
    pub(crate) async fn heed_key(
        &self,
        failure: Option<&Failure>,
        ceph: &Ceph,
        (user, key): (&CephUser, &KeyPair),
        vault: Key,
    ) -> Option<Standing> {
        self.caches.lost_keys.heed(failure, Used { ceph, user, key, holder: vault }).await
    }

    /// A call to the gateway of a class has ended.
    pub(crate) fn heed<T>(&self, class: &str, result: &Result<T, Failure>) {
        self.caches.gateways.heed(class, result);
    }

    /// What the books say about a vault that asks for this much, if it asks for anything.
    pub(crate) async fn books(
        &self,
        namespace: &str,
        vault: &str,
        asked: Option<&QuotaAsked>,
        record: Option<&Record>,
        backend: &Backend,
    ) -> Result<Books, Failure> {
        let wanted = match (asked, backend) {
            (Some(asked), Backend::Reached(reached)) => {
                Some(Units::from(&claim::wanted(asked, record, &reached.class.default_quota)))
            }
            _ => None,
        };
        self.ledgers.books(namespace, &vault_entry_key(namespace, vault), wanted).await
    }

    pub(crate) async fn confirm(
        &self,
        vault: &storage::Target,
        generation: i64,
        units: Units,
    ) -> Result<Written, Failure> {
        let (place, form) = (vault_entry_key(&vault.namespace, &vault.name), form(vault, generation));
        let change = move |ledger: &mut Ledger, limits: &Limits| Ok(ledger.confirm(&place, &form, units, limits)?);
        self.book(&vault.namespace, Arc::new(change)).await
    }

    pub(crate) async fn settle(
        &self,
        vault: &storage::Target,
        generation: i64,
        seen: &Entry,
        has: Settled,
    ) -> Result<Written, Failure> {
        let seen = seen.clone();
        let (place, form) = (vault_entry_key(&vault.namespace, &vault.name), form(vault, generation));
        let change = move |ledger: &mut Ledger, _: &Limits| Ok(ledger.settle(&place, &seen, &form, has)?);
        self.book(&vault.namespace, Arc::new(change)).await
    }

    pub(crate) async fn release(&self, namespace: &str, vault: &str, seen: &Entry) -> Result<Written, Failure> {
        let (place, seen) = (vault_entry_key(namespace, vault), seen.clone());
        let change = move |ledger: &mut Ledger, _: &Limits| Ok(ledger.release(&place, &seen)?);
        self.book(namespace, Arc::new(change)).await
    }

    async fn book(&self, namespace: &str, change: Change) -> Result<Written, Failure> {
        Ok(self.ledgers.change(namespace, change).await?)
    }

    pub(crate) async fn create_record(&self, name: &str, body: &RecordBody) -> Result<Written, Failure> {
        self.writer.create(&user::vault_user(name, body)).await
    }

    pub(crate) async fn update_record(
        &self,
        name: &str,
        seen: &Version,
        body: &RecordBody,
    ) -> Result<Written, Failure> {
        let target = Target { namespace: "", name, uid: &seen.uid };
        self.writer.merge::<S3User>(target, Some(&seen.resource_version), user::vault_record_patch(body)).await
    }

    pub(crate) async fn mark_record(
        &self,
        record: Option<&S3User>,
        name: &str,
        seen: &Version,
        mark: &Mark,
    ) -> Result<Written, Failure> {
        let status = user::record_status(record, mark, &timestamp());
        let target = Target { namespace: "", name, uid: &seen.uid };
        self.writer.status(&NewStatus::at::<S3User>(target, json!(status)).only_at(&seen.resource_version)).await
    }

    pub(crate) async fn delete_record(&self, name: &str, seen: &Version) -> Result<Written, Failure> {
        let target = Target { namespace: "", name, uid: &seen.uid };
        self.writer.delete::<S3User>(target, Some(&seen.resource_version)).await
    }

    /// Wakes whom a record, a class or a limit concerns: `of` gives whom a vault's record concerns, `in_class` those that use a class or wait
    /// for one, `short` those of a namespace that wait for a higher limit.
    pub(crate) fn wakes(
        &self,
        of: fn(&str, &str) -> Vec<Key>,
        in_class: impl Fn(&str) -> Vec<Key> + Send + Sync + 'static,
        short: impl Fn(&str) -> Vec<Key> + Clone + Send + Sync + 'static,
    ) {
        self.caches.users.wakes(move |change: engine::Change<'_, S3User>| {
            let phase = |user: &S3User| user.status.as_ref().and_then(|status| status.phase);
            if !differs(change, |user| (user.metadata.generation, phase(user))) {
                return Vec::new();
            }
            // Also whom it names no more.
            let places: BTreeSet<_> = change.both().filter_map(place_on_record).collect();
            places.iter().flat_map(|(namespace, name)| of(namespace, name)).collect()
        });
        self.caches.classes.wakes(move |change: engine::Change<'_, S3Class>| {
            let serves = |class: &S3Class| [false, true].map(|is_new| class_seen(class).refusal(is_new).is_none());
            let view = |class: &S3Class| {
                (class.spec.clone(), validate::on_delete(class), is_deleting(&class.metadata), serves(class))
            };
            if differs(change, view) { in_class(&change.object().name_any()) } else { Vec::new() }
        });
        self.wakes_short_of_quota(short);
    }

    /// Where there is more left than before, whoever waits for it looks again.
    fn wakes_short_of_quota(&self, short: impl Fn(&str) -> Vec<Key> + Clone + Send + Sync + 'static) {
        let (caches, freed) = (self.caches.clone(), short.clone());
        self.caches.books.wakes(move |change: engine::Change<'_, S3QuotaLedger>| {
            let sum =
                |ledger: Option<&S3QuotaLedger>| ledger.map(|ledger| books::sum(&ledger.spec)).unwrap_or_default();
            if sum(change.before).is_within(sum(change.after)) {
                return Vec::new();
            }
            let S3QuotaLedgerSpec { team, namespace, .. } = &change.object().spec;
            let team = team.iter().flat_map(|team| caches.namespaces.by(TEAM_INDEX, team));
            let namespaces = team.map(|namespace| namespace.name_any()).chain(namespace.clone());
            namespaces.flat_map(|namespace| freed(&namespace)).collect()
        });
        let caches = self.caches.clone();
        let (of_team, shorts) = (short.clone(), short.clone());
        self.caches.team_quotas.wakes(move |change| {
            if !differs(change, |quota| quota.metadata.generation) {
                return Vec::new();
            }
            let namespaces = change.both().flat_map(|quota| caches.namespaces.by(TEAM_INDEX, quota.team()));
            namespaces.flat_map(|namespace| of_team(&namespace.name_any())).collect()
        });
        let caches = self.caches.clone();
        self.caches.cluster_quotas.wakes(move |change| {
            if !differs(change, |quota| quota.spec.clone()) {
                return Vec::new();
            }
            let namespaces = caches.namespaces.by(TEAM_INDEX, &change.object().name_any());
            namespaces.iter().flat_map(|namespace| shorts(&namespace.name_any())).collect()
        });
        self.caches.resource_quotas.wakes(move |change| {
            let is_news = differs(change, |quota| quota.spec.clone());
            if is_news { short(&change.object().namespace().unwrap_or_default()) } else { Vec::new() }
        });
    }
}

/// Namespace and name of the vault an S3User is of, or is offered to.
fn place_on_record(user: &S3User) -> Option<(String, String)> {
    let vault = user::vault_record(user).body;
    let place = vault.claim.map(|claim| (claim.namespace, claim.name));
    place.or_else(|| vault.offered_to.map(|place| (place.namespace, place.name)))
}
