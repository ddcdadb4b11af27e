//! Whether a key is good enough to work with.

use croft_rgw::{Credentials, ErrorClass, Gateway, Probe, UserId};
use serde_json::Value;

use crate::support::{admin, ceph, classed, endpoint, gateway};

/// A gateway called with the key of a fresh user that has these capabilities.
async fn with_capabilities(name: &str, capabilities: &str) -> Gateway {
    let (uid, caps) = (format!("--uid={name}"), format!("--caps={capabilities}"));
    let mut arguments = vec!["user", "create", &uid, "--display-name=probe"];
    if !capabilities.is_empty() {
        arguments.push(&caps);
    }
    let user: Value = serde_json::from_str(&ceph().await.admin(&arguments).await.unwrap()).unwrap();
    let key = |part: &str| user["keys"][0][part].as_str().unwrap().to_owned();
    let credentials = Credentials::new(key("access_key"), key("secret_key"));
    Gateway::new(endpoint().await, credentials).unwrap()
}

#[tokio::test]
async fn the_administrators_key_is_good_to_write_with() {
    let Probe { admin, may_write, .. } = gateway().await.probe().await.unwrap();
    assert_eq!((admin, may_write), (UserId::new("", "admin").unwrap(), true));
}

#[tokio::test]
async fn a_key_that_may_only_read_says_so() {
    let probe = with_capabilities("probereader", "users=read;buckets=read").await.probe().await.unwrap();
    assert_eq!((probe.admin.id(), probe.may_write), ("probereader", false));
}

#[tokio::test]
async fn a_key_without_one_of_the_capabilities_is_denied() {
    for (name, capabilities) in [("probeusers", "users=*"), ("probebuckets", "buckets=*"), ("probenothing", "")] {
        let probed = with_capabilities(name, capabilities).await.probe().await;
        assert_eq!(classed(probed), (ErrorClass::Denied, "AccessDenied".into()), "{capabilities}");
    }
}

#[tokio::test]
async fn an_unknown_key_and_a_wrong_secret_are_told_apart() {
    let wrong = Credentials::new(admin().await.access_key, "wrong");
    for (credentials, reason) in
        [(Credentials::new("NOBODY", "nothing"), "InvalidAccessKeyId"), (wrong, "SignatureDoesNotMatch")]
    {
        let gateway = Gateway::new(endpoint().await, credentials).unwrap();
        assert_eq!(classed(gateway.probe().await), (ErrorClass::Denied, reason.into()));
    }
}
