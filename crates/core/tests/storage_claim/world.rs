//! The API server and the gateway in miniature. [`World::execute`] panics as soon as a step breaks a promise.

use std::collections::{BTreeMap, BTreeSet};

use croft_core::{
    plan::{Failure, FailureClass},
    secret::Secret,
    storage::{
        Amount, CephUser, Class, KeyPair, NoClass, OnDelete, Problem, Quota, QuotaAsked, READONLY_SUBUSER, Target,
        claim::{
            self, Access, Backend, Claim, ClaimIdentity, FreshKeys, Key, Observed, Phase, Reached, Record, RecordBody,
            SecretSeen, Spec, Status, Step, User, UserQuota,
        },
        owner_in, secret_contents,
    },
};

pub(crate) const NEW: &str = "uid-new";
pub(crate) const EARLIER: &str = "uid-earlier";
pub(crate) const RECORD: &str = "team-a.data";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClassState {
    Retain,
    Purge,
    NotAllowed,
    Gone,
    Unreachable,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClaimState {
    pub(crate) deleting: bool,
    pub(crate) finalizer: bool,
    pub(crate) valid: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RecordState {
    pub(crate) uid: u32,
    /// `None`: made by hand, names nobody.
    pub(crate) claim: Option<&'static str>,
    pub(crate) complete: bool,
    pub(crate) size: u64,
    pub(crate) released: bool,
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserState {
    pub(crate) owner: Option<String>,
    pub(crate) suspended: bool,
    pub(crate) buckets: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) readonly: Option<bool>,
    pub(crate) key: Option<u32>,
    pub(crate) readonly_key: Option<u32>,
    pub(crate) has_buckets: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SecretState {
    pub(crate) owner: Option<String>,
    /// Number of the key it hands out; `None` is something else.
    pub(crate) key: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) claim: Option<ClaimState>,
    pub(crate) terminating: bool,
    pub(crate) record: Option<RecordState>,
    pub(crate) user: Option<UserState>,
    pub(crate) secrets: BTreeMap<String, SecretState>,
    pub(crate) in_use: bool,
    pub(crate) class: ClassState,
    pub(crate) keys_used: u32,
}

fn class(state: ClassState) -> Class {
    Class {
        name: "gold".into(),
        endpoint: "http://rgw".into(),
        region: "eu".into(),
        tenant_prefix: "lab".into(),
        on_delete: if state == ClassState::Purge { OnDelete::Purge } else { OnDelete::Retain },
        default_quota: QuotaAsked::default(),
    }
}

fn amount(value: u64) -> Amount {
    value.to_string().parse::<croft_core::quantity::Quantity>().unwrap().try_into().unwrap()
}

fn asked() -> QuotaAsked {
    QuotaAsked { size: Some(amount(5000)), objects: Some(amount(10)), buckets: Some(0) }
}

pub(crate) fn quota(size: u64) -> Quota {
    Quota { size: amount(size), objects: amount(10), buckets: 0 }
}

fn pair(number: u32) -> KeyPair {
    KeyPair { access_key: format!("AK{number}"), secret_key: Secret::new(format!("hush{number}")) }
}

fn number_of(pair: &KeyPair) -> u32 {
    pair.access_key.trim_start_matches("AK").parse().unwrap()
}

fn user() -> CephUser {
    CephUser { tenant: "lab_team_a".into(), id: "data".into() }
}

fn target(name: &str, uid: &str) -> Target {
    Target { namespace: "team-a".into(), name: name.into(), uid: uid.into(), resource_version: "1".into() }
}

fn identity(uid: &str) -> ClaimIdentity {
    ClaimIdentity { namespace: "team-a".into(), name: "data".into(), uid: uid.into() }
}

fn stale() -> Failure {
    Failure::new(FailureClass::Stale, "Stale", "not as seen")
}

impl World {
    pub(crate) fn observe(&self) -> Observed {
        let spec = Spec { class: None, read_secret: "read".into(), admin_secret: "admin".into(), quota: asked() };
        let claim = self.claim.as_ref().map(|state| Claim {
            target: target("data", NEW),
            generation: 1,
            deleting: state.deleting,
            finalizer: state.finalizer,
            spec: if state.valid {
                Ok(spec)
            } else {
                Err(vec![Problem::new("spec.quota.size", "must not be negative")])
            },
            status: Status::default(),
        });
        let record = self.record.as_ref().map(RecordState::observe);
        let backend = match self.class {
            ClassState::Gone => Backend::NoClass(NoClass::NotFound("gold".into())),
            ClassState::Unreachable => {
                Backend::Unreachable(Failure::new(FailureClass::Transient, "GatewayUnreachable", "no route"))
            }
            state => Backend::Reached(Box::new(Reached {
                class: class(state),
                allowed: state != ClassState::NotAllowed,
                user: self.user.as_ref().map(UserState::observe),
            })),
        };
        Observed {
            claim,
            namespace_terminating: self.terminating,
            record,
            buckets: if self.in_use { BTreeSet::from(["photos".to_owned()]) } else { BTreeSet::new() },
            backend,
            secrets: self.secrets.iter().map(|(name, secret)| secret.observe(name, self.class)).collect(),
            fresh: FreshKeys { admin: pair(self.keys_used + 1), readonly: pair(self.keys_used + 2) },
        }
    }

    fn claim_is_staying(&self, uid: &str) -> bool {
        uid == NEW && self.claim.as_ref().is_some_and(|claim| !claim.deleting)
    }

    fn use_key(&mut self, pair: &KeyPair) -> u32 {
        self.keys_used = self.keys_used.max(number_of(pair));
        number_of(pair)
    }

    /// The user, which must be provably of the claim that `staying` tells of.
    fn own_user(&mut self, staying: bool) -> Result<&mut UserState, Failure> {
        let owner = self.user.as_ref().ok_or_else(stale)?.owner.clone();
        let recorded = self.record.as_ref().and_then(|record| record.claim);
        let owner = owner.expect("a user without owner is not ours to change");
        if staying {
            assert!(self.claim_is_staying(&owner), "changed the user of {owner}");
            assert!(self.record.is_some(), "changed a user before recording it");
        } else {
            assert!(!self.claim_is_staying(&owner), "took down the user of a living claim");
            assert!(!self.in_use, "took down the user of S3Buckets that still need it");
            let deleting = self.claim.is_some() && owner == NEW;
            assert!(deleting || recorded == Some(&owner), "took down the user of {owner}");
        }
        Ok(self.user.as_mut().unwrap())
    }

    fn own_record(&mut self, uid: Option<&str>) -> Result<&mut RecordState, Failure> {
        let record = self.record.as_mut().ok_or_else(stale)?;
        assert!(record.claim.is_some(), "changed an S3User that is not ours");
        if uid.is_some_and(|uid| uid != record.uid.to_string()) { Err(stale()) } else { Ok(record) }
    }

    fn own_secret(&mut self, name: &str) {
        let secret = &self.secrets[name];
        assert_eq!(secret.owner.as_deref(), Some(NEW), "changed a Secret that is not ours");
        assert!(self.claim.is_some());
    }

    pub(crate) fn execute(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::AddFinalizer { claim } => {
                let state = self.claim.as_mut().ok_or_else(stale)?;
                assert!(claim.uid == NEW && !state.deleting);
                state.finalizer = true;
            }
            Step::CreateRecord { name, body } => {
                assert_eq!(name, RECORD);
                if self.record.is_some() {
                    return Err(stale());
                }
                let claim = self.claim.as_ref().unwrap();
                assert!(claim.finalizer || claim.deleting, "recorded before the finalizer");
                self.record = Some(RecordState { uid: 7, claim: Some(NEW), ..RecordState::of(body) });
            }
            Step::UpdateRecord { name, uid, body, .. } => {
                assert_eq!(name, RECORD);
                let record = self.own_record(Some(uid))?;
                *record = RecordState {
                    released: record.released,
                    reason: record.reason.clone(),
                    uid: record.uid,
                    ..RecordState::of(body)
                };
            }
            Step::MarkRecord { uid, mark, .. } => {
                let record = self.own_record(uid.as_deref())?;
                record.released = mark.phase == Phase::Released;
                record.reason = Some(mark.reason.as_str().to_owned());
            }
            Step::DeleteRecord { uid, .. } => {
                let owner = self.own_record(Some(uid))?.claim;
                let left = self.user.as_ref().is_some_and(|user| user.owner.as_deref() == owner);
                assert!(!left, "forgot a user that is still there");
                self.record = None;
            }
            Step::RemoveFinalizer { claim } => self.remove_finalizer(claim)?,
            Step::CreateSecret { name, body, .. } => {
                if self.secrets.contains_key(name) {
                    return Err(stale());
                }
                self.put_secret(name, body);
            }
            Step::UpdateSecret { secret, body } => {
                self.own_secret(&secret.name);
                self.put_secret(&secret.name, body);
            }
            Step::DeleteSecret { secret } => {
                self.own_secret(&secret.name);
                self.secrets.remove(&secret.name);
            }
            step => self.execute_in_ceph(step)?,
        }
        Ok(())
    }

    fn execute_in_ceph(&mut self, step: &Step) -> Result<(), Failure> {
        match step {
            Step::CreateUser { user: name, display_name, max_buckets, key } => {
                assert_eq!(*name, user());
                if self.user.is_some() {
                    return Err(stale());
                }
                assert!(self.claim.as_ref().unwrap().finalizer, "made a user before the finalizer");
                assert!(self.record.is_some(), "made a user before recording it");
                let key = self.use_key(key);
                self.user = Some(UserState {
                    owner: owner_in(display_name).map(str::to_owned),
                    suspended: false,
                    buckets: Some(*max_buckets),
                    size: None,
                    readonly: None,
                    key: Some(key),
                    readonly_key: None,
                    has_buckets: false,
                });
            }
            Step::SetBucketLimit { max_buckets, .. } => self.own_user(true)?.buckets = Some(*max_buckets),
            Step::SetQuota { quota, .. } => self.own_user(true)?.size = quota.size,
            Step::CreateSubuser { name, key, .. } => {
                assert_eq!(name, READONLY_SUBUSER);
                let key = self.use_key(key);
                let user = self.own_user(true)?;
                assert_eq!(user.readonly, None, "the gateway would add a key and keep the old access");
                (user.readonly, user.readonly_key) = (Some(true), Some(key));
            }
            Step::LetSubuserRead { .. } => self.own_user(true)?.readonly = Some(true),
            Step::AddKey { subuser, key, .. } => {
                let key = self.use_key(key);
                let user = self.own_user(true)?;
                let slot = if subuser.is_some() { &mut user.readonly_key } else { &mut user.key };
                assert_eq!(*slot, None, "added a second key");
                *slot = Some(key);
            }
            Step::SuspendUser { .. } => self.own_user(false)?.suspended = true,
            Step::RemoveUser { purge, .. } => {
                let owner = self.user.as_ref().and_then(|user| user.owner.as_deref());
                let record = self.record.as_ref().filter(|record| record.claim == owner);
                let (class, released) = (self.class, record.is_some_and(|record| record.released));
                if self.own_user(false)?.has_buckets && !purge {
                    return Err(stale());
                }
                assert!(!purge || (class == ClassState::Purge && !released), "destroyed data nobody gave up");
                self.user = None;
            }
            other => panic!("{other} is not a call to Ceph"),
        }
        Ok(())
    }

    fn remove_finalizer(&mut self, claim: &Target) -> Result<(), Failure> {
        let state = self.claim.as_mut().ok_or_else(stale)?;
        assert!(claim.uid == NEW && state.deleting && state.finalizer);
        state.finalizer = false;
        let left = self.user.as_ref().is_some_and(|user| user.owner.as_deref() == Some(NEW));
        let unknowable = matches!(self.class, ClassState::Gone | ClassState::Unreachable);
        let record = self.record.as_ref().filter(|record| record.claim == Some(NEW));
        match record {
            None => {
                let place_taken = self.record.is_some() && self.user.as_ref().is_some_and(|user| user.suspended);
                assert!(!left || unknowable || place_taken, "let go of a user nobody can find again");
            }
            Some(record) => assert!(record.released || (unknowable && self.terminating), "let go too early"),
        }
        // Nothing else holds the claim, and what it owns goes with it.
        self.claim = None;
        self.secrets.retain(|_, secret| secret.owner.as_deref() != Some(NEW));
        Ok(())
    }

    fn put_secret(&mut self, name: &str, body: &claim::SecretBody) {
        assert_eq!(body.owner, ("data".to_owned(), NEW.to_owned()));
        let key = body.data["accessKey"].expose().trim_start_matches("AK").parse().unwrap();
        assert_eq!(body.data, secret_contents(&class(self.class), &pair(key)));
        self.secrets.insert(name.to_owned(), SecretState { owner: Some(NEW.into()), key: Some(key) });
    }
}

impl RecordState {
    fn of(body: &RecordBody) -> Self {
        let claim = body.claim.as_ref().unwrap();
        assert_eq!(*claim, identity(NEW));
        assert_eq!(body.user, Some(user()));
        Self {
            uid: 0,
            claim: Some(NEW),
            complete: true,
            size: body.quota.map_or(0, |quota| quota.size.whole()),
            released: false,
            reason: None,
        }
    }

    fn observe(&self) -> Record {
        let some = |text: &str| self.complete.then(|| text.to_owned());
        Record {
            uid: self.uid.to_string(),
            resource_version: "1".into(),
            body: RecordBody {
                claim: self.claim.map(identity),
                class: Some("gold".into()),
                user: self.complete.then(user),
                read_secret: some("read"),
                admin_secret: some("admin"),
                quota: Some(quota(self.size)),
            },
            phase: self.reason.as_ref().map(|_| if self.released { Phase::Released } else { Phase::Bound }),
            reason: self.reason.clone(),
        }
    }
}

impl UserState {
    fn observe(&self) -> User {
        let key = |subuser: Option<&str>, number| Key { subuser: subuser.map(str::to_owned), pair: pair(number) };
        let access = |read| if read { Access::Read } else { Access::Other };
        User {
            owner: self.owner.clone(),
            suspended: self.suspended,
            max_buckets: self.buckets,
            quota: UserQuota { enabled: self.size.is_some(), size: self.size, objects: self.size.map(|_| 10) },
            subusers: self.readonly.map(|read| (READONLY_SUBUSER.to_owned(), access(read))).into_iter().collect(),
            keys: (self.key.map(|number| key(None, number)).into_iter())
                .chain(self.readonly_key.map(|number| key(Some(READONLY_SUBUSER), number)))
                .collect(),
            has_buckets: self.has_buckets,
        }
    }
}

impl SecretState {
    fn observe(&self, name: &str, state: ClassState) -> SecretSeen {
        let data = self.key.map(|key| secret_contents(&class(state), &pair(key))).unwrap_or_default();
        SecretSeen { target: target(name, "uid-secret"), owner: self.owner.clone(), labelled: true, data }
    }
}
