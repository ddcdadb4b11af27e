//! Generator and operator do the same work in turns, block by block, on the same API server.
//!
//! Both sides see the same acts of the administrator (labels, deletions, changes of a class) in their laps, and both laps begin
//! with the first request and end when an independent watch has seen the last object and the last status. What follows from a
//! change of a class follows, on both sides, once it is stored: nobody can know of it before. No lap begins before all the
//! work of the one before is done: the controllers' too.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use croft_api::namespaces::CLASS_LABEL;
use croft_testbed::Operator;

use super::{
    as_f64,
    calls::Calls,
    cluster::{Cluster, in_flight},
    figures::{Bar, Figure},
    machine::{Load, quiet},
    pairs::{Lap, Pair, Side, order, used},
    plots::Plots,
    witness::{Space, Witness},
};
use crate::terminal::dim;

const MIN_RATIO: f64 = 0.90;
pub(super) const LIMIT: Duration = Duration::from_secs(300);
/// What a class has in its first item before it is changed and after, and of which generation it then is.
pub(super) const BEFORE: &str = "first";
pub(super) const AFTER: &str = "second";
const GENERATION_BEFORE: i64 = 1;
pub(super) const GENERATION_AFTER: i64 = 2;

/// What is timed on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Act {
    /// All namespaces of the block get the class.
    Onboard,
    /// One item of the class changes.
    Change,
    /// Somebody deletes all objects; they are made again.
    Refill,
    /// The class is deleted, and everything of it goes.
    Remove,
}

impl Act {
    fn figure(self) -> &'static str {
        match self {
            Act::Onboard => "onboard_ratio",
            Act::Change => "change_ratio",
            Act::Refill => "refill_ratio",
            Act::Remove => "remove_ratio",
        }
    }
}

/// Namespaces that get their class, lose it and are measured together.
pub(super) struct Block {
    pub(super) index: usize,
    pub(super) class: String,
    /// Of the same contents: what the administrator does to the class he does to this one in the generator's lap.
    pub(super) unused_class: String,
    pub(super) names: Vec<String>,
    /// As many, of the generator.
    pub(super) plots: Vec<String>,
}

/// The ground both sides run on.
pub(super) struct Course {
    pub(super) witness: Witness,
    pub(super) cluster: Cluster,
    pub(super) plots: Arc<Plots>,
}

impl Course {
    /// Lets both sides do `act`; also tells what the operator asked of the API server.
    pub(super) async fn pair(&self, act: Act, block: &Block, operator: &Operator) -> Result<(Pair, Calls)> {
        let before = Calls::of(operator).await?;
        let [first, second] = order(block.index);
        let (one, other) = (self.lap(act, block, first).await?, self.lap(act, block, second).await?);
        quiet().await;
        let calls = Calls::of(operator).await?.since(&before);
        let (generator, operator) = if first == Side::Generator { (one, other) } else { (other, one) };
        let pair = Pair { generator, operator };
        println!("{}", dim(&format!("   {act:?} {}: {pair}", block.index + 1)));
        Ok((pair, calls))
    }

    async fn lap(&self, act: Act, block: &Block, side: Side) -> Result<Lap> {
        self.cluster.collect_garbage().await?;
        quiet().await;
        let (load, clock) = (Load::start(), Instant::now());
        let ended = match side {
            Side::Generator => self.generate(act, block).await?,
            Side::Operator => self.operate(act, block).await?,
        };
        self.plots.check()?;
        Ok(Lap { took: ended - clock, conditions: load.since() })
    }

    async fn generate(&self, act: Act, block: &Block) -> Result<Instant> {
        let names = &block.plots;
        match act {
            Act::Onboard => {
                self.plots.onboard(&self.cluster, names, &block.class).await?;
                self.until(names, |space| space.is_furnished(GENERATION_BEFORE)).await
            }
            Act::Change => {
                self.cluster.apply_class(&block.unused_class, AFTER).await?;
                self.plots.change(names).await?;
                self.until(names, |space| space.is_furnished(GENERATION_AFTER)).await
            }
            Act::Refill => {
                let old = self.witness.uids(names);
                self.plots.refill(&self.cluster, names).await?;
                self.until(names, |space| space.is_furnished(GENERATION_AFTER) && space.uids().is_disjoint(&old)).await
            }
            Act::Remove => {
                self.cluster.delete_class(&block.unused_class).await?;
                self.plots.remove(names).await?;
                self.until(names, Space::is_bare).await
            }
        }
    }

    async fn operate(&self, act: Act, block: &Block) -> Result<Instant> {
        let names = &block.names;
        match act {
            Act::Onboard => {
                self.cluster.label(names, CLASS_LABEL, Some(&block.class)).await?;
                self.until(names, |space| space.is_furnished(GENERATION_BEFORE)).await
            }
            Act::Change => {
                self.cluster.apply_class(&block.class, AFTER).await?;
                self.until(names, |space| space.is_furnished(GENERATION_AFTER)).await
            }
            Act::Refill => {
                let old = self.witness.uids(names);
                let admin = self.cluster.admin.clone();
                in_flight(names, move |name| {
                    let admin = admin.clone();
                    async move { Cluster::delete_items(admin, &name).await }
                })
                .await?;
                self.until(names, |space| space.is_furnished(GENERATION_AFTER) && space.uids().is_disjoint(&old)).await
            }
            Act::Remove => {
                self.cluster.delete_class(&block.class).await?;
                self.until(names, Space::is_bare).await
            }
        }
    }

    /// When the last of these namespaces came to be as `wanted`.
    pub(super) async fn until(&self, names: &[String], wanted: impl Fn(&Space) -> bool) -> Result<Instant> {
        self.witness.until(names, LIMIT, wanted, Space::last_change).await
    }
}

/// All pairs of laps, act by act.
#[derive(Default)]
pub(super) struct Results(BTreeMap<Act, Entry>);

#[derive(Default)]
struct Entry {
    pairs: Vec<Pair>,
    namespaces: usize,
    calls: Calls,
}

impl Results {
    pub(super) fn add(&mut self, act: Act, block: &Block, (pair, calls): (Pair, Calls)) {
        let entry = self.0.entry(act).or_default();
        entry.pairs.push(pair);
        entry.namespaces += block.names.len();
        entry.calls.add(&calls);
    }

    pub(super) fn ratios(&self) -> Vec<Figure> {
        self.0.iter().map(|(act, entry)| entry.ratio(act.figure())).collect()
    }

    /// Of the operator, a namespace.
    pub(super) fn requests(&self, act: Act) -> (f64, String) {
        self.0.get(&act).map_or((f64::NAN, String::new()), |entry| (entry.requests(), entry.calls.to_string()))
    }
}

impl Entry {
    fn ratio(&self, name: &'static str) -> Figure {
        let namespaces = as_f64(self.namespaces);
        let used = |side| used(&self.pairs, side, namespaces);
        Figure::of_pairs(name, self.pairs.clone())
            .bar(Bar::AtLeast(MIN_RATIO))
            .note(format!("processor time a namespace: generator {}", used(|pair| &pair.generator)))
            .note(format!("operator {}", used(|pair| &pair.operator)))
            .note(format!("croft sent {:.2} requests a namespace: {}", self.requests(), self.calls))
    }

    fn requests(&self) -> f64 {
        self.calls.requests() / as_f64(self.namespaces)
    }
}
