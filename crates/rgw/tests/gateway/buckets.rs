//! What the S3 half promises, and what the Admin Ops half says about buckets, on a real gateway.

use crate::support::{access_key, created, endpoint, gateway, new_user, s3_of, user_in};
use croft_rgw::{Access, ErrorClass, RgwError, S3};
use serde_json::json;

fn reason<T: std::fmt::Debug>(result: Result<T, RgwError>) -> String {
    result.unwrap_err().reason().to_owned()
}

#[tokio::test]
async fn a_bucket_comes_and_goes_and_each_step_can_be_repeated() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "bucket").await;
    assert_eq!(s3.head_bucket("data").await, Ok(false));
    assert_eq!(gateway.bucket("bucket", "data").await, Ok(None));
    assert_eq!(gateway.buckets_of(&bob).await, Ok(vec![]));

    for _ in 0..2 {
        s3.create_bucket("data").await.unwrap();
        assert_eq!(s3.head_bucket("data").await, Ok(true));
    }
    assert_eq!(gateway.buckets_of(&bob).await, Ok(vec!["data".to_owned()]));
    let bucket = gateway.bucket("bucket", "data").await.unwrap().unwrap();
    assert_eq!((bucket.tenant.as_str(), bucket.name.as_str(), bucket.owner), ("bucket", "data", bob.clone()));
    assert_eq!((bucket.size, bucket.objects), (0, 0));

    for _ in 0..2 {
        s3.delete_bucket("data").await.unwrap();
        assert_eq!(s3.head_bucket("data").await, Ok(false));
    }
    assert_eq!(gateway.buckets_of(&bob).await, Ok(vec![]));
}

#[tokio::test]
async fn a_bucket_with_objects_is_not_deleted() {
    let gateway = gateway().await;
    let (_, s3) = user_in(&gateway, "notempty").await;
    s3.create_bucket("data").await.unwrap();
    s3.put_object("data", "k", vec![7; 5000]).await.unwrap();

    let refused = s3.delete_bucket("data").await.unwrap_err();
    assert_eq!((refused.class(), refused.reason()), (ErrorClass::Terminal, "BucketNotEmpty"));
    let bucket = gateway.bucket("notempty", "data").await.unwrap().unwrap();
    assert_eq!((bucket.size, bucket.objects), (8192, 1));
}

#[tokio::test]
async fn bucket_names_are_one_tenants_own() {
    let gateway = gateway().await;
    let (_, bob) = user_in(&gateway, "names_a").await;
    let (_, other_tenant) = user_in(&gateway, "names_b").await;
    let neighbour = created(&gateway, &new_user("names_a", "eve")).await;

    bob.create_bucket("data").await.unwrap();
    other_tenant.create_bucket("data").await.unwrap();
    assert_eq!(reason(neighbour.create_bucket("data").await), "BucketAlreadyExists");
    assert_eq!(neighbour.head_bucket("data").await.unwrap_err().class(), ErrorClass::Denied);
}

#[tokio::test]
async fn the_bucket_limit_holds() {
    let gateway = gateway().await;
    let mut new = new_user("limit", "bob");
    new.max_buckets = croft_rgw::BucketLimit::AtMost(1);
    let s3 = created(&gateway, &new).await;
    s3.create_bucket("first").await.unwrap();
    assert_eq!(reason(s3.create_bucket("second").await), "TooManyBuckets");
}

#[tokio::test]
async fn objects_with_any_name_are_stored_listed_and_deleted() {
    let (_, s3) = user_in(&gateway().await, "objects").await;
    s3.create_bucket("data").await.unwrap();
    let keys = ["a b+c/ü&<d>%20", "dir/k=v?x#y", "plain"];
    for key in keys {
        s3.put_object("data", key, key).await.unwrap();
        assert_eq!(s3.get_object("data", key).await.unwrap().as_deref(), Some(key.as_bytes()));
    }
    assert_eq!(s3.list_objects("data", "").await.unwrap(), keys);
    assert_eq!(s3.list_objects("data", "dir/").await.unwrap(), ["dir/k=v?x#y"]);
    for key in keys.into_iter().chain(keys) {
        s3.delete_object("data", key).await.unwrap();
        assert_eq!(s3.get_object("data", key).await, Ok(None));
    }
    assert!(s3.list_objects("data", "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_listing_is_complete_beyond_one_page() {
    let (_, s3) = user_in(&gateway().await, "pages").await;
    s3.create_bucket("data").await.unwrap();
    let keys: Vec<String> = (0..1001).map(|n| format!("key {n:04}")).collect();
    for key in &keys {
        s3.put_object("data", key, "").await.unwrap();
    }
    assert_eq!(s3.list_objects("data", "").await.unwrap(), keys);
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

    let policy = json!({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow",
        "Principal": {"AWS": ["arn:aws:iam::policy:user/bob:app"]},
        "Action": ["s3:GetObject"],
        "Resource": ["arn:aws:s3:::data/*"],
    }]});
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
async fn a_policy_the_gateway_cannot_read_is_terminal() {
    let (_, s3) = user_in(&gateway().await, "badpolicy").await;
    s3.create_bucket("data").await.unwrap();
    let policy = json!({"Version": "2012-10-17", "Statement": [{
        "Effect": "Allow", "Principal": "*", "Action": "s3:NoSuchAction", "Resource": "arn:aws:s3:::data",
    }]});
    let refused = s3.put_bucket_policy("data", &policy).await.unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Terminal, "{refused}");
}

#[tokio::test]
async fn s3_works_without_a_gateway_of_an_administrator() {
    let user = gateway().await.create_user(&new_user("alone", "bob")).await.unwrap();
    let s3 = S3::new(endpoint().await, user.keys[0].credentials.clone()).unwrap();
    s3.create_bucket("data").await.unwrap();
    assert_eq!(s3.head_bucket("data").await, Ok(true));
}
