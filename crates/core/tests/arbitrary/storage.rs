//! Claims and buckets with any names, in any state: planned and reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use croft_core::{
    plan::{Failure, FailureClass},
    quantity::Quantity,
    secret::Secret,
    storage::{
        Amount, CephUser, Class, KeyPair, NoClass, OnDelete, Place, Problem, Quota, QuotaAsked, Stamp, Target, Usage,
        bucket::{
            self, Bucket, BucketQuota, Deletion, Found, LifecycleRule, Lookup, Owner, PolicySeen, Settings, State,
            Versioning,
        },
        claim::{
            self, Access, Backend, Books, Claim, ClaimIdentity, FreshKeys, Holder, Key, Observed, Phase, Purge,
            PurgeSeen, Reached, Record, RecordBody, Rotation, SecretSeen, SetAside, Spec, User, UserQuota,
        },
        display_name,
    },
};
use proptest::{collection::vec, prelude::*};

use crate::{
    dice::{Dice, assert_storable, dice, now},
    json::text,
};

/// A few arbitrary words that everything is named by, so that names meet.
#[derive(Clone, Debug)]
struct Words(Vec<String>);

fn words() -> impl Strategy<Value = Words> {
    vec(text(), 1..4).prop_map(Words)
}

impl Words {
    fn pick(&self, dice: &mut Dice) -> String {
        self.0[usize::from(dice.roll(100)) % self.0.len()].clone()
    }

    fn maybe(&self, dice: &mut Dice) -> Option<String> {
        dice.flip().then(|| self.pick(dice))
    }

    fn amount(&self, dice: &mut Dice) -> Option<Amount> {
        self.pick(dice).parse::<Quantity>().ok().and_then(|quantity| quantity.try_into().ok())
    }

    fn asked(&self, dice: &mut Dice) -> QuotaAsked {
        QuotaAsked { size: self.amount(dice), objects: self.amount(dice), buckets: dice.some(u32::MAX) }
    }

    fn quota(&self, dice: &mut Dice) -> Quota {
        self.asked(dice).or_default(&self.asked(dice))
    }

    fn target(&self, dice: &mut Dice) -> Target {
        Target { namespace: self.pick(dice), name: self.pick(dice), uid: self.pick(dice), resource_version: "1".into() }
    }

    fn pair(&self, dice: &mut Dice) -> KeyPair {
        KeyPair { access_key: self.pick(dice), secret_key: Secret::new("hush") }
    }

    fn ceph_user(&self, dice: &mut Dice) -> CephUser {
        CephUser { tenant: self.pick(dice), id: self.pick(dice) }
    }

    fn problems(&self, dice: &mut Dice) -> Vec<Problem> {
        vec![Problem::new("spec", self.pick(dice)); usize::from(dice.roll(100))]
    }

    fn no_class(&self, dice: &mut Dice) -> NoClass {
        match dice.roll(5) {
            0 => NoClass::NotFound(self.pick(dice)),
            1 => NoClass::NoDefault,
            2 => NoClass::Going(self.pick(dice)),
            3 => NoClass::NotReady { class: self.pick(dice), why: self.pick(dice) },
            _ => NoClass::Invalid { class: self.pick(dice), problems: self.problems(dice) },
        }
    }

    fn failure(&self, dice: &mut Dice) -> Failure {
        Failure::new(FailureClass::Transient, "GatewayUnreachable", self.pick(dice))
    }

    fn claim(&self, dice: &mut Dice) -> Claim {
        let spec = Spec {
            class: self.maybe(dice),
            read_secret: self.pick(dice),
            admin_secret: self.pick(dice),
            subusers: self.maybe(dice).into_iter().collect(),
            quota: self.asked(dice),
        };
        Claim {
            target: self.target(dice),
            generation: 1,
            deleting: dice.roll(4) == 0,
            finalizer: dice.flip(),
            rotate: self.maybe(dice),
            spec: if dice.roll(4) > 0 { Ok(spec) } else { Err(self.problems(dice)) },
            status: claim::Status::default(),
        }
    }

    fn record(&self, dice: &mut Dice) -> Record {
        let identity = ClaimIdentity { namespace: self.pick(dice), name: self.pick(dice), uid: self.pick(dice) };
        Record {
            uid: "r".into(),
            resource_version: "1".into(),
            body: RecordBody {
                claim: dice.some(identity.clone()),
                offered_to: dice
                    .some(Place { namespace: self.pick(&mut dice.clone()), name: self.pick(&mut dice.clone()) }),
                taken_over_from: self.maybe(dice),
                held_by: self.maybe(dice).map(|name| Holder { uid: name.clone(), name }),
                moved_away: dice.flip(),
                class: self.maybe(dice),
                user: dice.some(self.ceph_user(&mut dice.clone())),
                read_secret: self.maybe(dice),
                admin_secret: self.maybe(dice),
                subusers: self.maybe(dice).into_iter().collect(),
                rotation: self
                    .maybe(dice)
                    .map(|asked| Rotation { asked, retired: self.maybe(dice).into_iter().collect() }),
                quota: dice.some(self.quota(&mut dice.clone())),
            },
            phase: dice.some(if dice.clone().flip() { Phase::Released } else { Phase::Removing }),
            reason: self.maybe(dice),
            set_aside: SetAside {
                everything: dice.flip(),
                kept: self.maybe(dice).into_iter().collect(),
                left: self.maybe(dice).into_iter().collect(),
            },
            purge: dice.some(PurgeSeen {
                purge: Purge {
                    buckets: usize::from(dice.clone().roll(3)),
                    bucket: self.pick(&mut dice.clone()),
                    objects: 1,
                },
                age: if dice.clone().flip() { Duration::MAX } else { Duration::ZERO },
            }),
            returns_to: self.maybe(dice),
            adopts: dice.flip(),
            misnamed: dice.some(identity),
        }
    }

    fn user(&self, dice: &mut Dice) -> User {
        let key = |dice: &mut Dice| Key { subuser: self.maybe(dice), pair: self.pair(dice) };
        User {
            display_name: display_name(&self.pick(dice), &self.pick(dice), &self.pick(dice)),
            suspended: dice.flip(),
            max_buckets: dice.some(u32::MAX),
            quota: UserQuota { enabled: dice.flip(), size: dice.some(u64::MAX), objects: None },
            subusers: BTreeMap::from([(self.pick(dice), if dice.flip() { Access::Read } else { Access::Other })]),
            keys: (0..dice.roll(3)).map(|_| key(dice)).collect(),
            buckets: (0..dice.roll(3)).map(|_| (self.pick(dice), u64::from(dice.roll(3)))).collect(),
            others_buckets: self.maybe(dice).into_iter().collect(),
            gone_buckets: self.maybe(dice).into_iter().collect(),
            unlisted: dice.flip().then(|| self.failure(dice)),
            usage: dice.some(Usage { size: u64::MAX, objects: 0, buckets: Some(1) }),
        }
    }

    fn backend(&self, dice: &mut Dice) -> Backend {
        match dice.roll(6) {
            0 => Backend::NoClass(self.no_class(dice)),
            1 => Backend::Unreachable(self.failure(dice)),
            _ => Backend::Reached(Box::new(Reached {
                class: Class {
                    name: self.pick(dice),
                    endpoint: self.pick(dice),
                    region: self.pick(dice),
                    tenant_prefix: self.pick(dice),
                    on_delete: [OnDelete::Purge, OnDelete::Retain, OnDelete::GiveUp][usize::from(dice.roll(3))],
                    team_required: dice.flip(),
                    default_quota: self.asked(dice),
                },
                allowed: dice.roll(4) > 0,
                in_a_team: dice.flip(),
                user: dice.some(self.user(&mut dice.clone())),
            })),
        }
    }

    fn secret(&self, dice: &mut Dice) -> SecretSeen {
        let data = BTreeMap::from([(self.pick(dice), Secret::new(self.pick(dice)))]);
        let (owner, owner_claim) = (self.maybe(dice), self.maybe(dice));
        SecretSeen {
            target: self.target(dice),
            owner,
            owner_claim,
            labelled: dice.flip(),
            immutable: dice.flip(),
            data,
        }
    }

    fn rules(&self, dice: &mut Dice) -> BTreeMap<String, LifecycleRule> {
        let rule =
            LifecycleRule { prefix: self.pick(dice), expiration: dice.some(u32::MAX), ..LifecycleRule::default() };
        self.maybe(dice).into_iter().map(|id| (id, rule.clone())).collect()
    }

    fn bucket_spec(&self, dice: &mut Dice) -> bucket::Spec {
        let settings = Settings {
            quota: dice.some(BucketQuota { size: dice.clone().some(u64::MAX), objects: None }),
            versioning: dice.some(Versioning::Enabled),
            lifecycle: self.rules(dice),
        };
        let bindings = self.0.iter().map(|name| (name.clone(), bucket::Grant::Write)).collect();
        bucket::Spec { claim: self.pick(dice), bindings, settings }
    }

    fn state(&self, dice: &mut Dice) -> State {
        State {
            policy: match dice.roll(3) {
                0 => PolicySeen::Unreadable(self.pick(dice)),
                _ => PolicySeen::Read { current: self.maybe(dice), wanted: self.pick(dice) },
            },
            quota: UserQuota { enabled: dice.flip(), size: dice.some(u64::MAX), objects: None },
            usage: Usage { size: u64::MAX, objects: u64::from(dice.roll(3)), buckets: None },
            versioning: if dice.flip() { Versioning::Enabled } else { Versioning::Suspended },
            lifecycle: self.rules(dice),
        }
    }

    fn owner(&self, dice: &mut Dice) -> Owner {
        let found = match dice.roll(3) {
            0 => Found::Absent,
            1 => Found::Ours,
            _ => Found::Foreign { owner: self.ceph_user(dice) },
        };
        match dice.roll(7) {
            0 => Owner::Nobody,
            1 => Owner::NotReady(self.pick(dice)),
            2 => Owner::NoClass(self.no_class(dice)),
            3 => Owner::Unreachable(self.failure(dice)),
            4 => Owner::Removable { user: self.ceph_user(dice), found, empty: dice.flip() },
            _ => Owner::Ready { user: self.ceph_user(dice), key: self.pair(dice), found },
        }
    }
}

proptest! {
    #[test]
    fn any_claim_is_planned_and_reported(words in words(), mut dice in dice()) {
        let dice = &mut dice;
        let seen = Observed {
            claim: dice.some(words.claim(&mut dice.clone())),
            namespace_terminating: dice.flip(),
            namespace_uid: words.maybe(dice),
            stamp: dice.some(Stamp(None)),
            is_held: dice.flip(),
            record: dice.some(words.record(&mut dice.clone())),
            buckets: if dice.roll(4) == 0 { words.0.iter().cloned().collect() } else { BTreeSet::new() },
            backend: words.backend(dice),
            books: Books::default(),
            secrets: (0..dice.roll(3)).map(|_| words.secret(dice)).collect(),
            lost: words.maybe(dice).into_iter().collect(),
            fresh: FreshKeys(words.pick(dice)),
        };
        let plan = claim::plan(&seen);
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = claim::report(&seen, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.claim.as_ref().unwrap().status.conditions);
        }
        let _ = (claim::must_retry(&seen), claim::class_of(seen.claim.as_ref(), seen.record.as_ref()));
    }

    #[test]
    fn any_bucket_is_planned_and_reported(words in words(), mut dice in dice()) {
        let dice = &mut dice;
        let deletion = if dice.flip() { Deletion::Delete } else { Deletion::Retain };
        let bucket = Bucket {
            target: words.target(dice),
            generation: 1,
            deleting: dice.some(if dice.clone().flip() { Duration::MAX } else { Duration::ZERO }),
            finalizer: dice.flip(),
            deletion,
            spec: if dice.roll(4) > 0 { Ok(words.bucket_spec(dice)) } else { Err(words.problems(dice)) },
            status: bucket::Status { created: dice.flip(), ..bucket::Status::default() },
        };
        let lookup_of = bucket.clone();
        let recorded = words.record(dice);
        let seen = bucket::Observed {
            bucket: Some(bucket),
            namespace_terminating: dice.flip(),
            unwanted: dice.flip(),
            given_up: dice.flip(),
            record: bucket::RecordSeen::of(words.pick(dice), &recorded),
            record_is_anothers: dice.flip(),
            record_comes: dice.flip(),
            held_by: words.maybe(dice),
            subusers: words.maybe(dice).into_iter().collect(),
            state: dice.some(words.state(&mut dice.clone())),
            owner: words.owner(dice),
        };
        let plan = bucket::plan(&seen);
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = bucket::report(&seen, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.bucket.as_ref().unwrap().status.conditions);
        }
        let (claim, record, user) = (words.claim(dice), words.record(dice), words.user(dice));
        if let Ok(lookup) = Lookup::new(dice.some(&claim), Some(&record), &lookup_of) {
            let _ = lookup.owner(dice.some(&user), Found::Ours, true, &words.maybe(dice).into_iter().collect());
        }
    }
}
