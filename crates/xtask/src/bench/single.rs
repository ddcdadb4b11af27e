//! The operator by itself, with all namespaces furnished: a restart, and how soon somebody gets what he asks for.

use std::time::{Duration, Instant};

use anyhow::Result;
use croft_api::namespaces::CLASS_LABEL;
use croft_testbed::Operator;
use futures::future::try_join_all;

use super::{
    calls::Calls,
    figures::{Bar, Figure},
    laps::{Block, Course, GENERATION_AFTER, LIMIT},
    machine::{Load, quiet},
    namespaces::names,
    witness::Space,
};
use crate::terminal::dim;

const LATENCY_SAMPLES: usize = 50;
/// Namespaces labelled one after the other while a change rolls out.
const BUSY_SAMPLES: usize = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(10);

/// The key of digests; everything else comes in lists.
const MAX_START_READS: f64 = 1.0;
const MAX_START_SECONDS: f64 = 5.0;
const MAX_P50_MS: f64 = 50.0;
const MAX_P99_MS: f64 = 250.0;
const MAX_BUSY_SECONDS: f64 = 1.0;

/// Another process takes over a world in which nothing is to be done.
pub(super) async fn restart(course: &Course, operator: Operator, figures: &mut Vec<Figure>) -> Result<Operator> {
    operator.process.terminate();
    operator.process.wait(QUIET);
    drop(operator);
    let events = course.witness.events();
    let clock = Instant::now();
    let operator = course.cluster.start_operator("croft-1").await?;
    let ready = clock.elapsed().as_secs_f64();
    tokio::time::sleep(QUIET).await;
    let settled = Calls::of(&operator).await?;
    println!("{}", dim(&format!("   restarted: {settled}")));
    tokio::time::sleep(QUIET).await;
    let rest = Calls::of(&operator).await?.since(&settled);
    println!("{}", dim(&format!("   at rest for {QUIET:?}: {rest}")));
    let seen = course.witness.events() - events;
    figures.extend([
        Figure::new("restart_writes", settled.writes(), "requests")
            .bar(Bar::AtMost(0.0))
            .note(format!("{seen} changes seen by the independent watch; {settled}")),
        Figure::new("restart_reads", settled.reads(), "requests").bar(Bar::AtMost(MAX_START_READS)),
        Figure::new("restart_to_ready", ready, "s").bar(Bar::AtMost(MAX_START_SECONDS)),
        Figure::new("requests_at_rest", rest.requests(), "requests").bar(Bar::AtMost(0.0)).note(rest.to_string()),
    ]);
    Ok(operator)
}

/// From asking for the label to the last object, one namespace after the other on an idle cluster.
pub(super) async fn idle_latency(course: &Course, blocks: &[Block], figures: &mut Vec<Figure>) -> Result<()> {
    let Some(block) = blocks.first() else { return Ok(()) };
    let names = names("late", LATENCY_SAMPLES);
    course.cluster.make_namespaces(&names).await?;
    quiet().await;
    let load = Load::start();
    let mut took = Vec::with_capacity(names.len());
    for name in &names {
        let furnished = |space: &Space| space.is_furnished(GENERATION_AFTER);
        took.push(time_to_last_object(course, name, &block.class, furnished).await?.as_secs_f64() * 1000.0);
        course.cluster.class_is_settled(&block.class).await?;
    }
    let_go(course, &names).await?;
    took.sort_by(f64::total_cmp);
    let note = format!("{} samples; {}", took.len(), load.since());
    figures.extend([
        Figure::new("label_to_last_object_p50", percentile(&took, 50), "ms")
            .bar(Bar::AtMost(MAX_P50_MS))
            .note(note.clone()),
        Figure::new("label_to_last_object_p99", percentile(&took, 99), "ms").bar(Bar::AtMost(MAX_P99_MS)).note(note),
    ]);
    Ok(())
}

/// The same while a change of every class goes through all namespaces: the slowest of a few.
pub(super) async fn busy_latency(course: &Course, blocks: &[Block], figures: &mut Vec<Figure>) -> Result<()> {
    let Some(block) = blocks.first() else { return Ok(()) };
    let names = names("busy", BUSY_SAMPLES);
    course.cluster.make_namespaces(&names).await?;
    quiet().await;
    let load = Load::start();
    let generations =
        try_join_all(blocks.iter().map(|block| course.cluster.apply_class(&block.class, "third"))).await?;
    let mut took = Vec::with_capacity(names.len());
    for name in &names {
        tokio::time::sleep(BUSY_PAUSE).await;
        took.push(time_to_last_object(course, name, &block.class, Space::has_objects).await?.as_secs_f64());
    }
    for (block, generation) in blocks.iter().zip(generations) {
        course.until(&block.names, |space| space.is_furnished(generation)).await?;
    }
    let_go(course, &names).await?;
    took.sort_by(f64::total_cmp);
    let note = format!("slowest of {}; {}", took.len(), load.since());
    figures.push(
        Figure::new("label_during_roll_out", percentile(&took, 100), "s").bar(Bar::AtMost(MAX_BUSY_SECONDS)).note(note),
    );
    Ok(())
}

async fn time_to_last_object(
    course: &Course,
    name: &str,
    class: &str,
    wanted: impl Fn(&Space) -> bool,
) -> Result<Duration> {
    let names = [name.to_owned()];
    let clock = Instant::now();
    course.cluster.label(&names, CLASS_LABEL, Some(class)).await?;
    let ended = course.witness.until(&names, LIMIT, wanted, Space::last_object).await?;
    Ok(ended - clock)
}

/// They were for one measurement only.
async fn let_go(course: &Course, names: &[String]) -> Result<()> {
    course.cluster.label(names, CLASS_LABEL, None).await?;
    course.until(names, Space::is_bare).await?;
    Ok(())
}

/// Of sorted values, the nearest rank.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "whole numbers")]
    fn a_percentile_is_one_of_the_values() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!([1, 50, 51, 99, 100].map(|percent| percentile(&sorted, percent)), [1.0, 2.0, 3.0, 4.0, 4.0]);
    }
}
