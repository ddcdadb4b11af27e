//! S3 with a user's own key, path style.

mod metadata;
mod objects;
mod settings;

use std::time::Duration;

use http::Method;

use crate::{
    Credentials, Endpoint, RgwError, answer::Answer, bucket::check_name, error::absent_is_done, error::absent_is_none,
    request::Request, transport::Session, user::check_tenant,
};

pub use metadata::{Object, ObjectMetadata};
pub use settings::Versioning;

/// A gateway, called with the key of a user or a subuser. Clones share their connections. Buckets are those of the
/// user's own tenant, unless told otherwise with [`in_tenant`](Self::in_tenant).
#[derive(Clone, Debug)]
pub struct S3 {
    session: Session,
    /// `tenant:` in front of the names of buckets that are not the user's own tenant's.
    tenant_prefix: String,
}

impl S3 {
    /// To call the gateway of a [`Gateway`](crate::Gateway), [`Gateway::s3`](crate::Gateway::s3) is cheaper.
    pub fn new(endpoint: Endpoint, credentials: Credentials) -> Result<Self, RgwError> {
        Ok(Self::over(Session::new(endpoint, credentials)?))
    }

    pub(crate) fn over(session: Session) -> Self {
        Self { session, tenant_prefix: String::new() }
    }

    /// The same gateway and keys with more, or less, patience.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { session: self.session.with_timeout(timeout), ..self }
    }

    /// The same user's view of the buckets of another tenant, as far as their policies let it.
    pub fn in_tenant(&self, tenant: &str) -> Result<Self, RgwError> {
        let tenant_prefix = format!("{}:", check_tenant(tenant)?);
        Ok(Self { session: self.session.clone(), tenant_prefix })
    }

    /// Succeeds if the user has the bucket already; `BucketAlreadyExists` if another user of the tenant has it. A user
    /// at its limit gets `TooManyBuckets` even for a bucket it has: look first.
    pub async fn create_bucket(&self, name: &str) -> Result<(), RgwError> {
        self.done(self.bucket_call("create bucket", Method::PUT, name)?).await
    }

    /// Whether the bucket exists; an error if it does but is not this user's to see.
    pub async fn head_bucket(&self, name: &str) -> Result<bool, RgwError> {
        let head = self.done(self.bucket_call("look at bucket", Method::HEAD, name)?).await;
        Ok(absent_is_none(head)?.is_some())
    }

    /// Fails with `BucketNotEmpty` while there are objects in it.
    pub async fn delete_bucket(&self, name: &str) -> Result<(), RgwError> {
        absent_is_done(self.done(self.bucket_call("delete bucket", Method::DELETE, name)?).await)
    }

    async fn done(&self, request: Request) -> Result<(), RgwError> {
        self.session.send(request).await.map(drop)
    }

    /// What is there, or `None`.
    async fn found(&self, request: Request) -> Result<Option<Answer>, RgwError> {
        absent_is_none(self.session.send(request).await)
    }

    fn bucket_call(&self, verb: &str, method: Method, name: &str) -> Result<Request, RgwError> {
        let full = format!("{}{}", self.tenant_prefix, check_name(name)?);
        Ok(Request::new(format!("{verb} {full}"), method, &format!("/{full}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s3() -> S3 {
        let endpoint = Endpoint { url: "http://rgw".into(), region: "default".into(), ca_pem: None };
        S3::new(endpoint, Credentials::new("AK", "SK")).unwrap()
    }

    fn path(s3: &S3, name: &str) -> Result<String, RgwError> {
        s3.bucket_call("look at bucket", Method::HEAD, name).map(|request| request.path_and_query())
    }

    #[tokio::test]
    async fn a_bucket_of_another_tenant_is_named_with_it() {
        assert_eq!(path(&s3(), "data").unwrap(), "/data");
        assert_eq!(path(&s3().in_tenant("acme").unwrap(), "data").unwrap(), "/acme%3Adata");
        assert_eq!(path(&s3().in_tenant("").unwrap(), "data").unwrap(), "/%3Adata");
    }

    #[tokio::test]
    async fn a_name_that_would_be_something_else_is_refused() {
        for name in ["", "data/k", "acme:data"] {
            assert_eq!(path(&s3(), name).unwrap_err().reason(), "InvalidName", "{name}");
        }
        assert_eq!(s3().in_tenant("a/b").unwrap_err().reason(), "InvalidName");
    }
}
