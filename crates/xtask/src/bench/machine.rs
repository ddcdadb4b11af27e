//! What this machine is like while something is measured: how fast, how busy with others, and when it is quiet.

use std::{
    fmt, fs,
    hint::black_box,
    time::{Duration, Instant},
};

use croft_testbed::wait;
use serde_json::{Value, json};

use crate::terminal::dim;

/// `USER_HZ`, the same on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// Some 30 ms.
const FIXED_STEPS: u64 = 20_000_000;

/// Quiet is a machine on which we use at most so much processor time for so long: what daemons need to stay alive.
const QUIET_WINDOW: Duration = Duration::from_millis(250);
const QUIET_TICKS: u64 = 4;
const QUIET_LIMIT: Duration = Duration::from_secs(20);

/// How the machine was during a lap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conditions {
    /// What a fixed piece of work took right before.
    fixed_work: Duration,
    /// Percent of the machine that nobody used.
    idle: u64,
    /// Percent that others used.
    others: u64,
    /// Percent the host gave to other guests.
    stolen: u64,
}

impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fixed_work, idle, others, stolen } = self;
        write!(out, "fixed work {} ms, {idle} % idle, {others} % others, {stolen} % stolen", fixed_work.as_millis())
    }
}

impl Conditions {
    pub(super) fn json(&self) -> Value {
        json!({
            "fixedWorkMilliseconds": self.fixed_work.as_secs_f64() * 1000.0,
            "idlePercent": self.idle,
            "othersPercent": self.others,
            "stolenPercent": self.stolen,
        })
    }
}

/// Taken before a measurement, asked after it.
pub(super) struct Load {
    fixed_work: Duration,
    before: Ticks,
}

impl Load {
    pub(super) fn start() -> Self {
        Self { fixed_work: time_fixed_work(), before: Ticks::now() }
    }

    pub(super) fn since(&self) -> Conditions {
        let spent = Ticks::now().since(self.before);
        let all = spent.all.max(1);
        Conditions {
            fixed_work: self.fixed_work,
            idle: spent.idle * 100 / all,
            others: all.saturating_sub(spent.idle + spent.stolen + spent.ours) * 100 / all,
            stolen: spent.stolen * 100 / all,
        }
    }
}

/// Work of one processor that is always the same and touches no memory.
fn time_fixed_work() -> Duration {
    let clock = Instant::now();
    let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..FIXED_STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
    clock.elapsed()
}

/// Waits until nothing of ours has work left: Kubernetes' controllers and the operator go on for a while after the last
/// object is there.
pub(super) async fn quiet() {
    let quiet = wait::until_true("the machine to be quiet", QUIET_LIMIT, || async {
        let before = ours();
        tokio::time::sleep(QUIET_WINDOW).await;
        Ok(ours().saturating_sub(before) <= QUIET_TICKS)
    });
    if quiet.await.is_err() {
        println!("{}", dim(&format!("   not quiet after {QUIET_LIMIT:?}, going on all the same")));
    }
}

/// Processor time of one process.
pub(super) fn cpu_seconds(pid: u32) -> f64 {
    seconds(process(pid).map_or(0, |process| process.ticks))
}

/// Processor time of this process and all daemons.
pub(super) fn our_cpu_seconds() -> f64 {
    seconds(ours())
}

#[expect(clippy::cast_precision_loss, reason = "ticks far below 2^52")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS_A_SECOND
}

/// Processor time since some start.
#[derive(Clone, Copy, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
    ours: u64,
}

impl Ticks {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self { ours: ours(), ..Self::of_machine(stat.lines().next().unwrap_or_default()) }
    }

    fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            idle: self.idle.saturating_sub(before.idle),
            stolen: self.stolen.saturating_sub(before.stolen),
            ours: self.ours.saturating_sub(before.ours),
        }
    }

    /// `cpu` and then user, nice, system, idle, iowait, irq, softirq, steal; guest times are in user already.
    fn of_machine(line: &str) -> Self {
        let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let sum = |from: usize, count: usize| fields.iter().skip(from).take(count).sum();
        Self { all: sum(0, 8), idle: sum(3, 2), stolen: sum(7, 1), ours: 0 }
    }
}

/// This process and the daemons it has started, which are all its direct children.
fn ours() -> u64 {
    let me = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| process(pid).filter(|process| pid == me || process.parent == me)).map(|one| one.ticks).sum()
}

struct Process {
    parent: u32,
    ticks: u64,
}

fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything: what follows the last one is numbers.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Process { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_and_idle_time_are_told_apart() {
        let ticks = Ticks::of_machine("cpu  100 20 30 400 50 6 7 80 9 0");
        assert_eq!((ticks.all, ticks.idle, ticks.stolen), (693, 450, 80));
    }
}
