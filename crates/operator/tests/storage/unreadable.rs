//! What is stored and too large to be kept in mind: it is asked for one by one, and neither hangs nor is taken for gone.

use std::fmt::Debug;

use anyhow::Result;
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{input::unguarded_plot, plot::gone, support::eventually};

/// Puts a note on an object that makes it larger than what is kept of one, or takes it off again.
async fn note<K>(api: &Api<K>, name: &str, note: Option<Value>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let patch = json!({ "metadata": { "annotations": { "tenant.example/note": note } } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

/// Each of these signs is written as two.
fn large() -> Value {
    json!("\"".repeat(200_000))
}

#[tokio::test]
async fn a_claim_and_a_bucket_that_became_too_large_go_with_their_namespace() -> Result<()> {
    let plot = unguarded_plot("large").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({})).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    note(&plot.claims(), "data", Some(large())).await?;
    note(&plot.buckets(), "photos", Some(large())).await?;
    plot.delete_namespace().await?;
    plot.namespace_is_gone().await;
    plot.user_is_gone("data").await;
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}

#[tokio::test]
async fn what_is_asked_for_in_a_claim_that_is_too_large_is_done() -> Result<()> {
    let plot = unguarded_plot("wide").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    note(&plot.claims(), "data", Some(large())).await?;
    let more = json!({ "spec": { "quota": { "buckets": 7 } } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&more)).await?;
    plot.ready("data").await;
    let user = plot.user("data").await?.expect("a user");
    assert_eq!(user.max_buckets, croft_rgw::BucketLimit::AtMost(7));
    Ok(())
}

#[tokio::test]
async fn a_claim_does_not_go_while_a_bucket_of_its_namespace_cannot_be_read() -> Result<()> {
    let plot = unguarded_plot("hidden").await?;
    plot.claim(json!({})).await?;
    plot.bucket("photos", json!({ "s3DeletionPolicy": "retain" })).await?;
    plot.ready("data").await;
    plot.bucket_says("photos", "True", "Provisioned").await;
    note(&plot.buckets(), "photos", Some(large())).await?;
    plot.claims().delete("data", &DeleteParams::default()).await?;
    let told = plot.claim_says("data", "Unknown", "CannotObserve").await.status.unwrap_or_default().conditions;
    assert!(told.iter().any(|condition| condition.message.contains("BucketUnreadable")), "{told:?}");
    assert!(plot.user("data").await?.is_some_and(|user| !user.suspended), "nobody touched it");
    note(&plot.buckets(), "photos", None).await?;
    plot.claim_says("data", "False", "BucketsInUse").await;
    plot.buckets().delete("photos", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    eventually("the bucket to be kept", || async {
        let kept = plot.users().get(&plot.record_name("data")).await?.status.unwrap_or_default().kept_buckets;
        Ok((kept == ["photos"]).then_some(()))
    })
    .await;
    Ok(())
}
