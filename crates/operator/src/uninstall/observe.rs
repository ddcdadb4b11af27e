//! Everything that is in the cluster, by its metadata: whatever belongs to an object of ours is found, of whichever kind it is.

use std::collections::BTreeMap;

use croft_core::uninstall::{Kind, Seen};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, PartialObjectMeta},
    core::discovery::v2::APIResourceDiscovery,
};
use serde_json::{Value, json};

use crate::{
    engine::{discover, write::call},
    preview::because,
};

/// As many objects are asked for at a time.
const PAGE: u32 = 500;
/// As many kinds are listed at once.
const AT_ONCE: usize = 8;

/// What was found, with how each kind is called.
#[derive(Debug, Default)]
pub(super) struct World {
    objects: Vec<Seen>,
    /// Of each object, by its UID.
    metadata: BTreeMap<String, Value>,
    resources: BTreeMap<Kind, (ApiResource, bool)>,
}

impl World {
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.objects.clone()
    }

    /// An object's metadata as it was.
    pub(super) fn metadata(&self, object: &Seen) -> Option<&Value> {
        self.metadata.get(&object.uid)
    }

    /// How objects of a kind are called; nothing where the kind is not served.
    pub(super) fn api(&self, client: &Client, kind: &Kind, namespace: &str) -> Option<Api<DynamicObject>> {
        let (resource, is_namespaced) = self.resources.get(kind)?;
        Some(match (is_namespaced, namespace) {
            (false, _) | (true, "") => Api::all_with(client.clone(), resource),
            (true, namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        })
    }
}

pub(super) async fn observe(client: &Client) -> anyhow::Result<World> {
    let groups = discover(client).await.map_err(because("discovering kinds"))?;
    let mut resources: BTreeMap<Kind, (ApiResource, bool)> = BTreeMap::new();
    for group in &groups {
        let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
        // The preferred version comes first.
        for version in &group.versions {
            let Some(number) = version.version.as_deref() else { continue };
            for (resource, is_namespaced) in version.resources.iter().filter_map(|one| listable(&name, number, one)) {
                let kind = Kind { group: name.clone(), kind: resource.kind.clone() };
                resources.entry(kind).or_insert((resource, is_namespaced));
            }
        }
    }
    let lists = stream::iter(resources.values().map(|(resource, _)| list(client, resource.clone())));
    let lists: Vec<_> = lists.buffer_unordered(AT_ONCE).try_collect().await?;
    let (objects, metadata) = lists
        .into_iter()
        .flatten()
        .map(|(seen, metadata)| {
            let uid = seen.uid.clone();
            (seen, (uid, metadata))
        })
        .unzip();
    Ok(World { objects, metadata, resources })
}

/// What can be listed and deleted. Nobody owns by way of events, and there are many of them.
fn listable(group: &str, version: &str, resource: &APIResourceDiscovery) -> Option<(ApiResource, bool)> {
    let can = |verb: &str| resource.verbs.iter().any(|known| known == verb);
    let kind = resource.response_kind.as_ref()?.kind.clone()?;
    if !can("list") || !can("delete") || kind == "Event" {
        return None;
    }
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let plural = resource.resource.clone()?;
    let found = ApiResource { group: group.to_owned(), version: version.to_owned(), api_version, kind, plural };
    Some((found, resource.scope.as_deref() == Some("Namespaced")))
}

async fn list(client: &Client, resource: ApiResource) -> anyhow::Result<Vec<(Seen, Value)>> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let kind = Kind { group: resource.group.clone(), kind: resource.kind.clone() };
    let mut found = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match call("list", api.list_metadata(&params)).await {
            Ok(page) => page,
            // It went since it was discovered.
            Err(failure) if failure.reason == "NotFound" => return Ok(found),
            Err(failure) => return Err(because(format!("listing {}", resource.plural))(failure)),
        };
        found.extend(page.items.iter().map(|object| seen(&kind, object)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

pub(super) fn seen(kind: &Kind, object: &PartialObjectMeta<DynamicObject>) -> (Seen, Value) {
    let metadata = &object.metadata;
    let owners = metadata.owner_references.iter().flatten().map(|owner| Kind {
        group: owner.api_version.split_once('/').map_or("", |(group, _)| group).to_owned(),
        kind: owner.kind.clone(),
    });
    let seen = Seen {
        kind: kind.clone(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        labels: metadata.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect(),
        annotations: metadata.annotations.iter().flatten().map(|(key, _)| key.clone()).collect(),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        owners: owners.collect(),
    };
    (seen, json!(metadata))
}
