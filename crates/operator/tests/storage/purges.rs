//! Purges that take longer than anybody waits for an answer.

use anyhow::{Context, Result};
use croft_api::storage::S3UserPurge;
use croft_core::storage::claim::STILL;
use croft_rgw::DEFAULT_TIMEOUT;
use croft_testbed::fault::{Action, FaultProxy, Match, Seen};
use jiff::Timestamp;
use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    plot::{Plot, gone},
    support::eventually,
};

/// The gateway is asked to remove a bucket.
fn removals() -> Match {
    Match::verb("delete").resource("/admin/bucket").subresource("purge-objects")
}

fn is_removal(seen: &Seen) -> bool {
    seen.request.verb == "delete" && seen.request.resource == "/admin/bucket"
}

/// The buckets of a user are looked at.
fn is_look(seen: &Seen) -> bool {
    seen.request.verb == "get" && seen.request.subresource.as_deref() == Some("stats&uid")
}

/// What the S3User says of the bucket that is being purged, once it is this one.
async fn purges(plot: &Plot<'_>, bucket: &str) -> S3UserPurge {
    eventually(&format!("the S3User to tell that {bucket} is being purged"), || async {
        let status = plot.users().get(&plot.record_name("data")).await?.status.unwrap_or_default();
        Ok(status.purge.filter(|purge| purge.bucket == bucket))
    })
    .await
}

#[tokio::test]
async fn a_purge_that_is_under_way_is_not_asked_for_again_and_the_s3user_tells_how_far_it_is() -> Result<()> {
    let plot = Plot::new("underway").await?;
    let proxy = FaultProxy::rgw(&plot.ceph.endpoint).await?;
    let class = format!("underway-{}", plot.namespace);
    plot.class(&class, json!({ "endpoint": proxy.endpoint(), "onDelete": "Purge" })).await?;
    plot.claim(json!({ "s3ClassName": class, "quota": { "buckets": 2 } })).await?;
    plot.ready("data").await;
    let s3 = plot.s3("admin").await?;
    for bucket in ["first", "second"] {
        s3.create_bucket(bucket).await?;
        s3.put_object(bucket, "cat.jpg", "meow").await?;
    }
    let held = proxy.on(removals()).before(Action::Hold);
    plot.claims().delete("data", &DeleteParams::default()).await?;
    eventually("the gateway to be asked", || async { Ok((held.fired() > 0).then_some(())) }).await;
    let told = purges(&plot, "first").await;
    assert_eq!((told.buckets, told.objects), (2, 1), "{told:?}");

    // Nobody waits for the answer any more, and somebody looks how far the gateway is.
    eventually("a look after the answer was given up", || async {
        let log = proxy.log();
        let asked = log.iter().find(|seen| is_removal(seen)).context("a purge")?.at;
        Ok(log.iter().find(|seen| is_look(seen) && seen.at > asked + DEFAULT_TIMEOUT).map(|_| ()))
    })
    .await;
    let since: Timestamp = told.time.parse()?;
    for again in proxy.log().iter().filter(|seen| is_removal(seen)).skip(1) {
        // On a machine that stood still for so long it may be asked for again.
        let at = Timestamp::now() - again.at.elapsed();
        assert!(at >= since + STILL, "{told:?}, and asked again at {at}: {:#?}", proxy.log());
    }

    // As the gateway, which goes on whoever waits.
    let next = proxy.on(removals()).before(Action::Hold).always();
    plot.gateway().remove_bucket(plot.user_id("data").tenant(), "first", true).await?;
    let told = purges(&plot, "second").await;
    assert_eq!((told.buckets, told.objects), (2, 1), "the second of two: {told:?}");
    next.remove();
    gone(&plot.claims(), "data").await;
    plot.user_is_gone("data").await;
    assert_eq!(plot.gateway().bucket(plot.user_id("data").tenant(), "second").await?, None);
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}
