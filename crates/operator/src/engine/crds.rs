//! Which kinds are installed: a metadata watch on the CRDs of the cluster.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use croft_core::plan::Failure;
use futures::{StreamExt, pin_mut};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    core::{PartialObjectMeta, discovery::v2::APIGroupDiscovery},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::write::call;

/// When to look after CRDs changed: a kind is served some moments after its CRD was made, and nothing announces it.
pub const UNTIL_SERVED: [Duration; 3] = [Duration::ZERO, Duration::from_millis(300), Duration::from_secs(2)];

/// Everything the API server serves, built in or not, in its own order.
pub async fn discover(client: &Client) -> Result<Vec<APIGroupDiscovery>, Failure> {
    let core = call("discover", client.list_core_api_versions_aggregated()).await?;
    let others = call("discover", client.list_api_groups_aggregated()).await?;
    Ok(core.items.into_iter().chain(others.items).collect())
}

/// The names of all CRDs, kept up to date.
#[derive(Clone, Debug)]
pub struct ServedKinds {
    names: Arc<watch::Sender<BTreeSet<String>>>,
}

impl Default for ServedKinds {
    fn default() -> Self {
        Self { names: Arc::new(watch::Sender::new(BTreeSet::new())) }
    }
}

impl ServedKinds {
    pub fn has(&self, crd: &str) -> bool {
        self.names.borrow().contains(crd)
    }

    /// Ends when the CRD is there.
    pub async fn installed(&self, crd: &str) {
        let mut names = self.names.subscribe();
        // The sender lives in `self`: waiting cannot fail.
        let _ = names.wait_for(|names| names.contains(crd)).await;
    }

    /// Told on every change of the set.
    pub fn changes(&self) -> watch::Receiver<BTreeSet<String>> {
        self.names.subscribe()
    }

    pub(super) async fn follow(self, client: Client) {
        let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
        let stream = watcher(api, watcher::Config::default()).default_backoff();
        pin_mut!(stream);
        let mut listing = BTreeSet::new();
        let mut said = false;
        while let Some(event) = stream.next().await {
            match event {
                Ok(Event::Init) => listing.clear(),
                Ok(Event::InitApply(crd)) => {
                    listing.insert(crd.name_any());
                }
                Ok(Event::InitDone) => {
                    said = false;
                    self.names.send_replace(std::mem::take(&mut listing));
                }
                Ok(Event::Apply(crd)) => {
                    self.names.send_if_modified(|names| names.insert(crd.name_any()));
                }
                Ok(Event::Delete(crd)) => {
                    self.names.send_if_modified(|names| names.remove(&crd.name_any()));
                }
                Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 403 => {
                    warn!("may not list customresourcedefinitions: apply the RBAC that `croft manifests` prints");
                }
                Err(watcher::Error::InitialListFailed(error)) if !said => {
                    said = true;
                    warn!("cannot reach the API server, will keep trying: {}", root_cause(&error));
                }
                Err(error) => debug!(%error, "watch on CRDs interrupted"),
            }
        }
    }
}

/// The innermost error: `Connection refused` says more than the layers around it.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
