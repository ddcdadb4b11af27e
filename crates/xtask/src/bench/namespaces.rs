//! Many namespaces furnished by the operator: against the bare generator, and by itself.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use croft_api::namespaces::CLASS_LABEL;
use croft_testbed::Operator;

use super::{
    cluster::Cluster,
    figures::{Bar, Figure},
    generator::{Generator, Models},
    laps::{AFTER, Act, BEFORE, Block, Course, LIMIT, Results},
    mib,
    model::Model,
    plots::Plots,
    rest::rss_at_rest,
    single, whole,
    witness::{Space, Witness},
};

const NAMESPACES: usize = 1000;
/// Pairs of laps for every act: into so many blocks the namespaces are divided.
const PAIRS: usize = 10;
/// Kubernetes' garbage collector looks for new kinds every 30 seconds; until it has found the bindings, it asks for each of
/// them again and again.
const COLLECTOR_LOOKS: Duration = Duration::from_secs(35);

const MAX_REQUESTS: f64 = 12.3;
const MAX_RSS_MIB: f64 = 64.0;

pub(super) async fn measure(program: &Path) -> Result<Vec<Figure>> {
    let blocks = blocks(count()?);
    println!(
        "starting Kubernetes and Croft, making {} namespaces ...",
        blocks.iter().map(|one| one.names.len()).sum::<usize>()
    );
    let (course, operator) = Box::pin(prepare(program, &blocks)).await?;
    let mut results = Results::default();

    for block in &blocks {
        Box::pin(grow(&course, block, &operator, &mut results)).await?;
    }
    let mut figures = vec![requests(&results), rss("rss_after_work", &operator).await?];
    let operator = single::restart(&course, operator, &mut figures).await?;
    figures.push(rss("rss_after_restart", &operator).await?);
    figures.extend(whole::measure(&course.cluster.admin).await?);
    single::idle_latency(&course, &blocks, &mut figures).await?;
    single::busy_latency(&course, &blocks, &mut figures).await?;
    for block in &blocks {
        Box::pin(shrink(&course, block, &operator, &mut results)).await?;
    }

    let mut all = results.ratios();
    all.append(&mut figures);
    Ok(all)
}

pub(super) fn count() -> Result<usize> {
    match std::env::var("BENCH_NAMESPACES") {
        Ok(text) => text.parse().context("BENCH_NAMESPACES must be a number"),
        Err(_) => Ok(NAMESPACES),
    }
}

fn blocks(namespaces: usize) -> Vec<Block> {
    let (names, plots) = (names("bench", namespaces), names("plots", namespaces));
    let in_a_block = namespaces.div_ceil(PAIRS).max(1);
    let blocks = names.chunks(in_a_block).zip(plots.chunks(in_a_block)).enumerate();
    let block = |(index, (names, plots)): (usize, (&[String], &[String]))| Block {
        index,
        class: format!("block-{index}"),
        unused_class: format!("spare-{index}"),
        names: names.to_vec(),
        plots: plots.to_vec(),
    };
    blocks.map(block).collect()
}

pub(super) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}-{index:04}")).collect()
}

/// Everything in place and nothing furnished yet.
async fn prepare(program: &Path, blocks: &[Block]) -> Result<(Course, Operator)> {
    let clock = Instant::now();
    let cluster = Cluster::start(program).await?;
    let spaces = blocks.iter().flat_map(|block| block.names.iter().chain(&block.plots)).cloned().collect::<Vec<_>>();
    cluster.make_namespaces(&spaces).await?;
    let operator = cluster.start_operator("croft-0").await?;
    let witness = Witness::start(&cluster.admin).await?;
    let models = learn(&cluster, &witness).await?;
    let generator = Generator::new(cluster.installed.identity.config(), models).await?;
    let plots = Plots::new(&cluster, generator).await?;
    tokio::time::sleep(COLLECTOR_LOOKS.saturating_sub(clock.elapsed())).await;
    Ok((Course { witness, cluster, plots }, operator))
}

/// Lets the operator furnish one namespace, and looks at what it leaves behind.
async fn learn(cluster: &Cluster, witness: &Witness) -> Result<Models> {
    let (name, class) = ("namespace-of-the-model", "model");
    let names = [name.to_owned()];
    cluster.make_namespaces(&names).await?;
    let generation = cluster.apply_class(class, BEFORE).await?;
    cluster.label(&names, CLASS_LABEL, Some(class)).await?;
    witness.until(&names, LIMIT, |space| space.is_furnished(generation), Space::last_change).await?;
    let before = Model::of(&cluster.admin, name).await?;
    let generation = cluster.apply_class(class, AFTER).await?;
    witness.until(&names, LIMIT, |space| space.is_furnished(generation), Space::last_change).await?;
    let after = Model::of(&cluster.admin, name).await?;
    cluster.label(&names, CLASS_LABEL, None).await?;
    witness.until(&names, LIMIT, Space::is_bare, Space::last_change).await?;
    cluster.delete_class(class).await?;
    Ok(Models { before, after })
}

/// Everything but the removal.
async fn grow(course: &Course, block: &Block, operator: &Operator, results: &mut Results) -> Result<()> {
    for class in [&block.class, &block.unused_class] {
        course.cluster.apply_class(class, BEFORE).await?;
        course.cluster.class_is_settled(class).await?;
    }
    for act in [Act::Onboard, Act::Change, Act::Refill] {
        results.add(act, block, course.pair(act, block, operator).await?);
        course.cluster.class_is_settled(&block.class).await?;
    }
    Ok(())
}

async fn shrink(course: &Course, block: &Block, operator: &Operator, results: &mut Results) -> Result<()> {
    results.add(Act::Remove, block, course.pair(Act::Remove, block, operator).await?);
    Ok(())
}

fn requests(results: &Results) -> Figure {
    let (requests, note) = results.requests(Act::Onboard);
    Figure::new("onboard_requests", requests, "per ns").bar(Bar::AtMost(MAX_REQUESTS)).note(note)
}

async fn rss(name: &'static str, operator: &Operator) -> Result<Figure> {
    Ok(Figure::new(name, mib(rss_at_rest(operator).await?), "MiB").bar(Bar::AtMost(MAX_RSS_MIB)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_namespace_is_in_exactly_one_of_ten_blocks() {
        let blocks = blocks(1000);
        assert!(
            blocks.len() == PAIRS && blocks.iter().all(|block| block.names.len() == 100 && block.plots.len() == 100)
        );
        let all: std::collections::BTreeSet<_> = blocks.iter().flat_map(|block| &block.names).collect();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn a_few_namespaces_make_small_blocks() {
        assert_eq!(blocks(40).iter().map(|block| block.names.len()).collect::<Vec<_>>(), [4; 10]);
        assert_eq!(blocks(3).len(), 3);
    }
}
