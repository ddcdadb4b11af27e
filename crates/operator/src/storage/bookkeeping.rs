//! S3QuotaLedger: observes for [`croft_core::storage::bookkeeping`] and carries out its steps.

use std::sync::Arc;

use croft_api::{
    backup::BackupVault,
    storage::{S3QuotaLedger, S3User, S3UserClaim, books},
};
use croft_core::{
    backup::vault,
    plan::{Failure, Outcome, Plan},
    storage::{
        bookkeeping::{self, Cached, Known, Look, Observed, Step, look},
        ledger::{Asks, BooksOf, Entry, Ledger, claim_of_entry, vault_of_entry},
        record_name,
    },
    time::Timestamp,
};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{Api, ResourceExt, api::ListParams};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{
    Caches, LEDGER,
    ledgers::{Change, Ledgers, form_of, now},
};
use crate::engine::{
    Key, Reconciler, Report, Target, Work, Writer, Written,
    write::{call, read},
};

/// How many claims are read side by side.
const CLAIMS_AT_ONCE: usize = 8;

#[derive(Debug)]
pub(super) struct BookKeeper {
    caches: Caches,
    writer: Writer,
    ledgers: Ledgers,
    /// Held from the look on by whoever moves entries: of two at once who move the same one, there and back, one could forget what
    /// the other has just brought.
    moving: Arc<Mutex<()>>,
}

#[derive(Debug)]
pub(super) struct Seen {
    stored: Arc<S3QuotaLedger>,
    observed: Observed,
    _moving: Option<OwnedMutexGuard<()>>,
}

impl BookKeeper {
    pub(super) fn new(caches: Caches, writer: Writer, ledgers: Ledgers) -> Self {
        Self { caches, writer, ledgers, moving: Arc::default() }
    }

    async fn look(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        let Some(stored) = self.caches.books.get("", &key.name) else { return Ok(None) };
        let (ledger, now) = (books::ledger(&stored.spec), now());
        let looks: Vec<_> = (ledger.entries.iter())
            .map(|(place, entry)| async move {
                let known = self.known(&key.name, place, entry, now).await?;
                Ok::<_, Failure>(known.map(|known| (place.clone(), known)))
            })
            .collect();
        let known: Vec<_> = stream::iter(looks).buffered(CLAIMS_AT_ONCE).try_collect().await?;
        let (known, is_needed) = (known.into_iter().flatten().collect(), self.is_needed(&stored));
        let is_mislabelled = !self.ledgers.owner_of(&stored).is_told_by(&stored);
        let observed = Observed { ledger, known, is_needed, is_mislabelled, now };
        Ok(Some(Seen { stored, observed, _moving: None }))
    }

    /// What matters of an entry; nothing, if all is well with it.
    async fn known(&self, books: &str, key: &str, entry: &Entry, now: u64) -> Result<Option<Known>, Failure> {
        let cached = claim_of_entry(key).map(|(namespace, name)| self.cached(namespace, name, entry));
        Ok(match look(books, key, entry, &cached.unwrap_or_default(), now) {
            Look::Nothing => None,
            Look::Known(known) => Some(known),
            Look::Claim { namespace, name } => {
                let api: Api<S3UserClaim> = Api::namespaced(self.writer.client(), namespace);
                Some(match read(api.get_opt(name)).await? {
                    None => Known::NoClaim { is_recorded: self.is_recorded_now(namespace, name).await? },
                    Some(claim) => Known::Claim { asks: self.asks(namespace, name, &claim) },
                })
            }
            Look::Vault { namespace, name } => {
                let api: Api<BackupVault> = Api::namespaced(self.writer.client(), namespace);
                let is_there = read(api.get_opt(name)).await?.is_some();
                (!is_there).then_some(Known::NoClaim { is_recorded: false })
            }
        })
    }

    /// What the caches know of the claim, or vault, an entry is for. Vaults are not watched here.
    fn cached(&self, namespace: &str, name: &str, entry: &Entry) -> Cached {
        let is_known = self.caches.namespaces.exists("", namespace);
        let claim = entry.pending.as_ref().and_then(|_| self.caches.claims.as_stored(namespace, name));
        Cached {
            ledger: is_known.then(|| self.ledgers.owner(namespace).name),
            is_there: self.caches.claims.exists(namespace, name),
            asks: claim.and_then(|claim| self.asks(namespace, name, &claim)),
            is_recorded: self.is_recorded(namespace, name),
        }
    }

    fn asks(&self, namespace: &str, name: &str, claim: &S3UserClaim) -> Option<Asks> {
        let units = self.caches.asks(namespace, name, claim)?;
        Some(Asks { form: form_of(&claim.metadata), units })
    }

    fn is_recorded(&self, namespace: &str, name: &str) -> bool {
        self.caches.users.exists("", &record_of(namespace, name))
    }

    /// The same, asked of the API server: a claim may leave a record behind that no watch has told of yet.
    async fn is_recorded_now(&self, namespace: &str, name: &str) -> Result<bool, Failure> {
        if self.is_recorded(namespace, name) {
            return Ok(true);
        }
        let api: Api<S3User> = Api::all(self.writer.client());
        let named = ListParams::default().fields(&format!("metadata.name={}", record_of(namespace, name))).limit(1);
        Ok(!call("list", api.list_metadata(&named)).await?.items.is_empty())
    }

    /// Whether a namespace that would use the ledger is there.
    fn is_needed(&self, stored: &S3QuotaLedger) -> bool {
        match self.caches.books_of(stored) {
            Some(BooksOf::Team(team)) => !self.caches.namespaces.by(super::TEAM_INDEX, &team).is_empty(),
            Some(BooksOf::Namespace(namespace)) => self.caches.namespaces.exists("", &namespace),
            None => true,
        }
    }

    async fn change(
        &self,
        seen: &Seen,
        change: impl Fn(&mut Ledger) + Send + Sync + 'static,
    ) -> Result<Written, Failure> {
        Ok(self.ledgers.change_of(&seen.stored, unlimited(change)).await?)
    }
}

/// The S3User of what an entry is for.
fn record_of(namespace: &str, name: &str) -> String {
    match vault_of_entry(name) {
        Some(vault) => vault::names::record_name(namespace, vault),
        None => record_name(namespace, name),
    }
}

/// A change limits have no say in.
fn unlimited(change: impl Fn(&mut Ledger) + Send + Sync + 'static) -> Change {
    Arc::new(move |ledger, _| {
        change(ledger);
        Ok(())
    })
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
        let seen = self.look(key).await?;
        if !seen.as_ref().is_some_and(|seen| seen.observed.has_to_move()) {
            return Ok(seen);
        }
        let moving = self.moving.clone().lock_owned().await;
        Ok(self.look(key).await?.map(|seen| Seen { _moving: Some(moving), ..seen }))
    }

    fn plan(&self, seen: &Seen, _: &Timestamp) -> Plan<Step> {
        bookkeeping::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &Step) -> Result<Written, Failure> {
        match step.clone() {
            // Whatever is written says it.
            Step::SayWhose => self.change(seen, |_| {}).await,
            Step::Repair { entry, asks, now } => {
                self.change(seen, move |ledger| ledger.repair(&entry, asks.as_ref(), now)).await
            }
            Step::Drop { entry, book } => {
                let dropped: Change = Arc::new(move |ledger, _| Ok(ledger.release(&entry, &book)?));
                Ok(self.ledgers.change_of(&seen.stored, dropped).await?)
            }
            Step::Forget { entry, book } => self.change(seen, move |ledger| ledger.forget(&entry, &book)).await,
            Step::TakeOver { entry, book, ledger } => {
                let namespace = claim_of_entry(&entry).map_or("", |(namespace, _)| namespace);
                let owner = self.ledgers.owner(namespace);
                if owner.name != ledger {
                    return Err(super::no_longer_there());
                }
                let taken: Change = Arc::new(move |ledger, _| Ok(ledger.take_over(&entry, &book)?));
                Ok(self.ledgers.take_over(owner, taken).await?)
            }
            Step::Close => {
                let (name, uid) = (seen.stored.name_any(), seen.stored.uid().unwrap_or_default());
                let target = Target { namespace: "", name: &name, uid: &uid };
                let version = seen.stored.resource_version();
                self.writer.delete::<S3QuotaLedger>(target, version.as_deref()).await
            }
        }
    }

    fn report(&self, _: &Seen, _: &[(&Step, Outcome)], _: &Timestamp) -> Report {
        Report::default()
    }
}
