//! Writes that meet on one user.

use croft_rgw::{Access, BucketLimit, ErrorClass, Gateway, Quota, RgwError, UserChange, UserId};

use crate::support::{access_key, gateway, seen, user_in};

/// One of four kinds of change; each kind leaves a trace that the others do not touch.
async fn change(gateway: Gateway, bob: UserId, n: u32) -> Result<(), RgwError> {
    let key = access_key(&format!("{}{n}", bob.tenant()));
    match n % 4 {
        0 => gateway.put_key(&bob, None, &key).await,
        1 => gateway.create_subuser(&bob, &format!("sub{n}"), Access::Read, &key).await,
        2 => {
            let quota = Quota { enabled: true, max_size: None, max_objects: Some(n.into()) };
            gateway.set_user_quota(&bob, quota).await
        }
        _ => {
            let change = UserChange { max_buckets: Some(BucketLimit::AtMost(n)), ..UserChange::default() };
            gateway.modify_user(&bob, &change).await.map(drop)
        }
    }
}

#[tokio::test]
async fn twenty_changes_of_one_user_at_once_all_succeed() {
    let gateway = gateway().await;
    let (bob, _) = user_in(&gateway, "turns").await;
    let writers: Vec<_> = (0..20).map(|n| tokio::spawn(change(gateway.clone(), bob.clone(), n))).collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    let user = seen(&gateway, &bob).await;
    assert_eq!((user.keys.len(), user.subusers.len()), (11, 5), "nothing was lost");
    assert!(user.user_quota.enabled && user.max_buckets != BucketLimit::AtMost(10));
}

#[tokio::test]
async fn changes_by_clients_that_know_nothing_of_each_other_succeed_or_are_conflicts() {
    let observer = gateway().await;
    let (bob, _) = user_in(&observer, "strangers").await;
    let mut writers = Vec::new();
    for n in 0..16 {
        writers.push(tokio::spawn(change(gateway().await, bob.clone(), n * 4)));
    }
    let mut written = 1;
    for writer in writers {
        match writer.await.unwrap() {
            Ok(()) => written += 1,
            Err(error) => assert_eq!(error.class(), ErrorClass::Conflict, "{error}"),
        }
    }
    assert_eq!(seen(&observer, &bob).await.keys.len(), written);
}
