//! Writes to the API server: each is one call, timed out, with its precondition, and tells the version it made.

use std::{fmt, future::Future, time::Duration};

use croft_core::plan::{Failure, FailureClass};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Place,
    failure::{classify, timed_out},
    is_deleting,
    report::NewStatus,
    watch::place_of,
};

/// Our name in managedFields for everything but stamped objects.
pub const FIELD_MANAGER: &str = "croft-operator";

/// No call waits longer than this.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What a watch will show of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The watch that shows it: `plural.group` for cached kinds.
    pub stream: String,
    pub place: Place,
    pub uid: String,
    /// The version the call made; none if the object is gone.
    pub version: Option<u64>,
}

/// What a successful call left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub uid: Option<String>,
    /// What to wait for before observing again.
    pub echo: Option<Echo>,
    /// What the object shows of what was written, where that is kept as a witness.
    pub witness: Option<String>,
}

impl Written {
    /// A call outside Kubernetes, or one whose effect is not cached.
    pub fn elsewhere() -> Self {
        Self::default()
    }

    /// With the last finalizer an object that is being deleted goes, and its echo is that.
    fn held_by(mut self, finalizers: &[String], is_deleting: bool) -> Self {
        if let Some(echo) = self.echo.as_mut().filter(|_| is_deleting && finalizers.is_empty()) {
            echo.version = None;
        }
        self
    }

    /// `target` is gone, which its watch may have yet to show.
    pub(crate) fn end(target: Target<'_>, stream: &str) -> Self {
        let (place, uid) = (Place::new(target.namespace, target.name), target.uid.to_owned());
        Self { echo: Some(Echo { stream: stream.to_owned(), place, uid, version: None }), ..Self::default() }
    }

    /// The object has gone with what was taken off it.
    pub(crate) fn gone(mut self) -> Self {
        if let Some(echo) = &mut self.echo {
            echo.version = None;
        }
        Self { uid: None, ..self }
    }

    /// A call that made this version of an object.
    fn of(stream: &str, place: Place, uid: Option<String>, version: &str) -> Self {
        let echo = version.parse().ok().map(|version| Echo {
            stream: stream.to_owned(),
            place,
            uid: uid.clone().unwrap_or_default(),
            version: Some(version),
        });
        Self { uid, echo, witness: None }
    }
}

/// The one way this operator writes Kubernetes objects.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    /// The API server does everything but store: every call is a dry run.
    rehearsing: bool,
}

impl fmt::Debug for Writer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Writer")
    }
}

/// What every typed kind here is.
pub trait Object: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + fmt::Debug + Send + Sync {}
impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + fmt::Debug + Send + Sync> Object for K {}

/// A typed object's place and identity: what a write is allowed to touch.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

impl Writer {
    pub fn new(client: Client) -> Self {
        Self { client, rehearsing: false }
    }

    /// A writer that changes nothing: the same calls with the same answers, never stored.
    pub fn rehearsing(client: Client) -> Self {
        Self { client, rehearsing: true }
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Creates `object` where its metadata says; fails as stale if the name is taken.
    pub async fn create<K: Object>(&self, object: &K) -> Result<Written, Failure> {
        let text = serde_json::to_vec(object).map_err(|error| unwritable("InvalidObject", &error))?;
        let api = self.api::<K>(&object.namespace().unwrap_or_default());
        let request = Request::new(api.resource_url()).create(&self.posting(FIELD_MANAGER), text);
        self.send("create", request, &resource_name::<K>()).await.map_err(|failure| match failure.reason {
            // Its namespace or its kind is not there: looking again at once would find the same.
            "NotFound" | "NotServed" => Failure::new(FailureClass::Transient, "PlaceMissing", failure.message),
            _ => failure,
        })
    }

    /// Merges `patch` into the object; fails as stale unless it still is `target` at `version`.
    pub async fn merge<K: Object>(
        &self,
        target: Target<'_>,
        version: Option<&str>,
        mut patch: Value,
    ) -> Result<Written, Failure> {
        patch["metadata"]["uid"] = target.uid.into();
        if let Some(version) = version {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        let request = Request::new(self.api::<K>(target.namespace).resource_url());
        let request = request.patch(target.name, &self.patching(FIELD_MANAGER), &Patch::Merge(patch));
        // Whoever lets go of an object that nobody can read must not stumble over the answer.
        self.send("patch", request, &resource_name::<K>()).await
    }

    /// Sets the whole list of finalizers of the object as it was observed.
    pub async fn finalizers<K: Object>(&self, observed: &K, finalizers: &[String]) -> Result<Written, Failure> {
        let (namespace, name, uid) =
            (observed.namespace().unwrap_or_default(), observed.name_any(), observed.uid().unwrap_or_default());
        let target = Target { namespace: &namespace, name: &name, uid: &uid };
        let patch = json!({ "metadata": { "finalizers": finalizers } });
        let written = self.merge::<K>(target, observed.resource_version().as_deref(), patch).await?;
        Ok(written.held_by(finalizers, is_deleting(observed.meta())))
    }

    /// Adds `finalizer` to the object as it was observed.
    pub async fn add_finalizer<K: Object>(&self, observed: &K, finalizer: &str) -> Result<Written, Failure> {
        let mut finalizers = observed.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        self.finalizers(observed, &finalizers).await
    }

    /// Takes `finalizer` off the object as it was observed; done already if the object is gone.
    pub async fn release_finalizer<K: Object>(&self, observed: &K, finalizer: &str) -> Result<Written, Failure> {
        let finalizers: Vec<_> = observed.finalizers().iter().filter(|other| *other != finalizer).cloned().collect();
        gone_is_done(self.finalizers(observed, &finalizers).await)
    }

    /// Server-side apply of a typed object where its metadata says.
    pub async fn apply_object<K: Object>(&self, object: &K) -> Result<Written, Failure> {
        let api = self.api::<K>(&object.namespace().unwrap_or_default());
        let params = self.patching(FIELD_MANAGER).force();
        let made = call("apply", api.patch(&object.name_any(), &params, &Patch::Apply(object))).await?;
        Ok(written(&made, &resource_name::<K>()))
    }

    /// Deletes exactly `target`, where it matters only as it is at `version`; done already if it is gone.
    pub async fn delete<K: Object>(&self, target: Target<'_>, version: Option<&str>) -> Result<Written, Failure> {
        gone_is_done(self.delete_by(&self.api::<K>(target.namespace), target, version, &resource_name::<K>()).await)
    }

    /// As [`Writer::delete`], for a kind known only at run time; `stream` is the watch that shows it.
    pub async fn delete_by(
        &self,
        api: &Api<DynamicObject>,
        target: Target<'_>,
        version: Option<&str>,
        stream: &str,
    ) -> Result<Written, Failure> {
        let preconditions =
            Preconditions { uid: Some(target.uid.to_owned()), resource_version: version.map(str::to_owned) };
        let params =
            DeleteParams { dry_run: self.rehearsing, preconditions: Some(preconditions), ..DeleteParams::background() };
        let request = Request::new(api.resource_url()).delete(target.name, &params);
        let request = request.map_err(|error| classify(&kube::Error::BuildRequest(error)))?;
        let Removed { metadata } = call("delete", self.client.request(request)).await?;
        Ok(if is_still_there(&metadata) { written_at(&metadata, stream) } else { Written::end(target, stream) })
    }

    /// Replaces a whole status; stale if the object is gone, or not as it was seen: the caches will tell.
    pub async fn status(&self, status: &NewStatus) -> Result<Written, Failure> {
        let api = self.api_of(&status.resource, &status.namespace);
        let request = Request::new(api.resource_url());
        // Where the version is known, a PUT costs the API server an eighth less than a patch that tests for it.
        // Not of built-in kinds: some of those let metadata be written with the status, and a PUT would wipe it.
        let version = status.version.as_ref().filter(|_| !status.resource.group.is_empty());
        let request = if let Some(version) = version {
            let put = put_of(status, version)?;
            request.replace_subresource("status", &status.name, &self.posting(FIELD_MANAGER), put)
        } else {
            let patch = patch_of(status)?;
            request.patch_subresource("status", &status.name, &self.patching(FIELD_MANAGER), &patch)
        };
        self.send("status", request, &status.stream).await
    }

    /// Makes a call of which only is kept what its echo will be.
    async fn send(
        &self,
        what: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        stream: &str,
    ) -> Result<Written, Failure> {
        let request = request.map_err(|error| classify(&kube::Error::BuildRequest(error)))?;
        let made: Answered = call(what, self.client.request(request)).await?;
        Ok(made.written(stream))
    }

    /// How objects are created under a name.
    pub fn posting(&self, manager: &str) -> PostParams {
        PostParams { dry_run: self.rehearsing, field_manager: Some(manager.to_owned()) }
    }

    /// How objects are changed under a name.
    pub fn patching(&self, manager: &str) -> PatchParams {
        PatchParams { dry_run: self.rehearsing, field_manager: Some(manager.to_owned()), ..PatchParams::default() }
    }

    /// Access to a kind whatever its scope: an empty namespace means the cluster. Answers are read as metadata only.
    pub fn api<K: Object>(&self, namespace: &str) -> Api<DynamicObject> {
        self.api_of(&ApiResource::erase::<K>(&()), namespace)
    }

    fn api_of(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, resource)
        }
    }
}

/// What a PUT of a status wants.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusAt<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Seen<'a>,
    status: &'a Value,
}

/// The one object, as it was seen.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    resource_version: &'a str,
}

fn put_of(status: &NewStatus, resource_version: &str) -> Result<Vec<u8>, Failure> {
    let NewStatus { resource, namespace, name, uid, value, .. } = status;
    let metadata = Seen { namespace, name, uid, resource_version };
    let put = StatusAt { api_version: &resource.api_version, kind: &resource.kind, metadata, status: value };
    serde_json::to_vec(&put).map_err(|error| unwritable("InvalidStatus", &error))
}

fn patch_of(status: &NewStatus) -> Result<Patch<Value>, Failure> {
    let mut patch = vec![json!({ "op": "test", "path": "/metadata/uid", "value": status.uid })];
    if let Some(version) = &status.version {
        patch.push(json!({ "op": "test", "path": "/metadata/resourceVersion", "value": version }));
    }
    patch.push(json!({ "op": "add", "path": "/status", "value": status.value }));
    let patch = Value::Array(patch);
    serde_json::from_value(patch).map(Patch::Json).map_err(|error| unwritable("InvalidStatus", &error))
}

fn unwritable(reason: &'static str, error: &serde_json::Error) -> Failure {
    Failure::new(FailureClass::Rejected, reason, error.to_string())
}

/// All that is read of an answer: the rest is what we sent, or of no interest.
#[derive(Deserialize)]
struct Answered {
    metadata: AnsweredMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: Option<String>,
    #[serde(default)]
    resource_version: String,
}

impl Answered {
    fn written(self, stream: &str) -> Written {
        let AnsweredMetadata { name, namespace, uid, resource_version } = self.metadata;
        Written::of(stream, Place::new(namespace, name), uid, &resource_version)
    }
}

/// The answer to a deletion: the object, or a Status, whose metadata says nothing.
#[derive(Deserialize)]
struct Removed {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// One API call under the common timeout.
pub async fn call<T>(what: &str, request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(CALL_TIMEOUT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(classify(&error)),
        Err(_) => Err(timed_out(&format!("the API server's answer to {what}"))),
    }
}

/// A live read; absent is an answer, not a failure.
pub async fn read<T>(request: impl Future<Output = kube::Result<Option<T>>>) -> Result<Option<T>, Failure> {
    call("get", request).await
}

/// An object that is gone needs no deleting.
pub fn gone_is_done(result: Result<Written, Failure>) -> Result<Written, Failure> {
    match result {
        Err(failure) if failure.reason == "NotFound" => Ok(Written::default()),
        other => other,
    }
}

/// Whether an object that was to be deleted is only on its way. Of some kinds the answer is the object although it is gone.
fn is_still_there(answered: &ObjectMeta) -> bool {
    let is_waited_for = answered.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
    let is_held = answered.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    is_deleting(answered) && (is_waited_for || is_held)
}

/// What the API server answered about an object of `resource`.
pub fn written<K: ResourceExt>(object: &K, resource: &str) -> Written {
    written_at(object.meta(), resource)
}

fn written_at(metadata: &ObjectMeta, resource: &str) -> Written {
    let place = place_of(metadata);
    Written::of(resource, place, metadata.uid.clone(), metadata.resource_version.as_deref().unwrap_or_default())
}

/// `plural.group`, or the plural alone for the core group: how CRDs are named and how caches are registered.
pub fn crd_name(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

pub fn resource_name<K: Resource<DynamicType = ()>>() -> String {
    crd_name(&K::plural(&()), &K::group(&()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_object_that_is_answered_is_still_there_only_where_something_holds_it() {
        let table = [
            (json!({}), false),
            (json!({ "finalizers": ["x"] }), false),
            (json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" }), false),
            (json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0 }), false),
            (json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30 }), true),
            (json!({ "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"] }), true),
        ];
        for (metadata, expected) in table {
            let answered: Removed = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
            assert_eq!(is_still_there(&answered.metadata), expected, "{metadata}");
        }
    }

    #[test]
    fn the_echo_of_a_released_finalizer_is_the_deletion_only_where_nothing_else_holds_what_is_being_deleted() {
        let version = |finalizers: &[String], is_deleting| {
            let written = Written::of("things", Place::new("shop", "one"), Some("u".into()), "7");
            let echo = written.held_by(finalizers, is_deleting).echo.unwrap();
            assert_eq!(echo.uid, "u");
            echo.version
        };
        assert_eq!(version(&[], true), None, "it is gone");
        assert_eq!(version(&[], false), Some(7), "a live object stays");
        assert_eq!(version(&["other".to_owned()], true), Some(7), "somebody else holds it");
    }
}
