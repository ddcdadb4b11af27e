//! Buckets: whose they are, what they hold and what they may hold.

use http::Method;
use serde_json::json;

use super::limit;
use crate::{Quota, RgwError, UserId, bucket::check_name, request::Request};

const PATH: &str = "/admin/bucket";

pub(crate) fn buckets_of(id: &UserId) -> Request {
    Request::new(format!("list buckets of user {id}"), Method::GET, PATH).with("uid", id)
}

pub(crate) fn buckets_with_usage_of(id: &UserId) -> Request {
    buckets_of(id).with("stats", true)
}

pub(crate) fn get_bucket(tenant: &str, name: &str) -> Result<Request, RgwError> {
    Ok(bucket_call("get bucket", Method::GET, full_name(tenant, name)?).with("stats", true))
}

pub(crate) fn remove_bucket(tenant: &str, name: &str, purge: bool) -> Result<Request, RgwError> {
    Ok(bucket_call("remove bucket", Method::DELETE, full_name(tenant, name)?).with("purge-objects", purge))
}

pub(crate) fn link_bucket(tenant: &str, name: &str, id: Option<&str>, to: &UserId) -> Result<Request, RgwError> {
    let request = bucket_call("link bucket", Method::PUT, with_tenant(tenant, name)?).with("uid", to);
    Ok(match id {
        Some(id) => request.with("bucket-id", id),
        None => request,
    })
}

pub(crate) fn unlink_bucket(tenant: &str, name: &str, from: &UserId) -> Result<Request, RgwError> {
    Ok(bucket_call("unlink bucket", Method::POST, with_tenant(tenant, name)?).with("uid", from))
}

/// Here the name is bare, and the user only tells the tenant. The quota goes into a body, whole: in the query, Ceph 16
/// ignores `max-size` and knows KiB only. The gateway answers 501 where such a body is signed.
pub(crate) fn set_bucket_quota(id: &UserId, name: &str, quota: Quota) -> Result<Request, RgwError> {
    check_name(name)?;
    let body = json!({
        "enabled": quota.enabled,
        "max_size": limit(quota.max_size),
        "max_objects": limit(quota.max_objects),
    });
    Ok(Request::new(format!("set quota of bucket {}/{name}", id.tenant()), Method::PUT, PATH)
        .flag("quota")
        .with("uid", id)
        .with("bucket", name)
        .unsigned_body(body.to_string()))
}

/// To look at or remove it. The default tenant's bucket goes by its bare name: the gateway answers `/name` with an empty
/// body, or 404.
fn full_name(tenant: &str, name: &str) -> Result<String, RgwError> {
    if tenant.is_empty() { check_name(name).map(str::to_owned) } else { with_tenant(tenant, name) }
}

/// To link or unlink it. The tenant is spelt out even where it is empty: a bare name would be looked up in the tenant of
/// the user.
fn with_tenant(tenant: &str, name: &str) -> Result<String, RgwError> {
    Ok(format!("{}/{}", crate::user::check_tenant(tenant)?, check_name(name)?))
}

fn bucket_call(verb: &str, method: Method, full: String) -> Request {
    Request::new(format!("{verb} {full}"), method, PATH).with("bucket", full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::{bob, line};

    #[test]
    fn a_bucket_is_named_with_its_tenant() {
        for (request, expected) in [
            (get_bucket("acme", "data"), "GET /admin/bucket?bucket=acme%2Fdata&stats=true"),
            (get_bucket("", "data"), "GET /admin/bucket?bucket=data&stats=true"),
            (remove_bucket("acme", "data", false), "DELETE /admin/bucket?bucket=acme%2Fdata&purge-objects=false"),
            (remove_bucket("", "data", true), "DELETE /admin/bucket?bucket=data&purge-objects=true"),
            (link_bucket("", "data", None, &bob()), "PUT /admin/bucket?bucket=%2Fdata&uid=acme%24bob"),
            (
                link_bucket("acme", "data", Some("z.1"), &bob()),
                "PUT /admin/bucket?bucket=acme%2Fdata&bucket-id=z.1&uid=acme%24bob",
            ),
            (unlink_bucket("acme", "data", &bob()), "POST /admin/bucket?bucket=acme%2Fdata&uid=acme%24bob"),
        ] {
            assert_eq!(line(&request.ok().unwrap()), expected);
        }
    }

    #[test]
    fn a_name_that_would_be_another_bucket_is_refused() {
        for (tenant, name) in [("", "acme/data"), ("acme", ""), ("ac/me", "data"), ("acme", "a/b"), ("", "acme:data")] {
            let error = remove_bucket(tenant, name, true).err().unwrap();
            assert_eq!(error.reason(), "InvalidName", "{tenant} {name}");
        }
    }

    #[test]
    fn a_bucket_quota_is_sent_whole_and_to_the_byte() {
        let quota = Quota { enabled: true, max_size: Some(12_001), max_objects: None };
        let request = set_bucket_quota(&bob(), "data", quota).ok().unwrap();
        assert_eq!(line(&request), "PUT /admin/bucket?bucket=data&quota=&uid=acme%24bob");
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&request.body).unwrap(),
            json!({"enabled": true, "max_size": 12_001, "max_objects": -1})
        );
        assert!(!request.signs_body);
    }
}
