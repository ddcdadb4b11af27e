//! Namespaces furnished from a class: what is watched, and which change wakes whom.

pub(crate) mod binding;
pub(crate) mod blueprints;
mod class;
pub mod fences;
pub(crate) mod kinds;
mod news;
pub(crate) mod resources;
pub(crate) mod stamped;
mod unreported;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding, StampedKind};
use croft_core::{
    namespaces::{class::Kind, resources::KindName},
    queue::Priority,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};

use self::{
    binding::BindingReconciler,
    blueprints::Blueprints,
    class::ClassReconciler,
    kinds::Kinds,
    news::News,
    resources::ResourcesReconciler,
    stamped::{Stamps, version_of},
    unreported::Unreported,
};
use crate::{
    engine::{Cache, Change, EngineBuilder, Key, Later, Part, Pusher, Scope, Work, Writer, is_deleting},
    rbac::{Use, Within},
    settings::SharedSettings,
};

/// Namespace -> binding.
const NAMESPACE: Work = Part::Namespaces.work("namespace");
/// Binding -> resources.
const BINDING: Work = Part::Namespaces.work("namespaceclassbinding");
/// Class -> its status.
const CLASS: Work = Part::Namespaces.work("namespaceclass");

/// What happens to a binding's objects together is looked at together: a moment after the last change, but soon.
const CALM: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_millis(500);

/// While a class rolls out every namespace changes several times: it counts them once for all that change meanwhile.
const RECOUNT: Duration = Duration::from_millis(100);

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
    Use { group: "akuity.io", resource: "namespaceclasses/status", verbs: &["patch"], within: Within::Cluster },
    Use {
        group: "akuity.io",
        resource: "namespaceclassbindings",
        verbs: &["create", "delete", "list", "patch", "watch"],
        within: Within::Cluster,
    },
    Use { group: "akuity.io", resource: "namespaceclassbindings/status", verbs: &["patch"], within: Within::Cluster },
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
        match self.classes.get("", class) {
            Some(class) => !is_deleting(class.meta()),
            None => self.classes.exists("", class),
        }
    }
}

pub fn install(engine: &mut EngineBuilder, writer: &Writer, settings: &SharedSettings) {
    let caches = Caches {
        namespaces: engine.cluster_objects(Part::Namespaces),
        classes: engine.cluster_objects(Part::Namespaces),
        bindings: engine.objects(Part::Namespaces, &Scope::Cluster),
    };
    caches
        .namespaces
        .index(CLASS_INDEX, |namespace: &Namespace| namespace.labels().get(CLASS_LABEL).cloned().into_iter().collect());
    caches.bindings.index(CLASS_INDEX, |binding: &NamespaceClassBinding| vec![binding.spec.class_name.clone()]);

    caches.namespaces.wakes(|change: Change<'_, Namespace>| {
        let name = change.object().name_any();
        vec![Key::cluster(NAMESPACE, &name), Key::new(BINDING, &name, &name)]
    });
    let news = Arc::<News>::default();
    let later = Later::new(engine.pusher(), CALM, SOON).if_it_matters({
        let news = news.clone();
        move |binding| news.take(&binding.namespace)
    });
    caches.bindings.wakes({
        let recount = Later::new(engine.pusher(), RECOUNT, RECOUNT);
        let (later, news) = (later.clone(), news.clone());
        move |change: Change<'_, NamespaceClassBinding>| {
            change.both().for_each(|binding| recount.push(Key::cluster(CLASS, &binding.spec.class_name)));
            let [binding, namespace] = woken_by_binding(change.object());
            if is_only_report(change) {
                news.changed(&binding.namespace, None, version_of(change.object().meta()));
                later.push(binding);
                return Vec::new();
            }
            vec![binding, namespace]
        }
    });
    let stamps = Stamps::new(engine.client(), engine.pusher(), later, news, engine.echoes(), caches.bindings.clone());
    caches.classes.wakes({
        let (caches, stamps, pusher) = (caches.clone(), stamps.clone(), engine.pusher());
        move |change: Change<'_, NamespaceClass>| {
            stamps.watch_only(&kinds_in_use(caches.classes.all().iter().map(AsRef::as_ref)));
            let name = change.object().name_any();
            if concerns_namespaces(change) {
                // However many they are: whoever asks for something now comes before them.
                for key in namespaces_of(&caches, &name) {
                    pusher.push(key, Priority::Retry);
                }
            }
            vec![Key::cluster(CLASS, name)]
        }
    });

    let kinds = Kinds::new(engine.client());
    kinds.follow(engine.served(), caches.bindings.clone(), engine.pusher());
    engine.reconciler(BindingReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(ClassReconciler {
        caches: caches.clone(),
        writer: writer.clone(),
        kinds: kinds.clone(),
        stamps: stamps.clone(),
        written: Mutex::default(),
    });
    engine.reconciler(ResourcesReconciler {
        caches,
        writer: writer.clone(),
        kinds,
        stamps,
        deleted: Mutex::default(),
        unreported: Unreported::default(),
        blueprints: Blueprints::default(),
    });
}

/// The binding itself and its namespace.
fn woken_by_binding(binding: &NamespaceClassBinding) -> [Key; 2] {
    let namespace = binding.namespace().unwrap_or_default();
    [Key::new(BINDING, &namespace, binding.name_any()), Key::cluster(NAMESPACE, &namespace)]
}

/// Whether only what the binding reports has changed, which we do ourselves all the time.
fn is_only_report(change: Change<'_, NamespaceClassBinding>) -> bool {
    let asks =
        |binding: &NamespaceClassBinding| (binding.uid(), binding.spec.class_name.clone(), is_deleting(binding.meta()));
    change.before.map(asks) == change.after.map(asks)
}

/// Whether more has changed than what the class reports about its namespaces.
fn concerns_namespaces(change: Change<'_, NamespaceClass>) -> bool {
    let matters = |class: &NamespaceClass| {
        let kinds = class.status.as_ref().map(|status| status.kinds.clone());
        (class.uid(), class.metadata.generation, is_deleting(class.meta()), kinds)
    };
    change.before.map(matters) != change.after.map(matters)
}

/// What is bound to the class and what asks for it.
fn namespaces_of(caches: &Caches, name: &str) -> Vec<Key> {
    let bound = caches.bindings.by(CLASS_INDEX, name);
    let bound =
        bound.iter().map(|binding| Key::new(BINDING, binding.namespace().unwrap_or_default(), binding.name_any()));
    let labelled = caches.namespaces.by(CLASS_INDEX, name);
    let labelled = labelled.iter().map(|namespace| Key::cluster(NAMESPACE, namespace.name_any()));
    bound.chain(labelled).collect()
}

/// Something many may have waited for has happened: looks again at every binding that is not ready, and at its class.
fn wake_waiting(bindings: &Cache<NamespaceClassBinding>, pusher: &Pusher) {
    let is_ready = |binding: &NamespaceClassBinding| {
        let mut conditions = binding.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    for binding in bindings.all().iter().filter(|binding| !is_ready(binding)) {
        pusher.push(Key::cluster(CLASS, &binding.spec.class_name), Priority::Live);
        pusher.push(Key::new(BINDING, binding.namespace().unwrap_or_default(), binding.name_any()), Priority::Live);
    }
}

/// Whether drift is reported, not corrected: then any change may be the one that puts it right.
fn is_drifted(bindings: &Cache<NamespaceClassBinding>, namespace: &str) -> bool {
    let binding = bindings.get(namespace, namespace);
    let mut conditions = binding.iter().flat_map(|binding| &binding.status).flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Ready" && condition.reason == "Drifted")
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
    let text =
        |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let items = class.spec.resources.iter();
    items
        .map(|item| (text(item.get("apiVersion")), text(item.get("kind"))))
        .filter(|(version, kind)| !version.is_empty() && !kind.is_empty())
        .collect()
}
