//! Requests as the API server has them, where the caches do not tell, or not in time.

use std::{collections::BTreeMap, sync::Arc};

use croft_core::{
    backup::Fields,
    conditions::Conditions,
    name::is_dns_subdomain,
    plan::{Failure, FailureClass},
};
use kube::{
    Api, Resource, ResourceExt,
    api::GetParams,
    core::{NamespaceResourceScope, Request},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::request::TRIED_ANNOTATION;
use crate::{
    engine::{
        Cache, Key, Writer, is_deleting,
        write::{Object as Kind, call, read},
    },
    objects::has_finalizer,
};

/// A request as it is stored.
#[derive(Debug)]
pub(super) struct Stored<K> {
    pub(super) request: Arc<K>,
    /// Otherwise its spec lacks what cannot be read of it.
    pub(super) is_readable: bool,
}

impl<K: Kind> Stored<K> {
    fn whole(request: Arc<K>) -> Self {
        Self { request, is_readable: true }
    }

    /// The request, if what it asks for is known, or does not matter because it is on its way out.
    fn known(self) -> Result<Arc<K>, Failure> {
        if self.is_readable || is_deleting(self.request.meta()) { Ok(self.request) } else { Err(unreadable()) }
    }
}

fn unreadable() -> Failure {
    let message = "what it asks for cannot be read, most likely it is nested too deeply; write it anew";
    Failure::new(FailureClass::Rejected, "UnreadableAnswer", message)
}

/// The request as the API server has it, where a stale look could hand it to Velero a second time: Velero does not have it, and
/// nothing is going to be noted on exactly what was seen.
pub(super) async fn newest<K>(
    writer: &Writer,
    cached: Arc<K>,
    conditions: &Conditions,
    is_with_velero: bool,
    finalizer: &str,
) -> Result<Option<Arc<K>>, Failure>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let is_noted = has_finalizer(cached.meta(), finalizer) && cached.annotations().contains_key(TRIED_ANNOTATION);
    if is_with_velero || conditions.is_true("Queued") || !is_noted {
        return Ok(Some(cached));
    }
    let live = live(writer, &cached.namespace().unwrap_or_default(), &cached.name_any()).await?;
    live.map(Stored::known).transpose().map(|live| live.filter(|live: &Arc<K>| live.uid() == cached.uid()))
}

/// The object of that name in the namespace of a request: the cached one, or the API server's own where the cache has none.
/// What a request is refused for only an edit cures, and a watch may be a moment behind. Nobody is asked for one about which that
/// `is_decided`: of those there may be any number, each looked at now and then.
pub(super) async fn named<K>(
    writer: &Writer,
    cache: &Cache<K>,
    namespace: &str,
    name: &str,
    is_decided: bool,
) -> Result<Option<Arc<K>>, Failure>
where
    K: Kind + Resource<Scope = NamespaceResourceScope> + 'static,
{
    if let Some(cached) = cache.get(namespace, name) {
        return Ok(Some(cached));
    }
    // It becomes part of a path, and would be read as one.
    if is_decided || !is_dns_subdomain(name) {
        return Ok(None);
    }
    let api: Api<K> = Api::namespaced(writer.client(), namespace);
    Ok(read(api.get_opt(name)).await?.map(Arc::new))
}

/// The request as it is stored: the cached one, or the API server's own where what is stored cannot be read from the watch. It may be
/// on its way out, and nobody else lets it go.
pub(super) async fn stored<K>(writer: &Writer, cache: &Cache<K>, key: &Key) -> Result<Option<Stored<K>>, Failure>
where
    K: Kind + Resource<Scope = NamespaceResourceScope> + 'static,
{
    let cached = cache.as_stored(&key.namespace, &key.name);
    if cached.is_some() || !cache.exists(&key.namespace, &key.name) {
        return Ok(cached.map(Stored::whole));
    }
    live(writer, &key.namespace, &key.name).await
}

/// As [`stored`], where nothing can be done about a request of which nobody knows what it asks for, unless it is on its way out.
pub(super) async fn known<K>(writer: &Writer, cache: &Cache<K>, key: &Key) -> Result<Option<Arc<K>>, Failure>
where
    K: Kind + Resource<Scope = NamespaceResourceScope> + 'static,
{
    stored(writer, cache, key).await?.map(Stored::known).transpose()
}

async fn live<K>(writer: &Writer, namespace: &str, name: &str) -> Result<Option<Stored<K>>, Failure>
where
    K: Kind + Resource<Scope = NamespaceResourceScope>,
{
    let api: Api<K> = Api::namespaced(writer.client(), namespace);
    match read(api.get_opt(name)).await {
        Err(failure) if failure.reason == "UnreadableAnswer" => {}
        live => return Ok(live?.map(Arc::new).map(Stored::whole)),
    }
    let request = Request::new(api.resource_url()).get(name, &GetParams::default());
    let request = request.map_err(|error| Failure::new(FailureClass::Rejected, "InvalidName", error.to_string()))?;
    match call::<Outline>("get", writer.client().request(request)).await {
        Err(failure) if failure.reason == "NotFound" => Ok(None),
        outline => outline?.request().map(|request| Some(Stored { request: Arc::new(request), is_readable: false })),
    }
}

/// A request of which something cannot be read.
#[derive(Deserialize)]
struct Outline {
    /// Who manages which field is nested as deeply as the fields.
    metadata: BTreeMap<String, Box<RawValue>>,
    #[serde(default)]
    spec: BTreeMap<String, Box<RawValue>>,
    status: Option<Box<RawValue>>,
}

impl Outline {
    /// The request with whatever of it can be read. Where that is not enough it is as good as none.
    fn request<K: Kind>(self) -> Result<K, Failure> {
        let readable = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).ok();
        let metadata = self.metadata.iter().filter_map(|(field, raw)| Some((field.clone(), readable(raw)?)));
        let spec = self.spec.iter().map(|(field, raw)| (field.clone(), readable(raw).unwrap_or_else(|| json!({}))));
        let request = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": metadata.collect::<Fields>(),
            "spec": spec.collect::<Fields>(),
            "status": self.status.as_deref().and_then(readable),
        });
        serde_json::from_value(request).map_err(|_| unreadable())
    }
}

#[cfg(test)]
mod tests {
    use croft_api::backup::{NonAdminBackup, NonAdminBackupStorageLocation, NonAdminRestore};

    use super::*;

    fn outlined<K: Kind>(spec: &str) -> K {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(5_000), "}".repeat(5_000));
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"X","metadata":{{"name":"nightly","namespace":"shop","uid":"u",
                 "finalizers":["ours"],"deletionTimestamp":"2026-01-01T00:00:00Z",
                 "managedFields":[{{"manager":"her","fieldsV1":{deep}}}]}},
                 "spec":{},"status":{{"phase":"Deleting","conditions":[]}}}}"#,
            spec.replace("DEEP", &deep)
        );
        assert!(serde_json::from_str::<K>(&text).is_err(), "it can be read");
        let outline: Outline = serde_json::from_str(&text).unwrap();
        outline.request().unwrap()
    }

    #[test]
    fn of_a_request_that_is_nested_too_deeply_everything_else_is_read() {
        let backup: NonAdminBackup = outlined(r#"{"backupSpec":{"hooks":DEEP},"deleteBackup":true}"#);
        assert!(backup.spec.delete_backup && backup.spec.backup_spec.0.0.is_empty());
        assert!(is_deleting(&backup.metadata) && has_finalizer(&backup.metadata, "ours"));
        assert!(backup.status.is_some_and(|status| status.phase.is_some()));
        let restore: NonAdminRestore = outlined(r#"{"restoreSpec":{"hooks":DEEP}}"#);
        assert!(restore.spec.restore_spec.0.0.is_empty());
        let location: NonAdminBackupStorageLocation = outlined(r#"{"backupStorageLocationSpec":{"x":DEEP}}"#);
        assert!(location.spec.backup_storage_location_spec.0.0.is_empty());
    }

    #[test]
    fn nothing_is_done_about_a_request_that_cannot_be_read_unless_it_is_on_its_way_out() {
        let known = |deleted: Option<&str>, is_readable| {
            let metadata = json!({ "name": "nightly", "deletionTimestamp": deleted });
            let backup: NonAdminBackup = serde_json::from_value(json!({
                "apiVersion": "oadp.openshift.io/v1alpha1", "kind": "NonAdminBackup", "metadata": metadata,
                "spec": { "backupSpec": {} },
            }))
            .unwrap();
            Stored { request: Arc::new(backup), is_readable }.known().is_ok()
        };
        let deleted = Some("2026-01-01T00:00:00Z");
        assert!(known(None, true) && known(deleted, true) && known(deleted, false) && !known(None, false));
    }
}
