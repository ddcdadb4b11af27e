//! What others change in Ceph, which tells nobody, is found by looking at everybody from time to time.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use arc_swap::ArcSwap;
use croft::{
    cli::ClusterOptions,
    client,
    engine::{
        Clock, EngineBuilder, Writer,
        events::Events,
        lease::{Election, Leadership},
    },
    parts::{self, Ground},
    settings::{Settings, SharedSettings},
    telemetry::metrics::Metrics,
};
use croft_core::lease::Timing;
use croft_rgw::{Access, BucketLimit, Quota, UserChange};
use croft_testbed::{Testbed, product::Installed};
use serde_json::json;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    input::open_the_door,
    plot::Plot,
    support::{World, eventually},
};

/// Everybody is looked at in this time instead of ten minutes.
const PACE: Duration = Duration::from_secs(3);

/// Storage as `croft run` starts it, with the operator's own rights, but without a door.
async fn restless(installed: &Installed, stop: &CancellationToken) -> Result<()> {
    let kubeconfig = Some(installed.identity.kubeconfig.clone());
    let cluster = ClusterOptions { kubeconfig, ..ClusterOptions::default() };
    let (metrics, clock) = (Arc::<Metrics>::default(), Clock::start());
    let client = client::connect(client::config(&cluster).await?, metrics.clone())?;
    let mut engine = EngineBuilder::new(client.clone(), metrics, clock);
    engine.resync_in(PACE);
    let settings: SharedSettings = Arc::new(ArcSwap::from_pointee(Settings::default()));
    let (namespace, identity) = (installed.namespace.clone(), "restless".to_owned());
    let ground = Ground { writer: Writer::new(client.clone()), settings, operator_namespace: namespace.clone() };
    let storage = parts::PARTS.iter().find(|part| part.part.name() == "storage").context("a part")?;
    (storage.install)(&mut engine, &ground);
    let (leadership, surroundings) = (Leadership::new(clock), engine.surroundings());
    let events = Events::new(client.clone(), &identity, clock);
    engine.start(&events, &leadership, 8, &TaskTracker::new(), stop);
    let (name, timing) = ("croft".to_owned(), Timing::default());
    let election = Election { client, namespace, name, identity, timing, clock, leadership };
    tokio::spawn(election.run(surroundings, stop.clone()));
    Ok(())
}

#[tokio::test]
async fn what_others_change_in_ceph_is_put_right_or_told_although_nobody_touches_kubernetes() -> Result<()> {
    let (bed, installed) = Box::pin(World::installed(Testbed::kubernetes().with_ceph())).await?;
    open_the_door(bed.admin().client.clone()).await?;
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    restless(&installed, &stop).await?;
    let plot = Plot::on(&bed, "paced").await?;
    plot.claim(json!({ "subusers": ["one"], "quota": { "size": "10000", "objects": 500, "buckets": 5 } })).await?;
    let set = json!({ "s3SubuserBinding": [{ "name": "one" }], "quota": { "objects": 15 }, "versioning": "enabled" });
    plot.bucket("photos", set).await?;
    plot.bucket("drafts", json!({})).await?;
    plot.ready("data").await;
    for bucket in ["photos", "drafts"] {
        plot.bucket_says(bucket, "True", "Provisioned").await;
    }
    let (gateway, id, s3) = (plot.gateway(), plot.user_id("data"), plot.s3("admin").await?);
    let photos = async || {
        let quota = gateway.bucket(id.tenant(), "photos").await?.context("a bucket")?.quota;
        anyhow::Ok((quota, s3.bucket_policy("photos").await?, s3.bucket_versioning("photos").await?))
    };
    let (user, bucket) = (gateway.user(&id).await?, photos().await?);

    gateway.set_user_quota(&id, Quota { enabled: false, max_size: Some(1), max_objects: None }).await?;
    gateway.set_subuser_access(&id, "readonly", Access::Full).await?;
    let unlimited = UserChange { max_buckets: Some(BucketLimit::Unlimited), ..UserChange::default() };
    gateway.modify_user(&id, &unlimited).await?;
    eventually("the user to be as it was", || async {
        let found = gateway.user(&id).await?;
        anyhow::ensure!(found == user, "it is {found:?}");
        Ok(Some(()))
    })
    .await;

    gateway.set_bucket_quota(&id, "photos", Quota::default()).await?;
    s3.delete_bucket_policy("photos").await?;
    s3.set_bucket_versioning("photos", false).await?;
    eventually("the bucket to be as it was", || async {
        let found = photos().await?;
        anyhow::ensure!(found == bucket, "it is {found:?}");
        Ok(Some(()))
    })
    .await;

    s3.delete_bucket("drafts").await?;
    plot.bucket_says("drafts", "False", "BucketLost").await;
    assert!(gateway.bucket(id.tenant(), "drafts").await?.is_none(), "an empty one in its place would tell nobody");
    Ok(())
}
