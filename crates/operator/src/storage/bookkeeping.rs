//! S3QuotaLedger: gives back what was promised in vain, and moves what belongs into other books.

use std::{fmt, sync::Arc, time::Duration};

use croft_api::storage::{S3QuotaLedger, S3UserClaim, books};
use croft_core::{
    plan::{Failure, Next, Outcome, Plan},
    storage::{
        ledger::{Entry, Ledger, Limits, Units, claim_of_entry},
        record_name,
    },
    time::Timestamp,
};
use kube::{Api, ResourceExt};

use super::{
    Caches, LEDGER,
    ledgers::{Change, Ledgers, now},
};
use crate::engine::{Key, Reconciler, Report, Target, Work, Writer, Written, write::read};

#[derive(Debug)]
pub(super) struct BookKeeper {
    caches: Caches,
    writer: Writer,
    ledgers: Ledgers,
}

#[derive(Debug)]
pub(super) struct Seen {
    stored: Arc<S3QuotaLedger>,
    steps: Vec<Step>,
    next: Option<Duration>,
}

/// Each is one change of one ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A promise nobody confirmed in time becomes what the claim asks for, if there is one.
    Repair { namespace: String, entry: String, asks: Option<Units>, now: u64 },
    /// Neither claim nor user is there.
    Drop { namespace: String, entry: String },
    /// Into the books the namespace belongs to now: first there, then not here.
    Move { namespace: String, entry: String, book: Entry },
    /// Nobody is left to keep books for.
    Close,
}

impl croft_core::plan::Step for Step {
    fn kind(&self) -> &'static str {
        match self {
            Step::Repair { .. } => "Repair",
            Step::Drop { .. } => "Drop",
            Step::Move { .. } => "Move",
            Step::Close => "Close",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Repair { entry, .. } => write!(out, "give back what was promised to {entry} in vain"),
            Step::Drop { entry, .. } => write!(out, "drop {entry}: neither claim nor user is there"),
            Step::Move { entry, .. } => write!(out, "move {entry} into the books of its namespace"),
            Step::Close => out.write_str("close the ledger: nobody is left"),
        }
    }
}

impl BookKeeper {
    pub(super) fn new(caches: Caches, writer: Writer, ledgers: Ledgers) -> Self {
        Self { caches, writer, ledgers }
    }

    async fn step_for(&self, owner: &str, key: &str, entry: &Entry, now: u64) -> Result<Option<Step>, Failure> {
        let Some((namespace, name)) = claim_of_entry(key) else { return Ok(None) };
        let (place, entry_name) = (namespace.to_owned(), key.to_owned());
        let exists = self.caches.namespaces.exists("", namespace);
        if exists && self.ledgers.owner(namespace).name != owner {
            // What was only promised is decided anew, by the limits of the other team.
            let book = Entry { pending: None, ..entry.clone() };
            return Ok(Some(Step::Move { namespace: place, entry: entry_name, book }));
        }
        let is_orphan = entry.pending.is_none()
            && !self.caches.claims.exists(namespace, name)
            && !self.caches.users.exists("", &record_name(namespace, name));
        if !is_orphan && !entry.is_due(now) {
            return Ok(None);
        }
        let api: Api<S3UserClaim> = Api::namespaced(self.writer.client(), namespace);
        let live = read(api.get_opt(name)).await?;
        Ok(match live {
            None if is_orphan => Some(Step::Drop { namespace: place, entry: entry_name }),
            live if entry.is_due(now) => {
                let asks = live.as_ref().and_then(|live| self.caches.asks(namespace, name, live));
                Some(Step::Repair { namespace: place, entry: entry_name, asks, now })
            }
            _ => None,
        })
    }

    /// Whether a namespace that would use the ledger is there.
    fn is_needed(&self, stored: &S3QuotaLedger) -> bool {
        match (&stored.spec.team, &stored.spec.namespace) {
            (Some(team), _) => {
                let namespaces = self.caches.namespaces.all();
                namespaces.iter().any(|namespace| super::ledgers::team_of(namespace).as_ref() == Some(team))
            }
            (None, Some(namespace)) => self.caches.namespaces.exists("", namespace),
            (None, None) => true,
        }
    }
}

impl Reconciler for BookKeeper {
    type Seen = Seen;
    type Step = Step;

    fn work(&self) -> Work {
        LEDGER
    }

    fn all(&self) -> Vec<Key> {
        self.caches.books.all().iter().map(|ledger| Key::cluster(LEDGER, ledger.name_any())).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(stored) = self.caches.books.get("", &key.name) else { return Ok(None) };
        let (ledger, now) = (books::ledger(&stored.spec), now());
        let mut steps = Vec::new();
        for (name, entry) in &ledger.entries {
            steps.extend(self.step_for(&key.name, name, entry, now).await?);
        }
        if ledger.entries.is_empty() && !self.is_needed(&stored) {
            steps.push(Step::Close);
        }
        let pending = ledger.entries.values().filter_map(|entry| entry.pending.as_ref());
        let due =
            pending.map(|pending| (pending.at + croft_core::storage::ledger::GRACE.as_secs()).saturating_sub(now));
        let next = due.min().map(|seconds| Duration::from_secs(seconds.max(1)));
        Ok(Some(Seen { stored, steps, next }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        let plan = Plan { groups: vec![seen.steps.clone()], next: Next::Settled };
        match seen.next {
            Some(delay) => plan.look_again(delay),
            None => plan,
        }
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        let change: (&str, Change) = match step.clone() {
            Step::Repair { entry, asks, now, .. } => (
                step.namespace(),
                Arc::new(move |ledger: &mut Ledger, _: &Limits| {
                    ledger.repair(&entry, asks, now);
                    Ok(())
                }),
            ),
            Step::Drop { entry, .. } => (
                step.namespace(),
                Arc::new(move |ledger: &mut Ledger, _: &Limits| {
                    ledger.release(&entry);
                    Ok(())
                }),
            ),
            Step::Move { namespace, entry, book } => {
                let adopted = {
                    let entry = entry.clone();
                    move |ledger: &mut Ledger, _: &Limits| {
                        ledger.adopt(&entry, &book);
                        Ok(())
                    }
                };
                self.ledgers.change(&namespace, Arc::new(adopted)).await?;
                return Ok(self.ledgers.forget(&seen.stored, entry).await?);
            }
            Step::Close => {
                let (name, uid) = (seen.stored.name_any(), seen.stored.uid().unwrap_or_default());
                let target = Target { namespace: "", name: &name, uid: &uid };
                let version = seen.stored.resource_version();
                return self.writer.delete::<S3QuotaLedger>(target, version.as_deref()).await;
            }
        };
        Ok(self.ledgers.change_of(&seen.stored, change.0, change.1).await?)
    }

    fn report(&self, _: &Seen, _: &[(&Step, Outcome)], _: &Timestamp) -> Report {
        Report::default()
    }
}

impl Step {
    fn namespace(&self) -> &str {
        match self {
            Step::Repair { namespace, .. } | Step::Drop { namespace, .. } | Step::Move { namespace, .. } => namespace,
            Step::Close => "",
        }
    }
}
