//! The promises of a vault, from every small world.

mod calls;
mod untold;
mod world;

use croft_core::{
    backup::vault::{Observed, Step, key_to_try, must_retry, plan, report},
    conditions::Condition,
    plan::{Failure, FailureClass, Outcome, Plan},
    storage::claim::Phase,
};

use self::world::{
    BUCKET, FIRST, NAMESPACES, RECORD, RecordState, SECOND, Slot, VaultState, World, number, pair, target, user,
};
use crate::{
    done,
    explorer::{self, Act, Limits, at_rest, explore, stale},
    now,
    request::Told,
};

impl explorer::World for World {
    type Seen = Observed;
    type Step = Step;

    fn observe(&self) -> Vec<(&'static str, Observed)> {
        if self.vault.is_none() && self.record.is_none() { Vec::new() } else { vec![("vault", self.seen())] }
    }

    fn plan(&self, seen: &Observed) -> Plan<Step> {
        plan(seen)
    }

    fn execute(&mut self, seen: &Observed, step: &Step) -> Outcome {
        let uid = seen.vault.as_ref().map(|vault| vault.target.uid.clone());
        let owner = [FIRST, SECOND].into_iter().find(|known| Some(*known) == uid.as_deref());
        match step {
            Step::AddFinalizer { .. } => {
                let outcome = self.on_vault(seen, |vault| vault.finalizer = true);
                return if self.vault.is_some() { outcome } else { stale() };
            }
            Step::RemoveFinalizer { .. } => return self.on_vault(seen, |vault| vault.finalizer = false),
            Step::Confirm { units, .. } => self.granted = Some(self.granted.unwrap_or_default().max(units.size)),
            Step::Settle { has, .. } => {
                assert!(self.user.as_ref().is_none_or(|user| user.size.is_none_or(|size| size <= has.granted.size)));
                self.granted = Some(has.granted.size);
            }
            Step::ReleaseQuota { .. } => {
                assert!(self.user.is_none() || self.is_lost, "gave back what Ceph still has");
                self.granted = None;
            }
            Step::CreateRecord { name, body } => {
                assert_eq!(name, RECORD);
                if self.record.is_some() {
                    return stale();
                }
                self.record = Some(RecordState::of(body));
            }
            Step::UpdateRecord { body, .. } => {
                return self.on_record(seen, |record| {
                    let Some(before) = record.clone() else { return };
                    let RecordState { phase, reason, purge, returns, .. } = before;
                    *record = Some(RecordState { phase, reason, purge, returns, ..RecordState::of(body) });
                });
            }
            Step::MarkRecord { mark, .. } => {
                return self.on_record(seen, |record| {
                    if let Some(record) = record {
                        record.phase = Some(mark.phase);
                        record.reason = Some(mark.reason.as_str());
                        record.purge = mark.purge.as_ref().map(|purge| (purge.objects, false));
                        record.returns = NAMESPACES.into_iter().find(|uid| Some(*uid) == mark.returns_to.as_deref());
                    }
                });
            }
            Step::DeleteRecord { .. } => {
                assert!(self.user.is_none() || self.is_lost, "forgot what Ceph still has");
                return self.on_record(seen, |record| *record = None);
            }
            Step::Ceph(step) => return self.on_ceph(seen, step),
            Step::CreateBucket { bucket, key, .. } => {
                assert_eq!(bucket, BUCKET);
                if self.lost == Some(number(&key.access_key)) {
                    return Outcome::Failed(Failure::new(FailureClass::Forbidden, "InvalidAccessKeyId", "no such key"));
                }
                return self.on_user(seen, |user| {
                    assert!(!user.suspended && !user.keys.is_empty());
                    user.stored = Some(user.stored.unwrap_or_default());
                });
            }
            Step::CreateKeys { cloud, .. } => {
                if self.keys != Slot::Empty {
                    return stale();
                }
                self.keys = Slot::Ours(owner.expect("for a vault"), published(cloud));
            }
            Step::UpdateKeys { cloud, .. } => {
                let Slot::Ours(uid, _) = self.keys else { return stale() };
                self.keys = Slot::Ours(uid, published(cloud));
            }
            Step::DeleteKeys(victim) => {
                assert_eq!(victim.uid, "keys");
                if let Slot::Ours(..) = self.keys {
                    self.keys = Slot::Empty;
                }
            }
            Step::CreateLocation { spec, .. } => {
                assert!(!spec.is_empty());
                if self.location != Slot::Empty || self.vault.is_none() {
                    return stale();
                }
                self.location = Slot::Ours(owner.expect("for a vault"), true);
            }
            Step::UpdateLocation { location, .. } => {
                let (Slot::Ours(uid, _), true) = (self.location, *location == target("location")) else {
                    return stale();
                };
                self.location = Slot::Ours(uid, true);
            }
            Step::DeleteLocation(victim) => {
                assert_eq!(victim.uid, "location");
                let Slot::Ours(..) = self.location else { return stale() };
                self.location = Slot::Empty;
            }
        }
        done()
    }

    fn report(&mut self, seen: &Observed, outcomes: &[(&Step, Outcome)]) {
        let uid = seen.vault.as_ref().map(|vault| vault.target.uid.as_str());
        if let (Some(vault), Some(status)) = (&mut self.vault, report(seen, outcomes, &now()))
            && Some(vault.uid) == uid
        {
            vault.status = Told::new(status);
        }
    }

    fn others(&self) -> Vec<Act<World>> {
        let mut acts = vec![
            Act::new("the namespace goes", self, |world| {
                world.terminating = true;
                world.edit(|vault| vault.deleting = true);
            }),
            Act::new("the gateway goes", self, |world| world.is_reached = false).between_reconciles(),
            Act::new("the gateway comes", self, |world| world.is_reached = true),
            Act::new("somebody takes the name of the location", self, |world| world.location = Slot::Theirs),
        ];
        if let Some(vault) = &self.vault {
            acts.push(Act::new("the user deletes the vault", self, |world| world.edit(|vault| vault.deleting = true)));
            if !vault.deleting {
                acts.push(Act::new("the user gives the backups up", self, |world| {
                    world.given_up = true;
                    world.edit(|vault| vault.purges = true);
                }));
                acts.push(Act::new("the user asks for less", self, |world| world.edit(|vault| vault.size = 3000)));
            }
            if vault.finalizer {
                acts.push(Act::new("the user removes our finalizer", self, |world| {
                    world.is_lost = true;
                    world.edit(|vault| vault.finalizer = false);
                }));
            }
        } else if self.terminating {
            acts.push(Act::new("the namespace and the vault are made again", self, |world| {
                (world.terminating, world.is_renewed) = (false, true);
                world.vault = Some(VaultState::new(SECOND));
            }));
        } else {
            acts.push(Act::new("the user makes it again", self, |world| world.vault = Some(VaultState::new(SECOND))));
        }
        if self.user.as_ref().is_some_and(|user| user.stored.is_some() && !user.suspended && !user.keys.is_empty()) {
            let store = |world: &mut World| {
                if let Some(user) = &mut world.user {
                    user.stored = Some(3);
                }
            };
            acts.push(Act::new("Velero stores a backup", self, store).between_reconciles());
        }
        if let Some(key) =
            self.user.as_ref().and_then(|user| user.keys.first().copied()).filter(|_| self.lost.is_none())
        {
            acts.push(Act::new("the gateway loses a key", self, |world| world.lost = Some(key)));
        }
        if self.lost.is_some() {
            acts.push(Act::new("another replica leads, which knows of no lost key", self, |world| world.lost = None));
        }
        if self.record.as_ref().is_some_and(|record| !record.misnamed) && self.vault.is_some() {
            let misname = |world: &mut World| {
                if let Some(record) = &mut world.record {
                    record.misnamed = true;
                }
            };
            acts.push(Act::new("somebody edits whose the S3User is", self, misname).between_reconciles());
        }
        if let Slot::Ours(uid, true) = self.location {
            acts.push(Act::new("somebody edits the location", self, |world| {
                world.location = Slot::Ours(uid, false);
            }));
        }
        acts
    }

    /// A purge that was asked for long ago is asked for again.
    fn passes(&self) -> Option<Self> {
        let mut later = self.clone();
        let purge = later.record.as_mut()?.purge.as_mut()?;
        (purge.0 > 0 && !std::mem::replace(&mut purge.1, true)).then_some(later)
    }

    fn check(&self) {
        let Some(user) = &self.user else { return };
        assert!(self.record.is_some() || self.is_lost, "a user nobody can find again");
        assert!(self.granted >= user.size || self.is_lost, "Ceph has more than the books");
    }

    fn check_ours(&self, before: &World) {
        let stored = |world: &World| world.user.as_ref().and_then(|user| user.stored).unwrap_or_default();
        assert!(stored(before) == 0 || stored(self) > 0 || self.given_up, "lost what was stored");
        assert!(before.keys != Slot::Theirs || self.keys == Slot::Theirs, "touched somebody else's Secret");
        assert!(before.location != Slot::Theirs || self.location == Slot::Theirs, "touched somebody else's location");
    }

    fn check_rest(&self) {
        match &self.vault {
            Some(vault) if vault.deleting => assert!(!self.is_reached && !self.terminating, "a vault that never goes"),
            Some(vault) if vault.status.conditions.is_true("Ready") => self.check_ready(vault),
            Some(vault) => {
                let reason = vault.status.conditions.reason("Ready");
                let is_taken = self.location == Slot::Theirs || self.keys == Slot::Theirs;
                let is_kept = self.is_renewed && reason == Some("UserTaken");
                assert!(!is_kept || !matches!(self.keys, Slot::Ours(..)), "a key that is of no more use");
                let is_explained = !self.is_reached || is_taken || is_kept || self.is_lost;
                assert!(is_explained, "{reason:?} for no reason");
            }
            None if !self.is_reached || self.is_lost => {}
            None => self.check_gone(),
        }
    }
}

fn published(cloud: &croft_core::secret::Secret) -> u32 {
    let id = cloud.expose().split("AK").nth(1).and_then(|rest| rest.split('\n').next());
    id.expect("a key").parse().unwrap()
}

impl World {
    fn check_ready(&self, vault: &VaultState) {
        if !self.is_reached {
            return;
        }
        let user = self.user.as_ref().expect("ready without a user");
        assert!(vault.finalizer && user.owner == vault.uid && !user.suspended && user.stored.is_some());
        assert_eq!((user.size, self.granted), (Some(vault.size), Some(vault.size)));
        let keys: Vec<_> = user.keys.iter().copied().collect();
        assert_eq!((self.keys, keys.len()), (Slot::Ours(vault.uid, keys[0]), 1), "a key that is not Velero's");
        assert!(!keys.iter().any(|key| self.lost == Some(*key)), "Velero has a key that is lost");
        assert_eq!(self.location, Slot::Ours(vault.uid, true));
        let record = self.record.as_ref().expect("not on record");
        assert_eq!((record.vault, record.phase, record.taken_over_from), (vault.uid, Some(Phase::Bound), None));
    }

    fn check_gone(&self) {
        assert!(!matches!(self.keys, Slot::Ours(..)), "a key that is of no more use");
        match (&self.user, &self.record) {
            (None, None) => assert_eq!(self.granted, None, "books for nothing"),
            (Some(user), Some(record)) => {
                assert!(user.suspended && user.keys.is_empty() && user.stored.is_some_and(|objects| objects > 0));
                assert_eq!(record.phase, Some(Phase::Released));
                assert!(self.granted.is_some(), "what is kept no longer counts");
            }
            other => panic!("half of it is left: {other:?}"),
        }
    }
}

/// What the vault says of itself.
fn told_of(world: &World) -> Condition {
    let vault = world.vault.as_ref().expect("there");
    vault.status.conditions.get("Ready").cloned().expect("told")
}

const LIMITS: Limits = Limits { acts: 2, faults: true, at_once: 1 };

#[test]
fn every_vault_keeps_its_promises_whatever_goes_wrong() {
    let mut taken = World::new();
    taken.keys = Slot::Theirs;
    let worlds = explore("vault", [World::new(), taken], LIMITS).worlds.len();
    assert!(worlds > 1_000, "only {worlds} worlds");
}

#[test]
fn a_full_vault_that_is_deleted_and_made_again_has_its_backups_back() {
    let mut full = at_rest(&World::new());
    full.user.as_mut().expect("made").stored = Some(3);
    full.edit(|vault| vault.deleting = true);
    let kept = at_rest(&full);
    assert!(kept.vault.is_none() && kept.user.as_ref().is_some_and(|user| user.suspended && user.stored == Some(3)));
    let again = at_rest(&World { vault: Some(VaultState::new(SECOND)), ..kept });
    let user = again.user.as_ref().expect("there");
    assert_eq!((user.owner, user.suspended, user.stored), (SECOND, false, Some(3)));
    assert!(again.vault.as_ref().is_some_and(|vault| vault.status.conditions.is_true("Ready")));
}

#[test]
fn a_vault_of_another_namespace_of_the_name_does_not_get_the_backups() {
    let mut full = at_rest(&World::new());
    full.user.as_mut().expect("made").stored = Some(3);
    full.terminating = true;
    full.edit(|vault| vault.deleting = true);
    let kept = at_rest(&full);
    assert_eq!(kept.record.as_ref().expect("kept").returns, Some(NAMESPACES[0]));
    let vault = Some(VaultState::new(SECOND));
    let again = at_rest(&World { vault, terminating: false, is_renewed: true, ..kept });
    let ready = told_of(&again);
    assert_eq!(ready.reason, "UserTaken");
    assert!(ready.message.contains("of an earlier namespace of this name;"), "{}", ready.message);
    assert!(again.user.as_ref().is_some_and(|user| user.owner == FIRST && user.suspended));
}

#[test]
fn what_a_vault_left_behind_unseen_is_nobodys_until_an_administrator_gives_it_away() {
    let mut full = at_rest(&World::new());
    full.user.as_mut().expect("made").stored = Some(3);
    // Its namespace went while nobody looked, and another one has the name since.
    let kept = at_rest(&World { vault: None, is_renewed: true, ..full });
    let again = at_rest(&World { vault: Some(VaultState::new(SECOND)), ..kept });
    assert_eq!(told_of(&again).reason, "UserTaken");
    assert!(again.user.as_ref().is_some_and(|user| user.owner == FIRST && user.suspended));
}

#[test]
fn a_vault_that_was_let_go_by_hand_and_is_made_again_has_its_backups_back() {
    let mut full = at_rest(&World::new());
    full.user.as_mut().expect("made").stored = Some(3);
    full.edit(|vault| (vault.finalizer, vault.deleting) = (false, true));
    assert!(full.vault.is_none());
    // Whether anybody looked in between or not.
    for gone in [at_rest(&full), full] {
        let again = at_rest(&World { vault: Some(VaultState::new(SECOND)), ..gone });
        let user = again.user.as_ref().expect("there");
        assert_eq!((user.owner, user.suspended, user.stored), (SECOND, false, Some(3)));
        assert_eq!(told_of(&again).reason, "Provisioned");
    }
}

#[test]
fn of_a_vault_nobody_knows_the_namespace_of_nothing_more_is_said() {
    let mut full = at_rest(&World::new());
    full.user.as_mut().expect("made").stored = Some(3);
    // As an earlier version left it.
    full.record.as_mut().expect("made").returns = None;
    full.edit(|vault| (vault.finalizer, vault.deleting) = (false, true));
    let again = at_rest(&World { vault: Some(VaultState::new(SECOND)), ..full });
    let ready = told_of(&again);
    assert_eq!(ready.reason, "UserTaken");
    assert!(!ready.message.contains("earlier namespace"), "{}", ready.message);
    assert!(ready.message.contains("of an earlier vault of this name") && ready.message.contains("spec.claimRef.uid"));
}

#[test]
fn a_key_the_gateway_lost_is_on_record_before_another_takes_its_place_and_velero_has_that_before_it_goes() {
    let made = at_rest(&World::new());
    let lost = made.user.as_ref().and_then(|user| user.keys.first().copied());
    let mut world = World { lost, ..made };
    let told = explorer::plans(&world).concat();
    assert!(told.starts_with("update S3User vault-shop-safe\nadd a key to Ceph user"), "{told}");
    assert!(!told.contains("remove key") && !told.contains("Secret"), "{told}");
    world = explorer::worked(&world, "vault");
    let reason =
        |world: &World| world.vault.as_ref().and_then(|it| it.status.conditions.reason("Ready").map(str::to_owned));
    assert_eq!(reason(&world).as_deref(), Some("KeyLost"));
    // Nobody remembers but the record.
    let settled = at_rest(&World { lost: None, ..world });
    let user = settled.user.as_ref().expect("there");
    assert!(user.keys.len() == 1 && !user.keys.contains(&lost.expect("made")), "{:?}", user.keys);
    assert_eq!(settled.keys, Slot::Ours(FIRST, *user.keys.first().expect("one")));
}

#[test]
fn a_key_is_tried_where_velero_cannot_use_its_location_and_only_there() {
    let tried = |change: fn(&mut Observed)| {
        let mut seen = at_rest(&World::new()).seen();
        change(&mut seen);
        key_to_try(&seen).map(|tried| (tried.user, tried.bucket, tried.key.clone()))
    };
    assert_eq!(tried(|_| {}), None, "nobody asks while all is well");
    let away = |seen: &mut Observed| seen.location.as_mut().unwrap().is_available = false;
    assert_eq!(tried(away), Some((user(), BUCKET.to_owned(), pair(1000))));
    assert_eq!(tried(|seen| seen.location = None), None);
    let lost = |seen: &mut Observed| {
        seen.location.as_mut().unwrap().is_available = false;
        seen.lost = [pair(1000).access_key].into();
    };
    assert_eq!(tried(lost), None, "it is known to be lost");
    let refused = |is_key_refused| must_retry(&Observed { is_key_refused, ..at_rest(&World::new()).seen() });
    assert_eq!((refused(false), refused(true)), (false, true));
}

#[test]
fn a_bucket_that_somebody_deleted_is_not_silently_made_again() {
    let mut lost = at_rest(&World::new());
    lost.user.as_mut().expect("made").stored = None;
    let lost = at_rest(&lost);
    assert_eq!(lost.vault.as_ref().and_then(|vault| vault.status.conditions.reason("Ready")), Some("BucketLost"));
}

#[test]
fn a_vault_beyond_the_limit_waits_and_one_that_is_on_record_stays() {
    let told = |seen: &Observed| {
        let status = report(seen, &[], &now()).expect("a status");
        status.conditions.get("Ready").map(|ready| ready.message.clone()).unwrap_or_default()
    };
    let new = Observed { ahead: 2, limit: 2, ..World::new().seen() };
    assert!(plan(&new).is_settled());
    assert_eq!(told(&new), "2 vaults in this namespace, the limit is 2");
    for limit in [0, 3] {
        assert!(!plan(&Observed { limit, ..new.clone() }).is_settled(), "{limit}");
    }
    let there = Observed { ahead: 2, limit: 2, ..at_rest(&World::new()).seen() };
    assert_eq!(plan(&there), plan(&Observed { limit: 0, ..there.clone() }));
}
