//! What a class would do: which namespaces it concerns, and what would happen in each.

use anyhow::bail;
use croft_api::namespaces::{CLASS_LABEL, NamespaceClass};
use croft_core::namespaces::{
    binding::{self, BindingStep, Trouble, Wanted},
    manifest::Identity,
    resources::Binding,
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, Resource, ResourceExt};

use super::{
    because,
    class::Written,
    effect::{Action, Bond, Effect, Outlook, Preview},
    observe::{Cluster, Scope},
    rehearse::rehearse,
};
use crate::{
    engine::is_deleting,
    namespaces::{
        binding::{is_system, observed},
        described::described_binding,
    },
    settings::Settings,
};

/// Namespaces tried out at once.
pub(super) const WIDTH: usize = 16;

/// UID of a binding that is not there yet: nothing can be owned by it.
const NO_BINDING: &str = "00000000-0000-0000-0000-000000000000";

/// What the class would do to every namespace it concerns, or to `only` as if that were labelled with it.
pub(super) async fn preview(client: &Client, written: &Written, only: Option<&str>) -> anyhow::Result<Preview> {
    let scope = only.map_or(Scope::Cluster, Scope::Namespace);
    let mut cluster = Cluster::read(client, scope).await?;
    let live = cluster.classes.get(&written.name);
    let defined = live.is_some();
    let class = match written.check(client, live).await? {
        Ok(class) => class,
        Err(problems) => return Ok(Preview::invalid(written.name.clone(), defined, problems)),
    };
    cluster.list_stamped(scope, Some(&class)).await?;
    let mut concerned = Vec::new();
    for namespace in &cluster.namespaces {
        let namespace = if only.is_some() { labelled(namespace, &written.name) } else { namespace.clone() };
        if let Some(tie) = tie(&cluster, &namespace, &written.name) {
            concerned.push((namespace, tie));
        } else if only.is_some() {
            bail!("namespace {} or its binding is being deleted: it gets no class", namespace.name_any());
        }
    }
    let (cluster, class) = (&cluster, &class);
    let outlooks = stream::iter(concerned).map(|(namespace, tie)| outlook(cluster, class, namespace, tie));
    let outlooks = outlooks.buffered(WIDTH).try_collect().await?;
    Ok(Preview::new(written.name.clone(), defined, outlooks))
}

fn labelled(namespace: &Namespace, class: &str) -> Namespace {
    let mut namespace = namespace.clone();
    namespace.labels_mut().insert(CLASS_LABEL.into(), class.into());
    namespace
}

/// How a namespace would be tied to the class.
enum Tie {
    To { bond: Bond, binding: Box<Binding>, unknown: Option<String> },
    Not(Trouble),
}

/// What the binding's own plan makes of the namespace, were the class there; `None` if the class does not concern it.
fn tie(cluster: &Cluster, namespace: &Namespace, class: &str) -> Option<Tie> {
    let bound = cluster.binding(&namespace.name_any());
    let can_be_chosen = |name: &str| match cluster.classes.get(name) {
        Some(known) => !is_deleting(known.meta()),
        None => name == class,
    };
    let is_system = is_system(&Settings::default(), None, &namespace.name_any());
    let seen = observed(namespace, bound, can_be_chosen, is_system);
    let bound = bound.map(described_binding).map(Box::new);
    match (binding::plan(&seen).iter().next(), bound) {
        (Some(BindingStep::CreateBinding { class: to, .. }), _) if to == class => {
            let binding = Box::new(Binding { uid: NO_BINDING.into(), class: to.clone(), ..Binding::default() });
            Some(Tie::To { bond: Bond::New, binding, unknown: None })
        }
        (Some(BindingStep::Rebind { from, to, .. }), Some(binding)) if to == class => Some(Tie::To {
            bond: Bond::From(from.clone()),
            binding: Box::new(Binding { class: to.clone(), ..*binding }),
            unknown: None,
        }),
        (Some(_), _) => None,
        (None, Some(binding)) if binding.class == class && !binding.deleting => {
            let unknown = if let Wanted::Unknown(name) = seen.wanted() { Some(name) } else { None };
            Some(Tie::To { bond: Bond::Bound, binding, unknown })
        }
        (None, _) => match (seen.wanted(), binding::trouble(&seen)) {
            (Wanted::Class(wanted), Some(trouble)) if wanted == class => Some(Tie::Not(trouble)),
            _ => None,
        },
    }
}

async fn outlook(cluster: &Cluster, class: &NamespaceClass, namespace: Namespace, tie: Tie) -> anyhow::Result<Outlook> {
    let name = namespace.name_any();
    let (bond, binding, unknown) = match tie {
        Tie::To { bond, binding, unknown } => (bond, binding, unknown),
        Tie::Not(trouble) => {
            let object = Identity { kind: "Namespace".into(), name: name.clone(), ..Identity::default() };
            let refused = Effect::new(Action::Refuse, &object).because(trouble.reason(), trouble.to_string());
            return Ok(Outlook { namespace: name, bond: Bond::New, effects: vec![refused] });
        }
    };
    let mut seen = cluster.observe(&namespace, *binding, Some(class)).await?;
    seen.observed.unknown_class = unknown;
    let effects = rehearse(&cluster.rehearsal(&seen.observed.class), &mut seen, None).await;
    let effects = effects.map_err(because(format!("planning namespace {name}")))?;
    Ok(Outlook { namespace: name, bond, effects })
}
