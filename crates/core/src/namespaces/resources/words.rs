//! What stands in the way of a wanted object, in words that name the fix.

use super::{Class, need::Obstacle, report::IMMUTABLE_FIELD};
use crate::{
    namespaces::{
        inventory::{Applied, State},
        manifest::Rendered,
    },
    plan::{Failure, FailureClass},
    problem::Problem,
};

/// All a class needs of a kind.
const STAMPING: &str = "create, delete, get, list, patch, watch";

/// The reason while something cannot be observed.
pub(super) const UNOBSERVABLE: &str = "Unobservable";

/// An object that may be what cannot be made in the namespace now: it stays as it is, and says why.
pub(super) fn unmakeable(class: &Class, applied: &Applied) -> Applied {
    let identity = applied.identity();
    let misfit = class.misfits.iter().find(|misfit| misfit.may_be(&identity));
    // That the name is taken stays on record, or it would be tried again and again.
    let state = if applied.state == State::Conflict { State::Conflict } else { State::Pending };
    Applied { state, message: misfit.map(|misfit| Problem::list(&misfit.problems)), ..applied.clone() }
}

pub(super) fn explain(item: &Rendered, obstacle: &Obstacle) -> String {
    let text = match obstacle {
        Obstacle::Forbidden { resource } => {
            return format!(
                "the operator may not list and watch {resource}; {}",
                missing_rule(&item.identity.group, resource, STAMPING)
            );
        }
        Obstacle::Moved { to } => {
            return format!("{} is no longer served; change the class to {to}", item.api_version);
        }
        Obstacle::Contested { message } => return message.clone(),
        Obstacle::Drifted { change } => {
            return format!("{change}; left as it is, since policy.onDrift is Report");
        }
        Obstacle::Unobservable { why } => {
            return format!("cannot be observed, so nothing is done about it: {why}");
        }
        Obstacle::ClusterScoped => "the kind is cluster-scoped: a class holds namespaced objects only",
        Obstacle::NotInstalled => "the kind is not installed; applied as soon as it is",
        Obstacle::NotOurs => {
            "an object of this name exists and is not ours; rename or delete it, or set policy.onConflict to Adopt or Replace"
        }
        Obstacle::Controlled => "an object of this name belongs to another controller; choose another name",
        Obstacle::BeingDeleted => "the object is being deleted; made anew when it is gone",
        Obstacle::ToAdopt { .. } => "an object of this name exists and is nobody's; about to be adopted",
    };
    text.to_owned()
}

/// The rule an administrator adds so that a class may use a kind.
fn missing_rule(group: &str, resource: &str, verbs: &str) -> String {
    format!(
        "add to a ClusterRole labelled croft.dev/aggregate-to-namespace-classes: \"true\" the rule \
         {{apiGroups: [\"{group}\"], resources: [{resource}], verbs: [{verbs}]}}"
    )
}

pub(super) fn reason_of(obstacle: &Obstacle) -> &'static str {
    match obstacle {
        Obstacle::ClusterScoped => "InvalidClass",
        Obstacle::NotInstalled | Obstacle::Moved { .. } => "KindNotInstalled",
        Obstacle::Forbidden { .. } => "Forbidden",
        Obstacle::NotOurs | Obstacle::Controlled => "Conflict",
        Obstacle::BeingDeleted => "Terminating",
        Obstacle::ToAdopt { .. } => "RolloutPending",
        Obstacle::Drifted { .. } => "Drifted",
        Obstacle::Contested { .. } => "Contested",
        Obstacle::Unobservable { .. } => UNOBSERVABLE,
    }
}

/// The API server's own words; where it says which right is missing, also what to add.
pub(super) fn with_fix(failure: &Failure) -> String {
    match denied(&failure.message) {
        _ if failure.reason == IMMUTABLE_FIELD => {
            format!("{}; change the class back, or let policy.onImmutable: Recreate make it anew", failure.message)
        }
        _ if failure.reason == "QuotaExceeded" => {
            format!("{}; it is made when the quota has room for it", failure.message)
        }
        Some((verb, resource, group)) if failure.class == FailureClass::Forbidden => {
            format!("{}; {}", failure.message, missing_rule(group, resource, verb))
        }
        _ => failure.message.clone(),
    }
}

/// Verb, resource and group in `... cannot create resource "roles" in API group "rbac.authorization.k8s.io" ...`.
fn denied(message: &str) -> Option<(&str, &str, &str)> {
    let (verb, rest) = message.split_once(" cannot ")?.1.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once("\" in API group \"")?;
    Some((verb, resource, rest.split_once('"')?.0))
}
