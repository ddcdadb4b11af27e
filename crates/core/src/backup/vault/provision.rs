//! A vault that is there to stay: record it, make its user and bucket as granted, hand the key to Velero and nobody else.

use super::{
    Decision, names,
    observed::{KeysSeen, LocationSeen, Observed, QuotaTold, Spec, Status, Vault, keys_origin, location_spec},
    removal::delete_keys,
    step::Step,
};
use crate::{
    backup::{policy::HeldBack, velero::Fields},
    conditions::Readiness,
    secret::Secret,
    storage::{
        CephUser, Class, KeyPair, Problem, Quota, Reason, Usage,
        claim::{
            self, Backend, ClaimIdentity, KEY_LOST, Mark, Phase, Reached, Record, RecordBody, Rotation, SetAside, User,
            UserQuota, no_team, wanted,
        },
        credentials_file, display_name,
        ledger::Units,
        names_claim, readiness_of,
    },
};

pub(super) fn decide(seen: &Observed, vault: &Vault) -> Decision {
    let spec = match &vault.spec {
        Ok(spec) => spec,
        Err(problems) => return Decision::wait(Reason::InvalidSpec.stalled(Problem::list(problems))),
    };
    if let Some(HeldBack(message)) = seen.held_back() {
        return Decision::wait(Readiness::Progressing { reason: HeldBack::REASON, message });
    }
    let reached = match &seen.backend {
        Backend::Reached(reached) => reached,
        backend => return Decision::wait(backend.readiness()),
    };
    if !reached.allowed {
        let class = &reached.class.name;
        let message =
            format!("S3Class {class} is not offered to this namespace; ask the administrator or name another class");
        return Decision::wait(Reason::NotAllowed.stalled(message));
    }
    if reached.class.team_required && !reached.in_a_team {
        return Decision::wait(Reason::TeamMissing.stalled(no_team(&vault.target.namespace)));
    }
    let Some(quota) = granted(seen, spec, &reached.class) else {
        return Decision::wait(
            exceeded(seen).unwrap_or_else(|| Reason::Working.progressing("the quota is being granted")),
        );
    };
    let identity = vault.identity();
    let wish = Wanted {
        seen,
        vault,
        class: &reached.class,
        user: ceph_user(&reached.class, &identity, seen.record.as_ref()),
        identity,
        quota,
        rotation: rotation(seen, reached.user.as_ref()),
    };
    wish.decide(reached)
}

/// A key that Velero has and cannot get in with, as far as Velero says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyToTry<'a> {
    pub user: CephUser,
    pub bucket: String,
    pub key: &'a KeyPair,
}

/// Where Velero cannot use its location the gateway may have lost the key: nobody but Velero uses it, so it is tried.
pub fn key_to_try(seen: &Observed) -> Option<KeyToTry<'_>> {
    let vault = seen.vault.as_ref().filter(|vault| !vault.deleting)?;
    let location = seen.location.as_ref()?;
    let Backend::Reached(reached) = &seen.backend else { return None };
    let (identity, bucket) = (vault.identity(), names::bucket(&vault.target.name));
    let user = reached.user.as_ref().filter(|user| user.is_of(&identity.uid) && user.has_bucket(&bucket))?;
    let key = key(seen, user, rotation(seen, Some(user)).as_ref())?;
    let user = ceph_user(&reached.class, &identity, seen.record.as_ref());
    (!location.is_available).then_some(KeyToTry { user, bucket, key })
}

/// Of several keys the one Velero has, else the first by name.
fn key<'u>(seen: &Observed, user: &'u User, rotation: Option<&Rotation>) -> Option<&'u KeyPair> {
    let cloud = seen.keys.as_ref().and_then(|keys| keys.cloud.as_ref());
    let is_retired = |key: &KeyPair| rotation.is_some_and(|rotation| rotation.retired.contains(&key.access_key));
    let own = || user.keys_of(None).filter(|pair| !is_retired(pair));
    let published = own().find(|pair| Some(&credentials_file(pair)) == cloud);
    published.or_else(|| own().min_by_key(|pair| &pair.access_key))
}

/// The keys that are not to be used any more: those on record, and those that are lost.
fn rotation(seen: &Observed, user: Option<&User>) -> Option<Rotation> {
    let recorded = seen.record.as_ref().and_then(|record| record.body.rotation.clone());
    let keys = user.into_iter().flat_map(|user| user.keys_of(None)).map(|pair| &pair.access_key);
    Rotation::and_lost(recorded, keys.filter(|key| seen.lost.contains(*key)).cloned().collect())
}

/// The recorded user of a vault, else the one its class gives.
pub(super) fn ceph_user(class: &Class, vault: &ClaimIdentity, record: Option<&Record>) -> CephUser {
    let named = || names::ceph_user(&class.tenant_prefix, &vault.namespace, &vault.name);
    record.and_then(|record| record.body.user.clone()).unwrap_or_else(named)
}

/// What is on record of a vault.
pub(super) fn record_body(vault: &ClaimIdentity, class: &Class, user: CephUser, quota: Option<Quota>) -> RecordBody {
    RecordBody {
        class: Some(class.name.clone()),
        user: Some(user),
        admin_secret: Some(keys_origin(vault).nacuuid),
        claim: Some(vault.clone()),
        quota,
        ..RecordBody::default()
    }
}

/// How the vault stands to the Ceph user of its name.
enum Title<'a> {
    None,
    Own(&'a User),
    /// It was an earlier vault's, and is to be this one's.
    Given(&'a User),
    Taken,
}

/// What the vault's part of the world should look like, beside what it was seen to be.
struct Wanted<'a> {
    seen: &'a Observed,
    vault: &'a Vault,
    class: &'a Class,
    identity: ClaimIdentity,
    user: CephUser,
    quota: Quota,
    rotation: Option<Rotation>,
}

impl Wanted<'_> {
    fn decide(&self, reached: &Reached) -> Decision {
        let title = self.title(reached.user.as_ref());
        let (user, given) = match title {
            Title::None => (None, None),
            Title::Own(user) => (Some(user.clone()), None),
            Title::Given(user) => (Some(self.taken_over(user)), Some(user)),
            Title::Taken => {
                let message = format!(
                    "Ceph user {} exists and is not known to be of this vault; give the vault another name, or ask the \
                     administrator whose it is",
                    self.user
                );
                return Decision::wait(Reason::UserTaken.stalled(message));
            }
        };
        let user = user.as_ref();
        if let Some(verdict) = self.in_the_way(user) {
            return Decision::wait(verdict);
        }
        let mut steps = Vec::new();
        steps.extend((!self.vault.finalizer).then(|| Step::AddFinalizer { vault: self.vault.target.clone() }));
        steps.extend(self.confirmation());
        steps.extend(self.earlier_keys());
        steps.extend(self.record(given));
        steps.extend(given.into_iter().flat_map(|before| self.takeover(before)));
        steps.extend(self.user_itself(user));
        steps.extend(self.settlement(user));
        let key = user.and_then(|user| self.key(user));
        if let (Some(user), Some(key)) = (user, key) {
            steps.extend(self.bucket(user, key));
            steps.extend(self.keys(key));
            steps.extend(self.surplus_keys(user, key));
            steps.extend(self.location());
            steps.extend(self.mark(given));
        }
        Decision::new(steps, self.verdict(key.is_some()))
    }

    fn title<'u>(&self, user: Option<&'u User>) -> Title<'u> {
        let Some(user) = user else { return Title::None };
        if user.is_of(&self.identity.uid) {
            return Title::Own(user);
        }
        let is_given = self.seen.record.as_ref().is_some_and(|record| {
            let is_resumed = record.claim_uid() == Some(&self.identity.uid) && record.takes_over(&user.display_name);
            let is_offered = record.body.offered_to.as_ref() == Some(&self.vault.target.place())
                && names_claim(&user.display_name, &self.identity.namespace, &self.identity.name);
            let is_returned = self.seen.comes_back(record) && record.claim_uid().is_some_and(|uid| user.is_of(uid));
            is_resumed || is_offered || is_returned
        });
        if is_given { Title::Given(user) } else { Title::Taken }
    }

    /// What only a person can move out of the way.
    fn in_the_way(&self, user: Option<&User>) -> Option<Readiness> {
        if self.seen.keys.as_ref().is_some_and(|keys| !self.owns_keys(keys)) {
            let name = keys_origin(&self.identity).nacuuid;
            let message = format!("Secret {name} in Velero's namespace is not of this vault; ask the administrator");
            return Some(Reason::SecretTaken.stalled(message));
        }
        if self.seen.location.as_ref().is_some_and(|location| !self.owns_location(location)) {
            let message = format!(
                "NonAdminBackupStorageLocation {} exists and is not of this vault; remove it or give the vault another name",
                self.identity.name
            );
            return Some(Reason::LocationTaken.stalled(message));
        }
        if user.is_some_and(|user| user.suspended) {
            let message = format!("Ceph user {} is suspended; ask the administrator of the gateway", self.user);
            return Some(Reason::UserSuspended.stalled(message));
        }
        if let Some(failure) = user.and_then(|user| user.unlisted.as_ref()) {
            return Some(readiness_of(failure));
        }
        // Made anew it would be empty, and nobody would know.
        let was_there = self.seen.own_record(self.vault).is_some_and(|record| record.phase == Some(Phase::Bound));
        let is_there = user.is_some_and(|user| user.has_bucket(&names::bucket(&self.identity.name)));
        (was_there && !is_there).then(|| {
            Reason::BucketLost.stalled(
                "the bucket was there and is gone: somebody deleted it in Ceph; to begin anew, delete this vault and make it again",
            )
        })
    }

    fn confirmation(&self) -> Option<Step> {
        let units = Units::from(&self.quota);
        let books = &self.seen.books;
        let has = self.seen.record.as_ref().and_then(|record| record.body.quota);
        let confirm = || Step::Confirm { vault: self.vault.target.clone(), generation: self.vault.generation, units };
        (books.exceeded.is_none() && !books.grant(&self.vault.form(), units, has)).then(confirm)
    }

    /// What is stored beyond the quota counts until it is gone.
    fn settlement(&self, user: Option<&User>) -> Option<Step> {
        let stored = user.map_or(Some(Units::default()), |user| user.usage.map(Units::from))?;
        let (seen, has) = self.seen.books.settled(Units::from(&self.quota), stored)?;
        let (vault, generation) = (self.vault.target.clone(), self.vault.generation);
        Some(Step::Settle { vault, generation, seen: seen.clone(), has })
    }

    /// Once the record is of this vault, nobody finds the Secret of the one before.
    fn earlier_keys(&self) -> Option<Step> {
        let recorded = self.seen.record.as_ref()?.body.claim.as_ref()?;
        delete_keys(self.seen, recorded).filter(|_| recorded.uid != self.identity.uid)
    }

    fn record_body(&self, given: Option<&User>) -> RecordBody {
        let body = record_body(&self.identity, self.class, self.user.clone(), Some(self.quota));
        let taken_over_from = given.map(|before| before.display_name.clone());
        RecordBody { taken_over_from, rotation: self.rotation.clone(), ..body }
    }

    fn record(&self, given: Option<&User>) -> Option<Step> {
        let (name, body) = (self.record_name(), self.record_body(given));
        match &self.seen.record {
            None => Some(Step::CreateRecord { name, body }),
            Some(record) if record.body == body => None,
            Some(record) => Some(Step::UpdateRecord { name, seen: record.version(), body }),
        }
    }

    fn record_name(&self) -> String {
        names::record_name(&self.identity.namespace, &self.identity.name)
    }

    fn display_name(&self) -> String {
        display_name(&self.identity.namespace, &self.identity.name, &self.identity.uid)
    }

    fn taken_over(&self, user: &User) -> User {
        User { display_name: self.display_name(), suspended: false, keys: Vec::new(), ..user.clone() }
    }

    /// The old keys go first: nobody who had them gets in when the suspension is lifted.
    fn takeover(&self, before: &User) -> Vec<Step> {
        let keys = before
            .keys
            .iter()
            .map(|key| claim::Step::RemoveKey { user: self.user.clone(), access_key: key.pair.access_key.clone() });
        let take_over = claim::Step::TakeOverUser {
            user: self.user.clone(),
            display_name: self.display_name(),
            unsuspend: before.suspended,
        };
        keys.chain([take_over]).map(Step::Ceph).collect()
    }

    fn user_itself(&self, seen: Option<&User>) -> Vec<Step> {
        let (user, max_buckets, quota) = (|| self.user.clone(), self.quota.buckets, UserQuota::of(&self.quota));
        let access_key = || self.seen.fresh.numbered(0);
        let steps = match seen {
            None => vec![
                claim::Step::CreateUser {
                    user: user(),
                    display_name: self.display_name(),
                    max_buckets,
                    access_key: access_key(),
                },
                claim::Step::SetQuota { user: user(), quota },
            ],
            Some(seen) => {
                let limit = (seen.max_buckets != Some(max_buckets))
                    .then(|| claim::Step::SetBucketLimit { user: user(), max_buckets });
                let quota = (seen.quota != quota).then(|| claim::Step::SetQuota { user: user(), quota });
                let key = self.key(seen).is_none().then(|| claim::Step::AddKey {
                    user: user(),
                    subuser: None,
                    access_key: access_key(),
                });
                limit.into_iter().chain(quota).chain(key).collect()
            }
        };
        steps.into_iter().map(Step::Ceph).collect()
    }

    fn key<'u>(&self, user: &'u User) -> Option<&'u KeyPair> {
        key(self.seen, user, self.rotation.as_ref())
    }

    fn bucket(&self, user: &User, key: &KeyPair) -> Option<Step> {
        let bucket = names::bucket(&self.identity.name);
        let is_there = user.has_bucket(&bucket);
        (!is_there).then(|| Step::CreateBucket { user: self.user.clone(), bucket, key: key.clone() })
    }

    fn keys(&self, key: &KeyPair) -> Option<Step> {
        let (origin, cloud): (_, Secret) = (keys_origin(&self.identity), credentials_file(key));
        match &self.seen.keys {
            None => Some(Step::CreateKeys { origin, cloud }),
            Some(keys) if keys.cloud.as_ref() == Some(&cloud) => None,
            Some(keys) => Some(Step::UpdateKeys { keys: keys.target.clone(), origin, cloud }),
        }
    }

    /// Only Velero's key is in force.
    fn surplus_keys(&self, user: &User, key: &KeyPair) -> Vec<Step> {
        let others = user.keys.iter().filter(|other| other.pair.access_key != key.access_key);
        let remove = others
            .map(|other| claim::Step::RemoveKey { user: self.user.clone(), access_key: other.pair.access_key.clone() });
        remove.map(Step::Ceph).collect()
    }

    fn location(&self) -> Option<Step> {
        let spec: Fields = location_spec(&self.identity, self.class, self.seen.ca_bundle.as_deref());
        match &self.seen.location {
            None => Some(Step::CreateLocation { vault: self.vault.target.clone(), spec }),
            Some(location) if location.spec == spec => None,
            Some(location) => Some(Step::UpdateLocation { location: location.target.clone(), spec }),
        }
    }

    /// Once all of it is there. A record that was made or changed just now is marked at the next look.
    fn mark(&self, given: Option<&User>) -> Option<Step> {
        let record = self.seen.record.as_ref().filter(|record| record.body == self.record_body(given))?;
        let mark = Mark {
            phase: Phase::Bound,
            reason: Reason::Provisioned,
            message: format!("Ceph user {} is there", self.user),
            set_aside: SetAside::default(),
            purge: None,
            returns_to: self.seen.namespace_uid.clone(),
        };
        let step = || Step::MarkRecord { name: self.record_name(), seen: record.version(), mark: mark.clone() };
        (!record.bears(&mark)).then(step)
    }

    fn owns_keys(&self, keys: &KeysSeen) -> bool {
        keys_origin(&self.identity).owns(&keys.marks)
    }

    fn owns_location(&self, location: &LocationSeen) -> bool {
        location.owner.as_ref() == Some(&self.identity.uid)
    }

    fn is_nearly_full(&self) -> bool {
        let Backend::Reached(reached) = &self.seen.backend else { return false };
        let user = reached.user.as_ref().filter(|user| user.is_of(&self.identity.uid));
        user.and_then(|user| user.usage).is_some_and(|usage| leaves_little(&usage, &self.quota))
    }

    fn verdict(&self, has_key: bool) -> Readiness {
        if let Some(exceeded) = exceeded(self.seen) {
            return exceeded;
        }
        if !has_key && !self.seen.lost.is_empty() {
            return Reason::KeyLost.progressing(KEY_LOST);
        }
        if !has_key {
            return Reason::Working.progressing("the key is being made");
        }
        match &self.seen.location {
            Some(LocationSeen { is_available: true, .. }) if self.is_nearly_full() => Reason::Provisioned.ready(format!(
                "the vault is nearly full, and a backup that does not fit into it fails: it takes {} bytes in {} objects; delete \
                 backups or ask for more",
                self.quota.size, self.quota.objects
            )),
            Some(LocationSeen { is_available: true, .. }) => Reason::Provisioned.ready(format!(
                "backups go into the vault, which takes {} bytes in {} objects",
                self.quota.size, self.quota.objects
            )),
            Some(LocationSeen { told: Some(told), .. }) => {
                Reason::LocationNotReady.progressing(format!("Velero cannot use it yet: {told}"))
            }
            _ => Reason::LocationNotReady.progressing("Velero has not looked at it yet"),
        }
    }
}

/// Less than a tenth.
fn leaves_little(usage: &Usage, quota: &Quota) -> bool {
    let little = |used: u64, most: u64| most.saturating_sub(used) < most / 10;
    little(usage.size, quota.size.whole()) || little(usage.objects, quota.objects.whole())
}

/// What is asked for, if the books grant it; else what was granted before.
fn granted(seen: &Observed, spec: &Spec, class: &Class) -> Option<Quota> {
    let record = seen.record.as_ref();
    match seen.books.exceeded {
        None => Some(wanted(&spec.quota, record, &class.default_quota)),
        Some(_) => record.and_then(|record| record.body.quota),
    }
}

fn exceeded(seen: &Observed) -> Option<Readiness> {
    seen.books.exceeded.map(|exceeded| Reason::QuotaExceeded.stalled(exceeded.to_string()))
}

/// Says what the vault has, and what is in it.
pub(super) fn fill_status(status: &mut Status, seen: &Observed, vault: &Vault) {
    if let Some(record) = seen.own_record(vault) {
        status.s3_class_name.clone_from(&record.body.class);
        status.bucket = Some(names::bucket(&vault.target.name));
        status.quota = record
            .body
            .quota
            .map(|quota| QuotaTold { size: quota.size.to_string(), objects: quota.objects.to_string() });
    }
    if let Backend::Reached(reached) = &seen.backend
        && let Some(usage) = reached.user.as_ref().filter(|user| user.is_of(&vault.target.uid)).and_then(|it| it.usage)
    {
        status.used = Some(Usage::told(status.used, Usage { buckets: None, ..usage }));
    }
    if seen.last_backup.is_some() {
        status.last_backup.clone_from(&seen.last_backup);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::QuotaAsked;

    #[test]
    fn a_vault_says_when_little_is_left_of_its_bytes_or_its_objects() {
        let quota = QuotaAsked::default().or_default(&QuotaAsked::default());
        let left = |size, objects| leaves_little(&Usage { size, objects, buckets: None }, &quota);
        assert!(!left(0, 0) && !left(4 << 30, 900));
        assert!(left(5 << 30, 0) && left(9 << 30, 0) && left(0, 901));
    }
}
