//! Buckets: made when their claim is ready, removed when they are empty, and nobody else's.

use anyhow::{Context, Result};
use croft_testbed::S3Call;
use http::Method;
use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    input::unguarded_plot,
    plot::{Plot, gone},
    support::eventually,
};

async fn in_ceph(plot: &Plot<'_>, name: &str) -> Result<bool> {
    Ok(plot.gateway().bucket(plot.user_id("data").tenant(), name).await?.is_some())
}

#[tokio::test]
async fn a_bucket_waits_for_its_claim_and_is_made_the_moment_that_is_ready() -> Result<()> {
    let plot = unguarded_plot("wait").await?;
    plot.bucket("photos", json!({})).await?;
    let waiting = plot.bucket_says("photos", "False", "WaitingForClaim").await;
    assert!(!waiting.status.unwrap_or_default().created);
    plot.claim(json!({})).await?;
    let bucket = plot.bucket_says("photos", "True", "Provisioned").await;
    let status = bucket.status.unwrap_or_default();
    assert!(status.created && status.reason.is_none());
    let found = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?.expect("a bucket");
    assert_eq!(found.owner, plot.user_id("data"));
    Ok(())
}

#[tokio::test]
async fn deleting_a_bucket_removes_it_and_retain_keeps_it() -> Result<()> {
    let plot = Plot::new("policy").await?;
    plot.claim(json!({})).await?;
    plot.bucket("go", json!({})).await.expect_err("a bucket's name has three characters");
    plot.bucket("goes", json!({})).await?;
    plot.bucket("stays", json!({ "s3DeletionPolicy": "retain" })).await?;
    for name in ["goes", "stays"] {
        plot.bucket_says(name, "True", "Provisioned").await;
        plot.buckets().delete(name, &DeleteParams::default()).await?;
        gone(&plot.buckets(), name).await;
    }
    assert!(!in_ceph(&plot, "goes").await?);
    assert!(in_ceph(&plot, "stays").await?);
    Ok(())
}

#[tokio::test]
async fn a_bucket_with_objects_stays_until_it_is_empty() -> Result<()> {
    let plot = Plot::new("full").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    let s3 = plot.s3("admin").await?;
    s3.put_object("photos", "cat.jpg", "meow").await?;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    plot.bucket_says("photos", "False", "BucketNotEmpty").await;
    assert!(in_ceph(&plot, "photos").await?);
    s3.delete_object("photos", "cat.jpg").await?;
    gone(&plot.buckets(), "photos").await;
    assert!(!in_ceph(&plot, "photos").await?);
    Ok(())
}

#[tokio::test]
async fn a_bucket_with_nothing_but_an_unfinished_upload_stays_until_that_is_aborted() -> Result<()> {
    let plot = Plot::new("parts").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.s3("admin").await?;
    let keys = plot.secret("admin").await?;
    let send = async |method: Method, query: &str, body: &[u8]| {
        let call = S3Call { method, path: "/photos/cat.jpg", query, body, ..S3Call::default() };
        let (status, answer) = plot.ceph.call((&keys["accessKey"], &keys["secretKey"]), &call).await?;
        anyhow::ensure!(status.is_success(), "{status}: {answer}");
        anyhow::Ok(answer)
    };
    let answer = send(Method::POST, "uploads=", b"").await?;
    let upload = answer.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once('<')).context("an upload")?.0;
    send(Method::PUT, &format!("partNumber=1&uploadId={upload}"), b"meow").await?;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    let told = plot.bucket_says("photos", "False", "BucketNotEmpty").await.status.unwrap_or_default().reason;
    assert!(told.as_ref().is_some_and(|told| told.contains("unfinished uploads")), "{told:?}");
    assert!(in_ceph(&plot, "photos").await?);
    send(Method::DELETE, &format!("uploadId={upload}"), b"").await?;
    gone(&plot.buckets(), "photos").await;
    assert!(!in_ceph(&plot, "photos").await?);
    Ok(())
}

#[tokio::test]
async fn a_bucket_of_another_user_is_never_touched() -> Result<()> {
    let plot = Plot::new("foreign").await?;
    plot.claim(json!({})).await?;
    plot.claim_called("other", json!({ "adminSecretName": "other-admin", "readSecretName": "other-read" })).await?;
    plot.ready("other").await;
    let theirs = plot.s3("other-admin").await?;
    theirs.create_bucket("photos").await?;
    plot.bucket("photos", json!({})).await?;
    let taken = plot.bucket_says("photos", "False", "BucketTaken").await;
    assert!(!taken.status.unwrap_or_default().created);
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    assert!(theirs.head_bucket("photos").await?);
    Ok(())
}

#[tokio::test]
async fn a_bucket_is_made_once_that_of_somebody_else_is_gone() -> Result<()> {
    let plot = Plot::new("freed").await?;
    plot.claim(json!({})).await?;
    plot.claim_called("other", json!({ "adminSecretName": "other-admin", "readSecretName": "other-read" })).await?;
    plot.ready("data").await;
    plot.ready("other").await;
    let theirs = plot.s3("other-admin").await?;
    theirs.create_bucket("photos").await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "False", "BucketTaken").await;
    // Nothing in Kubernetes tells.
    theirs.delete_bucket("photos").await?;
    let made = plot.bucket_says("photos", "True", "Provisioned").await;
    assert!(made.status.unwrap_or_default().created);
    let found = plot.gateway().bucket(plot.user_id("data").tenant(), "photos").await?;
    assert_eq!(found.map(|found| found.owner), Some(plot.user_id("data")));
    Ok(())
}

#[tokio::test]
async fn a_bucket_over_the_limit_says_so_and_is_made_when_the_limit_grows() -> Result<()> {
    let plot = Plot::new("limit").await?;
    plot.claim(json!({ "quota": { "buckets": 1 } })).await?;
    plot.bucket("first", json!({})).await?;
    plot.bucket_says("first", "True", "Provisioned").await;
    plot.bucket("second", json!({})).await?;
    plot.bucket_says("second", "False", "TooManyBuckets").await;
    plot.claim(json!({ "quota": { "buckets": 2 } })).await?;
    plot.bucket_says("second", "True", "Provisioned").await;
    eventually("both buckets in Ceph", || async {
        let names = plot.gateway().buckets_of(&plot.user_id("data")).await?;
        Ok((names.len() == 2).then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_somebody_deleted_is_told_as_lost_and_not_made_anew_empty() -> Result<()> {
    let plot = Plot::new("lost").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    plot.s3("admin").await?.delete_bucket("photos").await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.bucket_says("photos", "False", "BucketLost").await;
    assert!(!in_ceph(&plot, "photos").await?);
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.buckets(), "photos").await;
    plot.bucket("photos", json!({})).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    Ok(())
}

#[tokio::test]
async fn a_claim_that_allows_no_buckets_says_so_to_them() -> Result<()> {
    let plot = Plot::new("none").await?;
    plot.claim(json!({ "quota": { "buckets": 0 } })).await?;
    plot.bucket("photos", json!({})).await?;
    let told = plot.bucket_says("photos", "False", "QuotaExceeded").await.status.unwrap_or_default().reason;
    assert!(told.as_ref().is_some_and(|told| told.contains("allows no buckets")), "{told:?}");
    plot.claim(json!({ "quota": { "buckets": 1 } })).await?;
    plot.bucket_says("photos", "True", "Provisioned").await;
    Ok(())
}
