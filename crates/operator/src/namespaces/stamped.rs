//! What is really there: one watch per stamped kind, selected by the stamp label, started when a class first uses the kind and
//! stopped when none does and nothing stamped is left. Objects are seen whole, digested and dropped: of each only a few words
//! are kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak},
    time::Duration,
};

use croft_api::namespaces::STAMP_LABEL;
use croft_core::{
    journal::Pace,
    namespaces::{
        class::{Kind, version_to_watch},
        manifest::{Identity, group_of},
        resources::KindName,
    },
    queue::Priority,
    watching::Standing,
    weight::Limit,
};
use kube::{Api, Client, api::ApiResource};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use super::{
    BINDING, CALM, Caches, LOSS,
    entries::{Entry, Left, Objects, Put},
    live::Live,
    seal::SharedSeal,
    stamping::stream_of,
};
use crate::engine::{
    EngineBuilder, Journal, Key, KindChanges, Place, Pusher,
    watch::{Arrived, Departed, How, Sink, Supervisor, Surroundings, Wire, place_of, revision_of},
    write::crd_name,
};

/// A watch that has not told after this long what is there does not count as starting any more.
const STARTING: Duration = Duration::from_secs(30);

struct Watched {
    kind: Kind,
    objects: Arc<RwLock<Objects>>,
    standing: watch::Receiver<Standing>,
    since: Instant,
    need: Arc<Mutex<Need>>,
    _task: AbortOnDropHandle<()>,
}

impl Watched {
    /// Whether the watch goes on, given the version in which classes use the kind. A version nobody uses may soon be served
    /// no more: the watch moves to the one in use. What a deleted class left is watched until it is gone.
    fn goes_on(&self, used: Option<&Kind>) -> bool {
        let mut need = lock(&self.need);
        need.used = used.is_some();
        !need.ended && used.is_none_or(|used| *used == self.kind) && (need.used || !is_empty(&self.objects))
    }
}

/// Whether a watch is needed, by itself and by those who started it.
#[derive(Debug)]
struct Need {
    /// Some class uses the kind.
    used: bool,
    /// Nobody used it and nothing was left.
    ended: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(objects: &RwLock<Objects>) -> RwLockReadGuard<'_, Objects> {
    objects.read().unwrap_or_else(PoisonError::into_inner)
}

fn is_empty(objects: &RwLock<Objects>) -> bool {
    read(objects).by_namespace.is_empty()
}

/// Group and kind: versions are transport.
type KindKey = (String, String);

/// All watches, for one of them: these own it.
struct WeakWatches(Weak<Mutex<BTreeMap<KindKey, Watched>>>);

impl WeakWatches {
    fn has_nothing_in(&self, namespace: &str) -> bool {
        let Some(watched) = self.0.upgrade() else { return true };
        lock(&watched).values().all(|watch| !read(&watch.objects).by_namespace.contains_key(namespace))
    }
}

/// All stamped objects of the kinds in use.
#[derive(Clone)]
pub(super) struct Stamps {
    client: Client,
    seal: SharedSeal,
    pusher: Pusher,
    journal: Journal,
    surroundings: Surroundings,
    caches: Caches,
    watched: Arc<Mutex<BTreeMap<KindKey, Watched>>>,
    /// What classes use, in every version they use it in, and how many do.
    used: Arc<Mutex<BTreeMap<Kind, usize>>>,
}

impl std::fmt::Debug for Stamps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Stamps").field("kinds", &self.watched().keys()).finish_non_exhaustive()
    }
}

fn key_of(kind: &Kind) -> KindKey {
    let (group, kind) = kind.identity();
    (group.to_owned(), kind.to_owned())
}

pub(crate) fn api_resource(kind: &Kind) -> ApiResource {
    let group = group_of(&kind.api_version);
    ApiResource {
        group: group.to_owned(),
        version: kind.api_version.rsplit('/').next().unwrap_or_default().to_owned(),
        api_version: kind.api_version.clone(),
        kind: kind.kind.clone(),
        plural: kind.resource.clone(),
    }
}

impl Stamps {
    pub(super) fn new(engine: &EngineBuilder, seal: SharedSeal, caches: Caches) -> Self {
        Self {
            client: engine.client(),
            seal,
            pusher: engine.pusher(),
            journal: engine.journal(),
            surroundings: engine.surroundings(),
            caches,
            watched: Arc::default(),
            used: Arc::default(),
        }
    }

    /// A class used these kinds and uses those now.
    pub(super) fn class_changed(&self, before: &BTreeSet<Kind>, after: &BTreeSet<Kind>) {
        let mut used = lock(&self.used);
        for kind in after.difference(before) {
            *used.entry(kind.clone()).or_default() += 1;
        }
        for kind in before.difference(after) {
            if let Some(count) = used.get_mut(kind) {
                *count -= 1;
                if *count == 0 {
                    used.remove(kind);
                }
            }
        }
        drop(used);
        if before != after {
            self.reconsider();
        }
    }

    /// Watches every kind that is used, in a version that is served if there is one.
    pub(super) fn reconsider(&self) {
        let used = lock(&self.used);
        let mut versions: BTreeMap<KindKey, Vec<&Kind>> = BTreeMap::new();
        for kind in used.keys() {
            versions.entry(key_of(kind)).or_default().push(kind);
        }
        let mut watched = self.watched();
        let mut wanted: BTreeMap<KindKey, &Kind> = BTreeMap::new();
        for (key, versions) in versions {
            let current = watched.get(&key).map(|watch| (&watch.kind, *watch.standing.borrow() != Standing::NotServed));
            wanted.extend(version_to_watch(&versions, current).map(|kind| (key, kind)));
        }
        watched.retain(|key, watch| {
            let goes_on = watch.goes_on(wanted.get(key).copied());
            if !goes_on {
                info!(kind = watch.kind.kind, version = watch.kind.api_version, "no class uses this kind any more");
                self.journal.closed(&stream_of(&watch.kind.resource, &key.0));
            }
            goes_on
        });
        for (key, kind) in wanted {
            watched.entry(key).or_insert_with(|| self.start(kind));
        }
    }

    /// A right may have been granted: what was refused is tried again at once.
    pub(super) fn try_refused_again(&self) {
        self.watched().retain(|key, watch| {
            let is_refused = *watch.standing.borrow() == Standing::Forbidden;
            if is_refused {
                self.journal.closed(&stream_of(&watch.kind.resource, &key.0));
            }
            !is_refused
        });
        self.reconsider();
    }

    /// Where the watch of a kind stands; one that starts for too long fails.
    pub(super) fn standing(&self, kind: &Kind) -> Standing {
        let watched = self.watched();
        let Some(watch) = watched.get(&key_of(kind)) else { return Standing::Starting };
        match &*watch.standing.borrow() {
            Standing::Starting if watch.since.elapsed() >= STARTING => {
                Standing::Failing(format!("the API server has not listed {} yet", kind.resource))
            }
            standing => standing.clone(),
        }
    }

    /// Whether the watch of a kind shows objects in the namespace and has not found that the kind is gone; one that is refused
    /// cannot find it.
    pub(super) fn shows_served(&self, (api_version, kind): &KindName, namespace: &str) -> bool {
        let watched = self.watched();
        let watch = watched.get(&(group_of(api_version).to_owned(), kind.clone()));
        watch.is_some_and(|watch| {
            let is_served = !matches!(*watch.standing.borrow(), Standing::NotServed | Standing::Forbidden);
            is_served && read(&watch.objects).by_namespace.contains_key(namespace)
        })
    }

    /// All stamped objects of a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<(Identity, Entry)> {
        let mut found = Vec::new();
        for ((group, kind), watch) in self.watched().iter() {
            for (name, entry) in read(&watch.objects).by_namespace.get(namespace).into_iter().flatten() {
                let identity = Identity { group: group.clone(), kind: kind.clone(), name: name.clone() };
                found.push((identity, entry.clone()));
            }
        }
        found
    }

    /// Kinds of which objects stamped from `class` exist.
    pub(super) fn kinds_of(&self, class: &str) -> BTreeSet<Kind> {
        let watched = self.watched();
        let live = watched.values().filter(|watch| read(&watch.objects).by_class.contains_key(class));
        live.map(|watch| watch.kind.clone()).collect()
    }

    /// Namespaces in which a binding owns objects stamped from `class`, and the UID of that binding.
    pub(super) fn owners_of(&self, class: &str) -> BTreeSet<(String, Arc<str>)> {
        let mut owners = BTreeSet::new();
        for watch in self.watched().values() {
            let objects = read(&watch.objects);
            if objects.by_class.contains_key(class) {
                owners.extend(objects.owners_of(class));
            }
        }
        owners
    }

    fn start(&self, kind: &Kind) -> Watched {
        info!(kind = kind.kind, "watching what classes make of this kind");
        let resource = api_resource(kind);
        let objects: Arc<RwLock<Objects>> = Arc::default();
        let standing = watch::Sender::new(Standing::default());
        let need = Arc::new(Mutex::new(Need { used: true, ended: false }));
        let stream = stream_of(&resource.plural, &resource.group);
        self.journal.opened(&stream, {
            let objects = objects.clone();
            Arc::new(move |place: &Place| read(&objects).uid(place))
        });
        let receiver = standing.subscribe();
        let supervisor = Supervisor {
            resource: crd_name(&resource.plural, &resource.group),
            // Only a digest is kept, and whoever makes an object large must not escape it.
            source: Wire::<Live>::objects(Api::all_with(self.client.clone(), &resource))
                .labelled(STAMP_LABEL)
                .within(Limit::NONE),
            sink: StampSink {
                seal: self.seal.clone(),
                stream,
                api_version: kind.api_version.as_str().into(),
                kind: kind.kind.clone(),
                objects: objects.clone(),
                all: WeakWatches(Arc::downgrade(&self.watched)),
                need: need.clone(),
                pusher: self.pusher.clone(),
                journal: self.journal.clone(),
                caches: self.caches.clone(),
                kinds: self.surroundings.kinds.clone(),
            },
            standing,
            surroundings: self.surroundings.clone(),
        };
        let seal = self.seal.clone();
        let task = tokio::spawn(async move {
            seal.known().await;
            supervisor.run::<Live>().await;
        });
        let task = AbortOnDropHandle::new(task);
        Watched { kind: kind.clone(), objects, standing: receiver, since: Instant::now(), need, _task: task }
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<KindKey, Watched>> {
        lock(&self.watched)
    }
}

/// What one watch of stamped objects fills.
struct StampSink {
    seal: SharedSeal,
    /// The watch's name in the journal.
    stream: String,
    api_version: Arc<str>,
    kind: String,
    objects: Arc<RwLock<Objects>>,
    all: WeakWatches,
    need: Arc<Mutex<Need>>,
    pusher: Pusher,
    journal: Journal,
    caches: Caches,
    kinds: KindChanges,
}

impl Sink<Live> for StampSink {
    fn put(&mut self, object: Arrived<Live>, how: How) {
        let Some(seal) = self.seal.get() else { return };
        let (place, version) = (place_of(object.metadata()), revision_of(object.metadata()));
        let entry = match object {
            Arrived::Readable(object) => {
                let (metadata, whole) = object.whole(&self.api_version, &self.kind);
                Entry::of(self.api_version.clone(), &metadata, &whole, seal)
            }
            Arrived::Unreadable { metadata, .. } => Entry::unreadable(self.api_version.clone(), &metadata),
        };
        let binding = binding_of(&place);
        let Put { is_news, is_another } = self.write().put(&place, entry);
        if is_another {
            self.journal.removed(&self.stream, &place);
        }
        match (is_news, how) {
            (false, _) => {}
            (true, How::Listed) => self.pusher.push(binding, Priority::Resync),
            (true, How::Live) => self.journal.saw(&binding, &self.stream, &place, version, CALM),
        }
    }

    fn gone(&mut self, Departed { place, .. }: &Departed) {
        self.remove(place);
    }

    fn listed(&mut self, places: &BTreeSet<Place>, revision: u64) {
        let missing: Vec<Place> = read(&self.objects).places().filter(|place| !places.contains(place)).collect();
        for place in &missing {
            self.remove(place);
        }
        self.journal.listed(&self.stream, revision);
    }

    fn progressed(&mut self, revision: u64) {
        self.journal.progressed(&self.stream, revision);
    }

    /// What can or cannot be seen has changed for whoever uses the kind. One that is served no more in this version may be in
    /// another, whenever that shows.
    fn turned(&mut self, standing: &Standing) {
        if *standing == Standing::NotServed {
            self.kinds.changed();
        }
        self.caches.wake_users_of(&BTreeSet::from([group_of(&self.api_version).to_owned()]), &self.pusher);
    }

    fn has_ended(&mut self) -> bool {
        let mut need = lock(&self.need);
        need.ended = !need.used && is_empty(&self.objects);
        need.ended
    }
}

impl StampSink {
    fn remove(&self, place: &Place) {
        let left = self.write().remove(place);
        let is_bare = left == Left::Nothing && self.all.has_nothing_in(&place.namespace);
        // No more can be lost: there is nothing to wait for.
        let rhythm = if is_bare { Pace { calm: Duration::ZERO, ..LOSS } } else { LOSS };
        self.journal.gone(&binding_of(place), &self.stream, place, rhythm);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Objects> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is to look at an object.
fn binding_of(place: &Place) -> Key {
    Key::new(BINDING, &place.namespace, &place.namespace)
}
