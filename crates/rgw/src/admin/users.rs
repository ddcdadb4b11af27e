//! Users, their keys, their subusers and their quota.

use http::Method;

use super::limit;
use crate::{Access, NewUser, Quota, UserChange, UserId, request::Request};

const PATH: &str = "/admin/user";

fn user_call(verb: &str, method: Method, id: &UserId) -> Request {
    Request::new(format!("{verb} {id}"), method, PATH).with("uid", id)
}

pub(crate) fn get_user(id: &UserId) -> Request {
    user_call("get user", Method::GET, id)
}

/// The statistics are brought up to date first: else an active user may seem to have nothing.
pub(crate) fn get_usage(id: &UserId) -> Request {
    user_call("get usage of user", Method::GET, id).with("stats", true).with("sync", true)
}

/// Without a number of entries the gateway gives a thousand.
pub(crate) fn list_users(after: Option<&str>) -> Request {
    Request::new("list users".to_owned(), Method::GET, PATH).flag("list").with_some("marker", after)
}

pub(crate) fn get_user_with_key(access_key: &str) -> Request {
    // It is told everywhere what was asked for: whose key it is need not be.
    Request::new("get the user of a key".to_owned(), Method::GET, PATH).with("access-key", access_key)
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

fn subuser_call(verb: &str, method: Method, id: &UserId, name: &str) -> Request {
    let full = id.subuser(name);
    Request::new(format!("{verb} {full}"), method, PATH).with("uid", id).with("subuser", full)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BucketLimit,
        admin::{bob, line},
    };

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
    fn usage_is_asked_for_up_to_date() {
        assert_eq!(line(&get_usage(&bob())), "GET /admin/user?stats=true&sync=true&uid=acme%24bob");
    }

    #[test]
    fn a_listing_goes_on_where_the_last_page_ended() {
        assert_eq!(line(&list_users(None)), "GET /admin/user?list=");
        assert_eq!(line(&list_users(Some("4:5f:a:head"))), "GET /admin/user?list=&marker=4%3A5f%3Aa%3Ahead");
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
    fn a_key_is_set_for_the_user_or_a_subuser() {
        assert_eq!(line(&put_key(&bob(), None, "AK")), "PUT /admin/user?access-key=AK&key=&key-type=s3&uid=acme%24bob");
        assert_eq!(
            line(&put_key(&bob(), Some("ro"), "AK")),
            "PUT /admin/user?access-key=AK&key=&key-type=s3&subuser=acme%24bob%3Aro&uid=acme%24bob"
        );
    }
}
