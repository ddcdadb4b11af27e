//! Objects as the API server shows them, as far as a witness needs them.
//!
//! Half of an object is bookkeeping about its fields, which no witness trusts: of that only the names are read. There are more of
//! these objects than of all others.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::{Resource, api::ApiResource, core::DynamicResourceScope};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

/// An object without its status.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// Of managedFields only who manages some, and how.
    pub(crate) metadata: ObjectMeta,
    /// Everything, metadata included, but managedFields.
    content: Map<String, Value>,
}

impl Live {
    /// The whole object with its kind: in lists objects come without.
    pub(crate) fn whole(mut self, api_version: &str, kind: &str) -> (ObjectMeta, Value) {
        self.content.insert("apiVersion".into(), api_version.into());
        self.content.insert("kind".into(), kind.into());
        (self.metadata, Value::Object(self.content))
    }
}

impl<'de> Deserialize<'de> for Live {
    fn deserialize<D: Deserializer<'de>>(object: D) -> Result<Self, D::Error> {
        object.deserialize_map(WholeObject)
    }
}

struct WholeObject;

impl<'de> Visitor<'de> for WholeObject {
    type Value = Live;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Live, A::Error> {
        let (mut content, mut metadata) = (Map::new(), ObjectMeta::default());
        while let Some(field) = fields.next_key::<String>()? {
            match field.as_str() {
                "status" => drop(fields.next_value::<IgnoredAny>()?),
                "metadata" => {
                    let Metadata { kept, managers } = fields.next_value()?;
                    let kept = Value::Object(kept);
                    metadata = ObjectMeta::deserialize(&kept).map_err(serde::de::Error::custom)?;
                    metadata.managed_fields = managers;
                    content.insert(field, kept);
                }
                _ => drop(content.insert(field, fields.next_value()?)),
            }
        }
        Ok(Live { metadata, content })
    }
}

struct Metadata {
    kept: Map<String, Value>,
    managers: Option<Vec<ManagedFieldsEntry>>,
}

/// Who manages fields, without the fields.
#[derive(Deserialize)]
struct Manager {
    manager: Option<String>,
    operation: Option<String>,
    subresource: Option<String>,
}

impl From<Manager> for ManagedFieldsEntry {
    fn from(Manager { manager, operation, subresource }: Manager) -> Self {
        Self { manager, operation, subresource, ..Self::default() }
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(metadata: D) -> Result<Self, D::Error> {
        metadata.deserialize_map(WholeMetadata)
    }
}

struct WholeMetadata;

impl<'de> Visitor<'de> for WholeMetadata {
    type Value = Metadata;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Metadata, A::Error> {
        let (mut kept, mut managers) = (Map::new(), None);
        while let Some(field) = fields.next_key::<String>()? {
            if field == "managedFields" {
                let all: Option<Vec<Manager>> = fields.next_value()?;
                managers = all.map(|all| all.into_iter().map(Into::into).collect());
            } else {
                kept.insert(field, fields.next_value()?);
            }
        }
        Ok(Metadata { kept, managers })
    }
}

impl Resource for Live {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use croft_core::namespaces::witness::{self, Seal};
    use kube::api::DynamicObject;
    use serde_json::json;

    use super::*;
    use crate::namespaces::{fields, stamping};

    fn object() -> Value {
        json!({
            "metadata": {
                "name": "a", "namespace": "shop", "uid": "u", "resourceVersion": "7", "labels": {"l": "x"},
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "w", "controller": true}],
                "managedFields": [{"manager": "croft", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                                   "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:data": {"f:k": {}}}}],
            },
            "data": {"k": "v", "n": {"deep": [1, null, 2.5]}},
            "status": {"used": 1},
        })
    }

    #[test]
    fn it_has_the_digest_of_the_object_read_in_full() {
        let full: DynamicObject = serde_json::from_value(object()).unwrap();
        let live: Live = serde_json::from_str(&object().to_string()).unwrap();
        let (metadata, whole) = live.whole("v1", "ConfigMap");
        let seal = Seal::new([7; 32]);
        let content = witness::content(&stamping::whole(&full, "v1", "ConfigMap"), &seal);
        assert_eq!(witness::content(&whole, &seal), content);
        assert_eq!(fields::was_created(&metadata), fields::was_created(&full.metadata));
        let without_fields = ObjectMeta { managed_fields: None, ..full.metadata };
        assert_eq!(ObjectMeta { managed_fields: None, ..metadata }, without_fields);
    }

    #[test]
    fn metadata_that_makes_no_sense_is_an_error() {
        for metadata in [json!({"name": 5}), json!({"labels": {"a": 1}}), json!([])] {
            let mut object = object();
            object["metadata"] = metadata;
            assert!(serde_json::from_str::<Live>(&object.to_string()).is_err(), "{object}");
        }
        let nobody: Live = serde_json::from_str(r#"{"metadata":{"managedFields":null}}"#).unwrap();
        assert!(!fields::was_created(&nobody.metadata));
    }
}
