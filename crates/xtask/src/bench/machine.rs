//! How much of this machine others used while something was measured.

use std::fs;

/// Processor time since some start, in ticks.
#[derive(Clone, Copy, Default)]
struct Ticks {
    all: u64,
    idle: u64,
    ours: u64,
}

/// Taken before a measurement, asked after it.
pub(super) struct Load {
    before: Ticks,
}

impl Load {
    pub(super) fn start() -> Self {
        Self { before: ticks() }
    }

    /// Percent of the machine that neither idled nor worked for us.
    pub(super) fn others(&self) -> u64 {
        let now = ticks();
        let all = now.all.saturating_sub(self.before.all).max(1);
        let idle = now.idle.saturating_sub(self.before.idle);
        let ours = now.ours.saturating_sub(self.before.ours);
        all.saturating_sub(idle + ours) * 100 / all
    }
}

/// The load averages as the kernel prints them.
pub(super) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Processor time of one process in seconds.
#[expect(clippy::cast_precision_loss, reason = "ticks far below 2^52")]
pub(super) fn cpu_seconds(pid: u32) -> f64 {
    process(pid).map_or(0, |process| process.ticks) as f64 / TICKS_A_SECOND
}

/// `USER_HZ`, the same on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

fn ticks() -> Ticks {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all: Vec<u64> =
        stat.lines().next().unwrap_or_default().split_whitespace().filter_map(|n| n.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal: guest times are in user already.
    let busy_and_idle = all.iter().take(8).sum();
    let idle = all.iter().skip(3).take(2).sum();
    Ticks { all: busy_and_idle, idle, ours: ours() }
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
