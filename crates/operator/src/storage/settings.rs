//! What is set on a bucket: read for the core, and written as it says.

use std::collections::{BTreeMap, BTreeSet};

use croft_core::{
    plan::{Failure, FailureClass},
    storage::{
        CephUser, KeyPair, Usage,
        bucket::{Bucket, Found, Grants, LifecycleRule, Owner, PolicySeen, Setting, State, Versioning},
        claim::UserQuota,
        migration::MovedIn,
    },
};
use croft_rgw::{
    Bucket as InCeph, Lifecycle, LifecycleRule as RuleInCeph, Policy, Quota, RgwError, Versioning as Versions,
};

use super::{
    ceph::{Ceph, Done, failure, user_id},
    policy,
};
use crate::engine::Written;

/// In front of the ids of our lifecycle rules: all others are the tenant's own.
const OURS: &str = "croft-";

/// What a look at a bucket found.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) state: Option<State>,
    /// Whether the owner's key was needed for it.
    pub(super) used_a_key: bool,
    /// All rules, the tenant's own too.
    lifecycle: Lifecycle,
}

/// What is set on a bucket that is to stay; `told`: what the gateway said of it.
pub(super) async fn look(
    ceph: &Ceph,
    bucket: &Bucket,
    (owner, told): (&Owner, Option<&InCeph>),
    subusers: &BTreeSet<String>,
    moved_in: &[MovedIn],
) -> Result<Looked, Failure> {
    let (Bucket { deleting: None, spec: Ok(spec), .. }, Owner::Ready { user, key, found }) = (bucket, owner) else {
        return Ok(Looked::default());
    };
    let grants = spec.grants(subusers);
    let name = &bucket.target.name;
    match (found, told) {
        (Found::Foreign { .. }, _) => Ok(Looked::default()),
        (Found::Ours, Some(told)) => {
            let former = MovedIn::former_of(moved_in, &told.id);
            Opened { ceph, name, user, key, former }.look(bucket, told, &grants).await
        }
        _ => {
            let wanted = policy::wanted(None, &user_id(user)?, name, &grants, None);
            let policy = PolicySeen::Read { current: None, wanted: wanted.to_string() };
            let state = State {
                policy,
                quota: UserQuota::default(),
                usage: Usage::default(),
                versioning: Versioning::default(),
                lifecycle: BTreeMap::new(),
            };
            Ok(Looked { state: Some(state), ..Looked::default() })
        }
    }
}

/// A bucket that is there, and the key to it.
struct Opened<'a> {
    ceph: &'a Ceph,
    name: &'a str,
    user: &'a CephUser,
    key: &'a KeyPair,
    /// The tenants it came from, if it was moved.
    former: Option<&'a BTreeSet<String>>,
}

impl Opened<'_> {
    async fn look(&self, bucket: &Bucket, told: &InCeph, grants: &Grants) -> Result<Looked, Failure> {
        let policy = self.policy(grants).await?;
        let may_look = |setting| bucket.minds(setting) && matches!(policy, PolicySeen::Read { .. });
        let versions = if may_look(Setting::Versioning) { self.versioning().await? } else { Ok(Versioning::default()) };
        let lifecycle = if may_look(Setting::Lifecycle) { self.lifecycle().await? } else { Ok(Lifecycle::default()) };
        let (policy, versions, lifecycle) = match (versions, lifecycle) {
            (Ok(versions), Ok(lifecycle)) => (policy, versions, lifecycle),
            (Err(why), _) | (_, Err(why)) => (PolicySeen::Unreadable(why), Versioning::default(), Lifecycle::default()),
        };
        let Quota { enabled, max_size: size, max_objects: objects } = told.quota;
        let state = State {
            policy,
            quota: UserQuota { enabled, size, objects },
            usage: Usage { size: told.size, objects: told.objects, buckets: None },
            versioning: versions,
            // One that somebody has switched off does nothing.
            lifecycle: lifecycle.rules.iter().filter(|rule| rule.enabled).filter_map(ours).collect(),
        };
        Ok(Looked { state: Some(state), used_a_key: true, lifecycle })
    }

    /// One that cannot be read is not written over.
    async fn policy(&self, grants: &Grants) -> Result<PolicySeen, Failure> {
        let current = match self.ceph.policy(self.name, self.key).await? {
            Ok(current) => current,
            Err(why) => return Ok(PolicySeen::Unreadable(why)),
        };
        if let Some(why) = self.former.and(current.as_ref()).and_then(policy::objection) {
            return Ok(PolicySeen::Unreadable(why));
        }
        let wanted = policy::wanted(current.as_ref(), &user_id(self.user)?, self.name, grants, self.former).to_string();
        Ok(PolicySeen::Read { current: current.as_ref().map(Policy::to_string), wanted })
    }

    async fn versioning(&self) -> Result<Permitted<Versioning>, Failure> {
        let told = permitted(self.ceph.s3(self.key).bucket_versioning(self.name).await)?;
        let is_enabled =
            |told| if told == Some(Versions::Enabled) { Versioning::Enabled } else { Versioning::Suspended };
        Ok(told.map(is_enabled))
    }

    async fn lifecycle(&self) -> Result<Permitted<Lifecycle>, Failure> {
        let told = permitted(self.ceph.s3(self.key).bucket_lifecycle(self.name).await)?;
        Ok(told.map(Option::unwrap_or_default))
    }
}

/// What an owner reads of his own bucket, or why he cannot: only its policy can keep him from that.
type Permitted<T> = Result<T, String>;

fn permitted<T>(read: Result<T, RgwError>) -> Result<Permitted<T>, Failure> {
    match read {
        Ok(told) => Ok(Ok(told)),
        Err(error) if error.reason() == "AccessDenied" => Ok(Err(error.to_string())),
        Err(error) => Err(of_key(error)),
    }
}

impl Ceph {
    /// The policy of a bucket; within, why it cannot be read: it shuts out the owner, or is none we know.
    pub(super) async fn policy(&self, bucket: &str, key: &KeyPair) -> Result<Permitted<Option<Policy>>, Failure> {
        match self.s3(key).bucket_policy(bucket).await {
            Err(error) if error.reason() == "UnreadableAnswer" => Ok(Err(error.to_string())),
            read => permitted(read),
        }
    }

    pub(super) async fn set_bucket_quota(&self, name: &str, user: &CephUser, quota: UserQuota) -> Done {
        let quota = Quota { enabled: quota.enabled, max_size: quota.size, max_objects: quota.objects };
        done(self.gateway.set_bucket_quota(&user_id(user)?, name, quota).await)
    }

    pub(super) async fn set_versioning(&self, name: &str, key: &KeyPair, versioning: Versioning) -> Done {
        done(self.s3(key).set_bucket_versioning(name, versioning == Versioning::Enabled).await)
    }

    /// The tenant's own rules stay as they were looked at.
    pub(super) async fn put_lifecycle(
        &self,
        name: &str,
        key: &KeyPair,
        rules: &BTreeMap<String, LifecycleRule>,
        looked: &Looked,
    ) -> Done {
        let mut lifecycle = looked.lifecycle.clone();
        lifecycle.rules.retain(|rule| !rule.id.starts_with(OURS));
        lifecycle.others.retain(|rule| !rule.id().starts_with(OURS));
        lifecycle.rules.extend(rules.iter().map(|(id, rule)| RuleInCeph {
            id: format!("{OURS}{id}"),
            prefix: rule.prefix.clone(),
            enabled: true,
            expiration_days: rule.expiration,
            noncurrent_expiration_days: rule.noncurrent_expiration,
            abort_multipart_days: rule.abort_multipart,
        }));
        done(self.s3(key).put_bucket_lifecycle(name, &lifecycle).await)
    }
}

/// A rule of ours, by its id in the spec.
fn ours(rule: &RuleInCeph) -> Option<(String, LifecycleRule)> {
    let id = rule.id.strip_prefix(OURS)?.to_owned();
    let known = LifecycleRule {
        prefix: rule.prefix.clone(),
        expiration: rule.expiration_days,
        noncurrent_expiration: rule.noncurrent_expiration_days,
        abort_multipart: rule.abort_multipart_days,
    };
    Some((id, known))
}

fn done<T>(result: Result<T, RgwError>) -> Done {
    result.map(|_| Written::elsewhere()).map_err(of_key)
}

/// A key of the user may have been replaced since it was seen: the next look knows the new one.
fn of_key(error: RgwError) -> Failure {
    let failure = failure(error);
    if failure.reason == "InvalidAccessKeyId" { Failure { class: FailureClass::Stale, ..failure } } else { failure }
}
