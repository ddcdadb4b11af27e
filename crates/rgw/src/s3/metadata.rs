//! What is known of an object besides its content, and which of it must be said again when the object is rewritten.

use std::collections::BTreeMap;

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
        EXPIRES,
    },
};

use crate::RgwError;

/// In front of the names of user metadata.
const USER_METADATA: &str = "x-amz-meta-";
const TAG_COUNT: &str = "x-amz-tagging-count";

/// An object without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// In bytes.
    pub size: u64,
    /// Changes with the content.
    pub etag: String,
    /// What its user says about it.
    pub metadata: ObjectMetadata,
}

/// What a user says about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMetadata {
    /// `None` leaves it to the gateway, which says `binary/octet-stream`.
    pub content_type: Option<String>,
    /// By name, without `x-amz-meta-`. Names are in lower case.
    pub user: BTreeMap<String, String>,
}

impl Object {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).map(lossy);
        let user = headers
            .iter()
            .filter_map(|(name, value)| Some((name.as_str().strip_prefix(USER_METADATA)?.to_owned(), lossy(value))));
        Self {
            size: text(CONTENT_LENGTH).and_then(|size| size.parse().ok()).unwrap_or_default(),
            etag: text(ETAG).unwrap_or_default().trim_matches('"').to_owned(),
            metadata: ObjectMetadata { content_type: text(CONTENT_TYPE), user: user.collect() },
        }
    }
}

fn lossy(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

impl ObjectMetadata {
    pub(super) fn headers(&self) -> Result<HeaderMap, RgwError> {
        let mut headers = HeaderMap::new();
        if let Some(content_type) = &self.content_type {
            headers.insert(CONTENT_TYPE, header_value("content type", content_type)?);
        }
        for (name, value) in &self.user {
            let header = HeaderName::try_from(format!("{USER_METADATA}{name}"));
            let rule = "it must be letters, digits or one of !#$%&'*+-.^_`|~";
            let invalid = |_| RgwError::InvalidName { what: "name of user metadata", value: name.clone(), rule };
            headers.insert(header.map_err(invalid)?, header_value("value of user metadata", value)?);
        }
        Ok(headers)
    }
}

fn header_value(what: &'static str, value: &str) -> Result<HeaderValue, RgwError> {
    let rule = "it must not hold control characters";
    HeaderValue::from_bytes(value.as_bytes()).map_err(|_| RgwError::InvalidName { what, value: value.to_owned(), rule })
}

/// What a copy that replaces the metadata must say again, out of what HEAD told; the gateway forgets the rest.
pub(super) fn kept_by_a_rewrite(told: &HeaderMap) -> HeaderMap {
    let is_kept = |name: &HeaderName| {
        [CONTENT_TYPE, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, EXPIRES].contains(name)
            || matches!(name.as_str(), "x-amz-storage-class" | "x-amz-website-redirect-location")
            || name.as_str().starts_with(USER_METADATA)
    };
    told.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

pub(super) fn has_tags(told: &HeaderMap) -> bool {
    told.get(TAG_COUNT).is_some_and(|count| count != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Ceph 16.2.15 answers.
    fn told() -> HeaderMap {
        [
            ("Content-Length", "5"),
            ("Accept-Ranges", "bytes"),
            ("Last-Modified", "Mon, 16 Nov 2026 17:58:30 GMT"),
            ("x-rgw-object-type", "Normal"),
            ("ETag", "\"5d41402abc4b2a76b9719d911017c592\""),
            ("x-amz-meta-a", "one  two"),
            ("x-amz-tagging-count", "1"),
            ("Cache-Control", "max-age=5"),
            ("Content-Encoding", "gzip"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("X-Amz-Storage-Class", "COLD"),
            ("Date", "Mon, 16 Nov 2026 17:58:30 GMT"),
            ("Connection", "Keep-Alive"),
        ]
        .into_iter()
        .map(|(name, value)| (HeaderName::try_from(name).unwrap(), HeaderValue::from_static(value)))
        .collect()
    }

    #[test]
    fn an_object_is_read_from_its_headers() {
        let metadata = ObjectMetadata {
            content_type: Some("text/plain; charset=utf-8".into()),
            user: [("a".to_owned(), "one  two".to_owned())].into(),
        };
        let etag = "5d41402abc4b2a76b9719d911017c592".into();
        assert_eq!(Object::read(&told()), Object { size: 5, etag, metadata });
    }

    #[test]
    fn a_rewrite_keeps_what_describes_the_content_and_nothing_of_the_answer() {
        let kept = kept_by_a_rewrite(&told());
        let mut names: Vec<_> = kept.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["cache-control", "content-encoding", "content-type", "x-amz-meta-a", "x-amz-storage-class"]);
    }

    #[test]
    fn tags_are_noticed() {
        let mut told = told();
        assert!(has_tags(&told));
        told.insert(TAG_COUNT, HeaderValue::from_static("0"));
        assert!(!has_tags(&told));
        assert!(!has_tags(&HeaderMap::new()));
    }

    #[test]
    fn metadata_that_fits_in_no_header_is_refused() {
        for (name, value) in [("a b", "v"), ("ü", "v"), ("a", "line\nbreak")] {
            let metadata = ObjectMetadata { user: [(name.into(), value.into())].into(), ..ObjectMetadata::default() };
            assert_eq!(metadata.headers().unwrap_err().reason(), "InvalidName", "{name}: {value}");
        }
        let metadata = ObjectMetadata { user: [("a".into(), "ü".into())].into(), ..ObjectMetadata::default() };
        assert_eq!(Object::read(&metadata.headers().unwrap()).metadata, metadata);
    }
}
