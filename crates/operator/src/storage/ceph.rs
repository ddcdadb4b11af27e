//! The calls a plan makes to one gateway, in the core's words: each is one request.

use std::collections::{BTreeMap, BTreeSet};

use croft_core::{
    plan::{Failure, FailureClass},
    secret::Secret,
    storage::{
        CephUser, KeyPair,
        bucket::{BUCKET_NOT_EMPTY, Found},
        claim::{self, Inquiry, Key, Step, UNCOUNTED, UserQuota},
        migration::InCeph,
    },
};
use croft_rgw::{
    Access, Bucket, BucketLimit, Credentials, ErrorClass, Gateway, NewUser, Quota, RgwError, S3, Subuser, User,
    UserChange, UserId,
};

use super::{
    counting::{Listed, stored},
    not_empty::NotEmpty,
};
use crate::engine::Written;

pub(crate) type Done = Result<Written, Failure>;

/// A gateway, with an administrator's keys.
#[derive(Clone, Debug)]
pub(crate) struct Ceph {
    pub(super) gateway: Gateway,
    pub(super) not_empty: NotEmpty,
}

impl Ceph {
    pub(super) fn new(gateway: Gateway) -> Self {
        Self { gateway, not_empty: NotEmpty::default() }
    }

    /// One step of a plan on a user or its buckets.
    pub(crate) async fn carry_out(&self, step: &Step) -> Done {
        match step {
            Step::CreateUser { user, display_name, max_buckets, access_key } => {
                self.create_user(user, display_name, *max_buckets, access_key).await
            }
            Step::SetBucketLimit { user, max_buckets } => self.set_bucket_limit(user, *max_buckets).await,
            Step::SetQuota { user, quota } => self.set_quota(user, *quota).await,
            Step::CreateSubuser { user, name, access, access_key } => {
                self.create_subuser(user, name, *access, access_key).await
            }
            Step::SetSubuserAccess { user, name, access } => self.set_subuser_access(user, name, *access).await,
            Step::RemoveSubuser { user, name } => self.remove_subuser(user, name).await,
            Step::RemoveKey { user, access_key } => self.remove_key(user, access_key).await,
            Step::TakeOverUser { user, display_name, unsuspend } => {
                self.take_over(user, display_name, *unsuspend).await
            }
            Step::AddKey { user, subuser, access_key } => self.add_key(user, subuser.as_deref(), access_key).await,
            Step::SuspendUser { user } => self.suspend(user).await,
            Step::RemoveEmptyBucket { user, bucket } => self.remove_empty_bucket(user, bucket).await,
            Step::PurgeBucket { user, bucket } => self.purge_bucket(user, bucket).await,
            Step::RemoveUser { user } => self.remove_user(user).await,
            _ => Err(super::no_longer_there()),
        }
    }

    /// The user of that name, whosever it is.
    pub(super) async fn user(&self, name: &CephUser) -> Result<Option<claim::User>, Failure> {
        let user = self.gateway.user(&user_id(name)?).await.map_err(failure)?;
        Ok(user.as_ref().map(seen))
    }

    /// The same, with the names of its buckets, and with what is in them if that can be told in reasonable time.
    pub(super) async fn user_listed(
        &self,
        name: &CephUser,
        with_buckets: bool,
        with_usage: bool,
    ) -> Result<Option<claim::User>, Failure> {
        let Some(user) = self.user(name).await? else { return Ok(None) };
        if !with_buckets {
            return Ok(Some(user));
        }
        let id = user_id(name)?;
        let names = self.gateway.buckets_of(&id).await.map_err(failure)?;
        let usage = if with_usage { self.usage(&id, names.len()).await } else { None };
        let buckets = names.into_iter().map(|name| (name, UNCOUNTED)).collect();
        Ok(Some(claim::User { buckets, usage, ..user }))
    }

    /// The same, with what a look at a claim has to know besides.
    pub(super) async fn user_for(&self, name: &CephUser, inquiry: &Inquiry) -> Result<Option<claim::User>, Failure> {
        let Some(user) = self.user(name).await? else { return Ok(None) };
        let id = user_id(name)?;
        Ok(Some(match inquiry {
            Inquiry::Nothing => user,
            Inquiry::Usage { exactly } => claim::User { usage: self.told_usage(&id, *exactly).await, ..user },
            Inquiry::Buckets(set_aside) => {
                let (listed, unlisted) = match self.buckets(&id, set_aside).await {
                    Ok(listed) => (listed, None),
                    Err(error) => (Listed::default(), Some(failure(error))),
                };
                let Listed { buckets, others_buckets, gone_buckets, usage } = listed;
                claim::User { buckets, others_buckets, gone_buckets, unlisted, usage, ..user }
            }
        }))
    }

    async fn create_user(&self, user: &CephUser, display_name: &str, buckets: u32, access_key: &str) -> Done {
        let new = NewUser {
            id: user_id(user)?,
            display_name: display_name.to_owned(),
            max_buckets: BucketLimit::AtMost(buckets),
            access_key: access_key.to_owned(),
        };
        done(self.gateway.create_user(&new).await)
    }

    async fn set_bucket_limit(&self, user: &CephUser, buckets: u32) -> Done {
        self.change(user, UserChange { max_buckets: Some(BucketLimit::AtMost(buckets)), ..UserChange::default() }).await
    }

    async fn suspend(&self, user: &CephUser) -> Done {
        self.change(user, UserChange { suspended: Some(true), ..UserChange::default() }).await
    }

    /// One call, so that nobody can use the user before it is said whose it is.
    async fn take_over(&self, user: &CephUser, display_name: &str, unsuspend: bool) -> Done {
        let suspended = unsuspend.then_some(false);
        self.change(
            user,
            UserChange { display_name: Some(display_name.to_owned()), suspended, ..UserChange::default() },
        )
        .await
    }

    async fn change(&self, user: &CephUser, change: UserChange) -> Done {
        done(self.gateway.modify_user(&user_id(user)?, &change).await)
    }

    async fn set_quota(&self, user: &CephUser, quota: UserQuota) -> Done {
        let quota = Quota { enabled: quota.enabled, max_size: quota.size, max_objects: quota.objects };
        done(self.gateway.set_user_quota(&user_id(user)?, quota).await)
    }

    async fn create_subuser(&self, user: &CephUser, name: &str, access: claim::Access, access_key: &str) -> Done {
        done(self.gateway.create_subuser(&user_id(user)?, name, granted(access), access_key).await)
    }

    async fn set_subuser_access(&self, user: &CephUser, name: &str, access: claim::Access) -> Done {
        done(self.gateway.set_subuser_access(&user_id(user)?, name, granted(access)).await)
    }

    async fn remove_subuser(&self, user: &CephUser, name: &str) -> Done {
        done(self.gateway.remove_subuser(&user_id(user)?, name).await)
    }

    async fn remove_key(&self, user: &CephUser, access_key: &str) -> Done {
        done(self.gateway.remove_key(&user_id(user)?, access_key).await)
    }

    async fn add_key(&self, user: &CephUser, subuser: Option<&str>, access_key: &str) -> Done {
        done(self.gateway.put_key(&user_id(user)?, subuser, access_key).await)
    }

    /// Refused if the user has buckets.
    async fn remove_user(&self, user: &CephUser) -> Done {
        done(self.gateway.remove_user(&user_id(user)?, false).await)
    }

    /// One that is not empty after all is looked at again, and is not taken for empty any more.
    async fn remove_empty_bucket(&self, user: &CephUser, name: &str) -> Done {
        self.delete_own_bucket(user, name).await.map_err(|failure| match failure.reason {
            BUCKET_NOT_EMPTY => {
                self.not_empty.note(&user.tenant, name);
                Failure { class: FailureClass::Stale, ..failure }
            }
            _ => failure,
        })
    }

    pub(super) async fn delete_own_bucket(&self, user: &CephUser, name: &str) -> Done {
        self.is_still_of(user, name).await?;
        let removed = self.delete_bucket(user, name).await?;
        self.not_empty.forget(&user.tenant, name);
        Ok(removed)
    }

    async fn purge_bucket(&self, user: &CephUser, name: &str) -> Done {
        self.is_still_of(user, name).await?;
        let removed = done(self.gateway.remove_bucket(&user.tenant, name, true).await)?;
        self.not_empty.forget(&user.tenant, name);
        Ok(removed)
    }

    /// All users of a tenant share its names: one that has become another's since the look must not go.
    async fn is_still_of(&self, user: &CephUser, name: &str) -> Result<(), Failure> {
        match self.bucket_in(&user.tenant, name).await? {
            Some(found) if found.owner != *user => Err(super::no_longer_there()),
            _ => Ok(()),
        }
    }

    /// The bucket of that name in the user's tenant.
    pub(super) async fn bucket(&self, name: &str, user: &CephUser) -> Result<Option<Bucket>, Failure> {
        self.gateway.bucket(&user.tenant, name).await.map_err(failure)
    }

    pub(crate) async fn create_bucket(&self, name: &str, key: &KeyPair) -> Done {
        done(self.s3(key).create_bucket(name).await)
    }

    /// What has the name in a tenant.
    pub(super) async fn bucket_in(&self, tenant: &str, name: &str) -> Result<Option<InCeph>, Failure> {
        let bucket = self.gateway.bucket(tenant, name).await.map_err(failure)?;
        Ok(bucket.map(|bucket| InCeph {
            stored: stored(std::slice::from_ref(&bucket)),
            id: bucket.id,
            owner: CephUser { tenant: bucket.owner.tenant().to_owned(), id: bucket.owner.id().to_owned() },
        }))
    }

    /// Gives a bucket to another user. The gateway would replace another bucket of that name without a word, so it is looked for
    /// right before.
    pub(super) async fn link_bucket(&self, tenant: &str, name: &str, id: &str, to: &CephUser) -> Done {
        for tenant in [to.tenant.as_str(), tenant] {
            if self.bucket_in(tenant, name).await?.is_some_and(|found| found.id != id) {
                return Err(super::no_longer_there());
            }
        }
        done(self.gateway.link_bucket(tenant, name, Some(id), &user_id(to)?).await)
    }

    pub(super) async fn delete_policy(&self, bucket: &str, key: &KeyPair) -> Done {
        done(self.s3(key).delete_bucket_policy(bucket).await)
    }

    pub(super) async fn put_policy(&self, bucket: &str, key: &KeyPair, policy: &str) -> Done {
        let unreadable = || Failure::new(FailureClass::Rejected, "InvalidPolicy", "the policy cannot be read");
        let policy = serde_json::from_str(policy).map_err(|_| unreadable())?;
        done(self.s3(key).put_bucket_policy(bucket, &policy).await)
    }

    /// All rules stay as they are, those of the tenant's own too.
    pub(super) async fn renew_lifecycle(&self, bucket: &str, key: &KeyPair) -> Done {
        let s3 = self.s3(key);
        match s3.bucket_lifecycle(bucket).await.map_err(failure)? {
            Some(lifecycle) if !lifecycle.is_empty() => done(s3.put_bucket_lifecycle(bucket, &lifecycle).await),
            _ => Ok(Written::elsewhere()),
        }
    }

    pub(super) async fn count_usage(&self, user: &CephUser) -> Done {
        done(self.gateway.usage_of(&user_id(user)?).await)
    }

    /// Refused if there is something in the bucket.
    async fn delete_bucket(&self, user: &CephUser, name: &str) -> Done {
        done(self.gateway.remove_bucket(&user.tenant, name, false).await)
    }

    pub(super) fn s3(&self, key: &KeyPair) -> S3 {
        self.gateway.s3(credentials(key))
    }
}

/// Whose bucket it is.
pub(super) fn found(bucket: Option<&Bucket>, user: &CephUser) -> Result<Found, Failure> {
    let user = user_id(user)?;
    Ok(match bucket.map(|bucket| &bucket.owner) {
        None => Found::Absent,
        Some(owner) if *owner == user => Found::Ours,
        Some(owner) => {
            Found::Foreign { owner: CephUser { tenant: owner.tenant().to_owned(), id: owner.id().to_owned() } }
        }
    })
}

fn done<T>(result: Result<T, RgwError>) -> Done {
    result.map(|_| Written::elsewhere()).map_err(failure)
}

fn granted(access: claim::Access) -> Access {
    if access == claim::Access::Read { Access::Read } else { Access::Nothing }
}

pub(super) fn user_id(user: &CephUser) -> Result<UserId, Failure> {
    UserId::new(&user.tenant, &user.id).map_err(failure)
}

fn credentials(pair: &KeyPair) -> Credentials {
    Credentials::new(&pair.access_key, pair.secret_key.expose())
}

fn seen(user: &User) -> claim::User {
    let full = user.id.to_string();
    // `tenant$id:name` -> `name`
    let subuser = |owner: &str| owner.strip_prefix(&full).and_then(|rest| rest.strip_prefix(':')).map(str::to_owned);
    let access = |sub: &Subuser| match sub.permissions {
        Some(Access::Nothing) => claim::Access::Nothing,
        Some(Access::Read) => claim::Access::Read,
        _ => claim::Access::Other,
    };
    let subusers = user.subusers.iter().filter_map(|sub| Some((subuser(&sub.id)?, access(sub))));
    let keys = user.keys.iter().filter(|key| key.user == full || subuser(&key.user).is_some());
    claim::User {
        display_name: user.display_name.clone(),
        suspended: user.suspended,
        max_buckets: match user.max_buckets {
            BucketLimit::Unlimited => None,
            BucketLimit::AtMost(limit) => Some(limit),
        },
        quota: UserQuota {
            enabled: user.user_quota.enabled,
            size: user.user_quota.max_size,
            objects: user.user_quota.max_objects,
        },
        subusers: subusers.collect::<BTreeMap<_, _>>(),
        keys: keys.map(|key| Key { subuser: subuser(&key.user), pair: pair(&key.credentials) }).collect(),
        buckets: BTreeMap::new(),
        others_buckets: BTreeSet::new(),
        gone_buckets: BTreeSet::new(),
        unlisted: None,
        usage: None,
    }
}

fn pair(credentials: &Credentials) -> KeyPair {
    KeyPair { access_key: credentials.access_key.clone(), secret_key: Secret::new(credentials.secret_key.expose()) }
}

/// What a failed call to a gateway means for the next attempt.
#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
pub(super) fn failure(error: RgwError) -> Failure {
    let class = match (error.class(), error.reason()) {
        // A gateway that cannot write answers like one with two writers: only the latter is over in a moment.
        (ErrorClass::Conflict, "UnknownError") | (ErrorClass::Transient | ErrorClass::Throttled, _) => {
            FailureClass::Transient
        }
        (ErrorClass::Conflict | ErrorClass::NotFound, _) | (_, "BucketAlreadyExists" | "KeyExists") => {
            FailureClass::Stale
        }
        (ErrorClass::Denied, _) => FailureClass::Forbidden,
        (ErrorClass::Terminal, _) => FailureClass::Rejected,
    };
    Failure::new(class, stable_reason(error.reason()), error.to_string())
}

/// Reasons end up in metrics and conditions, so only known ones are passed on.
fn stable_reason(reason: &str) -> &'static str {
    const KNOWN: [&str; 21] = [
        "AccessDenied",
        "BucketAlreadyExists",
        "BucketNotEmpty",
        "ConcurrentModification",
        "GatewayTimeout",
        "GatewayUnreachable",
        "InvalidAccessKey",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "InvalidBucketState",
        "InvalidCaBundle",
        "InvalidEndpoint",
        "InvalidName",
        "KeyExists",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "SlowDown",
        "TooManyBuckets",
        "UnreadableAnswer",
        "UserHasBuckets",
        "UserSuspended",
    ];
    KNOWN.into_iter().find(|known| *known == reason).unwrap_or("GatewayError")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> Failure {
        failure(RgwError::Refused { call: "create user a$b".into(), status, code: code.into() })
    }

    #[test]
    fn a_gateways_refusal_tells_when_to_try_again() {
        for (status, code, class, reason) in [
            (409, "UserAlreadyExists", FailureClass::Stale, "GatewayError"),
            (409, "UserHasBuckets", FailureClass::Stale, "UserHasBuckets"),
            (409, "BucketAlreadyExists", FailureClass::Stale, "BucketAlreadyExists"),
            (409, "KeyExists", FailureClass::Stale, "KeyExists"),
            (500, "UnknownError", FailureClass::Transient, "GatewayError"),
            (503, "SlowDown", FailureClass::Transient, "SlowDown"),
            (403, "AccessDenied", FailureClass::Forbidden, "AccessDenied"),
            (409, "BucketNotEmpty", FailureClass::Rejected, "BucketNotEmpty"),
            (400, "TooManyBuckets", FailureClass::Rejected, "TooManyBuckets"),
            (409, "InvalidBucketState", FailureClass::Rejected, "InvalidBucketState"),
            (418, "Teapot", FailureClass::Rejected, "GatewayError"),
        ] {
            let failure = refused(status, code);
            assert_eq!((failure.class, failure.reason), (class, reason), "{status} {code}");
        }
    }
}
