//! Processor time of this process and of the daemons it has started, which are all its direct children.

use std::{collections::BTreeMap, fs};

/// `USER_HZ`, the same on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// Processor time in ticks, by program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage(BTreeMap<String, u64>);

impl Usage {
    /// Since each of them began.
    pub(super) fn now() -> Self {
        let me = std::process::id();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let mut usage = Self::default();
        for pid in pids {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if let Some(process) = Process::parse(&stat).filter(|process| pid == me || process.parent == me) {
                *usage.0.entry(process.program).or_default() += process.ticks;
            }
        }
        usage
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let ticks = |program: &str| before.0.get(program).copied().unwrap_or_default();
        Self(self.0.iter().map(|(program, now)| (program.clone(), now.saturating_sub(ticks(program)))).collect())
    }

    pub(super) fn add(&mut self, more: &Self) {
        for (program, ticks) in &more.0 {
            *self.0.entry(program.clone()).or_default() += ticks;
        }
    }

    pub(super) fn ticks(&self) -> u64 {
        self.0.values().sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        seconds(self.ticks())
    }

    /// What one of the programs used.
    pub(super) fn seconds_of(&self, program: &str) -> f64 {
        seconds(self.0.get(program).copied().unwrap_or_default())
    }

    /// In milliseconds for each of so many things: all, and who used how much of it.
    pub(super) fn for_each(&self, things: f64) -> String {
        let each = |ticks: u64| format!("{:.1}", seconds(ticks) * 1000.0 / things);
        let programs = self.0.iter().filter(|(_, ticks)| **ticks > 0);
        let parts: Vec<_> = programs.map(|(program, ticks)| format!("{program} {}", each(*ticks))).collect();
        format!("{} ms ({})", each(self.ticks()), parts.join(", "))
    }
}

#[expect(clippy::cast_precision_loss, reason = "ticks far below 2^52")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS_A_SECOND
}

struct Process {
    program: String,
    parent: u32,
    ticks: u64,
}

impl Process {
    /// A line of `/proc/<pid>/stat`.
    fn parse(stat: &str) -> Option<Self> {
        // The name in parentheses may contain anything: what follows the last one is numbers.
        let (head, tail) = stat.rsplit_once(')')?;
        let fields: Vec<_> = tail.split_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(Self {
            program: head.split_once('(')?.1.to_owned(),
            parent: u32::try_from(number(1)?).ok()?,
            ticks: number(11)? + number(12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(of: &[(&str, u64)]) -> Usage {
        Usage(of.iter().map(|(program, ticks)| ((*program).to_owned(), *ticks)).collect())
    }

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_program_is_called() {
        let process = Process::parse("7 (odd) name) S 3 7 7 0 -1 4194560 1 0 0 0 25 17 0 0 20 0").unwrap();
        assert_eq!((process.program.as_str(), process.parent, process.ticks), ("odd) name", 3, 42));
        assert!(Process::parse("").is_none());
    }

    #[test]
    fn a_program_that_has_just_begun_counts_from_nothing() {
        let spent = usage(&[("etcd", 30), ("croft", 5)]).since(&usage(&[("etcd", 10)]));
        assert_eq!(spent, usage(&[("etcd", 20), ("croft", 5)]));
        assert_eq!(spent.for_each(10.0), "25.0 ms (croft 5.0, etcd 20.0)");
    }
}
