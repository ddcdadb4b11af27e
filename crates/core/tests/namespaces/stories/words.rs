//! Steps, conditions and objects in plain words.

use croft_core::{
    conditions::Conditions,
    namespaces::{
        class,
        inventory::Status,
        manifest::Identity,
        resources::{self, ClassSeen, NamespaceMetadata, ResourceStep},
    },
    plan::Outcome,
};

use crate::{
    others::{Seen, Step},
    world::{NAMESPACE, Object, World, identity},
};

/// One step of a plan made from what was seen.
pub fn step(seen: &Seen, step: &Step) -> String {
    match (seen, step) {
        (Seen::Resources(seen), Step::Resources(step)) => resource_step(seen, step),
        (Seen::Class(name, _, _), Step::Class(step)) => format!("class {name}: {step}"),
        (_, step) => step.to_string(),
    }
}

fn resource_step(seen: &resources::Observed, step: &ResourceStep) -> String {
    match step {
        ResourceStep::ApplyNamespaceMetadata { metadata, .. } if *metadata == NamespaceMetadata::default() => {
            format!("take the labels of the class off namespace {NAMESPACE}")
        }
        ResourceStep::ApplyNamespaceMetadata { metadata, .. } => {
            let labels: Vec<_> = metadata.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("label namespace {NAMESPACE} with {}", labels.join(", "))
        }
        ResourceStep::PutBackNamespaceMetadata { .. } => {
            format!("make the labels of namespace {NAMESPACE} what they were before")
        }
        ResourceStep::KeepNamespaceMetadata { .. } => {
            format!("leave the labels of namespace {NAMESPACE} that were the same before")
        }
        ResourceStep::ForgetNotes { .. } => format!("take off namespace {NAMESPACE} what no class says is kept"),
        ResourceStep::Create { identity, .. } => format!("create {} ({})", object(identity), item(seen, identity)),
        ResourceStep::Apply { identity, .. } => format!("apply {} ({})", object(identity), item(seen, identity)),
        ResourceStep::TakeFields { identity, .. } => {
            format!("own the fields of {} by apply, so that dropped ones go", object(identity))
        }
        ResourceStep::Strip { identity, .. } => format!("take out of {} what is not to be there", object(identity)),
        ResourceStep::Rehearse { identity, .. } => format!("ask whether {} would be accepted anew", object(identity)),
        ResourceStep::Prune { identity, because, .. } => {
            format!("delete {}, exactly as it was seen: {because}", object(identity))
        }
        ResourceStep::LetGo { identity, .. } => format!("take the finalizers off {}", object(identity)),
        ResourceStep::Release { identity, .. } => {
            format!("release {}: no longer wanted, but kept", object(identity))
        }
        ResourceStep::DeleteBinding { because, .. } => format!("delete the binding: {because}"),
    }
}

fn object(identity: &Identity) -> String {
    format!("{} {NAMESPACE}/{}", identity.kind, identity.name)
}

/// Which item of its class an object is; nothing if it is none.
fn item(seen: &resources::Observed, identity: &Identity) -> String {
    let ClassSeen::Present(class) = &seen.class else { return String::new() };
    let number = class.items.iter().position(|item| item.identity == *identity);
    number.map_or_else(String::new, |number| format!("item {} of class {}", number + 1, class.name))
}

/// How a step ended, where it is not simply done.
pub fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { .. } => String::new(),
        Outcome::Failed(failure) => format!(" -> {failure}"),
        Outcome::NotRun => " -> not run".to_owned(),
    }
}

/// Which of the conditions are true, and what they say.
pub fn conditions(conditions: &Conditions) -> Vec<String> {
    let shown = conditions.0.iter().map(|condition| format!("{}={:?}", condition.kind, condition.status));
    let ready = conditions.get("Ready");
    let said = ready.map(|ready| format!("{}: {}", ready.reason, ready.message));
    [shown.collect::<Vec<_>>().join(" ")].into_iter().chain(said).collect()
}

/// The inventory, one line for each object.
pub fn inventory(status: &Status) -> Vec<String> {
    let entries = status.applied_resources.iter().map(|applied| {
        let adopted = if applied.adopted { ", adopted" } else { "" };
        let message = applied.message.as_ref().map_or_else(String::new, |message| format!(": {message}"));
        format!("{}/{} {:?}{adopted}{message}", applied.kind, applied.name, applied.state)
    });
    entries.collect()
}

/// How the namespaces of a class are doing.
pub fn counts(status: &class::Status) -> String {
    let class::Status { bound_namespaces, updated_namespaces, ready_namespaces, failing_namespaces, .. } = status;
    let counts = [
        ("bound", bound_namespaces),
        ("up to date", updated_namespaces),
        ("ready", ready_namespaces),
        ("failing", failing_namespaces),
    ];
    let counts = counts.map(|(what, count)| format!("{} {what}", count.unwrap_or_default()));
    counts.join(", ")
}

/// What there is, one line for each thing.
pub fn scene(world: &World) -> Vec<String> {
    let classes = world.classes.iter().map(|(name, class)| {
        let items: Vec<_> = class.items.iter().map(|item| item.identity.to_string()).collect();
        let deleting = if class.deleting { ", being deleted" } else { "" };
        format!("class {name}: {}{deleting}", items.join(", "))
    });
    let label = world.label.map(|label| format!("labelled {label:?}"));
    let labels = world.namespace_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let bound = world.binding.iter().map(|bound| format!("bound to {}", bound.class));
    let namespace = [format!("namespace {NAMESPACE}")].into_iter().chain(label).chain(labels).chain(bound);
    let namespace = namespace.collect::<Vec<_>>().join(", ");
    let objects = world.objects.iter().map(|(name, object)| format!("{} {}", identity(name), described(object)));
    classes.chain([namespace]).chain(objects).collect()
}

fn described(object: &Object) -> String {
    let value = object.data.as_deref().map_or("without a value".to_owned(), |value| format!("{value:?}"));
    let owner = match &object.owner {
        Some(_) if object.is_a_bindings() => "of the binding",
        Some(_) => "of another controller",
        None => "nobody's",
    };
    let more =
        [(object.additions, "with an addition"), (object.immutable, "immutable"), (object.deleting, "being deleted")];
    let more = more.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what);
    [value.as_str(), owner].into_iter().chain(more).collect::<Vec<_>>().join(", ")
}
