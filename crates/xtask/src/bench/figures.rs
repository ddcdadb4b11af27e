//! Measured values, their bars, and the three ways they are told: a table, a file, and a sentence about what is missed.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::pairs::{Pair, Spread};
use crate::terminal::{bold, dim, green};

/// One measured value.
pub(super) struct Figure {
    name: &'static str,
    unit: &'static str,
    value: f64,
    bar: Option<Bar>,
    /// What the value was made from.
    notes: Vec<String>,
    /// The pairs of laps it is the median of.
    pairs: Vec<Pair>,
}

#[derive(Clone, Copy)]
pub(super) enum Bar {
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

    fn sign(self) -> &'static str {
        match self {
            Bar::AtMost(_) => "<=",
            Bar::AtLeast(_) => ">=",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Bar::AtMost(_) => "at most",
            Bar::AtLeast(_) => "at least",
        }
    }
}

impl Figure {
    pub(super) fn new(name: &'static str, value: f64, unit: &'static str) -> Self {
        Self { name, unit, value, bar: None, notes: Vec::new(), pairs: Vec::new() }
    }

    /// The operator's speed in terms of the generator's: the median of the pairs' ratios.
    pub(super) fn of_pairs(name: &'static str, pairs: Vec<Pair>) -> Self {
        let spread = Spread::of(pairs.iter().map(Pair::ratio));
        let notes = vec![format!("median of {} pairs, {spread}", pairs.len())];
        Self { notes, pairs, ..Self::new(name, spread.median, "of the generator's speed") }
    }

    pub(super) fn bar(self, bar: Bar) -> Self {
        Self { bar: Some(bar), ..self }
    }

    /// One more thing the value was made from.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    fn is_reached(&self) -> bool {
        self.bar.is_none_or(|bar| bar.is_reached_by(self.value))
    }

    fn line(&self) -> String {
        let bar = self.bar.map(|bar| format!("{} {:<5}", bar.sign(), bar.value())).unwrap_or_default();
        let verdict = match self.bar {
            None => String::new(),
            Some(_) if self.is_reached() => green("reached"),
            Some(_) => bold("MISSED"),
        };
        format!("{:<26} {:>9.2} {:<25} {bar:<9} {verdict}", self.name, self.value, self.unit)
    }

    /// None where the bar is reached.
    fn complaint(&self) -> Option<String> {
        let bar = self.bar.filter(|_| !self.is_reached())?;
        let Self { name, value, unit, .. } = self;
        Some(format!("{name} is {value:.2} {unit} where {} {} is asked for", bar.words(), bar.value()))
    }

    fn json(&self) -> Value {
        let mut figure = json!({ "value": self.value, "unit": self.unit, "notes": self.notes });
        if let Some(bar) = self.bar {
            figure["bar"] = json!(format!("{} {}", bar.sign(), bar.value()));
            figure["reached"] = json!(self.is_reached());
        }
        if !self.pairs.is_empty() {
            figure["spread"] = Spread::of(self.pairs.iter().map(Pair::ratio)).json();
            figure["pairs"] = self.pairs.iter().map(Pair::json).collect();
        }
        figure
    }
}

pub(super) fn print(figures: &[Figure]) {
    println!();
    for figure in figures {
        println!("{}", figure.line().trim_end());
        for note in &figure.notes {
            println!("{}", dim(&format!("   {note}")));
        }
    }
}

/// Puts the figures into the file, beside those of other runs.
pub(super) fn write(figures: &[Figure], path: &Path) -> Result<()> {
    let before = std::fs::read(path).unwrap_or_default();
    let mut all: Map<String, Value> = serde_json::from_slice(&before).unwrap_or_default();
    all.extend(figures.iter().map(|figure| (figure.name.to_owned(), figure.json())));
    std::fs::write(path, serde_json::to_string_pretty(&all)? + "\n")
        .with_context(|| format!("writing {}", path.display()))
}

/// Fails with every bar that is missed.
pub(super) fn ensure_reached(figures: &[Figure]) -> Result<()> {
    let missed: Vec<_> = figures.iter().filter_map(Figure::complaint).collect();
    ensure!(missed.is_empty(), "{}", missed.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_bar_is_named_with_what_was_measured_and_what_was_asked() {
        let slow = Figure::new("onboard_ratio", 0.85, "of the generator's speed").bar(Bar::AtLeast(0.9));
        let fine = Figure::new("idle_rss", 20.0, "MiB").bar(Bar::AtMost(30.0));
        let free = Figure::new("start_to_ready", 99.0, "s");
        let fat = Figure::new("release_binary", 21.4, "MB").bar(Bar::AtMost(20.0));
        let error = ensure_reached(&[slow, fine, free, fat]).unwrap_err().to_string();
        assert_eq!(
            error,
            "onboard_ratio is 0.85 of the generator's speed where at least 0.9 is asked for; \
             release_binary is 21.40 MB where at most 20 is asked for"
        );
    }

    #[test]
    fn what_could_not_be_measured_reaches_no_bar() {
        for bar in [Bar::AtLeast(0.9), Bar::AtMost(0.9)] {
            assert!(ensure_reached(&[Figure::new("nothing", f64::NAN, "").bar(bar)]).is_err());
        }
    }

    #[test]
    fn exactly_the_bar_is_enough() {
        let figures = [Bar::AtLeast(12.3), Bar::AtMost(12.3)].map(|bar| Figure::new("edge", 12.3, "").bar(bar));
        assert!(ensure_reached(&figures).is_ok());
    }
}
