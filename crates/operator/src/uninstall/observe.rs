//! Everything that is in the cluster, by its metadata: whatever belongs to an object of ours is found, of whichever kind it is.
//! Only what concerns us is kept.

use std::collections::BTreeMap;

use croft_core::{
    plan::{Failure, FailureClass},
    uninstall::{Ground, Kind, Seen, concerns, stage},
};
use futures::{StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams},
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
/// How often a list is begun: its pages may be forgotten meanwhile.
const TRIES: usize = 2;
/// As many kinds that could not be listed are named.
const NAMED: usize = 3;

/// Objects of one kind with their metadata; or why they cannot be listed.
type Listed = Result<Vec<(Seen, Value)>, String>;

/// What was found, with how each kind is called.
#[derive(Debug, Default)]
pub(super) struct World {
    objects: Vec<Seen>,
    /// Of each object that something is done with, by its UID.
    metadata: BTreeMap<String, Value>,
    resources: BTreeMap<Kind, (ApiResource, bool)>,
    /// Kinds of which nothing is known, each with the reason.
    unlisted: Vec<String>,
}

impl World {
    /// All that concerns `ground`. A kind that cannot be listed is named and keeps nobody from finding the others.
    pub(super) async fn of_all(client: &Client, ground: &Ground) -> anyhow::Result<Self> {
        let mut world = Self::of_kinds(client).await?;
        let lists = world.resources.values().map(|(resource, _)| {
            let all = Api::all_with(client.clone(), resource);
            list(all, resource.clone(), |object| concerns(object, ground))
        });
        let lists: Vec<_> = stream::iter(lists).buffer_unordered(AT_ONCE).collect().await;
        world.take(lists, |object| stage(object, ground).is_some());
        Ok(world)
    }

    /// All that is in one namespace.
    pub(super) async fn of_namespace(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let mut world = Self::of_kinds(client).await?;
        let lists = world.resources.values().filter(|(_, is_namespaced)| *is_namespaced).map(|(resource, _)| {
            list(Api::namespaced_with(client.clone(), namespace, resource), resource.clone(), |_| true)
        });
        let lists: Vec<_> = stream::iter(lists).buffer_unordered(AT_ONCE).collect().await;
        world.take(lists, |_| false);
        Ok(world)
    }

    /// Every kind there is; and every version of which the API server knows only that there is one, since whoever serves it does not answer.
    async fn of_kinds(client: &Client) -> anyhow::Result<Self> {
        let groups = discover(client).await.map_err(because("discovering kinds"))?;
        let mut world = Self::default();
        for group in &groups {
            let name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
            // The preferred version comes first.
            for version in &group.versions {
                let Some(number) = version.version.as_deref() else { continue };
                if version.freshness.as_deref() == Some("Stale") {
                    world.unlisted.push(format!("{name}/{number} (who serves it does not answer)"));
                }
                let found = version.resources.iter().filter_map(|one| listable(&name, number, one));
                for (resource, is_namespaced) in found {
                    world.resources.entry(kind_of(&resource)).or_insert((resource, is_namespaced));
                }
            }
        }
        Ok(world)
    }

    fn take(&mut self, lists: Vec<Listed>, needs_metadata: impl Fn(&Seen) -> bool) {
        for list in lists {
            match list {
                Ok(objects) => {
                    for (object, metadata) in objects {
                        if needs_metadata(&object) {
                            self.metadata.insert(object.uid.clone(), metadata);
                        }
                        self.objects.push(object);
                    }
                }
                Err(reason) => self.unlisted.push(reason),
            }
        }
        self.unlisted.sort();
    }

    pub(super) fn seen(&self) -> &[Seen] {
        &self.objects
    }

    /// Which kinds nothing is known of, if any.
    pub(super) fn unlisted(&self) -> Option<String> {
        let named: Vec<_> = self.unlisted.iter().take(NAMED).map(String::as_str).collect();
        let more = self.unlisted.len().saturating_sub(NAMED);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        (!named.is_empty()).then(|| {
            format!(
                "what belongs to Croft cannot be told of kinds that cannot be listed, so its own kinds stay as long: {}{more}",
                named.join("; ")
            )
        })
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

pub(super) fn kind_of(resource: &ApiResource) -> Kind {
    Kind { group: resource.group.clone(), kind: resource.kind.clone() }
}

/// Those of one kind that are wanted.
async fn list(api: Api<DynamicObject>, resource: ApiResource, is_wanted: impl Fn(&Seen) -> bool) -> Listed {
    let kind = kind_of(&resource);
    let mut tries = 1;
    loop {
        match pages(&api, &kind, &is_wanted).await {
            Ok(found) => return Ok(found),
            // It went since it was discovered.
            Err(failure) if ["NotFound", "NotServed"].contains(&failure.reason) => return Ok(Vec::new()),
            Err(failure) if failure.class == FailureClass::Transient && tries < TRIES => tries += 1,
            Err(failure) => {
                let dot = if resource.group.is_empty() { "" } else { "." };
                return Err(format!("{}{dot}{} ({})", resource.plural, resource.group, failure.message));
            }
        }
    }
}

async fn pages(
    api: &Api<DynamicObject>,
    kind: &Kind,
    is_wanted: &impl Fn(&Seen) -> bool,
) -> Result<Vec<(Seen, Value)>, Failure> {
    let mut found = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call("list", api.list_metadata(&params)).await?;
        for object in page.items {
            let seen = seen(kind, &object.metadata);
            if is_wanted(&seen) {
                let metadata = ObjectMeta { managed_fields: None, ..object.metadata };
                found.push((seen, json!(metadata)));
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

pub(super) fn seen(kind: &Kind, metadata: &ObjectMeta) -> Seen {
    let owners = metadata.owner_references.iter().flatten().map(|owner| Kind {
        group: owner.api_version.split_once('/').map_or("", |(group, _)| group).to_owned(),
        kind: owner.kind.clone(),
    });
    Seen {
        kind: kind.clone(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        labels: metadata.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect(),
        annotations: metadata.annotations.iter().flatten().map(|(key, _)| key.clone()).collect(),
        finalizers: metadata.finalizers.clone().unwrap_or_default(),
        owners: owners.collect(),
        is_going: metadata.deletion_timestamp.is_some(),
    }
}
