//! Policies, versioning and lifecycles on a real gateway.

use croft_rgw::{
    Access, ErrorClass, Lifecycle, LifecycleRule, Policy, Versioning,
    policy::{Effect, Principal, Statement, bucket_arn, objects_arn},
};
use serde_json::{Value, json};

use crate::support::{access_key, classed, gateway, s3_of, user_in};

fn allow(sid: &str, principal: Principal, actions: &[&str]) -> Statement {
    Statement {
        sid: sid.into(),
        effect: Effect::Allow,
        principals: [principal].into(),
        actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        resources: [bucket_arn("data"), objects_arn("data")].into(),
    }
}

fn policy_of(statements: impl IntoIterator<Item = Statement>) -> Policy {
    let mut policy = Policy::new("S3Policy");
    policy.replace(|_| true, statements);
    policy
}

fn policy_from(json: &Value) -> Policy {
    serde_json::from_value(json.clone()).unwrap()
}

#[tokio::test]
async fn a_policy_gives_a_subuser_without_access_one_right() {
    let gateway = gateway().await;
    let (bob, owner) = user_in(&gateway, "policy").await;
    owner.create_bucket("data").await.unwrap();
    owner.put_object("data", "k", "v").await.unwrap();
    gateway.create_subuser(&bob, "app", Access::Nothing, &access_key("policyapp")).await.unwrap();
    let app = s3_of(&gateway, &bob, &access_key("policyapp")).await;
    assert_eq!(app.get_object("data", "k").await.unwrap_err().class(), ErrorClass::Denied);
    assert_eq!(owner.bucket_policy("data").await, Ok(None));

    let policy = policy_of([allow("app", Principal::Subuser(bob, "app".into()), &["s3:GetObject"])]);
    owner.put_bucket_policy("data", &policy).await.unwrap();

    assert_eq!(owner.bucket_policy("data").await, Ok(Some(policy)));
    assert_eq!(app.get_object("data", "k").await.unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(app.put_object("data", "k", "w").await.unwrap_err().class(), ErrorClass::Denied);

    for _ in 0..2 {
        owner.delete_bucket_policy("data").await.unwrap();
        assert_eq!(app.get_object("data", "k").await.unwrap_err().class(), ErrorClass::Denied);
    }
}

#[tokio::test]
async fn every_kind_of_principal_is_known_to_the_gateway() {
    let gateway = gateway().await;
    let (bob, owner) = user_in(&gateway, "principals").await;
    let (eve, other) = user_in(&gateway, "principals_eve").await;
    owner.create_bucket("data").await.unwrap();
    owner.put_object("data", "k", "v").await.unwrap();
    gateway.create_subuser(&bob, "app", Access::Nothing, &access_key("principalsapp")).await.unwrap();
    let app = s3_of(&gateway, &bob, &access_key("principalsapp")).await;
    let eve_reads = other.in_tenant("principals").unwrap();

    for (principal, app_may, eve_may) in [
        (Principal::Everyone, true, true),
        (Principal::Tenant("principals_eve".into()), false, true),
        (Principal::User(eve), false, true),
        (Principal::User(bob.clone()), true, false),
        (Principal::EverySubuser(bob.clone()), true, false),
        (Principal::Subuser(bob.clone(), "app".into()), true, false),
        (Principal::Subuser(bob.clone(), "other".into()), false, false),
    ] {
        let policy = policy_of([allow("one", principal.clone(), &["s3:GetObject"])]);
        owner.put_bucket_policy("data", &policy).await.unwrap();
        assert_eq!(app.get_object("data", "k").await.is_ok(), app_may, "{principal}");
        assert_eq!(eve_reads.get_object("data", "k").await.is_ok(), eve_may, "{principal}");
    }
}

#[tokio::test]
async fn statements_of_the_user_outlive_changes_of_ours() {
    let gateway = gateway().await;
    let (bob, owner) = user_in(&gateway, "merged").await;
    owner.create_bucket("data").await.unwrap();
    let theirs = json!({"Effect": "Deny", "NotPrincipal": {"AWS": ["arn:aws:iam::merged:user/bob"]},
        "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::data/*",
        "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}});
    let document = json!({"Version": "2008-10-17", "Statement": theirs});
    owner.put_bucket_policy("data", &policy_from(&document)).await.unwrap();

    for sid in ["croft/one", "croft/two"] {
        let mut policy = owner.bucket_policy("data").await.unwrap().unwrap();
        policy.replace(|sid| sid.starts_with("croft/"), [allow(sid, Principal::User(bob.clone()), &["s3:*"])]);
        owner.put_bucket_policy("data", &policy).await.unwrap();
    }

    let policy = owner.bucket_policy("data").await.unwrap().unwrap();
    assert_eq!((&policy.statements()[0], &policy.statements()[1]["Sid"]), (&theirs, &json!("croft/two")));
    assert_eq!(serde_json::to_value(&policy).unwrap()["Version"], "2008-10-17");
}

#[tokio::test]
async fn a_policy_the_gateway_cannot_read_is_terminal() {
    let (_, s3) = user_in(&gateway().await, "badpolicy").await;
    s3.create_bucket("data").await.unwrap();
    let policy = policy_of([allow("bad", Principal::Everyone, &["s3:NoSuchAction"])]);
    let refused = s3.put_bucket_policy("data", &policy).await;
    assert_eq!(classed(refused), (ErrorClass::Terminal, "InvalidArgument".into()));
}

#[tokio::test]
async fn versioning_is_set_and_read_in_all_its_states() {
    let (_, s3) = user_in(&gateway().await, "versioning").await;
    assert_eq!(s3.bucket_versioning("data").await, Ok(None));
    assert_eq!(classed(s3.set_bucket_versioning("data", true).await), (ErrorClass::NotFound, "NoSuchBucket".into()));
    s3.create_bucket("data").await.unwrap();
    assert_eq!(s3.bucket_versioning("data").await, Ok(Some(Versioning::Off)));
    for (enabled, expected) in [(true, Versioning::Enabled), (false, Versioning::Suspended)] {
        for _ in 0..2 {
            s3.set_bucket_versioning("data", enabled).await.unwrap();
            assert_eq!(s3.bucket_versioning("data").await, Ok(Some(expected)));
        }
    }
}

fn rule(id: &str, prefix: &str) -> LifecycleRule {
    LifecycleRule {
        id: id.into(),
        prefix: prefix.into(),
        enabled: true,
        expiration_days: None,
        noncurrent_expiration_days: None,
        abort_multipart_days: None,
    }
}

#[tokio::test]
async fn a_lifecycle_is_read_as_it_was_set_and_removed() {
    let (_, s3) = user_in(&gateway().await, "lifecycle").await;
    assert_eq!(s3.bucket_lifecycle("data").await, Ok(None));
    s3.create_bucket("data").await.unwrap();
    assert_eq!(s3.bucket_lifecycle("data").await, Ok(None));
    let lifecycle = Lifecycle {
        rules: vec![
            LifecycleRule { enabled: false, abort_multipart_days: Some(7), ..rule("all", "") },
            LifecycleRule {
                expiration_days: Some(3),
                noncurrent_expiration_days: Some(4),
                abort_multipart_days: Some(5),
                ..rule("b & \"<c>\" 'ü'", "x<y>\"&'ü /")
            },
        ],
        others: vec![],
    };
    for _ in 0..2 {
        s3.put_bucket_lifecycle("data", &lifecycle).await.unwrap();
        assert_eq!(s3.bucket_lifecycle("data").await, Ok(Some(lifecycle.clone())));
    }
    for _ in 0..2 {
        s3.put_bucket_lifecycle("data", &Lifecycle::default()).await.unwrap();
        assert_eq!(s3.bucket_lifecycle("data").await, Ok(None));
    }
}

#[tokio::test]
async fn a_rule_that_forgets_nothing_is_refused() {
    let (_, s3) = user_in(&gateway().await, "norule").await;
    s3.create_bucket("data").await.unwrap();
    for (rule, reason) in [
        (rule("nothing", ""), "MalformedXML"),
        (LifecycleRule { expiration_days: Some(0), ..rule("never", "") }, "InvalidArgument"),
    ] {
        let refused = s3.put_bucket_lifecycle("data", &Lifecycle { rules: vec![rule], others: vec![] }).await;
        assert_eq!(classed(refused), (ErrorClass::Terminal, reason.into()));
    }
}
