//! `make bench`: what the operator costs while nothing happens, and how close it comes to a bare generator under load.
//!
//! A bar that is missed is said, not hidden, and does not make the run fail: a figure depends on the machine and on what
//! else runs on it, which is why what others used of it stands next to each.

mod calls;
mod cluster;
mod generator;
mod laps;
mod machine;
mod model;
mod namespaces;
mod pairs;
mod plots;
mod rest;
mod single;
mod twin;
mod witness;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use crate::{
    terminal::{bold, green},
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
}

/// Measures the subjects named, or all.
pub(crate) fn bench(subjects: &[Subject]) -> Result<()> {
    if cfg!(debug_assertions) {
        return again_optimised(subjects);
    }
    let program = croft(Profile::Release)?;
    let subjects = if subjects.is_empty() { Subject::value_variants() } else { subjects };
    until_stopped(async {
        for subject in subjects {
            let figures = match subject {
                Subject::Rest => rest::measure(&program).await?,
                Subject::Namespaces => Box::pin(namespaces::measure(&program)).await?,
            };
            report(&figures)?;
        }
        Ok(())
    })
    .and_then(to_the_end)
}

/// The generator lives in this program, and must not be slower than what is compared with it.
fn again_optimised(subjects: &[Subject]) -> Result<()> {
    let names: Vec<_> = subjects.iter().filter_map(ValueEnum::to_possible_value).collect();
    let mut arguments = vec!["run", "--locked", "--profile", "bench-tools", "--package", "xtask", "--", "bench"];
    arguments.extend(names.iter().map(clap::builder::PossibleValue::get_name));
    cargo(&arguments)
}

/// One measured value.
struct Figure {
    name: &'static str,
    unit: &'static str,
    value: f64,
    bar: Option<Bar>,
    /// What the value was made from.
    note: String,
    /// The pairs of laps it is the median of.
    pairs: Vec<Value>,
}

#[derive(Clone, Copy)]
enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    fn is_reached_by(self, value: f64) -> bool {
        match self {
            Bar::AtMost(most) => value <= most,
            Bar::AtLeast(least) => value >= least,
        }
    }

    fn value(self) -> f64 {
        let (Bar::AtMost(value) | Bar::AtLeast(value)) = self;
        value
    }

    fn text(self) -> String {
        match self {
            Bar::AtMost(most) => format!("<= {most}"),
            Bar::AtLeast(least) => format!(">= {least}"),
        }
    }
}

impl Figure {
    fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, unit, value, bar: None, note: String::new(), pairs: Vec::new() }
    }

    fn bar(self, bar: Bar) -> Self {
        Self { bar: Some(bar), ..self }
    }

    fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn pairs(self, pairs: Vec<Value>) -> Self {
        Self { pairs, ..self }
    }

    fn is_reached(&self) -> bool {
        self.bar.is_none_or(|bar| bar.is_reached_by(self.value))
    }

    fn line(&self) -> String {
        let verdict = match self.bar {
            None => String::new(),
            Some(_) if self.is_reached() => green("reached"),
            Some(_) => bold("MISSED "),
        };
        let bar = self.bar.map(Bar::text).unwrap_or_default();
        format!("{:<28} {:>9.2} {:<8} {bar:<8} {verdict:<8} {}", self.name, self.value, self.unit, self.note)
    }

    fn json(&self) -> Value {
        let bar = self.bar.map(Bar::value);
        let mut figure = json!({
            "value": self.value, "unit": self.unit, "bar": bar, "reached": self.is_reached(), "note": self.note,
        });
        if !self.pairs.is_empty() {
            figure["pairs"] = json!(self.pairs);
        }
        figure
    }
}

/// Prints the figures and puts them into the file, beside those of other subjects.
fn report(figures: &[Figure]) -> Result<()> {
    println!();
    for figure in figures {
        println!("{}", figure.line().trim_end());
    }
    let path = target()?.join("bench.json");
    let before = std::fs::read(&path).unwrap_or_default();
    let mut all: Map<String, Value> = serde_json::from_slice(&before).unwrap_or_default();
    all.extend(figures.iter().map(|figure| (figure.name.to_owned(), figure.json())));
    std::fs::write(&path, serde_json::to_string_pretty(&all)? + "\n")
        .with_context(|| format!("writing {}", path.display()))?;
    println!("\nwritten to {}\n", path.display());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "numbers of namespaces")]
fn as_f64(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
