//! Taking Croft out of a cluster: from what is there to ordered steps.
//!
//! Guarantees: what could stand in anybody's way goes first, what others may depend on goes last; what keeps Velero from doing more
//! for a tenant than is hers goes when it does nothing for tenants any more; under [`Choice::KeepData`] nothing that holds a
//! tenant's data, and no fence of a namespace, goes with its owner; what belongs to another operator of the same kinds is in no
//! step.

mod ground;
mod place;
mod pulse;
mod text;
mod velero;
mod work;

use std::collections::BTreeSet;

use serde_json::{Value, json};

pub use self::{
    ground::{Ground, OurKind, Unclear, misplaced},
    place::{Staying, staying},
    pulse::{Beat, Pulse},
    text::{concerns, describe, headline},
    velero::{Stand, at_rest, stand},
    work::{Work, held_up, hindrance, is_left, without_giving_up, work},
};

/// On every CRD of ours that we installed: one without it is another operator's, unless the part of it runs here.
pub const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "croft");

const POLICIES: &str = "admissionregistration.k8s.io";

/// What becomes of what tenants have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It stays where it is, without an owner.
    KeepData,
    /// It goes.
    Purge,
}

/// A kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub group: String,
    pub kind: String,
}

/// One object, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeSet<(String, String)>,
    pub annotations: BTreeSet<String>,
    pub finalizers: Vec<String>,
    /// The kinds of its owners.
    pub owners: Vec<Kind>,
    /// Somebody has deleted it; what else holds it is not ours to know.
    pub is_going: bool,
}

impl Seen {
    /// Whether it has the label, with that value.
    pub fn has(&self, (key, value): (&str, &str)) -> bool {
        self.labels.contains(&(key.to_owned(), value.to_owned()))
    }
}

/// What is done in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Policies, bindings first, and webhooks are deleted: an absent operator blocks nobody.
    Fences,
    /// The operator ends.
    Operator,
    /// Policies that judge nobody but Velero are deleted: it does nothing for tenants any more.
    Guards,
    /// What belongs to objects of ours loses that owner and our marks, and stays.
    Orphans,
    /// What belongs to objects of ours, and to nothing else, is deleted.
    Dependents,
    /// Namespaces lose our marks.
    Marks,
    /// Objects of ours lose our finalizers.
    Held,
    /// Settings, certificates, roles are deleted.
    Belongings,
    /// `RoleBindings` are deleted: by them it is known in which namespaces there is anything of all that.
    Rights,
    /// CRDs are deleted, with every object of theirs.
    Kinds,
}

impl Stage {
    /// Whether one object goes after the other, in the order they are in.
    pub fn is_of_policies(self) -> bool {
        matches!(self, Stage::Fences | Stage::Guards)
    }
}

/// One stage, with everything it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub stage: Stage,
    pub objects: Vec<Seen>,
}

/// All steps, in order. Objects of ours that nothing holds go with their CRD and are in none.
pub fn plan(objects: &[Seen], ground: &Ground) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for object in objects {
        let Some(stage) = stage(object, ground) else { continue };
        match steps.iter_mut().find(|step| step.stage == stage) {
            Some(step) => step.objects.push(object.clone()),
            None => steps.push(Step { stage, objects: vec![object.clone()] }),
        }
    }
    steps.sort_by_key(|step| step.stage);
    for step in steps.iter_mut().filter(|step| step.stage.is_of_policies()) {
        // A policy without binding judges nobody; a binding without policy would be an error for everybody.
        step.objects.sort_by_key(|object| !object.kind.kind.ends_with("Binding"));
    }
    steps
}

/// What is done with an object, if anything.
pub fn stage(object: &Seen, ground: &Ground) -> Option<Stage> {
    let needs_nothing =
        |stage: &Stage| object.is_going && [Stage::Dependents, Stage::Belongings, Stage::Rights].contains(stage);
    stage_of_all(object, ground).filter(|stage| !needs_nothing(stage))
}

fn stage_of_all(object: &Seen, ground: &Ground) -> Option<Stage> {
    let is_crd = object.kind.kind == "CustomResourceDefinition";
    let of_a_class = object.labels.iter().any(|(key, _)| ground.of_a_class.contains(&key.as_str()));
    if is_crd {
        // One of ours that somebody else installed is his to remove.
        let is_of_ours = ground.kinds.iter().any(|ours| ours.crd == object.name);
        return (is_of_ours && object.has(PART_OF)).then_some(Stage::Kinds);
    }
    if ground.is_ours(&object.kind) {
        let is_held = object.finalizers.iter().any(|held| ground.finalizers.contains(&held.as_str()));
        // What belongs to another object of ours goes with its own CRD, whatever becomes of that one.
        return is_held.then_some(Stage::Held);
    }
    if object.kind.group == POLICIES && (of_a_class || ground.is_installed(object)) {
        let is_guard = ground.guards.contains(&object.name.as_str());
        return Some(if is_guard { Stage::Guards } else { Stage::Fences });
    }
    if ground.choice == Choice::Purge && object.name == ground.tenants_role && ground.is_installed(object) {
        // Whoever makes more all the time would keep a purge from coming to its end.
        return Some(Stage::Fences);
    }
    if ground.is_installed(object) {
        return Some(match object.kind.kind.as_str() {
            "Deployment" => Stage::Operator,
            "RoleBinding" => Stage::Rights,
            _ => Stage::Belongings,
        });
    }
    if of_a_class && object.namespace == ground.namespace {
        return Some(Stage::Belongings);
    }
    if object.owners.iter().any(|owner| ground.is_ours(owner)) {
        // Whoever else owns it decides about it.
        let is_ours_alone = object.owners.iter().all(|owner| ground.is_ours(owner));
        let goes = ground.choice == Choice::Purge && is_ours_alone;
        return Some(if goes { Stage::Dependents } else { Stage::Orphans });
    }
    let is_marked = object.annotations.iter().any(|key| ground.marks.contains(&key.as_str()));
    (object.kind.kind == "Namespace" && is_marked).then_some(Stage::Marks)
}

/// What an orphan keeps: owners that are not ours, and no mark of ours.
pub fn orphaned(metadata: &Value, ground: &Ground) -> Value {
    let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let is_ours = |owner: &&Value| {
        let group =
            owner["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
        let kind = Kind { group: group.to_owned(), kind: owner["kind"].as_str().unwrap_or_default().to_owned() };
        ground.is_ours(&kind)
    };
    let owners: Vec<_> = owners.filter(|owner| !is_ours(owner)).cloned().collect();
    json!({ "ownerReferences": owners, "labels": without(&metadata["labels"], ground), "annotations": without(&metadata["annotations"], ground) })
}

/// In a merge patch: each of our marks that is there is taken away.
pub fn without(marks: &Value, ground: &Ground) -> Value {
    let ours = marks.as_object().into_iter().flatten().map(|(key, _)| key);
    ours.filter(|key| ground.marks.contains(&key.as_str())).map(|key| (key.clone(), Value::Null)).collect()
}

#[cfg(test)]
mod tests;
