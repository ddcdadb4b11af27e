//! What the Admin Ops half promises about users, on a real gateway.

use std::collections::HashSet;

use crate::support::{access_key, admin, classed, created, endpoint, gateway, new_user, s3_of, seen, user_in};
use croft_rgw::{Access, BucketLimit, Credentials, ErrorClass, Gateway, Key, Quota, Subuser, User, UserChange, UserId};

#[tokio::test]
async fn a_created_user_is_what_was_asked_for_and_has_one_key() {
    let gateway = gateway().await;
    let new = new_user("created", "bob.the-builder");
    assert_eq!(gateway.user(&new.id).await, Ok(None));

    let created = gateway.create_user(&new).await.unwrap();

    let expected = User {
        id: new.id.clone(),
        display_name: "bob.the-builder of created".into(),
        max_buckets: BucketLimit::AtMost(10),
        suspended: false,
        keys: created.keys.clone(),
        subusers: vec![],
        user_quota: Quota { enabled: false, max_size: None, max_objects: None },
    };
    assert_eq!(created, expected);
    assert_eq!(seen(&gateway, &new.id).await, expected);
    let [Key { user, credentials }] = &created.keys[..] else { panic!("one key was asked for") };
    assert_eq!((user.as_str(), &credentials.access_key), ("created$bob.the-builder", &new.access_key));
    assert_eq!(gateway.s3(credentials.clone()).head_bucket("none").await, Ok(false));
}

#[tokio::test]
async fn a_user_without_a_tenant_and_its_bucket_are_found_again() {
    let gateway = gateway().await;
    let new = new_user("", "tenantless");
    let s3 = created(&gateway, &new).await;
    assert_eq!(seen(&gateway, &new.id).await.id, new.id);
    s3.create_bucket("tenantless").await.unwrap();
    assert_eq!(gateway.bucket("", "tenantless").await.unwrap().unwrap().owner, new.id);
}

#[tokio::test]
async fn creating_a_user_twice_changes_nothing_and_is_a_conflict() {
    let gateway = gateway().await;
    let new = new_user("twice", "bob");
    let created = gateway.create_user(&new).await.unwrap();
    let mut other = new.clone();
    other.display_name = "another".into();
    other.access_key = access_key("twiceother");

    assert_eq!(classed(gateway.create_user(&other).await), (ErrorClass::Conflict, "UserAlreadyExists".into()));
    assert_eq!(seen(&gateway, &new.id).await, created);
}

#[tokio::test]
async fn an_access_key_of_another_user_is_refused() {
    let gateway = gateway().await;
    let (bob, _) = user_in(&gateway, "keyexists").await;
    let mut eve = new_user("keyexists", "eve");
    eve.access_key = access_key("keyexistsbob");

    assert_eq!(classed(gateway.create_user(&eve).await), (ErrorClass::Terminal, "KeyExists".into()));
    assert_eq!(seen(&gateway, &bob).await.keys.len(), 1);
}

#[tokio::test]
async fn a_change_touches_only_what_it_names() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "changed").await;
    let before = seen(&gateway, &bob).await;

    let suspend = UserChange { suspended: Some(true), ..UserChange::default() };
    let suspended = gateway.modify_user(&bob, &suspend).await.unwrap();
    assert_eq!(suspended, User { suspended: true, ..before.clone() });
    assert_eq!(classed(s3.create_bucket("refused").await), (ErrorClass::Denied, "UserSuspended".into()));

    let rename = UserChange {
        display_name: Some("Ünïcode & co".into()),
        suspended: Some(false),
        max_buckets: Some(BucketLimit::Unlimited),
    };
    gateway.modify_user(&bob, &rename).await.unwrap();
    let expected = User { display_name: "Ünïcode & co".into(), max_buckets: BucketLimit::Unlimited, ..before };
    assert_eq!(seen(&gateway, &bob).await, expected);
}

#[tokio::test]
async fn changing_a_user_who_is_not_there_says_so() {
    let gateway = gateway().await;
    let nobody = UserId::new("changed", "nobody").unwrap();
    let not_there = (ErrorClass::NotFound, "NoSuchUser".to_owned());
    assert_eq!(classed(gateway.modify_user(&nobody, &UserChange::default()).await), not_there);
    assert_eq!(classed(gateway.set_user_quota(&nobody, Quota::default()).await), not_there);
    assert_eq!(classed(gateway.put_key(&nobody, None, "AKnobody").await), not_there);
}

#[tokio::test]
async fn a_bucket_limit_of_zero_forbids_buckets() {
    let gateway = gateway().await;
    let mut new = new_user("nobuckets", "bob");
    new.max_buckets = BucketLimit::AtMost(0);
    let s3 = created(&gateway, &new).await;
    assert_eq!(seen(&gateway, &new.id).await.max_buckets, BucketLimit::AtMost(0));
    let refused = s3.create_bucket("refused").await;
    assert_eq!(classed(refused), (ErrorClass::Denied, "AccessDenied".into()));
}

#[tokio::test]
async fn a_quota_is_set_whole_and_enforced() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "quota").await;
    let two_objects = Quota { enabled: true, max_size: None, max_objects: Some(2) };
    gateway.set_user_quota(&bob, two_objects).await.unwrap();
    assert_eq!(seen(&gateway, &bob).await.user_quota, two_objects);

    s3.create_bucket("data").await.unwrap();
    s3.put_object("data", "one", "1").await.unwrap();
    s3.put_object("data", "two", "2").await.unwrap();
    let third = s3.put_object("data", "three", "3").await;
    assert_eq!(classed(third), (ErrorClass::Denied, "QuotaExceeded".into()));

    let by_size = Quota { enabled: true, max_size: Some(1 << 40), max_objects: None };
    gateway.set_user_quota(&bob, by_size).await.unwrap();
    assert_eq!(seen(&gateway, &bob).await.user_quota, by_size);
    s3.put_object("data", "three", "3").await.unwrap();
}

#[tokio::test]
async fn a_read_subuser_reads_and_does_not_write() {
    let gateway = gateway().await;
    let (bob, owner) = user_in(&gateway, "subuser").await;
    owner.create_bucket("data").await.unwrap();
    owner.put_object("data", "k", "v").await.unwrap();

    // Twice: a repeated call must leave no second key.
    for _ in 0..2 {
        gateway.create_subuser(&bob, "ro", Access::Read, &access_key("subuserro")).await.unwrap();
    }

    let user = seen(&gateway, &bob).await;
    assert_eq!(user.subusers, [Subuser { id: bob.subuser("ro"), permissions: Some(Access::Read) }]);
    let keys = user.keys.iter().filter(|key| key.user == bob.subuser("ro"));
    assert_eq!(keys.map(|key| &key.credentials.access_key).collect::<Vec<_>>(), ["AKsubuserro"]);
    let reader = s3_of(&gateway, &bob, "AKsubuserro").await;
    assert_eq!(reader.get_object("data", "k").await.unwrap().as_deref(), Some(&b"v"[..]));
    let refused = reader.put_object("data", "k", "w").await;
    assert_eq!(classed(refused), (ErrorClass::Denied, "AccessDenied".into()));
}

#[tokio::test]
async fn every_access_level_is_read_back_as_it_was_set() {
    let gateway = gateway().await;
    let (bob, _) = user_in(&gateway, "levels").await;
    gateway.create_subuser(&bob, "sub", Access::Nothing, &access_key("levelssub")).await.unwrap();
    assert_eq!(seen(&gateway, &bob).await.subusers[0].permissions, Some(Access::Nothing));
    for access in [Access::Read, Access::Write, Access::ReadWrite, Access::Full, Access::Nothing] {
        gateway.set_subuser_access(&bob, "sub", access).await.unwrap();
        assert_eq!(seen(&gateway, &bob).await.subusers[0].permissions, Some(access));
    }
    let missing = gateway.set_subuser_access(&bob, "nosub", Access::Read).await;
    assert_eq!(classed(missing), (ErrorClass::NotFound, "NoSuchSubUser".into()));
}

#[tokio::test]
async fn removing_a_subuser_takes_its_keys_and_can_be_repeated() {
    let gateway = gateway().await;
    let (bob, _) = user_in(&gateway, "subgone").await;
    gateway.create_subuser(&bob, "ro", Access::Read, &access_key("subgonero")).await.unwrap();
    for _ in 0..2 {
        gateway.remove_subuser(&bob, "ro").await.unwrap();
        let user = seen(&gateway, &bob).await;
        assert_eq!((user.subusers.len(), user.keys.len()), (0, 1));
    }
}

#[tokio::test]
async fn a_key_can_be_added_given_a_new_secret_and_removed_again_and_again() {
    let gateway = gateway().await;
    let (bob, _) = user_in(&gateway, "keys").await;
    gateway.create_subuser(&bob, "ro", Access::Read, &access_key("keysro")).await.unwrap();
    for (subuser, owner) in [(None, bob.to_string()), (Some("ro"), bob.subuser("ro"))] {
        gateway.put_key(&bob, subuser, "AKkeysadded").await.unwrap();
        let old = s3_of(&gateway, &bob, "AKkeysadded").await;
        assert_eq!(old.head_bucket("none").await, Ok(false));
        gateway.put_key(&bob, subuser, "AKkeysadded").await.unwrap();

        let user = seen(&gateway, &bob).await;
        assert_eq!((user.keys.len(), &user.key("AKkeysadded").unwrap().user), (3, &owner));
        assert_eq!(old.head_bucket("none").await.unwrap_err().class(), ErrorClass::Denied);
        assert_eq!(s3_of(&gateway, &bob, "AKkeysadded").await.head_bucket("none").await, Ok(false));

        for _ in 0..2 {
            gateway.remove_key(&bob, "AKkeysadded").await.unwrap();
            assert_eq!(seen(&gateway, &bob).await.keys.len(), 2);
        }
    }
}

#[tokio::test]
async fn an_unknown_admin_key_does_not_pass_for_a_removed_key() {
    let (bob, _) = user_in(&gateway().await, "impostor").await;
    let impostor = Gateway::new(endpoint().await, Credentials::new("NOBODY", "nothing")).unwrap();
    let removed = impostor.remove_key(&bob, "AKimpostorbob").await;
    assert_eq!(classed(removed), (ErrorClass::Denied, "InvalidAccessKeyId".into()));
}

#[tokio::test]
async fn a_wrong_secret_and_a_missing_capability_are_denied() {
    let bob = gateway().await.create_user(&new_user("denied", "bob")).await.unwrap();
    let wrong = Credentials::new(admin().await.access_key, "wrong");
    for (caller, reason) in [(wrong, "SignatureDoesNotMatch"), (bob.keys[0].credentials.clone(), "AccessDenied")] {
        let gateway = Gateway::new(endpoint().await, caller).unwrap();
        assert_eq!(classed(gateway.user(&bob.id).await), (ErrorClass::Denied, reason.into()));
    }
}

#[tokio::test]
async fn a_user_with_buckets_is_removed_only_with_its_data() {
    let gateway = gateway().await;
    let (bob, s3) = user_in(&gateway, "removed").await;
    s3.create_bucket("data").await.unwrap();
    s3.put_object("data", "k", "v").await.unwrap();

    assert_eq!(classed(gateway.remove_user(&bob, false).await), (ErrorClass::Conflict, "UserHasBuckets".into()));
    assert_eq!(s3.get_object("data", "k").await.unwrap().as_deref(), Some(&b"v"[..]));

    for _ in 0..2 {
        gateway.remove_user(&bob, true).await.unwrap();
        assert_eq!(gateway.user(&bob).await, Ok(None));
        assert_eq!(gateway.bucket("removed", "data").await, Ok(None));
    }
}

#[tokio::test]
async fn a_user_without_buckets_is_removed_without_purging() {
    let gateway = gateway().await;
    let (bob, _) = user_in(&gateway, "empty").await;
    for _ in 0..2 {
        gateway.remove_user(&bob, false).await.unwrap();
        assert_eq!(gateway.user(&bob).await, Ok(None));
    }
}

#[tokio::test]
async fn users_are_listed_page_by_page() {
    let gateway = gateway().await;
    // More than fit on one page, with those of the other tests.
    let ids: Vec<_> = (0..1001).map(|n| new_user("listed", &format!("user{n}"))).collect();
    for new in &ids {
        gateway.create_user(new).await.unwrap();
    }
    let (mut found, mut pages, mut after) = (HashSet::new(), 0, None);
    loop {
        let page = gateway.users(after.as_deref()).await.unwrap();
        pages += 1;
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(pages > 1);
    assert!(ids.iter().all(|new| found.contains(&new.id)));
    assert!(found.contains(&UserId::new("", "admin").unwrap()));
}
