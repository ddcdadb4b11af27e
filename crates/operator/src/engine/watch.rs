//! One supervised watch per kind: list, watch, resume, re-list; fills a cache, then wakes keys.
//!
//! A watch outlives everything the API server does: restarts, expired versions (410, in the stream or as an HTTP status),
//! undecodable objects, missing rights and kinds that are not installed yet or vanish.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use croft_core::queue::Priority;
use futures::{Stream, StreamExt, stream::BoxStream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource,
    core::{DeserializeGuard, NamespaceResourceScope, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::{
    cache::{Cache, Place},
    crds::ServedKinds,
    dispatch::Pusher,
};
use crate::telemetry::metrics::Metrics;

/// Where a watch stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchState {
    /// The kind is not installed: this CRD is missing.
    WaitingForKind {
        crd: String,
    },
    /// Listing for the first time, or again after it was lost.
    Syncing,
    Synced,
    /// The operator lacks the right to list or watch; it keeps trying.
    Forbidden,
}

impl fmt::Display for WatchState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchState::WaitingForKind { crd } => write!(out, "waiting for the CRD {crd}"),
            WatchState::Syncing => out.write_str("syncing"),
            WatchState::Synced => out.write_str("synced"),
            WatchState::Forbidden => out.write_str("not allowed: list and watch rights are missing"),
        }
    }
}

/// An object off the wire: decoded, or only its metadata and why it could not be decoded.
pub(super) enum Arrived<K> {
    Readable(K),
    Unreadable { metadata: Box<ObjectMeta>, error: String },
}

type Events<K> = BoxStream<'static, Result<Event<Arrived<K>>, watcher::Error>>;

/// How to open the stream anew.
pub(super) type Open<K> = Box<dyn Fn() -> Events<K> + Send + Sync>;

/// Which objects of a kind are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespace(String),
}

fn config() -> watcher::Config {
    watcher::Config::default().page_size(100)
}

/// Watches whole objects; one that cannot be decoded does not disturb the others.
pub(super) fn open_objects<K>(api: Api<DeserializeGuard<K>>) -> Open<K>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Default + Clone + Send + Sync,
{
    Box::new(move || {
        decoded(watcher(api.clone(), config()).default_backoff(), |guarded: DeserializeGuard<K>| match guarded.0 {
            Ok(object) => Arrived::Readable(object),
            Err(invalid) => Arrived::Unreadable { metadata: Box::new(invalid.metadata), error: invalid.error },
        })
    })
}

/// Watches metadata only: for Secrets, whose contents we never cache, and for kinds we only point at.
pub(super) fn open_metadata<K>(api: Api<PartialObjectMeta<K>>) -> Open<PartialObjectMeta<K>>
where
    K: Resource<DynamicType = ()> + Clone + fmt::Debug + Send + Sync + 'static,
{
    Box::new(move || decoded(watcher(api.clone(), config()).default_backoff(), Arrived::Readable))
}

/// An [`Api`] for the scope; cluster-wide unless a namespace is named.
pub(super) fn scoped<K>(client: Client, scope: &Scope) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    match scope {
        Scope::Cluster => Api::all(client),
        Scope::Namespace(namespace) => Api::namespaced(client, namespace),
    }
}

fn decoded<W, K: Send + 'static>(
    stream: impl Stream<Item = Result<Event<W>, watcher::Error>> + Send + 'static,
    decode: impl Fn(W) -> Arrived<K> + Send + 'static,
) -> Events<K> {
    stream
        .map(move |event| {
            event.map(|event| match event {
                Event::Apply(object) => Event::Apply(decode(object)),
                Event::Delete(object) => Event::Delete(decode(object)),
                Event::InitApply(object) => Event::InitApply(decode(object)),
                Event::Init => Event::Init,
                Event::InitDone => Event::InitDone,
            })
        })
        .boxed()
}

/// How long ago the newest change recorded in the object was made (whole seconds on the API server's clock).
fn age(metadata: &ObjectMeta) -> Option<Duration> {
    let newest =
        metadata.managed_fields.iter().flatten().filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max()?;
    Some(Duration::try_from(jiff::Timestamp::now().duration_since(newest)).unwrap_or_default())
}

/// Field bookkeeping is half of a cached object and nobody here reads it.
fn strip(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// One kind under watch.
pub(super) struct Watch<K> {
    /// `plural.group`, as CRDs are named; plain plural for the core group.
    pub(super) resource: String,
    /// The CRD that must be installed first; `None` for built-in kinds.
    pub(super) crd: Option<String>,
    pub(super) cache: Arc<Cache<K>>,
    pub(super) open: Open<K>,
    pub(super) state: watch::Sender<WatchState>,
    pub(super) pusher: Pusher,
    pub(super) metrics: Arc<Metrics>,
}

/// Why a stream was given up.
enum Ended {
    /// The kind is not served (any more).
    NotServed,
    /// The stream cannot recover by itself.
    Broken,
}

impl<K: Resource + Send + Sync + 'static> Watch<K>
where
    K::DynamicType: Default,
{
    /// Runs for ever.
    pub(super) async fn run(self, served: ServedKinds) {
        loop {
            if let Some(crd) = self.crd.as_ref().filter(|crd| !served.has(crd)) {
                info!(crd, "waiting for this kind to be installed");
                self.state.send_replace(WatchState::WaitingForKind { crd: crd.clone() });
                served.installed(crd).await;
            }
            self.state.send_if_modified(|state| {
                let synced = *state == WatchState::Synced;
                if !synced {
                    *state = WatchState::Syncing;
                }
                !synced
            });
            match self.follow().await {
                Ended::NotServed => {
                    self.state.send_replace(WatchState::Syncing);
                    // Between a CRD's creation and its being served lies a moment.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Ended::Broken => debug!(resource = self.resource, "watch opened anew"),
            }
        }
    }

    async fn follow(&self) -> Ended {
        let mut stream = (self.open)();
        let mut listed = None;
        let mut gone_in_a_row = 0;
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => {
                    gone_in_a_row = 0;
                    self.accept(event, &mut listed);
                }
                Err(error) => {
                    self.metrics.watch_failed(&self.resource);
                    match status_code(&error) {
                        Some(404) if self.crd.is_some() => return Ended::NotServed,
                        Some(403) => {
                            warn!(
                                resource = self.resource,
                                "may not list or watch: apply the RBAC that `croft manifests` prints"
                            );
                            self.state.send_replace(WatchState::Forbidden);
                        }
                        // The library resumes at the same version for ever when the status of the request itself is 410.
                        Some(410) => {
                            gone_in_a_row += 1;
                            if gone_in_a_row > 1 {
                                return Ended::Broken;
                            }
                        }
                        _ => debug!(resource = self.resource, %error, "watch interrupted"),
                    }
                }
            }
        }
        Ended::Broken
    }

    fn accept(&self, event: Event<Arrived<K>>, listed: &mut Option<BTreeSet<Place>>) {
        match event {
            Event::Init => *listed = Some(BTreeSet::new()),
            Event::InitApply(object) => {
                let place = self.store(object, Priority::Resync);
                if let Some(listed) = listed {
                    listed.insert(place);
                }
            }
            Event::InitDone => {
                for place in listed.take().map(|listed| self.cache.missing_from(&listed)).unwrap_or_default() {
                    self.wake(self.cache.remove(&place), Priority::Live);
                }
                self.state.send_replace(WatchState::Synced);
            }
            Event::Apply(object) => {
                self.store(object, Priority::Live);
            }
            Event::Delete(object) => {
                let metadata = object.metadata();
                let place = place_of(metadata);
                let revision = revision_of(metadata);
                self.wake(self.cache.remove(&place), Priority::Live);
                self.cache.saw(revision);
            }
        }
    }

    fn store(&self, object: Arrived<K>, priority: Priority) -> Place {
        let place = place_of(object.metadata());
        let revision = revision_of(object.metadata());
        match object {
            Arrived::Readable(mut object) => {
                if priority == Priority::Live
                    && let Some(lag) = age(object.meta())
                {
                    self.metrics.watch_lag(&self.resource, lag);
                }
                strip(object.meta_mut());
                self.wake(self.cache.put(&place, object), priority);
            }
            Arrived::Unreadable { error, .. } => {
                self.metrics.undecodable(&self.resource);
                warn!(
                    resource = self.resource,
                    namespace = place.namespace,
                    name = place.name,
                    error,
                    "object cannot be read and is left alone"
                );
                self.cache.put_unreadable(place.clone());
            }
        }
        self.cache.saw(revision);
        place
    }

    fn wake(&self, keys: Vec<super::Key>, priority: Priority) {
        for key in keys {
            self.pusher.push(key, priority);
        }
    }
}

impl<K: Resource> Arrived<K> {
    fn metadata(&self) -> &ObjectMeta {
        match self {
            Arrived::Readable(object) => object.meta(),
            Arrived::Unreadable { metadata, .. } => metadata,
        }
    }
}

fn place_of(metadata: &ObjectMeta) -> Place {
    Place::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Versions of one kind are decimal numbers and comparable (guaranteed since Kubernetes 1.35, true before).
fn revision_of(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn status_code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        // A 410 inside the stream is handled by the library, which lists anew.
        _ => None,
    }
}
