//! Stamped objects of one kind, in the few words that are kept of them.

use std::{collections::BTreeMap, sync::Arc};

use croft_api::namespaces::STAMP_LABEL;
use croft_core::{
    conditions::cut,
    namespaces::witness::{self, Seal},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{
    controller::{Controller, controller_of},
    fields,
};
use crate::engine::Place;

/// Finalizers are told up to this length.
const LONGEST_HELD: usize = 300;

/// A stamped object, in the few words that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) api_version: Arc<str>,
    pub(super) uid: String,
    /// Its resourceVersion, word for word: not every API server counts.
    pub(super) version: Box<str>,
    pub(super) controller: Option<Controller>,
    pub(crate) class: Arc<str>,
    pub(super) content: String,
    pub(super) created: bool,
    pub(super) deleting: bool,
    /// The finalizers that hold it once it is deleted.
    pub(super) held_by: Option<Box<str>>,
}

impl Entry {
    /// `whole` is the object with its kind.
    pub(crate) fn of(api_version: Arc<str>, metadata: &ObjectMeta, whole: &Value, seal: &Seal) -> Self {
        let content = witness::content(whole, seal);
        Self { content, created: fields::was_created(metadata), ..Self::unreadable(api_version, metadata) }
    }

    /// Whatever was seen of it before, each version of it is something else: it is read, and where that fails it says so.
    pub(super) fn unreadable(api_version: Arc<str>, metadata: &ObjectMeta) -> Self {
        let version = metadata.resource_version.as_deref().unwrap_or_default();
        Self {
            api_version,
            uid: metadata.uid.clone().unwrap_or_default(),
            version: version.into(),
            controller: controller_of(metadata),
            class: metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(STAMP_LABEL))
                .map_or("", String::as_str)
                .into(),
            content: format!("unreadable at {version}"),
            created: false,
            deleting: metadata.deletion_timestamp.is_some(),
            held_by: held_by(metadata),
        }
    }

    /// Whether the two tell the same: changes of status and of bookkeeping make no difference.
    fn tells_the_same_as(&self, other: &Self) -> bool {
        let Self { api_version, uid, version: _, controller, class, content, created, deleting, held_by } = self;
        (api_version, uid, controller) == (&other.api_version, &other.uid, &other.controller)
            && (class, content, created, deleting) == (&other.class, &other.content, &other.created, &other.deleting)
            && *held_by == other.held_by
    }
}

/// What an object waits for once it is deleted.
pub(super) fn held_by(metadata: &ObjectMeta) -> Option<Box<str>> {
    let finalizers = metadata.finalizers.as_ref().filter(|finalizers| !finalizers.is_empty())?;
    Some(cut(finalizers.join(", "), LONGEST_HELD).into())
}

/// Objects of one kind.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Namespace -> name -> object.
    pub(super) by_namespace: BTreeMap<String, BTreeMap<String, Entry>>,
    /// How many were stamped from each class.
    pub(super) by_class: BTreeMap<Arc<str>, usize>,
}

/// What an object that is shown means.
pub(super) struct Put {
    /// Somebody needs to know.
    pub(super) is_news: bool,
    /// The one of this name before it is gone.
    pub(super) is_another: bool,
}

/// What a namespace has of a kind after one of its objects is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Others,
    Nothing,
}

impl Objects {
    pub(super) fn put(&mut self, place: &Place, mut entry: Entry) -> Put {
        // There are many objects of few classes and bindings: words they have in common are kept once.
        if let Some((known, _)) = self.by_class.get_key_value(&entry.class) {
            entry.class = known.clone();
        }
        *self.by_class.entry(entry.class.clone()).or_default() += 1;
        let names = self.by_namespace.entry(place.namespace.clone()).or_default();
        let neighbour = names.values().next().and_then(|neighbour| neighbour.controller.as_ref());
        if let (Some(neighbour), Some(own)) = (neighbour, &mut entry.controller)
            && *neighbour == *own
        {
            own.uid = neighbour.uid.clone();
        }
        let before = names.remove(&place.name);
        let put = Put {
            is_news: before.as_ref().is_none_or(|before| !entry.tells_the_same_as(before)),
            is_another: before.as_ref().is_some_and(|before| before.uid != entry.uid),
        };
        names.insert(place.name.clone(), entry);
        if let Some(before) = before {
            self.uncount(&before.class);
        }
        put
    }

    pub(super) fn remove(&mut self, place: &Place) -> Left {
        let Some(names) = self.by_namespace.get_mut(&place.namespace) else { return Left::Nothing };
        let before = names.remove(&place.name);
        let left = if names.is_empty() { Left::Nothing } else { Left::Others };
        if left == Left::Nothing {
            self.by_namespace.remove(&place.namespace);
        }
        if let Some(before) = before {
            self.uncount(&before.class);
        }
        left
    }

    fn uncount(&mut self, class: &str) {
        if let Some(count) = self.by_class.get_mut(class) {
            *count -= 1;
            if *count == 0 {
                self.by_class.remove(class);
            }
        }
    }

    pub(super) fn uid(&self, place: &Place) -> Option<String> {
        let entry = self.by_namespace.get(&place.namespace)?.get(&place.name)?;
        Some(entry.uid.clone())
    }

    pub(super) fn owners_of<'o>(&'o self, class: &'o str) -> impl Iterator<Item = (String, Arc<str>)> + 'o {
        self.by_namespace.iter().flat_map(move |(namespace, names)| {
            let of_class = names.values().filter(move |entry| *entry.class == *class);
            let owners = of_class.filter_map(|entry| entry.controller.as_ref().filter(|owner| owner.is_binding));
            owners.map(|owner| (namespace.clone(), owner.uid.clone()))
        })
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        self.by_namespace
            .iter()
            .flat_map(|(namespace, names)| names.keys().map(|name| Place::new(namespace.clone(), name.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(class: &str, version: u64) -> Entry {
        Entry {
            api_version: "v1".into(),
            uid: "u".into(),
            version: version.to_string().into(),
            controller: None,
            class: class.into(),
            content: "c".into(),
            created: false,
            deleting: false,
            held_by: None,
        }
    }

    #[test]
    fn a_version_that_is_no_number_is_kept_word_for_word() {
        let metadata = ObjectMeta { resource_version: Some("1234/".into()), ..ObjectMeta::default() };
        assert_eq!(&*Entry::unreadable("v1".into(), &metadata).version, "1234/");
    }

    #[test]
    fn a_change_of_status_tells_nothing_and_a_change_of_class_is_counted() {
        let mut objects = Objects::default();
        let place = Place::new("team-a", "one");
        assert!(objects.put(&place, entry("web", 1)).is_news);
        assert!(!objects.put(&place, entry("web", 2)).is_news, "the same but for its version");
        assert!(objects.put(&place, entry("db", 3)).is_news);
        let another = Entry { uid: "v".into(), ..entry("db", 4) };
        assert!(objects.put(&place, another).is_another, "of the same name");
        assert_eq!(objects.by_class, BTreeMap::from([("db".into(), 1)]));
        assert_eq!(objects.remove(&place), Left::Nothing);
        assert!(objects.by_class.is_empty() && objects.by_namespace.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_news_in_each_of_its_versions() {
        let mut objects = Objects::default();
        let place = Place::new("team-a", "one");
        let mut put = |version: &str| {
            let metadata = ObjectMeta { resource_version: Some(version.into()), ..ObjectMeta::default() };
            objects.put(&place, Entry::unreadable("v1".into(), &metadata)).is_news
        };
        assert_eq!([put("1"), put("1"), put("2")], [true, false, true]);
    }

    #[test]
    fn nothing_of_a_kind_is_left_once_its_last_object_in_a_namespace_is_gone() {
        let mut objects = Objects::default();
        let places = [("team-a", "one"), ("team-a", "two"), ("team-b", "one")].map(|(of, name)| Place::new(of, name));
        for place in &places {
            objects.put(place, entry("web", 1));
        }
        assert_eq!(places.map(|place| objects.remove(&place)), [Left::Others, Left::Nothing, Left::Nothing]);
    }
}
