//! Of several steps about one object: how which of them ended counts.

use std::collections::BTreeSet;

use super::{Outcomes, Ran};
use crate::{
    namespaces::resources::{Identity, Observed, ResourceStep},
    plan::Outcome,
};

/// All but what was tried in vain and is none the worse for it: what was dropped could not go together with what the class sets instead,
/// and whether that can be set at all is told by the apply.
pub(super) fn counting<'a>(seen: &Observed, outcomes: Outcomes<'a>) -> Vec<(&'a ResourceStep, Outcome)> {
    let applied = outcomes.iter().filter(|(step, outcome)| is_apply(step) && *outcome != Outcome::NotRun);
    let applied: BTreeSet<&Identity> = applied.filter_map(|(step, _)| step.identity()).collect();
    let is_moot = |(step, outcome): &&(&ResourceStep, Outcome)| {
        let of = step.identity().filter(|_| is_strip(step) && outcome.failure().is_some());
        of.is_some_and(|identity| applied.contains(identity) && seen.extent_of(identity).is_none())
    };
    outcomes.iter().filter(|ran| !is_moot(ran)).cloned().collect()
}

/// The last one counts; but an object that is applied and not stripped is not right yet.
pub(super) fn last_ran(outcomes: Outcomes<'_>) -> Ran<'_> {
    let failed = outcomes.iter().filter(|(step, outcome)| is_strip(step) && outcome.failure().is_some());
    let unstripped: BTreeSet<_> = failed.filter_map(|(step, _)| step.identity()).collect();
    let is_in_vain = |step: &ResourceStep| is_apply(step) && step.identity().is_some_and(|of| unstripped.contains(of));
    let ran = outcomes.iter().filter(|(step, outcome)| *outcome != Outcome::NotRun && !is_in_vain(step));
    ran.filter_map(|ran| Some((ran.0.identity()?, ran))).collect()
}

fn is_strip(step: &ResourceStep) -> bool {
    matches!(step, ResourceStep::Strip { .. })
}

fn is_apply(step: &ResourceStep) -> bool {
    matches!(step, ResourceStep::Apply { .. })
}
