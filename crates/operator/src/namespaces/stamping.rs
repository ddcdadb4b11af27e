//! Writes of what classes set: objects and labels of namespaces, under a name of their own, answered with a witness.

use std::fmt::Debug;

use croft_core::{
    namespaces::{
        excess::dropped,
        manifest::keeps_stamp,
        resources::{Namespace, NamespaceChanges},
        witness::{Care, Seal, Witness},
    },
    plan::{Failure, FailureClass},
};
use k8s_openapi::api::core::v1;
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::{DynamicResourceScope, Request},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::live::Live;
use crate::engine::{
    Target, Writer, Written,
    failure::classify,
    write::{FIELD_MANAGER, call, crd_name, resource_name, written},
};

/// Our name in the managedFields of stamped objects. Nothing else is written under it, so that an apply takes away exactly
/// what a class has dropped.
pub(crate) const STAMP_MANAGER: &str = "croft";

/// The name under which the watch of a stamped kind is waited for: the same kind may be cached whole as well.
pub(crate) fn stream_of(plural: &str, group: &str) -> String {
    format!("stamped/{}", crd_name(plural, group))
}

/// An object with its kind: in lists objects come without.
pub(crate) fn whole(object: &DynamicObject, api_version: &str, kind: &str) -> Value {
    let mut object = json!(object);
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

#[derive(Clone, Debug)]
pub(crate) struct Stamper {
    pub(crate) writer: Writer,
    pub(crate) seal: Seal,
    pub(crate) care: Care,
}

impl Stamper {
    /// Creates an object; fails as stale if the name is taken, so nothing is ever overwritten.
    pub(crate) async fn create(
        &self,
        resource: &ApiResource,
        namespace: &str,
        manifest: &Value,
    ) -> Result<Written, Failure> {
        let made = self.post(resource, namespace, manifest, &self.writer.posting(STAMP_MANAGER)).await?;
        self.witnessed(made, resource, manifest, None)
    }

    /// Whether an object would be accepted. That its name is taken is found last, when nothing else is in the way.
    pub(crate) async fn rehearse(
        &self,
        resource: &ApiResource,
        namespace: &str,
        manifest: &Value,
    ) -> Result<Written, Failure> {
        let params = PostParams { dry_run: true, ..self.writer.posting(STAMP_MANAGER) };
        match self.post(resource, namespace, manifest, &params).await {
            Err(failure) if failure.reason != "AlreadyExists" => Err(failure),
            Ok(_) | Err(_) => Ok(Written::elsewhere()),
        }
    }

    async fn post(
        &self,
        resource: &ApiResource,
        namespace: &str,
        manifest: &Value,
        params: &PostParams,
    ) -> Result<Live, Failure> {
        // Sent as it is: there are more of these than of all other calls, and a typed form would cost three copies of each.
        let request = Request::new(self.api(resource, namespace).resource_url())
            .create(params, manifest.to_string().into_bytes())
            .map_err(|error| classify(&kube::Error::BuildRequest(error)))?;
        call("create", self.writer.client().request(request)).await
    }

    /// Server-side apply to exactly `target`, taking the fields `manifest` sets. Tells whether something is left of `former`.
    pub(crate) async fn apply(
        &self,
        resource: &ApiResource,
        target: Target<'_>,
        manifest: &Value,
        former: Option<&Value>,
    ) -> Result<Written, Failure> {
        let made = self.applied(resource, target, manifest).await?;
        self.witnessed(made, resource, manifest, former)
    }

    /// As [`Stamper::apply`]; gives the object as it is then, in the form asked for.
    pub(crate) async fn applied<K>(
        &self,
        resource: &ApiResource,
        target: Target<'_>,
        manifest: &Value,
    ) -> Result<K, Failure>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope> + Clone + DeserializeOwned + Debug,
    {
        // A precondition, not a field: the API server compares it and owns it itself.
        let mut guarded = manifest.clone();
        guarded["metadata"]["uid"] = target.uid.into();
        let params = self.writer.patching(STAMP_MANAGER).force();
        let api: Api<K> = Api::namespaced_with(self.writer.client(), target.namespace, resource);
        call("apply", api.patch(target.name, &params, &Patch::Apply(&guarded))).await
    }

    /// Takes `excess` out of exactly `target` at `version`, under the name of applies: what is written on the way is theirs to drop
    /// later. Answered with what the object then shows of `manifest`.
    pub(crate) async fn strip(
        &self,
        resource: &ApiResource,
        target: Target<'_>,
        version: &str,
        mut excess: Value,
        manifest: &Value,
    ) -> Result<Written, Failure> {
        excess["metadata"]["uid"] = target.uid.into();
        excess["metadata"]["resourceVersion"] = version.into();
        let params = self.writer.patching(STAMP_MANAGER);
        let api: Api<Live> = Api::namespaced_with(self.writer.client(), target.namespace, resource);
        let made = call("patch", api.patch(target.name, &params, &Patch::Merge(excess))).await?;
        Ok(self.answered(made, resource, manifest, None).0)
    }

    /// Takes all finalizers but those in `left` off an object that is being deleted: done already if it is gone, and no success if others
    /// hold it after that.
    pub(crate) async fn let_go(
        &self,
        resource: &ApiResource,
        target: Target<'_>,
        version: Option<&str>,
        left: &[String],
    ) -> Result<Written, Failure> {
        let mut metadata = json!({ "uid": target.uid, "finalizers": left });
        if let Some(version) = version {
            metadata["resourceVersion"] = version.into();
        }
        let (params, api) = (self.writer.patching(FIELD_MANAGER), self.api(resource, target.namespace));
        let stream = stream_of(&resource.plural, &resource.group);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match call("patch", api.patch(target.name, &params, &patch)).await {
            Ok(held) if held.finalizers().iter().any(|finalizer| !left.contains(finalizer)) => {
                let message = format!("{} is still held by finalizers that were taken off it", target.name);
                Err(Failure::new(FailureClass::Rejected, "StillHeld", message))
            }
            Ok(kept) if !kept.finalizers().is_empty() => Ok(written(&kept, &stream)),
            Ok(gone) => Ok(written(&gone, &stream).gone()),
            // It is looked at again at once, and not before that is shown.
            Err(failure) if failure.reason == "NotFound" => Ok(Written::end(target, &stream)),
            Err(failure) => Err(failure),
        }
    }

    /// Merges `patch` into an object; fails as stale unless it still is `target` at `version`.
    pub(crate) async fn merge(
        &self,
        resource: &ApiResource,
        target: Target<'_>,
        version: &str,
        mut patch: Value,
    ) -> Result<Written, Failure> {
        patch["metadata"]["uid"] = target.uid.into();
        patch["metadata"]["resourceVersion"] = version.into();
        let params = self.writer.patching(FIELD_MANAGER);
        let api = self.api(resource, target.namespace);
        let made = call("patch", api.patch(target.name, &params, &Patch::Merge(patch))).await?;
        Ok(written(&made, &stream_of(&resource.plural, &resource.group)))
    }

    /// Deletes exactly `target`, where it matters only as it is at `version`; done already if it is gone.
    pub(crate) async fn delete(
        &self,
        resource: &ApiResource,
        target: Target<'_>,
        version: Option<&str>,
    ) -> Result<Written, Failure> {
        let api = self.api(resource, target.namespace);
        let stream = stream_of(&resource.plural, &resource.group);
        match self.writer.delete_by(&api, target, version, &stream).await {
            Err(failure) if failure.reason == "NotFound" => Ok(Written::end(target, &stream)),
            answered => answered,
        }
    }

    /// Labels and annotations of a Namespace; what an earlier call set and this one does not is removed.
    pub(crate) async fn furnish_namespace(&self, namespace: Target<'_>, metadata: &Value) -> Result<Written, Failure> {
        let made = self.furnished_namespace(namespace, metadata).await?;
        Ok(written(&made, &resource_name::<v1::Namespace>()))
    }

    /// As [`Stamper::furnish_namespace`]; gives the whole Namespace as it is then.
    pub(crate) async fn furnished_namespace(
        &self,
        namespace: Target<'_>,
        metadata: &Value,
    ) -> Result<DynamicObject, Failure> {
        self.applied_to_namespace(namespace, metadata, &self.writer.patching(STAMP_MANAGER).force()).await
    }

    /// Labels and annotations of a Namespace, as they are, under a name of their own; fails as stale where one is otherwise.
    pub(crate) async fn keep_on_namespace(
        &self,
        namespace: Target<'_>,
        metadata: &Value,
        holder: &str,
    ) -> Result<Written, Failure> {
        let made = self.applied_to_namespace(namespace, metadata, &self.writer.patching(holder)).await?;
        Ok(written(&made, &resource_name::<v1::Namespace>()))
    }

    async fn applied_to_namespace(
        &self,
        namespace: Target<'_>,
        metadata: &Value,
        params: &PatchParams,
    ) -> Result<DynamicObject, Failure> {
        let api: Api<DynamicObject> = self.writer.api::<v1::Namespace>("");
        let mut manifest = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
        manifest["metadata"]["uid"] = namespace.uid.into();
        call("apply", api.patch(namespace.name, params, &Patch::Apply(&manifest))).await
    }

    /// Puts labels and annotations of a Namespace back; fails as stale where one of them is not as it was seen. The version of the
    /// whole Namespace says nothing about that: whoever kept writing anything into it would keep what the class gave.
    pub(crate) async fn put_back(&self, seen: &Namespace, changes: &NamespaceChanges) -> Result<Written, Failure> {
        let steps = serde_json::from_value(steps_back(seen, changes).into());
        let steps = steps.map_err(|error| classify(&kube::Error::SerdeError(error)))?;
        let (params, api) = (self.writer.patching(FIELD_MANAGER), self.writer.api::<v1::Namespace>(""));
        let made = call("patch", api.patch(&seen.name, &params, &Patch::Json::<()>(steps))).await?;
        Ok(written(&made, &resource_name::<v1::Namespace>()))
    }

    fn api(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.writer.client(), namespace, resource)
    }

    fn witnessed(
        &self,
        made: Live,
        resource: &ApiResource,
        manifest: &Value,
        former: Option<&Value>,
    ) -> Result<Written, Failure> {
        let (written, whole) = self.answered(made, resource, manifest, former);
        keeps_stamp(&whole, manifest)?;
        Ok(written)
    }

    /// What was written with what it shows of `manifest` and whether it still has something of `former`, and all of it.
    fn answered(
        &self,
        made: Live,
        resource: &ApiResource,
        manifest: &Value,
        former: Option<&Value>,
    ) -> (Written, Value) {
        let written = written(&made, &stream_of(&resource.plural, &resource.group));
        let (_, whole) = made.whole(&resource.api_version, &resource.kind);
        let rest = former.is_some_and(|former| dropped(&whole, former, manifest).is_some());
        let witness = Witness { rest, ..Witness::of(&whole, manifest, &self.seal, self.care) }.to_string();
        (Written { witness: Some(witness), ..written }, whole)
    }
}

/// A JSON patch that changes what is still as it was seen, step by step.
fn steps_back(seen: &Namespace, changes: &NamespaceChanges) -> Vec<Value> {
    let mut steps = vec![json!({ "op": "test", "path": "/metadata/uid", "value": seen.uid })];
    let halves = [("labels", &seen.labels, &changes.labels), ("annotations", &seen.annotations, &changes.annotations)];
    for (half, seen, changes) in halves {
        for (key, value) in changes {
            let path = format!("/metadata/{half}/{}", key.replace('~', "~0").replace('/', "~1"));
            match (seen.get(key), value) {
                (Some(now), _) => steps.push(json!({ "op": "test", "path": path, "value": now })),
                // It may be there without being shown yet, but not without any other.
                (None, None) if seen.is_empty() => continue,
                (None, _) => steps.push(json!({ "op": "add", "path": path, "value": "" })),
            }
            steps.push(match value {
                Some(value) => json!({ "op": "replace", "path": path, "value": value }),
                None => json!({ "op": "remove", "path": path }),
            });
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_it_was_seen_is_put_back() {
        let texts = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
        let seen = Namespace { uid: "u".into(), labels: texts("a.b/c", "ours"), ..Namespace::default() };
        let changes = NamespaceChanges {
            labels: [("a.b/c".to_owned(), Some("theirs".to_owned())), ("unseen".to_owned(), None)].into(),
            annotations: [("none".to_owned(), None)].into(),
        };
        let expected = json!([
            { "op": "test", "path": "/metadata/uid", "value": "u" },
            { "op": "test", "path": "/metadata/labels/a.b~1c", "value": "ours" },
            { "op": "replace", "path": "/metadata/labels/a.b~1c", "value": "theirs" },
            { "op": "add", "path": "/metadata/labels/unseen", "value": "" },
            { "op": "remove", "path": "/metadata/labels/unseen" },
        ]);
        assert_eq!(Value::from(steps_back(&seen, &changes)), expected);
    }
}
