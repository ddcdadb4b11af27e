//! An independent watch: what is really there, and when it came to be.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use croft_api::namespaces::NamespaceClassBindingStatus;
use croft_testbed::wait;
use futures::{Stream, StreamExt};
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Resource,
    core::{DynamicObject, PartialObjectMeta},
    runtime::watcher::{self, Event, watcher},
};
use tokio::task::JoinSet;

use super::{
    cluster::{ITEM_SELECTOR, ITEMS},
    twin::{original_binding, twin_binding},
};

const POLL: Duration = Duration::from_millis(20);
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// One namespace as the watches tell it.
#[derive(Default)]
pub(super) struct Space {
    /// Name -> UID.
    objects: BTreeMap<String, String>,
    binding: Inventory,
    last_object: Option<Instant>,
    last_change: Option<Instant>,
}

/// What the binding says.
#[derive(Default)]
struct Inventory {
    exists: bool,
    generation: i64,
    ready: bool,
    objects: BTreeMap<String, String>,
}

impl Space {
    /// Everything is there, and the binding says so for this generation of the class.
    pub(super) fn is_furnished(&self, generation: i64) -> bool {
        let binding = &self.binding;
        self.has_objects() && binding.ready && binding.generation == generation && binding.objects == self.objects
    }

    /// Nothing of the class is left.
    pub(super) fn is_bare(&self) -> bool {
        self.objects.is_empty() && !self.binding.exists
    }

    pub(super) fn has_objects(&self) -> bool {
        self.objects.len() == ITEMS
    }

    /// UIDs of its objects.
    pub(super) fn uids(&self) -> BTreeSet<String> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn last_object(&self) -> Option<Instant> {
        self.last_object
    }

    pub(super) fn last_change(&self) -> Option<Instant> {
        self.last_change
    }
}

#[derive(Default)]
struct World {
    spaces: BTreeMap<String, Space>,
    events: u64,
    synced: usize,
}

pub(super) struct Witness {
    world: Arc<Mutex<World>>,
    _watches: JoinSet<()>,
}

impl Witness {
    pub(super) async fn start(client: &Client) -> Result<Self> {
        let world: Arc<Mutex<World>> = Arc::default();
        let mut watches = JoinSet::new();
        let items = watcher::Config::default().labels(ITEM_SELECTOR);
        let objects = watcher(Api::<PartialObjectMeta<ConfigMap>>::all(client.clone()), items);
        watches.spawn(follow(world.clone(), objects, |space, object, exists| {
            space.last_object = Some(Instant::now());
            let name = object.metadata.name.unwrap_or_default();
            if exists {
                space.objects.insert(name, object.metadata.uid.unwrap_or_default());
            } else {
                space.objects.remove(&name);
            }
        }));
        for kind in [original_binding(), twin_binding()] {
            let bindings: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
            let bindings = watcher(bindings, watcher::Config::default());
            watches.spawn(follow(world.clone(), bindings, |space, binding, exists| {
                space.binding = if exists { inventory(binding) } else { Inventory::default() };
            }));
        }
        let all = watches.len();
        let witness = Self { world, _watches: watches };
        wait::until("the independent watches", SYNC_LIMIT, || async {
            Ok((witness.world().synced == all).then_some(()))
        })
        .await?;
        Ok(witness)
    }

    /// Waits until every namespace named is as `wanted`; tells `when` the last one came to be so.
    pub(super) async fn until(
        &self,
        names: &[String],
        limit: Duration,
        wanted: impl Fn(&Space) -> bool,
        when: fn(&Space) -> Option<Instant>,
    ) -> Result<Instant> {
        let deadline = Instant::now() + limit;
        let mut waiting: BTreeSet<&String> = names.iter().collect();
        let mut last = None;
        loop {
            {
                let world = self.world();
                waiting.retain(|name| match world.spaces.get(*name).filter(|space| wanted(space)) {
                    Some(space) => {
                        last = last.max(when(space));
                        false
                    }
                    None => true,
                });
            }
            if let (true, Some(last)) = (waiting.is_empty(), last) {
                return Ok(last);
            }
            if Instant::now() > deadline {
                bail!("after {limit:?} still missing in {} of {} namespaces", waiting.len(), names.len());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// UIDs of the objects in these namespaces.
    pub(super) fn uids(&self, names: &[String]) -> BTreeSet<String> {
        let world = self.world();
        names.iter().filter_map(|name| world.spaces.get(name)).flat_map(Space::uids).collect()
    }

    /// How many changes the watches have told.
    pub(super) fn events(&self) -> u64 {
        self.world().events
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells `note` each object that came, changed (true) or went (false). Nothing here restarts API servers: an interrupted
/// watch resumes where it was.
async fn follow<K: Resource>(
    world: Arc<Mutex<World>>,
    stream: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    note: impl Fn(&mut Space, K, bool) + Send,
) {
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        let mut world = lock(&world);
        let (object, exists) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, true),
            Ok(Event::Delete(object)) => (object, false),
            Ok(Event::InitDone) => {
                world.synced += 1;
                continue;
            }
            Ok(Event::Init) | Err(_) => continue,
        };
        world.events += 1;
        let space = world.spaces.entry(namespace_of(object.meta())).or_default();
        space.last_change = Some(Instant::now());
        note(space, object, exists);
    }
}

fn namespace_of(metadata: &ObjectMeta) -> String {
    metadata.namespace.clone().unwrap_or_default()
}

fn inventory(mut binding: DynamicObject) -> Inventory {
    let status = binding.data["status"].take();
    let status: NamespaceClassBindingStatus = serde_json::from_value(status).unwrap_or_default();
    Inventory {
        exists: true,
        generation: status.observed_class_generation.unwrap_or_default(),
        ready: status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True"),
        objects: status.applied_resources.into_iter().map(|one| (one.name, one.uid.unwrap_or_default())).collect(),
    }
}
