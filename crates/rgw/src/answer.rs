//! What the gateway answered to a call that succeeded.

use http::HeaderMap;
use hyper::body::Bytes;
use serde::de::DeserializeOwned;

use crate::{RgwError, xml::Element};

/// Not `Debug`: users come with their secrets.
pub(crate) struct Answer {
    /// What was asked, for messages.
    pub(crate) call: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(self) -> Result<T, RgwError> {
        serde_json::from_slice(&self.body).map_err(|error| RgwError::unreadable_json(self.call, &error))
    }

    /// A list that Ceph 20 leaves out altogether where there is nothing to list.
    pub(crate) fn json_list<T: DeserializeOwned>(self) -> Result<Vec<T>, RgwError> {
        if self.body.is_empty() { Ok(Vec::new()) } else { self.json() }
    }

    /// The root of an XML answer, which must have that name.
    pub(crate) fn xml(&self, root: &str) -> Result<Element<'_>, RgwError> {
        let element = Element::parse(&self.body).filter(|element| element.name == root);
        element.ok_or_else(|| self.unreadable(&format!("it is no {root}")))
    }

    pub(crate) fn unreadable(&self, cause: &str) -> RgwError {
        RgwError::Unreadable { call: self.call.clone(), cause: cause.to_owned() }
    }

    #[cfg(test)]
    pub(crate) fn of(body: &str) -> Self {
        Self { call: "ask".into(), headers: HeaderMap::new(), body: Bytes::copy_from_slice(body.as_bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_body_is_an_empty_list() {
        let names = |body| Answer::of(body).json_list::<String>();
        assert_eq!(names(""), Ok(vec![]));
        assert_eq!(names("[]"), Ok(vec![]));
        assert_eq!(names(r#"["a","b"]"#), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(names("<html>").unwrap_err().reason(), "UnreadableAnswer");
    }

    #[test]
    fn no_body_is_no_user() {
        let error = Answer::of("").json::<crate::User>().unwrap_err();
        assert_eq!(error.reason(), "UnreadableAnswer");
    }
}
