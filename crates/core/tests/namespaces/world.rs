//! One namespace, two classes that share an object, and an API server small enough to explore.

use std::collections::BTreeMap;

use croft_core::{
    namespaces::{
        binding::{self, BindingStep},
        inventory::Status,
        manifest::{Identity, Item, Rendered, Stamp, digest},
        resources::{self, Class, ClassSeen, KindSeen, NamespaceMetadata, Owner, Policy, Read, ResourceStep, Stamped},
        witness::Witness,
    },
    plan::{Failure, FailureClass, Outcome},
    time::Timestamp,
};
use serde_json::json;

pub const NAMESPACE: &str = "team-a";

/// An object in the namespace, as the API server has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    pub uid: String,
    pub owner: Option<String>,
    pub labelled: bool,
    pub class: String,
    /// Digest of the content.
    pub content: String,
    /// Changes with every change, by anybody.
    pub version: u32,
    /// What somebody else added: it changes none of our values.
    pub additions: u32,
    /// Made by create and not yet taken over by apply.
    pub created: bool,
    /// Some field of it cannot be changed.
    pub immutable: bool,
}

impl Object {
    /// What a watch or a read shows of it.
    fn witness(&self) -> Witness {
        let fields = format!("{}-{}-{}", self.content, self.owner.as_deref().unwrap_or_default(), self.labelled);
        Witness { content: format!("{fields}-{}", self.additions), fields }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub uid: String,
    pub class: String,
    pub version: u32,
    pub status: Status,
}

#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub label: Option<&'static str>,
    pub classes: BTreeMap<&'static str, ClassSpec>,
    pub binding: Option<Bound>,
    pub objects: BTreeMap<Identity, Object>,
    pub namespace_labels: BTreeMap<String, String>,
    pub made: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassSpec {
    pub items: Vec<Item>,
    pub policy: Policy,
    pub orphan_on_unbind: bool,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
}

pub fn config_map(name: &str, value: &str) -> Item {
    let raw = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
    Item::parse(raw.as_object().unwrap()).unwrap()
}

pub fn identity(name: &str) -> Identity {
    config_map(name, "").identity
}

pub fn class(names: &[&str]) -> ClassSpec {
    ClassSpec { items: names.iter().map(|name| config_map(name, "v")).collect(), ..ClassSpec::default() }
}

pub fn now() -> Timestamp {
    Timestamp("2026-01-01T00:00:00Z".into())
}

impl World {
    pub fn new(classes: impl IntoIterator<Item = (&'static str, ClassSpec)>) -> Self {
        Self {
            label: None,
            classes: classes.into_iter().collect(),
            binding: None,
            objects: BTreeMap::new(),
            namespace_labels: BTreeMap::new(),
            made: 0,
        }
    }

    pub fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    /// A stranger makes an object.
    pub fn stranger_makes(&mut self, name: &str) {
        let uid = self.uid();
        let object = Object {
            uid,
            owner: None,
            labelled: false,
            class: String::new(),
            content: "foreign".into(),
            version: 1,
            additions: 0,
            created: false,
            immutable: false,
        };
        self.objects.insert(identity(name), object);
    }

    fn see_binding(&self) -> binding::Observed {
        binding::Observed {
            namespace: binding::Namespace {
                name: NAMESPACE.into(),
                uid: "ns".into(),
                terminating: false,
                system: false,
                label: self.label.map(str::to_owned),
            },
            binding: self.binding.as_ref().map(|bound| binding::Binding {
                uid: bound.uid.clone(),
                version: bound.version.to_string(),
                class: bound.class.clone(),
                deleting: false,
            }),
            wanted_class: self.label.filter(|label| self.can_be_chosen(label)).map(str::to_owned),
        }
    }

    fn can_be_chosen(&self, class: &str) -> bool {
        self.classes.get(class).is_some_and(|class| !class.deleting)
    }

    fn class_seen(&self, bound: &Bound) -> ClassSeen {
        let Some(spec) = self.classes.get(bound.class.as_str()) else { return ClassSeen::Gone };
        let stamp = Stamp { namespace: NAMESPACE, class: &bound.class, binding_uid: &bound.uid, protect: false };
        let items: Vec<Rendered> = spec.items.iter().map(|item| item.stamped(&stamp)).collect();
        ClassSeen::Present(Class {
            name: bound.class.clone(),
            uid: format!("class-{}", bound.class),
            generation: 1,
            items,
            policy: spec.policy,
            namespace_metadata: NamespaceMetadata { labels: spec.labels.clone(), annotations: BTreeMap::new() },
            deleting: spec.deleting,
            recorded_kinds: [("v1".to_owned(), "ConfigMap".to_owned())].into(),
            problems: Vec::new(),
        })
    }

    pub fn see_resources(&self) -> Option<resources::Observed> {
        let bound = self.binding.as_ref()?;
        let mut seen = resources::Observed {
            namespace: resources::Namespace {
                name: NAMESPACE.into(),
                unlabelled: self.label.is_none(),
                relabelled: self.label.is_some_and(|label| label != bound.class && self.can_be_chosen(label)),
                labels: self.namespace_labels.clone(),
                ..resources::Namespace::default()
            },
            binding: resources::Binding {
                uid: bound.uid.clone(),
                version: bound.version.to_string(),
                generation: 1,
                class: bound.class.clone(),
                deleting: false,
                status: bound.status.clone(),
            },
            class: self.class_seen(bound),
            kinds: [(("v1".into(), "ConfigMap".into()), KindSeen::Namespaced)].into(),
            orphan_unstamped: self.classes.get(bound.class.as_str()).is_some_and(|class| class.orphan_on_unbind),
            ..resources::Observed::default()
        };
        for (identity, object) in self.objects.iter().filter(|(_, object)| object.labelled) {
            let orphan = self.classes.get(object.class.as_str()).is_some_and(|class| class.orphan_on_unbind);
            seen.stamped.insert(
                identity.clone(),
                Stamped {
                    api_version: "v1".into(),
                    uid: object.uid.clone(),
                    version: object.version.to_string(),
                    owner: self.owner(object),
                    class: object.class.clone(),
                    content: object.witness().content,
                    created: object.created,
                    orphan,
                    deleting: false,
                },
            );
        }
        for (_, identity) in seen.to_read() {
            let read = self.objects.get(&identity).map(|object| Read {
                api_version: "v1".into(),
                uid: object.uid.clone(),
                version: object.version.to_string(),
                owner: self.owner(object),
                deleting: false,
                witness: seen.shown_by(&identity).map(|_| object.witness()),
                taken_fields: object.created.then(|| json!([])),
                other_owners: json!([]),
            });
            seen.read.insert(identity, read);
        }
        Some(seen)
    }

    fn owner(&self, object: &Object) -> Owner {
        match (&object.owner, &self.binding) {
            (None, _) => Owner::Nobody,
            (Some(owner), Some(bound)) if *owner == bound.uid => Owner::ThisBinding,
            (Some(owner), _) if owner.starts_with("uid-") => Owner::FormerBinding,
            _ => Owner::Other,
        }
    }

    fn do_binding(&mut self, step: &BindingStep) {
        match step {
            BindingStep::CreateBinding { class, .. } => {
                if self.binding.is_none() {
                    let uid = self.uid();
                    self.binding = Some(Bound { uid, class: class.clone(), version: 1, status: Status::default() });
                }
            }
            BindingStep::Rebind { uid, version, to, .. } => {
                if let Some(bound) =
                    self.binding.as_mut().filter(|b| b.uid == *uid && b.version.to_string() == *version)
                {
                    bound.class.clone_from(to);
                    bound.version += 1;
                }
            }
        }
    }

    /// What the API server does with a step, preconditions included.
    pub fn do_resource(&mut self, step: &ResourceStep) -> Outcome {
        let fail = |reason| Outcome::Failed(Failure::new(FailureClass::Stale, reason, "refused"));
        match step {
            ResourceStep::ApplyNamespaceMetadata { metadata } => {
                self.namespace_labels.clone_from(&metadata.labels);
                Outcome::done()
            }
            ResourceStep::Create { identity, manifest, .. } => {
                if self.objects.contains_key(identity) {
                    return fail("AlreadyExists");
                }
                let uid = self.uid();
                let object = Object {
                    uid: uid.clone(),
                    owner: manifest["metadata"]["ownerReferences"][0]["uid"].as_str().map(str::to_owned),
                    labelled: true,
                    class: manifest["metadata"]["labels"]["namespaceclass.akuity.io/class"].as_str().unwrap().into(),
                    content: digest(manifest),
                    version: 1,
                    additions: 0,
                    created: true,
                    immutable: false,
                };
                let witness = Some(object.witness().to_string());
                self.objects.insert(identity.clone(), object);
                Outcome::Done { uid: Some(uid), witness }
            }
            ResourceStep::TakeFields { identity, uid, .. } => {
                match self.objects.get_mut(identity).filter(|o| o.uid == *uid) {
                    None => fail("Conflict"),
                    Some(object) => {
                        object.created = false;
                        object.version += 1;
                        Outcome::done()
                    }
                }
            }
            ResourceStep::Apply { identity, uid, manifest, .. } => self.apply(identity, uid, manifest),
            ResourceStep::Prune { identity, uid, version, .. } => match self.objects.get(identity) {
                None => Outcome::done(),
                Some(object) if object.uid == *uid && object.version.to_string() == *version => {
                    self.objects.remove(identity);
                    Outcome::done()
                }
                Some(_) => fail("Conflict"),
            },
            ResourceStep::Release { identity, uid, .. } => {
                if let Some(object) = self.objects.get_mut(identity).filter(|object| object.uid == *uid) {
                    object.owner = None;
                    object.labelled = false;
                    object.version += 1;
                }
                Outcome::done()
            }
            ResourceStep::DeleteBinding { uid, version, .. } => {
                let same = |bound: &Bound| bound.uid == *uid && bound.version.to_string() == *version;
                if self.binding.as_ref().is_some_and(same) {
                    assert!(
                        self.objects.values().all(|object| object.owner.as_ref() != Some(uid)),
                        "left to the collector"
                    );
                    self.binding = None;
                }
                Outcome::done()
            }
        }
    }

    fn apply(&mut self, identity: &Identity, uid: &str, manifest: &serde_json::Value) -> Outcome {
        let content = digest(manifest);
        let Some(object) = self.objects.get_mut(identity).filter(|object| object.uid == uid) else {
            return Outcome::Failed(Failure::new(FailureClass::Stale, "Conflict", "another uid"));
        };
        if object.immutable && object.content != content {
            return Outcome::Failed(Failure::new(FailureClass::Rejected, "Immutable", "field is immutable"));
        }
        let owner = manifest["metadata"]["ownerReferences"][0]["uid"].as_str().map(str::to_owned);
        if object.content != content || object.owner != owner || !object.labelled {
            object.version += 1;
        }
        object.owner = owner;
        object.labelled = true;
        object.class = manifest["metadata"]["labels"]["namespaceclass.akuity.io/class"].as_str().unwrap().into();
        object.content = content;
        Outcome::Done { uid: Some(object.uid.clone()), witness: Some(object.witness().to_string()) }
    }

    /// Runs both reconcilers once; stops for good when `steps_left` is used up, as a crash would. With `lose_replies` steps
    /// are carried out but reported as failed. Returns the number of writes.
    pub fn round(&mut self, steps_left: &mut usize, lose_replies: bool, now: &Timestamp) -> usize {
        let mut ran = 0;
        let mut may_go_on = |ran: &mut usize| {
            let go_on = *steps_left > 0;
            if go_on {
                *steps_left -= 1;
                *ran += 1;
            }
            go_on
        };
        for step in binding::plan(&self.see_binding()).iter() {
            if !may_go_on(&mut ran) {
                return ran;
            }
            self.do_binding(step);
        }
        let Some(seen) = self.see_resources() else { return ran };
        let plan = resources::plan(&seen);
        let mut outcomes = Vec::new();
        let mut stopped = false;
        for group in &plan.groups {
            for step in group {
                if stopped {
                    outcomes.push((step, Outcome::NotRun));
                    continue;
                }
                if !may_go_on(&mut ran) {
                    return ran;
                }
                let outcome = self.do_resource(step);
                outcomes.push((step, if lose_replies { Outcome::Failed(lost()) } else { outcome }));
            }
            stopped |= outcomes.iter().any(|(_, outcome)| !outcome.is_done());
        }
        let status = resources::report(&seen, &outcomes, now);
        let bound = self.binding.as_mut().filter(|bound| bound.uid == seen.binding.uid && bound.status != status);
        if let Some(bound) = bound
            && may_go_on(&mut ran)
        {
            bound.status = status;
            bound.version += 1;
        }
        ran
    }

    pub fn settle(&mut self) {
        for _ in 0..12 {
            if self.round(&mut usize::MAX.clone(), false, &now()) == 0 {
                return;
            }
        }
        panic!("never settles: {self:#?}");
    }

    /// Names of the objects that carry our stamp.
    pub fn ours(&self) -> Vec<&str> {
        self.objects
            .iter()
            .filter(|(_, object)| object.owner.is_some())
            .map(|(identity, _)| identity.name.as_str())
            .collect()
    }

    pub fn ready_reason(&self) -> &str {
        self.binding.as_ref().and_then(|bound| bound.status.conditions.reason("Ready")).unwrap_or_default()
    }
}

fn lost() -> Failure {
    Failure::new(FailureClass::Transient, "TimedOut", "no reply")
}
