//! Objects, and moving them to another owner, on a real gateway.

use croft_rgw::{
    ErrorClass, ObjectMetadata, Policy, Quota, S3,
    policy::{Effect, Principal, Statement, bucket_arn, objects_arn},
};

use crate::support::{classed, gateway, user_in};

async fn content(s3: &S3, key: &str) -> Option<String> {
    let content = s3.get_object("data", key).await.unwrap();
    content.map(|content| String::from_utf8(content.to_vec()).unwrap())
}

#[tokio::test]
async fn objects_with_any_name_are_stored_listed_rewritten_and_deleted() {
    let (_, s3) = user_in(&gateway().await, "objects").await;
    s3.create_bucket("data").await.unwrap();
    let keys = ["a b+c/ü&<d>%20", "a:b", "dir/k=v?x#y", "it's /../ .", "plain", "\u{1}\u{7f}"];
    let mut sorted = keys;
    sorted.sort_unstable();
    for key in keys {
        s3.put_object("data", key, key).await.unwrap();
        assert_eq!(s3.rewrite_object("data", key).await, Ok(true), "{key:?}");
        assert_eq!(content(&s3, key).await.as_deref(), Some(key));
    }
    assert_eq!(s3.list_objects("data", "").await.unwrap(), sorted);
    assert_eq!(s3.list_objects("data", "dir/").await.unwrap(), ["dir/k=v?x#y"]);
    for key in keys.into_iter().chain(keys) {
        s3.delete_object("data", key).await.unwrap();
        assert_eq!(s3.get_object("data", key).await, Ok(None));
        assert_eq!(s3.head_object("data", key).await, Ok(None));
        assert_eq!(s3.rewrite_object("data", key).await, Ok(false));
    }
    assert!(s3.list_objects("data", "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_listing_comes_in_pages_and_is_complete() {
    let (_, s3) = user_in(&gateway().await, "pages").await;
    s3.create_bucket("data").await.unwrap();
    let keys: Vec<String> = (0..1001).map(|n| format!("key {n:04}")).collect();
    for key in &keys {
        s3.put_object("data", key, "").await.unwrap();
    }
    let first = s3.object_keys("data", "key", None).await.unwrap();
    assert_eq!((first.items.len(), first.next.as_deref()), (1000, Some("key 0999")));
    let second = s3.object_keys("data", "key", first.next.as_deref()).await.unwrap();
    assert_eq!((second.items, second.next), (vec!["key 1000".to_owned()], None));
    assert_eq!(s3.list_objects("data", "").await.unwrap(), keys);
}

#[tokio::test]
async fn a_rewrite_keeps_content_metadata_and_tags() {
    let (_, s3) = user_in(&gateway().await, "rewrite").await;
    s3.create_bucket("data").await.unwrap();
    let metadata = ObjectMetadata {
        content_type: Some("text/plain; charset=utf-8".into()),
        user: [("a".to_owned(), "one  two".to_owned()), ("b-c".to_owned(), "ü €".to_owned())].into(),
    };
    let tags = [("k &".to_owned(), "<v>".to_owned()), ("ü".to_owned(), String::new())].into();
    s3.put_object_with("data", "k", "hello", &metadata).await.unwrap();
    s3.set_object_tags("data", "k", &tags).await.unwrap();
    let before = s3.head_object("data", "k").await.unwrap().unwrap();
    assert_eq!((before.size, &before.metadata), (5, &metadata));

    for _ in 0..2 {
        assert_eq!(s3.rewrite_object("data", "k").await, Ok(true));
        assert_eq!(s3.head_object("data", "k").await.unwrap().as_ref(), Some(&before));
        assert_eq!(s3.object_tags("data", "k").await.as_ref(), Ok(&tags));
        assert_eq!(content(&s3, "k").await.as_deref(), Some("hello"));
    }
    assert!(s3.object_tags("data", "missing").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_rewrite_at_the_quota_is_refused_and_harms_nothing() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "fullrewrite").await;
    s3.create_bucket("data").await.unwrap();
    s3.put_object("data", "k", "hello").await.unwrap();
    let full = Quota { enabled: true, max_size: None, max_objects: Some(1) };
    gateway.set_bucket_quota(&bob, "data", full).await.unwrap();
    assert_eq!(classed(s3.rewrite_object("data", "k").await), (ErrorClass::Denied, "QuotaExceeded".into()));
    assert_eq!(content(&s3, "k").await.as_deref(), Some("hello"));
}

/// The whole of what it takes to give a bucket with its objects to a user of another tenant.
#[tokio::test]
async fn rewritten_objects_of_a_linked_bucket_are_the_new_owners() {
    let gateway = gateway().await;
    let (_, from) = user_in(&gateway, "moved_from").await;
    let (target, to) = user_in(&gateway, "moved_to").await;
    from.create_bucket("data").await.unwrap();
    from.put_object("data", "k", "v").await.unwrap();
    gateway.link_bucket("moved_from", "data", None, &target).await.unwrap();
    let old_owner = from.in_tenant("moved_to").unwrap();
    assert_eq!(content(&old_owner, "k").await.as_deref(), Some("v"), "the object is still the old owner's");
    assert_eq!(classed(to.get_object("data", "k").await), (ErrorClass::Denied, "AccessDenied".into()));

    let mut policy = Policy::new("S3Policy");
    let migration = Statement {
        sid: "croft/migration".into(),
        effect: Effect::Allow,
        principals: [Principal::User(target)].into(),
        actions: ["s3:*".to_owned()].into(),
        resources: [bucket_arn("data"), objects_arn("data")].into(),
    };
    policy.replace(|_| true, [migration]);
    to.put_bucket_policy("data", &policy).await.unwrap();
    for key in to.object_keys("data", "", None).await.unwrap().items {
        assert_eq!(to.rewrite_object("data", &key).await, Ok(true));
    }
    to.delete_bucket_policy("data").await.unwrap();

    assert_eq!(content(&to, "k").await.as_deref(), Some("v"));
    assert_eq!(classed(old_owner.get_object("data", "k").await), (ErrorClass::Denied, "AccessDenied".into()));
}

#[tokio::test]
async fn buckets_of_another_tenant_and_of_the_default_one_are_reached_by_their_tenant() {
    let gateway = gateway().await;
    let (_, alice) = user_in(&gateway, "across_a").await;
    let (_, bob) = user_in(&gateway, "across_b").await;
    let default_tenant = crate::support::created(&gateway, &crate::support::new_user("", "across")).await;
    let everyone = |bucket: &str| {
        let mut policy = Policy::new("S3Policy");
        let all = Statement {
            sid: "all".into(),
            effect: Effect::Allow,
            principals: [Principal::Everyone].into(),
            actions: ["s3:*".to_owned()].into(),
            resources: [bucket_arn(bucket), objects_arn(bucket)].into(),
        };
        policy.replace(|_| true, [all]);
        policy
    };
    for (owner, tenant) in [(&alice, "across_a"), (&default_tenant, "")] {
        owner.create_bucket("across").await.unwrap();
        owner.put_bucket_policy("across", &everyone("across")).await.unwrap();
        assert_eq!(bob.head_bucket("across").await, Ok(false), "in its own tenant there is none");
        let guest = bob.in_tenant(tenant).unwrap();
        guest.put_object("across", "a b", tenant).await.unwrap();
        assert_eq!(guest.rewrite_object("across", "a b").await, Ok(true));
        assert_eq!(guest.list_objects("across", "").await.unwrap(), ["a b"]);
        assert_eq!(guest.get_object("across", "a b").await.unwrap().as_deref(), Some(tenant.as_bytes()));
    }
}
