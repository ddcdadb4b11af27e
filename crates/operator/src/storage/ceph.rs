//! The calls a plan makes to one gateway, in the core's words: each is one request.

use std::collections::BTreeMap;

use croft_core::{
    plan::{Failure, FailureClass},
    secret::Secret,
    storage::{
        CephUser, KeyPair,
        bucket::{BUCKET_NOT_EMPTY, Found},
        claim::{self, Key, UserQuota},
        owner_in,
    },
};
use croft_rgw::{
    Access, BucketLimit, Credentials, ErrorClass, Gateway, NewUser, Quota, RgwError, S3, Subuser, User, UserChange,
    UserId,
};

use crate::engine::Written;

type Done = Result<Written, Failure>;

/// A gateway, with an administrator's keys.
#[derive(Clone, Debug)]
pub(super) struct Ceph(pub(super) Gateway);

impl Ceph {
    /// The user of that name, whosever it is.
    pub(super) async fn user(&self, name: &CephUser, with_buckets: bool) -> Result<Option<claim::User>, Failure> {
        let id = user_id(name)?;
        let Some(user) = self.0.user(&id).await.map_err(failure)? else { return Ok(None) };
        let buckets = if with_buckets { self.0.buckets_with_usage_of(&id).await.map_err(failure)? } else { Vec::new() };
        Ok(Some(seen(&user, buckets.into_iter().map(|bucket| (bucket.name, bucket.objects)).collect())))
    }

    pub(super) async fn create_user(
        &self,
        user: &CephUser,
        display_name: &str,
        buckets: u32,
        access_key: &str,
    ) -> Done {
        let new = NewUser {
            id: user_id(user)?,
            display_name: display_name.to_owned(),
            max_buckets: BucketLimit::AtMost(buckets),
            access_key: access_key.to_owned(),
        };
        done(self.0.create_user(&new).await)
    }

    pub(super) async fn set_bucket_limit(&self, user: &CephUser, buckets: u32) -> Done {
        self.change(user, UserChange { max_buckets: Some(BucketLimit::AtMost(buckets)), ..UserChange::default() }).await
    }

    pub(super) async fn suspend(&self, user: &CephUser) -> Done {
        self.change(user, UserChange { suspended: Some(true), ..UserChange::default() }).await
    }

    async fn change(&self, user: &CephUser, change: UserChange) -> Done {
        done(self.0.modify_user(&user_id(user)?, &change).await)
    }

    pub(super) async fn set_quota(&self, user: &CephUser, quota: UserQuota) -> Done {
        let quota = Quota { enabled: quota.enabled, max_size: quota.size, max_objects: quota.objects };
        done(self.0.set_user_quota(&user_id(user)?, quota).await)
    }

    pub(super) async fn create_subuser(
        &self,
        user: &CephUser,
        name: &str,
        access: claim::Access,
        access_key: &str,
    ) -> Done {
        done(self.0.create_subuser(&user_id(user)?, name, granted(access), access_key).await)
    }

    pub(super) async fn set_subuser_access(&self, user: &CephUser, name: &str, access: claim::Access) -> Done {
        done(self.0.set_subuser_access(&user_id(user)?, name, granted(access)).await)
    }

    pub(super) async fn remove_subuser(&self, user: &CephUser, name: &str) -> Done {
        done(self.0.remove_subuser(&user_id(user)?, name).await)
    }

    pub(super) async fn remove_key(&self, user: &CephUser, access_key: &str) -> Done {
        done(self.0.remove_key(&user_id(user)?, access_key).await)
    }

    pub(super) async fn add_key(&self, user: &CephUser, subuser: Option<&str>, access_key: &str) -> Done {
        done(self.0.put_key(&user_id(user)?, subuser, access_key).await)
    }

    /// Refused if the user has buckets.
    pub(super) async fn remove_user(&self, user: &CephUser) -> Done {
        done(self.0.remove_user(&user_id(user)?, false).await)
    }

    /// One that is not empty after all is looked at again.
    pub(super) async fn remove_empty_bucket(&self, user: &CephUser, name: &str) -> Done {
        self.delete_bucket(user, name).await.map_err(|failure| match failure.reason {
            BUCKET_NOT_EMPTY => Failure { class: FailureClass::Stale, ..failure },
            _ => failure,
        })
    }

    pub(super) async fn purge_bucket(&self, user: &CephUser, name: &str) -> Done {
        done(self.0.remove_bucket(&user.tenant, name, true).await)
    }

    /// The bucket of that name in the user's tenant, and whether there is nothing in it.
    pub(super) async fn bucket(&self, name: &str, user: &CephUser) -> Result<(Found, bool), Failure> {
        let bucket = self.0.bucket(&user.tenant, name).await.map_err(failure)?;
        let is_empty = bucket.as_ref().is_none_or(|bucket| bucket.objects == 0);
        let found = match bucket {
            None => Found::Absent,
            Some(bucket) if bucket.owner == user_id(user)? => Found::Ours,
            Some(bucket) => {
                let (tenant, id) = (bucket.owner.tenant().to_owned(), bucket.owner.id().to_owned());
                Found::Foreign { owner: CephUser { tenant, id } }
            }
        };
        Ok((found, is_empty))
    }

    pub(super) async fn create_bucket(&self, name: &str, key: &KeyPair) -> Done {
        done(self.s3(key).create_bucket(name).await)
    }

    /// Refused if there is something in the bucket.
    pub(super) async fn delete_bucket(&self, user: &CephUser, name: &str) -> Done {
        done(self.0.remove_bucket(&user.tenant, name, false).await)
    }

    fn s3(&self, key: &KeyPair) -> S3 {
        self.0.s3(credentials(key))
    }
}

fn done<T>(result: Result<T, RgwError>) -> Done {
    result.map(|_| Written::elsewhere()).map_err(failure)
}

fn granted(access: claim::Access) -> Access {
    if access == claim::Access::Read { Access::Read } else { Access::Nothing }
}

fn user_id(user: &CephUser) -> Result<UserId, Failure> {
    UserId::new(&user.tenant, &user.id).map_err(failure)
}

fn credentials(pair: &KeyPair) -> Credentials {
    Credentials::new(&pair.access_key, pair.secret_key.expose())
}

fn seen(user: &User, buckets: BTreeMap<String, u64>) -> claim::User {
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
        owner: owner_in(&user.display_name).map(str::to_owned),
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
        buckets,
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
    const KNOWN: [&str; 20] = [
        "AccessDenied",
        "BucketAlreadyExists",
        "BucketNotEmpty",
        "ConcurrentModification",
        "GatewayTimeout",
        "GatewayUnreachable",
        "InvalidAccessKey",
        "InvalidAccessKeyId",
        "InvalidBucketName",
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
            (418, "Teapot", FailureClass::Rejected, "GatewayError"),
        ] {
            let failure = refused(status, code);
            assert_eq!((failure.class, failure.reason), (class, reason), "{status} {code}");
        }
    }
}
