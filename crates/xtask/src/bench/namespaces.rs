//! Many namespaces of one class: the operator against the bare generator, turn by turn, each on a fresh API server.
//!
//! Both sides see the same acts of the administrator at the same moment (labels, deletions), so that both times contain
//! what these cost the API server. The operator's time ends when an independent watch has seen the last object and the last
//! status; the generator's ends with its last answer, while the same watch is open.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use croft_testbed::Operator;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams};

use super::{
    Bar, Figure,
    calls::Calls,
    cluster::{Cluster, in_flight},
    generator::{Generator, Owned},
    machine::{Load, cpu_seconds, load_average},
    mib,
    rest::rss_at_rest,
    witness::{Space, Witness},
};
use crate::terminal::dim;

const NAMESPACES: usize = 1000;
/// Pairs of runs; the ratio is that of the medians.
const ROUNDS: usize = 3;
const LATENCY_SAMPLES: usize = 50;
/// Namespaces labelled one after the other while a change rolls out.
const BUSY_SAMPLES: usize = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(300);

const MIN_RATIO: f64 = 0.90;
const MAX_REQUESTS: f64 = 12.3;
const MAX_START_SECONDS: f64 = 5.0;
const MAX_RSS_MIB: f64 = 64.0;
const MAX_P50_MS: f64 = 50.0;
const MAX_P99_MS: f64 = 250.0;
const MAX_BUSY_SECONDS: f64 = 1.0;

/// What is timed on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    /// All namespaces get the class.
    Onboard,
    /// One item of the class changes.
    Change,
    /// Somebody deletes all objects; they are made again.
    Refill,
    /// The class is deleted, and everything of it goes.
    Remove,
}

/// One timing.
struct Lap {
    took: Duration,
    /// Percent of the machine used by others meanwhile.
    others: u64,
}

type Laps = BTreeMap<Act, Vec<Lap>>;

pub(super) async fn measure(program: &Path) -> Result<Vec<Figure>> {
    let names = names("bench", count()?);
    let (mut floor, mut ours, mut figures) = (Laps::new(), Laps::new(), Vec::new());
    for round in 1..=ROUNDS {
        println!("round {round} of {ROUNDS}: {} namespaces; load average {}", names.len(), load_average());
        run_generator(program, &names, &mut floor).await?;
        figures = Box::pin(run_operator(program, &names, &mut ours, round == ROUNDS)).await?;
    }
    let ratios = [
        (Act::Onboard, "onboard_ratio"),
        (Act::Change, "change_ratio"),
        (Act::Refill, "refill_ratio"),
        (Act::Remove, "remove_ratio"),
    ];
    let mut all: Vec<_> = ratios.into_iter().map(|(act, name)| ratio(name, &floor[&act], &ours[&act])).collect();
    all.append(&mut figures);
    Ok(all)
}

fn count() -> Result<usize> {
    match std::env::var("BENCH_NAMESPACES") {
        Ok(text) => text.parse().context("BENCH_NAMESPACES must be a number"),
        Err(_) => Ok(NAMESPACES),
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{prefix}-{index:04}")).collect()
}

fn ratio(name: &'static str, floor: &[Lap], ours: &[Lap]) -> Figure {
    let text = |laps: &[Lap]| {
        let laps = laps.iter().map(|lap| format!("{:.2} s ({} % others)", lap.took.as_secs_f64(), lap.others));
        laps.collect::<Vec<_>>().join(", ")
    };
    let note = format!("generator {}; operator {}", text(floor), text(ours));
    Figure::new(name, median(floor) / median(ours), "of gen").bar(Bar::AtLeast(MIN_RATIO)).note(note)
}

fn median(laps: &[Lap]) -> f64 {
    let mut times: Vec<_> = laps.iter().map(|lap| lap.took.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    if times.len().is_multiple_of(2) { f64::midpoint(times[middle - 1], times[middle]) } else { times[middle] }
}

fn note_lap(laps: &mut Laps, act: Act, who: &str, took: Duration, load: &Load) {
    let others = load.others();
    println!("{}", dim(&format!("   {who} {act:?}: {:.2} s ({others} % others)", took.as_secs_f64())));
    laps.entry(act).or_default().push(Lap { took, others });
}

async fn run_generator(program: &Path, names: &[String], laps: &mut Laps) -> Result<()> {
    let cluster = Cluster::start(program).await?;
    cluster.make_namespaces(names).await?;
    let witness = Witness::start(&cluster.admin).await?;
    let namespaces = Api::<Namespace>::all(cluster.admin.clone()).list_metadata(&ListParams::default()).await?;
    let uids: BTreeMap<_, _> = namespaces.iter().map(|one| (one.name_any(), one.uid().unwrap_or_default())).collect();
    let uids = Arc::new(uids);
    let owned: Arc<Mutex<BTreeMap<String, Owned>>> = Arc::default();
    let generator = Generator::new(cluster.installed.identity.config(), "first", 1)?;

    let (load, clock) = (Load::start(), Instant::now());
    let onboarding = in_flight(names, {
        let (generator, owned) = (generator.clone(), owned.clone());
        move |name| {
            let (generator, owned, uids) = (generator.clone(), owned.clone(), uids.clone());
            async move {
                let made = generator.onboard(&name, &uids[&name]).await?;
                owned.lock().unwrap_or_else(PoisonError::into_inner).insert(name, made);
                Ok(())
            }
        }
    });
    let mut ended = clock;
    tokio::try_join!(cluster.label(names), async {
        onboarding.await?;
        ended = Instant::now();
        Ok(())
    })?;
    note_lap(laps, Act::Onboard, "generator", ended - clock, &load);
    witness.until(names, LIMIT, |space| space.is_furnished(1), Space::last_change).await?;

    let owned = Arc::new(std::mem::take(&mut *owned.lock().unwrap_or_else(PoisonError::into_inner)));
    let second = generator.at("second", 2)?;
    let (load, clock) = (Load::start(), Instant::now());
    in_flight(names, {
        let (generator, owned) = (second.clone(), owned.clone());
        move |name| {
            let (generator, owned) = (generator.clone(), owned.clone());
            async move { generator.change(&name, &owned[&name]).await }
        }
    })
    .await?;
    note_lap(laps, Act::Change, "generator", clock.elapsed(), &load);
    witness.until(names, LIMIT, |space| space.is_furnished(2), Space::last_change).await?;

    let (load, clock) = (Load::start(), Instant::now());
    let remade: Arc<Mutex<BTreeMap<String, Owned>>> = Arc::default();
    in_flight(names, {
        let (admin, remade) = (cluster.admin.clone(), remade.clone());
        move |name| {
            let (generator, owned) = (second.clone(), owned.clone());
            let (admin, remade) = (admin.clone(), remade.clone());
            async move {
                Cluster::delete_stamped(admin, &name).await?;
                let made = generator.refill(&name, owned[&name].binding()).await?;
                remade.lock().unwrap_or_else(PoisonError::into_inner).insert(name, made);
                Ok(())
            }
        }
    })
    .await?;
    note_lap(laps, Act::Refill, "generator", clock.elapsed(), &load);
    witness.until(names, LIMIT, |space| space.is_furnished(2), Space::last_change).await?;

    let owned = Arc::new(std::mem::take(&mut *remade.lock().unwrap_or_else(PoisonError::into_inner)));
    let (load, clock) = (Load::start(), Instant::now());
    in_flight(names, move |name| {
        let (generator, owned) = (generator.clone(), owned.clone());
        async move { generator.remove(&name, &owned[&name]).await }
    })
    .await?;
    note_lap(laps, Act::Remove, "generator", clock.elapsed(), &load);
    witness.until(names, LIMIT, Space::is_bare, Space::last_change).await?;
    Ok(())
}

async fn run_operator(program: &Path, names: &[String], laps: &mut Laps, last: bool) -> Result<Vec<Figure>> {
    let cluster = Cluster::start(program).await?;
    cluster.make_namespaces(names).await?;
    let operator = cluster.start_operator("croft-0").await?;
    let generation = cluster.apply_class("first").await?;
    cluster.class_is_settled().await?;
    let run = Run { witness: Witness::start(&cluster.admin).await?, cluster, names };

    let before = Calls::of(&operator).await?;
    run.onboard(&operator, generation, laps).await?;
    run.cluster.class_is_settled().await?;
    let calls = Calls::of(&operator).await?.since(&before);
    let generation = run.change(&operator, "second", laps).await?;
    run.refill(&operator, generation, laps).await?;
    if !last {
        run.remove(&operator, laps).await?;
        return Ok(Vec::new());
    }
    let mut figures = vec![
        Figure::new("onboard_requests", calls.requests() / as_f64(names.len()), "per ns")
            .bar(Bar::AtMost(MAX_REQUESTS))
            .note(calls.to_string()),
    ];
    run.cluster.class_is_settled().await?;
    figures.push(rss("rss_after_work", &operator).await?);
    let operator = run.restart(operator, &mut figures).await?;
    figures.push(rss("rss_after_restart", &operator).await?);
    run.idle_latency(generation, &mut figures).await?;
    run.busy_latency(&mut figures).await?;
    run.remove(&operator, laps).await?;
    Ok(figures)
}

async fn rss(name: &'static str, operator: &Operator) -> Result<Figure> {
    Ok(Figure::new(name, mib(rss_at_rest(operator).await?), "MiB").bar(Bar::AtMost(MAX_RSS_MIB)))
}

/// The operator's side.
struct Run<'a> {
    witness: Witness,
    cluster: Cluster,
    names: &'a [String],
}

impl Run<'_> {
    async fn onboard(&self, operator: &Operator, generation: i64, laps: &mut Laps) -> Result<()> {
        let before = Effort::of(operator).await?;
        let (load, clock) = (Load::start(), Instant::now());
        let wanted = |space: &Space| space.is_furnished(generation);
        let ((), ended) =
            tokio::try_join!(self.cluster.label(self.names), self.until(self.names, wanted, Space::last_change))?;
        note_lap(laps, Act::Onboard, "operator", ended - clock, &load);
        before.say(operator, self.names.len()).await?;
        Ok(())
    }

    async fn change(&self, operator: &Operator, value: &str, laps: &mut Laps) -> Result<i64> {
        let before = Effort::of(operator).await?;
        let (load, clock) = (Load::start(), Instant::now());
        let generation = self.cluster.apply_class(value).await?;
        let ended = self.until(self.names, |space| space.is_furnished(generation), Space::last_change).await?;
        note_lap(laps, Act::Change, "operator", ended - clock, &load);
        before.say(operator, self.names.len()).await?;
        Ok(generation)
    }

    async fn refill(&self, operator: &Operator, generation: i64, laps: &mut Laps) -> Result<()> {
        let old = self.witness.uids();
        let before = Effort::of(operator).await?;
        let (load, clock) = (Load::start(), Instant::now());
        let admin = self.cluster.admin.clone();
        let deleting = in_flight(self.names, move |name| {
            let admin = admin.clone();
            async move { Cluster::delete_stamped(admin, &name).await }
        });
        let wanted = |space: &Space| space.is_furnished(generation) && space.uids().is_disjoint(&old);
        let ((), ended) = tokio::try_join!(deleting, self.until(self.names, wanted, Space::last_change))?;
        note_lap(laps, Act::Refill, "operator", ended - clock, &load);
        before.say(operator, self.names.len()).await?;
        Ok(())
    }

    async fn remove(&self, operator: &Operator, laps: &mut Laps) -> Result<()> {
        let before = Effort::of(operator).await?;
        let (load, clock) = (Load::start(), Instant::now());
        self.cluster.delete_class().await?;
        let ended = self.until(self.names, Space::is_bare, Space::last_change).await?;
        note_lap(laps, Act::Remove, "operator", ended - clock, &load);
        before.say(operator, self.names.len()).await
    }

    /// They were for one measurement only.
    async fn let_go(&self, names: &[String]) -> Result<()> {
        self.cluster.unlabel(names).await?;
        self.until(names, Space::is_bare, Space::last_change).await?;
        Ok(())
    }

    /// Another process takes over a world in which nothing is to be done.
    async fn restart(&self, operator: Operator, figures: &mut Vec<Figure>) -> Result<Operator> {
        operator.process.terminate();
        operator.process.wait(QUIET);
        drop(operator);
        let events = self.witness.events();
        let clock = Instant::now();
        let operator = self.cluster.start_operator("croft-1").await?;
        let ready = clock.elapsed().as_secs_f64();
        tokio::time::sleep(QUIET).await;
        let settled = Calls::of(&operator).await?;
        println!("{}", dim(&format!("   restarted: {settled}")));
        tokio::time::sleep(QUIET).await;
        let rest = Calls::of(&operator).await?.since(&settled);
        println!("{}", dim(&format!("   at rest for {QUIET:?}: {rest}")));
        let seen = self.witness.events() - events;
        figures.extend([
            Figure::new("restart_writes", settled.writes(), "requests")
                .bar(Bar::AtMost(0.0))
                .note(format!("{seen} changes seen by the independent watch; {settled}")),
            Figure::new("restart_to_ready", ready, "s").bar(Bar::AtMost(MAX_START_SECONDS)),
            Figure::new("requests_at_rest", rest.requests(), "requests").bar(Bar::AtMost(0.0)).note(rest.to_string()),
        ]);
        Ok(operator)
    }

    /// From asking for the label to the last object, one namespace after the other on an idle cluster.
    async fn idle_latency(&self, generation: i64, figures: &mut Vec<Figure>) -> Result<()> {
        let names = names("late", LATENCY_SAMPLES);
        self.cluster.make_namespaces(&names).await?;
        let load = Load::start();
        let mut took = Vec::with_capacity(names.len());
        for name in &names {
            let name = std::slice::from_ref(name);
            let clock = Instant::now();
            self.cluster.label(name).await?;
            let ended = self.until(name, |space| space.is_furnished(generation), Space::last_object).await?;
            took.push((ended - clock).as_secs_f64() * 1000.0);
            self.cluster.class_is_settled().await?;
        }
        self.let_go(&names).await?;
        took.sort_by(f64::total_cmp);
        let note = format!("{} samples, {} % others", took.len(), load.others());
        figures.extend([
            Figure::new("label_to_last_object_p50", percentile(&took, 50), "ms")
                .bar(Bar::AtMost(MAX_P50_MS))
                .note(note.clone()),
            Figure::new("label_to_last_object_p99", percentile(&took, 99), "ms")
                .bar(Bar::AtMost(MAX_P99_MS))
                .note(note),
        ]);
        Ok(())
    }

    /// The same while a change of the class goes through all namespaces: the slowest of a few.
    async fn busy_latency(&self, figures: &mut Vec<Figure>) -> Result<()> {
        let names = names("busy", BUSY_SAMPLES);
        self.cluster.make_namespaces(&names).await?;
        let load = Load::start();
        let generation = self.cluster.apply_class("third").await?;
        let mut took = Vec::with_capacity(names.len());
        for name in &names {
            tokio::time::sleep(BUSY_PAUSE).await;
            let name = std::slice::from_ref(name);
            let clock = Instant::now();
            self.cluster.label(name).await?;
            let ended = self.until(name, Space::has_objects, Space::last_object).await?;
            took.push((ended - clock).as_secs_f64());
        }
        self.until(self.names, |space| space.is_furnished(generation), Space::last_change).await?;
        self.let_go(&names).await?;
        took.sort_by(f64::total_cmp);
        let note = format!("slowest of {}; {} % others", took.len(), load.others());
        figures.push(
            Figure::new("label_during_roll_out", percentile(&took, 100), "s")
                .bar(Bar::AtMost(MAX_BUSY_SECONDS))
                .note(note),
        );
        Ok(())
    }

    async fn until(
        &self,
        names: &[String],
        wanted: impl Fn(&Space) -> bool,
        when: fn(&Space) -> Option<Instant>,
    ) -> Result<Instant> {
        self.witness.until(names, LIMIT, wanted, when).await
    }
}

/// What an act cost the operator.
struct Effort {
    cpu: f64,
    calls: Calls,
}

impl Effort {
    async fn of(operator: &Operator) -> Result<Self> {
        Ok(Self { cpu: cpu_seconds(operator.process.pid()), calls: Calls::of(operator).await? })
    }

    /// Says what was used since.
    async fn say(&self, operator: &Operator, namespaces: usize) -> Result<()> {
        let now = Self::of(operator).await?;
        let used = now.cpu - self.cpu;
        let each = used * 1000.0 / as_f64(namespaces);
        let calls = now.calls.since(&self.calls);
        println!("{}", dim(&format!("   croft used {used:.2} s of processor time, {each:.2} ms a namespace; {calls}")));
        Ok(())
    }
}

/// Of sorted values, the nearest rank.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of namespaces")]
fn as_f64(number: usize) -> f64 {
    number as f64
}
