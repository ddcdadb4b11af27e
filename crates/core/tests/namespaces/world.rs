//! One namespace, a few classes, and how the operator sees them.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use croft_core::{
    namespaces::{
        binding,
        inventory::Status,
        manifest::{Identity, Item, Rendered, Stamp, digest},
        resources::{self, Class, ClassSeen, KindSeen, NamespaceMetadata, Owner, Policy, Read, Stamped},
    },
    time::Timestamp,
};
use serde_json::json;

use crate::explorer::at_rest;

pub const NAMESPACE: &str = "team-a";

/// Every name an object here may have.
pub const NAMES: [&str; 7] = ["shared", "web-only", "db-only", "one", "two", "three", "unrelated"];

/// An object in the namespace, as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
pub struct Object {
    pub uid: String,
    pub owner: Option<String>,
    pub labelled: bool,
    pub class: String,
    /// Digest of the content.
    pub content: String,
    /// What others added to it.
    pub additions: u32,
    /// What our entry tells: see [`Object::tell`].
    pub entry: u64,
    /// It has changed since our last write without our entry telling.
    pub suspect: bool,
    /// Made by create and not yet taken over by apply.
    pub created: bool,
    /// Some field of it cannot be changed.
    pub immutable: bool,
    /// By somebody else: whatever becomes of it, we never delete it.
    pub made_by_others: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    pub uid: String,
    pub class: String,
    pub status: Rc<Status>,
    /// Changes with class and status.
    pub version: u64,
}

/// What others do in this world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// They change the label of the namespace.
    Relabel,
    /// They do whatever they can.
    Meddle,
}

#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub label: Option<&'static str>,
    pub classes: BTreeMap<&'static str, Rc<ClassSpec>>,
    pub binding: Option<Bound>,
    /// By name; all are ConfigMaps.
    pub objects: BTreeMap<&'static str, Rc<Object>>,
    pub namespace_labels: BTreeMap<String, String>,
    pub made: u32,
    pub others: Others,
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let classes = self.classes.iter().map(|(name, class)| (*name, class.deleting, class.items.len()));
        let binding = self.binding.as_ref().map(|bound| (&bound.uid, bound.version));
        (self.label, classes.collect::<Vec<_>>(), binding, &self.objects, &self.namespace_labels).hash(state);
    }
}

/// Versions and entries follow from what they are of: so there are finitely many, and equal worlds are found equal.
fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Bound {
    pub fn new(uid: String, class: String, status: Status) -> Self {
        let version = hash_of((&class, serde_json::to_string(&status).unwrap()));
        Self { uid, class, status: Rc::new(status), version }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSpec {
    /// What has been rendered of it: worlds are many, and rendering is most of what they cost.
    pub rendered: Memo,
    pub items: Vec<Item>,
    pub policy: Policy,
    pub orphan_on_unbind: bool,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
}

/// Rendered objects by class and binding. Says nothing about the class itself.
#[derive(Default)]
pub struct Memo(RefCell<HashMap<(String, String), Rc<[Rendered]>>>);

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("_")
    }
}

impl Eq for Memo {}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

pub fn config_map(name: &str, value: &str) -> Item {
    let raw = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}});
    Item::parse(raw.as_object().unwrap()).unwrap()
}

pub fn identity(name: &str) -> Identity {
    Identity { group: String::new(), kind: "ConfigMap".into(), name: name.into() }
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
            classes: classes.into_iter().map(|(name, class)| (name, Rc::new(class))).collect(),
            binding: None,
            objects: BTreeMap::new(),
            namespace_labels: BTreeMap::new(),
            made: 0,
            others: Others::Meddle,
        }
    }

    pub fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    pub fn class_mut(&mut self, name: &str) -> &mut ClassSpec {
        let class = Rc::make_mut(self.classes.get_mut(name).unwrap());
        class.rendered = Memo::default();
        class
    }

    pub fn object_mut(&mut self, name: &str) -> &mut Object {
        Rc::make_mut(self.objects.get_mut(name).unwrap())
    }

    pub fn objects_mut(&mut self) -> impl Iterator<Item = &mut Object> {
        self.objects.values_mut().map(Rc::make_mut)
    }

    /// A stranger makes an object.
    pub fn stranger_makes(&mut self, name: &'static str) {
        let uid = self.uid();
        let object = Object {
            uid,
            owner: None,
            labelled: false,
            class: String::new(),
            content: "foreign".into(),
            additions: 0,
            entry: 0,
            suspect: false,
            created: false,
            immutable: false,
            made_by_others: true,
        };
        self.objects.insert(name, Rc::new(object));
    }

    /// Leaves the world alone until nothing moves any more.
    pub fn settle(&mut self) {
        *self = at_rest(self);
    }

    pub fn see_binding(&self) -> binding::Observed {
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

    pub fn can_be_chosen(&self, class: &str) -> bool {
        self.classes.get(class).is_some_and(|class| !class.deleting)
    }

    /// The objects the class of a binding asks for.
    pub fn rendered(&self, bound: &Bound) -> Rc<[Rendered]> {
        let Some(class) = self.classes.get(bound.class.as_str()) else { return Rc::default() };
        let render = || {
            let stamp = Stamp { namespace: NAMESPACE, class: &bound.class, binding_uid: &bound.uid, protect: false };
            class.items.iter().map(|item| item.stamped(&stamp)).collect()
        };
        let mut memo = class.rendered.0.borrow_mut();
        memo.entry((bound.class.clone(), bound.uid.clone())).or_insert_with(render).clone()
    }

    fn class_seen(&self, bound: &Bound) -> ClassSeen {
        let Some(spec) = self.classes.get(bound.class.as_str()) else { return ClassSeen::Gone };
        ClassSeen::Present(Class {
            name: bound.class.clone(),
            uid: format!("class-{}", bound.class),
            generation: 1,
            items: self.rendered(bound).to_vec(),
            policy: spec.policy,
            namespace_metadata: NamespaceMetadata { labels: spec.labels.clone(), annotations: BTreeMap::new() },
            deleting: spec.deleting,
            kinds_recorded: true,
            problems: Vec::new(),
        })
    }

    /// The class the label names, if there is none of that name and the binding has another one.
    fn unknown_class(&self, bound: &Bound) -> Option<String> {
        let label = self.label.filter(|label| !label.is_empty() && *label != bound.class)?;
        (!self.classes.contains_key(label)).then(|| label.to_owned())
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
                status: Status::clone(&bound.status),
            },
            class: self.class_seen(bound),
            unknown_class: self.unknown_class(bound),
            kinds: [(("v1".into(), "ConfigMap".into()), KindSeen::Namespaced)].into(),
            stamped: self.see_stamped(),
            orphan_unstamped: self.classes.get(bound.class.as_str()).is_some_and(|class| class.orphan_on_unbind),
            read: BTreeMap::new(),
        };
        let read = seen.to_read().into_iter().map(|(_, identity)| {
            let read = self.objects.get(identity.name.as_str()).map(|object| self.read(&seen, &identity, object));
            (identity, read)
        });
        seen.read = read.collect();
        Some(seen)
    }

    fn see_stamped(&self) -> BTreeMap<Identity, Stamped> {
        let labelled = self.objects.iter().filter(|(_, object)| object.labelled);
        let stamped = labelled.map(|(name, object)| {
            let stamped = Stamped {
                api_version: "v1".into(),
                uid: object.uid.clone(),
                version: object.version(),
                owner: self.owner(object),
                class: object.class.clone(),
                entry: object.entry.to_string(),
                suspect: object.suspect,
                created: object.created,
                orphan: self.classes.get(object.class.as_str()).is_some_and(|class| class.orphan_on_unbind),
                deleting: false,
            };
            (identity(name), stamped)
        });
        stamped.collect()
    }

    fn read(&self, seen: &resources::Observed, identity: &Identity, object: &Object) -> Read {
        Read {
            api_version: "v1".into(),
            uid: object.uid.clone(),
            version: object.version(),
            owner: self.owner(object),
            deleting: false,
            as_wanted: seen.shown_by(identity).is_some_and(|manifest| digest(manifest) == object.content),
            taken_fields: object.created.then(|| json!([])),
            other_owners: json!([]),
        }
    }

    fn owner(&self, object: &Object) -> Owner {
        match (&object.owner, &self.binding) {
            (None, _) => Owner::Nobody,
            (Some(owner), Some(bound)) if *owner == bound.uid => Owner::ThisBinding,
            (Some(_), _) if object.is_a_bindings() => Owner::FormerBinding,
            _ => Owner::Other,
        }
    }

    /// Whether we can know of an object of ours: who takes the stamp off before it is on record hides it from us, until the
    /// collector takes it together with its binding.
    pub fn can_be_found(&self, name: &str, object: &Object) -> bool {
        let recorded = self.binding.as_ref().and_then(|bound| bound.status.applied(&identity(name)));
        object.labelled || recorded.is_some_and(|applied| applied.uid.as_ref() == Some(&object.uid))
    }

    /// Names of the objects a binding controls.
    pub fn ours(&self) -> Vec<&str> {
        let ours = self.objects.iter().filter(|(_, object)| object.is_a_bindings());
        ours.map(|(name, _)| *name).collect()
    }

    pub fn ready_reason(&self) -> &str {
        self.binding.as_ref().and_then(|bound| bound.status.conditions.reason("Ready")).unwrap_or_default()
    }
}

impl Object {
    /// Changes with every change, by anybody.
    pub fn version(&self) -> String {
        hash_of(self).to_string()
    }

    /// Our entry tells of what has become of the fields we set.
    pub fn tell(&mut self) {
        self.entry = hash_of((&self.content, &self.owner, self.labelled, self.created));
    }

    /// Whether a binding controls it, be it one that is no more.
    pub fn is_a_bindings(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.starts_with("uid-"))
    }
}
