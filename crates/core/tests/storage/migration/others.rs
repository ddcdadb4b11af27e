//! What others do to a migration, and what must hold at rest whatever they do.

use croft_core::storage::migration::{MoveState, Phase};

use super::world::{BEFORE, Policy, Whereabouts, World, moved};
use crate::explorer::Act;

impl World {
    pub(super) fn acts(&self) -> Vec<Act<World>> {
        vec![
            Act::new("the gateway goes, or comes back", self, |world| world.reachable = !world.reachable)
                .between_reconciles(),
            Act::new("the gateway cannot tell what the new owner has stored, or can again", self, |world| {
                world.untold = !world.untold;
            })
            .between_reconciles(),
            Act::new("somebody makes a bucket of that name there, or removes it", self, |world| {
                world.clash = !world.clash && !world.has_arrived();
            })
            .between_reconciles(),
            Act::new("somebody deletes the migration", self, |world| world.deleting = true).between_reconciles(),
            Act::new("the tenant makes another bucket", self, |world| world.more = true).between_reconciles(),
            // Only whose it is can do so, as long as it has no policy that refuses that.
            Act::new("the old owner shuts everybody out", self, |world| {
                if world.bucket == Whereabouts::Home {
                    world.policy = Policy::Shut;
                }
            }),
            Act::new("the old owner deletes the bucket", self, |world| {
                if world.bucket == Whereabouts::Home && world.policy != Policy::Shut {
                    (world.bucket, world.policy) = (Whereabouts::Gone, Policy::None);
                }
            }),
            Act::new("the key of the new owner goes, or comes back", self, |world| {
                world.target.key = !world.target.key;
            })
            .between_reconciles(),
            Act::new("the key of the old owner is lost, or replaced", self, |world| {
                world.current.key = !world.current.key && !world.current.claim_deleting;
            }),
            Act::new("a gateway has not heard whose the bucket is", self, |world| world.refuses = true),
            Act::new("the namespace it goes to is deleted", self, |world| {
                (world.namespace, world.target.claim_deleting) = (false, true);
            }),
            Act::new("the tenant deletes the second claim", self, |world| {
                (world.target.claim_deleting, world.target_went) = (true, world.target.held);
            })
            .between_reconciles(),
            Act::new("the old owner stores more than fits", self, |world| world.grown = true).between_reconciles(),
            Act::new("the old owner makes another bucket of that name", self, |world| {
                world.replaced = world.has_arrived();
            })
            .between_reconciles(),
            Act::new("the tenant deletes the first claim", self, |world| world.current.claim_deleting = true)
                .between_reconciles(),
        ]
    }

    pub(super) fn check(&self) {
        let is_gone = self.deleting && !self.finalizer;
        let (current, target) = (&self.current, &self.target);
        match self.status.phase {
            Some(Phase::Succeeded) => {
                // What no S3Bucket binds any more may be shut out, too.
                let is_shut = target.object.is_none() && self.policy == moved(&["one", "two"]);
                assert!(self.has_arrived() && (is_shut || self.policy == moved(&["two"])), "{:?}", self.policy);
                assert_eq!(current.object, None);
                assert!(target.remembers, "who had it is not known");
                let message = self.status.buckets[0].message.as_deref().unwrap_or_default();
                let is_told = message.contains("its lifecycle");
                assert!(self.looked_after || is_told, "the gateway does not know whose it is");
                assert_eq!(self.status.moved.as_deref(), Some("1/1"));
                assert!(!self.finalizer && self.status.buckets[0].state == MoveState::Moved);
            }
            Some(Phase::Failed) => {
                let is_kept = target.kept || target.keeps_all;
                let cannot_go_back = self.replaced && is_kept;
                assert!(!self.has_arrived() || cannot_go_back, "taken from its old owner in a migration that failed");
                let is_noted = self.status.buckets.first().is_some_and(|it| it.policy.as_deref() == Some(BEFORE));
                assert!(!self.has_arrived() || is_noted, "its policy is lost");
                assert!(current.claim || current.claim_deleting, "deleted a claim whose bucket did not move");
                let is_off = (self.bucket, &self.policy) == (Whereabouts::Home, &Policy::None);
                let (is_hopeless, is_noted) = (
                    !current.key && current.claim_deleting,
                    self.status.buckets.first().is_some_and(|it| it.policy.is_some()),
                );
                assert!(!is_off || (is_hopeless && is_noted), "its policy is lost");
            }
            Some(Phase::Running) => {
                let key_comes = !current.key && !current.claim_deleting;
                let target_key_comes = !target.key && !target.claim_deleting && !self.deleting;
                assert!(!self.reachable || target_key_comes || key_comes || self.untold, "hangs");
            }
            _ => {
                let waits = !current.claim || !target.claim || target.claim_deleting || !target.key || !current.key;
                assert!(is_gone || !self.reachable || self.untold || waits, "hangs");
            }
        }
        if self.status.phase != Some(Phase::Running) && self.reachable && !self.untold && target.key && current.key {
            assert!(!current.held && !target.held, "left somebody held");
        }
        if self.has_arrived() && self.target_went && self.status.phase != Some(Phase::Running) {
            assert!(target.kept || target.keeps_all, "what has come to a claim that went could be purged");
        }
        let claim_waits = current.claim && current.claim_deleting && current.held;
        assert!(!claim_waits || self.status.phase == Some(Phase::Running), "the claim waits for ever");
    }
}
