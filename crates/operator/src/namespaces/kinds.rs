//! What the API server knows about the kinds classes use: asked once per kind, forgotten whenever what is served may have
//! changed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use croft_api::namespaces::NamespaceClassBinding;
use croft_core::{
    namespaces::{
        class,
        manifest::group_of,
        resources::{KindName, KindSeen},
    },
    plan::Failure,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
use kube::{Client, api::ApiResource};

use crate::{
    engine::{Cache, KindChanges, Pusher, write::call},
    panics::essential,
};

/// The reason when a single kind cannot be asked about.
pub(super) const UNABLE: &str = "KindUnavailable";

/// A kind as the API server serves it.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) seen: KindSeen,
    pub(crate) resource: ApiResource,
}

impl Kind {
    /// The kind as a class records it, if objects of it can be stamped.
    pub(crate) fn stampable(&self) -> Option<class::Kind> {
        (self.seen == KindSeen::Namespaced).then(|| class::Kind {
            api_version: self.resource.api_version.clone(),
            kind: self.resource.kind.clone(),
            resource: self.resource.plural.clone(),
        })
    }
}

#[derive(Clone)]
pub(crate) struct Kinds {
    client: Client,
    known: Arc<Mutex<BTreeMap<KindName, Kind>>>,
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Kinds")
    }
}

impl Kinds {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Looks the kind up; a kind that is not installed is an answer too.
    pub(crate) async fn look_up(&self, api_version: &str, kind: &str) -> Result<Kind, Failure> {
        let name = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.known().get(&name) {
            return Ok(known.clone());
        }
        let found = self.ask(api_version, kind).await?;
        self.known().insert(name, found.clone());
        Ok(found)
    }

    async fn ask(&self, api_version: &str, kind: &str) -> Result<Kind, Failure> {
        let group = group_of(api_version);
        let served = if group.is_empty() {
            call("discover", self.client.list_core_api_resources(api_version)).await
        } else {
            call("discover", self.client.list_api_group_resources(api_version)).await
        };
        let served = match served {
            Ok(list) => list.resources,
            Err(failure) if failure.reason == "NotFound" => Vec::new(),
            // The server that is asked answers, but not for this group: an aggregated API that is down.
            Err(failure) if matches!(failure.reason, "ApiServerError" | "TimedOut") => {
                return Err(Failure { reason: UNABLE, ..failure });
            }
            Err(failure) => return Err(failure),
        };
        let found = served.into_iter().find(|resource| resource.kind == kind && !resource.name.contains('/'));
        Ok(described(api_version, kind, found))
    }

    /// Forgets what is known about a kind: it turned out not to be true any more.
    pub(super) fn forget(&self, api_version: &str, kind: &str) {
        self.known().remove(&(api_version.to_owned(), kind.to_owned()));
    }

    /// When kinds come, go or change, everything is asked again as it is needed, and bindings are woken.
    pub(super) fn follow(&self, changes: &KindChanges, bindings: Arc<Cache<NamespaceClassBinding>>, pusher: Pusher) {
        let kinds = self.clone();
        let mut changes = changes.changes();
        tokio::spawn(essential("kinds", async move {
            loop {
                changes.until_served().await;
                kinds.known().clear();
                super::wake_all(&bindings, &pusher);
            }
        }));
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<KindName, Kind>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn described(api_version: &str, kind: &str, found: Option<APIResource>) -> Kind {
    let seen = match &found {
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
        plural: found.map(|resource| resource.name).unwrap_or_default(),
    };
    Kind { seen, resource }
}
