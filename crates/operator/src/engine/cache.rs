//! What the watches have told: objects by name, and indexes over them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use croft_core::conditions::cut;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use super::{Key, Work};

/// An object's place: namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub namespace: String,
    pub name: String,
}

impl Place {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// One object before and after a watch event; `None` where it did not or does not exist.
#[derive(Debug)]
pub struct Change<'a, K> {
    pub before: Option<&'a K>,
    pub after: Option<&'a K>,
    /// It has just happened; otherwise it was found when everything was listed.
    pub live: bool,
}

// By hand: a derive would ask for `K: Copy`, but only references are copied.
impl<K> Clone for Change<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Change<'_, K> {}

impl<'a, K> Change<'a, K> {
    /// The object in its newest known form.
    pub fn object(&self) -> &'a K {
        self.after.or(self.before).expect("a change has an object on at least one side")
    }

    /// Both forms, oldest first: for mappings that must wake what the object pointed at before as well.
    pub fn both(&self) -> impl Iterator<Item = &'a K> {
        self.before.into_iter().chain(self.after)
    }
}

type Wakes<K> = Box<dyn Fn(Change<'_, K>) -> Vec<Key> + Send + Sync>;
type Extract<K> = fn(&K) -> Vec<String>;

struct Index<K> {
    name: &'static str,
    extract: Extract<K>,
    places: BTreeMap<String, BTreeSet<Place>>,
}

struct State<K> {
    objects: BTreeMap<Place, Arc<K>>,
    /// Objects that exist but cannot be decoded. Their last readable form, if any, stays in `objects`: nobody may take
    /// an unreadable object for a deleted one, nor an old form for the stored one.
    unreadable: BTreeSet<Place>,
    indexes: Vec<Index<K>>,
    /// The works that look after an object under its own name.
    works: BTreeSet<Work>,
    /// Names of the labels and annotations somebody reads; all of them where nobody said.
    read: Option<BTreeSet<&'static str>>,
    /// Whether nobody reads finalizers.
    without_finalizers: bool,
}

/// A cache filled by one watch. Readers see an object only together with its index entries, and keys are woken only after
/// both are in place.
pub struct Cache<K> {
    state: RwLock<State<K>>,
    wakes: Mutex<Vec<Wakes<K>>>,
}

impl<K> fmt::Debug for Cache<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cache").field("objects", &self.read().objects.len()).finish_non_exhaustive()
    }
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self {
            state: RwLock::new(State {
                objects: BTreeMap::new(),
                unreadable: BTreeSet::new(),
                indexes: Vec::new(),
                works: BTreeSet::new(),
                read: None,
                without_finalizers: false,
            }),
            wakes: Mutex::new(Vec::new()),
        }
    }
}

impl<K> Cache<K> {
    /// Adds an index. Call before the watch starts; the same name is added once.
    pub fn index(&self, name: &'static str, extract: Extract<K>) {
        let mut state = self.write();
        if state.indexes.iter().all(|index| index.name != name) {
            state.indexes.push(Index { name, extract, places: BTreeMap::new() });
        }
    }

    /// Says which work looks after the objects, each under its own name. It is then woken for one that cannot be read as well, whenever
    /// that changes, and has to ask the API server for it. Call before the watch starts.
    pub fn looked_after_by(&self, work: Work) {
        self.write().works.insert(work);
    }

    /// Says which labels and annotations are read. All others are not kept, nor is more than the beginning of these, nor any owner
    /// but the one that controls the object: whoever may make objects could fill our memory with them. Call before the watch
    /// starts, for every part that reads the kind. A name that ends in a slash is that of all that begin with it.
    pub fn reads(&self, names: &[&'static str]) {
        self.write().read.get_or_insert_default().extend(names);
    }

    /// Says that finalizers are not read, nor taken off: who writes them needs all of them.
    pub fn reads_no_finalizers(&self) {
        self.write().without_finalizers = true;
    }

    /// Takes from the metadata of an object what nobody reads.
    pub(super) fn trim(&self, metadata: &mut ObjectMeta) {
        let state = self.read();
        metadata.finalizers.take_if(|_| state.without_finalizers);
        let Some(read) = &state.read else { return };
        for notes in [&mut metadata.labels, &mut metadata.annotations] {
            let Some(all) = notes.take() else { continue };
            let is_read = |name: &str| {
                let group = name.find('/').and_then(|slash| name.get(..=slash));
                read.contains(name) || group.is_some_and(|group| read.contains(group))
            };
            let kept = all.into_iter().filter(|(name, _)| is_read(name));
            *notes = Some(kept.map(|(name, note)| (name, beginning(note))).collect());
        }
        if let Some(owners) = &mut metadata.owner_references {
            owners.retain(|owner| owner.controller == Some(true));
            // Of any length, whoever writes it; what is cut names nobody.
            for owner in owners.iter_mut() {
                for text in [&mut owner.api_version, &mut owner.kind, &mut owner.name, &mut owner.uid] {
                    *text = beginning(std::mem::take(text));
                }
            }
            owners.shrink_to_fit();
        }
    }

    /// Says which keys a change wakes. Call before the watch starts.
    pub fn wakes(&self, wakes: impl Fn(Change<'_, K>) -> Vec<Key> + Send + Sync + 'static) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(wakes));
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.read().objects.get(&Place::new(namespace, name)).cloned()
    }

    /// Whether the object exists, readable or not.
    pub fn exists(&self, namespace: &str, name: &str) -> bool {
        let place = Place::new(namespace, name);
        let state = self.read();
        state.objects.contains_key(&place) || state.unreadable.contains(&place)
    }

    /// The keys of what is there and cannot be read.
    pub(super) fn unreadable_keys(&self) -> Vec<Key> {
        let state = self.read();
        state.unreadable.iter().flat_map(|place| state.keys_of(place)).collect()
    }

    /// The keys of whoever looks after the object at a place.
    pub(super) fn keys_of(&self, place: &Place) -> Vec<Key> {
        self.read().keys_of(place).collect()
    }

    /// Whether something is there that cannot be read: what it says, and to whom it belongs, nobody knows.
    pub fn has_unreadable_in(&self, namespace: &str) -> bool {
        let state = self.read();
        let first = state.unreadable.range(Place::new(namespace, "")..).next();
        first.is_some_and(|place| place.namespace == namespace)
    }

    /// The object as it is stored: not a form it had before it became unreadable.
    pub fn as_stored(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let place = Place::new(namespace, name);
        let state = self.read();
        if state.unreadable.contains(&place) { None } else { state.objects.get(&place).cloned() }
    }

    /// The uid of the object at a place, as far as it was ever readable.
    pub(super) fn uid(&self, place: &Place) -> Option<String>
    where
        K: Resource,
    {
        self.read().objects.get(place).and_then(|object| object.meta().uid.clone())
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = Place::new(namespace, "");
        let state = self.read();
        state
            .objects
            .range(from..)
            .take_while(|(place, _)| place.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Objects whose index `name` contains `value`.
    pub fn by(&self, name: &str, value: &str) -> Vec<Arc<K>> {
        let state = self.read();
        let index = state.indexes.iter().find(|index| index.name == name);
        let places = index.and_then(|index| index.places.get(value)).into_iter().flatten();
        places.filter_map(|place| state.objects.get(place).cloned()).collect()
    }

    /// Stores an object and returns the keys to wake. One that could not be read until now wakes as if it had gone and come: who
    /// waits for it was not told by its last readable form.
    pub(super) fn put(&self, place: &Place, object: K, live: bool) -> Vec<Key> {
        let object = Arc::new(object);
        let (before, was_unreadable) = {
            let mut state = self.write();
            let was_unreadable = state.unreadable.remove(place);
            let before = state.objects.insert(place.clone(), object.clone());
            state.reindex(place, before.as_deref(), Some(&object));
            (before, was_unreadable)
        };
        match before.as_deref() {
            Some(_) if was_unreadable => {
                let mut keys = self.woken(Change { before: before.as_deref(), after: None, live });
                keys.extend(self.woken(Change { before: None, after: Some(&object), live }));
                keys
            }
            before => self.woken(Change { before, after: Some(&object), live }),
        }
    }

    /// Notes that an object exists but cannot be read; whether that is news.
    pub(super) fn put_unreadable(&self, place: Place) -> bool {
        self.write().unreadable.insert(place)
    }

    /// Removes an object and returns the keys to wake; `None` if it could never be read, so that nobody knows whom it concerned.
    pub(super) fn remove(&self, place: &Place) -> Option<Vec<Key>> {
        let before = {
            let mut state = self.write();
            state.unreadable.remove(place);
            let before = state.objects.remove(place);
            state.reindex(place, before.as_deref(), None);
            before
        };
        before.map(|before| self.woken(Change { before: Some(&before), after: None, live: true }))
    }

    /// Places known before a relist that it did not name.
    pub(super) fn missing_from(&self, listed: &BTreeSet<Place>) -> BTreeSet<Place> {
        let state = self.read();
        state.objects.keys().chain(&state.unreadable).filter(|place| !listed.contains(place)).cloned().collect()
    }

    fn woken(&self, change: Change<'_, K>) -> Vec<Key> {
        let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.iter().flat_map(|wakes| wakes(change)).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, State<K>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<K>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Longer notes are told from each other by their beginnings.
const LONGEST_NOTE: usize = 1024;

fn beginning(note: String) -> String {
    let mut kept = cut(note, LONGEST_NOTE);
    kept.shrink_to_fit();
    kept
}

impl<K> State<K> {
    fn keys_of(&self, place: &Place) -> impl Iterator<Item = Key> {
        self.works.iter().map(|work| Key::new(*work, &place.namespace, &place.name))
    }

    fn reindex(&mut self, place: &Place, before: Option<&K>, after: Option<&K>) {
        for index in &mut self.indexes {
            for value in before.map(index.extract).unwrap_or_default() {
                if let Some(places) = index.places.get_mut(&value) {
                    places.remove(place);
                    if places.is_empty() {
                        index.places.remove(&value);
                    }
                }
            }
            for value in after.map(index.extract).unwrap_or_default() {
                index.places.entry(value).or_default().insert(place.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;
    use crate::engine::Part;

    fn cache() -> Cache<&'static str> {
        let cache = Cache::default();
        cache.index("letter", |text: &&str| vec![text[..1].to_owned()]);
        cache.wakes(|change| change.both().map(|text| Key::cluster(Part("test").work("test"), *text)).collect());
        cache
    }

    #[test]
    fn an_index_follows_its_objects() {
        let cache = cache();
        cache.put(&Place::new("a", "x"), "apple", true);
        cache.put(&Place::new("b", "x"), "avocado", true);
        assert_eq!(cache.by("letter", "a").len(), 2);
        cache.put(&Place::new("a", "x"), "banana", true);
        assert_eq!(cache.by("letter", "a").len(), 1);
        cache.remove(&Place::new("b", "x"));
        assert!(cache.by("letter", "a").is_empty());
    }

    #[test]
    fn a_change_wakes_what_the_object_was_and_what_it_is() {
        let cache = cache();
        cache.put(&Place::new("a", "x"), "apple", true);
        let woken = cache.put(&Place::new("a", "x"), "banana", true);
        assert_eq!(woken.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["apple", "banana"]);
    }

    #[test]
    fn an_unreadable_object_is_not_taken_for_a_deleted_one() {
        let cache = cache();
        cache.put(&Place::new("", "x"), "apple", true);
        assert!(cache.put_unreadable(Place::new("", "x")), "what it was no longer counts");
        assert!(cache.put_unreadable(Place::new("", "y")), "it was taken for absent");
        assert!(!cache.put_unreadable(Place::new("", "y")));
        assert!(cache.get("", "x").is_some() && cache.exists("", "y"));
        assert!(cache.as_stored("", "x").is_none() && cache.exists("", "x"), "it is neither gone nor as it was");
        assert!(cache.get("", "y").is_none());
        cache.put(&Place::new("", "x"), "banana", true);
        assert!(cache.as_stored("", "x").is_some());
        assert!(cache.remove(&Place::new("", "y")).is_none(), "nobody knows whom it concerned");
        assert!(!cache.exists("", "y"));
    }

    #[test]
    fn what_can_be_read_again_wakes_although_it_is_as_it_was() {
        let cache = Cache::default();
        cache.wakes(|change: Change<'_, &str>| {
            let is_news = change.before != change.after;
            is_news.then(|| Key::cluster(Part("test").work("test"), *change.object())).into_iter().collect()
        });
        let place = Place::new("", "x");
        cache.put(&place, "apple", true);
        assert!(cache.put(&place, "apple", true).is_empty());
        cache.put_unreadable(place.clone());
        assert!(!cache.put(&place, "apple", true).is_empty());
    }

    #[test]
    fn an_object_that_was_never_readable_is_known_to_whoever_looks_after_it() {
        let cache = cache();
        let work = Part("test").work("letters");
        cache.looked_after_by(work);
        cache.put(&Place::new("a", "x"), "apple", true);
        assert!(cache.unreadable_keys().is_empty());
        cache.put_unreadable(Place::new("a", "y"));
        assert_eq!(cache.unreadable_keys(), [Key::new(work, "a", "y")]);
        assert_eq!(cache.keys_of(&Place::new("a", "y")), cache.unreadable_keys());
        cache.remove(&Place::new("a", "y"));
        assert!(cache.unreadable_keys().is_empty());
    }

    #[test]
    fn of_labels_annotations_and_owners_only_what_is_read_is_kept() {
        let cache = cache();
        let note = |name: &str, length: usize| (name.to_owned(), "ü".repeat(length));
        let owner = |controller| OwnerReference { controller, ..OwnerReference::default() };
        let endless = OwnerReference { uid: "ü".repeat(100_000), ..owner(Some(true)) };
        let full = ObjectMeta {
            labels: Some([note("ours", 1), note("large", 31)].into()),
            annotations: Some([note("ours/too", 100_000), note("large", 100_000)].into()),
            owner_references: Some(vec![owner(None), endless.clone(), owner(Some(false))]),
            finalizers: Some(vec!["theirs".into()]),
            ..ObjectMeta::default()
        };
        let mut whole = full.clone();
        cache.trim(&mut whole);
        assert_eq!(whole, full, "nobody said what is read");
        cache.reads(&["ours"]);
        cache.reads(&["ours/too"]);
        cache.trim(&mut whole);
        assert_eq!(whole.labels, Some([note("ours", 1)].into()));
        let beginning = format!("{}...", "ü".repeat((LONGEST_NOTE - 3) / 2));
        let controller = OwnerReference { uid: beginning.clone(), ..endless };
        assert_eq!(whole.annotations, Some([("ours/too".to_owned(), beginning)].into()));
        assert_eq!(whole.owner_references, Some(vec![controller]), "controlled by somebody, whoever that is");
        assert_eq!(whole.finalizers, full.finalizers, "whoever takes ours off writes the others back");
        cache.reads_no_finalizers();
        cache.trim(&mut whole);
        assert_eq!(whole.finalizers, None);
    }

    #[test]
    fn namespaces_do_not_mix() {
        let cache = cache();
        for place in [Place::new("a", "x"), Place::new("a-b", "x"), Place::new("b", "x")] {
            cache.put(&place, "apple", true);
        }
        assert_eq!(cache.in_namespace("a").len(), 1);
        for namespace in ["a-b", "c"] {
            cache.put_unreadable(Place::new(namespace, "y"));
        }
        let unreadable = ["", "a", "a-b", "b", "c", "d"].map(|namespace| cache.has_unreadable_in(namespace));
        assert_eq!(unreadable, [false, false, true, false, true, false]);
    }
}
