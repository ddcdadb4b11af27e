//! What is really there: one metadata watch per stamped kind, selected by the stamp label, started when a class first uses
//! the kind and stopped when none does and nothing stamped is left. Of each object only a few words are kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use croft_api::namespaces::{NamespaceClassBinding, STAMP_LABEL};
use croft_core::{
    namespaces::{
        class::Kind,
        manifest::{Identity, group_of},
    },
    queue::Priority,
};
use futures::{StreamExt, pin_mut};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use super::{BINDING, news::News};
use crate::engine::{
    Cache, Echoes, Key, Later, Pusher, witness,
    write::{crd_name, stamp_echo},
};

/// A stamped object, in the few words that matter.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(super) api_version: Arc<str>,
    pub(super) uid: String,
    /// Its resourceVersion.
    pub(super) version: u64,
    pub(super) controller: Option<Controller>,
    pub(crate) class: String,
    pub(super) entry: String,
    pub(super) created: bool,
    pub(super) deleting: bool,
    /// See [`witness::trail`].
    trail: Option<u64>,
    /// The last version that left the same trail as the one before it.
    twin: u64,
    /// The last version we wrote ourselves.
    vouched: u64,
}

impl Entry {
    pub(crate) fn of(api_version: Arc<str>, metadata: &ObjectMeta) -> Self {
        Self {
            api_version,
            uid: metadata.uid.clone().unwrap_or_default(),
            version: version_of(metadata),
            controller: controller_of(metadata),
            class: metadata.labels.as_ref().and_then(|labels| labels.get(STAMP_LABEL)).cloned().unwrap_or_default(),
            entry: witness::entry_digest(metadata),
            created: witness::was_created(metadata),
            deleting: metadata.deletion_timestamp.is_some(),
            trail: witness::trail(metadata),
            twin: 0,
            vouched: 0,
        }
    }

    /// The same object, later.
    fn after(mut self, before: &Self) -> Self {
        if self.uid == before.uid {
            let same_trail = self.trail.is_some() && self.trail == before.trail && self.version > before.version;
            self.twin = if same_trail { self.version } else { before.twin };
            self.vouched = before.vouched;
        }
        self
    }

    /// It changed in a way our entry cannot tell, and not by us.
    pub(super) fn is_suspect(&self) -> bool {
        self.twin > self.vouched
    }

    /// Whether the two tell the same: status churn and foreign additions make no difference.
    fn tells_the_same_as(&self, other: &Self) -> bool {
        let told = |entry: &Self| (entry.deleting, entry.created, entry.is_suspect());
        told(self) == told(other)
            && self.uid == other.uid
            && self.controller == other.controller
            && self.class == other.class
            && self.entry == other.entry
    }
}

/// Objects of one kind: namespace -> name -> object.
type Objects = BTreeMap<String, BTreeMap<String, Entry>>;

struct Watched {
    kind: Kind,
    objects: Arc<RwLock<Objects>>,
    state: watch::Receiver<Watching>,
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

fn is_empty(objects: &RwLock<Objects>) -> bool {
    objects.read().unwrap_or_else(PoisonError::into_inner).is_empty()
}

/// How far the watch of a kind is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watching {
    Starting,
    Synced,
    Forbidden,
}

/// Group and kind: versions are transport.
type KindKey = (String, String);

/// All stamped objects of the kinds in use.
#[derive(Clone)]
pub(super) struct Stamps {
    client: Client,
    pusher: Pusher,
    later: Later,
    news: Arc<News>,
    echoes: Echoes,
    bindings: Arc<Cache<NamespaceClassBinding>>,
    watched: Arc<Mutex<BTreeMap<KindKey, Watched>>>,
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
    pub(super) fn new(
        client: Client,
        pusher: Pusher,
        later: Later,
        news: Arc<News>,
        echoes: Echoes,
        bindings: Arc<Cache<NamespaceClassBinding>>,
    ) -> Self {
        Self { client, pusher, later, news, echoes, bindings, watched: Arc::default() }
    }

    /// Watches exactly these kinds from now on.
    pub(super) fn watch_only(&self, kinds: &BTreeSet<Kind>) {
        let wanted: BTreeMap<KindKey, &Kind> = kinds.iter().map(|kind| (key_of(kind), kind)).collect();
        let mut watched = self.watched();
        watched.retain(|key, watch| {
            let goes_on = watch.goes_on(wanted.get(key).copied());
            if !goes_on {
                info!(kind = watch.kind.kind, version = watch.kind.api_version, "no class uses this kind any more");
                self.echoes.stop_listening(&stamp_echo(&watch.kind.resource, &key.0));
            }
            goes_on
        });
        for (key, kind) in wanted {
            watched.entry(key).or_insert_with(|| self.start(kind));
        }
    }

    pub(super) fn state(&self, kind: &Kind) -> Watching {
        self.watched().get(&key_of(kind)).map_or(Watching::Starting, |watch| *watch.state.borrow())
    }

    /// All stamped objects of a namespace.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<(Identity, Entry)> {
        let mut found = Vec::new();
        for ((group, kind), watch) in self.watched().iter() {
            let objects = watch.objects.read().unwrap_or_else(PoisonError::into_inner);
            for (name, entry) in objects.get(namespace).into_iter().flatten() {
                let identity = Identity { group: group.clone(), kind: kind.clone(), name: name.clone() };
                found.push((identity, entry.clone()));
            }
        }
        found
    }

    /// We wrote this version of an object ourselves, or have just seen that it is as we want it.
    pub(super) fn vouch(&self, namespace: &str, identity: &Identity, version: u64) {
        self.news.wrote(namespace, Some(identity.clone()), version);
        let watched = self.watched();
        let Some(watch) = watched.get(&(identity.group.clone(), identity.kind.clone())) else { return };
        let mut objects = watch.objects.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = objects.get_mut(namespace).and_then(|names| names.get_mut(&identity.name)) {
            entry.vouched = entry.vouched.max(version);
        }
    }

    /// We wrote this version of a binding, and it says that all is well.
    pub(super) fn vouch_for_binding(&self, namespace: &str, version: u64) {
        self.news.wrote(namespace, None, version);
    }

    /// The binding of a namespace is gone.
    pub(super) fn forget(&self, namespace: &str) {
        self.news.forget(namespace);
    }

    /// Kinds of which objects stamped from `class` exist.
    pub(super) fn kinds_of(&self, class: &str) -> BTreeSet<Kind> {
        let watched = self.watched();
        let live = watched.values().filter(|watch| {
            let objects = watch.objects.read().unwrap_or_else(PoisonError::into_inner);
            objects.values().flat_map(BTreeMap::values).any(|entry| entry.class == class)
        });
        live.map(|watch| watch.kind.clone()).collect()
    }

    fn start(&self, kind: &Kind) -> Watched {
        info!(kind = kind.kind, "watching what classes make of this kind");
        let resource = api_resource(kind);
        let objects: Arc<RwLock<Objects>> = Arc::default();
        let revision = watch::Sender::new(0);
        let (state_sender, state) = watch::channel(Watching::Starting);
        let need = Arc::new(Mutex::new(Need { used: true, ended: false }));
        self.echoes.listen(&stamp_echo(&resource.plural, &resource.group), revision.subscribe());
        let follow = Follow {
            api: Api::all_with(self.client.clone(), &resource),
            api_version: kind.api_version.as_str().into(),
            resource: crd_name(&resource.plural, &resource.group),
            objects: objects.clone(),
            need: need.clone(),
            revision,
            state: state_sender,
            pusher: self.pusher.clone(),
            later: self.later.clone(),
            news: self.news.clone(),
            group: resource.group.clone(),
            kind: kind.kind.clone(),
            bindings: self.bindings.clone(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(follow.run()));
        Watched { kind: kind.clone(), objects, state, need, _task: task }
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<KindKey, Watched>> {
        lock(&self.watched)
    }
}

/// One running watch.
struct Follow {
    api: Api<PartialObjectMeta<DynamicObject>>,
    api_version: Arc<str>,
    resource: String,
    objects: Arc<RwLock<Objects>>,
    need: Arc<Mutex<Need>>,
    revision: watch::Sender<u64>,
    state: watch::Sender<Watching>,
    pusher: Pusher,
    later: Later,
    news: Arc<News>,
    group: String,
    kind: String,
    bindings: Arc<Cache<NamespaceClassBinding>>,
}

impl Follow {
    async fn run(self) {
        let config = watcher::Config::default().labels(STAMP_LABEL).page_size(500);
        let stream = watcher(self.api.clone(), config).default_backoff();
        pin_mut!(stream);
        let mut listed = BTreeSet::new();
        while !self.has_ended()
            && let Some(event) = stream.next().await
        {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.insert(place_of(&object.metadata));
                    if self.put(&object.metadata) {
                        self.pusher.push(binding_of(&object.metadata), Priority::Resync);
                    }
                }
                Ok(Event::InitDone) => self.listed(&listed),
                Ok(Event::Apply(object)) => {
                    if self.put(&object.metadata) {
                        let (namespace, identity) = self.identity_of(&object.metadata);
                        self.news.changed(&namespace, Some(identity), version_of(&object.metadata));
                        self.later.push(binding_of(&object.metadata));
                    }
                }
                Ok(Event::Delete(object)) => self.remove(&object.metadata),
                Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 403 => {
                    warn!(
                        resource = self.resource,
                        "may not list what classes make; grant list and watch on it to the operator"
                    );
                    self.turn(Watching::Forbidden);
                }
                Err(error) => debug!(resource = self.resource, %error, "watch interrupted"),
            }
        }
    }

    fn identity_of(&self, metadata: &ObjectMeta) -> (String, Identity) {
        let (namespace, name) = place_of(metadata);
        (namespace, Identity { group: self.group.clone(), kind: self.kind.clone(), name })
    }

    /// Nobody uses the kind, and the last of what was left of it is gone.
    fn has_ended(&self) -> bool {
        let mut need = lock(&self.need);
        need.ended = !need.used && is_empty(&self.objects);
        need.ended
    }

    /// Whether anybody needs to know: status churn and foreign additions change nothing we keep.
    fn put(&self, metadata: &ObjectMeta) -> bool {
        let (namespace, name) = place_of(metadata);
        let entry = Entry::of(self.api_version.clone(), metadata);
        let changed = {
            let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
            let names = objects.entry(namespace.clone()).or_default();
            let (entry, same) = match names.get(&name) {
                Some(before) => {
                    let entry = entry.after(before);
                    let same = entry.tells_the_same_as(before);
                    (entry, same)
                }
                None => (entry, false),
            };
            names.insert(name, entry);
            !same
        };
        self.saw(metadata);
        changed || super::is_drifted(&self.bindings, &namespace)
    }

    fn remove(&self, metadata: &ObjectMeta) {
        let (namespace, name) = place_of(metadata);
        self.forget(&namespace, &name);
        self.saw(metadata);
        let (namespace, identity) = self.identity_of(metadata);
        self.news.gone(&namespace, Some(identity));
        self.later.push(binding_of(metadata));
    }

    /// The list is complete: what it did not name is gone.
    fn listed(&self, listed: &BTreeSet<(String, String)>) {
        let missing: Vec<_> = {
            let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
            let known = objects
                .iter()
                .flat_map(|(namespace, names)| names.keys().map(|name| (namespace.clone(), name.clone())));
            known.filter(|place| !listed.contains(place)).collect()
        };
        for (namespace, name) in missing {
            self.forget(&namespace, &name);
            self.pusher.push(Key::new(BINDING, &namespace, &namespace), Priority::Live);
        }
        self.turn(Watching::Synced);
    }

    /// Bindings that wait are told when the watch has turned.
    fn turn(&self, state: Watching) {
        if self.state.send_replace(state) != state {
            super::wake_waiting(&self.bindings, &self.pusher);
        }
    }

    fn forget(&self, namespace: &str, name: &str) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = objects.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                objects.remove(namespace);
            }
        }
    }

    fn saw(&self, metadata: &ObjectMeta) {
        let revision = version_of(metadata);
        self.revision.send_if_modified(|seen| {
            let newer = revision > *seen;
            *seen = revision.max(*seen);
            newer
        });
    }
}

/// Who is to look at an object.
fn binding_of(metadata: &ObjectMeta) -> Key {
    let namespace = metadata.namespace.clone().unwrap_or_default();
    Key::new(BINDING, &namespace, &namespace)
}

pub(super) fn version_of(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

pub(crate) fn place_of(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Who controls an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    pub(super) uid: String,
    /// A binding of the object's namespace, this one or an earlier one.
    pub(super) is_binding: bool,
}

pub(super) fn controller_of(metadata: &ObjectMeta) -> Option<Controller> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let is_binding = owner.kind == NamespaceClassBinding::kind(&())
        && group_of(&owner.api_version) == NamespaceClassBinding::group(&())
        && Some(&owner.name) == metadata.namespace.as_ref();
    Some(Controller { uid: owner.uid.clone(), is_binding })
}
