//! While a migration is under way nobody works against it, and what it may need is given.

use anyhow::{Context, Result};
use croft_api::storage::MigrationPhase;
use croft_rgw::BucketLimit;
use croft_testbed::fault::{Action, FaultProxy, Match, Rule, Seen};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::{
    migration::{ends, migrate},
    plot::{Plot, gone},
    support::eventually,
};

/// A class behind a proxy, and in each of two namespaces a claim of it.
struct Move {
    from: Plot<'static>,
    to: Plot<'static>,
    proxy: FaultProxy,
    class: String,
}

impl Move {
    async fn new(prefix: &str) -> Result<Self> {
        let (from, to) = (Plot::new(prefix).await?, Plot::new(prefix).await?);
        let proxy = FaultProxy::rgw(&from.ceph.endpoint).await?;
        let class = format!("{prefix}-{}", from.namespace);
        from.class(&class, json!({ "endpoint": proxy.endpoint() })).await?;
        let whole = Self { from, to, proxy, class };
        for plot in whole.both() {
            plot.claim(whole.claim(10)).await?;
            plot.ready("data").await;
        }
        Ok(whole)
    }

    fn both(&self) -> [&Plot<'static>; 2] {
        [&self.from, &self.to]
    }

    fn claim(&self, objects: u32) -> Value {
        json!({ "s3ClassName": self.class, "subusers": ["one"], "quota": { "objects": objects, "buckets": 3 } })
    }

    async fn bucket(&self, name: &str) -> Result<()> {
        self.from.bucket(name, json!({})).await?;
        self.from.bucket_says(name, "True", "Provisioned").await;
        self.from.s3("admin").await?.put_object(name, "cat.jpg", "meow").await?;
        Ok(())
    }

    /// Its name, once the bucket `photos` is about to change hands, which it is until the rule goes.
    async fn begins(&self, more: Value) -> Result<(String, Rule)> {
        let link = Match::verb("put").resource("/admin/bucket").subresource("bucket-id");
        let held = self.proxy.on(link).before(Action::Hold).always();
        let name = migrate(&self.from, &self.to, &["photos"], more).await?;
        eventually("the bucket to be about to change hands", || async { Ok((held.fired() > 0).then_some(())) }).await;
        self.proxy.clear_log();
        Ok((name, held))
    }

    /// What somebody else has changed in Ceph since then, as far as it is about buckets.
    fn writes_about_buckets(&self) -> Vec<Seen> {
        let is_link = |seen: &Seen| seen.request.subresource.as_deref().unwrap_or_default().contains("bucket-id");
        let is_about_a_user = |seen: &Seen| seen.request.resource == "/admin/user";
        let mut log = self.proxy.log();
        log.retain(|seen| seen.request.write && !is_link(seen) && !is_about_a_user(seen));
        log
    }
}

#[tokio::test]
async fn while_a_bucket_changes_hands_no_s3bucket_of_the_two_is_worked_on_and_more_quota_is_given() -> Result<()> {
    let play = Move::new("held").await?;
    let (from, to) = (&play.from, &play.to);
    for bucket in ["photos", "stays"] {
        play.bucket(bucket).await?;
    }
    let (name, held) = play.begins(json!({ "deleteCurrentUser": false })).await?;
    for bucket in ["photos", "stays"] {
        from.bucket(bucket, json!({ "s3SubuserBinding": [{ "name": "one" }], "quota": { "objects": 5 } })).await?;
    }
    to.bucket("late", json!({})).await?;
    for (plot, bucket) in [(from, "photos"), (from, "stays"), (to, "late")] {
        let told = plot.bucket_says(bucket, "False", "Migrating").await.status.unwrap_or_default().reason;
        assert_eq!(told, Some(format!("UserMigration {name} is at work")));
    }
    // A migration may wait for that.
    for plot in play.both() {
        plot.claim(play.claim(20)).await?;
        plot.ready("data").await;
        let user = plot.user("data").await?.context("a user")?;
        assert_eq!((user.user_quota.max_objects, user.max_buckets), (Some(20), BucketLimit::AtMost(3)));
        let record = plot.users().get(&plot.record_name("data")).await?;
        assert_eq!(record.spec.held_by.map(|by| by.name), Some(name.clone()), "it goes on being held");
    }
    let others = play.writes_about_buckets();
    assert!(others.is_empty(), "somebody works against it: {others:#?}");
    assert!(to.gateway().bucket(to.user_id("data").tenant(), "late").await?.is_none());

    held.remove();
    ends(from, &name, MigrationPhase::Succeeded).await;
    for (plot, bucket) in [(from, "stays"), (to, "photos"), (to, "late")] {
        plot.bucket_says(bucket, "True", "Provisioned").await;
    }
    // With what was asked of it meanwhile.
    let moved = to.gateway().bucket(to.user_id("data").tenant(), "photos").await?.context("the bucket")?;
    assert_eq!((moved.owner, moved.quota.max_objects), (to.user_id("data"), Some(5)));
    assert!(to.s3("data-one").await?.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_claim_that_is_deleted_while_its_bucket_changes_hands_goes_when_that_is_over() -> Result<()> {
    let play = Move::new("leaves").await?;
    let (from, to) = (&play.from, &play.to);
    play.bucket("photos").await?;
    let (name, held) = play.begins(json!({})).await?;
    let user = from.user("data").await?;
    // People are told to delete its buckets first.
    from.seen_by_the_cluster()?.claims().delete("data", &DeleteParams::default()).await?;
    from.claim_says("data", "False", "Migrating").await;
    from.buckets().delete("photos", &DeleteParams::default()).await?;
    from.bucket_says("photos", "False", "Migrating").await;
    assert_eq!(from.user("data").await?, user, "neither suspended nor removed");
    let others = play.writes_about_buckets();
    assert!(others.is_empty(), "somebody works against it: {others:#?}");

    held.remove();
    ends(from, &name, MigrationPhase::Succeeded).await;
    gone(&from.claims(), "data").await;
    from.user_is_gone("data").await;
    let moved = to.gateway().bucket(to.user_id("data").tenant(), "photos").await?.context("the bucket")?;
    assert_eq!(moved.owner, to.user_id("data"));
    assert!(to.s3("admin").await?.get_object("photos", "cat.jpg").await?.is_some());
    Ok(())
}
