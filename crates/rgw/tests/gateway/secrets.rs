//! Where the secrets that the gateway makes do not end up.

use std::time::Duration;

use croft_rgw::Access;

use crate::support::{access_key, ceph, gateway, new_user, seen, user_in};

#[tokio::test]
async fn no_secret_is_in_anything_the_gateway_logs() {
    let gateway = gateway().await;
    let (bob, _) = user_in(&gateway, "logged").await;
    let (sub, own, last) = (access_key("loggedsub"), access_key("loggedown"), access_key("loggedlast"));
    gateway.create_subuser(&bob, "ro", Access::Read, &sub).await.unwrap();
    let mut users = vec![seen(&gateway, &bob).await];
    for (subuser, key) in [(None, &own), (None, &own), (Some("ro"), &sub), (Some("ro"), &last)] {
        gateway.put_key(&bob, subuser, key).await.unwrap();
        users.push(seen(&gateway, &bob).await);
    }
    users.push(gateway.create_user(&new_user("logged", "eve")).await.unwrap());
    let mut secrets: Vec<_> =
        users.iter().flat_map(|user| &user.keys).map(|key| key.credentials.secret_key.expose()).collect();
    secrets.sort_unstable();
    secrets.dedup();
    assert_eq!(secrets.len(), 7, "each of the seven writes made a secret");

    // The log is written behind; that the queries are in it proves that it is the place to look.
    let log = tokio::time::timeout(Duration::from_secs(30), async {
        loop {
            let log = ceph().await.gateway_log();
            if [&sub, &own, &last, &access_key("loggedeve")].into_iter().all(|key| log.contains(key)) {
                return log;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let log = log.await.expect("the gateway logs each request");
    for secret in secrets {
        assert!(!log.contains(secret), "the log holds a secret");
    }
}
