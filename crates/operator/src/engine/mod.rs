//! The engine: watches -> caches and indexes -> fair queue -> observe/plan/execute/report, while we lead.
//!
//! Parts register their caches, mappings and reconcilers with an [`EngineBuilder`]; one watch per kind serves all parts.

mod cache;
mod clock;
mod crds;
mod dispatch;
mod echo;
pub mod events;
pub mod failure;
mod key;
mod later;
pub mod lease;
mod readiness;
mod reconcile;
mod watch;
pub mod witness;
pub mod write;

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource,
    core::{ClusterResourceScope, DeserializeGuard, NamespaceResourceScope, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use tokio::sync::{Semaphore, watch::Sender};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    cache::{Cache, Change, Place},
    clock::{Clock, timestamp},
    crds::{ServedKinds, UNTIL_SERVED, discover},
    dispatch::Pusher,
    echo::Echoes,
    key::{Key, Part, Work},
    later::Later,
    readiness::Readiness,
    reconcile::{Context, Reconciler, Report},
    watch::Scope,
    write::{Target, Writer, Written},
};
use self::{
    dispatch::{Dispatcher, Workers},
    readiness::ReadinessBuilder,
    watch::{Watch, WatchState, open_metadata, open_objects, scoped},
};
use crate::telemetry::metrics::Metrics;

/// A cached object that carries metadata: what every watched kind is.
type Spawn = Box<dyn FnOnce(&TaskTracker, ServedKinds) + Send>;

/// Collects what the parts need, then starts it.
pub struct EngineBuilder {
    client: Client,
    metrics: Arc<Metrics>,
    caches: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    echoes: Echoes,
    states: HashMap<TypeId, (String, Sender<WatchState>, bool)>,
    spawns: Vec<Spawn>,
    workers: Workers,
    readiness: ReadinessBuilder,
    pusher: Pusher,
    keys: tokio::sync::mpsc::UnboundedReceiver<(Key, croft_core::queue::Priority)>,
    served: ServedKinds,
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EngineBuilder").field("workers", &self.workers.keys()).finish_non_exhaustive()
    }
}

/// Groups of kinds that come with Kubernetes itself and need no CRD.
fn is_built_in(group: &str) -> bool {
    group.is_empty() || group.ends_with(".k8s.io") || matches!(group, "apps" | "batch" | "autoscaling" | "policy")
}

/// Groups whose CRDs `croft crds` installs.
fn is_ours(group: &str) -> bool {
    matches!(group, "akuity.io" | "s3.snappcloud.io" | "oadp.openshift.io")
}

impl EngineBuilder {
    pub fn new(client: Client, metrics: Arc<Metrics>) -> Self {
        let (pusher, keys) = dispatch::channel();
        Self {
            client,
            metrics,
            caches: HashMap::new(),
            echoes: Echoes::default(),
            states: HashMap::new(),
            spawns: Vec::new(),
            workers: HashMap::new(),
            readiness: ReadinessBuilder::default(),
            pusher,
            keys,
            served: ServedKinds::default(),
        }
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Writes keys into the queue from outside the watches (timers, configuration changes).
    pub fn pusher(&self) -> Pusher {
        self.pusher.clone()
    }

    /// The kinds whose watches must have seen a key's last write before it is observed again; kinds watched only at times
    /// register themselves.
    pub fn echoes(&self) -> Echoes {
        self.echoes.clone()
    }

    /// Which CRDs are installed, kept up to date.
    pub fn served(&self) -> ServedKinds {
        self.served.clone()
    }

    /// The cache of a namespaced kind, watched whole. The first caller decides the scope.
    pub fn objects<K>(&mut self, part: Part, scope: &Scope) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let api = scoped::<DeserializeGuard<K>>(self.client.clone(), scope);
        self.cache(part, || open_objects(api))
    }

    /// The cache of a cluster-scoped kind, watched whole.
    pub fn cluster_objects<K>(&mut self, part: Part) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let api: Api<DeserializeGuard<K>> = Api::all(self.client.clone());
        self.cache(part, || open_objects(api))
    }

    /// The cache of a namespaced kind's metadata, cluster-wide.
    pub fn metadata<K>(&mut self, part: Part) -> Arc<Cache<PartialObjectMeta<K>>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + Send + Sync + 'static,
    {
        let api: Api<PartialObjectMeta<K>> = Api::all(self.client.clone());
        self.cache(part, || open_metadata(api))
    }

    /// Registers one kind of work.
    pub fn reconciler(&mut self, reconciler: impl Reconciler) {
        self.workers.insert(reconciler.work(), Arc::new(reconciler));
    }

    fn cache<K>(&mut self, part: Part, open: impl FnOnce() -> watch::Open<K>) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        let kind = TypeId::of::<K>();
        if let Some(cache) = self.caches.get(&kind).and_then(|cache| cache.downcast_ref::<Arc<Cache<K>>>()) {
            let cache = cache.clone();
            if let Some((resource, state, foreign)) = self.states.get(&kind) {
                self.readiness.add(resource, part, state.subscribe(), *foreign);
            }
            return cache;
        }
        let cache = Arc::new(Cache::default());
        let resource = write::resource_name::<K>();
        let group = K::group(&());
        let crd = (!is_built_in(&group)).then(|| resource.clone());
        let foreign = !is_built_in(&group) && !is_ours(&group);
        let state = Sender::new(WatchState::Syncing);
        self.readiness.add(&resource, part, state.subscribe(), foreign);
        self.states.insert(kind, (resource.clone(), state.clone(), foreign));
        self.echoes.listen(&resource, cache.revision());
        self.caches.insert(kind, Box::new(cache.clone()));
        let watch = Watch {
            resource,
            crd,
            cache: cache.clone(),
            open: open(),
            state,
            pusher: self.pusher.clone(),
            metrics: self.metrics.clone(),
        };
        self.spawns.push(Box::new(move |tasks, served| {
            tasks.spawn(watch.run(served));
        }));
        cache
    }

    /// Starts the watches and the dispatcher. They run until `stop`; the returned readiness tells how far they are.
    pub fn start(
        self,
        events: events::Events,
        leadership: lease::Leadership,
        clock: Clock,
        concurrency: usize,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Readiness {
        let readiness = self.readiness.build();
        tasks.spawn(self.served.clone().follow(self.client.clone()));
        for spawn in self.spawns {
            spawn(tasks, self.served.clone());
        }
        tasks.spawn(readiness.clone().follow());
        let dispatcher = Dispatcher {
            workers: self.workers,
            pushes: self.keys,
            pusher: self.pusher,
            context: Context {
                leadership,
                metrics: self.metrics,
                events,
                echoes: self.echoes,
                slots: Arc::new(Semaphore::new(concurrency)),
            },
            readiness: readiness.clone(),
            clock,
            concurrency,
        };
        tasks.spawn(dispatcher.run(stop));
        readiness
    }
}

/// Whether the object is being deleted.
pub fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}
