//! Binding -> resources: observes for [`croft_core::namespaces::resources`] and carries out its steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding};
use croft_core::{
    budget::{Appointments, Budget},
    namespaces::{
        inventory::Status,
        manifest::Identity,
        resources::{
            self, Binding, ClassSeen, Contests, Held, KindName, KindSeen, Observed, ResourceStep, Routine, Stamped,
        },
        sight,
        template::Facts,
        witness::{Care, Seal},
    },
    plan::{Failure, FailureClass, Outcome, Plan},
    time::Timestamp,
};
use k8s_openapi::api::core::v1;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, PartialObjectMeta},
};
use serde_json::{Value, json};

use super::{
    BINDING, Caches,
    absences::Absences,
    binding::is_system,
    described::{described_binding, described_namespace, facts, orphans, present, stamped_entry},
    entries::Entry,
    inquiry::UNABLE,
    kinds::{Kinds, ServedKind},
    reads::{Reads, read_doubtful},
    revisions::{InForce, Revisions},
    seal::SharedSeal,
    stamped::Stamps,
    stamping::Stamper,
};
use crate::{
    conditions,
    engine::{Clock, Key, Reconciler, Report, Target, Work, Written, events::Note, write::read},
    parts::Ground,
};

/// However many objects others change at once, this many namespaces are read in one go, then one every while.
const READS: u32 = 100;
const READ_EVERY: Duration = Duration::from_millis(20);
/// Of these, one namespace has no more than so many in one go, then one every while.
const READS_OF_ONE: u32 = 10;
const READ_ONE_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct ResourcesReconciler {
    caches: Caches,
    ground: Ground,
    kinds: Kinds,
    stamps: Stamps,
    seal: SharedSeal,
    /// Status that is not written yet, by namespace.
    held: Mutex<BTreeMap<String, Held>>,
    routine: Mutex<Routine>,
    reads: Mutex<Appointments<String>>,
    places: Reads,
    contests: Mutex<Contests>,
    clock: Clock,
    revisions: Revisions,
    absences: Absences,
}

#[derive(Debug)]
pub(super) struct Seen {
    binding: Arc<NamespaceClassBinding>,
    /// The status as it is written; the observed one may be ahead of it.
    stored: Status,
    observed: Observed,
    kinds: BTreeMap<KindName, ServedKind>,
    stamper: Stamper,
}

impl ResourcesReconciler {
    pub(super) fn new(
        caches: Caches,
        ground: &Ground,
        kinds: Kinds,
        stamps: Stamps,
        seal: SharedSeal,
        absences: Absences,
        revisions: Revisions,
    ) -> Self {
        Self {
            caches,
            ground: ground.clone(),
            kinds,
            stamps,
            seal,
            held: Mutex::default(),
            routine: Mutex::default(),
            reads: Mutex::new(Appointments::new(READS, READ_EVERY, Budget::new(READS_OF_ONE, READ_ONE_EVERY))),
            places: Reads::default(),
            contests: Mutex::default(),
            clock: Clock::start(),
            revisions,
            absences,
        }
    }

    /// Works on what is held back of a namespace's status.
    fn with_held<T>(&self, namespace: &str, work: impl FnOnce(&mut Option<Held>) -> T) -> T {
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = all.remove(namespace);
        let result = work(&mut held);
        if let Some(held) = held {
            all.insert(namespace.to_owned(), held);
        }
        result
    }

    fn with_contests<T>(&self, work: impl FnOnce(&mut Contests) -> T) -> T {
        work(&mut self.contests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The class, and only after a live look "gone": deleting on the word of a cache is how things get lost.
    async fn class(
        &self,
        binding: &NamespaceClassBinding,
        stamper: &Stamper,
        bound: &Binding,
        namespace: &Facts,
    ) -> Result<ClassSeen, Failure> {
        let name = binding.spec.class_name.as_str();
        if let Some(class) = self.caches.classes.as_stored("", name) {
            let InForce { class, checked, revision, withheld } = self.revisions.in_force(&class, binding);
            let mut seen = present(&class, &checked, &stamper.seal, bound, namespace);
            if let ClassSeen::Present(class) = &mut seen {
                (class.revision, class.withheld) = (revision, withheld);
            }
            return Ok(seen);
        }
        if self.caches.classes.exists("", name) {
            return Ok(ClassSeen::Unreadable);
        }
        let api: Api<PartialObjectMeta<NamespaceClass>> = Api::all(self.ground.writer.client());
        let look = async { Ok(read(api.get_opt(name)).await?.is_none()) };
        let is_gone = self.absences.is_gone(name, look).await?;
        // It may have come while others looked.
        Ok(if is_gone && !self.caches.classes.exists("", name) { ClassSeen::Gone } else { ClassSeen::Unreadable })
    }

    /// What wanted objects were last applied as, as far as the classes they are of still keep that.
    fn learn_former(&self, seen: &mut Observed, seal: &Seal, namespace: &Facts) {
        if !seen.lacks_former() {
            return;
        }
        let status = &seen.binding.status;
        let in_force = status.observed_revision.clone();
        let names: BTreeSet<_> = status.classes().chain(status.observed_class_name.as_deref()).collect();
        let classes = names.into_iter().filter_map(|name| self.caches.classes.as_stored("", name));
        let classes: Vec<_> = classes.collect();
        for then in classes.iter().flat_map(|class| self.revisions.kept(class, in_force.as_deref())) {
            if let ClassSeen::Present(then) = present(&then.class, &then.checked, seal, &seen.binding, namespace) {
                seen.learn_former(then.items);
            }
            if !seen.lacks_former() {
                return;
            }
        }
    }

    fn unknown_class(&self, namespace: &v1::Namespace, bound: &str) -> Option<String> {
        let label = namespace.labels().get(CLASS_LABEL).filter(|label| !label.is_empty() && *label != bound)?;
        (!self.caches.classes.exists("", label)).then(|| label.clone())
    }

    fn is_relabelled(&self, namespace: &v1::Namespace, bound: &str) -> bool {
        namespace.labels().get(CLASS_LABEL).is_some_and(|label| label != bound && self.caches.can_be_chosen(label))
    }

    /// Whether objects of a class stay where it is no longer wanted. A class that cannot be read may say so.
    fn orphans(&self, class: &str) -> bool {
        match self.caches.classes.as_stored("", class) {
            Some(class) => orphans(&class),
            None => self.caches.classes.exists("", class),
        }
    }

    /// A kind as its watch lets it be seen.
    fn kind_seen(&self, class: &ClassSeen, name: &KindName, kind: &ServedKind) -> Result<KindSeen, Failure> {
        let Some(stampable) = kind.stampable() else { return Ok(kind.seen.clone()) };
        let is_recorded = match class {
            ClassSeen::Present(class) => class.recorded_kinds.contains(name),
            ClassSeen::Gone | ClassSeen::Unreadable => false,
        };
        let names = (name.1.as_str(), kind.resource.plural.as_str());
        sight::through_watch(&kind.seen, names, self.stamps.standing(&stampable), is_recorded)
    }

    /// Adds the kinds that are not there yet.
    fn add_seen(
        &self,
        seen: &mut BTreeMap<KindName, KindSeen>,
        class: &ClassSeen,
        found: &KindsFound,
    ) -> Result<(), Failure> {
        for (name, kind) in &found.kinds {
            if !seen.contains_key(name) {
                seen.insert(name.clone(), self.kind_seen(class, name, kind)?);
            }
        }
        for (name, why) in &found.unable {
            seen.entry(name.clone()).or_insert_with(|| KindSeen::Unobservable { why: why.clone() });
        }
        Ok(())
    }

    fn doubt_vanished(&self, kinds: &mut BTreeMap<KindName, KindSeen>, namespace: &str) {
        for (name, seen) in kinds {
            sight::doubt(seen, &name.1, || self.stamps.shows_served(name, namespace));
        }
    }

    fn stamped(&self, namespace: &str, binding_uid: &str) -> BTreeMap<Identity, Stamped> {
        let objects = self.stamps.in_namespace(namespace).into_iter();
        let described = |entry: Entry| {
            let orphan = self.orphans(&entry.class);
            stamped_entry(entry, orphan, binding_uid)
        };
        objects.map(|(identity, entry)| (identity, described(entry))).collect()
    }

    /// Reads what the watches cannot tell, at a pace.
    async fn read_doubtful(&self, observed: &mut Observed, seen: &KindsFound, seal: &Seal) -> Result<(), Failure> {
        if observed.to_read().is_empty() {
            return Ok(());
        }
        let wait = {
            let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
            reads.wait(&observed.namespace.name, self.clock.now())
        };
        if !wait.is_zero() {
            return Err(Failure::new(FailureClass::Early { wait }, "Paced", "many objects were changed at once"));
        }
        read_doubtful(&self.ground.writer.client(), &self.places, observed, &seen.kinds, seal).await
    }
}

/// Whatever is decided about a namespace is decided by its labels.
fn unreadable(key: &Key) -> Failure {
    let message = format!(
        "namespace {} cannot be read, and nothing is done in it: it is too large; remove labels or annotations",
        key.namespace
    );
    Failure::new(FailureClass::Rejected, "NamespaceUnreadable", message)
}

/// What discovery says about the kinds of a binding.
#[derive(Debug, Default)]
pub(crate) struct KindsFound {
    pub(crate) kinds: BTreeMap<KindName, ServedKind>,
    /// Kinds that cannot be asked about, and why.
    pub(crate) unable: BTreeMap<KindName, String>,
}

impl KindsFound {
    /// Asks about those of the kinds it does not know yet.
    pub(crate) async fn look_up(&mut self, known: &Kinds, names: BTreeSet<KindName>) -> Result<(), Failure> {
        for name in names {
            if self.kinds.contains_key(&name) || self.unable.contains_key(&name) {
                continue;
            }
            match known.look_up(&name.0, &name.1).await {
                Ok(kind) => drop(self.kinds.insert(name, kind)),
                Err(failure) if failure.reason == UNABLE => drop(self.unable.insert(name, failure.message)),
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}

/// The kinds of wanted and of recorded objects; and those of which the class may have made some that are not recorded yet.
pub(crate) fn kinds_named(seen: &ClassSeen, status: &Status) -> BTreeSet<KindName> {
    let (items, of_class) = match seen {
        ClassSeen::Present(class) => (class.items.as_slice(), class.recorded_kinds.clone()),
        ClassSeen::Gone | ClassSeen::Unreadable => (&[][..], BTreeSet::new()),
    };
    let wanted = items.iter().map(|item| (item.api_version.clone(), item.identity.kind.clone()));
    let recorded = status.applied_resources.iter().map(|applied| (applied.api_version.clone(), applied.kind.clone()));
    wanted.chain(recorded).chain(of_class).collect()
}

/// The kinds of objects that are there: a watch may show them in another version than the one they were made in.
pub(crate) fn kinds_there(stamped: &BTreeMap<Identity, Stamped>) -> BTreeSet<KindName> {
    stamped.iter().map(|(identity, object)| (object.api_version.clone(), identity.kind.clone())).collect()
}

/// One step of the plan is one call.
pub(crate) async fn carry_out(
    stamper: &Stamper,
    observed: &resources::Namespace,
    kinds: &BTreeMap<KindName, ServedKind>,
    step: &ResourceStep,
) -> Result<Written, Failure> {
    let namespace = observed.name.as_str();
    match step {
        ResourceStep::ApplyNamespaceMetadata { metadata, .. } => {
            let metadata = json!({ "labels": metadata.labels, "annotations": metadata.annotations });
            stamper.furnish_namespace(Target { namespace: "", name: namespace, uid: &observed.uid }, &metadata).await
        }
        ResourceStep::PutBackNamespaceMetadata { metadata } => stamper.put_back(observed, metadata).await,
        ResourceStep::KeepNamespaceMetadata { metadata, holder } => {
            let metadata = json!({ "labels": metadata.labels, "annotations": metadata.annotations });
            let target = Target { namespace: "", name: namespace, uid: &observed.uid };
            stamper.keep_on_namespace(target, &metadata, holder).await
        }
        ResourceStep::ForgetNotes { notes } => {
            let annotations: BTreeMap<_, _> = notes.iter().map(|note| (note, Value::Null)).collect();
            let target = Target { namespace: "", name: namespace, uid: &observed.uid };
            let patch = json!({ "metadata": { "annotations": annotations } });
            stamper.writer.merge::<v1::Namespace>(target, None, patch).await
        }
        ResourceStep::Create { identity, api_version, manifest, .. } => {
            stamper.create(resource_of(kinds, api_version, identity)?, namespace, manifest).await
        }
        ResourceStep::Apply { identity, api_version, uid, manifest, former, .. } => {
            let resource = resource_of(kinds, api_version, identity)?;
            let target = Target { namespace, name: &identity.name, uid };
            stamper.apply(resource, target, manifest, former.as_deref()).await
        }
        ResourceStep::TakeFields { identity, api_version, uid, version, fields } => {
            let resource = resource_of(kinds, api_version, identity)?;
            let target = Target { namespace, name: &identity.name, uid };
            let patch = json!({ "metadata": { "managedFields": fields } });
            stamper.merge(resource, target, version, patch).await
        }
        ResourceStep::Strip { identity, api_version, uid, version, manifest, excess } => {
            let resource = resource_of(kinds, api_version, identity)?;
            let target = Target { namespace, name: &identity.name, uid };
            stamper.strip(resource, target, version, excess.clone(), manifest).await
        }
        ResourceStep::LetGo { identity, api_version, uid, version, left } => {
            let resource = resource_of(kinds, api_version, identity)?;
            stamper.let_go(resource, Target { namespace, name: &identity.name, uid }, version.as_deref(), left).await
        }
        ResourceStep::Release { identity, api_version, uid, version, owners } => {
            let resource = resource_of(kinds, api_version, identity)?;
            let target = Target { namespace, name: &identity.name, uid };
            stamper.merge(resource, target, version, released(owners)).await
        }
        ResourceStep::Rehearse { identity, api_version, manifest } => {
            stamper.rehearse(resource_of(kinds, api_version, identity)?, namespace, manifest).await
        }
        ResourceStep::Prune { identity, api_version, uid, version, .. } => {
            let resource = resource_of(kinds, api_version, identity)?;
            stamper.delete(resource, Target { namespace, name: &identity.name, uid }, version.as_deref()).await
        }
        ResourceStep::DeleteBinding { uid, version, .. } => {
            let target = Target { namespace, name: namespace, uid };
            stamper.writer.delete::<NamespaceClassBinding>(target, Some(version)).await
        }
    }
}

/// How the kind of an object is reached.
pub(crate) fn resource_of<'k>(
    kinds: &'k BTreeMap<KindName, ServedKind>,
    api_version: &str,
    identity: &Identity,
) -> Result<&'k ApiResource, Failure> {
    let kind = kinds.get(&(api_version.to_owned(), identity.kind.clone())).map(|kind| &kind.resource);
    kind.ok_or_else(|| Failure::new(FailureClass::Stale, "NotServed", format!("{} is not served", identity.kind)))
}

impl Reconciler for ResourcesReconciler {
    type Seen = Seen;
    type Step = ResourceStep;

    fn work(&self) -> Work {
        BINDING
    }

    fn all(&self) -> Vec<Key> {
        self.caches.bindings.all().iter().map(|binding| super::binding_key(binding)).collect()
    }

    async fn observe(&self, key: &Key) -> Result<Option<Seen>, Failure> {
        // Only the binding named like its namespace counts: another one is nobody's wish.
        if key.name != key.namespace {
            return Ok(None);
        }
        let Some(binding) = self.caches.bindings.get(&key.namespace, &key.name) else {
            self.with_held(&key.namespace, |held| *held = None);
            return Ok(None);
        };
        let Some(namespace) = self.caches.namespaces.as_stored("", &key.namespace) else {
            return if self.caches.namespaces.exists("", &key.namespace) { Err(unreadable(key)) } else { Ok(None) };
        };
        let Some(seal) = self.seal.get().cloned() else {
            return Err(Failure::new(FailureClass::Stale, "NoKey", "the key of digests is not known yet"));
        };
        let stamper = Stamper { writer: self.ground.writer.clone(), seal, care: Care::default() };
        let uid = binding.uid().unwrap_or_default();
        let class_name = binding.spec.class_name.clone();
        let mut bound = described_binding(&binding);
        let stored = bound.status;
        bound.status = self.with_held(&key.namespace, |held| resources::current(held, &uid, &stored));
        let class = self.class(&binding, &stamper, &bound, &facts(&namespace)).await?;
        let stamper = Stamper { care: class.care(), ..stamper };
        let mut found = KindsFound::default();
        found.look_up(&self.kinds, kinds_named(&class, &bound.status)).await?;
        let mut kinds = BTreeMap::new();
        // Where a watch stands is asked before what it shows: one that ends its list in between has shown half of it.
        self.add_seen(&mut kinds, &class, &found)?;
        let objects = self.stamped(&key.namespace, &uid);
        found.look_up(&self.kinds, kinds_there(&objects)).await?;
        self.add_seen(&mut kinds, &class, &found)?;
        self.doubt_vanished(&mut kinds, &key.namespace);
        let mut observed = Observed {
            namespace: described_namespace(
                &namespace,
                self.is_relabelled(&namespace, &class_name),
                is_system(&self.ground.settings.load(), Some(&self.ground.operator_namespace), &key.namespace),
            ),
            unknown_class: self.unknown_class(&namespace, &class_name),
            stamped: objects,
            orphan_unstamped: self.orphans(bound.status.observed_class_name.as_deref().unwrap_or(&class_name)),
            keeping: bound.status.classes().filter(|class| self.orphans(class)).map(str::to_owned).collect(),
            binding: bound,
            class,
            kinds,
            resting: self.with_contests(|contests| contests.resting(&key.namespace, self.clock.now())),
            ..Observed::default()
        };
        observed.forget_vanished();
        self.learn_former(&mut observed, &stamper.seal, &facts(&namespace));
        self.read_doubtful(&mut observed, &found, &stamper.seal).await?;
        Ok(Some(Seen { binding, stored, observed, kinds: found.kinds, stamper }))
    }

    fn plan(&self, seen: &Seen, _now: &Timestamp) -> Plan<ResourceStep> {
        resources::plan(&seen.observed)
    }

    async fn execute(&self, seen: &Seen, step: &ResourceStep) -> Result<Written, Failure> {
        let written = carry_out(&seen.stamper, &seen.observed.namespace, &seen.kinds, step).await;
        if let (Err(failure), Some((api_version, _))) = (&written, step.kind_name())
            && matches!(failure.reason, "NotFound" | "NotServed")
        {
            // What is known about the kind may be old: it is asked about again.
            self.kinds.forget(api_version);
        }
        written
    }

    fn report(&self, seen: &Seen, outcomes: &[(&ResourceStep, Outcome)], now: &Timestamp) -> Report {
        let observed = &seen.observed;
        let corrected = self.with_contests(|contests| contests.note(observed, outcomes, self.clock.now()));
        let mut routine = self.routine.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.with_held(&observed.namespace.name, |held| {
            resources::tell(observed, &seen.stored, outcomes, held, &mut routine, now, self.clock.now())
        });
        drop(routine);
        let corrected = corrected.iter().map(|message| Note::normal("DriftCorrected", message));
        let events = told.event.map(|(warning, reason, message)| Note { warning, reason, message });
        let events = events.into_iter().chain(corrected);
        // What another replica has recorded meanwhile must not be forgotten: an adoption above all.
        let report =
            Report::on(&*seen.binding, told.status.as_ref(), events.collect()).only_at(&observed.binding.version);
        Report { next: told.next, retry: told.retry, ..report }
    }

    fn unseen(&self, key: &Key, failure: &Failure, now: &Timestamp) -> Report {
        let binding = self.caches.bindings.get(&key.namespace, &key.name);
        binding.map_or_else(Report::default, |binding| {
            let version = binding.resource_version().unwrap_or_default();
            conditions::unseen(&*binding, binding.status.as_ref(), failure, now).only_at(&version)
        })
    }
}

/// A patch that makes an object nobody's again: our owner reference and our labels go, the rest stays.
fn released(other_owners: &Value) -> Value {
    use croft_api::namespaces::{PROTECTED_LABEL, STAMP_LABEL};
    json!({ "metadata": {
        "ownerReferences": other_owners,
        "labels": { STAMP_LABEL: null, PROTECTED_LABEL: null },
    } })
}
