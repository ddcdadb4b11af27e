//! One namespace, a few classes and their objects, in an API server small enough to explore.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

use croft_core::{
    namespaces::{
        class,
        inventory::Status,
        manifest::{Identity, Item, Rendered, Stamp},
        resources::Policy,
    },
    time::Timestamp,
};
use serde_json::json;

use crate::explorer::at_rest;

pub const NAMESPACE: &str = "team-a";

/// Every name an object here may have.
pub const NAMES: [&str; 12] = [
    "shared",
    "web-only",
    "db-only",
    "one",
    "two",
    "three",
    "gadget",
    "unrelated",
    "limits",
    "welcome",
    "notice",
    "right",
];

/// Those of them whose kind may come, go and be out of sight; all others but the right are ConfigMaps.
const WIDGETS: [&str; 2] = ["web-only", "gadget"];

/// The one that gives a right.
const RIGHT: &str = "right";

/// An object in the namespace, as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each with its own name")]
pub struct Object {
    pub uid: String,
    /// Who controls it.
    pub owner: Option<String>,
    /// The class its label names.
    pub stamp: Option<String>,
    /// The value of the one field that classes set.
    pub data: Option<String>,
    /// What somebody else added: it changes none of our values.
    pub additions: bool,
    /// Made by create and not yet taken over by apply.
    pub created: bool,
    /// Its value cannot be changed.
    pub immutable: bool,
    /// Somebody's finalizer holds it.
    pub held: bool,
    pub deleting: bool,
    /// By somebody else: whatever becomes of it, we never delete it.
    pub made_by_others: bool,
}

/// The binding of the namespace. Which one it is, and its version, say all about it.
#[derive(Clone, Debug)]
pub struct Bound {
    pub uid: String,
    pub class: String,
    pub status: Rc<Status>,
    /// Changes with class and status.
    pub version: u64,
}

#[derive(Clone, Default, PartialEq)]
pub struct ClassSpec {
    /// Tells a class from another one of its name.
    pub uid: u32,
    pub generation: i64,
    pub items: Vec<Item>,
    pub policy: Policy,
    pub orphan_on_unbind: bool,
    pub labels: BTreeMap<String, String>,
    pub deleting: bool,
    /// By our finalizer.
    pub held: bool,
    pub status: class::Status,
    /// What has been rendered of it: worlds are many, and rendering is most of what they cost.
    pub rendered: Memo,
}

/// How far the operator can see the widgets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sight {
    #[default]
    Clear,
    /// Their API is away: nothing is listed, read or written.
    Away,
    /// Their watch fails, and shows what was there when it began to; calls are answered.
    Frozen(BTreeMap<&'static str, Rc<Object>>),
    /// They are watched, but cannot be read.
    Unreadable,
    /// We may neither list nor change them.
    Forbidden,
    /// Their definition has been deleted, and they with it; their watch shows what it showed last.
    NotInstalled(BTreeMap<&'static str, Rc<Object>>),
}

/// Who acts in a world, besides the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// Changes the label of the namespace.
    Owner,
    /// Does whatever can be done to objects.
    Tenant,
    /// Edits, deletes and remakes classes.
    Administrator,
    /// Lets widgets come, go, and be out of sight.
    Outage,
    /// Brings back what the Namespace said at another time.
    Backup,
}

#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub label: Option<&'static str>,
    pub classes: BTreeMap<&'static str, Rc<ClassSpec>>,
    pub binding: Option<Bound>,
    pub objects: BTreeMap<&'static str, Rc<Object>>,
    /// What classes have set on the namespace.
    pub namespace_labels: BTreeMap<String, String>,
    /// The Namespace says that labels of it are kept.
    pub noted: bool,
    pub widgets: Sight,
    pub made: u32,
    pub others: &'static [Other],
    /// The operator also works on the classes themselves; otherwise that is taken for done.
    pub tends_classes: bool,
    /// The namespace belongs to the cluster.
    pub system: bool,
    /// Somebody's admission takes our label off what is stored under this name.
    pub stripped: Option<&'static str>,
}

impl Eq for World {}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let classes = self.classes.iter().map(|(name, class)| {
            let counts =
                (class.status.observed_generation, class.status.bound_namespaces, class.status.ready_namespaces);
            (*name, class.uid, class.generation, class.held, counts)
        });
        let binding = self.binding.as_ref().map(|bound| (&bound.uid, bound.version));
        (self.label, classes.collect::<Vec<_>>(), binding, &self.objects, &self.namespace_labels).hash(state);
        (&self.widgets, self.noted).hash(state);
    }
}

impl Eq for ClassSpec {}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        (&self.uid, self.version) == (&other.uid, other.version)
    }
}

/// Versions follow from what they are of: so there are finitely many, and equal worlds are found equal.
pub fn hash_of(value: impl Hash) -> u64 {
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

/// Rendered objects by class and binding. Says nothing about the class itself.
#[derive(Default)]
pub struct Memo(RefCell<ByClassAndBinding>);

type ByClassAndBinding = HashMap<(String, String), Rc<[Rendered]>>;

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for ClassSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, generation, items, policy, orphan_on_unbind, labels, deleting, held, .. } = self;
        let names: Vec<_> = items.iter().map(|item| &item.identity.name).collect();
        write!(out, "#{uid}.{generation} {names:?} {labels:?}, deleting: {deleting}, held: {held}, ")?;
        write!(out, "orphan: {orphan_on_unbind}, {policy:?}")
    }
}

/// `apiVersion` and kind of what is called so.
pub fn kind_of(name: &str) -> (&'static str, &'static str) {
    match name {
        RIGHT => ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        _ if WIDGETS.contains(&name) => ("example.com/v1", "Widget"),
        _ => ("v1", "ConfigMap"),
    }
}

pub fn item(name: &str, value: Option<&str>) -> Item {
    let (api_version, kind) = kind_of(name);
    let mut raw = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if let Some(value) = value {
        raw["data"] = json!({"k": value});
    }
    Item::parse(raw.as_object().unwrap().clone()).unwrap()
}

pub fn identity(name: &str) -> Identity {
    let (api_version, kind) = kind_of(name);
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    Identity { group: group.into(), kind: kind.into(), name: name.into() }
}

pub fn class(names: &[&str]) -> ClassSpec {
    ClassSpec { items: names.iter().map(|name| item(name, Some("v"))).collect(), ..ClassSpec::default() }
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
            noted: false,
            widgets: Sight::default(),
            made: 0,
            others: &[],
            tends_classes: false,
            system: false,
            stripped: None,
        }
    }

    pub fn uid(&mut self) -> String {
        self.made += 1;
        format!("uid-{}", self.made)
    }

    /// For a change of the spec of a class.
    pub fn class_mut(&mut self, name: &str) -> &mut ClassSpec {
        let class = Rc::make_mut(self.classes.get_mut(name).unwrap());
        class.rendered = Memo::default();
        class.generation += 1;
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
        let object = Object {
            uid: self.uid(),
            owner: None,
            stamp: None,
            data: Some("foreign".into()),
            additions: false,
            created: false,
            immutable: false,
            held: false,
            deleting: false,
            made_by_others: true,
        };
        self.objects.insert(name, Rc::new(object));
    }

    /// Whoever deletes an object that is held has to wait.
    pub fn delete_object(&mut self, name: &str) {
        if self.objects.get(name).is_some_and(|object| object.held) {
            self.object_mut(name).deleting = true;
        } else {
            self.objects.remove(name);
        }
    }

    /// Leaves the world alone until nothing moves any more.
    pub fn settle(&mut self) {
        *self = at_rest(self);
    }

    pub fn status(&self) -> &Status {
        &self.binding.as_ref().expect("there is a binding").status
    }

    pub fn can_be_chosen(&self, class: &str) -> bool {
        self.classes.get(class).is_some_and(|class| !class.deleting)
    }

    /// The objects the class of a binding asks for.
    pub fn rendered(&self, bound: &Bound) -> Rc<[Rendered]> {
        let Some(class) = self.classes.get(bound.class.as_str()) else { return Rc::default() };
        let render = || {
            let stamp = Stamp { namespace: NAMESPACE, class: &bound.class, binding_uid: &bound.uid, protect: false };
            class.items.iter().cloned().map(|item| item.stamped(&stamp)).collect()
        };
        let mut memo = class.rendered.0.borrow_mut();
        memo.entry((bound.class.clone(), bound.uid.clone())).or_insert_with(render).clone()
    }

    /// Whether we can know of an object of ours: who takes the stamp off before it is on record hides it from us, until the
    /// collector takes it together with its binding.
    pub fn can_be_found(&self, name: &str, object: &Object) -> bool {
        object.stamp.is_some() || self.is_listed(name)
    }

    /// Whether the object is on record as ours.
    pub fn is_listed(&self, name: &str) -> bool {
        let listed = self.binding.as_ref().and_then(|bound| bound.status.applied(&identity(name))?.uid.as_ref());
        listed.is_some() && listed == self.objects.get(name).map(|object| &object.uid)
    }

    /// Whether what there is of a name cannot be told now.
    pub fn is_out_of_sight(&self, name: &str) -> bool {
        WIDGETS.contains(&name) && !matches!(self.widgets, Sight::Clear | Sight::NotInstalled(_))
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

    /// Whether a binding controls it, be it one that is no more.
    pub fn is_a_bindings(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.starts_with("uid-"))
    }
}
