//! Class -> its status: observes for [`croft_core::namespaces::class`].

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use croft_api::namespaces::{NamespaceClass, NamespaceClassBinding, OnClassDelete};
use croft_core::{
    namespaces::class::{self, Bound, ClassStep, Kind, Observed, Progress},
    plan::{Failure, Outcome, Plan},
    time::Timestamp,
    watching::Standing,
};
use kube::{Resource, ResourceExt};

use super::{CLASS, CLASS_INDEX, Caches, blueprints::Blueprints, inquiry::UNABLE, kinds::Kinds, stamped::Stamps};
use crate::{
    conditions,
    engine::{Clock, Key, Reconciler, Report, Work, Writer, Written, events::Note, is_deleting},
    objects,
};

/// Holds a class whose deletion needs our help.
pub(super) const FINALIZER: &str = "namespaceclass.akuity.io/in-use";

#[derive(Debug)]
pub(super) struct ClassReconciler {
    pub(super) caches: Caches,
    pub(super) writer: Writer,
    pub(super) kinds: Kinds,
    pub(super) stamps: Stamps,
    pub(super) blueprints: Blueprints,
    pub(super) progress: Mutex<Progress>,
    pub(super) clock: Clock,
}

#[derive(Debug)]
pub(super) struct Seen {
    class: Arc<NamespaceClass>,
    observed: Observed,
}

impl ClassReconciler {
    /// The kinds the class's items use, as far as they are installed and namespaced.
    async fn uses(&self, class: &NamespaceClass) -> Result<BTreeSet<Kind>, Failure> {
        let mut uses = BTreeSet::new();
        for (api_version, kind) in super::kinds_named_by(class) {
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
    /// Kinds of which objects of the class exist, or may exist: those whose watch has not told yet.
    async fn live(&self, class: &NamespaceClass) -> Result<BTreeSet<Kind>, Failure> {
        let recorded = super::kinds_in_use(std::iter::once(class)).into_iter();
        let is_hidden = |kind: &Kind| !matches!(self.stamps.standing(kind), Standing::Synced | Standing::NotServed);
        let shown = self.stamps.kinds_of(&class.name_any());
        let mut live = BTreeSet::new();
        for kind in shown.into_iter().chain(recorded.filter(is_hidden)) {
            // A watch that is refused cannot find that its kind is gone.
            let may_be_gone = matches!(self.stamps.standing(&kind), Standing::NotServed | Standing::Forbidden);
            if !may_be_gone || self.is_served(&kind).await? {
                live.insert(kind);
            }
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

/// A kind as the class has recorded it.
fn recorded(class: &NamespaceClass, api_version: &str, kind: &str) -> Option<Kind> {
    let recorded = super::kinds_in_use(std::iter::once(class));
    recorded.into_iter().find(|recorded| recorded.api_version == api_version && recorded.kind == kind)
}

/// One namespace as the class sees it.
fn bound(binding: &NamespaceClassBinding, class: &NamespaceClass) -> Bound {
    let status = binding.status.as_ref();
    let is_true = |kind: &str| {
        let mut conditions = status.iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == kind && condition.status == "True")
    };
    Bound {
        name: binding.namespace().unwrap_or_default(),
        updated: status.is_some_and(|status| {
            status.observed_class_uid == class.metadata.uid
                && status.observed_class_generation == class.metadata.generation
        }),
        ready: is_true("Ready").is_some(),
        stalled: is_true("Stalled").map(|condition| condition.reason.clone()),
    }
}

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
        let namespaces = self.caches.bindings.by(CLASS_INDEX, &key.name);
        let observed = Observed {
            generation: class.metadata.generation.unwrap_or_default(),
            deleting: is_deleting(class.meta()),
            held: class.finalizers().iter().any(|finalizer| finalizer == FINALIZER),
            must_hold: class.spec.policy.on_class_delete != OnClassDelete::Delete,
            problems: self.blueprints.of(&class).as_ref().as_ref().err().cloned().unwrap_or_default(),
            resources: i64::try_from(class.spec.resources.len()).unwrap_or(i64::MAX),
            uses: self.uses(&class).await?,
            live: self.live(&class).await?,
            // Only the binding named like its namespace counts.
            namespaces: namespaces
                .iter()
                .filter(|binding| binding.namespace().as_ref() == Some(&binding.name_any()))
                .map(|binding| bound(binding, &class))
                .collect(),
            status: objects::status(class.status.as_ref()),
        };
        Ok(Some(Seen { class, observed }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<ClassStep> {
        class::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &ClassStep) -> Result<Written, Failure> {
        match step {
            ClassStep::Hold => self.writer.add_finalizer(&*seen.class, FINALIZER).await,
            ClassStep::LetGo => self.writer.release_finalizer(&*seen.class, FINALIZER).await,
        }
    }

    fn report(&self, seen: &Seen, outcomes: &[(&ClassStep, Outcome)], now: &Timestamp) -> Report {
        if outcomes.iter().any(|(step, outcome)| **step == ClassStep::LetGo && outcome.is_done()) {
            return Report::default();
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (status, next) = class::tell(&seen.class.name_any(), &seen.observed, &mut progress, now, self.clock.now());
        drop(progress);
        let told = seen.observed.status.conditions.reason("Accepted");
        let events = status.iter().filter_map(|status| status.conditions.get("Accepted"));
        let events = events.filter(|accepted| accepted.reason == "InvalidClass" && told != Some(&accepted.reason));
        let events = events.map(|accepted| Note::warning("InvalidClass", &accepted.message)).collect();
        Report { next, ..Report::on(&*seen.class, status.as_ref(), events) }
    }

    fn unseen(&self, key: &Key, failure: &Failure, now: &Timestamp) -> Report {
        let class = self.caches.classes.as_stored("", &key.name);
        class.map_or_else(Report::default, |class| conditions::unseen(&*class, class.status.as_ref(), failure, now))
    }
}
