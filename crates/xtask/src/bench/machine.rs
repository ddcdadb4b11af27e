//! What this machine is like while something is measured: how fast, how busy with others, and when it is quiet.

use std::{
    fmt, fs,
    hint::black_box,
    time::{Duration, Instant},
};

use croft_testbed::wait;
use serde_json::{Value, json};

use super::processes::Usage;
use crate::terminal::dim;

/// Some 30 ms.
const FIXED_STEPS: u64 = 20_000_000;

/// Quiet is a machine on which we use at most so much processor time for so long: what daemons need to stay alive.
const QUIET_WINDOW: Duration = Duration::from_millis(250);
const QUIET_TICKS: u64 = 4;
const QUIET_LIMIT: Duration = Duration::from_secs(20);

/// How the machine was during a lap.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// What a fixed piece of work took right before.
    fixed_work: Duration,
    /// Percent of the machine that nobody used.
    idle: u64,
    /// Percent that others used.
    others: u64,
    /// Percent the host gave to other guests.
    stolen: u64,
    /// What we used ourselves.
    pub(super) ours: Usage,
}

impl fmt::Display for Conditions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fixed_work, idle, others, stolen, .. } = self;
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
        let spent = Ticks::now().since(&self.before);
        let all = spent.all.max(1);
        Conditions {
            fixed_work: self.fixed_work,
            idle: spent.idle * 100 / all,
            others: all.saturating_sub(spent.idle + spent.stolen + spent.ours.ticks()) * 100 / all,
            stolen: spent.stolen * 100 / all,
            ours: spent.ours,
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
        let before = Usage::now();
        tokio::time::sleep(QUIET_WINDOW).await;
        Ok(Usage::now().since(&before).ticks() <= QUIET_TICKS)
    });
    if quiet.await.is_err() {
        println!("{}", dim(&format!("   not quiet after {QUIET_LIMIT:?}, going on all the same")));
    }
}

/// Processor time since some start.
#[derive(Clone, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
    ours: Usage,
}

impl Ticks {
    fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self { ours: Usage::now(), ..Self::of_machine(stat.lines().next().unwrap_or_default()) }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            idle: self.idle.saturating_sub(before.idle),
            stolen: self.stolen.saturating_sub(before.stolen),
            ours: self.ours.since(&before.ours),
        }
    }

    /// `cpu` and then user, nice, system, idle, iowait, irq, softirq, steal; guest times are in user already.
    fn of_machine(line: &str) -> Self {
        let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let sum = |from: usize, count: usize| fields.iter().skip(from).take(count).sum();
        Self { all: sum(0, 8), idle: sum(3, 2), stolen: sum(7, 1), ours: Usage::default() }
    }
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
