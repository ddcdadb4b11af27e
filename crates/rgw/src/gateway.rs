//! The Admin Ops API: users, subusers, keys, quotas, and who owns which bucket.

use std::{sync::Arc, time::Duration};

use crate::{
    Access, Bucket, Credentials, Endpoint, NewUser, Quota, RgwError, S3, User, UserChange, UserId, admin,
    answer::Answer,
    error::{USER_HAS_BUCKETS, absent_is_none},
    request::Request,
    transport::Session,
    turns::Turns,
};

/// A gateway, called with an administrator's key that has the capabilities `users=*` and `buckets=*`. Clones share
/// their connections.
///
/// The gateway refuses most writes that meet on one user or one bucket, with
/// [`ErrorClass::Conflict`](crate::ErrorClass::Conflict). Clones therefore write to a user one after the other, and to
/// a bucket likewise; the time allowed for a call includes the wait for its turn. Another process, or a `Gateway` made
/// with [`new`](Self::new), knows nothing of these turns. Reads never wait.
#[derive(Clone, Debug)]
pub struct Gateway {
    session: Session,
    turns: Arc<Turns>,
}

impl Gateway {
    pub fn new(endpoint: Endpoint, admin: Credentials) -> Result<Self, RgwError> {
        Ok(Self { session: Session::new(endpoint, admin)?, turns: Arc::default() })
    }

    /// The same gateway with more, or less, patience: removing a bucket with a million objects takes minutes.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { session: self.session.with_timeout(timeout), ..self }
    }

    /// The S3 API of the same gateway, over the same connections, with a user's key.
    pub fn s3(&self, credentials: Credentials) -> S3 {
        S3::over(self.session.with_credentials(credentials))
    }

    pub async fn user(&self, id: &UserId) -> Result<Option<User>, RgwError> {
        absent_is_none(self.session.send(admin::get_user(id)).await)?.map(Answer::json).transpose()
    }

    /// Fails with `UserAlreadyExists` if there is one, whatever it looks like. Two calls at the same time may both
    /// succeed, and then one display name, limit and secret wins: what [`user`](Self::user) says afterwards counts.
    pub async fn create_user(&self, new: &NewUser) -> Result<User, RgwError> {
        self.write_user(&new.id, admin::create_user(new)).await?.json()
    }

    pub async fn modify_user(&self, id: &UserId, change: &UserChange) -> Result<User, RgwError> {
        self.write_user(id, admin::modify_user(id, change)).await?.json()
    }

    /// Without `purge` a user with buckets is not removed: `UserHasBuckets`. With it, all buckets and objects go too.
    pub async fn remove_user(&self, id: &UserId, purge: bool) -> Result<(), RgwError> {
        let removed = self.write_user(id, admin::remove_user(id, purge)).await;
        absent_is_done(removed.map_err(|error| error.renaming("BucketAlreadyExists", USER_HAS_BUCKETS)))
    }

    /// Sets the quota on all of the user's buckets together.
    pub async fn set_user_quota(&self, id: &UserId, quota: Quota) -> Result<(), RgwError> {
        self.write_user(id, admin::set_user_quota(id, quota)).await.map(drop)
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
        self.write_user(id, admin::create_subuser(id, name, access, access_key)).await.map(drop)
    }

    pub async fn set_subuser_access(&self, id: &UserId, name: &str, access: Access) -> Result<(), RgwError> {
        self.write_user(id, admin::set_subuser_access(id, name, access)).await.map(drop)
    }

    /// Removes the subuser and all of its keys.
    pub async fn remove_subuser(&self, id: &UserId, name: &str) -> Result<(), RgwError> {
        absent_is_done(self.write_user(id, admin::remove_subuser(id, name)).await)
    }

    /// Adds a key to the user or to one of its subusers, or gives an existing one a new secret at once;
    /// [`user`](Self::user) tells which. The gateway does not check that the subuser exists.
    pub async fn put_key(&self, id: &UserId, subuser: Option<&str>, access_key: &str) -> Result<(), RgwError> {
        self.write_user(id, admin::put_key(id, subuser, access_key)).await.map(drop)
    }

    /// Removes a key of the user or of one of its subusers.
    pub async fn remove_key(&self, id: &UserId, access_key: &str) -> Result<(), RgwError> {
        match absent_is_done(self.write_user(id, admin::remove_key(id, access_key)).await) {
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
        self.session.send(admin::buckets_of(id)).await?.json_list()
    }

    pub async fn bucket(&self, tenant: &str, name: &str) -> Result<Option<Bucket>, RgwError> {
        absent_is_none(self.session.send(admin::get_bucket(tenant, name)).await)?.map(Answer::json).transpose()
    }

    /// Makes `to` the owner of the bucket, which moves into the tenant of `to` under the same name. Objects keep their
    /// old owner's access list and the bucket its policy. **A bucket of that name already in the new tenant would be
    /// replaced without a word: look first.**
    pub async fn link_bucket(&self, tenant: &str, name: &str, to: &UserId) -> Result<(), RgwError> {
        self.write_bucket(tenant, name, admin::link_bucket(tenant, name, to)).await.map(drop)
    }

    async fn write_user(&self, id: &UserId, request: Request) -> Result<Answer, RgwError> {
        self.write(format!("user {id}"), request).await
    }

    async fn write_bucket(&self, tenant: &str, name: &str, request: Request) -> Result<Answer, RgwError> {
        self.write(format!("bucket {tenant}/{name}"), request).await
    }

    async fn write(&self, subject: String, request: Request) -> Result<Answer, RgwError> {
        self.session.send_after(Arc::clone(&self.turns).next(subject), request).await
    }
}

fn absent_is_done<T>(removed: Result<T, RgwError>) -> Result<(), RgwError> {
    absent_is_none(removed).map(|_| ())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const AT_ONCE: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_write_waits_for_the_one_before_it_and_a_read_does_not() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let endpoint = Endpoint { url, region: "default".into(), ca_pem: None };
        let gateway = Gateway::new(endpoint, Credentials::new("AK", "SK")).unwrap();
        let bob = UserId::new("acme", "bob").unwrap();
        let next_request = || tokio::time::timeout(AT_ONCE, silent.accept());

        let (first, user) = (gateway.clone(), bob.clone());
        let first = tokio::spawn(async move { first.put_key(&user, None, "AK1").await });
        let _first = next_request().await.expect("nothing is before the first write");

        let hasty = gateway.clone().with_timeout(AT_ONCE);
        let (second, arrived) = tokio::join!(hasty.put_key(&bob, None, "AK2"), next_request());
        assert_eq!(second.unwrap_err().reason(), "GatewayTimeout");
        arrived.expect_err("the second write was not sent");

        let (_, arrived) = tokio::join!(hasty.user(&bob), next_request());
        let _read = arrived.expect("a read is sent at once");
        first.abort();
    }
}
