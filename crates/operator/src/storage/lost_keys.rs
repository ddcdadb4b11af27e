//! Keys that a gateway lists and lets nobody in with: heeds for [`croft_core::storage::lost_keys`] how each use of a key ended, and
//! wakes whoever the key was made for when it is lost.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use croft_core::{
    plan::Failure,
    queue::Priority,
    storage::{
        CephUser, KeyPair,
        claim::User,
        lost_keys::{LostKeys as Known, Standing},
    },
};

use super::ceph::Ceph;
use crate::engine::{Clock, Key, Pusher};

/// What the gateway says of a key it does not know.
const UNKNOWN_KEY: &str = "InvalidAccessKeyId";

pub(super) struct LostKeys {
    pusher: Pusher,
    clock: Clock,
    known: Mutex<Known>,
}

/// A key that the gateway was asked with.
pub(super) struct Used<'a> {
    pub(super) ceph: &'a Ceph,
    pub(super) user: &'a CephUser,
    pub(super) key: &'a KeyPair,
    /// Whom it was made for.
    pub(super) holder: Key,
}

impl fmt::Debug for LostKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LostKeys")
    }
}

impl LostKeys {
    pub(super) fn new(pusher: Pusher) -> Self {
        Self { pusher, clock: Clock::start(), known: Mutex::default() }
    }

    /// The keys of a user that are lost.
    pub(super) fn among(&self, user: Option<&User>) -> BTreeSet<String> {
        let keys = user.into_iter().flat_map(|user| &user.keys).map(|key| key.pair.access_key.as_str());
        self.known().among(keys, self.clock.now())
    }

    /// Heeds how a use of a key ended. Tells how a key stands that was refused although its user has it.
    pub(super) async fn heed(&self, failure: Option<&Failure>, used: Used<'_>) -> Option<Standing> {
        let Used { ceph, user, key, holder } = used;
        let Some(failure) = failure else {
            self.known().worked(&key.access_key, self.clock.now());
            return None;
        };
        if failure.reason != UNKNOWN_KEY || !is_listed(ceph, user, key).await {
            return None;
        }
        let standing = self.known().refused(&ceph.gateway.address(), user, &key.access_key, self.clock.now());
        if standing == Standing::Lost {
            self.pusher.push(holder, Priority::Live);
        }
        Some(standing)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It may have been replaced since it was seen.
async fn is_listed(ceph: &Ceph, user: &CephUser, key: &KeyPair) -> bool {
    let user = ceph.user(user).await.ok().flatten();
    user.is_some_and(|user| user.keys.iter().any(|it| it.pair.access_key == key.access_key))
}
