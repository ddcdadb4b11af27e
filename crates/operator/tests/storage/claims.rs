//! What a claim gives, and what it leaves alone.

use anyhow::Result;
use croft_api::{Quantity, storage::S3UserPhase};
use croft_rgw::{Access, BucketLimit, NewUser, Quota, UserChange};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::{
    input::unguarded_plot,
    plot::{Plot, apply, world},
    support::eventually,
};

#[tokio::test]
async fn a_claim_gives_a_user_with_exactly_its_quota() -> Result<()> {
    let plot = Plot::new("quota").await?;
    plot.claim(json!({ "quota": { "size": "10000", "objects": 500, "buckets": 5 } })).await?;
    let claim = plot.ready("data").await;

    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!(user.user_quota, Quota { enabled: true, max_size: Some(10_000), max_objects: Some(500) });
    assert_eq!(user.max_buckets, BucketLimit::AtMost(5));
    assert_eq!(user.keys.len(), 2, "one key for the user and one for its reader");

    let status = claim.status.unwrap_or_default();
    let quota = status.quota.unwrap_or_default();
    assert_eq!(
        (quota.size, quota.max_objects, quota.buckets),
        (Some(Quantity("10k".into())), Some(Quantity("500".into())), Some(5))
    );
    assert_eq!(status.s3_user_name, Some(plot.record_name("data")));
    assert_eq!(
        (status.s3_class_name.as_deref(), status.observed_generation),
        (Some("default"), claim.metadata.generation)
    );

    let record = plot.users().get(&plot.record_name("data")).await?;
    let reference = record.spec.claim_ref.unwrap_or_default();
    assert_eq!(
        (reference.namespace.as_ref(), reference.name.as_deref(), &reference.uid),
        (Some(&plot.namespace), Some("data"), &claim.metadata.uid)
    );
    assert_eq!(record.spec.ceph_user, Some(plot.user_id("data").to_string()));
    assert_eq!(record.spec.quota.unwrap_or_default().max_size, Some(Quantity("10k".into())));
    assert_eq!(record.status.and_then(|status| status.phase), Some(S3UserPhase::Bound));
    Ok(())
}

#[tokio::test]
async fn the_admin_secret_writes_and_the_read_secret_only_reads() -> Result<()> {
    let plot = Plot::new("keys").await?;
    plot.claim(json!({})).await?;
    let claim = plot.ready("data").await;
    let (admin, reader) = (plot.s3("admin").await?, plot.s3("read").await?);
    admin.create_bucket("photos").await?;
    admin.put_object("photos", "cat.jpg", "meow").await?;
    assert_eq!(reader.get_object("photos", "cat.jpg").await?.as_deref(), Some("meow".as_bytes()));
    assert!(reader.put_object("photos", "dog.jpg", "woof").await.is_err());
    assert!(reader.delete_object("photos", "cat.jpg").await.is_err());
    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!(user.subusers.iter().map(|sub| sub.permissions).collect::<Vec<_>>(), [Some(Access::Read)]);

    let data = plot.secret("admin").await?;
    let (access, secret) = (&data["accessKey"], &data["secretKey"]);
    assert_eq!(data["cloud"], format!("[default]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n"));
    let owner = &plot.secrets().get("admin").await?.metadata.owner_references.unwrap_or_default()[0];
    assert_eq!((Some(&owner.uid), owner.controller), (claim.metadata.uid.as_ref(), Some(true)));
    Ok(())
}

#[tokio::test]
async fn the_other_spelling_of_a_claim_means_the_same() -> Result<()> {
    let plot = Plot::new("spelling").await?;
    let spec = json!({
        "adminSecretName": null, "readSecretName": null,
        "s3UserClass": "default", "adminSecret": "admin", "readonlySecret": "read",
        "quota": { "maxSize": "1Ki", "maxObjects": "3", "maxBuckets": 1 },
    });
    plot.claim(spec).await?;
    plot.ready("data").await;
    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!(user.user_quota, Quota { enabled: true, max_size: Some(1024), max_objects: Some(3) });
    assert!(plot.s3("read").await?.list_objects("nothing", "").await.is_err(), "the key is known, the bucket is not");
    Ok(())
}

#[tokio::test]
async fn a_changed_quota_reaches_ceph_and_zero_buckets_means_none() -> Result<()> {
    let plot = Plot::new("change").await?;
    plot.claim(json!({ "quota": { "size": "1Gi", "buckets": 3 } })).await?;
    plot.ready("data").await;
    plot.claim(json!({ "quota": { "size": "2Gi", "buckets": 0 } })).await?;
    let claim = plot.ready("data").await;
    assert_eq!(claim.status.unwrap_or_default().quota.unwrap_or_default().size, Some(Quantity("2Gi".into())));
    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!((user.user_quota.max_size, user.max_buckets), (Some(2 << 30), BucketLimit::AtMost(0)));
    assert!(plot.s3("admin").await?.create_bucket("photos").await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_lost_or_changed_secret_comes_back_with_the_same_keys() -> Result<()> {
    let plot = Plot::new("heal").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let before = (plot.secret("admin").await?, plot.secret("read").await?);
    plot.secrets().delete("admin", &DeleteParams::default()).await?;
    let nonsense = json!({ "stringData": { "secretKey": "nonsense" } });
    plot.secrets().patch("read", &PatchParams::default(), &Patch::Merge(&nonsense)).await?;
    eventually("both Secrets to be as before", || async {
        let now = (plot.secret("admin").await?, plot.secret("read").await?);
        Ok((now == before).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn what_others_change_on_a_user_in_ceph_is_put_right_when_it_is_looked_at() -> Result<()> {
    let plot = Plot::new("drift").await?;
    plot.claim(json!({ "quota": { "size": "10000", "objects": 500, "buckets": 5 } })).await?;
    plot.ready("data").await;
    let (gateway, id) = (plot.gateway(), plot.user_id("data"));
    let wanted = gateway.user(&id).await?;
    gateway.set_user_quota(&id, Quota { enabled: false, max_size: Some(1), max_objects: None }).await?;
    gateway.set_subuser_access(&id, "readonly", Access::Full).await?;
    let unlimited = UserChange { max_buckets: Some(BucketLimit::Unlimited), ..UserChange::default() };
    gateway.modify_user(&id, &unlimited).await?;
    // All are looked at every ten minutes; a lost Secret has one looked at before its turn.
    plot.secrets().delete("read", &DeleteParams::default()).await?;
    eventually("the user to be as it was", || async {
        let user = gateway.user(&id).await?;
        anyhow::ensure!(user == wanted, "it is {user:?}");
        Ok(Some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_secret_named_anew_replaces_the_old_one() -> Result<()> {
    let plot = Plot::new("rename").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let keys = plot.secret("admin").await?;
    plot.claim(json!({ "adminSecretName": "root" })).await?;
    plot.ready("data").await;
    assert_eq!(plot.secret("root").await?, keys);
    crate::plot::gone(&plot.secrets(), "admin").await;
    Ok(())
}

#[tokio::test]
async fn a_ceph_user_of_somebody_else_is_never_touched() -> Result<()> {
    let plot = Plot::new("taken").await?;
    let theirs = NewUser {
        id: plot.user_id("data"),
        display_name: "data in another cluster [another-uid]".into(),
        max_buckets: BucketLimit::AtMost(7),
        access_key: format!("AK{}", plot.namespace),
    };
    let before = plot.gateway().create_user(&theirs).await?;
    plot.claim(json!({})).await?;
    plot.claim_says("data", "False", "UserTaken").await;
    assert!(plot.secrets().get_opt("admin").await?.is_none());
    plot.claims().delete("data", &DeleteParams::default()).await?;
    crate::plot::gone(&plot.claims(), "data").await;
    assert_eq!(plot.user("data").await?, Some(before));
    // Somebody removes it, as the message asks for.
    plot.claim(json!({})).await?;
    plot.claim_says("data", "False", "UserTaken").await;
    plot.gateway().remove_user(&plot.user_id("data"), false).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn a_user_that_somebody_suspends_is_told_and_all_is_well_once_he_lifts_that() -> Result<()> {
    let plot = Plot::new("suspended").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let suspend = async |suspended: bool| {
        let change = UserChange { suspended: Some(suspended), ..UserChange::default() };
        plot.gateway().modify_user(&plot.user_id("data"), &change).await
    };
    suspend(true).await?;
    // Has it looked at before its turn.
    plot.secrets().delete("read", &DeleteParams::default()).await?;
    plot.claim_says("data", "False", "UserSuspended").await;
    suspend(false).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_never_overwritten() -> Result<()> {
    let plot = unguarded_plot("occupied").await?;
    apply(&plot.secrets(), "admin", json!({ "stringData": { "password": "theirs" } })).await?;
    plot.claim(json!({})).await?;
    plot.claim_says("data", "False", "SecretTaken").await;
    let untouched: Secret = plot.secrets().get("admin").await?;
    assert_eq!(untouched.metadata.owner_references, None);
    assert_eq!(plot.secret("admin").await?.keys().collect::<Vec<_>>(), ["password"]);
    plot.secrets().delete("admin", &DeleteParams::default()).await?;
    plot.ready("data").await;
    assert!(plot.secret("admin").await?.contains_key("accessKey"));
    Ok(())
}

#[tokio::test]
async fn a_missing_class_is_told_and_used_the_moment_it_appears() -> Result<()> {
    let plot = Plot::new("late").await?;
    let class = format!("late-{}", plot.namespace);
    plot.claim(json!({ "s3ClassName": class })).await?;
    let claim = plot.claim_says("data", "False", "ClassNotFound").await;
    assert_eq!(claim.metadata.finalizers, None, "nothing was made, so nothing is to be cleaned up");
    plot.class(&class, json!({ "region": "late-region" })).await?;
    plot.ready("data").await;
    assert_eq!(plot.secret("admin").await?["region"], "late-region");
    Ok(())
}

#[tokio::test]
async fn a_class_is_for_the_namespaces_it_selects() -> Result<()> {
    let plot = Plot::new("select").await?;
    let class = format!("select-{}", plot.namespace);
    plot.class(&class, json!({ "allowedNamespaces": { "matchLabels": { "tier": "gold" } } })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.claim_says("data", "False", "NotAllowed").await;
    assert_eq!(plot.user("data").await?, None);
    let gold = json!({ "metadata": { "labels": { "tier": "gold" } } });
    plot.namespaces().patch(&plot.namespace, &PatchParams::default(), &Patch::Merge(&gold)).await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn a_claim_that_asks_for_no_quota_gets_the_default() -> Result<()> {
    let plot = Plot::new("plain").await?;
    let class = format!("plain-{}", plot.namespace);
    plot.class(&class, json!({ "defaultQuota": { "size": "7Gi" } })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.ready("data").await;
    let user = plot.user("data").await?.expect("a Ceph user");
    assert_eq!(user.user_quota, Quota { enabled: true, max_size: Some(7 << 30), max_objects: Some(1000) });
    assert_eq!(user.max_buckets, BucketLimit::AtMost(2));
    Ok(())
}

#[tokio::test]
async fn no_secret_key_is_ever_logged() -> Result<()> {
    let plot = Plot::new("hush").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let log = world().await.operator.process.log();
    assert!(log.contains(&format!("create Ceph user {}", plot.user_id("data"))), "plans are logged");
    for secret in ["admin", "read"] {
        assert!(!log.contains(&plot.secret(secret).await?["secretKey"]), "the key of {secret} is in the log");
    }
    assert!(!log.contains(&plot.ceph.secret_key), "the administrator's key is in the log");
    Ok(())
}

#[tokio::test]
async fn no_secret_of_a_claim_stands_in_a_log() -> Result<()> {
    let plot = Plot::new("logged").await?;
    plot.claim(json!({ "subusers": ["one", "two"] })).await?;
    plot.ready("data").await;
    let before = plot.user("data").await?.expect("a Ceph user");
    // All keys are replaced, and one identity goes with its own.
    let rotate = json!({ "metadata": { "annotations": { "s3.snappcloud.io/rotate-keys": "once" } } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&rotate)).await?;
    let after = eventually("new keys", || async {
        let user = plot.user("data").await?.expect("a Ceph user");
        let is_new = user.keys.iter().all(|key| before.key(&key.credentials.access_key).is_none());
        Ok((is_new && user.keys.len() == 4).then_some(user))
    })
    .await;
    plot.claim(json!({ "subusers": ["one"] })).await?;
    plot.ready("data").await;
    let keys = before.keys.iter().chain(&after.keys).map(|key| &key.credentials);
    assert_eq!(keys.clone().count(), 8, "the user's own, the reader's and those of two subusers, twice");
    // The gateway writes its log behind; that the names of the keys are in it proves that it is the place to look.
    let log = eventually("the gateway's log", || async {
        let log = plot.ceph.gateway_log();
        Ok(keys.clone().all(|key| log.contains(&key.access_key)).then_some(log))
    })
    .await;
    let ours = world().await.operator.process.log();
    for key in keys.clone() {
        let secret = key.secret_key.expose();
        assert!(!log.contains(secret) && !ours.contains(secret), "a log holds a secret");
    }
    Ok(())
}

#[tokio::test]
async fn what_a_class_gives_by_default_is_fixed_when_it_is_granted() -> Result<()> {
    let plot = Plot::new("fixed").await?;
    let class = format!("fixed-{}", plot.namespace);
    plot.class(&class, json!({ "defaultQuota": { "size": "1Gi" } })).await?;
    plot.claim(json!({ "s3ClassName": class })).await?;
    plot.ready("data").await;
    plot.class(&class, json!({ "defaultQuota": { "size": "100Gi" } })).await?;
    // A change that is carried out after the class was changed proves that the claim was looked at.
    let more = json!({ "spec": { "quota": { "objects": 7 } } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&more)).await?;
    let user = eventually("the new quota", || async {
        Ok(plot.user("data").await?.filter(|user| user.user_quota.max_objects == Some(7)))
    })
    .await;
    assert_eq!(user.user_quota.max_size, Some(1 << 30));
    Ok(())
}
