//! The operator's own count of its calls to the API server.

use std::{collections::BTreeMap, fmt};

use anyhow::Result;
use croft_testbed::Operator;

const METRIC: &str = "croft_api_calls_total{";

/// Calls by verb.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(BTreeMap<String, u64>);

impl Calls {
    pub(super) async fn of(operator: &Operator) -> Result<Self> {
        Ok(Self::parse(&operator.metrics().await?))
    }

    fn parse(text: &str) -> Self {
        let mut calls = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix(METRIC)) {
            let verb = line.split_once("verb=\"").and_then(|(_, rest)| rest.split_once('"'));
            let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
            if let (Some((verb, _)), Some(count)) = (verb, count) {
                *calls.entry(verb.to_owned()).or_default() += count;
            }
        }
        Self(calls)
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let count = |verb: &str| before.0.get(verb).copied().unwrap_or_default();
        Self(self.0.iter().map(|(verb, now)| (verb.clone(), now.saturating_sub(count(verb)))).collect())
    }

    pub(super) fn add(&mut self, more: &Self) {
        for (verb, count) in &more.0 {
            *self.0.entry(verb.clone()).or_default() += count;
        }
    }

    /// All but watches and renewals of the lease. Events are among them.
    pub(super) fn requests(&self) -> f64 {
        self.writes() + self.reads() + self.sum(&["discover", "list", "other"])
    }

    /// Of single objects.
    pub(super) fn reads(&self) -> f64 {
        self.sum(&["get"])
    }

    /// All that change something, but the lease.
    pub(super) fn writes(&self) -> f64 {
        self.sum(&["create", "update", "patch", "delete"])
    }

    fn sum(&self, verbs: &[&str]) -> f64 {
        let sum: u64 = verbs.iter().filter_map(|verb| self.0.get(*verb)).sum();
        f64::from(u32::try_from(sum).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.0.iter().filter(|(_, count)| **count > 0).map(|(verb, count)| format!("{verb} {count}"));
        out.write_str(&calls.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_up_by_verb_whatever_was_answered() {
        let before = Calls::parse("croft_api_calls_total{verb=\"create\",code=\"201\"} 5\n");
        let after = Calls::parse(
            "# HELP croft_api_calls Calls\n\
             croft_api_calls_total{verb=\"create\",code=\"201\"} 15\n\
             croft_api_calls_total{verb=\"create\",code=\"409\"} 1\n\
             croft_api_calls_total{verb=\"get\",code=\"200\"} 2\n\
             croft_api_calls_total{verb=\"list\",code=\"200\"} 3\n\
             croft_api_calls_total{verb=\"renew\",code=\"200\"} 100\n\
             croft_api_calls_total{verb=\"watch\",code=\"200\"} 100\n\
             croft_reconciles_total{part=\"namespaces\"} 9\n",
        );
        let calls = after.since(&before);
        assert_eq!((calls.writes(), calls.reads(), calls.requests()), (11.0, 2.0, 16.0));
    }
}
