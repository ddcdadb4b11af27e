//! Two sides that take turns: what their pairs of laps say.
//!
//! A machine may be twice as fast one minute as the next. Two laps right after each other meet much the same machine, so
//! their ratio says more than the times it is made of, and the median of many ratios more than any of them.

use std::{fmt, time::Duration};

use serde_json::{Value, json};

use super::{machine::Conditions, processes::Usage};

/// One timing, and what the machine was like meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Lap {
    pub(super) took: Duration,
    pub(super) conditions: Conditions,
}

impl fmt::Display for Lap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.3} s ({})", self.took.as_secs_f64(), self.conditions)
    }
}

impl Lap {
    fn json(&self) -> Value {
        json!({ "seconds": self.took.as_secs_f64(), "machine": self.conditions.json() })
    }
}

/// Who goes first of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Generator,
    Operator,
}

/// They swap from pair to pair: whatever the first lap leaves to the second does not favour one of them.
pub(super) fn order(pair: usize) -> [Side; 2] {
    if pair.is_multiple_of(2) { [Side::Generator, Side::Operator] } else { [Side::Operator, Side::Generator] }
}

/// The same work done by both.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) generator: Lap,
    pub(super) operator: Lap,
}

impl Pair {
    /// The operator's speed in terms of the generator's.
    pub(super) fn ratio(&self) -> f64 {
        self.generator.took.as_secs_f64() / self.operator.took.as_secs_f64()
    }

    pub(super) fn json(&self) -> Value {
        json!({ "ratio": self.ratio(), "generator": self.generator.json(), "operator": self.operator.json() })
    }
}

/// Processor time one side took for each of so many things.
pub(super) fn used(pairs: &[Pair], side: fn(&Pair) -> &Lap, things: f64) -> String {
    let mut usage = Usage::default();
    for pair in pairs {
        usage.add(&side(pair).conditions.ours);
    }
    usage.for_each(things)
}

impl fmt::Display for Pair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2}; generator {}, operator {}", self.ratio(), self.generator, self.operator)
    }
}

/// Where many values lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) lower_quartile: f64,
    pub(super) median: f64,
    pub(super) upper_quartile: f64,
    pub(super) most: f64,
}

impl Spread {
    /// NaN throughout where there are no values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<_> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Self {
            least: quarter(&sorted, 0),
            lower_quartile: quarter(&sorted, 1),
            median: quarter(&sorted, 2),
            upper_quartile: quarter(&sorted, 3),
            most: quarter(&sorted, 4),
        }
    }
}

impl Spread {
    pub(super) fn json(&self) -> Value {
        let Self { least, lower_quartile, median, upper_quartile, most } = self;
        json!({
            "least": least, "lowerQuartile": lower_quartile, "median": median, "upperQuartile": upper_quartile, "most": most,
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, lower_quartile, upper_quartile, most, .. } = self;
        write!(out, "half of them {lower_quartile:.2} to {upper_quartile:.2}, all {least:.2} to {most:.2}")
    }
}

/// What lies so many quarters of the way through sorted values; between two of them, in proportion.
fn quarter(sorted: &[f64], quarters: usize) -> f64 {
    let steps = sorted.len().saturating_sub(1) * quarters;
    let (below, part) = (steps / 4, [0.0, 0.25, 0.5, 0.75][steps % 4]);
    let Some(low) = sorted.get(below) else { return f64::NAN };
    let high = sorted.get(below + 1).unwrap_or(low);
    low + (high - low) * part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lap(milliseconds: u64) -> Lap {
        Lap { took: Duration::from_millis(milliseconds), conditions: Conditions::default() }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "exact in binary")]
    fn a_ratio_below_one_means_the_operator_was_slower() {
        assert_eq!(Pair { generator: lap(500), operator: lap(1000) }.ratio(), 0.5);
    }

    #[test]
    fn a_machine_that_changes_its_speed_between_pairs_does_not_change_the_median() {
        let pairs = [(100, 110), (250, 275), (40, 44)].map(|(g, o)| Pair { generator: lap(g), operator: lap(o) });
        let spread = Spread::of(pairs.iter().map(Pair::ratio));
        assert!((spread.median - 10.0 / 11.0).abs() < 1e-9 && spread.most - spread.least < 1e-9, "{spread:?}");
    }

    #[test]
    fn one_odd_pair_shows_in_the_spread_and_not_in_the_median() {
        let spread = Spread::of([1.0, 1.0, 9.0, 1.0, 1.0]);
        assert_eq!(spread, Spread { least: 1.0, lower_quartile: 1.0, median: 1.0, upper_quartile: 1.0, most: 9.0 });
    }

    #[test]
    fn between_two_values_quartiles_are_in_proportion() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!(spread, Spread { least: 1.0, lower_quartile: 1.75, median: 2.5, upper_quartile: 3.25, most: 4.0 });
    }

    #[test]
    fn of_one_value_everything_is_that_value_and_of_none_nothing() {
        let Spread { least, median, most, .. } = Spread::of([7.0]);
        assert_eq!((least, median, most), (7.0, 7.0, 7.0));
        assert!(Spread::of([]).median.is_nan());
    }

    #[test]
    fn the_sides_take_turns_in_going_first() {
        assert_eq!([order(0), order(2)], [[Side::Generator, Side::Operator]; 2]);
        assert_eq!(order(1), [Side::Operator, Side::Generator]);
    }
}
