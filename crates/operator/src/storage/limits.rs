//! Which change of the books and of the limits wakes whom.

use std::{collections::BTreeSet, sync::Arc};

use croft_api::storage::{S3QuotaLedger, S3QuotaLedgerSpec, S3TeamQuota, S3UserClaim, books};
use croft_core::storage::{
    claim::has_to_settle,
    ledger::{Entry, ledger_name},
    record_name,
};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::ResourceExt;

use super::{
    Caches, LEDGER, NAMESPACE_INDEX, QUOTA, TEAM_INDEX, TEAM_QUOTA,
    claim::claim_seen,
    claim_key,
    ledgers::{self, hashed},
    usage::limits_storage,
    user,
    wakes::differs,
};
use crate::engine::{Change, Key};

impl Caches {
    pub(super) fn wake_for_quota(&self) {
        let caches = self.clone();
        self.books.wakes(move |change| caches.woken_by_ledger(change));
        let caches = self.clone();
        self.team_quotas.wakes(move |change| {
            if !differs(change, |quota| quota.metadata.generation) {
                return Vec::new();
            }
            let own = Key::cluster(TEAM_QUOTA, change.object().name_any());
            let teams: BTreeSet<_> = change.both().map(S3TeamQuota::team).collect();
            teams.into_iter().flat_map(|team| caches.team_short_of_quota(team)).chain([own]).collect()
        });
        let caches = self.clone();
        self.cluster_quotas.wakes(move |change| {
            let changed = differs(change, |quota| quota.spec.clone());
            if changed { caches.team_short_of_quota(&change.object().name_any()) } else { Vec::new() }
        });
        let caches = self.clone();
        self.resource_quotas.wakes(move |change| caches.woken_by_resource_quota(change));
    }

    /// The books a namespace is in when it comes, goes or changes its team: they may hold what belongs elsewhere, or nobody may
    /// need them.
    pub(super) fn books_left_by(&self, change: Change<'_, Namespace>) -> Vec<Key> {
        let name = change.object().name_any();
        let team = |namespace: &Namespace| ledgers::team_of(namespace);
        if !differs(change, |namespace| Some(team(namespace))) {
            return Vec::new();
        }
        let left = change.before.map(|before| ledger_name(team(before).as_deref(), &name, hashed));
        let left = left.map(|ledger| Key::cluster(LEDGER, ledger));
        self.ledger_keys(&name).into_iter().chain(left).collect()
    }

    /// The books a namespace has entries in, wherever it belongs now.
    pub(super) fn ledger_keys(&self, namespace: &str) -> Vec<Key> {
        let books = self.books.by(NAMESPACE_INDEX, namespace);
        books.iter().map(|ledger| Key::cluster(LEDGER, ledger.name_any())).collect()
    }

    /// The keeper looks when there are promises, which end in time, when a namespace comes or goes, and when something is granted to
    /// somebody who is not there: a namespace may bring along what has ended meanwhile. What else happens to entries concerns only
    /// those who read sums.
    fn woken_by_ledger(&self, change: Change<'_, S3QuotaLedger>) -> Vec<Key> {
        let mut keys = Vec::new();
        let has_promises = |ledger: &S3QuotaLedger| ledger.spec.entries.values().any(|entry| entry.pending.is_some());
        let whose = |ledger: &S3QuotaLedger| (ledger.spec.team.clone(), ledger.spec.namespace.clone());
        let nothing = S3QuotaLedgerSpec::default();
        let before = change.before.map_or(&nothing, |ledger| &ledger.spec);
        let after = change.after.map_or(&nothing, |ledger| &ledger.spec);
        let is_nobodys = |(namespace, name, _): (&str, &str, Entry)| {
            !self.claims.exists(namespace, name) && !self.users.exists("", &record_name(namespace, name))
        };
        if differs(change, |ledger| (has_promises(ledger), whose(ledger), books::namespaces(&ledger.spec)))
            || books::have_more(before, after).any(is_nobodys)
        {
            keys.push(Key::cluster(LEDGER, change.object().name_any()));
        }
        for namespace in books::changed(before, after) {
            let quotas = self.resource_quotas.in_namespace(namespace);
            keys.extend(quotas.iter().filter(|quota| limits_storage(quota)).map(|quota| quota_key(quota)));
        }
        if let Some(team) = &change.object().spec.team {
            let quotas = self.team_quotas.by(TEAM_INDEX, team);
            keys.extend(quotas.iter().map(|quota| Key::cluster(TEAM_QUOTA, quota.name_any())));
        }
        keys.extend(self.waiting_for(change.object(), before, after));
        keys
    }

    /// Claims that can go on now: there is more left than before, the keeper says again what was promised to one that was looked at
    /// already, or one that has what it asks for is booked with more, which it had where it comes from.
    fn waiting_for(&self, ledger: &S3QuotaLedger, before: &S3QuotaLedgerSpec, after: &S3QuotaLedgerSpec) -> Vec<Key> {
        let repeated = books::promised_again(before, after).filter_map(|(namespace, name, form)| {
            let claim = self.claims.get(namespace, name)?;
            claim_seen(&claim).form().succeeds(&form).then(|| claim_key(&claim))
        });
        let brought = books::have_more(before, after).filter_map(|(namespace, name, booked)| {
            let (claim, record) =
                (self.claims.get(namespace, name)?, self.users.get("", &record_name(namespace, name))?);
            let (seen, record) = (claim_seen(&claim), user::record(&record));
            let must_settle = seen.is_settled() && has_to_settle(Some(&seen), Some(&record), Some(&booked));
            must_settle.then(|| claim_key(&claim))
        });
        let mut keys: Vec<_> = repeated.chain(brought).collect();
        if !books::sum(before).is_within(books::sum(after)) {
            keys.extend(match &ledger.spec.team {
                Some(team) => self.team_short_of_quota(team),
                None => ledger.spec.namespace.iter().flat_map(|namespace| self.short_of_quota(namespace)).collect(),
            });
        }
        keys
    }

    fn woken_by_resource_quota(&self, change: Change<'_, ResourceQuota>) -> Vec<Key> {
        let quota = change.object();
        let used = |quota: &ResourceQuota| quota.status.as_ref().and_then(|status| status.used.clone());
        let mut keys = Vec::new();
        if differs(change, |quota| quota.spec.clone()) {
            keys.extend(self.short_of_quota(&quota.namespace().unwrap_or_default()));
        }
        if limits_storage(quota) && differs(change, |quota| (quota.spec.clone(), used(quota))) {
            keys.push(quota_key(quota));
        }
        keys
    }

    /// Claims of a team that wait for a higher limit.
    fn team_short_of_quota(&self, team: &str) -> Vec<Key> {
        let namespaces = self.namespaces.by(TEAM_INDEX, team);
        namespaces.iter().flat_map(|namespace| self.short_of_quota(&namespace.name_any())).collect()
    }

    /// Claims that may wait for a higher limit. One that is being looked at has not said yet that it does.
    fn short_of_quota(&self, namespace: &str) -> Vec<Key> {
        let waits = |claim: &&Arc<S3UserClaim>| claim_seen(claim).lacks_something();
        self.claims.in_namespace(namespace).iter().filter(waits).map(|claim| claim_key(claim)).collect()
    }
}

pub(super) fn quota_key(quota: &ResourceQuota) -> Key {
    Key::new(QUOTA, quota.namespace().unwrap_or_default(), quota.name_any())
}
