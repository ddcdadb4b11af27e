//! All fences stand while no operator runs.

use std::time::Duration;

use anyhow::{Context, Result};
use croft_testbed::Testbed;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};

use super::{Plot, bindings, choice, marks, metadata, protection};
use crate::support::{World, eventually};

#[tokio::test]
async fn the_fences_stand_while_the_operator_is_down_and_nothing_hangs_on_it() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let plot = protection::protected_plot(&world.bed, "unattended").await?;
    let free = Plot::new(&world.bed, "unattended-free").await?;
    world.operator.process.kill();
    world.operator.process.wait(Duration::from_secs(10)).context("the operator is dead")?;

    choice::assert_no_way(&free, Some("unattended")).await?;
    choice::assert_no_way(&plot, Some("unattended-other")).await?;
    choice::assert_no_way(&plot, None).await?;
    bindings::assert_no_way(&plot).await?;
    protection::assert_no_way(&plot, "unattended", &plot.owner).await?;
    marks::assert_no_way(&plot).await;
    metadata::assert_no_way(&plot).await;

    let namespaces: Api<Namespace> = Api::all(world.client());
    namespaces.delete(&plot.namespace, &DeleteParams::default()).await?;
    eventually("the namespace to be gone", || async {
        Ok(namespaces.get_opt(&plot.namespace).await?.is_none().then_some(()))
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn the_operator_warns_of_a_system_namespace_that_the_installed_fence_does_not_know() -> Result<()> {
    let settings = "namespaces: {systemNamespaces: [default, monitoring]}";
    let world = World::own_with(Testbed::kubernetes(), settings).await?;
    eventually("the warning", || async {
        let log = world.operator.process.log();
        let warning = log.lines().find(|line| line.contains("--system-namespace") && line.contains("monitoring"));
        Ok(warning.map(str::to_owned))
    })
    .await;
    Ok(())
}
