//! How the operator sees the world.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use croft_core::namespaces::{
    binding, class, gate,
    inventory::Status,
    manifest::{Identity, Rendered},
    resources::{self, Class, ClassSeen, KindName, KindSeen, NamespaceMetadata, Owner, Read, Stamped},
    rollout::{self, Kept},
    witness::Witness,
};
use serde_json::{Value, json};

use crate::world::{Bound, ClassSpec, NAMESPACE, Object, Sight, World, hash_of, identity, kind_of};

const CLASS_LABEL: &str = "namespaceclass.akuity.io/name";
/// By which a Namespace says which of its labels are kept.
const NOTE: &str = "namespaceclass.akuity.io/protected-labels";

impl World {
    pub fn see_binding(&self) -> binding::Observed {
        binding::Observed {
            namespace: binding::Namespace {
                name: NAMESPACE.into(),
                uid: "ns".into(),
                terminating: false,
                system: self.system,
                label: self.label.map(str::to_owned),
            },
            binding: self.binding.as_ref().map(|bound| binding::Binding {
                uid: bound.uid.clone(),
                version: bound.version.to_string(),
                class: bound.class.clone(),
                deleting: false,
            }),
            wanted_class: self.label.filter(|label| self.can_be_chosen(label)).map(str::to_owned),
            is_wanted_class_leaving: self
                .label
                .is_some_and(|label| self.classes.contains_key(label) && !self.can_be_chosen(label)),
        }
    }

    pub fn see_resources(&self) -> Option<resources::Observed> {
        let bound = self.binding.as_ref()?;
        let status = Status::clone(&bound.status);
        let origin = status.observed_class_name.clone().unwrap_or_else(|| bound.class.clone());
        let mut seen = resources::Observed {
            namespace: self.see_namespace(bound),
            binding: resources::Binding {
                uid: bound.uid.clone(),
                version: bound.version.to_string(),
                generation: 1,
                class: bound.class.clone(),
                deleting: false,
                status,
            },
            class: self.class_seen(bound),
            unknown_class: self.unknown_class(bound),
            kinds: self.see_kinds(),
            stamped: self.see_stamped(),
            orphan_unstamped: self.orphans(&origin),
            keeping: self.classes.keys().filter(|name| self.orphans(name)).map(|name| (*name).to_owned()).collect(),
            ..resources::Observed::default()
        };
        seen.forget_vanished();
        for (_, identity) in seen.to_read() {
            self.read_into(&mut seen, identity);
        }
        Some(seen)
    }

    pub fn see_class(&self, name: &str) -> Option<class::Observed> {
        let spec = self.classes.get(name)?;
        let stamped = self.objects.iter().filter(|(_, object)| object.stamp.as_deref() == Some(name));
        let bound = self.binding.iter().filter(|bound| bound.class == name);
        // Revisions have a world of their own: here each is kept from the start.
        let newest = format!("{}.{}", spec.uid, spec.generation);
        let kept = Kept { digest: newest.clone(), number: spec.generation, ..Kept::default() };
        Some(class::Observed {
            name: name.to_owned(),
            generation: spec.generation,
            deleting: spec.deleting,
            held: spec.held,
            must_hold: spec.must_hold(),
            problems: Vec::new(),
            resources: i64::try_from(spec.items.len()).unwrap(),
            uses: spec.items.iter().map(|item| kind_recorded(&item.identity.name)).collect(),
            live: stamped.map(|(name, _)| kind_recorded(name)).collect(),
            namespaces: bound.map(|bound| seen_by_class(bound, name, spec)).collect(),
            left_by: self.has_left(name).then(|| NAMESPACE.to_owned()).into_iter().collect(),
            gate: gate::Seen::default(),
            rollout: rollout::Seen { newest: Some(newest), kept: vec![kept], ..rollout::Seen::default() },
            status: spec.status.clone(),
        })
    }

    fn see_namespace(&self, bound: &Bound) -> resources::Namespace {
        let label = self.label.map(|label| (CLASS_LABEL.to_owned(), label.to_owned()));
        resources::Namespace {
            name: NAMESPACE.into(),
            unlabelled: self.label.is_none(),
            relabelled: self.label.is_some_and(|label| label != bound.class && self.can_be_chosen(label)),
            system: self.system,
            labels: self.namespace_labels.clone().into_iter().chain(label).collect(),
            annotations: self.noted.then(|| (NOTE.to_owned(), "tier".to_owned())).into_iter().collect(),
            ..resources::Namespace::default()
        }
    }

    fn class_seen(&self, bound: &Bound) -> ClassSeen {
        let Some(spec) = self.classes.get(bound.class.as_str()) else { return ClassSeen::Gone };
        ClassSeen::Present(Class {
            name: bound.class.clone(),
            uid: class_uid(&bound.class, spec),
            generation: spec.generation,
            items: self.rendered(bound).to_vec(),
            policy: spec.policy,
            namespace_metadata: NamespaceMetadata { labels: spec.labels.clone(), annotations: BTreeMap::new() },
            deleting: spec.deleting,
            recorded_kinds: self.recorded_kinds(spec),
            ..Class::default()
        })
    }

    pub fn recorded_kinds(&self, spec: &ClassSpec) -> BTreeSet<KindName> {
        if self.tends_classes {
            return spec.status.kinds.iter().map(|kind| (kind.api_version.clone(), kind.kind.clone())).collect();
        }
        spec.items.iter().map(|item| (item.api_version.clone(), item.identity.kind.clone())).collect()
    }

    /// The class the label names, if there is none of that name and the binding has another one.
    fn unknown_class(&self, bound: &Bound) -> Option<String> {
        let label = self.label.filter(|label| !label.is_empty() && *label != bound.class)?;
        (!self.classes.contains_key(label)).then(|| label.to_owned())
    }

    fn orphans(&self, class: &str) -> bool {
        self.classes.get(class).is_some_and(|class| class.orphan_on_unbind)
    }

    fn see_kinds(&self) -> BTreeMap<KindName, KindSeen> {
        let widgets = match self.widgets {
            Sight::Clear | Sight::Unreadable => KindSeen::Namespaced,
            Sight::Away => KindSeen::Unobservable { why: "the API is away".into() },
            Sight::Frozen(_) => KindSeen::Unobservable { why: "the watch fails".into() },
            Sight::Forbidden => KindSeen::Forbidden { resource: "widgets".into() },
            Sight::NotInstalled(_) => KindSeen::NotInstalled,
        };
        let name = |name| {
            let (api_version, kind) = kind_of(name);
            (api_version.to_owned(), kind.to_owned())
        };
        [(name("shared"), KindSeen::Namespaced), (name("right"), KindSeen::Namespaced), (name("gadget"), widgets)]
            .into()
    }

    /// What the watches show.
    fn see_stamped(&self) -> BTreeMap<Identity, Stamped> {
        let config_maps = self.objects.iter().filter(|(name, _)| !is_widget(name));
        let nothing = BTreeMap::new();
        let widgets = match &self.widgets {
            Sight::Clear | Sight::Unreadable => &self.objects,
            Sight::Frozen(shown) | Sight::NotInstalled(shown) => shown,
            Sight::Away | Sight::Forbidden => &nothing,
        };
        let widgets = widgets.iter().filter(|(name, _)| is_widget(name));
        let stamped = config_maps.chain(widgets).filter_map(|(name, object)| {
            let class = object.stamp.clone()?;
            let stamped = Stamped {
                api_version: kind_of(name).0.into(),
                uid: object.uid.clone(),
                version: object.version(),
                owner: self.owner(object),
                orphan: self.orphans(&class),
                class,
                content: object.content(),
                created: object.created,
                deleting: object.deleting,
                held_by: object.held_by(),
            };
            Some((identity(name), stamped))
        });
        stamped.collect()
    }

    fn read_into(&self, seen: &mut resources::Observed, identity: Identity) {
        match self.widgets {
            Sight::Unreadable | Sight::Forbidden if is_widget(&identity.name) => {
                seen.unreadable.insert(identity, "reads fail".into());
            }
            Sight::Away | Sight::NotInstalled(_) if is_widget(&identity.name) => {}
            _ => {
                let object = self.objects.get(identity.name.as_str());
                let read = object.map(|object| {
                    let is_excess = object.additions && seen.extent_of(&identity).is_some();
                    let excess = is_excess.then(|| json!({}));
                    Read { excess, ..self.read(&identity.name, object, seen.shown_by(&identity)) }
                });
                seen.read.insert(identity, read);
            }
        }
    }

    fn read(&self, name: &str, object: &Object, manifest: Option<&Value>) -> Read {
        let other = object.owner.iter().filter(|_| !object.is_a_bindings());
        Read {
            api_version: kind_of(name).0.into(),
            uid: object.uid.clone(),
            version: object.version(),
            owner: self.owner(object),
            deleting: object.deleting,
            held_by: object.held_by(),
            witness: manifest.map(|manifest| object.witness(manifest)),
            excess: None,
            is_locked: false,
            gives_more: false,
            changed_by: None,
            changed_field: None,
            taken_fields: object.created.then(|| json!([])),
            other_owners: json!(other.collect::<Vec<_>>()),
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
}

pub fn is_widget(name: &str) -> bool {
    kind_of(name).1 == "Widget"
}

pub fn class_uid(name: &str, spec: &ClassSpec) -> String {
    format!("class-{name}-{}", spec.uid)
}

fn kind_recorded(name: &str) -> class::Kind {
    let (api_version, kind) = kind_of(name);
    class::Kind { api_version: api_version.into(), kind: kind.into(), resource: format!("{}s", kind.to_lowercase()) }
}

fn seen_by_class(bound: &Bound, name: &str, spec: &ClassSpec) -> class::Bound {
    let Status { observed_class_uid, observed_class_generation, conditions, .. } = &*bound.status;
    let is_stalled = conditions.is_true("Stalled");
    class::Bound {
        name: NAMESPACE.into(),
        updated: observed_class_uid.as_ref() == Some(&class_uid(name, spec))
            && *observed_class_generation == Some(spec.generation),
        ready: conditions.is_true("Ready"),
        stalled: conditions.reason("Stalled").filter(|_| is_stalled).map(str::to_owned),
        ..class::Bound::default()
    }
}

impl ClassSpec {
    /// Its deletion needs us.
    pub fn must_hold(&self) -> bool {
        self.policy.block_class_delete || self.policy.orphan_on_class_delete || self.orphan_on_unbind
    }
}

impl World {
    /// Whether the namespace has another class, and something of this one that is left behind.
    pub fn has_left(&self, name: &str) -> bool {
        let Some(bound) = self.binding.as_ref().filter(|bound| bound.class != name) else { return false };
        let is_of =
            |object: &Rc<Object>| object.stamp.as_deref() == Some(name) && object.owner.as_ref() == Some(&bound.uid);
        self.orphans(name) && self.objects.values().any(is_of)
    }
}

impl Object {
    /// What a watch shows of it.
    pub fn content(&self) -> String {
        let Self { owner, stamp, data, additions, immutable, .. } = self;
        format!("{:x}", hash_of((owner, stamp, data, additions, immutable)))
    }

    fn held_by(&self) -> Option<String> {
        self.held.then(|| "example.com/mine".to_owned())
    }

    /// What it shows of a manifest.
    pub fn witness(&self, manifest: &Value) -> Witness {
        let data = manifest.get("data").map(|_| &self.data);
        let fields = format!("{:x}", hash_of((&self.owner, &self.stamp, data)));
        Witness { fields, content: self.content(), rest: false }
    }

    /// Whether it is as the manifest wants it; where a class sets no value, others may.
    pub fn shows(&self, wanted: &Rendered) -> bool {
        let metadata = &wanted.manifest["metadata"];
        let value = wanted.manifest["data"]["k"].as_str();
        let is_free = value.is_none() && matches!(self.data.as_deref(), Some("edited" | "foreign"));
        self.owner.as_deref() == metadata["ownerReferences"][0]["uid"].as_str()
            && self.stamp.as_deref() == metadata["labels"]["namespaceclass.akuity.io/class"].as_str()
            && (self.data.as_deref() == value || is_free)
    }
}
