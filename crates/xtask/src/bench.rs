//! `make bench`: what the operator costs while nothing happens.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use croft_testbed::wait;
use serde_json::json;

use crate::{
    terminal::{bold, green, seconds},
    tools::{Profile, croft, target},
    world::{World, to_the_end, until_stopped},
};

const MAX_RSS_MIB: f64 = 30.0;
const MAX_BINARY_MB: f64 = 20.0;
/// The memory is at rest when it has not grown for this long.
const REST: Duration = Duration::from_secs(5);
const REST_LIMIT: Duration = Duration::from_secs(60);
const READY_LIMIT: Duration = Duration::from_secs(30);

pub(crate) fn bench() -> Result<()> {
    let program = croft(Profile::Release)?;
    let binary = std::fs::metadata(&program).with_context(|| format!("reading {}", program.display()))?.len();
    until_stopped(async {
        println!("starting Kubernetes, Ceph, Velero and Croft on this machine ...");
        let world = World::start(&program, &[]).await?;
        world.apply_class(&world.write_class()?).await?;
        let start_to_ready = measure_start(&world).await?;
        let rss = rss_at_rest(&world).await?;
        report(&[
            Figure { name: "idle_rss", unit: "MiB", value: mib(rss), bar: Some(MAX_RSS_MIB) },
            Figure { name: "release_binary", unit: "MB", value: megabytes(binary), bar: Some(MAX_BINARY_MB) },
            Figure { name: "start_to_ready", unit: "s", value: start_to_ready.as_secs_f64(), bar: None },
        ])
    })
    .and_then(to_the_end)
}

/// A second replica beside the first, so that the measured start meets a cluster that is already furnished.
async fn measure_start(world: &World) -> Result<Duration> {
    let clock = Instant::now();
    let replica = world.installed.start(&world.bed, "croft-1", &world.installed.identity.kubeconfig, &[])?;
    replica.ready(READY_LIMIT).await?;
    Ok(clock.elapsed())
}

async fn rss_at_rest(world: &World) -> Result<u64> {
    let process = &world.operator.process;
    println!("waiting until the memory of croft has not grown for {}", seconds(REST));
    let mut highest = (process.rss_kib(), Instant::now());
    wait::until("the operator's memory to settle", REST_LIMIT, || {
        let now = process.rss_kib();
        if now > highest.0 {
            highest = (now, Instant::now());
        }
        let settled = (highest.1.elapsed() >= REST).then_some(now);
        async move { Ok(settled) }
    })
    .await
}

struct Figure {
    name: &'static str,
    unit: &'static str,
    value: f64,
    bar: Option<f64>,
}

impl Figure {
    fn is_met(&self) -> bool {
        self.bar.is_none_or(|bar| self.value <= bar)
    }

    fn verdict(&self) -> String {
        match self.bar {
            Some(bar) if self.is_met() => format!("bar {bar} {}: {}", self.unit, green("reached")),
            Some(bar) => format!("bar {bar} {}: {}", self.unit, bold("missed")),
            None => String::new(),
        }
    }
}

fn report(figures: &[Figure]) -> Result<()> {
    println!();
    for figure in figures {
        println!("{:<16} {:>7.2} {:<4} {}", figure.name, figure.value, figure.unit, figure.verdict());
    }
    let json: serde_json::Map<_, _> = figures
        .iter()
        .map(|figure| {
            let measured =
                json!({ "value": figure.value, "unit": figure.unit, "bar": figure.bar, "met": figure.is_met() });
            (figure.name.to_owned(), measured)
        })
        .collect();
    let path = target()?.join("bench.json");
    std::fs::write(&path, serde_json::to_string_pretty(&json)? + "\n")
        .with_context(|| format!("writing {}", path.display()))?;
    println!("\nwritten to {}", path.display());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1_000_000.0
}
