//! What the API server knows about the kinds classes use: asked once per version of a group, and again whenever what is served may
//! have changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use croft_core::{
    namespaces::{class, manifest::group_of, resources::KindSeen},
    plan::Failure,
};
use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{Client, api::ApiResource};

use super::{
    Caches,
    inquiry::{Answer, HICCUPS, Inquiry, UNABLE, UNASKED},
    stamped::Stamps,
};
use crate::{
    engine::{KindChanges, Pusher, failure::timed_out, write::call},
    panics::essential,
};

/// An aggregated API that is asked and says nothing keeps those waiting who ask for the first time.
const LONGEST: Duration = Duration::from_secs(3);

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
    known: Arc<Mutex<BTreeMap<String, Arc<Inquiry<Resources>>>>>,
    groups: Arc<Inquiry<Versions>>,
}

/// What one version of a group serves.
type Resources = Vec<APIResource>;

/// Versions by group.
type Versions = BTreeMap<String, Vec<String>>;

impl std::fmt::Debug for Kinds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Kinds")
    }
}

impl Kinds {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Arc::default(), groups: Arc::default() }
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

    async fn groups(&self) -> Result<Arc<Versions>, Failure> {
        self.groups.answer(self.ask_groups()).await
    }

    async fn ask_groups(&self) -> Result<Versions, Failure> {
        let groups = call("discover", self.client.list_api_groups()).await?.groups.into_iter();
        let versions = groups.map(|group| {
            let versions = group.versions.into_iter().map(|version| version.group_version).collect();
            (group.name, versions)
        });
        Ok(versions.collect())
    }

    async fn served(&self, api_version: &str) -> Result<Arc<Resources>, Failure> {
        let version = self.known().entry(api_version.to_owned()).or_default().clone();
        version.answer(self.ask(api_version)).await
    }

    async fn ask(&self, api_version: &str) -> Result<Resources, Failure> {
        let asked = async {
            if group_of(api_version).is_empty() {
                call("discover", self.client.list_core_api_resources(api_version)).await
            } else {
                call("discover", self.client.list_api_group_resources(api_version)).await
            }
        };
        match tokio::time::timeout(LONGEST, asked).await.unwrap_or_else(|_| Err(timed_out("discover"))) {
            Ok(list) => Ok(list.resources),
            Err(failure) if matches!(failure.reason, "NotFound" | "NotServed") => Ok(Vec::new()),
            // The server that is asked answers, but not for this group: an aggregated API that is down.
            Err(failure) if matches!(failure.reason, "ApiServerError" | "TimedOut") => {
                Err(Failure { reason: UNABLE, ..failure })
            }
            Err(failure) => Err(failure),
        }
    }

    /// Forgets what is known about a version: it turned out not to be true any more.
    pub(super) fn forget(&self, api_version: &str) {
        let known = self.known().get(api_version).cloned();
        if let Some(version) = known {
            version.forget();
        }
        self.groups.forget();
    }

    /// Asks again about everything that is known. Gives the groups that are not what they were.
    async fn refresh(&self) -> BTreeSet<String> {
        let known: Vec<_> = self.known().iter().map(|(name, version)| (name.clone(), version.clone())).collect();
        let versions = known.iter().map(|(api_version, version)| async move {
            let differs = !serve_the_same(&version.ask_anew(self.ask(api_version)).await);
            differs.then(|| group_of(api_version).to_owned())
        });
        let versions = join_all(versions).await;
        let differ = match self.groups.last() {
            Some(_) => groups_that_differ(&self.groups.ask_anew(self.ask_groups()).await),
            // Nobody needed to know.
            None => Some(BTreeSet::new()),
        };
        let groups = known.iter().map(|(api_version, _)| group_of(api_version));
        let groups = groups.filter(|group| differ.as_ref().is_none_or(|differ| differ.contains(*group)));
        groups.map(str::to_owned).chain(versions.into_iter().flatten()).collect()
    }

    /// When kinds come, go or change, watches move to versions that are served, and who uses one that is not what it was is woken.
    pub(super) fn follow(&self, changes: &KindChanges, stamps: Stamps, caches: Caches, pusher: Pusher) {
        let kinds = self.clone();
        let mut changes = changes.changes();
        tokio::spawn(essential("kinds", async move {
            loop {
                changes.until_served().await;
                kinds.keep(&caches.groups_in_use());
                // By then what cannot be asked about is known to be away.
                for _ in 0..HICCUPS {
                    let differ = kinds.refresh().await;
                    stamps.reconsider();
                    caches.wake_users_of(&differ, &pusher);
                    if !kinds.is_unheard() {
                        break;
                    }
                    tokio::time::sleep(UNASKED.first).await;
                }
            }
        }));
    }

    /// Forgets what nobody uses any more.
    fn keep(&self, groups: &BTreeSet<String>) {
        self.known().retain(|api_version, _| groups.contains(group_of(api_version)));
    }

    /// Whether something of what is known could not be asked about just now.
    fn is_unheard(&self) -> bool {
        self.known().values().filter_map(|version| version.last()).any(|answer| answer.is_unheard())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Inquiry<Resources>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a version serves the same kinds as before, as far as that could be asked.
fn serve_the_same([before, after]: &[Option<Answer<Resources>>; 2]) -> bool {
    match (before, after) {
        (Some(Answer::Told { what: before, .. }), Some(Answer::Told { what: after, .. })) => {
            let kinds = |resources: &Resources| -> Vec<_> {
                resources.iter().map(|found| (found.name.clone(), found.kind.clone(), found.namespaced)).collect()
            };
            kinds(before) == kinds(after)
        }
        (Some(Answer::Unable { .. }), Some(Answer::Unable { .. })) => true,
        _ => false,
    }
}

/// The groups whose versions are not what they were; nothing where that cannot be told.
fn groups_that_differ([before, after]: &[Option<Answer<Versions>>; 2]) -> Option<BTreeSet<String>> {
    let (Some(Answer::Told { what: before, .. }), Some(Answer::Told { what: after, .. })) = (before, after) else {
        return None;
    };
    let names = before.keys().chain(after.keys());
    Some(names.filter(|name| before.get(*name) != after.get(*name)).cloned().collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(names: &[&str]) -> Answer<Resources> {
        let resource = |name: &&str| APIResource { name: (*name).to_owned(), ..APIResource::default() };
        Answer::told(names.iter().map(resource).collect())
    }

    #[test]
    fn only_a_version_that_serves_other_kinds_is_another_one() {
        let unable = Answer::<Resources>::unable(Failure { reason: UNABLE, ..timed_out("it") }, None);
        let one = || Some(resources(&["a"]));
        assert!(serve_the_same(&[one(), one()]));
        assert!(serve_the_same(&[Some(unable.clone()), Some(unable.clone())]));
        for other in [Some(resources(&["a", "b"])), Some(resources(&[])), Some(unable), None] {
            assert!(!serve_the_same(&[one(), other.clone()]) && !serve_the_same(&[other, one()]));
        }
    }

    #[tokio::test]
    async fn what_no_class_and_no_binding_names_any_more_is_not_asked_about() {
        let kinds = Kinds::new(crate::client::nobody());
        for api_version in ["v1", "lamps.dev/v1", "lamps.dev/v2", "typo.dev/v1"] {
            kinds.known().insert(api_version.into(), Arc::default());
        }
        kinds.keep(&["", "lamps.dev"].map(str::to_owned).into());
        assert_eq!(kinds.known().keys().collect::<Vec<_>>(), ["lamps.dev/v1", "lamps.dev/v2", "v1"]);
    }

    #[test]
    fn a_group_differs_when_its_versions_do() {
        let versions = |groups: &[(&str, &str)]| {
            let group = |(group, version): &(&str, &str)| ((*group).to_owned(), vec![(*version).to_owned()]);
            Answer::told(groups.iter().map(group).collect())
        };
        let before = versions(&[("a", "a/v1"), ("b", "b/v1"), ("c", "c/v1")]);
        let after = versions(&[("a", "a/v1"), ("b", "b/v2"), ("d", "d/v1")]);
        let differ = groups_that_differ(&[Some(before.clone()), Some(after)]).unwrap();
        assert_eq!(differ.into_iter().collect::<Vec<_>>(), ["b", "c", "d"]);
        assert_eq!(groups_that_differ(&[Some(before), None]), None);
    }
}
