//! While a migration is under way nobody else works on what it moves.

use anyhow::{Context, Result};
use croft_api::storage::MigrationPhase;
use croft_rgw::BucketLimit;
use croft_testbed::fault::{Action, FaultProxy, Match, Seen};
use serde_json::json;

use crate::{
    migration::{ends, migrate},
    plot::Plot,
    support::eventually,
};

#[tokio::test]
async fn what_is_asked_of_a_claim_and_its_bucket_while_a_migration_is_under_way_is_done_when_that_is_over() -> Result<()>
{
    let (from, to) = (Plot::new("held-from").await?, Plot::new("held-to").await?);
    let proxy = FaultProxy::rgw(&from.ceph.endpoint).await?;
    let class = format!("held-{}", from.namespace);
    from.class(&class, json!({ "endpoint": proxy.endpoint() })).await?;
    let claim = |objects: u32| json!({ "s3ClassName": class, "subusers": ["one"], "quota": { "objects": objects, "buckets": 3 } });
    for plot in [&from, &to] {
        plot.claim(claim(10)).await?;
        plot.ready("data").await;
    }
    for bucket in ["photos", "stays"] {
        from.bucket(bucket, json!({})).await?;
        from.bucket_says(bucket, "True", "Provisioned").await;
    }
    from.s3("admin").await?.put_object("photos", "cat.jpg", "meow").await?;

    let link = Match::verb("put").resource("/admin/bucket").subresource("bucket-id");
    let held = proxy.on(link).before(Action::Hold).always();
    let name = migrate(&from, &to, &["photos"], json!({ "deleteCurrentUser": false })).await?;
    eventually("the bucket to be about to change hands", || async { Ok((held.fired() > 0).then_some(())) }).await;
    let users = [from.user("data").await?, to.user("data").await?];
    proxy.clear_log();
    for plot in [&from, &to] {
        plot.claim(claim(20)).await?;
    }
    for bucket in ["photos", "stays"] {
        from.bucket(bucket, json!({ "s3SubuserBinding": [{ "name": "one" }], "quota": { "objects": 5 } })).await?;
    }
    // One that comes meanwhile waits as well.
    to.bucket("late", json!({})).await?;
    for plot in [&from, &to] {
        let told = plot.claim_says("data", "False", "Migrating").await.status.context("a status")?;
        assert!(json!(told.conditions).to_string().contains(&format!("UserMigration {name} is at work")), "{told:?}");
    }
    for (plot, bucket) in [(&from, "photos"), (&from, "stays"), (&to, "late")] {
        plot.bucket_says(bucket, "False", "Migrating").await;
    }
    let log = proxy.log();
    let is_link = |seen: &Seen| seen.request.subresource.as_deref().unwrap_or_default().contains("bucket-id");
    let others: Vec<_> = log.iter().filter(|seen| seen.request.write && !is_link(seen)).collect();
    assert!(others.is_empty(), "somebody works against it: {others:#?}");
    assert_eq!([from.user("data").await?, to.user("data").await?], users);

    held.remove();
    ends(&from, &name, MigrationPhase::Succeeded).await;
    for plot in [&from, &to] {
        plot.ready("data").await;
        let user = plot.user("data").await?.context("a user")?;
        assert_eq!((user.user_quota.max_objects, user.max_buckets), (Some(20), BucketLimit::AtMost(3)));
    }
    for (plot, bucket) in [(&from, "stays"), (&to, "photos"), (&to, "late")] {
        plot.bucket_says(bucket, "True", "Provisioned").await;
    }
    // With what was asked of it meanwhile.
    let moved = to.gateway().bucket(to.user_id("data").tenant(), "photos").await?.context("the bucket")?;
    assert_eq!((moved.owner, moved.quota.max_objects), (to.user_id("data"), Some(5)));
    assert!(to.s3("data-one").await?.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}
