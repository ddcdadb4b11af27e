//! The operator with everything installed and nothing to do.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use croft_testbed::{Operator, wait};

use super::{
    figures::{Bar, Figure},
    mib,
};
use crate::{terminal::seconds, world::World};

const MAX_RSS_MIB: f64 = 30.0;
const MAX_BINARY_MB: f64 = 20.0;
/// The memory is at rest when it has not grown for this long.
const REST: Duration = Duration::from_secs(5);
const REST_LIMIT: Duration = Duration::from_secs(60);
const READY_LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn measure(program: &Path) -> Result<Vec<Figure>> {
    let binary = std::fs::metadata(program).with_context(|| format!("reading {}", program.display()))?.len();
    println!("starting Kubernetes, Ceph, Velero and Croft on this machine ...");
    let world = World::start(program, &[]).await?;
    world.apply_class(&World::write_class()?).await?;
    let start_to_ready = measure_start(&world).await?;
    let rss = rss_at_rest(&world.operator).await?;
    Ok(vec![
        Figure::new("idle_rss", mib(rss), "MiB").bar(Bar::AtMost(MAX_RSS_MIB)),
        Figure::new("release_binary", megabytes(binary), "MB").bar(Bar::AtMost(MAX_BINARY_MB)),
        Figure::new("start_to_ready", start_to_ready.as_secs_f64(), "s"),
    ])
}

/// A second replica beside the first, so that the measured start meets a cluster that is already furnished.
async fn measure_start(world: &World) -> Result<Duration> {
    let clock = Instant::now();
    let replica = world.installed.start(&world.bed, "croft-1", &world.installed.identity.kubeconfig, &[])?;
    replica.ready(READY_LIMIT).await?;
    Ok(clock.elapsed())
}

/// Resident memory in KiB, once it has stopped growing.
pub(super) async fn rss_at_rest(operator: &Operator) -> Result<u64> {
    println!("waiting until the memory of croft has not grown for {}", seconds(REST));
    let mut highest = (operator.process.rss_kib(), Instant::now());
    wait::until("the operator's memory to settle", REST_LIMIT, || {
        let now = operator.process.rss_kib();
        if now > highest.0 {
            highest = (now, Instant::now());
        }
        let settled = (highest.1.elapsed() >= REST).then_some(now);
        async move { Ok(settled) }
    })
    .await
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}
