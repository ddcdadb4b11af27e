//! What a roll-out does: revisions are kept and forgotten, namespaces are moved.

use std::{collections::BTreeSet, fmt};

use super::{
    judge,
    revision::{is_latest, next_number, surplus},
};
use crate::{
    namespaces::class::Observed,
    plan::{Next, Plan, Step},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// Keeps what the class says now, before anything of it reaches a namespace.
    Keep {
        revision: String,
        number: i64,
    },
    /// The class says again what it said before: that is its latest revision now.
    Renumber {
        revision: String,
        uid: String,
        version: String,
        number: i64,
    },
    Move {
        namespace: String,
        uid: String,
        version: String,
        revision: String,
        since: i64,
    },
    Forget {
        revision: String,
        uid: String,
    },
}

impl Step for RolloutStep {
    fn kind(&self) -> &'static str {
        match self {
            RolloutStep::Keep { .. } => "KeepRevision",
            RolloutStep::Renumber { .. } => "RenumberRevision",
            RolloutStep::Move { .. } => "MoveNamespace",
            RolloutStep::Forget { .. } => "ForgetRevision",
        }
    }
}

impl fmt::Display for RolloutStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RolloutStep::Keep { revision, number } => {
                write!(out, "keep revision {number} ({revision}): the class says something new")
            }
            RolloutStep::Renumber { revision, number, .. } => {
                write!(out, "number revision {revision} anew, {number}: the class says again what it said before")
            }
            RolloutStep::Move { namespace, revision, .. } => {
                write!(out, "move {namespace} to revision {revision}: its turn has come")
            }
            RolloutStep::Forget { revision, .. } => {
                write!(out, "forget revision {revision}: there are later ones, and nobody uses it")
            }
        }
    }
}

/// The revision is kept first, then namespaces are moved, then what nobody needs any more is forgotten.
pub(in crate::namespaces) fn plan(seen: &Observed) -> Plan<RolloutStep> {
    let kept = &seen.rollout.kept;
    let Some(target) = seen.rollout.newest.as_deref() else { return Plan::settled() };
    let Some(newest) = kept.iter().find(|kept| kept.digest == target) else {
        let keep = RolloutStep::Keep { revision: target.to_owned(), number: next_number(kept) };
        return if seen.rollout.not_kept.is_some() { Plan::settled() } else { Plan::step(keep) };
    };
    let renumber = (!is_latest(kept, newest)).then(|| RolloutStep::Renumber {
        revision: target.to_owned(),
        uid: newest.uid.clone(),
        version: newest.version.clone(),
        number: next_number(kept),
    });
    let judgement = judge(seen, target);
    let since = judgement.staged_since.unwrap_or_default();
    let moves = judgement.batch.iter().map(|bound| RolloutStep::Move {
        namespace: bound.name.clone(),
        uid: bound.uid.clone(),
        version: bound.version.clone(),
        revision: target.to_owned(),
        since,
    });
    let in_use = in_use(seen, target);
    let forget = surplus(kept, &in_use)
        .into_iter()
        .map(|kept| RolloutStep::Forget { revision: kept.digest.clone(), uid: kept.uid.clone() });
    let mut groups = vec![renumber.into_iter().collect(), moves.collect(), forget.collect()];
    groups.retain(|group: &Vec<_>| !group.is_empty());
    Plan { groups, next: judgement.wait.map_or(Next::Settled, Next::After) }
}

/// Whatever a namespace has, was moved to, or may still get.
fn in_use<'o>(seen: &'o Observed, target: &'o str) -> BTreeSet<&'o str> {
    let status = &seen.status;
    let begun = status.rollout.as_ref().map(|begun| begun.revision.as_str());
    let of_namespaces = seen.namespaces.iter().flat_map(|bound| {
        let moved = bound.moved.as_ref().map(|moved| moved.revision.as_str());
        [bound.has.as_deref(), moved]
    });
    let of_class = [Some(target), begun, status.revision.as_deref()];
    of_namespaces.chain(of_class).flatten().collect()
}
