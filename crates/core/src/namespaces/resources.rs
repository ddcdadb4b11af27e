//! Binding -> resources: everything the class wants is there, nothing it no longer wants, and nothing foreign is touched.
//!
//! Order of safety: record what is about to be made, make it, and only when all of it stands remove what is no longer
//! wanted (make before break). A binding that is not wanted any more goes last, when everything it owned is gone; the
//! owner references are the safety net for the day the operator is not there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::manifest::{Identity, Item, digest, group_of, rank};
use crate::{
    conditions::{Conditions, Readiness},
    plan::{Failure, FailureClass, Outcome, Plan, Step},
    problem::Problem,
    time::Timestamp,
};

/// What is known about one binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub namespace: String,
    /// The namespace is being deleted: its objects go with it.
    pub terminating: bool,
    /// The namespace has no class label any more.
    pub unlabelled: bool,
    /// The class the namespace's label names now, if that differs from the binding's and does not exist.
    pub unknown_class: Option<String>,
    pub binding: Binding,
    pub class: ClassSeen,
    /// What is known about the kinds the class uses.
    pub kinds: BTreeMap<KindName, KindSeen>,
    /// Live objects, read where the status does not vouch for them.
    pub live: BTreeMap<Identity, Live>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Binding {
    pub uid: String,
    pub generation: i64,
    pub class: String,
    pub deleting: bool,
    pub status: Status,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum ClassSeen {
    Present(Class),
    /// Not in the cache, and a live read says so as well.
    Gone,
    /// The class exists but cannot be read: change nothing.
    #[default]
    Unreadable,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub items: Vec<Item>,
    /// A class with problems changes nothing anywhere.
    pub problems: Vec<Problem>,
}

/// `apiVersion` and `kind`.
pub type KindName = (String, String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindSeen {
    Namespaced,
    ClusterScoped,
    NotInstalled,
}

/// A live object of a name the class uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    pub uid: String,
    /// Its controller owner is this binding.
    pub ours: bool,
}

/// The binding's status, in the shape the API has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_class_name: Option<String>,
    #[serde(rename = "observedClassUID", skip_serializing_if = "Option::is_none")]
    pub observed_class_uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_class_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<Applied>,
    #[serde(skip_serializing_if = "is_empty")]
    pub conditions: Conditions,
}

fn is_empty(conditions: &Conditions) -> bool {
    conditions.0.is_empty()
}

/// One object in the binding's inventory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Applied {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Applied {
    pub fn identity(&self) -> Identity {
        Identity { group: group_of(&self.api_version).to_owned(), kind: self.kind.clone(), name: self.name.clone() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    #[default]
    Pending,
    Applied,
    Drifted,
    Conflict,
    Failed,
    Pruning,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ResourceStep {
    /// Nothing it owned is left.
    DeleteBinding { uid: String, because: Unwanted },
    /// List what is about to be made before it is made.
    RecordIntent { status: Box<Status> },
    Apply { identity: Identity, api_version: String, manifest: Value, digest: String },
    Prune { identity: Identity, api_version: String, uid: String },
}

/// Why a binding goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwanted {
    LabelRemoved,
    ClassDeleted,
}

impl fmt::Display for Unwanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unwanted::LabelRemoved => "the namespace's label is gone",
            Unwanted::ClassDeleted => "its class is gone",
        })
    }
}

impl Step for ResourceStep {
    fn kind(&self) -> &'static str {
        match self {
            ResourceStep::DeleteBinding { .. } => "DeleteBinding",
            ResourceStep::RecordIntent { .. } => "RecordIntent",
            ResourceStep::Apply { .. } => "Apply",
            ResourceStep::Prune { .. } => "Prune",
        }
    }
}

impl fmt::Display for ResourceStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceStep::DeleteBinding { because, .. } => write!(out, "delete the binding: {because}"),
            ResourceStep::RecordIntent { status } => {
                write!(out, "record {} objects in the inventory", status.applied_resources.len())
            }
            ResourceStep::Apply { identity, digest, .. } => write!(out, "apply {identity} ({digest})"),
            ResourceStep::Prune { identity, .. } => write!(out, "remove {identity}: no longer wanted"),
        }
    }
}

/// Why a wanted object is not (to be) applied.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Obstacle {
    ClusterScoped,
    NotInstalled,
    NotOurs,
}

impl Obstacle {
    fn state_and_message(&self) -> (State, &'static str) {
        match self {
            Obstacle::ClusterScoped => (State::Failed, "the kind is cluster-scoped: a class holds namespaced objects only"),
            Obstacle::NotInstalled => (State::Pending, "the kind is not installed; applied as soon as it is"),
            Obstacle::NotOurs => (State::Conflict, "an object of this name exists and is not ours; rename or delete it"),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Obstacle::ClusterScoped => "InvalidClass",
            Obstacle::NotInstalled => "KindNotInstalled",
            Obstacle::NotOurs => "Conflict",
        }
    }
}

impl Observed {
    fn class(&self) -> Option<&Class> {
        match &self.class {
            ClassSeen::Present(class) if class.problems.is_empty() => Some(class),
            _ => None,
        }
    }

    fn recorded(&self, identity: &Identity) -> Option<&Applied> {
        self.binding.status.applied_resources.iter().find(|applied| applied.identity() == *identity)
    }

    fn obstacle(&self, item: &Item) -> Option<Obstacle> {
        let kind = (item.api_version.clone(), item.identity.kind.clone());
        match self.kinds.get(&kind) {
            Some(KindSeen::ClusterScoped) => Some(Obstacle::ClusterScoped),
            Some(KindSeen::NotInstalled) | None => Some(Obstacle::NotInstalled),
            Some(KindSeen::Namespaced) => match self.live.get(&item.identity) {
                Some(live) if !live.ours => Some(Obstacle::NotOurs),
                _ => None,
            },
        }
    }

    /// Whether the status vouches that this very manifest was applied.
    fn vouched(&self, item: &Item, class: &Class) -> bool {
        let wanted = digest(&item.stamped(&self.namespace, &class.name, &self.binding.uid));
        self.recorded(&item.identity)
            .is_some_and(|applied| applied.state == State::Applied && applied.digest.as_deref() == Some(&wanted))
    }

    /// Identities whose live objects the shell must read before planning: what the status does not vouch for, and what is
    /// to be pruned.
    pub fn to_read(&self) -> BTreeSet<(String, Identity)> {
        if self.unwanted_because().is_some() {
            let recorded = self.binding.status.applied_resources.iter();
            return recorded.map(|applied| (applied.api_version.clone(), applied.identity())).collect();
        }
        let Some(class) = self.class() else { return BTreeSet::new() };
        let unvouched = class
            .items
            .iter()
            .filter(|item| !self.vouched(item, class))
            .map(|item| (item.api_version.clone(), item.identity.clone()));
        let unwanted = self.unwanted(class).map(|applied| (applied.api_version.clone(), applied.identity()));
        unvouched.chain(unwanted).collect()
    }

    fn unwanted_because(&self) -> Option<Unwanted> {
        match &self.class {
            _ if self.unlabelled => Some(Unwanted::LabelRemoved),
            ClassSeen::Gone => Some(Unwanted::ClassDeleted),
            _ => None,
        }
    }

    fn unwanted<'a>(&'a self, class: &'a Class) -> impl Iterator<Item = &'a Applied> {
        let wanted: BTreeSet<_> = class.items.iter().map(|item| &item.identity).collect();
        self.binding.status.applied_resources.iter().filter(move |applied| !wanted.contains(&applied.identity()))
    }
}

pub fn plan(seen: &Observed) -> Plan<ResourceStep> {
    if seen.terminating || seen.binding.deleting {
        return Plan::settled();
    }
    if let Some(because) = seen.unwanted_because() {
        return take_down(seen, because);
    }
    match &seen.class {
        ClassSeen::Gone | ClassSeen::Unreadable => Plan::settled(),
        ClassSeen::Present(class) if !class.problems.is_empty() => Plan::settled(),
        ClassSeen::Present(class) => furnish(seen, class),
    }
}

fn furnish(seen: &Observed, class: &Class) -> Plan<ResourceStep> {
    let mut groups = Vec::new();
    let due: Vec<_> =
        class.items.iter().filter(|item| seen.obstacle(item).is_none() && !seen.vouched(item, class)).collect();
    if due.iter().any(|item| seen.recorded(&item.identity).is_none()) {
        groups.push(vec![ResourceStep::RecordIntent { status: Box::new(intent(seen, class)) }]);
    }
    let mut ranks: BTreeMap<u8, Vec<ResourceStep>> = BTreeMap::new();
    for item in due {
        let manifest = item.stamped(&seen.namespace, &class.name, &seen.binding.uid);
        ranks.entry(rank(&item.identity.kind)).or_default().push(ResourceStep::Apply {
            identity: item.identity.clone(),
            api_version: item.api_version.clone(),
            digest: digest(&manifest),
            manifest,
        });
    }
    groups.extend(ranks.into_values());
    // Make before break: with an obstacle in the way the old objects stay.
    if class.items.iter().all(|item| seen.obstacle(item).is_none()) {
        groups.push(prunes(seen, seen.unwanted(class)));
    }
    groups.retain(|group| !group.is_empty());
    Plan { groups, ..Plan::settled() }
}

/// Removes everything the binding owns, then the binding.
fn take_down(seen: &Observed, because: Unwanted) -> Plan<ResourceStep> {
    let mut groups = vec![prunes(seen, seen.binding.status.applied_resources.iter())];
    groups.push(vec![ResourceStep::DeleteBinding { uid: seen.binding.uid.clone(), because }]);
    groups.retain(|group| !group.is_empty());
    Plan { groups, ..Plan::settled() }
}

/// Only what is live and ours by owner is deleted, by its UID.
fn prunes<'a>(seen: &Observed, unwanted: impl Iterator<Item = &'a Applied>) -> Vec<ResourceStep> {
    let prunes = unwanted.filter_map(|applied| {
        let live = seen.live.get(&applied.identity()).filter(|live| live.ours)?;
        Some(ResourceStep::Prune {
            identity: applied.identity(),
            api_version: applied.api_version.clone(),
            uid: live.uid.clone(),
        })
    });
    prunes.collect()
}

/// The inventory with everything about to be made listed as pending.
fn intent(seen: &Observed, class: &Class) -> Status {
    let mut status = seen.binding.status.clone();
    for item in &class.items {
        if seen.obstacle(item).is_none() && seen.recorded(&item.identity).is_none() {
            status.applied_resources.push(entry(item));
        }
    }
    status
}

fn entry(item: &Item) -> Applied {
    Applied {
        api_version: item.api_version.clone(),
        kind: item.identity.kind.clone(),
        name: item.identity.name.clone(),
        ..Applied::default()
    }
}

/// The binding's new status after the plan ran.
pub fn report(seen: &Observed, outcomes: &[(&ResourceStep, Outcome)], now: &Timestamp) -> Status {
    let mut status = seen.binding.status.clone();
    if seen.unwanted_because().is_some() {
        if let Some((step, failure)) = first_failed(outcomes) {
            unready(step, failure).write(&mut status.conditions, seen.binding.generation, now);
        }
        return status;
    }
    let readiness = match &seen.class {
        ClassSeen::Gone => return status,
        ClassSeen::Unreadable => Readiness::Stalled {
            reason: "ClassUnreadable",
            message: format!("class {} cannot be read; what is there stays as it is", seen.binding.class),
        },
        ClassSeen::Present(class) if !class.problems.is_empty() => Readiness::Stalled {
            reason: "InvalidClass",
            message: join(class.problems.iter().map(ToString::to_string)),
        },
        ClassSeen::Present(class) => {
            status.applied_resources = inventory(seen, class, outcomes);
            let readiness = readiness(seen, class, outcomes);
            if matches!(readiness, Readiness::Ready { .. }) {
                status.observed_class_name = Some(class.name.clone());
                status.observed_class_uid = Some(class.uid.clone());
                status.observed_class_generation = Some(class.generation);
            }
            readiness
        }
    };
    let readiness = match (&seen.unknown_class, readiness) {
        (Some(unknown), Readiness::Ready { .. }) => Readiness::Stalled {
            reason: "ClassNotFound",
            message: format!(
                "the namespace's label names class {unknown}, which does not exist; the objects of class {} stay",
                seen.binding.class
            ),
        },
        (_, readiness) => readiness,
    };
    status.observed_generation = Some(seen.binding.generation);
    readiness.write(&mut status.conditions, seen.binding.generation, now);
    status
}

fn readiness(seen: &Observed, class: &Class, outcomes: &[(&ResourceStep, Outcome)]) -> Readiness {
    if let Some((step, failure)) = first_failed(outcomes) {
        return unready(step, failure);
    }
    let obstacle = class.items.iter().find_map(|item| seen.obstacle(item).map(|obstacle| (item, obstacle)));
    if let Some((item, obstacle)) = obstacle {
        let (_, why) = obstacle.state_and_message();
        return Readiness::Stalled { reason: obstacle.reason(), message: format!("{}: {why}", item.identity) };
    }
    Readiness::Ready {
        reason: "ReconcileSuccess",
        message: format!("Successfully applied {} resources from class {}", class.items.len(), class.name),
    }
}

fn first_failed<'a>(outcomes: &'a [(&'a ResourceStep, Outcome)]) -> Option<(&'a ResourceStep, &'a Failure)> {
    outcomes.iter().find_map(|(step, outcome)| outcome.failure().map(|failure| (*step, failure)))
}

fn unready(step: &ResourceStep, failure: &Failure) -> Readiness {
    let reason = match (step, failure.class) {
        (_, FailureClass::Forbidden) => "Forbidden",
        (ResourceStep::Prune { .. }, _) => "PruneFailed",
        _ => "ApplyFailed",
    };
    let what = match step {
        ResourceStep::Apply { identity, .. } | ResourceStep::Prune { identity, .. } => identity.to_string(),
        _ => "the binding".to_owned(),
    };
    let message = format!("{what}: {}", failure.message);
    match failure.class {
        FailureClass::Stale | FailureClass::Transient => Readiness::Progressing { reason, message },
        FailureClass::Forbidden | FailureClass::Rejected => Readiness::Stalled { reason, message },
    }
}

/// The inventory after the plan ran, in the order of the class, then what is still to be pruned.
fn inventory(seen: &Observed, class: &Class, outcomes: &[(&ResourceStep, Outcome)]) -> Vec<Applied> {
    let outcome_of = |identity: &Identity| {
        outcomes.iter().find_map(|(step, outcome)| match step {
            ResourceStep::Apply { identity: other, digest, .. } if other == identity => Some((outcome, Some(digest))),
            ResourceStep::Prune { identity: other, .. } if other == identity => Some((outcome, None)),
            _ => None,
        })
    };
    let recorded = outcomes.iter().any(|(step, outcome)| matches!(step, ResourceStep::RecordIntent { .. }) && outcome.is_done());
    let wanted = class.items.iter().filter_map(|item| {
        let before = seen.recorded(&item.identity).cloned();
        let mut applied = before.clone().unwrap_or_else(|| entry(item));
        applied.api_version.clone_from(&item.api_version);
        if let Some(obstacle) = seen.obstacle(item) {
            let (state, message) = obstacle.state_and_message();
            // An object that is not ours is never listed as ours.
            return Some(Applied { state, message: Some(message.to_owned()), uid: None, digest: None, ..applied });
        }
        match outcome_of(&item.identity) {
            Some((Outcome::Done { uid }, Some(digest))) => Some(Applied {
                uid: uid.clone().or(applied.uid),
                digest: Some(digest.clone()),
                state: State::Applied,
                message: None,
                ..applied
            }),
            Some((Outcome::Failed(failure), _)) => {
                Some(Applied { state: State::Failed, message: Some(failure.message.clone()), digest: None, ..applied })
            }
            Some((Outcome::NotRun, _)) if before.is_none() && !recorded => None,
            _ => Some(applied),
        }
    });
    let unwanted = seen.unwanted(class).filter_map(|applied| match outcome_of(&applied.identity()) {
        Some((Outcome::Done { .. }, _)) => None,
        Some((Outcome::Failed(failure), _)) => {
            Some(Applied { state: State::Pruning, message: Some(failure.message.clone()), ..applied.clone() })
        }
        // Not live, or not ours (any more): nothing left to remove.
        None if seen.live.get(&applied.identity()).is_none_or(|live| !live.ours) => None,
        _ => Some(applied.clone()),
    });
    wanted.chain(unwanted).collect()
}

fn join(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("; ")
}
