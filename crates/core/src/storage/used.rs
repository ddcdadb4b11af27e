//! How much of a limit is used, as people read it: in the status of a `ResourceQuota` and of an S3TeamQuota.

use serde::{Deserialize, Serialize};

use super::{
    Reason,
    ledger::{Bounds, Ledger, MOST_IN_BOOKS, Member, Units},
};
use crate::{
    conditions::{Conditions, Readiness},
    quantity::Quantity,
    time::Timestamp,
};

/// What a ResourceQuota says is used, for the members it limits and no others: Kubernetes' own controller keeps those, and
/// takes away whatever else is written there.
pub fn of_namespace(hard: Bounds, used: Units) -> Vec<(Member, Quantity)> {
    let limited = used.members().into_iter().filter(|(member, _)| hard.get(*member).is_some());
    limited.map(|(member, used)| (member, quantity(used))).collect()
}

fn quantity(amount: u64) -> Quantity {
    Quantity::whole(i64::try_from(amount).unwrap_or(i64::MAX))
}

/// An amount in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub size: String,
    pub objects: String,
    pub buckets: u64,
}

impl From<Units> for Used {
    fn from(units: Units) -> Self {
        Self {
            size: quantity(units.size).to_string(),
            objects: quantity(units.objects).to_string(),
            buckets: units.buckets,
        }
    }
}

/// What one namespace has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceUse {
    pub name: String,
    #[serde(flatten)]
    pub used: Used,
}

/// `status` of an S3TeamQuota, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TeamStatus {
    pub observed_generation: Option<i64>,
    pub used: Option<Used>,
    pub namespaces: Vec<NamespaceUse>,
    pub conditions: Conditions,
}

/// The new status of an S3TeamQuota with these limits, by the books of its team.
pub fn of_team(before: &TeamStatus, generation: i64, hard: Bounds, ledger: &Ledger, now: &Timestamp) -> TeamStatus {
    let sum = ledger.sum();
    let namespaces =
        ledger.sums().into_iter().map(|(name, used)| NamespaceUse { name: name.to_owned(), used: used.into() });
    let mut status = TeamStatus {
        observed_generation: Some(generation),
        used: Some(sum.into()),
        namespaces: namespaces.collect(),
        conditions: before.conditions.clone(),
    };
    verdict(hard, sum, ledger.entries.len()).write(&mut status.conditions, generation, now);
    status
}

fn verdict(hard: Bounds, sum: Units, claims: usize) -> Readiness {
    match hard.passed_by(sum) {
        None if claims >= MOST_IN_BOOKS => Reason::BooksFull.stalled(format!(
            "the team has {MOST_IN_BOOKS} claims, and more cannot be kept count of: none is let in, and what a namespace brings \
             along counts where it was before; delete some that nobody needs"
        )),
        None => Reason::WithinLimits.ready("the team has no more than its limits"),
        Some(member) => Reason::QuotaExceeded.stalled(format!(
            "the team has more {} than the limit, which was lowered, came later, or was passed by an upload under way while a quota \
             was lowered: nothing is taken away, and nobody gets more until there is room",
            member.units()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::ledger::Entry;

    fn units(size: u64, buckets: u64) -> Units {
        Units { size, objects: 1000, buckets }
    }

    #[test]
    fn a_resource_quota_tells_only_what_it_limits() {
        let hard = Bounds { size: Some(10), buckets: Some(3), ..Bounds::default() };
        let told: Vec<_> =
            of_namespace(hard, units(4000, 0)).into_iter().map(|(member, used)| (member, used.to_string())).collect();
        assert_eq!(told, [(Member::Size, "4k".to_owned()), (Member::Buckets, "0".to_owned())]);
        assert_eq!(of_namespace(Bounds::default(), units(1, 1)), []);
    }

    #[test]
    fn a_team_sees_its_sum_its_namespaces_and_whether_it_is_too_much() {
        let entry = |size| Entry { granted: Some(units(size, 1)), ..Entry::default() };
        let entries = [("a/x", 3), ("a/y", 4), ("a-b/x", 5)].map(|(key, size)| (key.to_owned(), entry(size)));
        let ledger = Ledger::with(entries);
        let now = Timestamp("2026-01-01T00:00:00Z".into());
        let told = |most| {
            let hard = Bounds { size: Some(most), ..Bounds::default() };
            of_team(&TeamStatus::default(), 7, hard, &ledger, &now)
        };
        let status = told(12);
        assert_eq!(status.used, Some(Used { size: "12".into(), objects: "3k".into(), buckets: 3 }));
        let names: Vec<_> = status.namespaces.iter().map(|it| (it.name.as_str(), it.used.size.as_str())).collect();
        assert_eq!(names, [("a", "7"), ("a-b", "5")]);
        assert_eq!(status.conditions.reason("Ready"), Some("WithinLimits"));
        assert_eq!(told(11).conditions.reason("Ready"), Some("QuotaExceeded"));
    }

    #[test]
    fn a_team_is_told_that_its_books_are_full() {
        let now = Timestamp("2026-01-01T00:00:00Z".into());
        let reason = |claims: usize| {
            let ledger = Ledger::with((0..claims).map(|number| (format!("a/{number}"), Entry::default())));
            let status = of_team(&TeamStatus::default(), 7, Bounds::default(), &ledger, &now);
            status.conditions.reason("Ready").map(str::to_owned)
        };
        assert_eq!(reason(MOST_IN_BOOKS - 1).as_deref(), Some("WithinLimits"));
        assert_eq!(reason(MOST_IN_BOOKS).as_deref(), Some("BooksFull"));
    }
}
