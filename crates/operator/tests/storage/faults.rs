//! A gateway that is down, an operator that is down while somebody takes a finalizer off.

use anyhow::Result;
use croft_testbed::Testbed;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::{
    plot::{Plot, gone},
    support::{PATIENCE, World},
};

#[tokio::test]
async fn an_outage_of_the_gateway_is_told_and_survived() -> Result<()> {
    let world = World::own(Testbed::kubernetes().with_ceph()).await?;
    let plot = Plot::on(&world.bed, "outage").await?;
    world.bed.ceph().stop_gateway();
    plot.claim(json!({})).await?;
    plot.claim_says("data", "False", "GatewayUnreachable").await;
    world.bed.ceph().start_gateway().await?;
    plot.ready("data").await;
    Ok(())
}

#[tokio::test]
async fn a_finalizer_taken_off_by_hand_leaves_no_user_behind() -> Result<()> {
    let World { bed, installed, operator } = World::own(Testbed::kubernetes().with_ceph()).await?;
    let plot = Plot::on(&bed, "stripped").await?;
    plot.claim(json!({})).await?;
    plot.ready("data").await;
    drop(operator);
    let none = json!({ "metadata": { "finalizers": null } });
    plot.claims().patch("data", &PatchParams::default(), &Patch::Merge(&none)).await?;
    plot.claims().delete("data", &DeleteParams::default()).await?;
    gone(&plot.claims(), "data").await;
    assert!(plot.user("data").await?.is_some());

    let operator = installed.start(&bed, "again", &installed.identity.kubeconfig, &[])?;
    operator.ready(PATIENCE).await?;
    plot.user_is_gone("data").await;
    gone(&plot.users(), &plot.record_name("data")).await;
    Ok(())
}
