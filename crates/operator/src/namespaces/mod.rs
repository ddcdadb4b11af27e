//! Namespaces furnished from a class: what is watched, and which change wakes whom.

mod absences;
mod author;
pub(crate) mod binding;
pub(crate) mod blueprints;
mod class;
mod controller;
pub(crate) mod described;
pub(crate) mod entries;
pub mod fences;
pub(crate) mod fields;
mod gate;
mod grants;
mod hooks;
mod inquiry;
mod installed;
pub(crate) mod kinds;
mod live;
mod manifests;
pub(crate) mod reads;
pub(crate) mod resources;
pub(crate) mod revisions;
mod rollout;
pub(crate) mod seal;
pub(crate) mod stamped;
pub(crate) mod stamping;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use croft_api::namespaces::{
    CLASS_LABEL, CONFIRM_ANNOTATION, NamespaceClass, NamespaceClassBinding, NamespaceClassSpec, REVISION_LABEL,
    StampedKind,
};
use croft_core::{
    journal::Pace,
    namespaces::{class::Kind, manifest::group_of, resources::KindName, rollout::name_of},
    queue::Priority,
};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Namespace};
use kube::{Resource, ResourceExt};

use self::{
    absences::Absences,
    author::Authors,
    binding::BindingReconciler,
    blueprints::Blueprints,
    class::ClassReconciler,
    gate::Gates,
    kinds::Kinds,
    resources::ResourcesReconciler,
    revisions::{REVISION_INDEX, Revisions},
    seal::SharedSeal,
    stamped::Stamps,
};
use crate::{
    engine::{
        Cache, Change, Clock, EngineBuilder, Journal, Key, Part, Pusher, Work, is_deleting,
        watch::{place_of, revision_of},
        write::resource_name,
    },
    panics::essential,
    parts::{Definition, Ground},
    rbac::{Use, Within},
    roles::TenantKinds,
};

pub(crate) use self::{class::FINALIZER, seal::KEY_SECRET};

const NAMESPACES: Part = Part("namespaces");

/// Namespace -> binding.
const NAMESPACE: Work = NAMESPACES.work("namespace");
/// Binding -> resources.
const BINDING: Work = NAMESPACES.work("namespaceclassbinding");
/// Class -> its status.
const CLASS: Work = NAMESPACES.work("namespaceclass");

/// What happens to a binding's objects together is looked at together: a moment after the last change, but soon.
const CALM: Pace = Pace { calm: Duration::from_millis(100), most: Duration::from_secs(1) };

/// One call deletes many objects, and a busy API server takes its time between them: made again in halves they would be reported
/// in halves. A namespace that has lost everything is not waited for.
const LOSS: Pace = Pace { calm: Duration::from_millis(300), most: Duration::from_secs(3) };

/// While a class rolls out every namespace changes several times: it counts them once for all that change meanwhile.
const RECOUNT: Pace = Pace { calm: Duration::from_millis(100), most: Duration::from_secs(1) };

const CLASS_INDEX: &str = "class";

/// Kinds every class may use without further rights; what a class needs beyond them an administrator grants.
const STAMP: &[&str] = &["create", "delete", "get", "list", "patch", "watch"];

/// The rights this part uses.
pub const USES: &[Use] = &[
    Use { group: "", resource: "namespaces", verbs: &["list", "patch", "watch"], within: Within::Cluster },
    Use {
        group: "akuity.io",
        resource: "namespaceclasses",
        verbs: &["get", "list", "patch", "watch"],
        within: Within::Cluster,
    },
    Use { group: "akuity.io", resource: "namespaceclasses/status", verbs: &["update"], within: Within::Cluster },
    Use {
        group: "akuity.io",
        resource: "namespaceclassbindings",
        // To read them is asked of whoever makes a gate judge by them.
        verbs: &["create", "delete", "get", "list", "patch", "watch"],
        within: Within::Cluster,
    },
    Use { group: "akuity.io", resource: "namespaceclassbindings/status", verbs: &["update"], within: Within::Cluster },
    Use {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicies",
        verbs: &["list", "watch"],
        within: Within::Cluster,
    },
    Use {
        group: "admissionregistration.k8s.io",
        resource: "validatingadmissionpolicybindings",
        // Never to change or delete one: the operator takes no fence down.
        verbs: &["create", "list", "watch"],
        within: Within::Cluster,
    },
    Use {
        group: "authorization.k8s.io",
        resource: "subjectaccessreviews",
        verbs: &["create"],
        within: Within::Cluster,
    },
    Use {
        group: "rbac.authorization.k8s.io",
        resource: "clusterroles",
        verbs: &["list", "watch"],
        within: Within::Cluster,
    },
    Use {
        group: "apps",
        resource: "controllerrevisions",
        verbs: &["create", "delete", "list", "patch", "watch"],
        within: Within::OperatorNamespace,
    },
    Use { group: "", resource: "configmaps", verbs: STAMP, within: Within::Cluster },
    Use { group: "", resource: "secrets", verbs: STAMP, within: Within::Cluster },
    Use { group: "", resource: "services", verbs: STAMP, within: Within::Cluster },
    Use { group: "", resource: "serviceaccounts", verbs: STAMP, within: Within::Cluster },
    Use { group: "", resource: "resourcequotas", verbs: STAMP, within: Within::Cluster },
    Use { group: "", resource: "limitranges", verbs: STAMP, within: Within::Cluster },
    Use { group: "networking.k8s.io", resource: "networkpolicies", verbs: STAMP, within: Within::Cluster },
    Use { group: "s3.snappcloud.io", resource: "s3userclaims", verbs: STAMP, within: Within::Cluster },
    Use { group: "s3.snappcloud.io", resource: "s3buckets", verbs: STAMP, within: Within::Cluster },
    Use {
        group: "oadp.openshift.io",
        resource: "nonadminbackupstoragelocations",
        verbs: STAMP,
        within: Within::Cluster,
    },
];

/// The part as a whole.
pub(crate) const PART: Definition = Definition {
    part: NAMESPACES,
    groups: &["akuity.io"],
    uses: USES,
    tenants: &[TenantKinds { group: "akuity.io", viewed: &["namespaceclassbindings"], edited: &[] }],
    hooks: hooks::HOOKS,
    manifests: manifests::manifests,
    install,
};

/// The caches both reconcilers read.
#[derive(Clone, Debug)]
struct Caches {
    namespaces: Arc<Cache<Namespace>>,
    classes: Arc<Cache<NamespaceClass>>,
    bindings: Arc<Cache<NamespaceClassBinding>>,
}

impl Caches {
    /// Whether a class exists, readable or not, and is not on its way out.
    fn can_be_chosen(&self, class: &str) -> bool {
        match self.classes.as_stored("", class) {
            Some(class) => !is_deleting(class.meta()),
            None => self.classes.exists("", class),
        }
    }

    /// Something any binding may have waited for has happened: looks again at all of them, and at all classes.
    fn wake_all(&self, pusher: &Pusher) {
        self.wake(pusher, |_| true, |_| true);
    }

    /// As [`Caches::wake_all`], for what can concern only who uses kinds of these groups.
    fn wake_users_of(&self, groups: &BTreeSet<String>, pusher: &Pusher) {
        let is_one = |api_version: &str| groups.contains(group_of(api_version));
        let names_one = |class: &NamespaceClass| {
            let recorded = class.status.iter().flat_map(|status| &status.kinds);
            let mut recorded = recorded.map(|kind| kind.api_version.as_str());
            recorded.any(is_one) || kinds_named_by(class).iter().any(|(api_version, _)| is_one(api_version))
        };
        let has_one = |binding: &NamespaceClassBinding| {
            let made = binding.status.iter().flat_map(|status| &status.applied_resources);
            made.into_iter().any(|applied| is_one(&applied.api_version))
        };
        self.wake(pusher, names_one, has_one);
    }

    /// The groups of all kinds that classes name or have recorded, and of which bindings have objects on record.
    fn groups_in_use(&self) -> BTreeSet<String> {
        let mut groups = BTreeSet::new();
        let mut add = |api_version: &str| {
            let group = group_of(api_version);
            if !groups.contains(group) {
                groups.insert(group.to_owned());
            }
        };
        for class in self.classes.all() {
            for (api_version, _) in kinds_named_by(&class) {
                add(&api_version);
            }
            for kind in class.status.iter().flat_map(|status| &status.kinds) {
                add(&kind.api_version);
            }
        }
        for binding in self.bindings.all() {
            for applied in binding.status.iter().flat_map(|status| &status.applied_resources) {
                add(&applied.api_version);
            }
        }
        groups
    }

    /// Looks again at these classes, at what is bound to them, and at these bindings.
    fn wake(
        &self,
        pusher: &Pusher,
        is_meant: impl Fn(&NamespaceClass) -> bool,
        is_meant_itself: impl Fn(&NamespaceClassBinding) -> bool,
    ) {
        let classes = self.classes.all();
        let classes: BTreeSet<_> =
            classes.iter().filter(|class| is_meant(class)).map(|class| class.name_any()).collect();
        for class in &classes {
            pusher.push(Key::cluster(CLASS, class), Priority::RollOut);
        }
        for binding in self.bindings.all() {
            if classes.contains(&binding.spec.class_name) || is_meant_itself(&binding) {
                pusher.push(binding_key(&binding), Priority::RollOut);
            }
        }
    }
}

fn install(engine: &mut EngineBuilder, ground: &Ground) {
    let Ground { writer, operator_namespace, .. } = ground;
    let caches = Caches {
        namespaces: engine.namespaces(NAMESPACES),
        classes: engine.cluster_objects(NAMESPACES),
        bindings: engine.own_objects(NAMESPACES),
    };
    caches
        .namespaces
        .index(CLASS_INDEX, |namespace: &Namespace| namespace.labels().get(CLASS_LABEL).cloned().into_iter().collect());
    caches.bindings.index(CLASS_INDEX, |binding: &NamespaceClassBinding| vec![binding.spec.class_name.clone()]);

    caches.namespaces.wakes({
        let journal = engine.journal();
        move |change| woken_by_namespace(change, &journal)
    });
    caches.bindings.wakes({
        let journal = engine.journal();
        move |change| woken_by_binding(change, &journal)
    });
    let seal = SharedSeal::default();
    let finding = seal.clone().find(writer.clone(), operator_namespace.clone());
    tokio::spawn(essential("digest key", {
        let (caches, pusher) = (caches.clone(), engine.pusher());
        async move {
            finding.await;
            caches.wake_all(&pusher);
        }
    }));
    let stamps = Stamps::new(engine, seal.clone(), caches.clone());
    let (absences, blueprints) = (Absences::default(), Blueprints::default());
    let revisions = Revisions {
        cache: engine.own_objects_in(NAMESPACES, operator_namespace),
        blueprints: blueprints.clone(),
        namespace: operator_namespace.clone(),
    };
    revisions.cache.index(REVISION_INDEX, |revision: &ControllerRevision| class_of(revision).into_iter().collect());
    revisions.cache.wakes({
        let (caches, blueprints) = (caches.clone(), blueprints.clone());
        move |change| woken_by_revision(change, &caches, &blueprints)
    });
    let gates = Gates::watch(engine, caches.classes.clone());
    caches.classes.wakes({
        let (caches, stamps, pusher) = (caches.clone(), stamps.clone(), engine.pusher());
        let (journal, absences, blueprints) = (engine.journal(), absences.clone(), blueprints.clone());
        move |change: Change<'_, NamespaceClass>| {
            absences.forget(&change.object().name_any());
            if change.after.is_none() {
                blueprints.forget(&change.object().name_any());
            }
            let kinds = |class: Option<&NamespaceClass>| kinds_in_use(class.into_iter());
            stamps.class_changed(&kinds(change.before), &kinds(change.after));
            for key in concerned_by_class(change, &caches) {
                pusher.push(key, Priority::RollOut);
            }
            woken_by_class(change, &journal)
        }
    });

    let kinds = Kinds::new(engine.client());
    kinds.follow(&engine.kinds(), stamps.clone(), caches.clone(), engine.pusher());
    installed::compare(engine, ground);
    let (client, surroundings) = (engine.client(), engine.surroundings());
    grants::follow_grants(client, surroundings, stamps.clone(), caches.clone(), engine.pusher());
    engine.at_the_door(Arc::new(Authors { client: engine.client(), kinds: kinds.clone() }));
    engine.reconciler(BindingReconciler::new(caches.clone(), ground));
    engine.reconciler(ClassReconciler {
        caches: caches.clone(),
        writer: writer.clone(),
        kinds: kinds.clone(),
        stamps: stamps.clone(),
        revisions: revisions.clone(),
        gates,
        progress: Mutex::default(),
        clock: Clock::start(),
    });
    engine.reconciler(ResourcesReconciler::new(caches, ground, kinds, stamps, seal, absences, revisions));
}

/// The namespace itself and its binding; the classes its label names, when the changes are over, if they may count on it otherwise.
fn woken_by_namespace(change: Change<'_, Namespace>, journal: &Journal) -> Vec<Key> {
    let namespace = change.object();
    let counts = |namespace: &Namespace| (namespace.labels().clone(), is_deleting(namespace.meta()));
    if change.before.map(counts) != change.after.map(counts) {
        let (place, version) = (place_of(namespace.meta()), revision_of(namespace.meta()));
        for class in change.both().filter_map(|namespace| namespace.labels().get(CLASS_LABEL)) {
            let class = Key::cluster(CLASS, class);
            journal.saw(&class, &resource_name::<Namespace>(), &place, version, RECOUNT);
        }
    }
    let name = namespace.name_any();
    vec![Key::cluster(NAMESPACE, &name), Key::new(BINDING, &name, &name)]
}

/// The binding itself and its namespace; its class, when the changes are over, to count it.
fn woken_by_binding(change: Change<'_, NamespaceClassBinding>, journal: &Journal) -> Vec<Key> {
    let binding = change.object();
    let stream = resource_name::<NamespaceClassBinding>();
    let (place, version) = (place_of(binding.meta()), revision_of(binding.meta()));
    let had = change.both().filter_map(class_left);
    for class in change.both().map(|binding| binding.spec.class_name.clone()).chain(had) {
        let class = Key::cluster(CLASS, class);
        journal.saw(&class, &stream, &place, version, RECOUNT);
    }
    let [own, namespace] =
        [Key::new(BINDING, &place.namespace, &place.name), Key::cluster(NAMESPACE, &place.namespace)];
    if change.after.is_none() {
        journal.gone(&own, &stream, &place, CALM);
    } else if change.live && is_only_report(change) {
        journal.saw(&own, &stream, &place, version, CALM);
        return Vec::new();
    }
    vec![own, namespace]
}

/// The class a namespace has on record and is on its way out of.
fn class_left(binding: &NamespaceClassBinding) -> Option<String> {
    let had = binding.status.as_ref().and_then(|status| status.observed_class_name.clone());
    had.filter(|had| *had != binding.spec.class_name)
}

/// Whether only what the binding reports has changed, which we do ourselves all the time.
fn is_only_report(change: Change<'_, NamespaceClassBinding>) -> bool {
    let asks = |binding: &NamespaceClassBinding| (binding.uid(), binding.spec.clone(), is_deleting(binding.meta()));
    change.before.map(asks) == change.after.map(asks)
}

/// The class itself; where only its report has changed, when the changes are over: each count of a roll-out we write would
/// otherwise be followed by the next one at once.
fn woken_by_class(change: Change<'_, NamespaceClass>, journal: &Journal) -> Vec<Key> {
    let asks = |class: &NamespaceClass| {
        let (metadata, finalizers) = (class.meta(), class.finalizers().to_vec());
        let confirmed = class.annotations().get(CONFIRM_ANNOTATION).cloned();
        (metadata.uid.clone(), metadata.generation, is_deleting(metadata), finalizers, confirmed)
    };
    let class = change.object();
    let own = Key::cluster(CLASS, class.name_any());
    if change.live && change.before.map(asks) == change.after.map(asks) {
        let (place, version) = (place_of(class.meta()), revision_of(class.meta()));
        journal.saw(&own, &resource_name::<NamespaceClass>(), &place, version, RECOUNT);
        return Vec::new();
    }
    vec![own]
}

/// What is bound to the class, if more has changed than its report; what asks for it, if the answer may be another one now.
fn concerned_by_class(change: Change<'_, NamespaceClass>, caches: &Caches) -> Vec<Key> {
    let gives = |class: &NamespaceClass| {
        let status = class.status.as_ref();
        let kinds = status.map(|status| status.kinds.clone());
        let released = status.and_then(|status| status.revision.clone());
        let staged_since = status.and_then(|status| status.rollout.as_ref()?.staged_since);
        // An edit concerns nobody before it is released, but for what the class says about its own end and about leaving it.
        let edit = if released.is_none() { class.metadata.generation } else { None };
        let ends = (class.spec.policy.on_class_delete, class.spec.policy.on_unbind, is_deleting(class.meta()));
        (class.uid(), edit, ends, kinds, released, staged_since)
    };
    let can_be_chosen = |class: &NamespaceClass| (class.uid(), is_deleting(class.meta()));
    let name = change.object().name_any();
    let mut keys = Vec::new();
    if change.before.map(gives) != change.after.map(gives) {
        keys.extend(caches.bindings.by(CLASS_INDEX, &name).iter().map(|binding| binding_key(binding)));
    }
    if change.before.map(can_be_chosen) != change.after.map(can_be_chosen) {
        for namespace in caches.namespaces.by(CLASS_INDEX, &name) {
            let name = namespace.name_any();
            // Who asks for it in vain says so on the binding it has.
            keys.extend(caches.bindings.exists(&name, &name).then(|| Key::new(BINDING, &name, &name)));
            keys.push(Key::cluster(NAMESPACE, name));
        }
    }
    keys
}

/// The class a revision says it is of.
fn class_of(revision: &ControllerRevision) -> Option<String> {
    revision.labels().get(REVISION_LABEL).cloned()
}

/// The class; and those of its namespaces that have this revision where it is not the newest: they may have waited for it, or must
/// do without.
fn woken_by_revision(change: Change<'_, ControllerRevision>, caches: &Caches, blueprints: &Blueprints) -> Vec<Key> {
    let Some(name) = change.both().find_map(class_of) else { return Vec::new() };
    let mut keys = vec![Key::cluster(CLASS, &name)];
    let is_new = change.before.is_none() || change.after.is_none();
    let Some(class) = caches.classes.as_stored("", &name).filter(|_| change.live && is_new) else { return keys };
    let is_it = |digest: &str| change.object().name_any() == name_of(&name, digest);
    let released = class.status.as_ref().and_then(|status| status.revision.as_deref());
    let has_it = |binding: &NamespaceClassBinding| binding.spec.revision.as_deref().or(released).is_some_and(is_it);
    if !is_it(&blueprints.digest_of(&class)) {
        let bindings = caches.bindings.by(CLASS_INDEX, &name);
        keys.extend(bindings.iter().filter(|binding| has_it(binding)).map(|binding| binding_key(binding)));
    }
    keys
}

fn binding_key(binding: &NamespaceClassBinding) -> Key {
    Key::new(BINDING, binding.namespace().unwrap_or_default(), binding.name_any())
}

/// Every kind some class has recorded: what must be watched.
pub(crate) fn kinds_in_use<'a>(classes: impl Iterator<Item = &'a NamespaceClass>) -> BTreeSet<Kind> {
    let kinds = classes.flat_map(|class| class.status.iter().flat_map(|status| &status.kinds));
    let kind = |kind: &StampedKind| Kind {
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
        resource: kind.resource.clone(),
    };
    kinds.map(kind).collect()
}

/// `apiVersion` and `kind` of every item of a class.
pub(crate) fn kinds_named_by(class: &NamespaceClass) -> BTreeSet<KindName> {
    kinds_named_in(&class.spec)
}

/// As [`kinds_named_by`], of a class at some time.
fn kinds_named_in(spec: &NamespaceClassSpec) -> BTreeSet<KindName> {
    let text =
        |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let items = spec.resources.iter();
    items
        .map(|item| (text(item.get("apiVersion")), text(item.get("kind"))))
        .filter(|(version, kind)| !version.is_empty() && !kind.is_empty())
        .collect()
}
