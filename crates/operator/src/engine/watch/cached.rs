//! A watch that fills a [`Cache`] and wakes keys: first the object and its indexes, then the keys.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use croft_core::{conditions::cut, queue::Priority, watching::Standing};
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

/// What is wrong with an object may repeat all of it.
const LONGEST_ERROR: usize = 500;

/// The kind whose objects are the tenants themselves.
const NAMESPACES: &str = "namespaces";

/// Whether anybody waits for a kind to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Always,
    /// Where it is not installed there is none of it.
    WhereInstalled,
}

pub(crate) struct CacheSink<K> {
    pub(crate) resource: String,
    /// Watched in all namespaces: its objects are their tenants'.
    pub(crate) is_tenants: bool,
    pub(crate) need: Need,
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
                self.cache.trim(object.meta_mut());
                let (before, after) = (self.cache.uid(&place), object.meta().uid.clone());
                self.wake(self.cache.put(&place, object, how == How::Live), how.priority());
                if before.is_some() && before != after {
                    // Another object of the same name: the one before it is gone.
                    self.journal.removed(&self.resource, &place);
                }
            }
            Arrived::Unreadable { error, .. } => {
                self.metrics.undecodable(&self.resource);
                if self.cache.put_unreadable(place.clone()) {
                    warn!(
                        resource = self.resource,
                        namespace = place.namespace,
                        name = place.name,
                        error = cut(error, LONGEST_ERROR),
                        "object cannot be read and is left alone"
                    );
                    self.wake_whom_it_may_concern(&place);
                }
                // It may be on its way out.
                self.wake(self.cache.keys_of(&place), how.priority());
            }
        }
    }

    fn gone(&mut self, object: &Departed) {
        self.remove(&object.place);
    }

    fn listed(&mut self, places: &BTreeSet<Place>, revision: u64) {
        self.keep_only(places);
        self.journal.listed(&self.resource, revision);
    }

    fn progressed(&mut self, revision: u64) {
        self.journal.progressed(&self.resource, revision);
    }

    fn turned(&mut self, standing: &Standing) {
        if *standing == Standing::NotServed && self.need == Need::WhereInstalled {
            self.keep_only(&BTreeSet::new());
        }
    }
}

impl<K> CacheSink<K> {
    fn keep_only(&self, places: &BTreeSet<Place>) {
        for place in self.cache.missing_from(places) {
            self.remove(&place);
        }
    }

    fn remove(&self, place: &Place) {
        match self.cache.remove(place) {
            Some(keys) => self.wake(keys, Priority::Live),
            None => self.wake_whom_it_may_concern(place),
        }
        self.journal.removed(&self.resource, place);
    }

    /// What an object that cannot be read points at is not known. What a tenant makes concerns her own namespace only, and so does
    /// what she writes into that itself.
    fn wake_whom_it_may_concern(&self, place: &Place) {
        let tenant = if self.resource == NAMESPACES { &place.name } else { &place.namespace };
        if self.is_tenants && !tenant.is_empty() {
            self.pusher.push_tenant(tenant);
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::engine::{
        Clock, Part, dispatch,
        write::{Echo, Written},
    };

    const PART: Part = Part("test");

    struct Scene {
        sink: CacheSink<ConfigMap>,
        journal: Journal,
        key: Key,
        place: Place,
    }

    /// A watch of ConfigMaps that shows one, and a key that has just been looked at.
    fn scene() -> Scene {
        let (pusher, _) = dispatch::channels([PART]);
        let journal = Journal::new(Clock::start(), pusher.clone());
        let cache: Arc<Cache<ConfigMap>> = Arc::default();
        journal.opened("configmaps", {
            let cache = cache.clone();
            Arc::new(move |place: &Place| cache.uid(place))
        });
        journal.start();
        let sink = CacheSink {
            resource: "configmaps".into(),
            is_tenants: true,
            need: Need::WhereInstalled,
            cache,
            journal: journal.clone(),
            pusher,
            metrics: Arc::default(),
        };
        let place = Place::new("shop", "one");
        let mut scene = Scene { sink, journal, key: Key::new(PART.work("test"), "shop", "key"), place };
        scene.shows("first", How::Listed);
        scene
    }

    impl Scene {
        fn shows(&mut self, uid: &str, how: How) {
            let metadata = ObjectMeta {
                namespace: Some(self.place.namespace.clone()),
                name: Some(self.place.name.clone()),
                uid: Some(uid.to_owned()),
                ..ObjectMeta::default()
            };
            self.sink.put(Arrived::Readable(ConfigMap { metadata, ..ConfigMap::default() }), how);
        }

        fn shows_unreadable(&mut self) {
            let metadata = ObjectMeta {
                namespace: Some(self.place.namespace.clone()),
                name: Some(self.place.name.clone()),
                ..ObjectMeta::default()
            };
            self.sink.put(Arrived::Unreadable { metadata: Box::new(metadata), error: "too large".into() }, How::Live);
        }

        fn shows_it_is_gone(&mut self) {
            self.sink.gone(&Departed { place: self.place.clone(), version: "9".into() });
        }

        /// The key deleted the object, and the API server answered that it is gone.
        fn deletes(&self, uid: &str) {
            let echo = Echo { stream: "configmaps".into(), place: self.place.clone(), uid: uid.into(), version: None };
            self.journal.wrote(&self.key, &Written { echo: Some(echo), ..Written::default() });
        }

        fn may_look(&self) -> bool {
            self.journal.may_look(&self.key)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_looks_after_an_object_is_woken_by_each_change_of_one_that_cannot_be_read() {
        let mut scene = scene();
        let (pusher, mut inboxes) = dispatch::channels([PART]);
        scene.sink.pusher = pusher;
        scene.sink.cache.looked_after_by(PART.work("test"));
        let inbox = inboxes.get_mut(&PART).expect("of the part");
        for _ in 0..2 {
            scene.shows_unreadable();
            let woken = inbox.keys();
            assert_eq!(woken, [Key::new(PART.work("test"), "shop", "one")]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_cannot_be_read_wakes_nobody_elses() {
        for (resource, woken) in [("namespaces", ["one"].as_slice()), ("configmaps", &["shop"])] {
            let mut scene = scene();
            let (pusher, mut inboxes) = dispatch::channels([PART]);
            (scene.sink.pusher, scene.sink.resource) = (pusher, resource.into());
            scene.shows_unreadable();
            assert_eq!(inboxes.get_mut(&PART).expect("of the part").tenants(), woken);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_deleted_an_object_looks_again_as_soon_as_the_watch_shows_that_it_is_gone() {
        let mut scene = scene();
        scene.deletes("first");
        assert!(!scene.may_look(), "the cache still holds it");
        scene.shows_it_is_gone();
        assert!(scene.may_look());
    }

    #[tokio::test(start_paused = true)]
    async fn who_deleted_an_object_waits_for_nothing_where_the_watch_was_faster_than_the_answer() {
        let mut scene = scene();
        scene.shows_it_is_gone();
        scene.deletes("first");
        assert!(scene.may_look());
    }

    #[tokio::test(start_paused = true)]
    async fn with_a_kind_that_nobody_needs_its_objects_are_gone() {
        let mut scene = scene();
        scene.sink.turned(&Standing::Failing("down".into()));
        assert_eq!(scene.sink.cache.all().len(), 1, "what was known stays known");
        scene.sink.turned(&Standing::NotServed);
        assert!(scene.sink.cache.all().is_empty());
        scene.shows("first", How::Listed);
        scene.sink.need = Need::Always;
        scene.sink.turned(&Standing::NotServed);
        assert_eq!(scene.sink.cache.all().len(), 1, "whoever needs the kind waits for it");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_of_the_same_name_is_not_taken_for_the_one_that_was_deleted() {
        let mut scene = scene();
        scene.shows_it_is_gone();
        scene.shows("second", How::Live);
        scene.deletes("first");
        assert!(scene.may_look(), "the first one is gone");
        scene.deletes("second");
        assert!(!scene.may_look());
        scene.shows("third", How::Listed);
        assert!(scene.may_look(), "a list that names only the third tells that the second is gone");
    }
}
