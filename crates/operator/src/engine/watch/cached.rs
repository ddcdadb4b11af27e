//! A watch that fills a [`Cache`] and wakes keys: first the object and its indexes, then the keys.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use croft_core::queue::Priority;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use tracing::warn;

use super::{Arrived, Departed, How, Sink, place_of};
use crate::{
    engine::{
        Journal, Key, Pusher,
        cache::{Cache, Place},
    },
    telemetry::metrics::Metrics,
};

pub(crate) struct CacheSink<K> {
    pub(crate) resource: String,
    /// Watched in all namespaces: its objects are their tenants'.
    pub(crate) is_tenants: bool,
    pub(crate) cache: Arc<Cache<K>>,
    pub(crate) journal: Journal,
    pub(crate) pusher: Pusher,
    pub(crate) metrics: Arc<Metrics>,
}

impl<K: Resource + Send + Sync> Sink<K> for CacheSink<K> {
    fn put(&mut self, object: Arrived<K>, how: How) {
        let place = place_of(object.metadata());
        match object {
            Arrived::Readable(mut object) => {
                if how == How::Live
                    && let Some(lag) = age(object.meta())
                {
                    self.metrics.watch_lag(&self.resource, lag);
                }
                strip(object.meta_mut());
                self.wake(self.cache.put(&place, object, how == How::Live), how.priority());
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
                if self.cache.put_unreadable(place.clone()) {
                    self.wake_whom_it_may_concern(&place);
                }
            }
        }
    }

    fn gone(&mut self, object: &Departed) {
        self.remove(&object.place);
    }

    fn listed(&mut self, places: &BTreeSet<Place>) {
        for place in self.cache.missing_from(places) {
            self.remove(&place);
        }
    }

    fn progressed(&mut self, revision: u64) {
        self.journal.progressed(&self.resource, revision);
    }
}

impl<K> CacheSink<K> {
    fn remove(&self, place: &Place) {
        match self.cache.remove(place) {
            Some(keys) => self.wake(keys, Priority::Live),
            None => self.wake_whom_it_may_concern(place),
        }
    }

    /// What an object that cannot be read points at is not known. What a tenant makes concerns her own namespace only.
    fn wake_whom_it_may_concern(&self, place: &Place) {
        if self.is_tenants && !place.namespace.is_empty() {
            self.pusher.push_tenant(&place.namespace);
        } else {
            self.pusher.push_everything();
        }
    }

    fn wake(&self, keys: Vec<Key>, priority: Priority) {
        for key in keys {
            self.pusher.push(key, priority);
        }
    }
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
