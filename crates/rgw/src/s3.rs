//! S3 with a user's own key: path style, names within the user's own tenant.

use std::time::Duration;

use http::Method;
use hyper::body::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::{
    Credentials, Endpoint, RgwError, answer::Answer, error::absent_is_none, request::Request, transport::Session, xml,
};

/// A gateway, called with the key of a user or a subuser. Clones share their connections.
#[derive(Clone, Debug)]
pub struct S3 {
    session: Session,
}

impl S3 {
    /// To call the gateway of a [`Gateway`](crate::Gateway), [`Gateway::s3`](crate::Gateway::s3) is cheaper.
    pub fn new(endpoint: Endpoint, credentials: Credentials) -> Result<Self, RgwError> {
        Ok(Self::over(Session::new(endpoint, credentials)?))
    }

    pub(crate) fn over(session: Session) -> Self {
        Self { session }
    }

    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { session: self.session.with_timeout(timeout) }
    }

    /// Succeeds if the user has the bucket already; `BucketAlreadyExists` if another user of the tenant has it.
    pub async fn create_bucket(&self, name: &str) -> Result<(), RgwError> {
        self.done(bucket_call("create bucket", Method::PUT, name)).await
    }

    /// Whether the bucket exists; an error if it does but is not this user's to see.
    pub async fn head_bucket(&self, name: &str) -> Result<bool, RgwError> {
        let head = self.done(bucket_call("look at bucket", Method::HEAD, name)).await;
        Ok(absent_is_none(head)?.is_some())
    }

    /// Fails with `BucketNotEmpty` while there are objects in it.
    pub async fn delete_bucket(&self, name: &str) -> Result<(), RgwError> {
        let deleted = self.done(bucket_call("delete bucket", Method::DELETE, name)).await;
        absent_is_none(deleted).map(drop)
    }

    /// The gateway accepts a policy that names users who do not exist.
    pub async fn put_bucket_policy(&self, name: &str, policy: &Value) -> Result<(), RgwError> {
        let request = bucket_call("set policy of bucket", Method::PUT, name).flag("policy");
        self.done(request.with_body(policy.to_string())).await
    }

    /// `None` if the bucket has no policy, or does not exist.
    pub async fn bucket_policy(&self, name: &str) -> Result<Option<Value>, RgwError> {
        let request = bucket_call("get policy of bucket", Method::GET, name).flag("policy");
        absent_is_none(self.session.send(request).await)?.map(Answer::json).transpose()
    }

    pub async fn delete_bucket_policy(&self, name: &str) -> Result<(), RgwError> {
        let request = bucket_call("delete policy of bucket", Method::DELETE, name).flag("policy");
        absent_is_none(self.done(request).await).map(drop)
    }

    pub async fn put_object(&self, bucket: &str, key: &str, content: impl Into<Bytes>) -> Result<(), RgwError> {
        self.done(object_call("put object", Method::PUT, bucket, key).with_body(content)).await
    }

    pub async fn get_object(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, RgwError> {
        let got = self.session.send(object_call("get object", Method::GET, bucket, key)).await;
        Ok(absent_is_none(got)?.map(|answer| answer.body))
    }

    pub async fn delete_object(&self, bucket: &str, key: &str) -> Result<(), RgwError> {
        let deleted = self.done(object_call("delete object", Method::DELETE, bucket, key)).await;
        absent_is_none(deleted).map(drop)
    }

    /// All keys that begin with `prefix`, in order.
    pub async fn list_objects(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, RgwError> {
        let mut keys: Vec<String> = Vec::new();
        loop {
            let request = list_call(bucket, prefix, keys.last());
            let answer = self.session.send(request).await?;
            let page = read_page(answer.call, &answer.body)?;
            let is_last = !page.truncated || page.keys.is_empty();
            keys.extend(page.keys);
            if is_last {
                return Ok(keys);
            }
        }
    }

    async fn done(&self, request: Request) -> Result<(), RgwError> {
        self.session.send(request).await.map(drop)
    }
}

fn bucket_call(verb: &str, method: Method, name: &str) -> Request {
    Request::new(format!("{verb} {name}"), method, &format!("/{name}"))
}

fn object_call(verb: &str, method: Method, bucket: &str, key: &str) -> Request {
    Request::new(format!("{verb} {bucket}/{key}"), method, &format!("/{bucket}/{key}"))
}

fn list_call(bucket: &str, prefix: &str, after: Option<&String>) -> Request {
    bucket_call("list objects of bucket", Method::GET, bucket)
        .with("list-type", 2)
        .with("encoding-type", "url")
        .with("prefix", prefix)
        .with_some("start-after", after)
}

struct Page {
    keys: Vec<String>,
    truncated: bool,
}

fn read_page(call: String, body: &[u8]) -> Result<Page, RgwError> {
    let xml = std::str::from_utf8(body).unwrap_or_default();
    let [truncated] = xml::texts(xml, "IsTruncated")[..] else {
        return Err(RgwError::Unreadable { call, cause: "it is not a listing".to_owned() });
    };
    let keys = xml::texts(xml, "Key").into_iter().map(|key| percent_decode_str(key).decode_utf8_lossy().into_owned());
    Ok(Page { keys: keys.collect(), truncated: truncated == "true" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_goes_on_after_the_last_key_seen() {
        let request = list_call("data", "a/", Some(&"a/b c".to_owned()));
        assert_eq!(request.path_and_query(), "/data?encoding-type=url&list-type=2&prefix=a%2F&start-after=a%2Fb%20c");
    }

    #[test]
    fn the_keys_of_a_listing_are_decoded() {
        let xml = b"<ListBucketResult><Contents><Key>a%20b%2Bc/%C3%BC</Key></Contents><IsTruncated>true</IsTruncated></ListBucketResult>";
        let page = read_page(String::new(), xml).unwrap();
        assert_eq!((page.keys, page.truncated), (vec!["a b+c/ü".to_owned()], true));
    }

    #[test]
    fn a_page_that_is_no_listing_is_not_taken_for_an_empty_bucket() {
        assert!(read_page(String::new(), b"<html>hello</html>").is_err());
    }
}
