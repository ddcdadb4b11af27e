//! Where an object comes from, whether it is as it should be, and what would remove it.
//!
//! What would happen is never guessed: the operator's own plan is asked about the world as it would be then.

use std::fmt;

use anyhow::bail;
use croft_api::namespaces::{NamespaceClass, STAMP_LABEL};
use croft_core::{
    namespaces::{
        inventory::Applied,
        manifest::Identity,
        resources::{self, Binding, ClassSeen, Observed, ResourceStep},
        template::{self, Variable},
    },
    plan::Plan,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};

use super::{
    because,
    effect::{Action, Effect},
    find::{find, split},
    furnished,
    observe::{Cluster, Scope, Seen},
    print::fields,
    rehearse::rehearse,
    revision::in_force,
};
use crate::{
    engine::write::read,
    namespaces::{
        described::{described, described_binding},
        entries::Entry,
        reads::{Reads, read_doubtful},
        stamping::{Stamper, whole},
    },
};

const GOES_WITH_IT: &str = "it goes with it";

/// The answer for one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Explained {
    object: Identity,
    namespace: String,
    verdict: Verdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Ours(Box<Ours>),
    NotOurs(Vec<String>),
    /// A Namespace, and what its class has set on it.
    Namespace {
        class: Option<String>,
        lines: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ours {
    class: String,
    origin: String,
    params: Vec<String>,
    state: String,
    condition: String,
    /// What would be done, and what then becomes of the object.
    removals: Vec<(&'static str, String)>,
}

impl Explained {
    pub(super) fn is_ours(&self) -> bool {
        match &self.verdict {
            Verdict::Ours(_) => true,
            Verdict::NotOurs(_) => false,
            Verdict::Namespace { lines, .. } => !lines.is_empty(),
        }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, namespace, verdict } = self;
        match verdict {
            Verdict::NotOurs(why) => {
                writeln!(out, "{object} in namespace {namespace} is of no class")?;
                why.iter().try_for_each(|why| writeln!(out, "  {why}"))
            }
            Verdict::Namespace { class: None, .. } => writeln!(out, "{object} has no class"),
            Verdict::Namespace { class: Some(class), lines } if lines.is_empty() => {
                writeln!(out, "{object} has class {class}, which sets no labels or annotations on it")
            }
            Verdict::Namespace { class: Some(class), lines } => {
                writeln!(out, "{object} has class {class}, which has set")?;
                lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
            }
            Verdict::Ours(ours) => {
                writeln!(out, "{object} in namespace {namespace} is of class {}", ours.class)?;
                writeln!(out, "  from        {}", ours.origin)?;
                if !ours.params.is_empty() {
                    writeln!(out, "  parameters  {}", ours.params.join(", "))?;
                }
                writeln!(out, "  inventory   {}", ours.state)?;
                writeln!(out, "  now         {}", ours.condition)?;
                writeln!(out, "  what would remove it")?;
                ours.removals.iter().try_for_each(|(when, then)| writeln!(out, "    {when}: {then}"))
            }
        }
    }
}

pub(super) async fn explain(
    client: &Client,
    object: &str,
    namespace: &str,
    operator_namespace: &str,
) -> anyhow::Result<Explained> {
    let (kind, name) = split(object)?;
    let kind = find(client, kind).await?;
    let identity = kind.identity(name);
    let answer = |verdict| Explained { object: identity.clone(), namespace: namespace.to_owned(), verdict };
    if (identity.group.as_str(), identity.kind.as_str()) == ("", "Namespace") {
        return Ok(answer(explain_namespace(client, name).await?));
    }
    if !kind.namespaced {
        return Ok(answer(Verdict::NotOurs(vec![format!(
            "{} is cluster-scoped: a class holds namespaced objects only",
            identity.kind
        )])));
    }
    let scope = Scope::Namespace(namespace);
    let mut cluster = Cluster::read(client, scope).await?.with_revisions(operator_namespace);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource);
    let object = read(api.get_opt(name)).await.map_err(because(format!("reading {identity}")))?;
    let metadata = object.as_ref().map(|object| object.metadata.clone());
    let Some((stored, binding)) = cluster.binding(namespace).map(|stored| (stored.clone(), described_binding(stored)))
    else {
        if metadata.is_none() {
            bail!("there is no {identity} in namespace {namespace}");
        }
        return Ok(answer(Verdict::NotOurs(vec![format!("namespace {namespace} has no class")])));
    };
    if cluster.classes_are_hidden {
        let Some(metadata) = metadata else { bail!("there is no {identity} in namespace {namespace}") };
        return Ok(answer(by_binding_alone(&binding, &identity, &metadata)));
    }
    let newest = cluster.classes.get(&binding.class).cloned();
    let in_force = match &newest {
        Some(newest) => Some(in_force(client, operator_namespace, newest, &stored).await),
        None => None,
    };
    let (class, note) = in_force.map_or((None, None), |(class, note)| (Some(class), note));
    let class = class.as_deref();
    cluster.list_stamped(scope, class).await?;
    let mut seen = cluster.observe(&cluster.namespaces[0], binding, class).await?;
    let (Some(object), Some(metadata)) = (object, metadata) else {
        return absent(&seen, &identity, namespace).map(|why| answer(Verdict::NotOurs(why)));
    };
    put_stamp(&cluster, &mut seen.observed, &identity, &kind.resource, &object, class);
    read_doubtful(client, &Reads::default(), &mut seen.observed, &seen.kinds, &cluster.seal)
        .await
        .map_err(because(format!("reading {identity}")))?;
    let asked = with_read(&seen.observed, &identity, &kind.resource, &metadata);
    if fate(&unlabelled(&asked), &identity) == Fate::Stays {
        return Ok(answer(Verdict::NotOurs(why_not(&asked, &identity, &metadata))));
    }
    let ours = Ours {
        class: class_of(&seen.observed, &identity, &metadata),
        origin: origin(&seen.observed, &identity, newest.as_ref(), note),
        params: class.map(|class| params_of(class, &seen.observed, &identity)).unwrap_or_default(),
        state: state(recorded(&seen.observed, &identity)),
        removals: removals(&asked, &identity),
        condition: condition(&cluster.rehearsal(&seen.observed.class), seen, &identity, &metadata).await?,
    };
    Ok(answer(Verdict::Ours(Box::new(ours))))
}

/// What the binding tells somebody who may not read its class.
fn by_binding_alone(binding: &Binding, identity: &Identity, metadata: &ObjectMeta) -> Verdict {
    let class = &binding.class;
    let recorded = binding.status.applied(identity);
    let owned = metadata.owner_references.iter().flatten().any(|owner| owner.uid == binding.uid);
    if !owned && recorded.is_none_or(|applied| applied.uid != metadata.uid) {
        return Verdict::NotOurs(vec!["the binding of the namespace neither owns it nor recorded making it".into()]);
    }
    let depends = format!("that depends on the policy of class {class}, which you may not read");
    Verdict::Ours(Box::new(Ours {
        class: class.clone(),
        origin: generation(binding),
        params: Vec::new(),
        state: state(recorded),
        condition: format!("only who may read class {class} can compare it with the class"),
        removals: vec![
            ("removing the class label of the namespace", depends),
            ("deleting the namespace", GOES_WITH_IT.into()),
        ],
    }))
}

/// The stamp of an object whose kind no class lists.
fn put_stamp(
    cluster: &Cluster,
    observed: &mut Observed,
    identity: &Identity,
    resource: &ApiResource,
    object: &DynamicObject,
    class: Option<&NamespaceClass>,
) {
    if object.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(STAMP_LABEL))
        && !observed.stamped.contains_key(identity)
    {
        let whole = whole(object, &resource.api_version, &resource.kind);
        let entry = Entry::of(resource.api_version.as_str().into(), &object.metadata, &whole, &cluster.seal);
        observed.stamped.insert(identity.clone(), cluster.describe(entry, &observed.binding.uid, class));
    }
}

/// The same world at rest, with the object read: nothing about it is left in doubt.
fn with_read(observed: &Observed, identity: &Identity, resource: &ApiResource, metadata: &ObjectMeta) -> Observed {
    let mut world = observed.clone();
    let mut object = described(resource.api_version.clone(), metadata, &world.binding.uid);
    object.deleting = false;
    world.read.insert(identity.clone(), Some(object));
    if let Some(stamped) = world.stamped.get_mut(identity) {
        stamped.deleting = false;
    }
    world.namespace.terminating = false;
    world.binding.deleting = false;
    world
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Deleted,
    Released,
    Stays,
}

fn fate(world: &Observed, identity: &Identity) -> Fate {
    let plan: Plan<ResourceStep> = resources::plan(world);
    let mut about = plan.iter().filter(|step| step.identity() == Some(identity));
    about.find_map(fate_by).unwrap_or(Fate::Stays)
}

fn fate_by(step: &ResourceStep) -> Option<Fate> {
    match step {
        ResourceStep::Prune { .. } => Some(Fate::Deleted),
        ResourceStep::Release { .. } => Some(Fate::Released),
        _ => None,
    }
}

fn unlabelled(world: &Observed) -> Observed {
    let mut world = world.clone();
    world.namespace.unlabelled = true;
    world
}

fn with_class(world: &Observed, change: impl FnOnce(&mut resources::Class)) -> Observed {
    let mut world = world.clone();
    if let ClassSeen::Present(class) = &mut world.class {
        change(class);
    }
    world
}

/// Each way an object goes, and what the class's policies make of it.
fn removals(world: &Observed, identity: &Identity) -> Vec<(&'static str, String)> {
    let edited = with_class(world, |class| class.items.retain(|item| item.identity != *identity));
    let deleted = with_class(world, |class| class.deleting = true);
    let mut ways =
        vec![("removing the class label of the namespace", said(fate(&unlabelled(world), identity), "it stays"))];
    if is_wanted(world, identity) {
        let stays = "it stays as long as not everything the class wants is applied";
        ways.push(("taking it out of the class", said(fate(&edited, identity), stays)));
    }
    if matches!(world.class, ClassSeen::Present(_)) {
        let stays = "it stays: the class is held until no namespace uses it (policy.onClassDelete: Block)";
        ways.push(("deleting the class", said(fate(&deleted, identity), stays)));
    }
    ways.push(("deleting the namespace", GOES_WITH_IT.into()));
    ways
}

fn said(fate: Fate, stays: &str) -> String {
    match fate {
        Fate::Deleted => "it is deleted".into(),
        Fate::Released => "it stays and is of no class any more".into(),
        Fate::Stays => stays.to_owned(),
    }
}

fn is_wanted(world: &Observed, identity: &Identity) -> bool {
    place_in_class(world, identity).is_some()
}

/// Its place in the class's list of resources: rendering keeps the order.
fn place_in_class(world: &Observed, identity: &Identity) -> Option<usize> {
    match &world.class {
        ClassSeen::Present(class) => class.items.iter().position(|item| item.identity == *identity),
        _ => None,
    }
}

fn recorded<'s>(world: &'s Observed, identity: &Identity) -> Option<&'s Applied> {
    world.binding.status.applied(identity)
}

/// The form of the class that is in force.
fn generation(binding: &Binding) -> String {
    match (&binding.status.observed_class_name, binding.status.observed_class_generation) {
        (Some(name), Some(generation)) if *name == binding.class => format!("generation {generation} of the class"),
        (Some(name), Some(generation)) => {
            format!("generation {generation} of class {name}, which the namespace had before")
        }
        _ => "the class, not applied in full yet".into(),
    }
}

/// The class it came from: what the namespace no longer wants may be of the class it had before.
fn class_of(world: &Observed, identity: &Identity, metadata: &ObjectMeta) -> String {
    let stamp = metadata.labels.as_ref().and_then(|labels| labels.get(STAMP_LABEL));
    let stamp = stamp.filter(|_| recorded(world, identity).is_some() && !is_wanted(world, identity));
    stamp.unwrap_or(&world.binding.class).clone()
}

async fn explain_namespace(client: &Client, name: &str) -> anyhow::Result<Verdict> {
    let cluster = Cluster::read(client, Scope::Namespace(name)).await?;
    let binding = cluster.binding(name).map(described_binding);
    let lines = binding.as_ref().map(|binding| furnished::lines(&cluster.namespaces[0], binding));
    Ok(Verdict::Namespace { class: binding.map(|binding| binding.class), lines: lines.unwrap_or_default() })
}

fn origin(world: &Observed, identity: &Identity, newest: Option<&NamespaceClass>, note: Option<String>) -> String {
    let applied = generation(&world.binding);
    let place = match place_in_class(world, identity) {
        Some(index) => format!("spec.resources[{index}] in {applied}"),
        None => format!("{applied}; the class does not have it any more"),
    };
    let now = newest.and_then(|class| class.metadata.generation);
    let place = note.map_or_else(|| place.clone(), |note| format!("{place}; {note}"));
    match (now, world.binding.status.observed_class_generation) {
        (Some(now), Some(applied)) if now != applied => format!("{place}; the class is at generation {now}"),
        _ => place,
    }
}

/// The parameters its manifest uses, with the values that are in force.
fn params_of(class: &NamespaceClass, world: &Observed, identity: &Identity) -> Vec<String> {
    let Some(manifest) = place_in_class(world, identity).and_then(|index| class.spec.resources.get(index)) else {
        return Vec::new();
    };
    let ClassSeen::Present(seen) = &world.class else { return Vec::new() };
    let used = template::variables(manifest).into_iter().filter_map(|variable| match variable {
        Variable::Param(name) => Some(name),
        _ => None,
    });
    used.filter_map(|name| seen.params.get(&name).map(|value| format!("{name}={value}"))).collect()
}

fn state(recorded: Option<&Applied>) -> String {
    let Some(applied) = recorded else {
        return "not on record: made only just, or given to the binding by somebody else".into();
    };
    let adopted = if applied.adopted { ", adopted" } else { "" };
    let message = applied.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    format!("{:?}{adopted}{message}", applied.state)
}

/// Whether it is as the class wants it, tried out by a dry run where the inventory does not vouch for it.
async fn condition(
    rehearsal: &Stamper,
    mut seen: Seen,
    identity: &Identity,
    metadata: &ObjectMeta,
) -> anyhow::Result<String> {
    if metadata.deletion_timestamp.is_some() {
        return Ok("it is being deleted".into());
    }
    let effects =
        rehearse(rehearsal, &mut seen, Some(identity)).await.map_err(because(format!("trying {identity}")))?;
    let about = effects.into_iter().find(|effect| effect.object == identity.to_string());
    Ok(match about {
        None if !is_wanted(&seen.observed, identity) => {
            "no longer wanted; it goes when everything the class wants is applied".into()
        }
        None => "as the class wants it".into(),
        Some(Effect { action: Action::Change | Action::Adopt, fields: changed, .. }) => {
            format!("not as the class wants it: {}; the operator puts it right", fields(&changed))
        }
        Some(Effect { action: Action::Prune | Action::Release, .. }) => "no longer wanted; it is about to go".into(),
        Some(effect) => format!("{}: {}", effect.action.word(), effect.message.unwrap_or_default()),
    })
}

/// Why an object is not ours, as far as it can be seen on it.
fn why_not(world: &Observed, identity: &Identity, metadata: &ObjectMeta) -> Vec<String> {
    let class = &world.binding.class;
    let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    let stamp = metadata.labels.as_ref().and_then(|labels| labels.get(STAMP_LABEL));
    let mut why = vec![match (controller, stamp) {
        (Some(owner), _) if owner.kind == "NamespaceClassBinding" => {
            "it belongs to a binding that is not the namespace's".to_owned()
        }
        (Some(owner), _) => format!("it belongs to {}/{}", owner.kind, owner.name),
        (None, Some(stamp)) => {
            format!("it carries the label of class {stamp}, but the binding neither owns it nor recorded making it")
        }
        (None, None) => {
            format!("it does not carry the label {STAMP_LABEL}, and the binding neither owns it nor recorded making it")
        }
    }];
    let in_the_way = resources::blocked_items(world).into_iter().find(|blocked| blocked.identity == *identity);
    why.push(match in_the_way {
        Some(blocked) => format!("class {class} of the namespace wants an object of this name: {}", blocked.message),
        None if is_wanted(world, identity) => {
            format!("class {class} of the namespace wants an object of this name and will adopt it")
        }
        None => format!("class {class} of the namespace has no such object"),
    });
    why
}

/// An object that is not there may still be wanted.
fn absent(seen: &Seen, identity: &Identity, namespace: &str) -> anyhow::Result<Vec<String>> {
    let class = &seen.observed.binding.class;
    if !is_wanted(&seen.observed, identity) {
        bail!("there is no {identity} in namespace {namespace}, and class {class} has none");
    }
    let state = state(recorded(&seen.observed, identity));
    Ok(vec![
        "it does not exist".into(),
        format!("class {class} of the namespace wants it; its state in the binding: {state}"),
    ])
}
