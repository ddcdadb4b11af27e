//! The books: every change of a ledger goes through here, in every replica, leading or not.
//!
//! Guarantees:
//! - a ledger is changed only at the version that was looked at; who comes second looks again;
//! - in each replica one task at a time works on a ledger, and takes along all that waits for it: one write answers many;
//! - nobody is refused by an old picture, neither of the ledger nor of the limits.

mod guests;
mod left;
mod unbooked;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_api::storage::{
    ClusterResourceQuota, S3QuotaLedger, S3QuotaLedgerSpec, S3TeamQuota, TEAM_LABEL, books, validate,
};
use croft_core::{
    name::is_dns_subdomain,
    plan::{Failure, FailureClass},
    storage::{
        bookkeeping::{beside_guests, books_of, needs_limits},
        claim::Books,
        ledger::{BooksOf, Bounds, Entry, Form, Ledger, Limits, Units, ledger_name},
    },
};
use k8s_openapi::{
    api::core::v1::{Namespace, ResourceQuota},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, ResourceExt, api::ListParams, core::PartialObjectMeta};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

pub(super) use self::unbooked::Unbooked;
use self::unbooked::busy;
use self::{guests::Comers, left::Left};
use super::{Caches, NAMESPACE_INDEX, TEAM_INDEX};
use crate::engine::{
    Written,
    write::{FIELD_MANAGER, call, read, resource_name, written},
};

/// Times a change is tried before whoever asked is told to come again.
const ATTEMPTS: u32 = 12;

/// What is wanted of a ledger: applied to it as it is, again where it has changed meanwhile.
pub(super) type Change = Arc<dyn Fn(&mut Ledger, &Limits) -> Result<(), Unbooked> + Send + Sync>;

struct Wish {
    /// Whose limits count; none where limits have no say.
    namespace: Option<String>,
    change: Change,
    answer: oneshot::Sender<Result<Written, Unbooked>>,
}

/// Whose ledger it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) name: String,
    team: Option<String>,
    namespace: String,
}

impl Owner {
    fn new(team: Option<String>, namespace: &str) -> Self {
        let name = ledger_name(team.as_deref(), namespace, hashed);
        Self { name, team, namespace: namespace.to_owned() }
    }

    /// Whether the ledger says so.
    pub(super) fn is_told_by(&self, ledger: &S3QuotaLedger) -> bool {
        (&ledger.spec.team, &ledger.spec.namespace) == (&self.team, &self.own_namespace())
    }

    /// The namespace, where it has no team.
    fn own_namespace(&self) -> Option<String> {
        self.team.is_none().then(|| self.namespace.clone())
    }
}

impl Caches {
    /// Whose books they are; nothing if neither their name nor what they say of themselves can be right.
    pub(super) fn books_of(&self, ledger: &S3QuotaLedger) -> Option<BooksOf> {
        let teams = || self.namespaces.all().into_iter().filter_map(|namespace| team_of(&namespace));
        let told = ledger.spec.team.clone();
        BooksOf::by_name(&ledger.name_any(), hashed, told.into_iter().chain(std::iter::once_with(teams).flatten()))
    }
}

#[derive(Clone)]
pub(super) struct Ledgers(Arc<Shared>);

struct Shared {
    client: Client,
    caches: Caches,
    /// By ledger: what waits. Present while a task works on it.
    waiting: Mutex<HashMap<String, Vec<Wish>>>,
    left: Left,
}

impl fmt::Debug for Ledgers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Ledgers")
    }
}

impl Ledgers {
    pub(super) fn new(client: Client, caches: Caches) -> Self {
        Self(Arc::new(Shared { client, caches, waiting: Mutex::default(), left: Left::default() }))
    }

    pub(super) fn owner(&self, namespace: &str) -> Owner {
        self.0.owner(namespace)
    }

    pub(super) fn owner_of(&self, ledger: &S3QuotaLedger) -> Owner {
        self.0.owner_of(ledger)
    }

    /// Changes the ledger of the namespace. Ends when the change is stored, or is known not to fit.
    pub(super) async fn change(&self, namespace: &str, change: Change) -> Result<Written, Unbooked> {
        let mut owner = self.owner(namespace);
        for _ in 0..ATTEMPTS {
            match self.ask(owner, Some(namespace), change.clone()).await {
                Err(Unbooked::Elsewhere(other)) => owner = other,
                done => return done,
            }
        }
        Err(Unbooked::Failed(busy()))
    }

    /// Changes the ledger of somebody, whatever its limits: what is booked was granted elsewhere.
    pub(super) async fn take_over(&self, owner: Owner, change: Change) -> Result<Written, Unbooked> {
        self.ask(owner, None, change).await
    }

    /// Changes this very ledger, whatever its namespaces belong to now.
    pub(super) async fn change_of(&self, stored: &S3QuotaLedger, change: Change) -> Result<Written, Unbooked> {
        self.ask(self.owner_of(stored), None, change).await
    }

    /// The ledger as it is stored now.
    pub(super) async fn read(&self, owner: &Owner) -> Result<Ledger, Failure> {
        Ok(books::ledger(&self.0.read(owner).await?.spec))
    }

    /// The entry `place` as far as the caches know.
    pub(super) fn entry(&self, namespace: &str, place: &str) -> Option<Entry> {
        let stored = self.0.caches.books.get("", &self.owner(namespace).name)?;
        stored.spec.entries.get(place).map(books::entry)
    }

    /// What the books say about the entry `place`, which is to have `wanted`. Limits are asked for only where something is to be
    /// granted.
    pub(super) async fn books(&self, namespace: &str, place: &str, wanted: Option<Units>) -> Result<Books, Failure> {
        let owner = self.owner(namespace);
        let stored = self.0.caches.books.get("", &owner.name);
        let entry = stored.as_ref().and_then(|stored| stored.spec.entries.get(place)).map(books::entry);
        let Some(units) = wanted.filter(|units| needs_limits(entry.as_ref(), *units)) else {
            return Ok(Books { entry, exceeded: None });
        };
        let (limits, guests) = (self.0.limits(&owner, namespace).await?, self.0.guests(&owner, &Comers::default()));
        let cached = stored.map(|stored| books::ledger(&stored.spec)).unwrap_or_default();
        let books = books_of(cached, guests, place, units, &limits);
        if books.exceeded.is_none() { Ok(books) } else { self.books_now(namespace, place, units).await }
    }

    /// The same, asked of the API server: nobody is refused by an old picture.
    async fn books_now(&self, namespace: &str, place: &str, units: Units) -> Result<Books, Failure> {
        let owner = self.0.owner_now(namespace).await?.unwrap_or_else(|| self.owner(namespace));
        let (limits, ledger) = futures::try_join!(self.0.limits(&owner, namespace), self.read(&owner))?;
        let mut comers = self.0.comers(&owner, [(namespace, true)]).await?;
        loop {
            let guests = self.0.guests(&owner, &comers);
            let books = books_of(ledger.clone(), guests.clone(), place, units, &limits);
            if books.exceeded.is_none() || !self.0.are_some_elsewhere(&owner, &guests, &mut comers).await? {
                return Ok(books);
            }
        }
    }

    async fn ask(&self, owner: Owner, namespace: Option<&str>, change: Change) -> Result<Written, Unbooked> {
        let (answer, answered) = oneshot::channel();
        let wish = Wish { namespace: namespace.map(str::to_owned), change, answer };
        let name = owner.name.clone();
        let is_idle = {
            let mut waiting = self.0.waiting();
            let is_idle = !waiting.contains_key(&name);
            waiting.entry(name).or_default().push(wish);
            is_idle
        };
        if is_idle {
            tokio::spawn(work(self.0.clone(), owner));
        }
        answered.await.unwrap_or_else(|_| Err(Unbooked::Failed(busy())))
    }
}

/// Whether a namespace is booked in the ledger at hand.
enum Place {
    Here(Limits),
    Elsewhere(Owner),
}

/// Ends the work on a ledger however it ends: whoever comes next begins it anew.
struct Shift {
    shared: Arc<Shared>,
    name: String,
    is_left: bool,
}

impl Drop for Shift {
    fn drop(&mut self) {
        if !self.is_left {
            self.shared.waiting().remove(&self.name);
        }
    }
}

/// Works on one ledger until nobody waits.
async fn work(shared: Arc<Shared>, owner: Owner) {
    let mut shift = Shift { shared: shared.clone(), name: owner.name.clone(), is_left: false };
    let mut known = shared.left.take_up(&owner.name, shared.caches.books.get("", &owner.name).as_deref());
    loop {
        let wishes = {
            let mut waiting = shared.waiting();
            let wishes = waiting.get_mut(&owner.name).map(std::mem::take).unwrap_or_default();
            if wishes.is_empty() {
                if let Some(known) = known {
                    shared.left.leave(known);
                }
                waiting.remove(&owner.name);
                // From now on it may be somebody else's.
                shift.is_left = true;
                return;
            }
            wishes
        };
        let answers = shared.book(&owner, &wishes, &mut known).await;
        for (wish, answer) in wishes.into_iter().zip(answers) {
            // Who no longer listens leaves a promise behind, which ends by itself.
            let _ = wish.answer.send(answer);
        }
    }
}

impl Shared {
    /// The ledger a namespace's claims are booked in, as far as the caches know. Of a namespace that is gone they know only where
    /// it is still booked.
    fn owner(&self, namespace: &str) -> Owner {
        let booked = || self.caches.books.by(NAMESPACE_INDEX, namespace).first().map(|ledger| self.owner_of(ledger));
        match self.caches.namespaces.get("", namespace) {
            Some(object) => Owner::new(team_of(&object), namespace),
            None => booked().unwrap_or_else(|| Owner::new(None, namespace)),
        }
    }

    /// Whose ledger it is; one that nobody can own is who it says it is.
    fn owner_of(&self, ledger: &S3QuotaLedger) -> Owner {
        let (team, namespace) = match self.caches.books_of(ledger) {
            Some(BooksOf::Team(team)) => (Some(team), None),
            Some(BooksOf::Namespace(namespace)) => (None, Some(namespace)),
            None => (ledger.spec.team.clone(), ledger.spec.namespace.clone()),
        };
        Owner { name: ledger.name_any(), team, namespace: namespace.unwrap_or_default() }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Vec<Wish>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all changes that fit in one write. `known` is the ledger as this replica last wrote it: enough to write it anew, which
    /// fails if it has changed, and not to say that something cannot or need not be done.
    async fn book(
        &self,
        owner: &Owner,
        wishes: &[Wish],
        known: &mut Option<S3QuotaLedger>,
    ) -> Vec<Result<Written, Unbooked>> {
        let failed = |failure: &Failure| wishes.iter().map(|_| Err(Unbooked::Failed(failure.clone()))).collect();
        let limits = match self.all_limits(owner, wishes).await {
            Ok(limits) => limits,
            Err(failure) => return failed(&failure),
        };
        let place_of = |wish: &Wish| wish.namespace.as_ref().and_then(|name| limits.get(name));
        let places = limits.iter().map(|(name, place)| (name.as_str(), matches!(place, Place::Here(_))));
        let mut comers = match self.comers(owner, places).await {
            Ok(comers) => comers,
            Err(failure) => return failed(&failure),
        };
        for attempt in 0..ATTEMPTS {
            let is_fresh = known.is_none();
            let stored = match known.take() {
                Some(stored) => stored,
                None => match self.read(owner).await {
                    Ok(stored) => stored,
                    Err(failure) => return failed(&failure),
                },
            };
            let before = books::ledger(&stored.spec);
            let mut after = before.clone();
            let none = Limits::default();
            // Who is taken over is no guest any more.
            let is_limited = |wish: &Wish| wish.namespace.is_some();
            let mut take_over = |wish: &Wish| (wish.change)(&mut after, &none);
            let done: Vec<_> = wishes.iter().map(|wish| (!is_limited(wish)).then(|| take_over(wish))).collect();
            let guests = self.guests(owner, &comers);
            let outcomes: Vec<_> = beside_guests(&mut after, guests.clone(), |ledger| {
                let mut make = |wish: &Wish| match place_of(wish) {
                    Some(Place::Elsewhere(other)) => Err(Unbooked::Elsewhere(other.clone())),
                    Some(Place::Here(limits)) => (wish.change)(ledger, limits),
                    None => (wish.change)(ledger, &none),
                };
                wishes.iter().zip(done).map(|(wish, done)| done.unwrap_or_else(|| make(wish))).collect()
            });
            if !is_fresh && (outcomes.iter().any(Result::is_err) || after == before) {
                continue;
            }
            if outcomes.iter().any(|outcome| matches!(outcome, Err(Unbooked::Exceeded(_)))) {
                match self.are_some_elsewhere(owner, &guests, &mut comers).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(failure) => return failed(&failure),
                }
            }
            let is_there = stored.metadata.resource_version.is_some();
            let is_right = if is_there { owner.is_told_by(&stored) } else { before.entries.is_empty() };
            let written = if after == before && is_right {
                *known = is_there.then_some(stored);
                Ok(Written::elsewhere())
            } else {
                self.write(owner, stored, &after).await.map(|stored| {
                    let written = written(&stored, &resource_name::<S3QuotaLedger>());
                    *known = Some(stored);
                    written
                })
            };
            match written {
                Ok(written) => {
                    return outcomes.into_iter().map(|outcome| outcome.map(|()| written.clone())).collect();
                }
                Err(failure) if failure.class == FailureClass::Stale || failure.reason == "NotFound" => {
                    tokio::time::sleep(pause(attempt)).await;
                }
                Err(failure) => return failed(&failure),
            }
        }
        failed(&busy())
    }

    async fn read(&self, owner: &Owner) -> Result<S3QuotaLedger, Failure> {
        let api: Api<S3QuotaLedger> = Api::all(self.client.clone());
        Ok(read(api.get_opt(&owner.name)).await?.unwrap_or_else(|| self.new_ledger(owner)))
    }

    /// A ledger that is not there is made of what Ceph has.
    fn new_ledger(&self, owner: &Owner) -> S3QuotaLedger {
        let namespaces = self.namespaces_of(owner);
        let users = namespaces.iter().flat_map(|namespace| self.caches.users.by(NAMESPACE_INDEX, namespace));
        let ledger = Ledger::rebuilt(users.filter_map(|user| {
            let (_, place) = super::entry_of(&user)?;
            let uid = user.spec.claim_ref.as_ref().and_then(|claim| claim.uid.clone());
            Some((place, uid, user.spec.quota.as_ref().and_then(validate::granted)))
        }));
        let spec = S3QuotaLedgerSpec {
            team: owner.team.clone(),
            namespace: owner.own_namespace(),
            entries: books::stored(&ledger).collect(),
        };
        S3QuotaLedger::new(&owner.name, spec)
    }

    async fn write(&self, owner: &Owner, mut stored: S3QuotaLedger, ledger: &Ledger) -> Result<S3QuotaLedger, Failure> {
        let api: Api<S3QuotaLedger> = Api::all(self.client.clone());
        let params = kube::api::PostParams { field_manager: Some(FIELD_MANAGER.into()), ..Default::default() };
        (stored.spec.team, stored.spec.namespace) = (owner.team.clone(), owner.own_namespace());
        stored.spec.entries = books::stored(ledger).collect();
        if stored.metadata.resource_version.is_none() {
            return call("create", api.create(&params, &stored)).await;
        }
        let name = stored.name_any();
        call("update", api.replace(&name, &params, &stored)).await
    }

    /// Where every namespace somebody asks for is booked, and its limits if that is here.
    async fn all_limits(&self, owner: &Owner, wishes: &[Wish]) -> Result<BTreeMap<String, Place>, Failure> {
        let names: BTreeSet<_> = wishes.iter().filter_map(|wish| wish.namespace.as_deref()).collect();
        let namespaces = futures::future::try_join_all(names.into_iter().map(|name| async move {
            let (live, bounds) = futures::try_join!(self.owner_now(name), self.namespace_bounds(name))?;
            Ok::<_, Failure>((name.to_owned(), live, bounds))
        }));
        let (team, namespaces) = futures::try_join!(self.team_bounds(owner), namespaces)?;
        let place = |live: Option<Owner>, namespace| match live.filter(|live| live.name != owner.name) {
            Some(other) => Place::Elsewhere(other),
            None => Place::Here(Limits { namespace, team }),
        };
        Ok(namespaces.into_iter().map(|(name, live, bounds)| (name, place(live, bounds))).collect())
    }

    /// Whose books a namespace is in by the label it has now; nothing if it is gone.
    async fn owner_now(&self, namespace: &str) -> Result<Option<Owner>, Failure> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let live = read(api.get_metadata_opt(namespace)).await?;
        let team = |live: &PartialObjectMeta<Namespace>| team_in(live.labels());
        Ok(live.as_ref().map(|live| Owner::new(team(live), namespace)))
    }

    /// What limits a namespace that is booked there, asked of the API server.
    async fn limits(&self, owner: &Owner, namespace: &str) -> Result<Limits, Failure> {
        let (team, namespace) = futures::try_join!(self.team_bounds(owner), self.namespace_bounds(namespace))?;
        Ok(Limits { namespace, team })
    }

    async fn namespace_bounds(&self, namespace: &str) -> Result<Bounds, Failure> {
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), namespace);
        let quotas = call("list", api.list(&ListParams::default())).await?;
        let hard = quotas.items.iter().filter_map(|quota| quota.spec.as_ref()?.hard.as_ref());
        Ok(hard.map(books::hard_bounds).fold(Bounds::default(), Bounds::and))
    }

    async fn team_bounds(&self, owner: &Owner) -> Result<Bounds, Failure> {
        let Some(team) = owner.team.as_deref() else { return Ok(Bounds::default()) };
        let known = self.caches.team_quotas.by(TEAM_INDEX, team);
        let mut names: BTreeSet<_> = known.iter().map(|quota| quota.name_any()).collect();
        names.extend(is_dns_subdomain(team).then(|| team.to_owned()));
        let api: Api<S3TeamQuota> = Api::all(self.client.clone());
        let quotas = futures::future::try_join_all(names.iter().map(|name| read(api.get_opt(name))));
        let (quotas, openshift) = futures::try_join!(quotas, self.openshift_bounds(team))?;
        let quotas = quotas.iter().flatten().filter(|quota| quota.team() == team);
        Ok(quotas.map(|quota| books::bounds(&quota.spec.hard)).fold(openshift, Bounds::and))
    }

    /// Where there is no such kind nobody is asked.
    async fn openshift_bounds(&self, team: &str) -> Result<Bounds, Failure> {
        if !self.caches.cluster_quotas.exists("", team) {
            return Ok(Bounds::default());
        }
        let api: Api<ClusterResourceQuota> = Api::all(self.client.clone());
        let quota = read(api.get_opt(team)).await?;
        Ok(quota.map(|quota| books::hard_bounds(&quota.spec.quota.hard)).unwrap_or_default())
    }
}

/// The time as the books have it.
pub(super) fn now() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default()
}

/// A claim as it is stored, or as a request leaves it: admission is shown it with UID and generation.
pub(super) fn form_of(claim: &ObjectMeta) -> Form {
    Form { uid: claim.uid.clone().unwrap_or_default(), generation: claim.generation.unwrap_or_default() }
}

pub(super) fn team_of(namespace: &Namespace) -> Option<String> {
    team_in(namespace.labels())
}

fn team_in(labels: &BTreeMap<String, String>) -> Option<String> {
    labels.get(TEAM_LABEL).filter(|team| !team.is_empty()).cloned()
}

/// For teams whose name cannot be that of an object.
pub(super) fn hashed(team: &str) -> String {
    let digest = Sha256::digest(team.as_bytes());
    let digits = digest.iter().take(16).flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// Replicas that met each other meet again later, and not at the same time.
fn pause(attempt: u32) -> Duration {
    let most = 4_u64 << attempt.min(6);
    Duration::from_millis(rand::random_range(0..=most))
}
