//! What the API server knows about the kinds classes use: asked once per version of a group, forgotten whenever what is served may have
//! changed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_api::namespaces::NamespaceClassBinding;
use croft_core::{
    backoff::Backoff,
    namespaces::{
        class,
        manifest::group_of,
        resources::{KindName, KindSeen},
    },
    plan::Failure,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{Client, api::ApiResource};
use tokio::time::Instant;

use super::stamped::Stamps;
use crate::{
    engine::{Cache, KindChanges, Pusher, failure::timed_out, write::call},
    panics::essential,
};

/// An aggregated API that is asked and says nothing keeps those waiting who ask for the first time.
const LONGEST: Duration = Duration::from_secs(3);
/// So many calls in a row that are not answered are no accident.
const HICCUPS: u32 = 3;
/// What is served may change without anything that announces it.
const BELIEVED: Duration = Duration::from_secs(600);
/// What could not be asked about is asked about ever more rarely, unless something changes.
const UNASKED: Backoff = Backoff { first: Duration::from_secs(1), most: Duration::from_secs(60) };

/// The reason when a single kind cannot be asked about.
pub(super) const UNABLE: &str = "KindUnavailable";

/// A kind as the API server serves it.
#[derive(Clone, Debug)]
pub(crate) struct ServedKind {
    pub(crate) seen: KindSeen,
    pub(crate) resource: ApiResource,
}

impl ServedKind {
    /// The kind as a class records it, if objects of it can be stamped.
    pub(crate) fn stampable(&self) -> Option<class::Kind> {
        matches!(self.seen, KindSeen::Namespaced | KindSeen::Moved { .. }).then(|| class::Kind {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
            resource: self.resource.plural.clone(),
        })
    }
}

#[derive(Clone)]
pub(crate) struct Kinds {
    client: Client,
    /// By `apiVersion`.
    known: Arc<Mutex<BTreeMap<String, Arc<Version>>>>,
    /// Versions by group, and since when that is known.
    groups: Arc<tokio::sync::Mutex<Option<(Instant, Versions)>>>,
    hangs: Arc<Mutex<BTreeMap<KindName, Hang>>>,
}

type Versions = Arc<BTreeMap<String, Vec<String>>>;

/// Calls about objects of a kind that were not answered in time, in a row.
#[derive(Clone, Copy, Debug)]
struct Hang {
    times: u32,
    /// Until then nobody else tries.
    until: Instant,
}

/// One version of a group: what is served in it, once that is known.
#[derive(Default)]
struct Version {
    answer: Mutex<Option<Answer>>,
    /// One asks, the others wait for what it hears.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
enum Answer {
    Serves {
        resources: Arc<Vec<APIResource>>,
        since: Instant,
    },
    /// It could not be asked about, this often in a row, and is not again before this moment.
    Unable {
        failure: Failure,
        times: u32,
        until: Instant,
    },
}

impl Answer {
    fn is_fresh(&self) -> bool {
        match self {
            Answer::Serves { since, .. } => since.elapsed() < BELIEVED,
            Answer::Unable { until, .. } => Instant::now() < *until,
        }
    }

    fn unable(failure: Failure, before: Option<&Answer>) -> Self {
        let times = match before {
            Some(Answer::Unable { times, .. }) => times.saturating_add(1),
            _ => 1,
        };
        Answer::Unable { failure, times, until: Instant::now() + UNASKED.delay(times, 0) }
    }

    fn given(self) -> Result<Arc<Vec<APIResource>>, Failure> {
        match self {
            Answer::Serves { resources, .. } => Ok(resources),
            Answer::Unable { failure, .. } => Err(failure),
        }
    }
}

impl Version {
    fn known(&self) -> MutexGuard<'_, Option<Answer>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> Option<Answer> {
        self.known().clone()
    }

    fn fresh(&self) -> Option<Answer> {
        self.last().filter(Answer::is_fresh)
    }
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Kinds")
    }
}

impl Kinds {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Arc::default(), groups: Arc::default(), hangs: Arc::default() }
    }

    /// How a call about objects of a kind ended. One webhook that never answers would otherwise keep everybody waiting who uses
    /// its kind, and with them everybody else.
    pub(super) fn called(&self, kind: &KindName, failure: Option<&Failure>) {
        let mut hangs = self.hangs.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some_and(|failure| failure.reason == "TimedOut") {
            let times = hangs.get(kind).map_or(1, |hang| hang.times.saturating_add(1));
            hangs.insert(kind.clone(), Hang { times, until: Instant::now() + UNASKED.delay(times, 0) });
        } else {
            hangs.remove(kind);
        }
    }

    /// Why objects of a kind are left alone for now, if they are. Whoever asks when the time is over tries for all.
    pub(super) fn why_not(&self, kind: &KindName) -> Option<String> {
        let mut hangs = self.hangs.lock().unwrap_or_else(PoisonError::into_inner);
        let hang = hangs.get_mut(kind).filter(|hang| hang.times >= HICCUPS)?;
        let now = Instant::now();
        if hang.until <= now {
            hang.until = now + UNASKED.delay(hang.times, 0);
            return None;
        }
        Some(format!("the API server does not answer in time where {} is concerned", kind.1))
    }

    /// Looks the kind up; a kind that is not installed is an answer too.
    pub(crate) async fn look_up(&self, api_version: &str, kind: &str) -> Result<ServedKind, Failure> {
        let served = self.served(api_version).await?;
        if let Some(found) = find(&served, kind) {
            return Ok(described(api_version, kind, Some(found)));
        }
        // What was made of it is still there if another version is served, and is reached by that.
        for other in self.versions_beside(api_version).await? {
            let served = self.served(&other).await?;
            if let Some(found) = find(&served, kind).filter(|found| found.namespaced) {
                let moved = described(&other, kind, Some(found));
                return Ok(ServedKind { seen: KindSeen::Moved { to: other }, ..moved });
            }
        }
        Ok(described(api_version, kind, None))
    }

    /// The other versions of the group that are served.
    async fn versions_beside(&self, api_version: &str) -> Result<Vec<String>, Failure> {
        let groups = self.groups().await?;
        let versions = groups.get(group_of(api_version)).into_iter().flatten();
        Ok(versions.filter(|version| *version != api_version).cloned().collect())
    }

    async fn groups(&self) -> Result<Versions, Failure> {
        let mut known = self.groups.lock().await;
        if let Some((_, versions)) = known.as_ref().filter(|(since, _)| since.elapsed() < BELIEVED) {
            return Ok(versions.clone());
        }
        let groups = call("discover", self.client.list_api_groups()).await?.groups.into_iter();
        let versions = groups.map(|group| {
            let versions = group.versions.into_iter().map(|version| version.group_version).collect();
            (group.name, versions)
        });
        let versions: Versions = Arc::new(versions.collect());
        *known = Some((Instant::now(), versions.clone()));
        Ok(versions)
    }

    async fn served(&self, api_version: &str) -> Result<Arc<Vec<APIResource>>, Failure> {
        let version = self.known().entry(api_version.to_owned()).or_default().clone();
        if let Some(answer) = version.fresh() {
            return answer.given();
        }
        let last = version.last();
        let _asking = match (version.asking.try_lock(), last) {
            (Ok(asking), _) => asking,
            // A server that keeps one waiting need not keep all waiting.
            (Err(_), Some(answer)) => return answer.given(),
            (Err(_), None) => version.asking.lock().await,
        };
        if let Some(answer) = version.fresh() {
            return answer.given();
        }
        let answer = match self.ask(api_version).await {
            Ok(resources) => Answer::Serves { resources: Arc::new(resources), since: Instant::now() },
            Err(failure) if failure.reason == UNABLE => Answer::unable(failure, version.last().as_ref()),
            Err(failure) => return Err(failure),
        };
        *version.known() = Some(answer.clone());
        answer.given()
    }

    async fn ask(&self, api_version: &str) -> Result<Vec<APIResource>, Failure> {
        let asked = async {
            if group_of(api_version).is_empty() {
                call("discover", self.client.list_core_api_resources(api_version)).await
            } else {
                call("discover", self.client.list_api_group_resources(api_version)).await
            }
        };
        match tokio::time::timeout(LONGEST, asked).await.unwrap_or_else(|_| Err(timed_out("discover"))) {
            Ok(list) => Ok(list.resources),
            Err(failure) if failure.reason == "NotFound" => Ok(Vec::new()),
            // The server that is asked answers, but not for this group: an aggregated API that is down.
            Err(failure) if matches!(failure.reason, "ApiServerError" | "TimedOut") => {
                Err(Failure { reason: UNABLE, ..failure })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Forgets what is known about a version: it turned out not to be true any more.
    pub(super) async fn forget(&self, api_version: &str) {
        self.known().remove(api_version);
        *self.groups.lock().await = None;
    }

    /// When kinds come, go or change, everything is asked again as it is needed, watches move to versions that are served, and
    /// bindings are woken.
    pub(super) fn follow(
        &self,
        changes: &KindChanges,
        stamps: Stamps,
        bindings: Arc<Cache<NamespaceClassBinding>>,
        pusher: Pusher,
    ) {
        let kinds = self.clone();
        let mut changes = changes.changes();
        tokio::spawn(essential("kinds", async move {
            loop {
                changes.until_served().await;
                kinds.known().clear();
                *kinds.groups.lock().await = None;
                stamps.reconsider();
                super::wake_all(&bindings, &pusher);
            }
        }));
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Version>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'r>(served: &'r [APIResource], kind: &str) -> Option<&'r APIResource> {
    served.iter().find(|resource| resource.kind == kind && !resource.name.contains('/'))
}

fn described(api_version: &str, kind: &str, found: Option<&APIResource>) -> ServedKind {
    let seen = match found {
        None => KindSeen::NotInstalled,
        Some(resource) if resource.namespaced => KindSeen::Namespaced,
        Some(_) => KindSeen::ClusterScoped,
    };
    let group = group_of(api_version);
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: found.map(|resource| resource.name.clone()).unwrap_or_default(),
    };
    ServedKind { seen, resource }
}
