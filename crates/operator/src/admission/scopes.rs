//! Which kinds are not namespaced, in memory: asked for at start and whenever kinds may have come or gone.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use kube::{Client, core::discovery::v2::APIGroupDiscovery};
use tracing::warn;

use crate::engine::{Changes, discover};

const RETRY: Duration = Duration::from_secs(5);

/// Group and kind of everything cluster-scoped. Empty until the API server has told.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterScoped(Arc<ArcSwap<BTreeSet<(String, String)>>>);

impl ClusterScoped {
    pub(crate) fn has(&self, group: &str, kind: &str) -> bool {
        self.0.load().contains(&(group.to_owned(), kind.to_owned()))
    }

    /// Keeps the picture fresh; runs for ever.
    pub(crate) async fn keep(self, client: Client, mut changes: Changes) {
        loop {
            self.refresh(&client).await;
            changes.until_served().await;
        }
    }

    async fn refresh(&self, client: &Client) {
        loop {
            match discover(client).await {
                Ok(groups) => return self.0.store(Arc::new(groups.iter().flat_map(cluster_scoped).collect())),
                Err(failure) => warn!(%failure, "cannot ask which kinds are namespaced, will try again"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

fn cluster_scoped(group: &APIGroupDiscovery) -> impl Iterator<Item = (String, String)> {
    let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
    let resources = group.versions.iter().flat_map(|version| &version.resources);
    let resources = resources.filter(|resource| resource.scope.as_deref() == Some("Cluster"));
    resources.filter_map(move |resource| Some((name.clone(), resource.response_kind.as_ref()?.kind.clone()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_counts_by_its_group_whatever_its_version() {
        let resource =
            |kind: &str, scope: &str| json!({"resource": "x", "responseKind": {"kind": kind}, "scope": scope});
        let group: APIGroupDiscovery = serde_json::from_value(json!({"metadata": {"name": "apps.dev"}, "versions": [
            {"version": "v2", "resources": [resource("Widget", "Cluster"), resource("Gadget", "Namespaced")]},
            {"version": "v1", "resources": [resource("Widget", "Cluster")]},
        ]}))
        .unwrap();
        let found: BTreeSet<_> = cluster_scoped(&group).collect();
        assert_eq!(found, BTreeSet::from([("apps.dev".to_owned(), "Widget".to_owned())]));
    }
}
