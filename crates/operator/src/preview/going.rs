//! What deleting a class, or taking the label off a namespace, would do.

use anyhow::{Context as _, bail};
use croft_api::namespaces::{CLASS_LABEL, NamespaceClass, OnClassDelete};
use croft_core::namespaces::{manifest::Identity, resources::Binding};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::Time};
use kube::{Client, ResourceExt};

use super::{
    because,
    effect::{Action, Bond, Effect, Outlook, Preview},
    observe::{Cluster, Scope},
    plan::WIDTH,
    progress::Progress,
    rehearse::rehearse,
};
use crate::namespaces::described::described_binding;

/// As if the class were deleted.
pub(super) async fn deletion(client: &Client, name: &str) -> anyhow::Result<Preview> {
    let mut cluster = Cluster::read(client, Scope::Cluster).await?;
    let mut class = cluster.classes.get(name).cloned().with_context(|| format!("there is no NamespaceClass {name}"))?;
    class.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::now()));
    cluster.list_stamped(Scope::Cluster, Some(&class)).await?;
    let bound = |namespace: &Namespace| {
        let binding = cluster.binding(&namespace.name_any()).map(described_binding)?;
        (binding.class == name && !binding.deleting).then(|| (namespace.clone(), binding))
    };
    let bound: Vec<_> = cluster.namespaces.iter().filter_map(bound).collect();
    let (cluster, class) = (&cluster, &class);
    let mut progress = Progress::through(bound.len());
    let outlooks = stream::iter(bound).map(|(namespace, binding)| outlook(cluster, class, namespace, binding));
    let outlooks = outlooks.buffered(WIDTH).inspect_ok(|_| progress.step()).try_collect().await?;
    drop(progress);
    Ok(Preview::new(name.to_owned(), true, outlooks))
}

/// As if the label were taken off the namespace.
pub(super) async fn unlabelling(client: &Client, name: &str) -> anyhow::Result<Preview> {
    let scope = Scope::Namespace(name);
    let mut cluster = Cluster::read(client, scope).await?;
    let Some(binding) = cluster.binding(name).map(described_binding) else {
        bail!("namespace {name} has no class: taking a label off it changes nothing")
    };
    if cluster.classes_are_hidden {
        bail!("what happens then is up to class {}, which the current user may not read", binding.class);
    }
    let class = cluster.classes.get(&binding.class).cloned();
    let class_name = binding.class.clone();
    let class = class.with_context(|| format!("class {class_name} is gone: its objects are going already"))?;
    cluster.list_stamped(scope, Some(&class)).await?;
    let mut namespace = cluster.namespaces.first().cloned().with_context(|| format!("there is no namespace {name}"))?;
    namespace.labels_mut().remove(CLASS_LABEL);
    let outlook = outlook(&cluster, &class, namespace, binding).await?;
    Ok(Preview::new(class_name, true, vec![outlook]))
}

async fn outlook(
    cluster: &Cluster,
    class: &NamespaceClass,
    namespace: Namespace,
    binding: Binding,
) -> anyhow::Result<Outlook> {
    let name = namespace.name_any();
    let told = |effects| Outlook { namespace: name.clone(), bond: Bond::Bound, effects };
    let is_labelled = namespace.labels().contains_key(CLASS_LABEL);
    if is_labelled && class.spec.policy.on_class_delete == OnClassDelete::Block {
        let object = Identity { kind: "NamespaceClass".into(), name: class.name_any(), ..Identity::default() };
        let waits = Effect::new(Action::Wait, &object)
            .because("ClassDeleting", "policy.onClassDelete is Block: it stays until no namespace uses it");
        return Ok(told(vec![waits]));
    }
    let mut seen = cluster.observe(&namespace, binding, Some(class)).await?;
    let effects = rehearse(&cluster.rehearsal(&seen.observed.class), &mut seen, None).await;
    Ok(told(effects.map_err(because(format!("planning namespace {name}")))?))
}
