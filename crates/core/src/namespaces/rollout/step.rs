//! What a roll-out does: revisions are kept and forgotten, namespaces are moved.

use std::{collections::BTreeSet, fmt};

use super::{
    judge,
    revision::{Kept, newest_kept, next_number, surplus},
};
use crate::{
    namespaces::class::Observed,
    plan::{Next, Plan, Step},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// Makes room for the newest revision: an earlier class of this name said the same.
    Discard {
        revision: String,
        uid: String,
    },
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
        /// It is not well already.
        failing: bool,
    },
    Forget {
        revision: String,
        uid: String,
    },
}

impl RolloutStep {
    /// The revision that is kept once this is done. One that gets another number is asked about anew, by another look.
    pub(in crate::namespaces) fn kept(&self, made: Option<&str>) -> Option<Kept> {
        let RolloutStep::Keep { revision, number } = self else { return None };
        let uid = made.unwrap_or_default().to_owned();
        Some(Kept { digest: revision.clone(), uid, version: String::new(), number: *number })
    }
}

impl Step for RolloutStep {
    fn kind(&self) -> &'static str {
        match self {
            RolloutStep::Discard { .. } => "DiscardRevision",
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
            RolloutStep::Discard { revision, .. } => {
                write!(
                    out,
                    "discard revision {revision} of an earlier class of this name: it takes the name of this one's"
                )
            }
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
    if newest_kept(kept, target).is_none() {
        return Plan {
            groups: keeping(seen, target).into_iter().map(|step| vec![step]).collect(),
            next: Next::Settled,
        };
    }
    let judgement = judge(seen, target);
    let since = judgement.staged_since.unwrap_or_default();
    let moves = judgement.batch.iter().map(|bound| RolloutStep::Move {
        namespace: bound.name.clone(),
        uid: bound.uid.clone(),
        version: bound.version.clone(),
        revision: target.to_owned(),
        since,
        failing: seen.is_failing(bound) || bound.unready_since.is_some(),
    });
    let in_use = in_use(seen, target);
    let forget = surplus(kept, &in_use)
        .into_iter()
        .map(|kept| RolloutStep::Forget { revision: kept.digest.clone(), uid: kept.uid.clone() });
    let mut groups = vec![moves.collect(), forget.collect()];
    groups.retain(|group: &Vec<_>| !group.is_empty());
    Plan { groups, next: judgement.wait.map_or(Next::Settled, Next::After) }
}

/// What has to be done before anything can be decided about what the class says now.
fn keeping(seen: &Observed, target: &str) -> Option<RolloutStep> {
    let (kept, revision) = (&seen.rollout.kept, target.to_owned());
    let number = next_number(kept);
    if let Some(earlier) = kept.iter().find(|kept| kept.digest == target) {
        let (uid, version) = (earlier.uid.clone(), earlier.version.clone());
        return Some(RolloutStep::Renumber { revision, uid, version, number });
    }
    match (&seen.rollout.not_kept, &seen.rollout.predecessor) {
        (Some(_), _) => None,
        (None, Some(uid)) => Some(RolloutStep::Discard { revision, uid: uid.clone() }),
        (None, None) => Some(RolloutStep::Keep { revision, number }),
    }
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
