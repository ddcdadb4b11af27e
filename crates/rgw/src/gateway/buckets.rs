//! Buckets: whose they are, what they hold and what they may hold.

use super::Gateway;
use crate::{
    Bucket, Quota, RgwError, UserId,
    admin::buckets,
    answer::Answer,
    error::{absent_is_done, absent_is_none},
    request::Request,
};

impl Gateway {
    /// The names of the user's buckets, in no particular order; none if there is no such user.
    pub async fn buckets_of(&self, id: &UserId) -> Result<Vec<String>, RgwError> {
        self.session.send(buckets::buckets_of(id)).await?.json_list()
    }

    /// The same with what they hold; the gateway takes about a second for a thousand of them.
    pub async fn buckets_with_usage_of(&self, id: &UserId) -> Result<Vec<Bucket>, RgwError> {
        self.session.send(buckets::buckets_with_usage_of(id)).await?.json_list()
    }

    /// The bucket with what it holds; `None` if there is none.
    pub async fn bucket(&self, tenant: &str, name: &str) -> Result<Option<Bucket>, RgwError> {
        absent_is_none(self.session.send(buckets::get_bucket(tenant, name)?).await)?.map(Answer::json).transpose()
    }

    /// Sets the quota of the bucket `name` in the tenant of `id`. Whose it is there does not matter, and is not checked.
    pub async fn set_bucket_quota(&self, id: &UserId, name: &str, quota: Quota) -> Result<(), RgwError> {
        self.write_bucket(id.tenant(), name, buckets::set_bucket_quota(id, name, quota)?).await.map(drop)
    }

    /// Without `purge` a bucket with objects is not removed: `BucketNotEmpty`. With it all objects, versions and open
    /// uploads go too; that takes a second for 1500 of them, see [`with_timeout`](Self::with_timeout).
    pub async fn remove_bucket(&self, tenant: &str, name: &str, purge: bool) -> Result<(), RgwError> {
        absent_is_done(self.write_bucket(tenant, name, buckets::remove_bucket(tenant, name, purge)?).await)
    }

    /// Makes `to` the owner of the bucket, which moves into the tenant of `to` under the same name. Objects keep their
    /// old owner's access list and the bucket its policy. **A bucket of that name already in the new tenant would be replaced without a word: look first.**
    /// With an `id` another bucket of that name is refused: `InvalidArgument`, from Ceph 18 on `NoSuchKey`.
    pub async fn link_bucket(&self, tenant: &str, name: &str, id: Option<&str>, to: &UserId) -> Result<(), RgwError> {
        self.write_bucket(tenant, name, buckets::link_bucket(tenant, name, id, to)?).await.map(drop)
    }

    /// Takes the bucket off its owner's list, so that the user can be removed without it. The owner stays its owner:
    /// a user made anew under the same name has it again. From a user who is not the owner: `InvalidArgument` by Ceph
    /// 16, done by later releases, which say that there is nothing to unlink.
    pub async fn unlink_bucket(&self, tenant: &str, name: &str, from: &UserId) -> Result<(), RgwError> {
        absent_is_done(self.write_bucket(tenant, name, buckets::unlink_bucket(tenant, name, from)?).await)
    }

    async fn write_bucket(&self, tenant: &str, name: &str, request: Request) -> Result<Answer, RgwError> {
        self.write(format!("bucket {tenant}/{name}"), request).await
    }
}
