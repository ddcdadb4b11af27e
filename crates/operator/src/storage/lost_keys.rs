//! Keys that a gateway lists and lets nobody in with: in a crash Ceph may lose the way from a key to its user. Who uses a key finds
//! that out; the claim has a new one made.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_core::{
    plan::Failure,
    queue::Priority,
    storage::{CephUser, KeyPair, bucket::Owner, claim::User},
    time::Instant,
};

use super::ceph::Ceph;
use crate::engine::{Clock, Key, Pusher};

/// What the gateway says of a key it does not know.
const UNKNOWN_KEY: &str = "InvalidAccessKeyId";

/// A key that was unknown once may only be too new for one of several gateways.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct LostKeys {
    pusher: Pusher,
    clock: Clock,
    /// Since when they are unknown, and whether that was long enough.
    unknown: Mutex<BTreeMap<String, (Instant, bool)>>,
}

impl fmt::Debug for LostKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LostKeys")
    }
}

impl LostKeys {
    pub(super) fn new(pusher: Pusher) -> Self {
        Self { pusher, clock: Clock::start(), unknown: Mutex::default() }
    }

    /// The keys of a user that are lost.
    pub(super) fn among(&self, user: Option<&User>) -> BTreeSet<String> {
        let unknown = self.unknown();
        let keys = user.into_iter().flat_map(|user| &user.keys).map(|key| &key.pair.access_key);
        keys.filter(|key| unknown.get(*key).is_some_and(|(_, is_lost)| *is_lost)).cloned().collect()
    }

    /// It is in use, or gone.
    pub(super) fn forget(&self, access_key: &str) {
        self.unknown().remove(access_key);
    }

    /// Heeds how the use of an owner's key ended: one that is unknown while its user still has it, for a while, is lost, and its claim
    /// is told.
    pub(super) async fn heed<T>(&self, used: &Result<T, Failure>, owner: &Owner, ceph: &Ceph, claim: Key) {
        let Owner::Ready { user, key, .. } = owner else { return };
        match used {
            Ok(_) => self.forget(&key.access_key),
            Err(failure) if failure.reason == UNKNOWN_KEY && is_listed(ceph, user, key).await => {
                let now = self.clock.now();
                let mut unknown = self.unknown();
                let (since, is_lost) = unknown.entry(key.access_key.clone()).or_insert((now, false));
                *is_lost = now.since(*since) >= PATIENCE;
                if *is_lost {
                    self.pusher.push(claim, Priority::Live);
                }
            }
            Err(_) => {}
        }
    }

    fn unknown(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, bool)>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It may have been replaced since it was seen.
async fn is_listed(ceph: &Ceph, user: &CephUser, key: &KeyPair) -> bool {
    let user = ceph.user(user, false).await.ok().flatten();
    user.is_some_and(|user| user.keys.iter().any(|it| it.pair.access_key == key.access_key))
}
