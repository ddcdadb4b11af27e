//! Since when the policies around Velero are as they are. An API server takes a policy up some time after it is stored, each in its
//! own: until then what the policy would refuse passes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use croft_core::{
    backup::{settles_in, stands_for},
    plan::{Failure, FailureClass},
};
use kube::ResourceExt;

use super::{Caches, request};
use crate::{engine::Change, policies::Fence};

/// When each policy and each binding was last seen to change, by kind and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Since(Arc<Mutex<BTreeMap<(&'static str, String), Instant>>>);

impl Since {
    const POLICY: &'static str = "policy";
    const BINDING: &'static str = "binding";

    pub(super) fn note_policy<K: ResourceExt>(&self, change: &Change<'_, K>) {
        self.note(Self::POLICY, change);
    }

    pub(super) fn note_binding<K: ResourceExt>(&self, change: &Change<'_, K>) {
        self.note(Self::BINDING, change);
    }

    fn note<K: ResourceExt>(&self, kind: &'static str, change: &Change<'_, K>) {
        let place = (kind, change.object().name_any());
        let Some(after) = change.after else {
            self.all().remove(&place);
            return;
        };
        let generation = |side: &K| (side.uid(), side.meta().generation);
        if change.before.map(generation) == Some(generation(after)) {
            return;
        }
        let now = Instant::now();
        let was_there = change.before.is_none() && !change.live;
        let stands = stands_for(was_there, after.meta().generation, request::age(after));
        self.all().insert(place, now.checked_sub(stands).unwrap_or(now));
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String), Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Caches {
    /// Names of those of the policies that are not there exactly as they should be. Whoever relies on them is early as long as one has
    /// only just come.
    pub(super) fn missing(&self, fences: impl IntoIterator<Item = Fence>) -> Result<Vec<String>, Failure> {
        let (mut missing, mut youngest) = (Vec::new(), None);
        for (policy, binding) in fences {
            let name = policy.name_any();
            let is_there = self.policies.get("", &name).is_some_and(|found| found.spec == policy.spec);
            let is_bound = self.bindings.get("", &name).is_some_and(|found| found.spec == binding.spec);
            if !is_there || !is_bound {
                missing.push(name);
                continue;
            }
            let since = self.since.all();
            let places = [(Since::POLICY, name.clone()), (Since::BINDING, name)];
            youngest = youngest.max(places.iter().filter_map(|place| since.get(place).copied()).max());
        }
        let wait = youngest.and_then(|since: Instant| settles_in(since.elapsed()));
        match wait.filter(|_| missing.is_empty()) {
            Some(wait) => Err(Failure::new(FailureClass::Early { wait }, "PoliciesSettle", "a policy has just come")),
            None => Ok(missing),
        }
    }
}
