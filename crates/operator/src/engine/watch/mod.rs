//! The one supervisor of watches: list, watch, resume, list anew; whatever it learns goes into a [`Sink`].
//!
//! A watch outlives everything the API server does: restarts, expired versions (in the stream or as the answer), slow pages,
//! undecodable objects, missing rights, kinds that are not installed yet or vanish, and a sink that panics. What each of these
//! means is decided by [`croft_core::watching`].

mod cached;
mod single;
pub(crate) mod source;

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use croft_core::{
    backoff::Backoff,
    queue::Priority,
    watching::{Answer, Listing, SHORTEST, Standing, Supervision, Trouble},
};
use futures::{FutureExt, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tokio::{sync::watch, time::Instant};
use tracing::{debug, error, info, warn};

use self::source::Happenings;
pub(crate) use self::{
    cached::{CacheSink, Need},
    single::{Known, follow},
    source::{Arrived, Departed, Happening, Source, Wire},
};
use super::{cache::Place, kinds::KindChanges};
use crate::telemetry::metrics::Metrics;

/// How long after a panic a watch is opened anew.
const AFTER_PANIC: Backoff = Backoff { first: Duration::from_secs(5), most: Duration::from_secs(300) };

/// How an object became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It was there when everything was listed.
    Listed,
    /// It has just changed.
    Live,
}

impl How {
    /// How urgent it is to look at what this concerns.
    pub(crate) fn priority(self) -> Priority {
        match self {
            How::Listed => Priority::Resync,
            How::Live => Priority::Live,
        }
    }
}

/// What a watch fills.
pub(crate) trait Sink<K>: Send {
    fn put(&mut self, object: Arrived<K>, how: How);

    fn gone(&mut self, object: &Departed);

    /// A list is complete: what it did not name is gone. It tells everything up to this version, and nothing after it: where the
    /// API server was put back to an earlier day, so is what is known of it.
    fn listed(&mut self, places: &BTreeSet<Place>, revision: u64);

    /// Everything up to this version has been told. Never called in the middle of a list.
    fn progressed(&mut self, _revision: u64) {}

    /// The watch has come to stand like this.
    fn turned(&mut self, _standing: &Standing) {}

    /// Nobody needs it any more.
    fn has_ended(&mut self) -> bool {
        false
    }
}

/// What all watches share.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub metrics: Arc<Metrics>,
    pub kinds: KindChanges,
}

/// One watch.
pub(crate) struct Supervisor<S, T> {
    /// `plural.group`, as CRDs are named; plain plural for the core group.
    pub(crate) resource: String,
    pub(crate) source: S,
    pub(crate) sink: T,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) surroundings: Surroundings,
}

impl<S, T> Supervisor<S, T> {
    /// Runs until the sink has ended.
    pub(crate) async fn run<K>(mut self)
    where
        K: Resource,
        S: Source<K>,
        T: Sink<K>,
    {
        let (mut panics, mut begun) = (0, Instant::now());
        while let Err(panic) = AssertUnwindSafe(self.keep::<K>()).catch_unwind().await {
            // What it says may hold anything: it goes to the standard error by itself, not into the log.
            drop(panic);
            self.surroundings.metrics.panicked("watch");
            error!(resource = self.resource, "a watch panicked; it is opened anew");
            // What it has seen is half a picture at best, and whoever uses it must know; telling them may panic as well.
            let failing = Standing::Failing("a bug in croft: the watch panicked".into());
            self.standing.send_replace(failing.clone());
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| self.sink.turned(&failing)));
            // After a long while it is another matter.
            panics = if begun.elapsed() > AFTER_PANIC.most { 1 } else { panics + 1 };
            tokio::time::sleep(AFTER_PANIC.delay(panics, 0)).await;
            begun = Instant::now();
        }
    }

    async fn keep<K>(&mut self)
    where
        K: Resource,
        S: Source<K>,
        T: Sink<K>,
    {
        let mut hasher = DefaultHasher::new();
        self.resource.hash(&mut hasher);
        let mut watch = Supervision::new(hasher.finish());
        let mut version = None;
        let mut answer = Answer::List { after: Duration::ZERO };
        let mut changes = self.surroundings.kinds.changes();
        while !self.sink.has_ended() {
            match answer {
                Answer::AwaitKind { at_most } => {
                    let _ = tokio::time::timeout(at_most, changes.until_served()).await;
                    version = None;
                }
                Answer::List { after } => {
                    tokio::time::sleep(after).await;
                    version = None;
                }
                Answer::Resume { after } => tokio::time::sleep(after).await,
            }
            answer = match self.turn(&mut watch, &mut version).await {
                (lasted, Ok(())) => watch.ended(lasted),
                (lasted, Err(trouble)) => {
                    self.surroundings.metrics.watch_failed(&self.resource);
                    answer_to(&self.resource, &mut watch, &trouble, lasted)
                }
            };
            self.tell::<K>(&watch);
        }
    }

    /// Follows one stream to its end. Tells how long it lasted.
    async fn turn<K>(
        &mut self,
        watch: &mut Supervision,
        version: &mut Option<String>,
    ) -> (Duration, Result<(), Trouble>)
    where
        K: Resource,
        S: Source<K>,
        T: Sink<K>,
    {
        let mut stream: Happenings<K> = match self.open(watch, version).await {
            Ok(stream) => stream,
            Err(trouble) => return (Duration::ZERO, Err(trouble)),
        };
        let begun = Instant::now();
        let (lasting, mut is_new) = (tokio::time::sleep(SHORTEST), true);
        tokio::pin!(lasting);
        while !self.sink.has_ended() {
            let happening = tokio::select! {
                happening = stream.next() => happening,
                () = &mut lasting, if is_new => {
                    is_new = false;
                    watch.lasts();
                    self.tell::<K>(watch);
                    continue;
                }
            };
            match happening {
                Some(Ok(happening)) => *version = Some(self.accept(happening)),
                Some(Err(trouble)) => return (begun.elapsed(), Err(trouble)),
                None => break,
            }
        }
        (begun.elapsed(), Ok(()))
    }

    /// Opens a stream; lists first where nothing is known.
    async fn open<K>(&mut self, watch: &mut Supervision, version: &mut Option<String>) -> Result<Happenings<K>, Trouble>
    where
        K: Resource,
        S: Source<K>,
        T: Sink<K>,
    {
        let from = if let Some(version) = version {
            version
        } else {
            let listed = self.list().await?;
            watch.listed();
            version.insert(listed)
        };
        let stream = self.source.watch(from).await?;
        watch.accepted();
        self.tell::<K>(watch);
        Ok(stream)
    }

    async fn list<K>(&mut self) -> Result<String, Trouble>
    where
        K: Resource,
        S: Source<K>,
        T: Sink<K>,
    {
        let mut listed = BTreeSet::new();
        let (mut listing, mut next) = (Listing::default(), None::<String>);
        loop {
            let page = self.source.list(next.as_deref()).await?;
            let (mut objects, mut new) = (0, 0);
            for object in page.objects {
                objects += 1;
                new += usize::from(listed.insert(place_of(object.metadata())));
                self.sink.put(object, How::Listed);
            }
            next = page.next;
            if next.is_none() {
                self.sink.listed(&listed, revision(&page.version));
                return Ok(page.version);
            }
            listing.goes_on(objects, new)?;
        }
    }

    /// Passes on what happened; gives the version to go on from.
    fn accept<K: Resource>(&mut self, happening: Happening<K>) -> String
    where
        T: Sink<K>,
    {
        let version = match happening {
            Happening::Put(object) => {
                let version = object.metadata().resource_version.clone().unwrap_or_default();
                self.sink.put(object, How::Live);
                version
            }
            Happening::Gone(object) => {
                self.sink.gone(&object);
                object.version
            }
            Happening::Bookmark(version) => version,
        };
        self.sink.progressed(revision(&version));
        version
    }

    /// Says where the watch stands, if that has changed.
    fn tell<K>(&mut self, watch: &Supervision)
    where
        T: Sink<K>,
    {
        let standing = watch.standing();
        if *self.standing.borrow() != *standing {
            log_turn(&self.resource, standing);
            self.standing.send_replace(standing.clone());
            self.sink.turned(standing);
        }
    }
}

/// What to do after a failure; logged where it has become a state.
fn answer_to(resource: &str, watch: &mut Supervision, trouble: &Trouble, lasted: Duration) -> Answer {
    debug!(resource, %trouble, "watch interrupted");
    let was = watch.standing().clone();
    let answer = watch.failed(trouble, lasted);
    if let (Standing::Failing(why), Trouble::Other(_) | Trouble::Expired) = (watch.standing(), trouble)
        && was != *watch.standing()
    {
        warn!(resource, why, "cannot be watched; will keep trying");
    }
    answer
}

fn log_turn(resource: &str, standing: &Standing) {
    match standing {
        Standing::Forbidden => warn!(
            resource,
            "may not list or watch: apply the RBAC that `croft manifests` prints, or grant it to the operator"
        ),
        Standing::NotServed => info!(resource, "waiting for this kind to be installed"),
        Standing::Starting | Standing::Synced | Standing::Failing(_) => debug!(resource, %standing, "watch"),
    }
}

impl<K: Resource> Arrived<K> {
    pub(crate) fn metadata(&self) -> &ObjectMeta {
        match self {
            Arrived::Readable(object) => object.meta(),
            Arrived::Unreadable { metadata, .. } => metadata,
        }
    }
}

pub(crate) fn place_of(metadata: &ObjectMeta) -> Place {
    Place::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

pub(crate) fn revision_of(metadata: &ObjectMeta) -> u64 {
    revision(metadata.resource_version.as_deref().unwrap_or_default())
}

/// Versions of one kind are decimal numbers and comparable (guaranteed since Kubernetes 1.35, true before).
pub(crate) fn revision(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests;
