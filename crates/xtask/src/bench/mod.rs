//! `make bench`: what the operator costs while nothing happens, and how close it comes to a bare generator under load.
//!
//! Figures depend on the machine and on what else runs on it, which is why its state stands next to each.

mod backup;
mod calls;
mod claims;
mod cluster;
mod figures;
mod generator;
mod laps;
mod machine;
mod model;
mod namespaces;
mod news;
mod pairs;
mod plan;
mod plots;
mod processes;
mod rest;
mod single;
mod storage;
mod twin;
mod whole;
mod witness;

use anyhow::Result;
use clap::ValueEnum;

use crate::{
    tools::{Profile, cargo, croft, target},
    world::{to_the_end, until_stopped},
};

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Memory and start of the operator with nothing to do, size of the program
    Rest,
    /// 1,000 namespaces of a class, against a bare generator (`BENCH_NAMESPACES` changes the number)
    Namespaces,
    /// `croft plan` of a change of everything in 1,000 namespaces (`BENCH_NAMESPACES` changes the number)
    Plan,
    /// 1,000 claims on a gateway, against bare calls to it
    Storage,
    /// 1,000 backups, against a generator that makes the same Velero Backups
    Backup,
}

/// Measures the subjects named, or all; fails if a bar is missed.
pub(crate) fn bench(subjects: &[Subject]) -> Result<()> {
    if cfg!(debug_assertions) {
        return again_optimised(subjects);
    }
    let program = croft(Profile::Release)?;
    let subjects = if subjects.is_empty() { Subject::value_variants() } else { subjects };
    let path = target()?.join("bench.json");
    let mut figures = Vec::new();
    until_stopped(async {
        for subject in subjects {
            let measured = match subject {
                Subject::Rest => rest::measure(&program).await?,
                Subject::Namespaces => Box::pin(namespaces::measure(&program)).await?,
                Subject::Plan => Box::pin(plan::measure(&program)).await?,
                Subject::Storage => Box::pin(storage::measure(&program)).await?,
                Subject::Backup => Box::pin(backup::measure(&program)).await?,
            };
            // At once: minutes of measuring are not lost to the next subject's failure.
            figures::print(&measured);
            figures::write(&measured, &path)?;
            figures.extend(measured);
        }
        Ok(())
    })
    .and_then(to_the_end)?;
    println!("\nwritten to {}", path.display());
    figures::ensure_reached(&figures)
}

/// The generator lives in this program, and must not be slower than what is compared with it.
fn again_optimised(subjects: &[Subject]) -> Result<()> {
    let names: Vec<_> = subjects.iter().filter_map(ValueEnum::to_possible_value).collect();
    let mut arguments = vec!["run", "--locked", "--profile", "bench-tools", "--package", "xtask", "--", "bench"];
    arguments.extend(names.iter().map(clap::builder::PossibleValue::get_name));
    cargo(&arguments)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of namespaces")]
fn as_f64(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
