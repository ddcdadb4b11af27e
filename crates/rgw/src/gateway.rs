//! The Admin Ops API: users, subusers, keys, quotas, and who owns which bucket.

use std::time::Duration;

use crate::{
    Access, Bucket, Credentials, Endpoint, NewUser, Quota, RgwError, S3, User, UserChange, UserId, admin,
    error::{USER_HAS_BUCKETS, absent_is_none},
    request::Request,
    transport::Session,
};

/// A gateway, called with an administrator's key that has the capabilities `users=*` and `buckets=*`. Clones share
/// their connections.
///
/// Concurrent writes to one user fail with [`ErrorClass::Conflict`](crate::ErrorClass::Conflict); callers do well to
/// write to a user one call after the other.
#[derive(Clone, Debug)]
pub struct Gateway {
    session: Session,
}

impl Gateway {
    pub fn new(endpoint: Endpoint, admin: Credentials) -> Result<Self, RgwError> {
        Ok(Self { session: Session::new(endpoint, admin)? })
    }

    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { session: self.session.with_timeout(timeout) }
    }

    /// The S3 API of the same gateway, over the same connections, with a user's key.
    pub fn s3(&self, credentials: Credentials) -> S3 {
        S3::over(self.session.with_credentials(credentials))
    }

    pub async fn user(&self, id: &UserId) -> Result<Option<User>, RgwError> {
        absent_is_none(self.read_user(admin::get_user(id)).await)
    }

    /// Fails with `UserAlreadyExists` if there is one, whatever it looks like. Two calls at the same time may both
    /// succeed, and then one display name, limit and secret wins: what [`user`](Self::user) says afterwards counts.
    pub async fn create_user(&self, new: &NewUser) -> Result<User, RgwError> {
        self.read_user(admin::create_user(new)).await
    }

    pub async fn modify_user(&self, id: &UserId, change: &UserChange) -> Result<User, RgwError> {
        self.read_user(admin::modify_user(id, change)).await
    }

    /// Without `purge` a user with buckets is not removed: `UserHasBuckets`. With it, all buckets and objects go too.
    pub async fn remove_user(&self, id: &UserId, purge: bool) -> Result<(), RgwError> {
        let removed = self.done(admin::remove_user(id, purge)).await;
        absent_is_done(removed.map_err(|error| error.renaming("BucketAlreadyExists", USER_HAS_BUCKETS)))
    }

    /// Sets the quota on all of the user's buckets together.
    pub async fn set_user_quota(&self, id: &UserId, quota: Quota) -> Result<(), RgwError> {
        self.done(admin::set_user_quota(id, quota)).await
    }

    /// Makes the subuser with its key, whose secret [`user`](Self::user) tells. If the subuser exists its access stays
    /// as it was (see [`set_subuser_access`](Self::set_subuser_access)); if the key exists it gets a new secret.
    pub async fn create_subuser(
        &self,
        id: &UserId,
        name: &str,
        access: Access,
        access_key: &str,
    ) -> Result<(), RgwError> {
        self.done(admin::create_subuser(id, name, access, access_key)).await
    }

    pub async fn set_subuser_access(&self, id: &UserId, name: &str, access: Access) -> Result<(), RgwError> {
        self.done(admin::set_subuser_access(id, name, access)).await
    }

    /// Removes the subuser and all of its keys.
    pub async fn remove_subuser(&self, id: &UserId, name: &str) -> Result<(), RgwError> {
        absent_is_done(self.done(admin::remove_subuser(id, name)).await)
    }

    /// Adds a key to the user or to one of its subusers, or gives an existing one a new secret at once;
    /// [`user`](Self::user) tells which. The gateway does not check that the subuser exists.
    pub async fn put_key(&self, id: &UserId, subuser: Option<&str>, access_key: &str) -> Result<(), RgwError> {
        self.done(admin::put_key(id, subuser, access_key)).await
    }

    /// Removes a key of the user or of one of its subusers.
    pub async fn remove_key(&self, id: &UserId, access_key: &str) -> Result<(), RgwError> {
        match absent_is_done(self.done(admin::remove_key(id, access_key)).await) {
            // Either the key is gone already or our own is not known: looking tells which.
            Err(refused) if refused.reason() == "InvalidAccessKeyId" => match self.user(id).await? {
                Some(user) if user.key(access_key).is_some() => Err(refused),
                _ => Ok(()),
            },
            result => result,
        }
    }

    /// The names of the user's buckets, in no particular order; none if there is no such user.
    pub async fn buckets_of(&self, id: &UserId) -> Result<Vec<String>, RgwError> {
        let request = admin::buckets_of(id);
        let call = request.call.clone();
        admin::read_bucket_names(call, &self.session.send(request).await?)
    }

    pub async fn bucket(&self, tenant: &str, name: &str) -> Result<Option<Bucket>, RgwError> {
        let request = admin::get_bucket(tenant, name);
        let call = request.call.clone();
        match absent_is_none(self.session.send(request).await)? {
            Some(body) => admin::read(call, &body).map(Some),
            None => Ok(None),
        }
    }

    /// Makes `to` the owner of the bucket, which moves into the tenant of `to` under the same name. Objects keep their
    /// old owner's access list and the bucket its policy. **A bucket of that name already in the new tenant would be
    /// replaced without a word: look first.**
    pub async fn link_bucket(&self, tenant: &str, name: &str, to: &UserId) -> Result<(), RgwError> {
        self.done(admin::link_bucket(tenant, name, to)).await
    }

    async fn read_user(&self, request: Request) -> Result<User, RgwError> {
        let call = request.call.clone();
        admin::read(call, &self.session.send(request).await?)
    }

    async fn done(&self, request: Request) -> Result<(), RgwError> {
        self.session.send(request).await.map(drop)
    }
}

fn absent_is_done(removed: Result<(), RgwError>) -> Result<(), RgwError> {
    absent_is_none(removed).map(|_| ())
}
