//! What the S3 half promises about buckets, on a real gateway.

use crate::support::{created, endpoint, gateway, new_user, user_in};
use croft_rgw::{ErrorClass, RgwError, S3};

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
async fn s3_works_without_a_gateway_of_an_administrator() {
    let user = gateway().await.create_user(&new_user("alone", "bob")).await.unwrap();
    let s3 = S3::new(endpoint().await, user.keys[0].credentials.clone()).unwrap();
    s3.create_bucket("data").await.unwrap();
    assert_eq!(s3.head_bucket("data").await, Ok(true));
}
