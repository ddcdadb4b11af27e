//! What a class would do: which namespaces it concerns, and what would happen in each.

use anyhow::bail;
use croft_api::namespaces::{
    CLASS_LABEL, CONFIRM_ANNOTATION, NamespaceClass, NamespaceClassBinding, OnUnbind, validate,
};
use croft_core::namespaces::{
    binding::{self, BindingStep, Trouble, Wanted},
    class,
    manifest::Identity,
    resources::{Binding, ClassSeen, Observed},
    rollout::{self, Deletions, confirmation, deletions_in, digest_of, unconfirmed},
};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, Resource, ResourceExt};

use super::{
    because,
    class::Written,
    effect::{Action, Bond, Effect, Outlook, Preview},
    observe::{Cluster, Scope},
    progress::Progress,
    rehearse::rehearse,
};
use crate::{
    engine::is_deleting,
    namespaces::{
        binding::{is_system, observed},
        described::{described_binding, facts, orphans},
        revisions::moved,
    },
    objects,
    settings::Settings,
};

/// Namespaces tried out at once.
pub(super) const WIDTH: usize = 16;

/// UID of a binding that is not there yet: nothing can be owned by it.
const NO_BINDING: &str = "00000000-0000-0000-0000-000000000000";

/// What the class would do to every namespace it concerns, or to `only` as if that were labelled with it.
pub(super) async fn preview(
    client: &Client,
    written: &Written,
    only: Option<&str>,
    operator_namespace: &str,
) -> anyhow::Result<Preview> {
    let scope = only.map_or(Scope::Cluster, Scope::Namespace);
    let mut cluster = Cluster::read(client, scope).await?.with_revisions(operator_namespace);
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
    let mut progress = Progress::through(concerned.len());
    let outlooks = stream::iter(concerned).map(|(namespace, tie)| outlook(cluster, class, namespace, tie));
    let outlooks: Vec<_> = outlooks.buffered(WIDTH).inspect_ok(|_| progress.step()).try_collect().await?;
    drop(progress);
    let deletions = outlooks.iter().fold(Deletions::default(), |all, (_, here)| all.and(*here));
    let outlooks = outlooks.into_iter().map(|(outlook, _)| outlook).collect();
    // Of one namespace alone it cannot be told how much the class would delete.
    let guard = if only.is_none() { guarded(cluster, class, deletions) } else { None };
    Ok(Preview::new(written.name.clone(), defined, outlooks).guarded(guard))
}

/// What keeps the class as written from being applied before somebody confirms it.
fn guarded(cluster: &Cluster, class: &NamespaceClass, deletions: Deletions) -> Option<String> {
    let (name, digest) = (class.name_any(), digest_of(&validate::content(&class.spec)));
    let most = validate::wishes(class).unwrap_or_default().max_deletions;
    let live = cluster.classes.get(&name);
    let status: class::Status = objects::status(live.and_then(|live| live.status.as_ref()));
    let rollout = status.rollout.unwrap_or_default();
    let number = rollout.number_for(&digest);
    let asked = confirmation(number, &digest);
    let confirmed = |class: &NamespaceClass| class.annotations().get(CONFIRM_ANNOTATION) == Some(&asked);
    let is_released = status.revision.as_ref() == Some(&digest);
    let is_let_in = rollout.has_let_in(&digest) || is_released || confirmed(class) || live.is_some_and(confirmed);
    (!is_let_in && deletions.are_beyond(most)).then(|| unconfirmed(&name, (number, &digest), deletions, most))
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
    let seen = observed(namespace, bound, can_be_chosen, |name| cluster.classes.contains_key(name), is_system);
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

/// What would happen in a namespace, and what would be deleted there of what the class has made.
async fn outlook(
    cluster: &Cluster,
    class: &NamespaceClass,
    namespace: Namespace,
    tie: Tie,
) -> anyhow::Result<(Outlook, Deletions)> {
    let name = namespace.name_any();
    let (bond, binding, unknown) = match tie {
        Tie::To { bond, binding, unknown } => (bond, binding, unknown),
        Tie::Not(trouble) => {
            let object = Identity { kind: "Namespace".into(), name: name.clone(), ..Identity::default() };
            let refused = Effect::new(Action::Refuse, &object).because(trouble.reason(), trouble.to_string());
            return Ok((Outlook { namespace: name, bond: Bond::New, effects: vec![refused] }, Deletions::default()));
        }
    };
    let mut seen = cluster.observe(&namespace, *binding, Some(class)).await?;
    seen.observed.unknown_class = unknown;
    let deletions = match bond {
        Bond::Bound => deletions(cluster, &seen.observed, class, &namespace),
        Bond::New | Bond::From(_) => Deletions::default(),
    };
    let effects = rehearse(&cluster.rehearsal(&seen.observed.class), &mut seen, None).await;
    let effects = effects.map_err(because(format!("planning namespace {name}")))?;
    Ok((Outlook { namespace: name, bond, effects }, deletions))
}

fn deletions(cluster: &Cluster, seen: &Observed, class: &NamespaceClass, namespace: &Namespace) -> Deletions {
    let ClassSeen::Present(wants) = &seen.class else { return Deletions::default() };
    // What is no class changes nothing anywhere, and what is let go is not deleted.
    if !wants.problems.is_empty() || class.spec.policy.on_unbind == OnUnbind::Orphan {
        return Deletions::default();
    }
    // Of what is in force only the class as it is stored is at hand.
    let binding = cluster.binding(&namespace.name_any());
    let live = cluster.classes.get(&class.name_any()).filter(|live| !orphans(live) && is_in_force(live, binding));
    let checked = live.and_then(|live| validate::validate(live).ok());
    let now = checked.and_then(|now| now.items(&facts(namespace), &seen.binding.status.params).ok());
    let is_let_in = |identity: &Identity| now.as_ref().is_some_and(|now| !now.may_want(identity));
    deletions_in(&seen.binding.status.applied_resources, |identity| wants.may_want(identity), is_let_in)
}

/// Whether what a stored class says is in force in a namespace.
fn is_in_force(class: &NamespaceClass, binding: Option<&NamespaceClassBinding>) -> bool {
    let status: class::Status = objects::status(class.status.as_ref());
    let staged_since = status.rollout.and_then(|rollout| rollout.staged_since);
    let moved = binding.and_then(moved);
    let in_force = rollout::in_force(status.revision.as_deref(), staged_since, moved.as_ref());
    in_force == Some(&digest_of(&validate::content(&class.spec)))
}
