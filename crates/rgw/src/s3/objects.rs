//! Objects: their content, metadata, tags, and lists of their keys.

use std::{collections::BTreeMap, fmt::Write};

use http::{HeaderMap, HeaderName, HeaderValue, Method, header::ETAG};
use hyper::body::Bytes;
use percent_encoding::percent_decode_str;

use super::{
    Object, ObjectMetadata, S3,
    metadata::{has_tags, kept_by_a_rewrite},
};
use crate::{Page, RgwError, answer::Answer, error::absent_is_done, request::Request, xml::escape};

impl S3 {
    /// Stores an object, in place of one of its key.
    pub async fn put_object(&self, bucket: &str, key: &str, content: impl Into<Bytes>) -> Result<(), RgwError> {
        self.put_object_with(bucket, key, content, &ObjectMetadata::default()).await
    }

    /// The same, with what its user says about it.
    pub async fn put_object_with(
        &self,
        bucket: &str,
        key: &str,
        content: impl Into<Bytes>,
        metadata: &ObjectMetadata,
    ) -> Result<(), RgwError> {
        let request = self.object_call("put object", Method::PUT, bucket, key)?;
        self.done(request.with_body(content).with_headers(metadata.headers()?)).await
    }

    /// The whole content, in memory.
    pub async fn get_object(&self, bucket: &str, key: &str) -> Result<Option<Bytes>, RgwError> {
        let found = self.found(self.object_call("get object", Method::GET, bucket, key)?).await?;
        Ok(found.map(|answer| answer.body))
    }

    /// An object without its content; `None` if there is none.
    pub async fn head_object(&self, bucket: &str, key: &str) -> Result<Option<Object>, RgwError> {
        Ok(self.headers_of(bucket, key).await?.map(|headers| Object::read(&headers)))
    }

    /// Removes an object, or in a bucket that keeps versions hides it.
    pub async fn delete_object(&self, bucket: &str, key: &str) -> Result<(), RgwError> {
        absent_is_done(self.done(self.object_call("delete object", Method::DELETE, bucket, key)?).await)
    }

    /// The keys that begin with `prefix`, in order and a thousand at a time, from the beginning or `after` what the page
    /// before said.
    pub async fn object_keys(&self, bucket: &str, prefix: &str, after: Option<&str>) -> Result<Page<String>, RgwError> {
        let request = self.bucket_call("list objects of bucket", Method::GET, bucket)?;
        read_page(&self.session.send(listing(request, prefix, after)).await?)
    }

    /// All keys that begin with `prefix`, in order and in memory: see [`object_keys`](Self::object_keys).
    pub async fn list_objects(&self, bucket: &str, prefix: &str) -> Result<Vec<String>, RgwError> {
        let (mut keys, mut after) = (Vec::new(), None);
        loop {
            let page = self.object_keys(bucket, prefix, after.as_deref()).await?;
            keys.extend(page.items);
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(keys),
            }
        }
    }

    /// None for an object that is not there.
    pub async fn object_tags(&self, bucket: &str, key: &str) -> Result<BTreeMap<String, String>, RgwError> {
        let request = self.object_call("get tags of object", Method::GET, bucket, key)?.flag("tagging");
        self.found(request).await?.map_or_else(|| Ok(BTreeMap::new()), |answer| read_tags(&answer))
    }

    /// Sets all tags of the object at once.
    pub async fn set_object_tags(
        &self,
        bucket: &str,
        key: &str,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), RgwError> {
        let request = self.object_call("set tags of object", Method::PUT, bucket, key)?.flag("tagging");
        self.done(request.with_body(tagging(tags))).await
    }

    /// Copies the object onto itself, which makes this user its owner: an object of a bucket that was linked belongs to
    /// the bucket's old owner until then. Content, metadata and tags stay; an access list of its own is lost. `false` if
    /// there is no such object.
    ///
    /// - The content is not moved, whatever its size.
    /// - It counts as a new object while it is checked against quotas: at the limit it is `QuotaExceeded`.
    /// - `PreconditionFailed` if the object was replaced meanwhile.
    /// - In a bucket with versions it makes a new one; the older ones keep their owner.
    /// - Encrypted objects are refused: `NotImplemented`.
    /// - Tags are put back by a second call, as the gateway drops them. If that fails they are lost.
    pub async fn rewrite_object(&self, bucket: &str, key: &str) -> Result<bool, RgwError> {
        let Some(told) = self.headers_of(bucket, key).await? else { return Ok(false) };
        let tags = if has_tags(&told) { Some(self.object_tags(bucket, key).await?) } else { None };
        if self.found(self.rewrite_call(bucket, key, &told)?).await?.is_none() {
            return Ok(false);
        }
        if let Some(tags) = tags {
            self.set_object_tags(bucket, key, &tags).await?;
        }
        Ok(true)
    }

    fn rewrite_call(&self, bucket: &str, key: &str, told: &HeaderMap) -> Result<Request, RgwError> {
        let request = self.object_call("rewrite object", Method::PUT, bucket, key)?;
        let source = HeaderValue::from_str(&request.path).expect("a path is encoded");
        let mut headers = kept_by_a_rewrite(told);
        headers.insert("x-amz-copy-source", source);
        headers.insert("x-amz-metadata-directive", HeaderValue::from_static("REPLACE"));
        if let Some(etag) = told.get(ETAG) {
            // The name that S3 gives it, and the one by which Ceph goes.
            for name in ["x-amz-copy-source-if-match", "x-amz-copy-if-match"] {
                headers.insert(HeaderName::from_static(name), etag.clone());
            }
        }
        Ok(request.with_headers(headers))
    }

    async fn headers_of(&self, bucket: &str, key: &str) -> Result<Option<HeaderMap>, RgwError> {
        let request = self.object_call("look at object", Method::HEAD, bucket, key)?;
        Ok(self.found(request).await?.map(|answer| answer.headers))
    }

    fn object_call(&self, verb: &str, method: Method, bucket: &str, key: &str) -> Result<Request, RgwError> {
        if key.is_empty() {
            let rule = "it must not be empty, or the call would be about the bucket";
            return Err(RgwError::InvalidName { what: "key of an object", value: String::new(), rule });
        }
        Ok(self.bucket_call(verb, method, bucket)?.below(key))
    }
}

/// Keys are asked for percent-encoded: not every character of a key may stand in XML.
fn listing(bucket: Request, prefix: &str, after: Option<&str>) -> Request {
    bucket.with("list-type", 2).with("encoding-type", "url").with("prefix", prefix).with_some("start-after", after)
}

fn read_page(answer: &Answer) -> Result<Page<String>, RgwError> {
    let listing = answer.xml("ListBucketResult")?;
    let keys = listing.all("Contents").filter_map(|object| object.text_of("Key"));
    let items: Vec<_> = keys.map(|key| percent_decode_str(key).decode_utf8_lossy().into_owned()).collect();
    match listing.text_of("IsTruncated") {
        Some("true") => Ok(Page { next: items.last().cloned(), items }),
        Some("false") => Ok(Page { items, next: None }),
        _ => Err(answer.unreadable("it does not say whether it is complete")),
    }
}

fn tagging(tags: &BTreeMap<String, String>) -> String {
    let mut xml = "<Tagging xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet>".to_owned();
    for (key, value) in tags {
        let _ = write!(xml, "<Tag><Key>{}</Key><Value>{}</Value></Tag>", escape(key), escape(value));
    }
    xml + "</TagSet></Tagging>"
}

fn read_tags(answer: &Answer) -> Result<BTreeMap<String, String>, RgwError> {
    let tagging = answer.xml("Tagging")?;
    let tags = tagging.child("TagSet").into_iter().flat_map(|set| set.all("Tag"));
    Ok(tags.filter_map(|tag| Some((tag.text_of("Key")?.to_owned(), tag.text_of("Value")?.to_owned()))).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Credentials, Endpoint};

    fn s3() -> S3 {
        let endpoint = Endpoint { url: "http://rgw".into(), region: "default".into(), ca_pem: None };
        S3::new(endpoint, Credentials::new("AK", "SK")).unwrap()
    }

    #[tokio::test]
    async fn a_listing_goes_on_after_the_last_key_seen() {
        let request = s3().bucket_call("list", Method::GET, "data").ok().unwrap();
        assert_eq!(
            listing(request, "a/", Some("a/b c")).path_and_query(),
            "/data?encoding-type=url&list-type=2&prefix=a%2F&start-after=a%2Fb%20c"
        );
    }

    #[test]
    fn the_keys_of_a_listing_are_decoded() {
        let page = |truncated| {
            read_page(&Answer::of(&format!(
                "<ListBucketResult xmlns=\"x\"><Prefix>p</Prefix><IsTruncated>{truncated}</IsTruncated>\
                 <Contents><Key>a%20b%2Bc%2F%C3%BC</Key><Size>1</Size></Contents></ListBucketResult>"
            )))
        };
        let items = vec!["a b+c/ü".to_owned()];
        assert_eq!(page("false"), Ok(Page { items: items.clone(), next: None }));
        assert_eq!(page("true"), Ok(Page { items, next: Some("a b+c/ü".into()) }));
    }

    #[test]
    fn a_page_that_is_no_listing_is_not_taken_for_an_empty_bucket() {
        for body in ["", "<html>hello</html>", "<ListBucketResult></ListBucketResult>"] {
            assert_eq!(read_page(&Answer::of(body)).unwrap_err().reason(), "UnreadableAnswer", "{body}");
        }
    }

    #[tokio::test]
    async fn a_rewrite_names_itself_as_source_and_the_content_it_is_about() {
        let mut told = HeaderMap::new();
        told.insert(ETAG, HeaderValue::from_static("\"abc\""));
        told.insert("x-amz-meta-a", HeaderValue::from_static("1"));
        let request = s3().in_tenant("acme").unwrap().rewrite_call("data", "a b/ü", &told).ok().unwrap();
        assert_eq!(request.path_and_query(), "/acme%3Adata/a%20b/%C3%BC");
        let header = |name| request.headers.get(name).unwrap().to_str().unwrap();
        assert_eq!(header("x-amz-copy-source"), "/acme%3Adata/a%20b/%C3%BC");
        assert_eq!(header("x-amz-metadata-directive"), "REPLACE");
        assert_eq!(header("x-amz-copy-if-match"), "\"abc\"");
        assert_eq!(header("x-amz-meta-a"), "1");
    }

    #[tokio::test]
    async fn an_empty_key_is_not_taken_for_the_bucket() {
        assert_eq!(s3().delete_object("data", "").await.unwrap_err().reason(), "InvalidName");
    }

    proptest! {
        #[test]
        fn any_tags_are_read_as_they_were_written(tags in prop::collection::btree_map(any::<String>(), any::<String>(), 0..4)) {
            prop_assert_eq!(read_tags(&Answer::of(&tagging(&tags))).unwrap(), tags);
        }
    }
}
