//! How far a plan is, on standard error: many namespaces take a while.

use std::{
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

/// Nobody wants to hear of what is over in a moment, nor more often than this.
const EVERY: Duration = Duration::from_secs(1);

pub(super) struct Progress {
    done: usize,
    all: usize,
    told: Instant,
    /// The length of the line that stands there and is to be written over.
    standing: usize,
}

impl Progress {
    pub(super) fn through(all: usize) -> Self {
        Self { done: 0, all, told: Instant::now(), standing: 0 }
    }

    /// One namespace more.
    pub(super) fn step(&mut self) {
        self.done += 1;
        if self.told.elapsed() < EVERY {
            return;
        }
        self.told = Instant::now();
        let line = format!("planned {} of {} namespaces", self.done, self.all);
        if stderr().is_terminal() {
            eprint!("\r{line}");
            self.standing = line.len();
        } else {
            eprintln!("{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.standing > 0 {
            eprint!("\r{:1$}\r", "", self.standing);
        }
    }
}
