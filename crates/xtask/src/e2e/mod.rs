//! `make e2e`: the operator as pods on a real node, installed as administrators install it.
//!
//! This program runs twice: outside, where it builds what is needed, and, with a chapter to tell, in an enclosure with
//! a network, mounts and process numbers of its own.

mod cluster;
mod gone;
mod install;
pub(crate) mod matrix;
mod replicas;
mod steady;
mod story;

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;
use croft_testbed::{
    Testbed,
    node::enclosure,
    parts::{NodeParts, Parts, helm},
};
use futures::FutureExt;

use self::cluster::Cluster;
use crate::{
    image,
    story::Story,
    terminal::{bold, timed},
    tools::Profile,
    world::{to_the_end, until_stopped},
};

/// What can be asked for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Chapter {
    /// One tenant, from a label to restored volumes
    Story,
    /// Replicas come and go while others write
    NeverDown,
    /// Nothing is left of a run that was killed
    Gone,
    /// A node with one pod, until somebody ends it
    #[value(hide = true)]
    Idle,
}

pub(crate) fn e2e(chapter: Option<Chapter>, profile: Profile) -> Result<()> {
    if enclosure::is_inside() {
        return inside(chapter.unwrap_or(Chapter::Story));
    }
    enclosure::ensure_possible()?;
    timed("the parts of a node are here", ensure_parts)?;
    if !matches!(chapter, Some(Chapter::Gone | Chapter::Idle)) {
        timed("image", || image::build(profile))?;
    }
    match chapter {
        Some(chapter) => run(chapter),
        None => [Chapter::Story, Chapter::NeverDown, Chapter::Gone].into_iter().try_for_each(run),
    }
}

fn ensure_parts() -> Result<()> {
    Parts::ensure(&Testbed::kubernetes().with_velero())?;
    NodeParts::ensure()?;
    helm().map(drop)
}

/// In an enclosure of its own, to its end.
fn run(chapter: Chapter) -> Result<()> {
    if chapter == Chapter::Gone {
        return gone::tell();
    }
    let word = chapter.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    ensure!(enclosure::run_inside(&["e2e", &word])?.success(), "{word} did not come to its end: see above");
    Ok(())
}

fn inside(chapter: Chapter) -> Result<()> {
    let ended = until_stopped(async {
        match chapter {
            Chapter::Idle => gone::idle().await,
            // Boxed: the future of everything is too big to be carried around.
            told => tell(told).boxed().await,
        }
    })?;
    to_the_end(ended)
}

async fn tell(chapter: Chapter) -> Result<()> {
    let mut story = Story::new();
    story
        .begin("Start a real node on this machine: kubelet, containerd, scheduler and kube-proxy, and Ceph beside it.");
    let cluster = Cluster::start().await?;
    cluster.print_timings();
    if let Err(error) = cluster.tell(chapter, &mut story).boxed().await {
        let logs = cluster.keep_logs().await?;
        return Err(anyhow!("step {}: {error:#}\nlogs are in {}", story.step(), logs.display()));
    }
    story.end();
    println!("\n{} in {}.", bold("The whole story"), story.told_in());
    Ok(())
}
