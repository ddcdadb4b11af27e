//! What namespaces bring along into a ledger: entries that still stand in books they have left.
//!
//! The caches may tell late where a namespace belongs. So it is asked anew for whoever wants something, who would else grow without
//! his own weight, and for everybody whose weight would have somebody refused.

use std::collections::{BTreeMap, BTreeSet};

use croft_api::storage::{S3QuotaLedger, books};
use croft_core::{
    plan::Failure,
    storage::{
        bookkeeping::{comers, guests},
        ledger::Ledger,
    },
};
use kube::{Api, ResourceExt};

use super::{
    super::{NAMESPACE_INDEX, TEAM_INDEX},
    Owner, Shared,
};
use crate::engine::write::read;

/// What was asked of the API server about those who may bring something along.
#[derive(Default)]
pub(super) struct Comers {
    /// Namespaces, and whether they belong here.
    proven: BTreeMap<String, bool>,
    /// Books that somebody who wants something has left: what this replica knows of them may be old.
    left: Vec<S3QuotaLedger>,
}

impl Shared {
    /// `proven`: namespaces that were just looked at, and whether they belong here.
    pub(super) async fn comers(
        &self,
        owner: &Owner,
        proven: impl IntoIterator<Item = (&str, bool)>,
    ) -> Result<Comers, Failure> {
        let proven: BTreeMap<_, _> = proven.into_iter().map(|(name, is_here)| (name.to_owned(), is_here)).collect();
        let here = proven.iter().filter(|(_, is_here)| **is_here).map(|(name, _)| name);
        let booked = here.flat_map(|name| {
            let cached = self.caches.books.by(NAMESPACE_INDEX, name);
            cached.iter().map(|ledger| ledger.name_any()).chain([self.owner(name).name]).collect::<Vec<_>>()
        });
        let names: BTreeSet<_> = booked.filter(|name| *name != owner.name).collect();
        let api: Api<S3QuotaLedger> = Api::all(self.client.clone());
        let left = futures::future::try_join_all(names.iter().map(|name| read(api.get_opt(name)))).await?;
        Ok(Comers { proven, left: left.into_iter().flatten().collect() })
    }

    /// What namespaces of the owner have in books they have left.
    pub(super) fn guests(&self, owner: &Owner, asked: &Comers) -> Ledger {
        let is_asked = |name: &str| asked.left.iter().any(|ledger| ledger.name_any() == name);
        let mut brought = Vec::new();
        for namespace in comers(self.namespaces_of(owner), &asked.proven) {
            let cached = self.caches.books.by(NAMESPACE_INDEX, &namespace);
            let others =
                cached.iter().filter(|ledger| ledger.name_any() != owner.name && !is_asked(&ledger.name_any()));
            let others = others.map(|ledger| &ledger.spec).chain(asked.left.iter().map(|ledger| &ledger.spec));
            brought.extend(others.map(|spec| books::of_namespace(spec, &namespace)));
        }
        guests(brought)
    }

    /// Looks at everybody whose weight counts here and who was not looked at yet: whether some turn out to be elsewhere.
    pub(super) async fn are_some_elsewhere(
        &self,
        owner: &Owner,
        guests: &Ledger,
        asked: &mut Comers,
    ) -> Result<bool, Failure> {
        let sums = guests.sums();
        let unproven: Vec<_> = sums.into_keys().filter(|name| !asked.proven.contains_key(*name)).collect();
        let looks = unproven.into_iter().map(|name| async move {
            let live = self.owner_now(name).await?;
            Ok::<_, Failure>((name.to_owned(), live.is_none_or(|live| live.name == owner.name)))
        });
        let looked = futures::future::try_join_all(looks).await?;
        let are_some_elsewhere = looked.iter().any(|(_, is_here)| !is_here);
        asked.proven.extend(looked);
        Ok(are_some_elsewhere)
    }

    /// The namespaces that are booked there, as far as the caches know.
    pub(super) fn namespaces_of(&self, owner: &Owner) -> Vec<String> {
        match &owner.team {
            Some(team) => self.caches.namespaces.by(TEAM_INDEX, team).iter().map(|it| it.name_any()).collect(),
            None => vec![owner.namespace.clone()],
        }
    }
}
