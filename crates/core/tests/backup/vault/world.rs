//! Everything around one vault, and how the operator sees it.

use std::{collections::BTreeSet, time::Duration};

use croft_core::{
    backup::{
        ownership::Marks,
        vault::{KeysSeen, LocationSeen, Observed, Spec, Status, Vault, keys_origin, location_spec},
    },
    plan::{Failure, FailureClass},
    secret::Secret,
    storage::{
        Amount, CephUser, Class, KeyPair, OnDelete, Quota, QuotaAsked, Target, Usage,
        claim::{
            Backend, Books, ClaimIdentity, FreshKeys, Key, Phase, Purge, PurgeSeen, Reached, Record, RecordBody,
            Rotation, STILL, SetAside, User, UserQuota,
        },
        credentials_file, display_name,
        ledger::{Entry, Units},
    },
};

use crate::request::Told;

/// UIDs of the vaults that had the name one after the other.
pub(crate) const FIRST: &str = "uid-first";
pub(crate) const SECOND: &str = "uid-second";
pub(crate) const RECORD: &str = "vault-shop-safe";
pub(crate) const BUCKET: &str = "vault-safe";
pub(crate) const NAMESPACES: [&str; 2] = ["uid-namespace", "uid-of-the-next"];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VaultState {
    pub(crate) uid: &'static str,
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) purges: bool,
    pub(crate) size: u64,
    pub(crate) status: Told<Status>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordState {
    pub(crate) vault: &'static str,
    pub(crate) taken_over_from: Option<&'static str>,
    pub(crate) size: Option<u64>,
    pub(crate) phase: Option<Phase>,
    pub(crate) reason: Option<&'static str>,
    /// Objects in the bucket when it was last looked at, and whether that is long ago.
    pub(crate) purge: Option<(u64, bool)>,
    /// UID of the namespace the vault was in.
    pub(crate) returns: Option<&'static str>,
    /// Keys that are not to be used any more.
    pub(crate) retired: BTreeSet<u32>,
    /// Somebody edited which vault it is of.
    pub(crate) misnamed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserState {
    pub(crate) owner: &'static str,
    pub(crate) suspended: bool,
    pub(crate) size: Option<u64>,
    pub(crate) keys: BTreeSet<u32>,
    /// Objects in its bucket, if it has one.
    pub(crate) stored: Option<u64>,
}

/// What has a name the vault needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot<T> {
    Empty,
    Ours(&'static str, T),
    Theirs,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct World {
    pub(crate) vault: Option<VaultState>,
    pub(crate) terminating: bool,
    /// There is another namespace of the same name now.
    pub(crate) is_renewed: bool,
    pub(crate) record: Option<RecordState>,
    pub(crate) user: Option<UserState>,
    /// The Secret in Velero's namespace, by the number of its key.
    pub(crate) keys: Slot<u32>,
    /// The location, and whether it is as the vault wants it.
    pub(crate) location: Slot<bool>,
    pub(crate) granted: Option<u64>,
    pub(crate) is_reached: bool,
    pub(crate) keys_used: u32,
    /// The key the gateway is known to have lost.
    pub(crate) lost: Option<u32>,
    /// Somebody said that what is stored may go.
    pub(crate) given_up: bool,
    /// Its class gives everything up.
    pub(crate) all_is_given_up: bool,
    /// Somebody took away our finalizer: what cannot be found again then is theirs to clean up.
    pub(crate) is_lost: bool,
}

pub(crate) fn class() -> Class {
    Class {
        name: "gold".into(),
        endpoint: "http://rgw".into(),
        region: "eu".into(),
        tenant_prefix: "lab".into(),
        on_delete: OnDelete::Retain,
        team_required: false,
        default_quota: QuotaAsked::default(),
    }
}

fn amount(value: u64) -> Amount {
    value.to_string().parse::<croft_core::quantity::Quantity>().unwrap().try_into().unwrap()
}

pub(crate) fn quota(size: u64) -> Quota {
    Quota { size: amount(size), objects: amount(10), buckets: 1 }
}

pub(crate) fn user() -> CephUser {
    CephUser { tenant: "lab_shop_VAULT".into(), id: "safe".into() }
}

pub(crate) fn pair(number: u32) -> KeyPair {
    KeyPair { access_key: format!("AK{number}"), secret_key: Secret::new(format!("hush{number}")) }
}

pub(crate) fn number(access_key: &str) -> u32 {
    access_key.trim_start_matches("AK").parse().unwrap()
}

pub(crate) fn identity(uid: &str) -> ClaimIdentity {
    ClaimIdentity { namespace: "shop".into(), name: "safe".into(), uid: uid.into() }
}

pub(crate) fn target(uid: &str) -> Target {
    Target { namespace: "shop".into(), name: "safe".into(), uid: uid.into(), resource_version: "1".into() }
}

pub(crate) fn owner_shown(name: &str) -> Option<&'static str> {
    [FIRST, SECOND].into_iter().find(|uid| display_name("shop", "safe", uid) == name)
}

impl VaultState {
    pub(crate) fn new(uid: &'static str) -> Self {
        let status = Told::new(Status::default());
        Self { uid, deleting: false, finalizer: false, purges: false, size: 5000, status }
    }

    pub(crate) fn seen(&self) -> Vault {
        let quota = QuotaAsked { size: Some(amount(self.size)), objects: Some(amount(10)), buckets: Some(1) };
        Vault {
            target: target(self.uid),
            generation: 1,
            deleting: self.deleting,
            finalizer: self.finalizer,
            spec: Ok(Spec {
                class: None,
                quota,
                on_delete: if self.purges { OnDelete::Purge } else { OnDelete::Retain },
            }),
            status: Status::clone(&self.status),
        }
    }
}

impl RecordState {
    pub(crate) fn of(body: &RecordBody) -> Self {
        let uid = body.claim.as_ref().map(|claim| claim.uid.clone()).unwrap();
        assert_eq!((body.user.as_ref(), body.class.as_deref()), (Some(&user()), Some("gold")));
        Self {
            vault: [FIRST, SECOND].into_iter().find(|known| *known == uid).expect("one of ours"),
            taken_over_from: body.taken_over_from.as_deref().and_then(owner_shown),
            size: body.quota.map(|quota| quota.size.whole()),
            phase: None,
            reason: None,
            purge: None,
            returns: None,
            retired: body.rotation.iter().flat_map(|rotation| &rotation.retired).map(|key| number(key)).collect(),
            misnamed: false,
        }
    }

    pub(crate) fn seen(&self) -> Record {
        let retired: BTreeSet<_> = self.retired.iter().map(|number| pair(*number).access_key).collect();
        Record {
            uid: "record".into(),
            resource_version: "1".into(),
            body: RecordBody {
                claim: (!self.misnamed).then(|| identity(self.vault)),
                taken_over_from: self.taken_over_from.map(|uid| display_name("shop", "safe", uid)),
                class: Some("gold".into()),
                user: Some(user()),
                admin_secret: Some(keys_origin(&identity(self.vault)).nacuuid),
                quota: self.size.map(quota),
                rotation: (!retired.is_empty()).then(|| Rotation { asked: String::new(), retired }),
                ..RecordBody::default()
            },
            phase: self.phase,
            reason: self.reason.map(str::to_owned),
            set_aside: SetAside::default(),
            purge: self.purge.map(|(objects, is_old)| PurgeSeen {
                purge: Purge { buckets: 1, bucket: BUCKET.into(), objects },
                age: if is_old { STILL } else { Duration::ZERO },
            }),
            returns_to: self.returns.map(str::to_owned),
            adopts: false,
            misnamed: self.misnamed.then(|| identity(self.vault)),
        }
    }
}

impl UserState {
    fn seen(&self) -> User {
        let pairs = self.keys.iter().map(|number| Key { subuser: None, pair: pair(*number) });
        User {
            display_name: display_name("shop", "safe", self.owner),
            suspended: self.suspended,
            max_buckets: Some(1),
            quota: UserQuota { enabled: self.size.is_some(), size: self.size, objects: self.size.map(|_| 10) },
            subusers: std::collections::BTreeMap::new(),
            keys: pairs.collect(),
            buckets: self.stored.map(|objects| (BUCKET.to_owned(), objects)).into_iter().collect(),
            others_buckets: BTreeSet::new(),
            gone_buckets: BTreeSet::new(),
            unlisted: None,
            usage: Some(Usage { size: 0, objects: self.stored.unwrap_or_default(), buckets: None }),
        }
    }
}

impl World {
    /// A new vault and nothing else.
    pub(crate) fn new() -> Self {
        Self {
            vault: Some(VaultState::new(FIRST)),
            terminating: false,
            is_renewed: false,
            record: None,
            user: None,
            keys: Slot::Empty,
            location: Slot::Empty,
            granted: None,
            is_reached: true,
            keys_used: 0,
            lost: None,
            given_up: false,
            all_is_given_up: false,
            is_lost: false,
        }
    }

    pub(crate) fn seen(&self) -> Observed {
        let granted = self.granted.map(|size| Units::from(&quota(size)));
        let backend = if self.is_reached {
            let user = self.user.as_ref().map(UserState::seen);
            let on_delete = if self.all_is_given_up { OnDelete::GiveUp } else { OnDelete::Retain };
            let class = Class { on_delete, ..class() };
            Backend::Reached(Box::new(Reached { class, allowed: true, in_a_team: false, user }))
        } else {
            Backend::Unreachable(Failure::new(FailureClass::Transient, "GatewayUnreachable", "no route"))
        };
        // A Secret is looked for under the name of whom it is looked at for.
        let recorded = self.record.as_ref().map(|record| record.vault);
        let own = self.vault.as_ref().map(|vault| vault.uid).or(recorded);
        let keys = |looked_for: Option<&str>| match self.keys {
            Slot::Ours(uid, number) if looked_for == Some(uid) => Some(KeysSeen {
                target: target("keys"),
                marks: keys_origin(&identity(uid)).marks(),
                cloud: Some(credentials_file(&pair(number))),
            }),
            Slot::Theirs => Some(KeysSeen { target: target("theirs"), marks: Marks::default(), cloud: None }),
            Slot::Empty | Slot::Ours(..) => None,
        };
        let location = |owner: Option<&str>, is_right: bool| LocationSeen {
            target: target("location"),
            owner: owner.map(str::to_owned),
            deleting: false,
            spec: owner
                .filter(|_| is_right)
                .map(|uid| location_spec(&identity(uid), &class(), None))
                .unwrap_or_default(),
            is_available: true,
            told: None,
        };
        Observed {
            vault: self.vault.as_ref().map(VaultState::seen),
            namespace_terminating: self.terminating,
            namespace_uid: Some(NAMESPACES[usize::from(self.is_renewed)].into()),
            record: self.record.as_ref().map(RecordState::seen),
            backend,
            ca_bundle: None,
            books: Books { entry: granted.map(|_| Entry { granted, ..Entry::default() }), exceeded: None },
            keys: keys(own),
            earlier_keys: recorded.filter(|uid| Some(*uid) != own).and_then(|uid| keys(Some(uid))),
            location: match self.location {
                Slot::Empty => None,
                Slot::Ours(uid, is_right) => Some(location(Some(uid), is_right)),
                Slot::Theirs => Some(location(None, false)),
            },
            last_backup: None,
            lost: self.lost.map(|number| pair(number).access_key).into_iter().collect(),
            is_key_refused: false,
            fresh: FreshKeys(format!("AK{}", self.keys_used + 1)),
            ahead: 0,
            limit: 0,
        }
    }

    /// Changes the vault. It is gone once it is deleted and nothing holds it, and its location goes with it.
    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut VaultState)) {
        self.vault.as_mut().map(change);
        if let Some(vault) = self.vault.take_if(|vault| vault.deleting && !vault.finalizer)
            && matches!(self.location, Slot::Ours(uid, _) if uid == vault.uid)
        {
            self.location = Slot::Empty;
        }
    }
}
