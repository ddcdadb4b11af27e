//! Namespaces furnished from a class: what is watched, and which change wakes whom.

mod binding;
pub mod fences;
mod kinds;
mod resources;

use std::sync::Arc;

use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, NamespaceClassBinding};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

use self::{binding::BindingReconciler, kinds::Kinds, resources::ResourcesReconciler};
use crate::{
    engine::{Cache, Change, EngineBuilder, Key, Part, Scope, Work, Writer},
    rbac::{Use, Within},
    settings::SharedSettings,
};

/// Namespace -> binding.
const NAMESPACE: Work = Work("namespace");
/// Binding -> resources.
const BINDING: Work = Work("namespaceclassbinding");

const CLASS_INDEX: &str = "class";

/// Kinds every class may use without further rights; what a class needs beyond them an administrator grants.
const STAMP: &[&str] = &["create", "delete", "get", "patch"];

/// The rights this part uses.
pub const USES: &[Use] = &[
    Use { group: "", resource: "namespaces", verbs: &["list", "watch"], within: Within::Cluster },
    Use { group: "akuity.io", resource: "namespaceclasses", verbs: &["get", "list", "watch"], within: Within::Cluster },
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

pub fn install(engine: &mut EngineBuilder, writer: &Writer, settings: &SharedSettings) {
    let caches = Caches {
        namespaces: engine.cluster_objects(Part::Namespaces),
        classes: engine.cluster_objects(Part::Namespaces),
        bindings: engine.objects(Part::Namespaces, &Scope::Cluster),
    };
    caches.namespaces.index(CLASS_INDEX, |namespace: &Namespace| namespace.labels().get(CLASS_LABEL).cloned().into_iter().collect());
    caches.bindings.index(CLASS_INDEX, |binding: &NamespaceClassBinding| vec![binding.spec.class_name.clone()]);

    caches.namespaces.wakes(|change: Change<'_, Namespace>| {
        let name = change.object().name_any();
        vec![Key::cluster(NAMESPACE, &name), Key::new(BINDING, &name, &name)]
    });
    caches.bindings.wakes(|change: Change<'_, NamespaceClassBinding>| {
        let binding = change.object();
        let namespace = binding.namespace().unwrap_or_default();
        vec![Key::new(BINDING, &namespace, binding.name_any()), Key::cluster(NAMESPACE, namespace)]
    });
    let (namespaces, bindings) = (caches.namespaces.clone(), caches.bindings.clone());
    caches.classes.wakes(move |change: Change<'_, NamespaceClass>| {
        let name = change.object().name_any();
        let bound = bindings.by(CLASS_INDEX, &name);
        let bound = bound.iter().map(|binding| Key::new(BINDING, binding.namespace().unwrap_or_default(), binding.name_any()));
        let labelled = namespaces.by(CLASS_INDEX, &name);
        let labelled = labelled.iter().map(|namespace| Key::cluster(NAMESPACE, namespace.name_any()));
        bound.chain(labelled).collect()
    });

    let kinds = Kinds::new(engine.client());
    kinds.follow(engine.served(), caches.bindings.clone(), engine.pusher());
    engine.reconciler(Part::Namespaces, BindingReconciler::new(caches.clone(), writer.clone(), settings.clone()));
    engine.reconciler(Part::Namespaces, ResourcesReconciler::new(caches, writer.clone(), kinds));
}
