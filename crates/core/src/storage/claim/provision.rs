//! A claim that is there to stay: record it, make its user as granted, publish the keys.

mod booking;

use std::{collections::BTreeSet, time::Duration};

use super::{
    super::{
        CephUser, Class, KeyPair, Problem, Quota, Reason, Usage, display_name, ledger::Units, reason::readiness_of,
        record_name, secret_contents,
    },
    Decision,
    identity::{Identity, Rotation, rotation},
    inquiry::is_made_anew,
    is_uncounted,
    observed::{
        Backend, Claim, ClaimIdentity, Observed, Phase, Reached, Record, RecordBody, SecretSeen, Spec, Status, User,
        UserQuota, ceph_user, no_team, one_of, wanted,
    },
    set_aside::SetAside,
    step::{Mark, SecretBody, Step},
    takeover::{Title, other_class, taken_over, title},
    unavailable,
};
use crate::{conditions::Readiness, secret::Secret};

/// What is said of a key that is lost.
pub(crate) const KEY_LOST: &str = "the gateway no longer knows a key it made; a new one takes its place";

/// What is said where quota that was lowered is not free.
const UNCOUNTED: &str = "; more than that stays booked as long as the gateway does not tell what is stored";

/// What is said where more is stored than the quota allows.
const BEYOND: &str = "; what is stored beyond that counts until it is removed";

/// When what is stored is counted once more after books were settled: the gateway judges an upload by the quota there was when it
/// began.
const RECOUNT: Duration = Duration::from_secs(60);

pub(super) fn decide(seen: &Observed, claim: &Claim) -> Decision {
    let spec = match &claim.spec {
        Ok(spec) => spec,
        Err(problems) => return Decision::wait(Reason::InvalidSpec.stalled(Problem::list(problems))),
    };
    let reached = match &seen.backend {
        Backend::Reached(reached) => reached,
        backend => return unavailable(backend),
    };
    if !reached.allowed {
        let class = &reached.class.name;
        let message =
            format!("S3Class {class} is not offered to this namespace; ask the administrator or name another class");
        return Decision::wait(Reason::NotAllowed.stalled(message));
    }
    if let Some(other) = seen.record.as_ref().and_then(|record| other_class(claim, record)) {
        return Decision::wait(Reason::UserTaken.stalled(format!(
            "S3User {} is of S3Class {other}; name that class in the claim, or give the claim another name",
            claim.record_name()
        )));
    }
    if reached.class.team_required && !reached.in_a_team {
        return Decision::wait(Reason::TeamMissing.stalled(no_team(&claim.target.namespace)));
    }
    let Some(quota) = granted(seen, spec, &reached.class) else {
        return Decision::wait(
            exceeded(seen).unwrap_or_else(|| Reason::Working.progressing("the quota is being granted")),
        );
    };
    let title = reached.user.as_ref().map(|user| title(seen, claim, user));
    let wanted = Wanted::new(seen, claim, spec, reached, quota, title);
    match (&reached.user, title) {
        (Some(user), Some(title @ (Title::Given | Title::Adopted))) => {
            wanted.decide(Some(&taken_over(title, claim, user)))
        }
        (user, None | Some(Title::Own)) => wanted.decide(user.as_ref()),
        _ => Decision::wait(Reason::UserTaken.stalled(format!(
            "Ceph user {} exists and is not known to be of this claim; give the claim another name, or ask the administrator \
             whose it is",
            wanted.user
        ))),
    }
}

/// What the claim's part of the world should look like, beside what it was seen to be.
struct Wanted<'a> {
    seen: &'a Observed,
    claim: &'a Claim,
    spec: &'a Spec,
    class: &'a Class,
    user: CephUser,
    quota: Quota,
    identities: Vec<Identity>,
    rotation: Option<Rotation>,
    /// The user as it is before the claim gets it, if that is to happen.
    takes_over: Option<(Title, &'a User)>,
}

impl<'a> Wanted<'a> {
    fn new(
        seen: &'a Observed,
        claim: &'a Claim,
        spec: &'a Spec,
        reached: &'a Reached,
        quota: Quota,
        title: Option<Title>,
    ) -> Self {
        let class = &reached.class;
        let user = ceph_user(class, &claim.target.namespace, &claim.target.name, seen.record.as_ref());
        let identities = spec.identities(&claim.target.name);
        let takes_over =
            title.zip(reached.user.as_ref()).filter(|(title, _)| matches!(title, Title::Given | Title::Adopted));
        let rotation = match title {
            // All keys will be new ones.
            Some(Title::Given) => claim.rotate.clone().map(|asked| Rotation { asked, retired: BTreeSet::new() }),
            _ => rotation(seen, claim, &identities, reached.user.as_ref()),
        };
        Self { seen, claim, spec, class, user, quota, identities, rotation, takes_over }
    }

    fn decide(&self, user: Option<&User>) -> Decision {
        if let Some(found) = user.filter(|_| is_made_anew(self.claim, self.seen.record.as_ref())) {
            return self.remember(found);
        }
        let mut steps = Vec::new();
        steps.extend(self.finalizer());
        steps.extend(self.confirmation());
        steps.extend(self.record(user));
        steps.extend(self.takeover());
        steps.extend(self.user_itself(user));
        steps.extend(self.settlement(user));
        steps.extend(self.surplus_subusers(user));
        for (number, identity) in self.identities.iter().enumerate() {
            steps.extend(self.identity(user, identity, &self.seen.fresh.numbered(number)));
        }
        for identity in &self.identities {
            steps.extend(self.publish(user, identity));
        }
        steps.extend(self.surplus_secrets());
        steps.extend((!self.lacks_keys(user)).then(|| self.mark(user)).flatten());
        // What was asked for meanwhile begins once this is done, and what is free then is found out.
        let goes_on = !steps.is_empty() && (self.next_rotation_waits() || self.is_to_settle(user));
        let is_recounted = self.settlement(user).is_some();
        let decision = Decision::new(steps, self.verdict(user));
        match (goes_on, is_recounted) {
            (true, _) => decision.again(Duration::ZERO),
            (false, true) => decision.again(RECOUNT),
            (false, false) => decision,
        }
    }

    /// Whether new keys are asked for once more than they are being made.
    fn next_rotation_waits(&self) -> bool {
        let under_way = self.rotation.as_ref().map(|rotation| rotation.asked.as_str());
        self.claim.rotate.as_deref().is_some_and(|asked| under_way != Some(asked))
    }

    /// Before anything else is done: a record that knows nothing of the past keeps all that no S3Bucket answers for.
    fn remember(&self, found: &User) -> Decision {
        if let Some(failure) = &found.unlisted {
            return Decision::wait(readiness_of(failure));
        }
        let record = self.seen.record.as_ref();
        let is_own = record.is_none_or(|record| record.is_of(self.claim));
        let kept = found.buckets.keys().filter(|name| !self.seen.buckets.contains(*name)).cloned().collect();
        let mark = Mark { set_aside: SetAside::keeping(kept), ..self.bound() };
        let mark = Step::MarkRecord { name: self.claim.record_name(), seen: record.map(Record::version), mark };
        let mut steps: Vec<_> = self.finalizer().into_iter().chain(self.confirmation()).collect();
        // Another's becomes the claim's first.
        steps.extend(self.record(Some(found)).filter(|_| record.is_none() || !is_own));
        steps.extend(is_own.then_some(mark));
        let verdict = Reason::Working.progressing("what the user has is being recorded");
        Decision::new(steps, verdict).again(Duration::ZERO)
    }

    fn finalizer(&self) -> Option<Step> {
        (!self.claim.finalizer).then(|| Step::AddFinalizer { claim: self.claim.target.clone() })
    }

    fn record(&self, user: Option<&User>) -> Option<Step> {
        let (name, body) = (self.claim.record_name(), self.record_body(user));
        match &self.seen.record {
            None => Some(Step::CreateRecord { name, body }),
            Some(record) if record.body == body => None,
            Some(record) => Some(Step::UpdateRecord {
                name,
                uid: record.uid.clone(),
                resource_version: record.resource_version.clone(),
                body,
            }),
        }
    }

    /// The old keys go first: nobody who had them gets in when the suspension is lifted.
    fn takeover(&self) -> Vec<Step> {
        let Some((title, before)) = self.takes_over else { return Vec::new() };
        let (user, is_given) = (|| self.user.clone(), title == Title::Given);
        let keys = before.keys.iter().filter(|_| is_given);
        let removals = keys.map(|key| Step::RemoveKey { user: user(), access_key: key.pair.access_key.clone() });
        let display_name = taken_over(title, self.claim, before).display_name;
        let unsuspend = is_given && before.suspended;
        removals.chain([Step::TakeOverUser { user: user(), display_name, unsuspend }]).collect()
    }

    /// Said by a migration that is at work; a claim that stays may be given up by whoever deletes it.
    fn is_moved_away(&self) -> bool {
        self.seen.holder().is_some() && self.seen.record.as_ref().is_some_and(|record| record.body.moved_away)
    }

    fn record_body(&self, user: Option<&User>) -> RecordBody {
        let given = self.takes_over.filter(|(title, _)| *title == Title::Given);
        RecordBody {
            offered_to: None,
            held_by: self.seen.holder().cloned(),
            moved_away: self.is_moved_away(),
            taken_over_from: given.map(|(_, before)| before.display_name.clone()),
            claim: Some(ClaimIdentity {
                namespace: self.claim.target.namespace.clone(),
                name: self.claim.target.name.clone(),
                uid: self.claim.target.uid.clone(),
            }),
            class: Some(self.class.name.clone()),
            user: Some(self.user.clone()),
            read_secret: Some(self.spec.read_secret.clone()),
            admin_secret: Some(self.spec.admin_secret.clone()),
            // Whoever is to go is forgotten last.
            subusers: self.spec.subusers.iter().cloned().chain(self.surplus(user).map(str::to_owned)).collect(),
            rotation: self.rotation.clone(),
            quota: Some(self.quota),
        }
    }

    fn user_itself(&self, seen: Option<&User>) -> Vec<Step> {
        let user = || self.user.clone();
        let max_buckets = self.quota.buckets;
        let quota = UserQuota::of(&self.quota);
        let mut steps = Vec::new();
        let Some(seen) = seen else {
            let target = &self.claim.target;
            let display_name = display_name(&target.namespace, &target.name, &target.uid);
            steps.push(Step::CreateUser {
                user: user(),
                display_name,
                max_buckets,
                access_key: self.seen.fresh.numbered(0),
            });
            steps.push(Step::SetQuota { user: user(), quota });
            return steps;
        };
        if seen.max_buckets != Some(max_buckets) {
            steps.push(Step::SetBucketLimit { user: user(), max_buckets });
        }
        if seen.quota != quota {
            steps.push(Step::SetQuota { user: user(), quota });
        }
        steps
    }

    /// Makes one identity in Ceph, with a key to hand out. The user itself is made with its first one.
    fn identity(&self, seen: Option<&User>, identity: &Identity, fresh: &str) -> Vec<Step> {
        let (user, access_key, access) = (|| self.user.clone(), || fresh.to_owned(), identity.access);
        let mut steps = Vec::new();
        if let Some(name) = &identity.subuser {
            match seen.and_then(|seen| seen.subusers.get(name)) {
                None => {
                    let (user, name) = (user(), name.clone());
                    return vec![Step::CreateSubuser { user, name, access, access_key: access_key() }];
                }
                Some(found) if *found == access => {}
                Some(_) => steps.push(Step::SetSubuserAccess { user: user(), name: name.clone(), access }),
            }
        }
        if seen.is_some() && self.key(seen, identity).is_none() {
            steps.push(Step::AddKey { user: user(), subuser: identity.subuser.clone(), access_key: access_key() });
        }
        steps
    }

    /// The subusers we recorded, have in Ceph and want no more. Those others made are not ours to remove.
    fn surplus<'u>(&'u self, user: Option<&'u User>) -> impl Iterator<Item = &'u str> {
        let recorded = self.seen.record.iter().flat_map(|record| &record.body.subusers).map(String::as_str);
        let is_wanted = |name: &str| self.identities.iter().any(|identity| identity.subuser.as_deref() == Some(name));
        recorded.filter(move |name| {
            let is_there = |user: &User| user.subusers.contains_key(*name) || user.keys_of(Some(name)).next().is_some();
            !is_wanted(name) && user.is_some_and(is_there)
        })
    }

    fn surplus_subusers(&self, seen: Option<&User>) -> Vec<Step> {
        let user = || self.user.clone();
        let keys_left = |name: &str| {
            // A key may outlive its subuser.
            let keys = seen.into_iter().flat_map(|seen| seen.keys_of(Some(name)));
            keys.map(|pair| Step::RemoveKey { user: user(), access_key: pair.access_key.clone() }).collect::<Vec<_>>()
        };
        let is_there = |name: &str| seen.is_some_and(|seen| seen.subusers.contains_key(name));
        let steps = self.surplus(seen).flat_map(|name| {
            let mut steps = keys_left(name);
            if is_there(name) {
                steps = vec![Step::RemoveSubuser { user: user(), name: name.to_owned() }];
            }
            steps
        });
        steps.collect()
    }

    /// The key an identity's Secret hands out, once the gateway has one.
    fn key<'u>(&self, user: Option<&'u User>, identity: &Identity) -> Option<&'u KeyPair> {
        let published = self.own_secret(&identity.secret).and_then(|secret| secret.data.get("accessKey"));
        let is_retired = |pair: &&KeyPair| {
            self.rotation.as_ref().is_some_and(|rotation| rotation.retired.contains(&pair.access_key))
        };
        let keys = user?.keys_of(identity.subuser.as_deref()).filter(|pair| !is_retired(pair));
        one_of(keys, published.map(Secret::expose))
    }

    /// Hands the key out; then, and not before, all others of the identity go.
    fn publish(&self, user: Option<&User>, identity: &Identity) -> Vec<Step> {
        let Some(pair) = self.key(user, identity) else { return Vec::new() };
        if self.is_taken(&identity.secret) || self.is_fixed(user, identity) {
            return Vec::new();
        }
        let others = user.into_iter().flat_map(|user| user.keys_of(identity.subuser.as_deref()));
        let others = others.filter(|other| other.access_key != pair.access_key);
        let remove =
            others.map(|other| Step::RemoveKey { user: self.user.clone(), access_key: other.access_key.clone() });
        self.secret(&identity.secret, pair).into_iter().chain(remove).collect()
    }

    fn secret(&self, name: &str, pair: &KeyPair) -> Option<Step> {
        let target = &self.claim.target;
        let owner = (target.name.clone(), target.uid.clone());
        let body = SecretBody { owner, data: secret_contents(self.class, pair) };
        match self.secret_seen(name) {
            None => Some(Step::CreateSecret { namespace: target.namespace.clone(), name: name.to_owned(), body }),
            Some(secret) if secret.labelled && self.owns(secret) && holds(secret, &body) => None,
            Some(secret) => Some(Step::UpdateSecret { secret: secret.target.clone(), body }),
        }
    }

    /// Whether its Secret must hold another key and cannot be changed.
    fn is_fixed(&self, user: Option<&User>, identity: &Identity) -> bool {
        let must_change = self.key(user, identity).is_some_and(|pair| self.secret(&identity.secret, pair).is_some());
        must_change && self.secret_seen(&identity.secret).is_some_and(|secret| secret.immutable)
    }

    /// Secrets the claim named before. Others may hang theirs onto it, to go with it and not before.
    fn surplus_secrets(&self) -> impl Iterator<Item = Step> {
        self.seen
            .secrets
            .iter()
            .filter(|secret| secret.labelled && self.owns(secret) && !self.names(&secret.target.name))
            .map(|secret| Step::DeleteSecret { secret: secret.target.clone() })
    }

    /// What is said of a user that is there.
    fn bound(&self) -> Mark {
        Mark {
            phase: Phase::Bound,
            reason: Reason::Provisioned,
            message: format!("Ceph user {} is there", self.user),
            set_aside: self.seen.record.as_ref().map(|record| record.set_aside.clone()).unwrap_or_default(),
            purge: None,
            returns_to: None,
        }
    }

    fn mark(&self, user: Option<&User>) -> Option<Step> {
        let (record, mark) = (self.seen.record.as_ref(), self.bound());
        match record {
            Some(record) if record.bears(&mark) => None,
            // An update makes another version, which is looked at on its own.
            Some(record) if record.body != self.record_body(user) => None,
            record => {
                Some(Step::MarkRecord { name: self.claim.record_name(), seen: record.map(Record::version), mark })
            }
        }
    }

    fn verdict(&self, user: Option<&User>) -> Readiness {
        let taken = self.identities.iter().find(|identity| self.is_taken(&identity.secret));
        if let Some(Identity { secret, field, .. }) = taken {
            let message =
                format!("{field}: Secret {secret} exists and is not of this claim; remove it or choose another name");
            return Reason::SecretTaken.stalled(message);
        }
        let fixed = self.identities.iter().find(|identity| self.is_fixed(user, identity));
        if let Some(Identity { secret, field, .. }) = fixed {
            let message = format!(
                "{field}: Secret {secret} is immutable and does not hold the key; delete it, and it is made anew with the key"
            );
            return Reason::SecretTaken.stalled(message);
        }
        if user.is_some_and(|user| user.suspended) {
            let message = format!("Ceph user {} is suspended; ask the administrator of the gateway", self.user);
            return Reason::UserSuspended.stalled(message);
        }
        if let Some(exceeded) = exceeded(self.seen) {
            return exceeded;
        }
        if self.lacks_keys(user) && !self.seen.lost.is_empty() {
            return Reason::KeyLost.progressing(KEY_LOST);
        }
        if self.lacks_keys(user) {
            return Reason::Working.progressing("the keys are being made");
        }
        let is_beyond = |stored: Units| !stored.is_within(Units::from(&self.quota));
        let note = match user {
            Some(user) if is_uncounted(self.seen, user) => UNCOUNTED,
            Some(user) if user.usage.map(Units::from).is_some_and(is_beyond) => BEYOND,
            _ => "",
        };
        Reason::Provisioned.ready(format!("the user has {}{note}", self.quota))
    }

    fn secret_seen(&self, name: &str) -> Option<&'a SecretSeen> {
        self.seen.secrets.iter().find(|secret| secret.target.name == name)
    }

    fn own_secret(&self, name: &str) -> Option<&'a SecretSeen> {
        self.secret_seen(name).filter(|secret| self.owns(secret))
    }

    fn owns(&self, secret: &SecretSeen) -> bool {
        secret.owner.as_deref() == Some(&self.claim.target.uid)
    }

    fn is_taken(&self, name: &str) -> bool {
        self.secret_seen(name)
            .is_some_and(|secret| !self.owns(secret) && !is_left_over(secret, &self.claim.target.name))
    }

    fn names(&self, secret: &str) -> bool {
        self.identities.iter().any(|identity| identity.secret == secret)
    }

    /// Whether a key is still to be made by the gateway, or read back from it.
    fn lacks_keys(&self, user: Option<&User>) -> bool {
        self.identities.iter().any(|identity| self.key(user, identity).is_none())
    }
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

/// Whether it is one of ours whose owner is gone: an earlier claim of this name, or none, as a restore brings them.
fn is_left_over(secret: &SecretSeen, claim: &str) -> bool {
    let is_of_nobody = secret.owner.is_none() || secret.owner_claim.as_deref() == Some(claim);
    is_of_nobody && secret.labelled && ["accessKey", "secretKey"].iter().all(|key| secret.data.contains_key(*key))
}

/// Whether the Secret has all we put in; what others add is theirs.
fn holds(secret: &SecretSeen, body: &SecretBody) -> bool {
    body.data.iter().all(|(key, value)| secret.data.get(key) == Some(value))
}

/// Says what the claim got; called when all of it is there.
pub(super) fn fill_status(status: &mut Status, seen: &Observed, claim: &Claim) {
    if let (Backend::Reached(reached), Ok(spec)) = (&seen.backend, &claim.spec) {
        status.class = Some(reached.class.name.clone());
        status.s3_user = Some(record_name(&claim.target.namespace, &claim.target.name));
        status.quota = granted(seen, spec, &reached.class);
        status.subusers.clone_from(&spec.subusers);
        if let Some(usage) = reached.user.as_ref().and_then(|user| user.usage) {
            status.used = Some(Usage::told(status.used, usage));
        }
        let rotation = seen.record.as_ref().and_then(|record| record.body.rotation.as_ref());
        if let Some(rotation) = rotation.filter(|rotation| !rotation.asked.is_empty()) {
            status.observed_key_rotation = Some(rotation.asked.clone());
        }
    }
}
