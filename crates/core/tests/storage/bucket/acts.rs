//! What people do to a bucket and its S3Bucket.

use std::time::Duration;

use super::{Asked, InCeph, Limit, OWNERS, Policy, World};
use crate::explorer::Act;

impl World {
    pub(super) fn acts(&self) -> Vec<Act<World>> {
        let mut acts: Vec<_> = OWNERS
            .into_iter()
            .filter(|owner| *owner != self.owner)
            .map(|owner| Act::new(format!("its claim's user becomes {owner:?}"), self, |world| world.owner = owner))
            .collect();
        acts.extend(match self.ceph {
            None => vec![
                Act::new("the tenant makes the bucket", self, |world| {
                    (world.ceph, world.may_be_left) = (Some(InCeph::Empty), true);
                }),
                Act::new("another user makes the bucket", self, |world| world.ceph = Some(InCeph::Foreign))
                    .between_reconciles(),
            ],
            Some(InCeph::Empty) => vec![
                Act::new("the tenant stores something", self, |world| world.ceph = Some(InCeph::Filled)),
                Act::new("the tenant removes the bucket", self, World::remove),
                Act::new("the tenant sets a policy", self, |world| world.policy = Policy::Theirs),
                Act::new("the tenant shuts out everybody", self, |world| world.policy = Policy::Unreadable),
                Act::new("the administrator sets a quota", self, |world| world.quota = Limit::Theirs),
            ],
            Some(InCeph::Filled) => {
                vec![Act::new("the tenant empties the bucket", self, |world| world.ceph = Some(InCeph::Empty))]
            }
            Some(InCeph::Foreign) => {
                vec![Act::new("the other user removes the bucket", self, |world| world.ceph = None)]
            }
        });
        if let Some(object) = &self.object {
            let all = [Asked::Delete, Asked::Retain, Asked::Nonsense, Asked::RetainNonsense];
            for asked in all.into_iter().filter(|it| *it != object.asked) {
                acts.push(Act::new(format!("the user asks for {asked:?}"), self, |world| {
                    world.edit(|object| object.asked = asked);
                }));
            }
            acts.push(Act::new("the user changes the wish for a quota", self, |world| {
                world.edit(|object| object.quota = !object.quota);
            }));
            acts.push(Act::new("the user deletes the S3Bucket", self, |world| {
                world.edit(|object| object.deleting = object.deleting.or(Some(Duration::ZERO)));
            }));
            acts.push(Act::new("the user removes our finalizer", self, |world| {
                (world.let_go_by_hand, world.may_be_left) = (true, true);
                world.edit(|object| object.finalizer = false);
            }));
        }
        if self.record_is_gone && !self.claim_goes {
            acts.push(Act::new(
                "its claim makes its S3User anew, and keeps what no S3Bucket answers for",
                self,
                |world| {
                    let is_answered_for = world.object.as_ref().is_some_and(|object| object.finalizer);
                    (world.record_is_gone, world.left) = (false, false);
                    world.kept = world.is_ours() && !is_answered_for;
                },
            ));
        }
        acts.push(Act::new("the class no longer wants the S3Bucket", self, |world| {
            world.unwanted = true;
            world.edit(|object| object.deleting = object.deleting.or(Some(Duration::ZERO)));
        }));
        acts.push(Act::new("the namespace is deleted", self, |world| {
            world.terminating = true;
            world.edit(|object| object.deleting = object.deleting.or(Some(Duration::ZERO)));
        }));
        acts
    }
}
