//! The engine: watches -> caches and indexes -> fair queue -> observe/plan/execute/report, while we lead.
//!
//! Parts register their caches, mappings and reconcilers with an [`EngineBuilder`]; one watch per kind serves all parts.

mod cache;
mod clock;
mod dispatch;
pub mod events;
pub mod failure;
mod journal;
mod key;
mod kinds;
pub mod lease;
mod readiness;
mod reconcile;
mod remarks;
pub mod report;
pub mod watch;
pub mod write;

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use croft_core::{
    watching::Standing,
    weight::{Limit, UNREAD_OF_NAMESPACES},
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Resource,
    core::{ClusterResourceScope, NamespaceResourceScope, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use tokio::sync::watch::{Receiver, Sender};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    cache::{Cache, Change, Place},
    clock::{Clock, timestamp},
    dispatch::Pusher,
    journal::Journal,
    key::{Key, Part, Work},
    kinds::{Changes, KindChanges, discover},
    readiness::Readiness,
    reconcile::{Context, Reconciler, Slots},
    remarks::Remarks,
    report::{NewStatus, Report},
    write::{Target, Writer, Written},
};
use self::{
    dispatch::{Dispatcher, Inbox, Unreadable, Workers},
    readiness::ReadinessBuilder,
    watch::{CacheSink, Need, Source, Supervisor, Surroundings, Wire},
};
use crate::{
    admission::Grounds,
    panics::essential,
    parts::{METADATA_MARKS, PARTS},
    telemetry::metrics::Metrics,
};

type Spawn = Box<dyn FnOnce(&TaskTracker) + Send>;

/// Which objects of a kind are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespace(String),
}

/// A kind that is watched already.
struct Watched {
    cache: Box<dyn Any + Send + Sync>,
    resource: String,
    scope: Scope,
    standing: Sender<Standing>,
    foreign: bool,
}

/// Collects what the parts need, then starts it.
pub struct EngineBuilder {
    client: Client,
    metrics: Arc<Metrics>,
    clock: Clock,
    watched: HashMap<TypeId, Watched>,
    spawns: Vec<Spawn>,
    workers: BTreeMap<Part, Workers>,
    unreadable: Vec<Unreadable>,
    readiness: ReadinessBuilder,
    pusher: Pusher,
    inboxes: BTreeMap<Part, Inbox>,
    journal: Journal,
    kinds: KindChanges,
    grounds: Grounds,
    resync: Duration,
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EngineBuilder").field("parts", &self.workers.keys()).finish_non_exhaustive()
    }
}

/// Groups whose CRDs `croft crds` installs.
fn is_ours(group: &str) -> bool {
    PARTS.iter().any(|definition| definition.groups.contains(&group))
}

impl EngineBuilder {
    pub fn new(client: Client, metrics: Arc<Metrics>, clock: Clock) -> Self {
        let (pusher, inboxes) = dispatch::channels(PARTS.iter().map(|definition| definition.part));
        Self {
            client,
            metrics,
            clock,
            watched: HashMap::new(),
            spawns: Vec::new(),
            workers: BTreeMap::new(),
            unreadable: Vec::new(),
            readiness: ReadinessBuilder::default(),
            journal: Journal::new(clock, pusher.clone()),
            pusher,
            inboxes,
            kinds: KindChanges::default(),
            grounds: Grounds::default(),
            resync: dispatch::RESYNC,
        }
    }

    /// Everything is looked at again in this time, for whoever cannot wait so long.
    pub fn resync_in(&mut self, time: Duration) {
        self.resync = time;
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Writes keys into the queues from outside the watches (timers, configuration changes).
    pub fn pusher(&self) -> Pusher {
        self.pusher.clone()
    }

    /// What we wrote and what is news; kinds watched only at times register themselves.
    pub fn journal(&self) -> Journal {
        self.journal.clone()
    }

    /// Told when the kinds that are served may have changed.
    pub fn kinds(&self) -> KindChanges {
        self.kinds.clone()
    }

    /// Lets reviews at the door look at it, and act with it; one thing of a type.
    pub fn at_the_door<T: Send + Sync + 'static>(&mut self, ground: Arc<T>) {
        self.grounds.put(ground);
    }

    /// What the parts have put at the door.
    pub fn grounds(&self) -> Grounds {
        self.grounds.clone()
    }

    /// What a watch of one's own needs.
    pub fn surroundings(&self) -> Surroundings {
        Surroundings { metrics: self.metrics.clone(), kinds: self.kinds.clone() }
    }

    /// The cache of a namespaced kind, watched whole.
    ///
    /// # Panics
    /// If the kind is watched already in another scope: one of the two would see too little.
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
        self.objects_within(part, scope, Limit::OF_NAMESPACE)
    }

    /// As [`EngineBuilder::objects`], of a kind only we write, in all namespaces: whatever becomes of it must stay readable.
    pub fn own_objects<K>(&mut self, part: Part) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        self.objects_within(part, &Scope::Cluster, Limit::OF_CLUSTER)
    }

    /// As [`EngineBuilder::own_objects`], in one namespace.
    pub fn own_objects_in<K>(&mut self, part: Part, namespace: &str) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        self.objects_within(part, &Scope::Namespace(namespace.to_owned()), Limit::OF_CLUSTER)
    }

    fn objects_within<K>(&mut self, part: Part, scope: &Scope, limit: Limit) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let client = self.client.clone();
        let api: Api<K> = match scope {
            Scope::Cluster => Api::all(client),
            Scope::Namespace(namespace) => Api::namespaced(client, namespace),
        };
        self.cache(part, scope, Wire::objects(api).within(limit), Need::Always)
    }

    /// As [`EngineBuilder::objects`], of somebody else's kind that may be away, with whether it is there: its part works on without
    /// it.
    pub fn dispensable_objects<K>(&mut self, part: Part, scope: &Scope) -> (Arc<Cache<K>>, Receiver<Standing>)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let cache = self.objects(part, scope);
        self.readiness.may_be_away(&write::resource_name::<K>());
        let standing = self.watched.get(&TypeId::of::<K>()).map(|watched| watched.standing.subscribe());
        (cache, standing.unwrap_or_else(|| Sender::new(Standing::default()).subscribe()))
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
        let api: Api<K> = Api::all(self.client.clone());
        self.cache(part, &Scope::Cluster, Wire::objects(api), Need::Always)
    }

    /// The Namespaces, readable whatever their tenants write into them: what nobody here reads of them is not weighed.
    pub fn namespaces(&mut self, part: Part) -> Arc<Cache<Namespace>> {
        let wire = Wire::objects(Api::all(self.client.clone())).whatever_is_in(UNREAD_OF_NAMESPACES);
        self.cache(part, &Scope::Cluster, wire, Need::Always)
    }

    /// As [`EngineBuilder::cluster_objects`], of a kind others may have installed or not: nobody waits for it.
    pub fn optional_cluster_objects<K>(&mut self, part: Part) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let cache = self.cache(part, &Scope::Cluster, Wire::objects(api), Need::WhereInstalled);
        self.readiness.may_be_missing(&write::resource_name::<K>());
        cache
    }

    /// As [`EngineBuilder::dispensable_objects`], of a kind others may have installed or not: nobody waits for it.
    pub fn optional_objects<K>(&mut self, part: Part, scope: &Scope) -> (Arc<Cache<K>>, Receiver<Standing>)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + fmt::Debug
            + Send
            + Sync
            + 'static,
    {
        let watched = self.dispensable_objects(part, scope);
        self.readiness.may_be_missing(&write::resource_name::<K>());
        watched
    }

    /// The cache of a namespaced kind's metadata, cluster-wide.
    pub fn metadata<K>(&mut self, part: Part) -> Arc<Cache<PartialObjectMeta<K>>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + Send + Sync + 'static,
    {
        let api: Api<PartialObjectMeta<K>> = Api::all(self.client.clone());
        let cache = self.cache(part, &Scope::Cluster, Wire::metadata(api), Need::Always);
        cache.reads(METADATA_MARKS);
        cache.reads_no_finalizers();
        cache
    }

    /// Where to say what an administrator should know.
    pub fn remarks(&self) -> Remarks {
        self.readiness.remarks.clone()
    }

    /// Registers one kind of work.
    pub fn reconciler(&mut self, reconciler: impl Reconciler) {
        let work = reconciler.work();
        self.workers.entry(work.part).or_default().insert(work, Arc::new(reconciler));
    }

    fn cache<K>(&mut self, part: Part, scope: &Scope, source: impl Source<K> + 'static, need: Need) -> Arc<Cache<K>>
    where
        K: Resource<DynamicType = ()> + Send + Sync + 'static,
    {
        if let Some(watched) = self.watched.get(&TypeId::of::<K>())
            && let Some(cache) = watched.cache.downcast_ref::<Arc<Cache<K>>>()
        {
            assert_eq!(watched.scope, *scope, "{} is watched in another scope already", watched.resource);
            self.readiness.add(&watched.resource, part, watched.standing.subscribe(), watched.foreign);
            return cache.clone();
        }
        let cache = Arc::new(Cache::default());
        let resource = write::resource_name::<K>();
        let foreign = !is_ours(&K::group(&()));
        let standing = Sender::new(Standing::default());
        self.readiness.add(&resource, part, standing.subscribe(), foreign);
        self.journal.opened(&resource, {
            let cache = cache.clone();
            Arc::new(move |place: &Place| cache.uid(place))
        });
        self.unreadable.push({
            let cache = cache.clone();
            Arc::new(move || cache.unreadable_keys())
        });
        let supervisor = Supervisor {
            resource: resource.clone(),
            source,
            sink: CacheSink {
                resource: resource.clone(),
                is_tenants: *scope == Scope::Cluster,
                need,
                cache: cache.clone(),
                journal: self.journal.clone(),
                pusher: self.pusher.clone(),
                metrics: self.metrics.clone(),
            },
            standing: standing.clone(),
            surroundings: self.surroundings(),
        };
        self.spawns.push(Box::new(move |tasks| {
            tasks.spawn(supervisor.run::<K>());
        }));
        let watched = Watched { cache: Box::new(cache.clone()), resource, scope: scope.clone(), standing, foreign };
        self.watched.insert(TypeId::of::<K>(), watched);
        cache
    }

    /// Starts the watches and the dispatchers; the watches run for ever, the dispatchers until `stop`.
    pub fn start(
        self,
        events: &events::Events,
        leadership: &lease::Leadership,
        concurrency: usize,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Running {
        let readiness = self.readiness.build();
        self.kinds.watch(&self.client, &self.metrics, tasks);
        for spawn in self.spawns {
            spawn(tasks);
        }
        tasks.spawn(essential("readiness", readiness.clone().follow()));
        tasks.spawn(essential("journal", self.journal.clone().keep()));
        let leads = Arc::<Sender<lease::Leading>>::default();
        let follow = follow_leadership(leadership.clone(), self.journal.clone(), self.metrics.clone(), leads.clone());
        tasks.spawn(essential("leadership", follow));
        let dispatchers = TaskTracker::new();
        let mut workers = self.workers;
        for (part, inbox) in self.inboxes {
            let Some(workers) = workers.remove(&part) else { continue };
            let dispatcher = Dispatcher {
                part,
                workers,
                unreadable: self.unreadable.clone(),
                inbox,
                leads: leads.subscribe(),
                context: Context {
                    leadership: leadership.clone(),
                    metrics: self.metrics.clone(),
                    events: events.clone(),
                    writer: write::Writer::new(self.client.clone()),
                    journal: self.journal.clone(),
                    slots: Slots::new(concurrency),
                },
                readiness: readiness.clone(),
                clock: self.clock,
                concurrency,
                resync: self.resync,
            };
            dispatchers.spawn(essential("dispatcher", dispatcher.run(stop.clone())));
        }
        dispatchers.close();
        Running { readiness, dispatchers }
    }
}

/// A started engine.
#[derive(Debug)]
pub struct Running {
    pub readiness: Readiness,
    dispatchers: TaskTracker,
}

impl Running {
    /// After the stop: ends when nothing of ours writes any more.
    pub async fn drained(&self) {
        self.dispatchers.wait().await;
    }
}

/// The journal is kept exactly while we lead, and from before the first look.
async fn follow_leadership(
    leadership: lease::Leadership,
    journal: Journal,
    metrics: Arc<Metrics>,
    leads: Arc<Sender<lease::Leading>>,
) {
    let mut changes = leadership.changes();
    loop {
        let leading = *changes.borrow_and_update();
        metrics.leading(leading.now);
        journal.stop();
        if leading.now {
            journal.start();
        }
        leads.send_replace(leading);
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn sleep_until(wakeup: Option<tokio::time::Instant>) {
    match wakeup {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Whether the object is being deleted.
pub fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[tokio::test]
    #[should_panic(expected = "configmaps is watched in another scope already")]
    async fn a_kind_that_is_watched_somewhere_is_not_watched_elsewhere_for_somebody_who_would_see_too_little() {
        let mut engine = EngineBuilder::new(crate::client::nobody(), Arc::default(), Clock::start());
        let part = PARTS[0].part;
        let _: Arc<Cache<ConfigMap>> = engine.objects(part, &Scope::Namespace("velero".into()));
        let _: Arc<Cache<ConfigMap>> = engine.objects(part, &Scope::Namespace("velero".into()));
        let _: Arc<Cache<ConfigMap>> = engine.objects(part, &Scope::Cluster);
    }
}
