//! Class -> its status: observes for [`croft_core::namespaces::class`].

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use croft_api::namespaces::{NamespaceClass, OnClassDelete, validate};
use croft_core::{
    conditions::Condition,
    namespaces::{
        class::{self, ClassStep, Kind, Observed, Progress},
        gate,
        sight::Presence,
    },
    plan::{Failure, Outcome, Plan},
    problem::Problem,
    time::Timestamp,
};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::{Resource, ResourceExt};

use super::{
    CLASS, CLASS_INDEX, Caches,
    described::orphans,
    inquiry::UNABLE,
    kinds::Kinds,
    revisions::{Revision, Revisions},
    stamped::Stamps,
};
use crate::{
    conditions,
    engine::{Cache, Clock, Key, Reconciler, Report, Work, Writer, Written, events::Note, is_deleting},
    objects,
};

/// Holds a class whose deletion needs our help.
pub(crate) const FINALIZER: &str = "namespaceclass.akuity.io/in-use";

#[derive(Debug)]
pub(super) struct ClassReconciler {
    pub(super) caches: Caches,
    pub(super) writer: Writer,
    pub(super) kinds: Kinds,
    pub(super) stamps: Stamps,
    pub(super) revisions: Revisions,
    pub(super) gates: Arc<Cache<ValidatingAdmissionPolicyBinding>>,
    pub(super) progress: Mutex<Progress>,
    pub(super) clock: Clock,
}

#[derive(Debug)]
pub(super) struct Seen {
    class: Arc<NamespaceClass>,
    observed: Observed,
}

impl ClassReconciler {
    /// Everything that is wrong with the class, and with what it says about its roll-outs.
    fn problems(&self, class: &NamespaceClass) -> Vec<Problem> {
        let checked = self.revisions.blueprints.of(class);
        let of_items = checked.as_ref().as_ref().err().into_iter().flatten().cloned();
        of_items.chain(validate::wishes(class).err().into_iter().flatten()).collect()
    }

    /// The kinds the class's items use, in any revision a namespace may have, as far as they are installed and namespaced.
    async fn uses(&self, class: &NamespaceClass, in_force: &[&Revision]) -> Result<BTreeSet<Kind>, Failure> {
        let mut uses = BTreeSet::new();
        let earlier = in_force.iter().flat_map(|revision| super::kinds_named_in(&revision.spec));
        let named: BTreeSet<_> = super::kinds_named_by(class).into_iter().chain(earlier).collect();
        for (api_version, kind) in named {
            match self.kinds.look_up(&api_version, &kind).await {
                Ok(kind) => uses.extend(kind.stampable()),
                // One kind that cannot be asked about is no reason to forget that it is used.
                Err(failure) if failure.reason == UNABLE => uses.extend(recorded(class, &api_version, &kind)),
                Err(failure) => return Err(failure),
            }
        }
        Ok(uses)
    }
}

impl ClassReconciler {
    /// Kinds of which objects of the class exist, or may exist.
    async fn live(&self, class: &NamespaceClass) -> Result<BTreeSet<Kind>, Failure> {
        let shown = self.stamps.kinds_of(&class.name_any());
        let recorded = super::kinds_in_use(std::iter::once(class));
        let mut live = BTreeSet::new();
        for kind in shown.union(&recorded) {
            let is_there = match Presence::of(&self.stamps.standing(kind), shown.contains(kind)) {
                Presence::No => false,
                Presence::Yes => true,
                Presence::IfServed => self.is_served(kind).await?,
            };
            live.extend(is_there.then(|| kind.clone()));
        }
        Ok(live)
    }

    /// Whether a kind is served in some version, as far as can be told: with it its objects are gone.
    async fn is_served(&self, kind: &Kind) -> Result<bool, Failure> {
        match self.kinds.look_up(&kind.api_version, &kind.kind).await {
            Ok(found) => Ok(found.stampable().is_some()),
            Err(failure) if failure.reason == UNABLE => Ok(true),
            Err(failure) => Err(failure),
        }
    }
}

impl ClassReconciler {
    /// Namespaces that are bound to another class now, and have something that this one leaves behind.
    fn left_by(&self, class: &NamespaceClass) -> Vec<String> {
        let name = class.name_any();
        if !is_deleting(class.meta()) || !orphans(class) {
            return Vec::new();
        }
        let is_bound_elsewhere = |(namespace, owner): &(String, Arc<str>)| {
            let binding = self.caches.bindings.get(namespace, namespace);
            binding.is_some_and(|binding| binding.spec.class_name != name && binding.uid().as_deref() == Some(&**owner))
        };
        let left = self.stamps.owners_of(&name).into_iter().filter(is_bound_elsewhere);
        left.map(|(namespace, _)| namespace).collect()
    }
}

/// A kind as the class has recorded it.
fn recorded(class: &NamespaceClass, api_version: &str, kind: &str) -> Option<Kind> {
    let recorded = super::kinds_in_use(std::iter::once(class));
    recorded.into_iter().find(|recorded| recorded.api_version == api_version && recorded.kind == kind)
}

/// What people hear of in an Event when it begins.
const WORTH_AN_EVENT: [&str; 6] =
    ["RolloutStopped", "DeletionsUnconfirmed", "RevisionNotKept", gate::NOT_RAISED, gate::LEFT, class::DELETING];

impl Reconciler for ClassReconciler {
    type Seen = Seen;
    type Step = ClassStep;

    fn work(&self) -> Work {
        CLASS
    }

    fn all(&self) -> Vec<Key> {
        self.caches.classes.all().iter().map(|class| Key::cluster(CLASS, class.name_any())).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        // What is stored in another form than it once had is not judged by that.
        let Some(class) = self.caches.classes.as_stored("", &key.name) else { return Ok(None) };
        let mut bindings = self.caches.bindings.by(CLASS_INDEX, &key.name);
        // Only the binding named like its namespace counts.
        bindings.retain(|binding| binding.namespace().as_ref() == Some(&binding.name_any()));
        let edition = self.edition(&class);
        let mut observed = Observed {
            name: key.name.clone(),
            generation: class.metadata.generation.unwrap_or_default(),
            deleting: is_deleting(class.meta()),
            held: class.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
            must_hold: class.spec.policy.on_class_delete != OnClassDelete::Delete || orphans(&class),
            problems: self.problems(&class),
            resources: i64::try_from(class.spec.resources.len()).unwrap_or(i64::MAX),
            uses: self.uses(&class, &edition.in_force(&bindings)).await?,
            live: self.live(&class).await?,
            namespaces: bindings.iter().map(|binding| self.bound(binding, &edition)).collect(),
            left_by: self.left_by(&class),
            gate: self.see_gate(&class),
            rollout: self.see_rollout(&edition),
            status: objects::status(class.status.as_ref()),
        };
        self.count_deletions(&mut observed, &class, &bindings);
        Ok(Some(Seen { class, observed }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<ClassStep> {
        class::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &ClassStep) -> Result<Written, Failure> {
        match step {
            ClassStep::Hold => self.writer.add_finalizer(&*seen.class, FINALIZER).await,
            ClassStep::LetGo => self.writer.release_finalizer(&*seen.class, FINALIZER).await,
            ClassStep::Gate(step) => self.set_gate(&seen.class, step).await,
            ClassStep::RollOut(step) => self.roll_out(&seen.class, step).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&ClassStep, Outcome)], now: &Timestamp) -> Report {
        let is_gone = |(step, outcome): &(&ClassStep, Outcome)| **step == ClassStep::LetGo && outcome.is_done();
        if outcomes.iter().any(is_gone) {
            return Report::default();
        }
        let observed = class::after(&seen.observed, outcomes);
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, next) = class::tell(&seen.class.name_any(), &observed, &mut progress, now, self.clock.now());
        drop(progress);
        let told = &seen.observed.status.conditions;
        let said = status.iter().flat_map(|status| &status.conditions.0);
        let is_worth_it = |said: &&Condition| match said.kind.as_str() {
            "Accepted" => said.reason == "InvalidClass",
            _ => WORTH_AN_EVENT.contains(&said.reason.as_str()),
        };
        let news = said.filter(is_worth_it).filter(|said| told.reason(&said.kind) != Some(&said.reason));
        let events = news.map(|said| Note::warning(&said.reason, &said.message)).collect();
        // What another replica has released meanwhile stays released.
        let version = seen.class.resource_version().unwrap_or_default();
        Report { next, ..Report::on(&*seen.class, status.as_ref(), events).only_at(&version) }
    }

    fn unseen(&self, key: &Key, failure: &Failure, now: &Timestamp) -> Report {
        let class = self.caches.classes.as_stored("", &key.name);
        class.map_or_else(Report::default, |class| {
            let version = class.resource_version().unwrap_or_default();
            conditions::unseen(&*class, class.status.as_ref(), failure, now).only_at(&version)
        })
    }
}
