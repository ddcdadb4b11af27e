//! Keys that a gateway lists and lets nobody in with: in a crash Ceph may lose the way from a key to its user. Who uses a key finds
//! that out; whoever it was made for has a new one made.
//!
//! - A key that is too new for one of several gateways looks just the same, so one that nobody was seen to get in with has long.
//! - Whatever gateways say, no more than one key of a user is given up in an hour, and of all users of one gateway no more than a few:
//!   where many are refused it is the gateway that has lost its way.
//! - What was seen long ago proves nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::CephUser;
use crate::{
    budget::{Budget, Budgets},
    time::Instant,
};

/// A key that was in use is lost when it was refused for this long,
pub const PATIENCE: Duration = Duration::from_secs(30);
/// one that nobody was seen to get in with when it was for this long.
pub const LONG_PATIENCE: Duration = Duration::from_secs(15 * 60);
/// One key of a user in this time.
pub const PAUSE: Duration = Duration::from_secs(60 * 60);
/// Keys at one gateway that may be given up right after each other,
pub const AT_ONCE: u32 = 3;
/// and how long until there may be one more.
pub const ONE_MORE: Duration = Duration::from_secs(20 * 60);
/// What was not seen again for this long is forgotten. Keys in use are used more often: all is looked at every ten minutes.
pub const MEMORY: Duration = Duration::from_secs(60 * 60);

/// What the refusal of a key means that its user still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may be over in a moment.
    New,
    /// It lasts, but not long enough yet; or another key of the user, or too many at the gateway, were given up not long ago.
    Doubted,
    Lost,
}

/// What is known of keys, by their names.
#[derive(Clone, Debug)]
pub struct LostKeys {
    known: BTreeMap<String, Evidence>,
    given_up: Budgets<CephUser>,
    /// By gateway.
    given_up_at: Budgets<String>,
    /// More than so many are worth a look at which of them can be forgotten.
    many: usize,
}

#[derive(Clone, Copy, Debug)]
struct Evidence {
    /// When the key was last used.
    at: Instant,
    /// Whether it ever let anybody in.
    has_worked: bool,
    /// Since when it does not.
    refused_since: Option<Instant>,
    is_lost: bool,
}

impl Default for LostKeys {
    fn default() -> Self {
        Self {
            known: BTreeMap::new(),
            given_up: Budgets::new(Budget::new(1, PAUSE)),
            given_up_at: Budgets::new(Budget::new(AT_ONCE, ONE_MORE)),
            many: 0,
        }
    }
}

impl LostKeys {
    /// Somebody got in with the key.
    pub fn worked(&mut self, access_key: &str, now: Instant) {
        self.note(access_key, Evidence { at: now, has_worked: true, refused_since: None, is_lost: false });
    }

    /// The gateway does not know a key that `user` has.
    pub fn refused(&mut self, gateway: &str, user: &CephUser, access_key: &str, now: Instant) -> Standing {
        let before = self.known.get(access_key).filter(|seen| seen.is_remembered(now));
        let has_worked = before.is_some_and(|seen| seen.has_worked);
        let since = before.and_then(|seen| seen.refused_since).unwrap_or(now);
        let was_lost = before.is_some_and(|seen| seen.is_lost);
        let lasts = now.since(since);
        let is_due = lasts >= if has_worked { PATIENCE } else { LONG_PATIENCE };
        let is_lost = was_lost || (is_due && self.may_give_up(gateway, user, now));
        self.note(access_key, Evidence { at: now, has_worked, refused_since: Some(since), is_lost });
        if is_lost {
            Standing::Lost
        } else if lasts >= PATIENCE {
            Standing::Doubted
        } else {
            Standing::New
        }
    }

    /// Whoever may not takes nothing from the others at the gateway.
    fn may_give_up(&mut self, gateway: &str, user: &CephUser, now: Instant) -> bool {
        self.given_up.wait(user, now).is_zero()
            && self.given_up_at.spend(gateway.to_owned(), now)
            && self.given_up.spend(user.clone(), now)
    }

    /// Those of the keys that are lost.
    pub fn among<'k>(&self, keys: impl Iterator<Item = &'k str>, now: Instant) -> BTreeSet<String> {
        let is_lost = |key: &&str| self.known.get(*key).is_some_and(|seen| seen.is_lost && seen.is_remembered(now));
        keys.filter(is_lost).map(str::to_owned).collect()
    }

    fn note(&mut self, access_key: &str, seen: Evidence) {
        self.known.insert(access_key.to_owned(), seen);
        // Twice as many as were left the last time: on the whole each is looked at once for every time it is noted.
        if self.known.len() > self.many {
            self.known.retain(|_, known| known.is_remembered(seen.at));
            self.many = self.known.len().saturating_mul(2);
        }
    }
}

impl Evidence {
    fn is_remembered(&self, now: Instant) -> bool {
        now.since(self.at) < MEMORY
    }
}
