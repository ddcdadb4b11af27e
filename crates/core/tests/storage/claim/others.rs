//! What people do to a claim and all that belongs to it, and what must hold whatever they do.

use croft_core::{
    plan::{Outcome, Plan},
    storage::{
        READONLY_SUBUSER,
        claim::{self, Observed, Phase, Step},
    },
    time::Timestamp,
};

use super::world::{
    BY_HAND, ClaimState, ClassState, EARLIER, NEW, RecordState, SUBUSER, SecretState, THEIRS, UserState, World,
};
use crate::explorer::{self, Act};

pub(super) const CLASSES: [ClassState; 5] =
    [ClassState::Retain, ClassState::Purge, ClassState::NotAllowed, ClassState::Gone, ClassState::Unreachable];

impl explorer::World for World {
    type Seen = Observed;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Observed)> {
        let is_there = self.claim.is_some() || self.record.is_some();
        is_there.then(|| ("claim", self.seen())).into_iter().collect()
    }

    fn plan(&self, seen: &Observed) -> Plan<Step> {
        let plan = claim::plan(seen);
        assert!(!format!("{plan} {plan:?}").contains("hush"), "a secret shows");
        plan
    }

    fn execute(&mut self, seen: &Observed, step: &Step) -> Outcome {
        self.carry_out(seen, step)
    }

    fn report(&mut self, seen: &Observed, outcomes: &[(&Step, Outcome)]) {
        let now = Timestamp("2026-01-01T00:00:00Z".into());
        let is_same = |claim: &&mut ClaimState| seen.claim.as_ref().is_some_and(|seen| seen.target.uid == claim.uid);
        if let (Some(claim), Some(status)) = (self.claim.as_mut().filter(is_same), claim::report(seen, outcomes, &now))
        {
            claim.status = status;
        }
    }

    fn others(&self) -> Vec<Act<World>> {
        let mut acts = self.acts_on_the_claim();
        acts.extend(self.acts_in_the_cluster());
        acts.extend(self.acts_on_the_user());
        acts
    }

    /// What the gateway was asked for was asked for long ago.
    fn passes(&self) -> Option<World> {
        let mut later = self.clone();
        later.record.as_mut()?.purge.as_mut().filter(|(_, long_ago)| !long_ago)?.1 = true;
        Some(later)
    }

    fn check_ours(&self, before: &World) {
        let adopts = before.record.as_ref().is_some_and(|record| record.adopts);
        assert_eq!(before.foreign(adopts), self.foreign(adopts), "touched what is somebody else's");
        let by_hand = |world: &World| world.user.as_ref().map(|user| user.subusers.contains_key(BY_HAND));
        assert!(self.user.is_none() || by_hand(before).is_none_or(|there| by_hand(self) == Some(there)));
    }

    fn check_rest(&self) {
        match &self.claim {
            Some(claim) if claim.deleting => {
                let may_have_user = self.granted.is_some() || claim.status.s3_user.is_some();
                let waits_for_gateway =
                    !self.is_reached() && !self.terminating && (self.record.is_some() || may_have_user);
                assert!(self.in_use || waits_for_gateway, "hangs for nothing");
            }
            Some(claim) => {
                self.check_a_staying_claim(claim);
                self.check_keys(claim);
            }
            None => {}
        }
        if self.claim.is_none() && !self.in_use && self.is_reached() {
            let left = self.record.as_ref().filter(|record| record.claim.is_some() && !record.misnamed);
            assert!(left.is_none_or(|record| record.phase == Phase::Released), "an orphan is left");
        }
    }
}

impl World {
    /// What is provably not of one of our claims, and not to be adopted.
    fn foreign(&self, adopts: bool) -> impl PartialEq + std::fmt::Debug {
        let is_foreign = |owner: Option<&str>| !matches!(owner, Some(NEW | EARLIER));
        let is_adopted = |owner: Option<&str>| owner == Some(THEIRS) && adopts;
        let user = self.user.clone().filter(|user| {
            let owner = user.owner.as_deref();
            is_foreign(owner) && !is_adopted(owner)
        });
        let secrets = self.secrets.clone().into_iter().filter(|(_, secret)| is_foreign(secret.owner.as_deref()));
        (
            user,
            secrets.collect::<Vec<_>>(),
            self.record.clone().filter(|record| record.claim.is_none() && !record.offered),
        )
    }

    fn act(&self, what: &str, change: impl FnOnce(&mut World)) -> Act<World> {
        Act::new(what, self, change)
    }

    fn acts_on_the_claim(&self) -> Vec<Act<World>> {
        let mut acts = Vec::new();
        if let Some(claim) = &self.claim {
            acts.push(self.act("the user deletes the claim", |world| world.edit(|claim| claim.deleting = true)));
            acts.push(self.act("the user edits the claim", |world| world.edit(|claim| claim.valid = !claim.valid)));
            acts.push(self.act("the user names a subuser, or no longer", |world| {
                world.edit(|claim| claim.subuser = !claim.subuser);
            }));
            let next = if claim.rotate == Some("first") { "second" } else { "first" };
            acts.push(self.act("the user asks for new keys", |world| world.edit(|claim| claim.rotate = Some(next))));
            if claim.finalizer {
                acts.push(self.act("the user removes our finalizer", |world| {
                    world.is_lost = true;
                    world.edit(|claim| claim.finalizer = false);
                }));
            }
        } else if let (Some(uid), false) = (self.next_uid, self.terminating) {
            acts.push(self.act("the user makes the claim anew", |world| {
                (world.claim, world.next_uid) = (Some(ClaimState::new(uid)), None);
            }));
        }
        if self.bound && self.claim.as_ref().is_none_or(|claim| claim.stamped) {
            acts.push(self.act("the class takes the claim away", |world| {
                world.bound = false;
                world.edit(|claim| claim.deleting = true);
            }));
        } else if let (None, Some(uid), false) = (&self.claim, self.next_uid, self.terminating) {
            acts.push(self.act("the class brings the claim again", |world| {
                let claim = ClaimState { stamped: true, ..ClaimState::new(uid) };
                (world.claim, world.next_uid, world.bound) = (Some(claim), None, true);
            }));
        }
        acts.push(self.act("the namespace is deleted", |world| {
            world.terminating = true;
            world.edit(|claim| claim.deleting = true);
        }));
        acts
    }

    fn acts_in_the_cluster(&self) -> Vec<Act<World>> {
        let mut acts: Vec<_> = CLASSES
            .into_iter()
            .filter(|class| *class != self.class)
            .map(|class| Act::new(format!("the class becomes {class:?}"), self, |world| world.class = class))
            .collect();
        if self.record.as_ref().is_some_and(|record| record.claim.is_some()) {
            acts.push(self.act("an administrator offers the S3User to whichever claim is there", |world| {
                world.record.iter_mut().for_each(|record| (record.claim, record.offered) = (None, true));
            }));
        }
        match &self.record {
            Some(_) => {
                acts.push(self.act("an administrator deletes the S3User", |world| {
                    (world.record, world.is_lost) = (None, true);
                }));
                acts.push(self.act("an administrator edits the S3User", |world| {
                    world.record.iter_mut().for_each(|record| record.size = 1);
                }));
            }
            None => acts.push(self.act("an administrator makes an S3User", |world| {
                world.record = Some(RecordState { uid: 9, ..RecordState::foreign() });
            })),
        }
        match self.secrets.get("admin") {
            Some(_) => {
                acts.push(self.act("somebody deletes the admin Secret", |world| drop(world.secrets.remove("admin"))));
                acts.push(self.act("somebody edits the admin Secret", |world| {
                    world.secrets.get_mut("admin").into_iter().for_each(|secret| secret.key = None);
                }));
            }
            None => acts.push(self.act("somebody makes a Secret of that name", |world| {
                world.secrets.insert("admin".into(), SecretState { owner: None, key: None });
            })),
        }
        if self.in_use {
            acts.push(self.act("the last S3Bucket goes", |world| world.in_use = false));
        } else if self.claim.as_ref().is_some_and(|claim| !claim.deleting) {
            acts.push(self.act("an S3Bucket comes", |world| world.in_use = true));
        }
        acts
    }

    fn acts_on_the_user(&self) -> Vec<Act<World>> {
        let Some(user) = &self.user else {
            return vec![self.act("a stranger makes the Ceph user", |world| {
                world.user = Some(UserState { owner: None, ..UserState::exactly(NEW) });
            })];
        };
        let change = |what: &str, change: fn(&mut UserState)| {
            Act::new(what, self, |world| world.user.iter_mut().for_each(change))
        };
        let mut acts = vec![
            change("the tenant stores something, or removes it all", |user| {
                user.stored = if user.stored == Some(2) { None } else { Some(2) };
                user.retained &= user.stored.is_some();
            }),
            change("the tenant makes a bucket, or empties it", |user| user.stored = Some(0)),
            change("an upload ends that began under a higher quota", |user| {
                user.stored = user.stored.map(|_| 7);
            }),
            change("an administrator suspends the user, or no longer", |user| user.suspended = !user.suspended),
            change("an administrator lifts the quota", |user| (user.size, user.buckets) = (None, None)),
            change("an administrator lets the subusers write", |user| {
                user.subusers.values_mut().for_each(|right| *right = false);
            }),
            change("an administrator removes the keys", |user| user.keys.clear()),
            change("an administrator removes the reader", |user| user.remove_subuser(READONLY_SUBUSER)),
            change("an administrator makes a subuser by hand", |user| {
                user.subusers.insert(BY_HAND.to_owned(), true);
                user.keys.insert(BY_HAND.to_owned(), [4].into());
            }),
            change("an administrator adds a key", |user| {
                user.keys.entry(String::new()).or_default().insert(5);
            }),
        ];
        // No call to the gateway can say which user it means but by name: between our look and our call it is the same.
        acts.push(self.act("an administrator removes the user", |world| world.user = None).between_reconciles());
        acts.retain(|act| !user.suspended || act.after.user.as_ref().is_none_or(|after| after.stored <= user.stored));
        acts
    }

    fn check_a_staying_claim(&self, claim: &ClaimState) {
        let conditions = &claim.status.conditions;
        let reason = conditions.reason("Ready").expect("a claim at rest has been told about");
        let ready = conditions.is_true("Ready");
        let is_offered = matches!(self.class, ClassState::Retain | ClassState::Purge);
        let is_served = self.is_complete(claim) && is_offered && claim.finalizer && claim.valid;
        assert_eq!(ready, is_served, "{reason}");
        assert!(!ready || claim.status.quota.is_some(), "ready without a grant");
        let stored = self.user.as_ref().and_then(UserState::counted).unwrap_or_default() * 1000;
        assert!(
            !ready || (self.booked(), self.granted) == (Some(stored.max(5000)), Some(5000)),
            "the books tell {:?}, granted {:?}: {stored} is stored",
            self.booked(),
            self.granted
        );
        let is_ours = |user: &UserState| matches!(user.owner.as_deref(), Some(NEW | EARLIER));
        let is_free = self
            .record
            .as_ref()
            .is_some_and(|record| record.offered || (record.returns && claim.stamped && self.bound));
        let waits_for_us = is_free && is_offered && claim.valid && self.user.as_ref().is_none_or(is_ours);
        assert!(!waits_for_us, "not bound to what it may have: {reason}");
        // What waits for no person waits for the gateway.
        let waits = reason == "GatewayUnreachable";
        assert!(ready || waits || conditions.is_true("Stalled"), "waits without a reason: {reason}");
    }

    /// Whether the claim has all it asks for.
    fn is_complete(&self, claim: &ClaimState) -> bool {
        let secret = |key: Option<u32>| SecretState { owner: Some(claim.uid.into()), key };
        let is_recorded =
            self.record.as_ref().is_some_and(|record| record.claim == Some(claim.uid) && record.size == 5000);
        is_recorded
            && self.user.as_ref().is_some_and(|user| {
                let names = ["", READONLY_SUBUSER].into_iter().chain(claim.subuser.then_some(SUBUSER));
                let is_served = |name: &str| {
                    let keys = user.keys.get(name).cloned().unwrap_or_default();
                    let handed_out = match name {
                        "" => "admin",
                        READONLY_SUBUSER => "read",
                        _ => "data-one",
                    };
                    keys.len() == 1 && self.secrets.get(handed_out) == Some(&secret(keys.first().copied()))
                };
                let exact = UserState::exactly(claim.uid);
                let limits = |user: &UserState| (user.owner.clone(), user.suspended, user.buckets, user.size);
                let of_old = [("old", true), ("data-one", !claim.subuser)];
                limits(user) == limits(&exact)
                    && names.clone().all(is_served)
                    && names.skip(1).all(|name| user.subusers.get(name) == Some(&true))
                    && of_old.iter().all(|(name, surplus)| !surplus || !self.is_our_secret(name, claim))
            })
    }

    fn is_our_secret(&self, name: &str, claim: &ClaimState) -> bool {
        self.secrets.get(name).is_some_and(|secret| secret.owner.as_deref() == Some(claim.uid))
    }

    /// What asking for new keys and naming subusers promise at rest.
    fn check_keys(&self, claim: &ClaimState) {
        let (Some(user), Some(record)) = (&self.user, &self.record) else { return };
        if !claim.status.conditions.is_true("Ready") {
            return;
        }
        if let (Some(asked), Some((recorded, retired))) = (claim.rotate, &record.rotation) {
            assert_eq!(asked, recorded, "a wish for new keys is forgotten");
            let ours = user.keys.iter().filter(|(name, _)| name.as_str() != BY_HAND).flat_map(|(_, keys)| keys);
            assert!(ours.clone().all(|key| !retired.contains(key)), "an old key still works");
        }
        assert_eq!(record.subuser, claim.subuser, "the record is not of those there are");
    }
}

#[test]
fn a_claim_whose_buckets_are_being_moved_gets_what_a_migration_may_need_and_stays_until_that_is_over() {
    let settled = explorer::at_rest(&World::new(ClassState::Purge));
    let held = |world: &World| {
        let holder = claim::Holder { name: "move".into(), uid: "uid-move".into() };
        let mut seen = world.seen();
        (seen.is_held, seen.record.as_mut().unwrap().body.held_by) = (true, Some(holder.clone()));
        (seen, holder)
    };
    let mut changed = settled.clone();
    changed.user.as_mut().unwrap().size = Some(1);
    changed.edit(|claim| claim.rotate = Some("once"));
    let (seen, holder) = held(&changed);
    let plan = claim::plan(&seen);
    let does = |wanted: fn(&Step) -> bool| plan.iter().any(wanted);
    assert!(does(|step| matches!(step, Step::SetQuota { .. })) && does(|step| matches!(step, Step::AddKey { .. })));
    let bodies = plan.iter().filter_map(|step| match step {
        Step::UpdateRecord { body, .. } => Some(body.held_by.clone()),
        _ => None,
    });
    assert!(bodies.eq([Some(holder)]), "it goes on being held: {plan}");

    let mut going = settled;
    going.user.as_mut().unwrap().stored = Some(2);
    going.edit(|claim| claim.deleting = true);
    let (seen, _) = held(&going);
    assert_eq!(claim::plan(&seen).to_string(), "nothing to do");
    let status = claim::report(&seen, &[], &Timestamp("2026-01-01T00:00:00Z".into())).unwrap();
    assert_eq!(status.conditions.reason("Ready"), Some("Migrating"));
}
