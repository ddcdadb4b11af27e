//! What the Admin Ops half promises about buckets, on a real gateway.

use croft_rgw::{Bucket, ErrorClass, Quota, Usage};

use crate::support::{classed, created, gateway, new_user, user_in};

#[tokio::test]
async fn a_user_who_is_not_there_has_no_buckets_and_no_usage() {
    let gateway = gateway().await;
    let nobody = new_user("bucket", "nobody").id;
    assert_eq!(gateway.buckets_of(&nobody).await, Ok(vec![]));
    assert_eq!(gateway.buckets_with_usage_of(&nobody).await, Ok(vec![]));
    assert_eq!(gateway.usage_of(&nobody).await, Ok(None));
}

#[tokio::test]
async fn usage_is_current_and_counts_as_quotas_do() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "usage").await;
    assert_eq!(gateway.usage_of(&bob).await, Ok(Some(Usage { size: 0, objects: 0 })));
    for bucket in ["first", "second", "unused"] {
        s3.create_bucket(bucket).await.unwrap();
    }
    s3.put_object("first", "k", vec![7; 5000]).await.unwrap();
    s3.put_object("first", "empty", "").await.unwrap();
    s3.put_object("second", "k", "v").await.unwrap();

    assert_eq!(gateway.usage_of(&bob).await, Ok(Some(Usage { size: 8192 + 4096, objects: 3 })));
    let mut buckets = gateway.buckets_with_usage_of(&bob).await.unwrap();
    buckets.sort_by(|one, other| one.name.cmp(&other.name));
    let held: Vec<_> = buckets.iter().map(|bucket| (bucket.name.as_str(), bucket.size, bucket.objects)).collect();
    assert_eq!(held, [("first", 8192, 2), ("second", 4096, 1), ("unused", 0, 0)]);
    for bucket in buckets {
        assert_eq!(gateway.bucket("usage", &bucket.name).await, Ok(Some(bucket)));
    }
}

#[tokio::test]
async fn a_bucket_quota_is_kept_to_the_byte_and_enforced() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "bucketquota").await;
    s3.create_bucket("data").await.unwrap();
    s3.create_bucket("other").await.unwrap();
    let quota = async || gateway.bucket("bucketquota", "data").await.unwrap().unwrap().quota;
    assert_eq!(quota().await, Quota::default());

    // A bare number of objects must not become "no bytes at all", as it does where the size is left out.
    let one_object = Quota { enabled: true, max_size: None, max_objects: Some(1) };
    gateway.set_bucket_quota(&bob, "data", one_object).await.unwrap();
    assert_eq!(quota().await, one_object);
    s3.put_object("data", "one", "1").await.unwrap();
    assert_eq!(classed(s3.put_object("data", "two", "2").await), (ErrorClass::Denied, "QuotaExceeded".into()));
    s3.put_object("other", "two", "2").await.unwrap();

    // Rounded up to KiB this would admit three objects, of 4 KiB each as quotas count.
    let odd_size = Quota { enabled: true, max_size: Some(12_001), max_objects: None };
    gateway.set_bucket_quota(&bob, "data", odd_size).await.unwrap();
    assert_eq!(quota().await, odd_size);
    s3.put_object("data", "two", "2").await.unwrap();
    assert_eq!(classed(s3.put_object("data", "three", "3").await), (ErrorClass::Denied, "QuotaExceeded".into()));

    for off in [Quota { enabled: false, ..odd_size }, Quota { enabled: true, max_size: None, max_objects: None }] {
        gateway.set_bucket_quota(&bob, "data", off).await.unwrap();
        assert_eq!(quota().await, off);
        s3.put_object("data", "three", "3").await.unwrap();
    }
    let missing = gateway.set_bucket_quota(&bob, "missing", one_object).await;
    assert_eq!(classed(missing), (ErrorClass::NotFound, "NoSuchKey".into()));
}

#[tokio::test]
async fn writes_to_one_bucket_at_once_all_succeed() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "bucketturns").await;
    s3.create_bucket("data").await.unwrap();
    let writers: Vec<_> = (0..20)
        .map(|n| {
            let (gateway, bob) = (gateway.clone(), bob.clone());
            tokio::spawn(async move {
                let quota = Quota { enabled: true, max_size: Some(n), max_objects: None };
                match n % 2 {
                    0 => gateway.set_bucket_quota(&bob, "data", quota).await,
                    _ => gateway.link_bucket("bucketturns", "data", None, &bob).await,
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_bucket_is_removed_with_its_objects_only_when_told() {
    let gateway = gateway().await;
    let (_, s3) = user_in(&gateway, "purged").await;
    for bucket in ["empty", "full"] {
        s3.create_bucket(bucket).await.unwrap();
    }
    s3.put_object("full", "k", "v").await.unwrap();

    let refused = gateway.remove_bucket("purged", "full", false).await;
    assert_eq!(classed(refused), (ErrorClass::Terminal, "BucketNotEmpty".into()));
    assert_eq!(s3.get_object("full", "k").await.unwrap().as_deref(), Some(&b"v"[..]));
    for _ in 0..2 {
        gateway.remove_bucket("purged", "empty", false).await.unwrap();
        gateway.remove_bucket("purged", "full", true).await.unwrap();
        assert_eq!(s3.head_bucket("full").await, Ok(false));
        assert_eq!(s3.head_bucket("empty").await, Ok(false));
    }
}

#[tokio::test]
async fn a_bucket_of_the_default_tenant_is_removed_and_no_other_of_its_name() {
    let gateway = gateway().await;
    let default_tenant = created(&gateway, &new_user("", "remover")).await;
    let (_, tenant) = user_in(&gateway, "remover").await;
    for s3 in [&default_tenant, &tenant] {
        s3.create_bucket("removed").await.unwrap();
    }
    gateway.remove_bucket("", "removed", true).await.unwrap();
    assert_eq!(default_tenant.head_bucket("removed").await, Ok(false));
    assert_eq!(tenant.head_bucket("removed").await, Ok(true));
}

#[tokio::test]
async fn an_unlinked_bucket_outlives_its_user_and_comes_back_with_the_name() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "unlinked").await;
    s3.create_bucket("data").await.unwrap();
    s3.put_object("data", "k", "v").await.unwrap();
    let owner = async || gateway.bucket("unlinked", "data").await.unwrap().map(|Bucket { owner, .. }| owner);

    for _ in 0..2 {
        gateway.unlink_bucket("unlinked", "data", &bob).await.unwrap();
        assert_eq!(gateway.buckets_of(&bob).await, Ok(vec![]));
        assert_eq!(owner().await.as_ref(), Some(&bob));
    }
    gateway.unlink_bucket("unlinked", "missing", &bob).await.unwrap();

    gateway.remove_user(&bob, false).await.unwrap();
    assert_eq!(owner().await.as_ref(), Some(&bob));
    let (_, again) = user_in(&gateway, "unlinked").await;
    assert_eq!(again.get_object("data", "k").await.unwrap().as_deref(), Some(&b"v"[..]));
    gateway.link_bucket("unlinked", "data", None, &bob).await.unwrap();
    assert_eq!(gateway.buckets_of(&bob).await, Ok(vec!["data".to_owned()]));
}

#[tokio::test]
async fn a_linked_bucket_moves_to_the_new_owners_tenant() {
    let gateway = gateway().await;
    let (_, from) = user_in(&gateway, "link_from").await;
    let (target, to) = user_in(&gateway, "link_to").await;
    from.create_bucket("data").await.unwrap();
    let before = gateway.bucket("link_from", "data").await.unwrap().unwrap();

    let other = gateway.link_bucket("link_from", "data", Some("another.1"), &target).await;
    assert!(other.is_err(), "another bucket was meant");
    assert_eq!(gateway.bucket("link_from", "data").await.unwrap().unwrap().id, before.id);

    // Repeating it finds the bucket under its old name no more.
    gateway.link_bucket("link_from", "data", Some(&before.id), &target).await.unwrap();
    let again = gateway.link_bucket("link_from", "data", None, &target).await;
    assert_eq!(again.unwrap_err().class(), ErrorClass::NotFound);

    assert_eq!(gateway.bucket("link_from", "data").await, Ok(None));
    let after = gateway.bucket("link_to", "data").await.unwrap().unwrap();
    assert_eq!((after.owner, after.id), (target, before.id));
    assert_eq!(to.head_bucket("data").await, Ok(true));
}

#[tokio::test]
async fn a_bucket_of_the_default_tenant_can_be_linked_into_another() {
    let gateway = gateway().await;
    let leaving = created(&gateway, &new_user("", "leaving")).await;
    let (target, _) = user_in(&gateway, "link_default").await;
    leaving.create_bucket("leaving").await.unwrap();

    gateway.link_bucket("", "leaving", None, &target).await.unwrap();

    assert_eq!(gateway.bucket("", "leaving").await, Ok(None));
    assert_eq!(gateway.bucket("link_default", "leaving").await.unwrap().unwrap().owner, target);
}
