//! The Admin Ops requests, and the answers that are not plain JSON of one shape. All parameters go into the query and
//! users are always named `tenant$id`: a separate `tenant` parameter is honoured by some calls only.

use http::Method;

use crate::{Access, NewUser, Quota, UserChange, UserId, request::Request};

fn user_call(verb: &str, method: Method, id: &UserId) -> Request {
    Request::new(format!("{verb} {id}"), method, "/admin/user").with("uid", id)
}

pub(crate) fn get_user(id: &UserId) -> Request {
    user_call("get user", Method::GET, id)
}

pub(crate) fn create_user(new: &NewUser) -> Request {
    with_key(user_call("create user", Method::PUT, &new.id), &new.access_key)
        .with("display-name", &new.display_name)
        .with("max-buckets", new.max_buckets.parameter())
}

pub(crate) fn modify_user(id: &UserId, change: &UserChange) -> Request {
    user_call("modify user", Method::POST, id)
        .with_some("display-name", change.display_name.as_deref())
        .with_some("max-buckets", change.max_buckets.map(crate::BucketLimit::parameter))
        .with_some("suspended", change.suspended)
}

pub(crate) fn remove_user(id: &UserId, purge: bool) -> Request {
    user_call("remove user", Method::DELETE, id).with("purge-data", purge)
}

/// All three values are sent, as those left out would stay as they are.
pub(crate) fn set_user_quota(id: &UserId, quota: Quota) -> Request {
    user_call("set quota of user", Method::PUT, id)
        .flag("quota")
        .with("quota-type", "user")
        .with("enabled", quota.enabled)
        .with("max-size", limit(quota.max_size))
        .with("max-objects", limit(quota.max_objects))
}

fn limit(limit: Option<u64>) -> i64 {
    limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

fn subuser_call(verb: &str, method: Method, id: &UserId, name: &str) -> Request {
    let full = id.subuser(name);
    Request::new(format!("{verb} {full}"), method, "/admin/user").with("uid", id).with("subuser", full)
}

pub(crate) fn create_subuser(id: &UserId, name: &str, access: Access, access_key: &str) -> Request {
    let request = subuser_call("create subuser", Method::PUT, id, name);
    with_key(request, access_key).with_some("access", access.parameter())
}

pub(crate) fn set_subuser_access(id: &UserId, name: &str, access: Access) -> Request {
    subuser_call("set access of subuser", Method::POST, id, name).with_some("access", access.parameter())
}

pub(crate) fn remove_subuser(id: &UserId, name: &str) -> Request {
    subuser_call("remove subuser", Method::DELETE, id, name)
}

pub(crate) fn put_key(id: &UserId, subuser: Option<&str>, access_key: &str) -> Request {
    let request = match subuser {
        Some(name) => subuser_call("set key of subuser", Method::PUT, id, name),
        None => user_call("set key of user", Method::PUT, id),
    };
    with_key(request.flag("key"), access_key)
}

pub(crate) fn remove_key(id: &UserId, access_key: &str) -> Request {
    user_call("remove key of user", Method::DELETE, id).flag("key").with("access-key", access_key)
}

/// Without a key type a subuser would get a Swift key. The secret is the gateway's to make: a query ends up in the
/// access logs of the gateway and of every proxy before it.
fn with_key(request: Request, access_key: &str) -> Request {
    request.with("key-type", "s3").with("access-key", access_key)
}

pub(crate) fn buckets_of(id: &UserId) -> Request {
    Request::new(format!("list buckets of user {id}"), Method::GET, "/admin/bucket").with("uid", id)
}

/// The default tenant's bucket goes by its bare name: the gateway answers `/name` with an empty body.
pub(crate) fn get_bucket(tenant: &str, name: &str) -> Request {
    let full = if tenant.is_empty() { name.to_owned() } else { format!("{tenant}/{name}") };
    bucket_call("get bucket", Method::GET, full).with("stats", true)
}

/// The tenant is always spelt out, since a bare name would be looked up in the tenant of `to`.
pub(crate) fn link_bucket(tenant: &str, name: &str, to: &UserId) -> Request {
    bucket_call("link bucket", Method::PUT, format!("{tenant}/{name}")).with("uid", to)
}

fn bucket_call(verb: &str, method: Method, full: String) -> Request {
    Request::new(format!("{verb} {full}"), method, "/admin/bucket").with("bucket", full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BucketLimit;

    fn bob() -> UserId {
        UserId::new("acme", "bob").unwrap()
    }

    fn line(request: &Request) -> String {
        assert!(request.body.is_empty(), "the gateway refuses signed bodies here");
        format!("{} {}", request.method, request.path_and_query())
    }

    #[test]
    fn a_user_is_created_with_the_access_key_chosen_by_the_caller() {
        let new = NewUser {
            id: bob(),
            display_name: "Bob B".into(),
            max_buckets: BucketLimit::AtMost(0),
            access_key: "AK".into(),
        };
        assert_eq!(
            line(&create_user(&new)),
            "PUT /admin/user?access-key=AK&display-name=Bob%20B&key-type=s3&max-buckets=-1&uid=acme%24bob"
        );
    }

    #[test]
    fn a_change_sends_only_what_changes() {
        let change = UserChange { suspended: Some(true), ..UserChange::default() };
        assert_eq!(line(&modify_user(&bob(), &change)), "POST /admin/user?suspended=true&uid=acme%24bob");
    }

    #[test]
    fn a_quota_is_sent_whole() {
        let quota = Quota { enabled: true, max_size: Some(5000), max_objects: None };
        assert_eq!(
            line(&set_user_quota(&bob(), quota)),
            "PUT /admin/user?enabled=true&max-objects=-1&max-size=5000&quota=&quota-type=user&uid=acme%24bob"
        );
    }

    #[test]
    fn a_subuser_gets_an_s3_key_and_its_access_level() {
        let request = create_subuser(&bob(), "ro", Access::Read, "AK");
        assert_eq!(
            line(&request),
            "PUT /admin/user?access=read&access-key=AK&key-type=s3&subuser=acme%24bob%3Aro&uid=acme%24bob"
        );
        assert_eq!(
            line(&set_subuser_access(&bob(), "ro", Access::Nothing)),
            "POST /admin/user?subuser=acme%24bob%3Aro&uid=acme%24bob"
        );
    }

    #[test]
    fn a_bucket_is_named_with_its_tenant() {
        assert_eq!(line(&get_bucket("acme", "data")), "GET /admin/bucket?bucket=acme%2Fdata&stats=true");
        assert_eq!(line(&get_bucket("", "data")), "GET /admin/bucket?bucket=data&stats=true");
    }

    #[test]
    fn a_key_is_set_for_the_user_or_a_subuser() {
        assert_eq!(line(&put_key(&bob(), None, "AK")), "PUT /admin/user?access-key=AK&key=&key-type=s3&uid=acme%24bob");
        assert_eq!(
            line(&put_key(&bob(), Some("ro"), "AK")),
            "PUT /admin/user?access-key=AK&key=&key-type=s3&subuser=acme%24bob%3Aro&uid=acme%24bob"
        );
    }
}
