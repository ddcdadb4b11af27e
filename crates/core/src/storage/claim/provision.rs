//! A claim that is there to stay: record it, make its user as granted, publish the keys.

use super::{
    super::{
        CephUser, Class, KeyPair, Problem, Quota, READONLY_SUBUSER, Reason, display_name, ledger::Units, record_name,
        secret_contents,
    },
    Decision,
    observed::{
        Access, Backend, Claim, ClaimIdentity, Observed, Phase, Reached, RecordBody, SecretSeen, Spec, Status, User,
        UserQuota, ceph_user, wanted,
    },
    step::{Mark, SecretBody, Step},
    unavailable,
};
use crate::{conditions::Readiness, secret::Secret};

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
    let Some(quota) = granted(seen, spec, &reached.class) else {
        return Decision::wait(
            exceeded(seen).unwrap_or_else(|| Reason::Working.progressing("the quota is being granted")),
        );
    };
    let wanted = Wanted::new(seen, claim, spec, reached, quota);
    match &reached.user {
        Some(user) if !user.is_of(&claim.target.uid) => Decision::wait(Reason::UserTaken.stalled(format!(
            "Ceph user {} exists and is not known to be of this claim; remove it or give the claim another name",
            wanted.user
        ))),
        user => wanted.decide(user.as_ref()),
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
}

impl<'a> Wanted<'a> {
    fn new(seen: &'a Observed, claim: &'a Claim, spec: &'a Spec, reached: &'a Reached, quota: Quota) -> Self {
        let class = &reached.class;
        let user = ceph_user(class, &claim.target.namespace, &claim.target.name, seen.record.as_ref());
        Self { seen, claim, spec, class, user, quota }
    }

    fn decide(&self, user: Option<&User>) -> Decision {
        let admin = self.published_key(user, None, &self.spec.admin_secret);
        let readonly = self.published_key(user, Some(READONLY_SUBUSER), &self.spec.read_secret);

        let mut steps = Vec::new();
        steps.extend(self.finalizer());
        steps.extend(self.confirmation());
        steps.extend(self.record());
        steps.extend(self.user_itself(user));
        steps.extend(self.settlement());
        steps.extend(self.readonly_subuser(user));
        steps.extend(admin.and_then(|pair| self.secret(&self.spec.admin_secret, pair)));
        steps.extend(readonly.and_then(|pair| self.secret(&self.spec.read_secret, pair)));
        steps.extend(self.surplus_secrets());
        steps.extend((!lacks_keys(user)).then(|| self.mark()).flatten());
        Decision::new(steps, self.verdict(user))
    }

    fn finalizer(&self) -> Option<Step> {
        (!self.claim.finalizer).then(|| Step::AddFinalizer { claim: self.claim.target.clone() })
    }

    /// Before Ceph is given more.
    fn confirmation(&self) -> Option<Step> {
        let units = Units::from(&self.quota);
        let books = &self.seen.books;
        let confirm = || Step::Confirm { claim: self.claim.target.clone(), units };
        (books.exceeded.is_none() && !books.grant(units)).then(confirm)
    }

    /// After Ceph was given less.
    fn settlement(&self) -> Option<Step> {
        let units = Units::from(&self.quota);
        let settle = || Step::Settle { claim: self.claim.target.clone(), units };
        self.seen.books.hold_more_than(units).then(settle)
    }

    fn record(&self) -> Option<Step> {
        let (name, body) = (self.claim.record_name(), self.record_body());
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

    fn record_body(&self) -> RecordBody {
        RecordBody {
            claim: Some(ClaimIdentity {
                namespace: self.claim.target.namespace.clone(),
                name: self.claim.target.name.clone(),
                uid: self.claim.target.uid.clone(),
            }),
            class: Some(self.class.name.clone()),
            user: Some(self.user.clone()),
            read_secret: Some(self.spec.read_secret.clone()),
            admin_secret: Some(self.spec.admin_secret.clone()),
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
                access_key: self.seen.fresh.admin.clone(),
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
        if seen.key(None, None).is_none() {
            steps.push(Step::AddKey { user: user(), subuser: None, access_key: self.seen.fresh.admin.clone() });
        }
        steps
    }

    fn readonly_subuser(&self, seen: Option<&User>) -> Vec<Step> {
        let (user, name) = (|| self.user.clone(), || READONLY_SUBUSER.to_owned());
        let access_key = || self.seen.fresh.readonly.clone();
        let Some((seen, access)) = seen.and_then(|seen| Some((seen, seen.subusers.get(READONLY_SUBUSER)?))) else {
            return vec![Step::CreateSubuser { user: user(), name: name(), access_key: access_key() }];
        };
        let mut steps = Vec::new();
        if *access != Access::Read {
            steps.push(Step::LetSubuserRead { user: user(), name: name() });
        }
        if seen.key(Some(READONLY_SUBUSER), None).is_none() {
            steps.push(Step::AddKey { user: user(), subuser: Some(name()), access_key: access_key() });
        }
        steps
    }

    /// The key a Secret hands out, once the gateway has one.
    fn published_key<'u>(&self, user: Option<&'u User>, subuser: Option<&str>, secret: &str) -> Option<&'u KeyPair> {
        let published = self.own_secret(secret).and_then(|secret| secret.data.get("accessKey"));
        user.and_then(|user| user.key(subuser, published.map(Secret::expose)))
    }

    fn secret(&self, name: &str, pair: &KeyPair) -> Option<Step> {
        let target = &self.claim.target;
        let owner = (target.name.clone(), target.uid.clone());
        let body = SecretBody { owner, data: secret_contents(self.class, pair) };
        match self.secret_seen(name) {
            None => Some(Step::CreateSecret { namespace: target.namespace.clone(), name: name.to_owned(), body }),
            Some(secret) if !self.owns(secret) => None,
            Some(secret) if secret.labelled && holds(secret, &body) => None,
            Some(secret) => Some(Step::UpdateSecret { secret: secret.target.clone(), body }),
        }
    }

    /// Secrets the claim named before.
    fn surplus_secrets(&self) -> impl Iterator<Item = Step> {
        self.seen
            .secrets
            .iter()
            .filter(|secret| self.owns(secret) && !self.names(&secret.target.name))
            .map(|secret| Step::DeleteSecret { secret: secret.target.clone() })
    }

    fn mark(&self) -> Option<Step> {
        let record = self.seen.record.as_ref();
        let message = format!("Ceph user {} is there", self.user);
        let mark = Mark { phase: Phase::Bound, reason: Reason::Provisioned, message };
        match record {
            Some(record) if record.bears(&mark) => None,
            record => Some(Step::MarkRecord {
                name: self.claim.record_name(),
                uid: record.map(|record| record.uid.clone()),
                mark,
            }),
        }
    }

    fn verdict(&self, user: Option<&User>) -> Readiness {
        let taken = [&self.spec.admin_secret, &self.spec.read_secret]
            .into_iter()
            .find(|name| self.secret_seen(name).is_some_and(|secret| !self.owns(secret)));
        if let Some(name) = taken {
            let message =
                format!("Secret {name} exists and is not of this claim; remove it or name another one in the claim");
            return Reason::SecretTaken.stalled(message);
        }
        if user.is_some_and(|user| user.suspended) {
            let message = format!("Ceph user {} is suspended; ask the administrator of the gateway", self.user);
            return Reason::UserSuspended.stalled(message);
        }
        if let Some(exceeded) = exceeded(self.seen) {
            return exceeded;
        }
        if lacks_keys(user) {
            return Reason::Working.progressing("the keys are being made");
        }
        Reason::Provisioned.ready(format!("the user has {}", self.quota))
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

    fn names(&self, secret: &str) -> bool {
        secret == self.spec.admin_secret || secret == self.spec.read_secret
    }
}

/// Whether a key is still to be made by the gateway, or read back from it.
fn lacks_keys(user: Option<&User>) -> bool {
    user.is_none_or(|user| [None, Some(READONLY_SUBUSER)].iter().any(|subuser| user.key(*subuser, None).is_none()))
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
    }
}
