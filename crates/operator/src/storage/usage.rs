//! How much of a limit is used: observes for [`croft_core::storage::used`]. Told at most once a second, however fast it changes.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use croft_api::{
    Quantity,
    storage::{QUOTA_BUCKETS, QUOTA_OBJECTS, QUOTA_SIZE, S3TeamQuota, books},
};
use croft_core::{
    budget::{Budget, Budgets},
    plan::{self, Failure, Next, Outcome, Plan},
    quantity::Quantity as Exact,
    storage::{
        ledger::{Ledger, Member, Units, ledger_name},
        used::{self, TeamStatus},
    },
    time::Timestamp,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use serde_json::json;

use super::{
    Caches, QUOTA, TEAM_QUOTA,
    ledgers::{Ledgers, hashed},
};
use crate::{
    conditions,
    engine::{Clock, Key, NewStatus, Reconciler, Report, Work, Written},
    objects,
};

const PACE: Duration = Duration::from_secs(1);

/// Who only tells does nothing.
#[derive(Debug)]
pub(super) struct Nothing(Infallible);

impl plan::Step for Nothing {
    fn kind(&self) -> &'static str {
        match self.0 {}
    }
}

impl fmt::Display for Nothing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

/// Lets each key speak once in a while.
#[derive(Debug)]
struct Pace {
    budgets: Mutex<Budgets<Key>>,
    clock: Clock,
}

impl Pace {
    fn new() -> Self {
        Self { budgets: Mutex::new(Budgets::new(Budget::new(1, PACE))), clock: Clock::start() }
    }

    /// What is to be told now; later, if the last time was a moment ago.
    fn tell(&self, key: &Key, report: Report) -> Report {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        if report.status.is_none() || budgets.spend(key.clone(), self.clock.now()) {
            return report;
        }
        Report { next: Next::After(PACE), ..Report::default() }
    }
}

/// ResourceQuota -> what its namespace has of the storage it limits.
#[derive(Debug)]
pub(super) struct NamespaceUsage {
    caches: Caches,
    ledgers: Ledgers,
    pace: Pace,
}

impl NamespaceUsage {
    pub(super) fn new(caches: Caches, ledgers: Ledgers) -> Self {
        Self { caches, ledgers, pace: Pace::new() }
    }
}

/// Whether it limits storage.
pub(super) fn limits_storage(quota: &ResourceQuota) -> bool {
    let hard = quota.spec.iter().flat_map(|spec| spec.hard.iter().flatten());
    hard.into_iter().any(|(name, _)| [QUOTA_SIZE, QUOTA_OBJECTS, QUOTA_BUCKETS].contains(&name.as_str()))
}

fn key_of(member: Member) -> &'static str {
    match member {
        Member::Size => QUOTA_SIZE,
        Member::Objects => QUOTA_OBJECTS,
        Member::Buckets => QUOTA_BUCKETS,
    }
}

/// The amounts that are not told, or told differently. In what form they are told is Kubernetes' own business.
fn untold(quota: &ResourceQuota, used: Units) -> BTreeMap<&'static str, Quantity> {
    let hard = quota.spec.iter().flat_map(|spec| spec.hard.iter().flatten());
    let wanted = used::of_namespace(books::hard_bounds(hard), used);
    let told = quota.status.as_ref().and_then(|status| status.used.as_ref());
    let is_told = |key: &str, wanted: &Exact| {
        let told = told.and_then(|told| told.get(key)).and_then(|told| told.0.parse::<Exact>().ok());
        told.and_then(Exact::as_whole) == wanted.as_whole()
    };
    let untold = wanted.into_iter().map(|(member, amount)| (key_of(member), amount));
    untold
        .filter(|(key, amount)| !is_told(key, amount))
        .map(|(key, amount)| (key, Quantity(amount.to_string())))
        .collect()
}

#[derive(Debug)]
pub(super) struct QuotaSeen {
    key: Key,
    quota: Arc<ResourceQuota>,
    used: Units,
}

impl Reconciler for NamespaceUsage {
    type Seen = QuotaSeen;
    type Step = Nothing;

    fn work(&self) -> Work {
        QUOTA
    }

    fn all(&self) -> Vec<Key> {
        let quotas = self.caches.resource_quotas.all();
        quotas.iter().filter(|quota| limits_storage(quota)).map(|quota| super::limits::quota_key(quota)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<QuotaSeen>, Failure> {
        let Some(quota) = self.caches.resource_quotas.get(&key.namespace, &key.name) else { return Ok(None) };
        let stored = self.caches.books.get("", &self.ledgers.owner(&key.namespace).name);
        let used = stored.map(|stored| books::of_namespace(&stored.spec, &key.namespace).sum()).unwrap_or_default();
        Ok(Some(QuotaSeen { key: key.clone(), quota, used }))
    }

    fn plan(&self, _: &QuotaSeen, _: &Timestamp) -> Plan<Nothing> {
        Plan::settled()
    }

    async fn execute(&self, _: &QuotaSeen, step: &Nothing) -> Result<Written, Failure> {
        match step.0 {}
    }

    fn report(&self, seen: &QuotaSeen, _: &[(&Nothing, Outcome)], _: &Timestamp) -> Report {
        let untold = untold(&seen.quota, seen.used);
        let Some(version) = seen.quota.resource_version().filter(|_| !untold.is_empty()) else {
            return Report::default();
        };
        let mut status = seen.quota.status.clone().unwrap_or_default();
        status.used.get_or_insert_default().extend(untold.into_iter().map(|(key, amount)| (key.to_owned(), amount)));
        // The rest is of Kubernetes' own controller: nothing is written over what it has said meanwhile.
        let status = NewStatus::of(&*seen.quota, json!(status)).only_at(&version);
        self.pace.tell(&seen.key, Report { status: Some(status), ..Report::default() })
    }
}

/// S3TeamQuota -> what the team has of it.
#[derive(Debug)]
pub(super) struct TeamUsage {
    caches: Caches,
    pace: Pace,
}

impl TeamUsage {
    pub(super) fn new(caches: Caches) -> Self {
        Self { caches, pace: Pace::new() }
    }
}

#[derive(Debug)]
pub(super) struct TeamSeen {
    key: Key,
    quota: Arc<S3TeamQuota>,
    ledger: Ledger,
}

impl Reconciler for TeamUsage {
    type Seen = TeamSeen;
    type Step = Nothing;

    fn work(&self) -> Work {
        TEAM_QUOTA
    }

    fn all(&self) -> Vec<Key> {
        self.caches.team_quotas.all().iter().map(|quota| Key::cluster(TEAM_QUOTA, quota.name_any())).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<TeamSeen>, Failure> {
        let Some(quota) = self.caches.team_quotas.get("", &key.name) else { return Ok(None) };
        let stored = self.caches.books.get("", &ledger_name(Some(quota.team()), "", hashed));
        let ledger = stored.map(|stored| books::ledger(&stored.spec)).unwrap_or_default();
        Ok(Some(TeamSeen { key: key.clone(), quota, ledger }))
    }

    fn plan(&self, _: &TeamSeen, _: &Timestamp) -> Plan<Nothing> {
        Plan::settled()
    }

    async fn execute(&self, _: &TeamSeen, step: &Nothing) -> Result<Written, Failure> {
        match step.0 {}
    }

    fn report(&self, seen: &TeamSeen, _: &[(&Nothing, Outcome)], now: &Timestamp) -> Report {
        let before: TeamStatus = objects::status(seen.quota.status.as_ref());
        let generation = seen.quota.metadata.generation.unwrap_or_default();
        let status = used::of_team(&before, generation, books::bounds(&seen.quota.spec.hard), &seen.ledger, now);
        if before == status {
            return Report::default();
        }
        let events = conditions::news(&before.conditions, &status.conditions);
        self.pace.tell(&seen.key, Report::on(&*seen.quota, Some(&status), events))
    }
}
