//! What the API server and the gateway make of each step. Panics as soon as one breaks a promise.

use std::collections::{BTreeMap, BTreeSet};

use croft_core::{
    plan::{Failure, FailureClass, Outcome},
    storage::{
        CephUser, OnDelete, READONLY_SUBUSER,
        claim::{Access, Backend, Claim, Observed, Phase, Record, SecretBody, Step},
    },
};

use super::world::{
    BUCKET, ClaimState, ClassState, EARLIER, RECORD, RecordState, SUBUSER, SecretState, THEIRS, UserState, World,
    number_of, owner_shown, pair, shown, user,
};
use crate::explorer::stale;

/// UID of the S3User we make.
const MADE: u32 = 7;

impl World {
    /// Whether the API server would take a write meant for the claim as it was seen.
    fn is_claim_unchanged(&self, seen: &Observed) -> bool {
        self.claim.as_ref().map(ClaimState::seen) == seen.claim
    }

    fn is_record_unchanged(&self, seen: &Observed) -> bool {
        self.record.as_ref().map(RecordState::observe) == seen.record
    }

    fn use_key(&mut self, access_key: &str) -> u32 {
        let number = number_of(access_key);
        // All names of one look begin alike.
        self.keys_used = self.keys_used.max(number / 1000);
        number
    }

    /// The user, which must have been proven to be of the claim that is served. Ceph cannot be told to change only that
    /// one, so that what counts is what was seen.
    fn served_user(&mut self, seen: &Observed) -> Option<&mut UserState> {
        let claim = seen.claim.as_ref().expect("changed a user for nobody");
        let user = self.user.as_mut()?;
        let gives =
            |record: &RecordState| record.claim == Some(&claim.target.uid) && record.taken_over_from == user.owner;
        let is_own = user.owner.as_ref() == Some(&claim.target.uid);
        let is_given = self.record.as_ref().is_some_and(gives);
        let is_adopted = user.owner.as_deref() == Some(THEIRS) && seen.record.as_ref().is_some_and(|it| it.adopts);
        assert!(is_own || is_given || is_adopted || self.is_lost, "changed the user of another claim");
        assert!(!claim.deleting, "furnished the user of a claim that goes");
        Some(user)
    }

    /// The user, which must have been proven to be of a claim that goes or is gone, and needed by no S3Bucket.
    fn orphaned_user(&mut self, seen: &Observed) -> Option<&mut UserState> {
        let user = self.user.as_mut()?;
        let owner = user.owner.as_deref().expect("a user without owner is not ours to take down");
        let stays = |claim: &Claim| claim.target.uid == owner && !claim.deleting;
        assert!(!seen.claim.as_ref().is_some_and(stays), "took down the user of a living claim");
        assert!(seen.buckets.is_empty(), "took down the user of S3Buckets that still need it");
        let goes = seen.claim.as_ref().is_some_and(|claim| claim.target.uid == owner);
        let recorded = seen.record.as_ref().and_then(Record::claim_uid);
        let is_given =
            seen.record.as_ref().and_then(|record| record.body.taken_over_from.as_deref()) == Some(&shown(owner));
        let is_offered = self.record.as_ref().is_some_and(|record| record.offered) && owner != THEIRS;
        let is_given_up = is_offered && self.class == ClassState::GiveUp;
        assert!(goes || is_given || is_given_up || recorded == Some(owner), "took down the user of {owner}");
        Some(user)
    }

    pub(super) fn carry_out(&mut self, seen: &Observed, step: &Step) -> Outcome {
        let outcome = self.change(seen, step);
        self.is_lost &= !self.is_whole();
        outcome
    }

    /// Whether claim, record and user are each other's.
    fn is_whole(&self) -> bool {
        let owner = self.user.as_ref().and_then(|user| user.owner.as_deref());
        let recorded = self.record.as_ref().and_then(|record| record.claim);
        let is_whole = |claim: &ClaimState| claim.finalizer && [owner, recorded] == [Some(claim.uid); 2];
        self.claim.as_ref().is_some_and(is_whole)
    }

    fn change(&mut self, seen: &Observed, step: &Step) -> Outcome {
        match step {
            Step::AddFinalizer { .. } if !self.is_claim_unchanged(seen) => return stale(),
            Step::AddFinalizer { .. } => {
                assert!(!seen.claim.as_ref().is_some_and(|claim| claim.deleting));
                self.edit(|claim| claim.finalizer = true);
            }
            Step::RemoveFinalizer { .. } => return self.remove_finalizer(seen),
            Step::Confirm { units, .. } => {
                self.granted = Some(self.granted.unwrap_or_default().max(units.size));
                self.overrun = self.overrun.filter(|size| Some(*size) > self.granted);
            }
            Step::Settle { seen, .. } | Step::ReleaseQuota { seen, .. }
                if self.books().entry.as_ref() != Some(seen) =>
            {
                return stale();
            }
            Step::Settle { has: settled, .. } => {
                let has = self.user.as_ref().and_then(|user| user.size).unwrap_or_default();
                assert!(has <= settled.granted.size, "gave back what Ceph still has");
                assert!(Some(settled.granted.size) <= self.granted, "granted what is only stored");
                self.granted = Some(settled.granted.size);
                self.overrun = settled.stored.map(|stored| stored.size);
            }
            Step::ReleaseQuota { .. } => {
                let left = self.user.as_ref().is_some_and(|user| user.owner.is_some());
                assert!(!left || self.is_lost, "gave back the quota of a user that is still there");
                let going = seen.claim.as_ref().filter(|claim| claim.deleting).map(|claim| claim.target.uid.as_str());
                let recorded = seen
                    .record
                    .as_ref()
                    .map(|record| record.claim_uid().or(record.misnamed.as_ref().map(|named| named.uid.as_str())));
                let is_anothers = going.zip(recorded).is_some_and(|(going, recorded)| recorded != Some(going));
                assert!(!is_anothers, "gave back what another claim of the name has on record");
                (self.granted, self.overrun) = (None, None);
            }
            Step::CreateRecord { .. }
            | Step::UpdateRecord { .. }
            | Step::MarkRecord { .. }
            | Step::DeleteRecord { .. } => {
                return self.change_record(seen, step);
            }
            Step::CreateSecret { .. } | Step::UpdateSecret { .. } | Step::DeleteSecret { .. } => {
                return self.change_secret(seen, step);
            }
            _ if !self.is_reached() => return unreachable_gateway(),
            step => return self.change_ceph(seen, step),
        }
        Outcome::done()
    }

    fn change_record(&mut self, seen: &Observed, step: &Step) -> Outcome {
        let is_unchanged = self.is_record_unchanged(seen);
        match (step, &mut self.record) {
            (Step::CreateRecord { name, body }, place @ None) => {
                assert_eq!(name, RECORD);
                let claim = self.claim.as_ref();
                let is_held = claim.is_some_and(|claim| claim.finalizer || claim.deleting);
                assert!(is_held || self.is_lost, "recorded before the finalizer");
                *place = Some(RecordState { uid: MADE, ..RecordState::of(body) });
            }
            (Step::DeleteRecord { .. }, None) => {}
            (Step::CreateRecord { .. }, Some(_)) | (_, None) => return stale(),
            (
                Step::UpdateRecord { .. } | Step::DeleteRecord { .. } | Step::MarkRecord { seen: Some(_), .. },
                Some(_),
            ) if !is_unchanged => {
                return stale();
            }
            (Step::UpdateRecord { body, .. }, Some(record)) => {
                assert!(record.claim.is_some() || record.offered, "changed an S3User that is not ours");
                let RecordState { claim, taken_over_from, moved_away, complete, size, subuser, rotation, .. } =
                    RecordState::of(body);
                let (offered, misnamed) = (false, false);
                *record = RecordState {
                    claim,
                    offered,
                    taken_over_from,
                    misnamed,
                    moved_away,
                    complete,
                    size,
                    subuser,
                    rotation,
                    ..record.clone()
                };
            }
            // Whoever was made a moment ago is marked at the version it was made with.
            (Step::MarkRecord { seen: None, .. }, Some(record)) if record.uid != MADE || record.offered => {
                return stale();
            }
            (Step::MarkRecord { mark, .. }, Some(record)) => {
                let is_given_up = record.offered && self.class == ClassState::GiveUp;
                assert!(record.claim.is_some() || is_given_up, "marked an S3User that is not ours");
                let was_kept = record.observe().set_aside.keeps(BUCKET);
                let is_there = self.user.as_ref().is_none_or(|user| user.stored.is_some());
                let keeps = mark.set_aside.keeps(BUCKET) || (record.everything && !is_there);
                assert!(keeps || !was_kept, "forgot a bucket that is kept");
                let takes_back = record.phase == Phase::Released && mark.phase == Phase::Removing;
                assert!(!takes_back || self.class == ClassState::GiveUp, "took back what was let go");
                record.kept = mark.set_aside.kept.contains(BUCKET);
                record.left = mark.set_aside.left.contains(BUCKET);
                record.everything = mark.set_aside.everything;
                record.purge = mark.purge.as_ref().map(|purge| (purge.objects, false));
                assert!(mark.returns_to.is_none() || mark.phase != Phase::Bound, "comes back although it is there");
                record.returns = mark.returns_to.is_some();
                record.phase = mark.phase;
                record.reason = Some(mark.reason.as_str().to_owned());
            }
            (Step::DeleteRecord { .. }, Some(record)) => {
                let is_given_up = record.offered && self.class == ClassState::GiveUp;
                assert!(record.claim.is_some() || is_given_up, "deleted an S3User that is not ours");
                let of_record =
                    |owner: &str| Some(owner) == record.claim || Some(owner) == record.taken_over_from.as_deref();
                let left = self.user.as_ref().and_then(|user| user.owner.as_deref()).is_some_and(of_record);
                assert!(!left, "forgot a user that is still there");
                self.record = None;
            }
            (other, _) => panic!("{other} is not about the S3User"),
        }
        Outcome::done()
    }

    fn change_secret(&mut self, seen: &Observed, step: &Step) -> Outcome {
        let claim = seen.claim.as_ref().expect("a Secret for nobody");
        let is_unchanged = |world: &Self, name: &str| {
            let seen = seen.secrets.iter().find(|secret| secret.target.name == name);
            world.secrets.get(name).map(|secret| secret.observe(name, world.class)).as_ref() == seen
        };
        let is_ours = |world: &Self, name: &str| {
            world.secrets[name].owner.as_deref().is_some_and(|owner| owner == claim.target.uid || owner == EARLIER)
        };
        match step {
            Step::CreateSecret { name, .. } if self.secrets.contains_key(name) => return stale(),
            Step::CreateSecret { name, body, .. } => self.put_secret(claim, name, body),
            Step::DeleteSecret { secret } if !self.secrets.contains_key(&secret.name) => {}
            Step::UpdateSecret { secret, .. } | Step::DeleteSecret { secret } if !is_unchanged(self, &secret.name) => {
                return stale();
            }
            Step::UpdateSecret { secret, body } => {
                assert!(is_ours(self, &secret.name), "changed a Secret that is not ours");
                self.put_secret(claim, &secret.name, body);
            }
            Step::DeleteSecret { secret } => {
                assert!(is_ours(self, &secret.name), "deleted a Secret that is not ours");
                self.secrets.remove(&secret.name);
            }
            other => panic!("{other} is not about a Secret"),
        }
        Outcome::done()
    }

    /// A Secret whose owner is gone by then is collected at once.
    fn put_secret(&mut self, claim: &Claim, name: &str, body: &SecretBody) {
        assert_eq!(body.owner, ("data".to_owned(), claim.target.uid.clone()));
        let key = body.data["accessKey"].expose().trim_start_matches("AK").parse().unwrap();
        assert_eq!(body.data["secretKey"], pair(key).secret_key);
        if self.claim.as_ref().is_some_and(|now| now.uid == claim.target.uid) {
            let secret = SecretState { owner: Some(claim.target.uid.clone()), key: Some(key) };
            self.secrets.insert(name.to_owned(), secret);
        }
    }

    fn change_ceph(&mut self, seen: &Observed, step: &Step) -> Outcome {
        if let Step::CreateUser { user, display_name, max_buckets, access_key } = step {
            return self.create_user(user, display_name, *max_buckets, access_key);
        }
        let fresh = match step {
            Step::CreateSubuser { access_key, .. } | Step::AddKey { access_key, .. } => Some(self.use_key(access_key)),
            _ => None,
        };
        if let Step::SuspendUser { .. }
        | Step::RemoveEmptyBucket { .. }
        | Step::PurgeBucket { .. }
        | Step::RemoveUser { .. } = step
        {
            return self.take_down_user(seen, step);
        }
        let named = ["admin", "read", "data-one"].into_iter().filter_map(|name| self.secrets.get(name));
        let is_ours =
            |secret: &&SecretState| secret.owner.as_ref() == seen.claim.as_ref().map(|claim| &claim.target.uid);
        let handed_out: BTreeSet<_> = named.filter(is_ours).filter_map(|secret| secret.key).collect();
        let (is_lost, recorded) = (self.is_lost, self.record.as_ref().is_some_and(|record| record.subuser));
        let Some(user) = self.served_user(seen) else { return stale() };
        match step {
            Step::TakeOverUser { display_name, unsuspend, .. } => {
                assert!(!unsuspend || user.keys.values().all(BTreeSet::is_empty), "let in whoever has the old keys");
                user.owner = owner_shown(display_name);
                user.suspended &= !unsuspend;
            }
            Step::SetBucketLimit { max_buckets, .. } => user.buckets = Some(*max_buckets),
            Step::SetQuota { quota, .. } => user.size = quota.size,
            Step::CreateSubuser { name, access, .. } => {
                assert_eq!(*access, if name == READONLY_SUBUSER { Access::Read } else { Access::Nothing });
                assert!(!user.subusers.contains_key(name), "the gateway would add a key and keep the old access");
                assert!(name == READONLY_SUBUSER || recorded || is_lost, "made a subuser before recording it");
                user.subusers.insert(name.clone(), true);
                user.keys.entry(name.clone()).or_default().extend(fresh);
            }
            Step::SetSubuserAccess { name, .. } => drop(user.subusers.insert(name.clone(), true)),
            Step::RemoveSubuser { name, .. } => {
                assert_eq!(name, SUBUSER, "removed a subuser nobody recorded");
                user.remove_subuser(name);
            }
            Step::AddKey { subuser, .. } => {
                user.keys.entry(subuser.clone().unwrap_or_default()).or_default().extend(fresh);
            }
            Step::RemoveKey { access_key, .. } => {
                let number = number_of(access_key);
                let last = user.keys.iter().find(|(_, keys)| keys.len() == 1 && keys.contains(&number));
                let is_of_nobody = |name: &String| !name.is_empty() && !user.subusers.contains_key(name);
                let is_given = user.owner.as_ref() != seen.claim.as_ref().map(|claim| &claim.target.uid);
                assert!(is_given || !handed_out.contains(&number), "took away a key that is handed out");
                assert!(
                    last.is_none_or(|(name, _)| is_of_nobody(name) || is_given || is_lost),
                    "took away the last key"
                );
                user.keys.values_mut().for_each(|keys| keys.retain(|key| *key != number));
            }
            other => panic!("{other} is not a call to Ceph"),
        }
        Outcome::done()
    }

    fn create_user(&mut self, name: &CephUser, display_name: &str, max_buckets: u32, access_key: &str) -> Outcome {
        assert_eq!(*name, user());
        if self.user.is_some() {
            return stale();
        }
        assert!(self.record.is_some() || self.is_lost, "made a user before recording it");
        let is_held = self.claim.as_ref().is_some_and(|claim| claim.finalizer);
        assert!(is_held || self.is_lost, "made a user before the finalizer");
        let key = self.use_key(access_key);
        self.user = Some(UserState {
            owner: owner_shown(display_name),
            suspended: false,
            buckets: Some(max_buckets),
            size: None,
            subusers: BTreeMap::new(),
            keys: BTreeMap::from([(String::new(), [key].into())]),
            stored: None,
            miscounted: false,
            retained: false,
        });
        Outcome::done()
    }

    fn take_down_user(&mut self, seen: &Observed, step: &Step) -> Outcome {
        let Backend::Reached(reached) = &seen.backend else { panic!("{step}: nobody could be asked") };
        let gives_up_all = reached.class.on_delete == OnDelete::GiveUp;
        let gives_up_data = gives_up_all || reached.class.on_delete == OnDelete::Purge;
        let is_said = self.record.as_ref().is_some_and(|record| record.purge.is_some()) || self.is_lost;
        let is_withdrawn = seen.stamp.as_ref().is_some_and(|stamp| stamp.is_withdrawn() || seen.namespace_terminating)
            || self.is_spared;
        let Some(user) = self.orphaned_user(seen) else {
            return if let Step::SuspendUser { .. } = step { stale() } else { Outcome::done() };
        };
        let record = seen.record.as_ref().filter(|record| record.claim_uid() == user.owner.as_deref());
        let is_kept = record.is_some_and(|record| record.set_aside.keeps(BUCKET));
        let is_left = record.is_some_and(|record| record.set_aside.left.contains(BUCKET));
        let is_deleted = seen.claim.as_ref().is_some_and(|claim| claim.deleting)
            || record.is_some_and(|record| record.phase == Some(Phase::Removing));
        let is_released = record.is_some_and(|record| record.phase == Some(Phase::Released));
        match step {
            Step::RemoveUser { .. } if user.stored.is_some() => return stale(),
            Step::RemoveUser { .. } => self.user = None,
            Step::RemoveEmptyBucket { .. } if !user.suspended => panic!("removes what somebody may still write to"),
            Step::RemoveEmptyBucket { .. } if user.stored.is_some_and(|objects| objects > 0) => {
                // Whoever asked remembers it.
                user.miscounted = false;
                return stale();
            }
            Step::RemoveEmptyBucket { .. } => {
                assert!(gives_up_all || !(is_kept || user.retained), "removed a bucket that is kept");
                user.stored = None;
            }
            Step::PurgeBucket { .. } => {
                let is_kept = is_released || is_kept || is_left || user.retained;
                assert!(gives_up_data && (gives_up_all || !is_kept), "destroyed data nobody gave up");
                assert!(gives_up_all || !is_withdrawn, "destroyed what we took away ourselves");
                assert!(gives_up_all || is_deleted, "destroyed the data of a claim nobody deleted");
                assert!(user.suspended, "purged what somebody may still write to");
                assert!(is_said, "purged without saying so");
                user.stored = None;
            }
            _ => user.suspended = true,
        }
        Outcome::done()
    }

    fn remove_finalizer(&mut self, seen: &Observed) -> Outcome {
        let Some(claim) = &self.claim else { return Outcome::done() };
        if !self.is_claim_unchanged(seen) {
            return stale();
        }
        assert!(claim.deleting && claim.finalizer);
        let left = self.user.as_ref().is_some_and(|user| user.owner.as_deref() == Some(claim.uid));
        let is_unknown = !matches!(seen.backend, Backend::Reached(_));
        match self.record.as_ref().filter(|record| record.claim == Some(claim.uid)) {
            None => {
                let is_shut = is_unknown || self.user.as_ref().is_some_and(|user| user.suspended);
                let place_taken = self.record.is_some() && is_shut;
                let has_just_gone = self.is_lost && seen.record.is_some();
                assert!(!left || place_taken || has_just_gone, "let go of a user nobody can find again");
            }
            Some(record) => {
                let is_blank = record.reason.is_none();
                let is_stamped = seen.stamp.is_some();
                let gives_up_nothing = is_blank || is_stamped || record.misnamed;
                let goes_on = (record.phase == Phase::Removing || gives_up_nothing) && seen.namespace_terminating;
                self.is_spared |= is_stamped && seen.namespace_terminating && record.phase != Phase::Removing;
                assert!(record.phase == Phase::Released || goes_on, "let go too early");
            }
        }
        self.edit(|claim| claim.finalizer = false);
        Outcome::done()
    }
}

fn unreachable_gateway() -> Outcome {
    Outcome::Failed(Failure::new(FailureClass::Transient, "GatewayUnreachable", "no route"))
}
