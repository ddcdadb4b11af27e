//! What the API server serves may change at any time: CRDs come, go, gain versions and are served late, aggregated APIs
//! register and recover. Nothing announces a kind, so whatever may change the answer of discovery counts as a change.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use croft_core::{plan::Failure, watching::Standing};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::{
    Api, Client, Resource,
    core::{PartialObjectMeta, discovery::v2::APIGroupDiscovery},
};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::{
    cache::Place,
    watch::{Arrived, Departed, How, Sink, Supervisor, Surroundings, Wire, place_of},
    write::{call, resource_name},
};
use crate::telemetry::metrics::Metrics;

/// When to look again after a change: a kind is served some moments after its CRD was made, and nothing announces it.
const UNTIL_SERVED: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(10)];

/// However often kinds change, nobody looks more often than this.
const CALM: Duration = Duration::from_secs(2);

/// Everything the API server serves, built in or not, in its own order.
pub async fn discover(client: &Client) -> Result<Vec<APIGroupDiscovery>, Failure> {
    let core = call("discover", client.list_core_api_versions_aggregated()).await?;
    let others = call("discover", client.list_api_groups_aggregated()).await?;
    Ok(core.items.into_iter().chain(others.items).collect())
}

/// Tells whenever the kinds that are served may have changed. Counts the changes.
#[derive(Clone, Debug)]
pub struct KindChanges(Arc<watch::Sender<Count>>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// What announces kinds was listed: it is there already, and served already.
    listed: u64,
    live: u64,
}

impl Default for KindChanges {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Count::default())))
    }
}

impl KindChanges {
    /// Changes from now on.
    pub fn changes(&self) -> Changes {
        Changes { count: self.0.subscribe(), live: 0, moments: Vec::new(), not_before: Instant::now() }
    }

    /// Watches what announces kinds; runs for ever.
    pub(super) fn watch(&self, client: &Client, metrics: &Arc<Metrics>, tasks: &TaskTracker) {
        let surroundings = Surroundings { metrics: metrics.clone(), kinds: self.clone() };
        tasks.spawn(self.supervisor::<CustomResourceDefinition>(client, &surroundings, true));
        tasks.spawn(self.supervisor::<APIService>(client, &surroundings, false));
    }

    fn supervisor<K>(
        &self,
        client: &Client,
        surroundings: &Surroundings,
        speaks: bool,
    ) -> impl Future<Output = ()> + use<K>
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    {
        let supervisor = Supervisor {
            resource: resource_name::<K>(),
            source: Wire::metadata(Api::<PartialObjectMeta<K>>::all(client.clone())),
            sink: Announcements { speaks, known: BTreeMap::new(), changes: self.clone() },
            standing: watch::Sender::new(Standing::default()),
            surroundings: surroundings.clone(),
        };
        supervisor.run::<PartialObjectMeta<K>>()
    }

    /// What is served has changed, or turned out to be other than it was.
    pub fn changed(&self) {
        self.0.send_modify(|count| count.live += 1);
    }

    fn listed(&self) {
        self.0.send_modify(|count| count.listed += 1);
    }
}

/// Follows the changes, each of them for a while: a kind may be served some time after it was announced.
#[derive(Debug)]
pub struct Changes {
    count: watch::Receiver<Count>,
    /// Live changes up to here are known.
    live: u64,
    /// When to look, the next moment last.
    moments: Vec<Instant>,
    not_before: Instant,
}

impl Changes {
    /// Ends when it is worth looking again. May be dropped and called again.
    pub async fn until_served(&mut self) {
        loop {
            tokio::select! {
                // The sender lives as long as the engine.
                _ = self.count.changed() => self.note(),
                () = super::sleep_until(self.moments.last().copied()) => {
                    self.moments.pop();
                    self.not_before = Instant::now() + CALM;
                    return;
                }
            }
        }
    }

    /// A change: the moment that is due next stays due, the later ones begin anew.
    fn note(&mut self) {
        let live = self.count.borrow_and_update().live;
        let is_live = std::mem::replace(&mut self.live, live) != live;
        let now = Instant::now();
        let due = if is_live { UNTIL_SERVED.map(|after| now + after).to_vec() } else { vec![now] };
        let next = self.moments.pop();
        if is_live {
            self.moments.clear();
        }
        for moment in next.into_iter().chain(due) {
            self.moments.push(moment.max(self.not_before));
        }
        self.moments.sort_by_key(|moment| std::cmp::Reverse(*moment));
        self.moments.dedup();
    }
}

/// Versions of the objects that announce kinds: any change of one, its status included, may change what is served.
struct Announcements {
    /// Of the watches that are in the same trouble when the API server is away, one says so.
    speaks: bool,
    known: BTreeMap<Place, String>,
    changes: KindChanges,
}

impl<K: Resource> Sink<K> for Announcements {
    fn put(&mut self, object: Arrived<K>, how: How) {
        let metadata = object.metadata();
        let version = metadata.resource_version.clone().unwrap_or_default();
        let before = self.known.insert(place_of(metadata), version.clone());
        // What is listed is told once, when all of it is known.
        if how == How::Live && before.as_ref() != Some(&version) {
            self.changes.changed();
        }
    }

    fn gone(&mut self, object: &Departed) {
        self.known.remove(&object.place);
        self.changes.changed();
    }

    fn listed(&mut self, places: &BTreeSet<Place>, _revision: u64) {
        self.known.retain(|place, _| places.contains(place));
        self.changes.listed();
    }

    fn turned(&mut self, standing: &Standing) {
        if let (Standing::Failing(why), true) = (standing, self.speaks) {
            warn!("cannot reach the API server, will keep trying: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When it is worth looking within the next minute, in milliseconds, if `happens` happens.
    async fn looks(kinds: &KindChanges, happens: impl Future<Output = ()>) -> Vec<u128> {
        let mut changes = kinds.changes();
        let begun = Instant::now();
        let mut looks = Vec::new();
        let watching = async {
            loop {
                changes.until_served().await;
                looks.push(begun.elapsed().as_millis());
            }
        };
        let minute = async {
            happens.await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        };
        tokio::select! {
            () = watching => {}
            () = minute => {}
        }
        looks
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_looked_at_three_times_and_a_list_once() {
        let kinds = KindChanges::default();
        assert_eq!(looks(&kinds, async { kinds.listed() }).await, [0]);
        assert_eq!(looks(&kinds, async { kinds.changed() }).await, [300, 2_000, 10_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn changes_without_end_are_looked_at_at_a_pace_and_the_last_one_three_times() {
        let kinds = KindChanges::default();
        let storm = async {
            for _ in 0..100 {
                kinds.changed();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let looks = looks(&kinds, storm).await;
        assert_eq!(looks.first(), Some(&300));
        assert!(looks.len() <= 9, "{looks:?}");
        assert_eq!(looks.last(), Some(&19_900));
    }
}
