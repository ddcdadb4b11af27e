//! Subusers and new keys: an identity each, with a key and a Secret of its own.

use std::collections::BTreeSet;

use anyhow::Result;
use croft_rgw::{Access, S3, User};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::{
    input::unguarded_plot,
    plot::{Plot, apply, gone},
    support::eventually,
};

const SECRETS: [&str; 3] = ["admin", "read", "data-one"];

async fn ask_for_new_keys(plot: &Plot<'_>, asked: &str) -> Result<()> {
    let annotation = json!({ "metadata": { "annotations": { "s3.snappcloud.io/rotate-keys": asked } } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&annotation)).await?;
    eventually(&format!("new keys for {asked}"), || async {
        let told = plot.claims().get("data").await?.status.unwrap_or_default().observed_key_rotation;
        Ok((told.as_deref() == Some(asked)).then_some(()))
    })
    .await;
    Ok(())
}

fn keys_of(user: &User) -> BTreeSet<String> {
    user.keys.iter().map(|key| key.credentials.access_key.clone()).collect()
}

/// Whether the gateway knows the key: a subuser without grants is let in and refused everything but the list of buckets.
async fn is_known(s3: &S3) -> bool {
    s3.head_bucket("nothing").await.is_ok()
}

#[tokio::test]
async fn a_subuser_has_a_key_of_its_own_and_goes_with_its_secret_when_it_is_no_longer_named() -> Result<()> {
    let plot = Plot::new("subusers").await?;
    plot.claim(json!({ "subusers": ["one", "two"] })).await?;
    let claim = plot.ready("data").await;
    assert_eq!(claim.status.unwrap_or_default().subusers, ["one", "two"]);
    let user = plot.user("data").await?.expect("a Ceph user");
    let subuser =
        |name: &str| user.subusers.iter().find(|sub| sub.id == user.id.subuser(name)).map(|sub| sub.permissions);
    assert_eq!(subuser("one"), Some(Some(Access::Nothing)));
    assert_eq!(user.keys.len(), 4);
    let owner = plot.secrets().get("data-one").await?.metadata.owner_references.unwrap_or_default();
    assert_eq!(owner.first().and_then(|owner| owner.controller), Some(true));

    let admin = plot.s3("admin").await?;
    admin.create_bucket("photos").await?;
    admin.put_object("photos", "cat.jpg", "meow").await?;
    let one = plot.s3("data-one").await?;
    assert!(is_known(&one).await);
    assert!(one.get_object("photos", "cat.jpg").await.is_err() && one.put_object("photos", "x", "y").await.is_err());

    plot.gateway().create_subuser(&user.id, "hand", Access::Read, &format!("HAND{}", plot.namespace)).await?;
    plot.claim(json!({ "subusers": ["two"] })).await?;
    gone(&plot.secrets(), "data-one").await;
    let user = eventually("the subuser to be gone", || async {
        let user = plot.user("data").await?.expect("a Ceph user");
        Ok((!user.subusers.iter().any(|sub| sub.id == user.id.subuser("one"))).then_some(user))
    })
    .await;
    assert!(!is_known(&one).await, "its key went with it");
    assert!(user.subusers.iter().any(|sub| sub.id == user.id.subuser("hand")), "what a person made stays");
    eventually("the record to forget it", || async {
        let recorded = plot.users().get(&plot.record_name("data")).await?.spec.subusers;
        Ok((recorded == ["two"]).then_some(()))
    })
    .await;
    let claim = plot.ready("data").await;
    assert_eq!(claim.status.unwrap_or_default().subusers, ["two"]);
    Ok(())
}

#[tokio::test]
async fn a_subusers_secret_of_somebody_else_is_never_overwritten() -> Result<()> {
    let plot = unguarded_plot("subtaken").await?;
    apply(&plot.secrets(), "data-one", json!({ "stringData": { "password": "theirs" } })).await?;
    plot.claim(json!({ "subusers": ["one"] })).await?;
    let claim = plot.claim_says("data", "False", "SecretTaken").await;
    let told = claim.status.unwrap_or_default().conditions;
    assert!(told.iter().any(|said| said.message.contains("spec.subusers[one]: Secret data-one")), "{told:?}");
    assert_eq!(plot.secret("data-one").await?.keys().collect::<Vec<_>>(), ["password"]);
    plot.secrets().delete("data-one", &DeleteParams::default()).await?;
    plot.ready("data").await;
    assert!(plot.secret("data-one").await?.contains_key("accessKey"));
    Ok(())
}

#[tokio::test]
async fn two_secrets_of_a_claim_never_have_one_name() -> Result<()> {
    let plot = Plot::new("clash").await?;
    let refused = plot.claim(json!({ "adminSecretName": "data-one", "subusers": ["one"] })).await.expect_err("a clash");
    assert!(format!("{refused:#}").contains("spec.subusers[0]"), "{refused:#}");
    Ok(())
}

#[tokio::test]
async fn asking_for_new_keys_replaces_every_key_once() -> Result<()> {
    let plot = Plot::new("rotate").await?;
    plot.claim(json!({ "subusers": ["one"] })).await?;
    plot.ready("data").await;
    let mut old = Vec::new();
    for secret in SECRETS {
        old.push((plot.secret(secret).await?["accessKey"].clone(), plot.s3(secret).await?));
    }
    ask_for_new_keys(&plot, "first").await?;
    let keys = keys_of(&plot.user("data").await?.expect("a Ceph user"));
    assert_eq!(keys.len(), SECRETS.len(), "one key each");
    for (secret, (before, s3)) in SECRETS.into_iter().zip(&old) {
        let published = plot.secret(secret).await?["accessKey"].clone();
        assert!(published != *before && keys.contains(&published), "{secret}");
        assert!(is_known(&plot.s3(secret).await?).await && !is_known(s3).await, "{secret}");
    }
    // A change carried out later proves that the same value is not carried out again.
    plot.claim(json!({ "subusers": ["one"], "quota": { "objects": 7 } })).await?;
    plot.ready("data").await;
    assert_eq!(keys_of(&plot.user("data").await?.expect("a Ceph user")), keys);
    ask_for_new_keys(&plot, "second").await?;
    assert!(keys_of(&plot.user("data").await?.expect("a Ceph user")).is_disjoint(&keys));
    Ok(())
}

#[tokio::test]
async fn who_asks_for_new_keys_all_the_time_has_two_keys_at_most_and_the_last_word_counts() -> Result<()> {
    let plot = Plot::new("storm").await?;
    plot.claim(json!({ "subusers": ["one"] })).await?;
    plot.ready("data").await;
    let before = keys_of(&plot.user("data").await?.expect("a Ceph user"));
    for number in 0..20 {
        let asked = json!({ "metadata": { "annotations": { "s3.snappcloud.io/rotate-keys": format!("v{number}") } } });
        plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&asked)).await?;
        let keys = keys_of(&plot.user("data").await?.expect("a Ceph user"));
        assert!(keys.len() <= 2 * SECRETS.len(), "{number}: {} keys", keys.len());
    }
    ask_for_new_keys(&plot, "last").await?;
    let after = keys_of(&plot.user("data").await?.expect("a Ceph user"));
    assert!(after.len() == SECRETS.len() && after.is_disjoint(&before), "{after:?}");
    for secret in SECRETS {
        assert!(is_known(&plot.s3(secret).await?).await, "{secret}");
    }
    Ok(())
}

#[tokio::test]
async fn an_immutable_secret_is_told_with_what_to_do_and_made_anew_once_it_is_gone() -> Result<()> {
    let plot = Plot::new("fixed").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let (old, fixed) = (plot.s3("admin").await?, Patch::Merge(json!({ "immutable": true })));
    plot.secrets().patch("admin", &PatchParams::default(), &fixed).await?;
    let asked = json!({ "metadata": { "annotations": { "s3.snappcloud.io/rotate-keys": "now" } } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&asked)).await?;
    let claim = plot.claim_says("data", "False", "SecretTaken").await;
    let told = claim.status.unwrap_or_default().conditions;
    assert!(told.iter().any(|it| it.message.contains("Secret admin is immutable")), "{told:?}");
    assert!(is_known(&old).await, "what is handed out works");
    plot.secrets().delete("admin", &DeleteParams::default()).await?;
    plot.ready("data").await;
    assert!(is_known(&plot.s3("admin").await?).await && !is_known(&old).await);
    Ok(())
}
