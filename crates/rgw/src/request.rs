//! A request before it is signed. Its query holds each name once (the gateway cannot verify a name given twice), a flag
//! such as `?quota` is a name with an empty value, and everything is percent-encoded strictly: the gateway decodes and
//! re-encodes before it checks a signature, so a lenient encoding would be refused.

use std::collections::BTreeMap;

use http::{HeaderMap, Method};
use hyper::body::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but the unreserved characters of RFC 3986.
const VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same with `/` left as it is, since it separates a path's segments.
const PATH: &AsciiSet = &VALUE.remove(b'/');

pub(crate) struct Request {
    /// What is being done to what, for messages: `create user acme$bob`.
    pub(crate) call: String,
    pub(crate) method: Method,
    /// Percent-encoded, begins with `/`.
    pub(crate) path: String,
    query: BTreeMap<&'static str, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) signs_body: bool,
}

impl Request {
    /// `path` is given as it reads, not encoded.
    pub(crate) fn new(call: String, method: Method, path: &str) -> Self {
        Self {
            call,
            method,
            path: utf8_percent_encode(path, PATH).to_string(),
            query: BTreeMap::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            signs_body: true,
        }
    }

    /// The same of an object in the bucket that the request is about; `key` is given as it reads.
    pub(crate) fn below(mut self, key: &str) -> Self {
        self.call = format!("{}/{key}", self.call);
        self.path = format!("{}/{}", self.path, utf8_percent_encode(key, PATH));
        self
    }

    pub(crate) fn flag(self, name: &'static str) -> Self {
        self.with(name, "")
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers pass numbers and flags")]
    pub(crate) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        let earlier = self.query.insert(name, value.to_string());
        debug_assert!(earlier.is_none(), "{name} is given twice");
        self
    }

    pub(crate) fn with_some(self, name: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    pub(crate) fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn unsigned_body(mut self, body: impl Into<Bytes>) -> Self {
        self.signs_body = false;
        self.with_body(body)
    }

    /// The query as it is both sent and signed: sorted by name.
    pub(crate) fn query(&self) -> String {
        let pairs = self.query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    pub(crate) fn path_and_query(&self) -> String {
        if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query()) }
    }
}

fn encode(value: &str) -> String {
    utf8_percent_encode(value, VALUE).to_string()
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_query_is_sorted_strictly_encoded_and_its_flags_have_an_equals_sign() {
        let request = Request::new(String::new(), Method::PUT, "/admin/user")
            .with("quota-type", "user")
            .flag("quota")
            .with("uid", "acme$bob")
            .with("max-size", -1)
            .with("display-name", "a b/c:d=é+");
        assert_eq!(
            request.path_and_query(),
            "/admin/user?display-name=a%20b%2Fc%3Ad%3D%C3%A9%2B&max-size=-1&quota=&quota-type=user&uid=acme%24bob"
        );
    }

    #[test]
    fn a_path_keeps_its_slashes_and_encodes_the_rest() {
        let request = Request::new(String::new(), Method::GET, "/acme:data/a b+c/ü");
        assert_eq!(request.path_and_query(), "/acme%3Adata/a%20b%2Bc/%C3%BC");
    }

    proptest! {
        #[test]
        fn encoding_keeps_every_value_and_leaves_only_unreserved_characters(value in any::<String>()) {
            let encoded = encode(&value);
            prop_assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%".contains(&b)));
            prop_assert_eq!(percent_decode_str(&encoded).decode_utf8().unwrap(), value);
        }

        #[test]
        fn any_value_makes_a_valid_uri(value in any::<String>()) {
            let request = Request::new(String::new(), Method::GET, &format!("/{value}")).with("uid", &value);
            prop_assert!(request.path_and_query().parse::<http::uri::PathAndQuery>().is_ok());
        }
    }
}
