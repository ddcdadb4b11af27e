//! The requests of the Admin Ops API. Parameters go into the query, and users are always named `tenant$id`: a separate
//! `tenant` parameter is honoured by some calls only.

pub(crate) mod buckets;
pub(crate) mod users;

use http::Method;

use crate::request::Request;

/// Ceph 16 knows no such call.
pub(crate) fn info() -> Request {
    Request::new("get info".to_owned(), Method::GET, "/admin/info")
}

/// As the gateway spells a limit: negative is none.
fn limit(limit: Option<u64>) -> i64 {
    limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

#[cfg(test)]
fn line(request: &Request) -> String {
    format!("{} {}", request.method, request.path_and_query())
}

#[cfg(test)]
fn bob() -> crate::UserId {
    crate::UserId::new("acme", "bob").unwrap()
}
