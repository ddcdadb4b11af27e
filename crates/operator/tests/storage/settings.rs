//! Quota, versioning and lifecycle of buckets, and what is stored.

use anyhow::Result;
use croft_api::Quantity;
use croft_rgw::{Bucket, LifecycleRule, Quota, Versioning};
use croft_testbed::S3Call;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{plot::Plot, support::eventually};

/// A ready bucket `photos`.
async fn bucket(prefix: &str, more: Value) -> Result<Plot<'static>> {
    let plot = Plot::new(prefix).await?;
    plot.claim(json!({})).await?;
    change(&plot, more).await?;
    Ok(plot)
}

/// Applies the bucket anew, and waits until that is carried out.
async fn change(plot: &Plot<'_>, more: Value) -> Result<()> {
    plot.bucket("photos", more).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    Ok(())
}

async fn in_ceph(plot: &Plot<'_>) -> Result<Bucket> {
    Ok(plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?.expect("a bucket"))
}

fn rule(id: &str, prefix: &str) -> LifecycleRule {
    LifecycleRule {
        id: id.into(),
        prefix: prefix.into(),
        enabled: true,
        expiration_days: Some(7),
        noncurrent_expiration_days: None,
        abort_multipart_days: None,
    }
}

#[tokio::test]
async fn a_quota_of_a_bucket_is_set_changed_healed_and_taken_off() -> Result<()> {
    let plot = bucket("bquota", json!({ "quota": { "objects": 1 } })).await?;
    let limit = |max_size, max_objects| Quota { enabled: true, max_size, max_objects };
    assert_eq!(in_ceph(&plot).await?.quota, limit(None, Some(1)));
    let s3 = plot.s3("admin").await?;
    s3.put_object("photos", "one", "x").await?;
    assert_eq!(s3.put_object("photos", "two", "x").await.expect_err("over the quota").reason(), "QuotaExceeded");

    change(&plot, json!({ "quota": { "size": "1Mi" } })).await?;
    assert_eq!(in_ceph(&plot).await?.quota, limit(Some(1 << 20), None));
    s3.put_object("photos", "two", "x").await?;

    plot.gateway().set_bucket_quota(&plot.user_id("data"), "photos", Quota::default()).await?;
    change(&plot, json!({ "quota": { "size": "1Mi" }, "s3DeletionPolicy": "retain" })).await?;
    assert_eq!(in_ceph(&plot).await?.quota, limit(Some(1 << 20), None));

    change(&plot, json!({})).await?;
    assert!(!in_ceph(&plot).await?.quota.enabled);
    let status = plot.buckets().get("photos").await?.status.unwrap_or_default();
    assert_eq!(status.managed_settings, Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn a_quota_nobody_asked_us_for_is_left_as_it_is() -> Result<()> {
    let plot = bucket("theirs", json!({})).await?;
    let theirs = Quota { enabled: true, max_size: None, max_objects: Some(5) };
    plot.gateway().set_bucket_quota(&plot.user_id("data"), "photos", theirs).await?;
    change(&plot, json!({ "s3DeletionPolicy": "retain" })).await?;
    assert_eq!(in_ceph(&plot).await?.quota, theirs);
    Ok(())
}

#[tokio::test]
async fn versions_are_kept_as_asked_and_suspended_when_that_is_removed() -> Result<()> {
    let plot = bucket("versions", json!({ "versioning": "enabled" })).await?;
    let s3 = plot.s3("admin").await?;
    assert_eq!(s3.bucket_versioning("photos").await?, Some(Versioning::Enabled));
    s3.set_bucket_versioning("photos", false).await?;
    change(&plot, json!({ "versioning": "enabled", "s3DeletionPolicy": "retain" })).await?;
    assert_eq!(s3.bucket_versioning("photos").await?, Some(Versioning::Enabled));
    change(&plot, json!({})).await?;
    assert_eq!(s3.bucket_versioning("photos").await?, Some(Versioning::Suspended));
    // Now it is the tenant's own again.
    s3.set_bucket_versioning("photos", true).await?;
    change(&plot, json!({ "s3DeletionPolicy": "retain" })).await?;
    assert_eq!(s3.bucket_versioning("photos").await?, Some(Versioning::Enabled));
    Ok(())
}

#[tokio::test]
async fn lifecycle_rules_stand_beside_those_the_tenant_set() -> Result<()> {
    let plot = bucket("rules", json!({})).await?;
    let s3 = plot.s3("admin").await?;
    let theirs = croft_rgw::Lifecycle { rules: vec![rule("mine", "old/")], others: vec![] };
    s3.put_bucket_lifecycle("photos", &theirs).await?;
    let asked = json!([{ "id": "tmp", "prefix": "tmp/", "expirationDays": 7 },
                       { "id": "all", "abortIncompleteMultipartUploadDays": 2, "noncurrentVersionExpirationDays": 3 }]);
    change(&plot, json!({ "lifecycle": asked })).await?;
    let everything = LifecycleRule {
        expiration_days: None,
        noncurrent_expiration_days: Some(3),
        abort_multipart_days: Some(2),
        ..rule("croft-all", "")
    };
    let rules = s3.bucket_lifecycle("photos").await?.expect("rules").rules;
    assert_eq!(rules, [everything, rule("croft-tmp", "tmp/"), rule("mine", "old/")]);

    s3.put_bucket_lifecycle("photos", &theirs).await?;
    let less = json!([{ "id": "tmp", "prefix": "tmp/", "expirationDays": 7 }]);
    change(&plot, json!({ "lifecycle": less })).await?;
    let rules = s3.bucket_lifecycle("photos").await?.expect("rules").rules;
    assert_eq!(rules, [rule("croft-tmp", "tmp/"), rule("mine", "old/")]);

    change(&plot, json!({})).await?;
    assert_eq!(s3.bucket_lifecycle("photos").await?, Some(theirs));
    Ok(())
}

#[tokio::test]
async fn a_policy_that_shuts_out_the_owner_is_told_as_such_whatever_else_is_asked_for() -> Result<()> {
    let asked = json!({ "versioning": "enabled", "lifecycle": [{ "id": "tmp", "expirationDays": 7 }] });
    let plot = bucket("shutout", asked.clone()).await?;
    let s3 = plot.s3("admin").await?;
    let shut = |action: &str| {
        let statement =
            json!({ "Effect": "Deny", "Principal": "*", "Action": action, "Resource": "arn:aws:s3:::photos" });
        serde_json::from_value(json!({ "Version": "2012-10-17", "Statement": [statement] }))
    };
    s3.put_bucket_policy("photos", &shut("s3:GetBucketVersioning")?).await?;
    let mut more = asked.clone();
    more["s3DeletionPolicy"] = json!("retain");
    plot.bucket("photos", more.clone()).await?;
    plot.bucket_says("photos", "False", "PolicyUnreadable").await;
    s3.delete_bucket_policy("photos").await?;
    plot.bucket("photos", asked).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    s3.put_bucket_policy("photos", &shut("s3:*")?).await?;
    plot.bucket("photos", more).await?;
    let told = plot.bucket_says("photos", "False", "PolicyUnreadable").await.status.unwrap_or_default().reason;
    assert!(told.as_ref().is_some_and(|told| told.contains("shuts out the bucket's owner")), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn a_bucket_with_object_lock_says_that_it_keeps_its_versions() -> Result<()> {
    let plot = Plot::new("locked").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    let keys = plot.secret("admin").await?;
    let lock = Some(("x-amz-bucket-object-lock-enabled", "true"));
    let call = S3Call { method: Method::PUT, path: "/photos", query: "", header: lock, body: b"" };
    let (status, body) = plot.ceph.call((&keys["accessKey"], &keys["secretKey"]), &call).await?;
    anyhow::ensure!(status.is_success(), "{status} {body}");
    plot.bucket("photos", json!({ "versioning": "suspended" })).await?;
    let told = plot.bucket_says("photos", "False", "InvalidBucketState").await.status.unwrap_or_default().reason;
    assert!(told.as_ref().is_some_and(|told| told.contains("object lock")), "{told:?}");
    change(&plot, json!({ "versioning": "enabled" })).await
}

#[tokio::test]
async fn settings_that_cannot_be_are_refused_by_field() -> Result<()> {
    let plot = Plot::new("badset").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    for (spec, field) in [
        (json!({ "quota": { "size": "500m" } }), "spec.quota.size"),
        (json!({ "quota": { "objects": "-1" } }), "spec.quota.objects"),
        (json!({ "quota": { "size": i64::MAX } }), "spec.quota.size"),
        (json!({ "quota": {} }), "spec.quota"),
        (json!({ "versioning": "perhaps" }), "spec.versioning"),
        (json!({ "lifecycle": [{ "id": "a" }] }), "spec.lifecycle[0]"),
        (json!({ "lifecycle": [{ "id": "a", "expirationDays": 0 }] }), "spec.lifecycle[0].expirationDays"),
        (json!({ "lifecycle": [{ "id": "a", "prefix": "\u{1}", "expirationDays": 1 }] }), "spec.lifecycle[0].prefix"),
        (json!({ "s3SubuserBinding": [{ "name": "a", "access": "all" }] }), "spec.s3SubuserBinding[0].access"),
        (json!({ "s3SubuserBinding": [{ "name": "readonly", "access": "write" }] }), "spec.s3SubuserBinding[0].access"),
    ] {
        let refused = plot.bucket("photos", spec.clone()).await.expect_err("refused");
        assert!(format!("{refused:#}").contains(field), "{spec}: {refused:#}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_stored_is_told_on_bucket_and_claim() -> Result<()> {
    let plot = bucket("used", json!({})).await?;
    let status = plot.buckets().get("photos").await?.status.unwrap_or_default();
    assert_eq!(status.used.map(|used| used.objects), Some(0));
    plot.s3("admin").await?.put_object("photos", "cat.jpg", "x".repeat(5000)).await?;
    change(&plot, json!({ "s3DeletionPolicy": "retain" })).await?;
    let used = plot.buckets().get("photos").await?.status.unwrap_or_default().used.expect("a figure");
    assert_eq!((used.size, used.objects), (Quantity("8Ki".into()), 1));
    // The refresh looks at claims that have been ready for a while; a lost Secret has one looked at before its turn.
    assert_eq!(plot.claims().get("data").await?.status.unwrap_or_default().used, None);
    let mut claim = plot.ready("data").await;
    for condition in claim.status.iter_mut().flat_map(|status| &mut status.conditions) {
        condition.last_transition_time = Time("2026-01-01T00:00:00Z".parse()?);
    }
    let old = json!({ "status": { "conditions": claim.status.unwrap_or_default().conditions } });
    plot.claims().patch_status("data", &PatchParams::default(), &Patch::Merge(&old)).await?;
    eventually("the operator to see a claim that is ready for long", || async {
        plot.secrets().delete("read", &DeleteParams::default()).await.ok();
        Ok(plot.claims().get("data").await?.status.unwrap_or_default().used.map(drop))
    })
    .await;
    let used = eventually("the claim to tell what is stored", || async {
        Ok(plot.claims().get("data").await?.status.unwrap_or_default().used)
    })
    .await;
    assert_eq!((used.size, used.objects, used.buckets), (Quantity("8Ki".into()), 1, Some(1)));
    Ok(())
}
