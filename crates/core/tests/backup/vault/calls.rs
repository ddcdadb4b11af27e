//! What a vault's steps do to its world, each where what it goes by still holds.

use croft_core::{backup::vault::Observed, plan::Outcome, storage::claim};

use super::world::{BUCKET, RecordState, UserState, VaultState, World, number, owner_shown, user};
use crate::{done, explorer::stale};

impl World {
    pub(super) fn number(&mut self, access_key: &str) -> u32 {
        let number = number(access_key);
        self.keys_used = self.keys_used.max(number / 1000);
        number
    }

    pub(super) fn on_vault(&mut self, seen: &Observed, change: impl FnOnce(&mut VaultState)) -> Outcome {
        if self.vault.as_ref().map(VaultState::seen) != seen.vault {
            return if self.vault.is_none() { done() } else { stale() };
        }
        self.edit(change);
        done()
    }

    /// Only the record exactly as it was seen.
    pub(super) fn on_record(&mut self, seen: &Observed, change: impl FnOnce(&mut Option<RecordState>)) -> Outcome {
        if self.record.is_none() || self.record.as_ref().map(RecordState::seen) != seen.record {
            return stale();
        }
        change(&mut self.record);
        done()
    }

    /// Ceph cannot be told to change only the user that was seen: what counts is what was proven.
    pub(super) fn on_user(&mut self, seen: &Observed, change: impl FnOnce(&mut UserState)) -> Outcome {
        let Some(found) = &mut self.user else { return stale() };
        let uid = seen.vault.as_ref().map(|vault| vault.target.uid.clone());
        let recorded = self.record.as_ref();
        let is_proven = Some(found.owner) == uid.as_deref()
            || recorded.is_some_and(|it| it.vault == found.owner || it.taken_over_from == Some(found.owner));
        assert!(is_proven || self.is_lost, "changed somebody else's user");
        change(found);
        done()
    }

    pub(super) fn on_ceph(&mut self, seen: &Observed, step: &claim::Step) -> Outcome {
        match step {
            claim::Step::CreateUser { user: name, display_name, max_buckets, access_key } => {
                assert_eq!((name, *max_buckets), (&user(), 1));
                if self.user.is_some() {
                    return stale();
                }
                assert!(self.record.is_some() || self.is_lost, "made a user that is not on record");
                let owner = owner_shown(display_name).expect("a vault of ours");
                let keys = [self.number(access_key)].into();
                self.user = Some(UserState { owner, suspended: false, size: None, keys, stored: None });
                done()
            }
            claim::Step::SetQuota { quota, .. } => self.on_user(seen, |user| user.size = quota.size),
            claim::Step::AddKey { access_key, .. } => {
                let number = self.number(access_key);
                self.on_user(seen, |user| user.keys.extend([number]))
            }
            claim::Step::RemoveKey { access_key, .. } => {
                let number = self.number(access_key);
                self.on_user(seen, |user| user.keys.retain(|key| *key != number))
            }
            claim::Step::SuspendUser { .. } => self.on_user(seen, |user| user.suspended = true),
            claim::Step::TakeOverUser { display_name, unsuspend, .. } => {
                let owner = owner_shown(display_name).expect("a vault of ours");
                self.on_user(seen, |user| {
                    assert!(user.keys.is_empty(), "somebody had the keys of a user that was given away");
                    user.owner = owner;
                    user.suspended &= !unsuspend;
                })
            }
            claim::Step::RemoveEmptyBucket { .. } => {
                if self.user.as_ref().is_some_and(|user| user.stored.is_some_and(|objects| objects > 0)) {
                    return stale();
                }
                self.on_user(seen, |user| user.stored = None)
            }
            claim::Step::PurgeBucket { bucket, .. } => {
                assert!(bucket == BUCKET && self.given_up, "purged what nobody gave up");
                self.on_user(seen, |user| user.stored = None)
            }
            claim::Step::RemoveUser { .. } => {
                if self.user.as_ref().is_some_and(|user| user.stored.is_some()) {
                    return stale();
                }
                let done = self.on_user(seen, |_| {});
                self.user = None;
                done
            }
            other => panic!("a vault needs no {other}"),
        }
    }
}
