//! One real Ceph for all tests of this binary; each test keeps to a tenant of its own.

use std::time::Duration;

use croft_rgw::{BucketLimit, Credentials, Endpoint, ErrorClass, Gateway, NewUser, RgwError, S3, User, UserId};
use croft_testbed::Ceph;
use tokio::sync::OnceCell;

/// Ceph 16 may sleep twice for 5 s over bucket deletions that meet.
const PATIENCE: Duration = Duration::from_secs(60);

static CEPH: OnceCell<Ceph> = OnceCell::const_new();

pub(crate) async fn ceph() -> &'static Ceph {
    CEPH.get_or_try_init(Ceph::start).await.expect("Ceph starts")
}

pub(crate) async fn endpoint() -> Endpoint {
    endpoint_of(ceph().await)
}

pub(crate) async fn admin() -> Credentials {
    admin_of(ceph().await)
}

/// Made anew for each test: connections end with the runtime that opened them.
pub(crate) async fn gateway() -> Gateway {
    gateway_of(ceph().await)
}

pub(crate) fn gateway_of(ceph: &Ceph) -> Gateway {
    let gateway = Gateway::new(endpoint_of(ceph), admin_of(ceph)).expect("the testbed gives a usable endpoint");
    gateway.with_timeout(PATIENCE)
}

fn endpoint_of(ceph: &Ceph) -> Endpoint {
    Endpoint { url: ceph.endpoint.clone(), region: ceph.region.clone(), ca_pem: None }
}

fn admin_of(ceph: &Ceph) -> Credentials {
    Credentials::new(ceph.access_key.as_str(), ceph.secret_key.as_str())
}

/// An access key that is the same each time for the same name, and no other user's.
pub(crate) fn access_key(name: &str) -> String {
    format!("AK{name}")
}

pub(crate) fn new_user(tenant: &str, id: &str) -> NewUser {
    NewUser {
        id: UserId::new(tenant, id).expect("tests use good names"),
        display_name: format!("{id} of {tenant}"),
        max_buckets: BucketLimit::AtMost(10),
        access_key: access_key(&format!("{tenant}{id}")),
    }
}

/// A fresh user and its view of the gateway.
pub(crate) async fn user_in(gateway: &Gateway, tenant: &str) -> (UserId, S3) {
    let new = new_user(tenant, "bob");
    let s3 = created(gateway, &new).await;
    (new.id, s3)
}

/// Makes the user; S3 with its key.
pub(crate) async fn created(gateway: &Gateway, new: &NewUser) -> S3 {
    let user = gateway.create_user(new).await.expect("the user is this test's own");
    s3_with(gateway, &user, &new.access_key)
}

/// S3 with a key that was set for the user or one of its subusers.
pub(crate) async fn s3_of(gateway: &Gateway, id: &UserId, access_key: &str) -> S3 {
    s3_with(gateway, &seen(gateway, id).await, access_key)
}

fn s3_with(gateway: &Gateway, user: &User, access_key: &str) -> S3 {
    gateway.s3(user.key(access_key).expect("the key was set").credentials.clone())
}

/// The user as the gateway shows it now.
pub(crate) async fn seen(gateway: &Gateway, id: &UserId) -> User {
    gateway.user(id).await.expect("the gateway answers").expect("the user exists")
}

pub(crate) fn classed<T: std::fmt::Debug>(result: Result<T, RgwError>) -> (ErrorClass, String) {
    let error = result.unwrap_err();
    (error.class(), error.reason().to_owned())
}
