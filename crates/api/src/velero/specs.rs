//! Velero's specs, open, with typed access to what we touch.

use std::borrow::Cow;
use std::collections::BTreeMap;

use croft_core::backup::fields::{self, Field, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::open::open_type;

/// Velero's own types write `null` for an empty list, so every field may be `null`.
fn schema_of_shape(shape: Shape) -> Schema {
    let mut schema = match shape {
        Shape::Text | Shape::Name | Shape::Duration => json_schema!({ "type": "string" }),
        Shape::Flag => json_schema!({ "type": "boolean" }),
        Shape::Number => json_schema!({ "type": "integer" }),
        Shape::Texts => json_schema!({ "type": "array", "items": { "type": "string" } }),
        Shape::TextMap => json_schema!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Shape::Object(_) => json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        Shape::Objects(_) => {
            let object = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            json_schema!({ "type": "array", "items": object })
        }
    };
    schema.insert("nullable".into(), json!(true));
    schema
}

/// Types the fields we know and keeps those we do not: they are refused by name, not dropped in silence.
fn schema_of(fields: &[Field]) -> Schema {
    let properties: BTreeMap<_, _> = fields.iter().map(|field| (field.name, schema_of_shape(field.shape))).collect();
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": properties,
    })
}

macro_rules! open_schema {
    ($name:ident, $schema:expr) => {
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

open_type!(
    /// What to back up, and where to.
    #[derive(Debug)]
    BackupSpec
);

impl BackupSpec {
    pub fn included_namespaces(&self) -> Option<Vec<&str>> {
        self.texts("includedNamespaces")
    }

    pub fn excluded_namespaces(&self) -> Option<Vec<&str>> {
        self.texts("excludedNamespaces")
    }

    pub fn included_cluster_scoped_resources(&self) -> Option<Vec<&str>> {
        self.texts("includedClusterScopedResources")
    }

    pub fn include_cluster_resources(&self) -> Option<bool> {
        self.flag("includeClusterResources")
    }

    pub fn volume_snapshot_locations(&self) -> Option<Vec<&str>> {
        self.texts("volumeSnapshotLocations")
    }

    pub fn storage_location(&self) -> Option<&str> {
        self.text("storageLocation")
    }
}

open_schema!(BackupSpec, schema_of(fields::BACKUP));

open_type!(
    /// What to restore, and from which backup.
    #[derive(Debug)]
    RestoreSpec
);

impl RestoreSpec {
    pub fn backup_name(&self) -> Option<&str> {
        self.text("backupName")
    }

    pub fn schedule_name(&self) -> Option<&str> {
        self.text("scheduleName")
    }

    pub fn included_namespaces(&self) -> Option<Vec<&str>> {
        self.texts("includedNamespaces")
    }

    pub fn excluded_namespaces(&self) -> Option<Vec<&str>> {
        self.texts("excludedNamespaces")
    }

    pub fn namespace_mapping(&self) -> Option<BTreeMap<&str, &str>> {
        self.text_map("namespaceMapping")
    }

    pub fn include_cluster_resources(&self) -> Option<bool> {
        self.flag("includeClusterResources")
    }
}

open_schema!(RestoreSpec, schema_of(fields::RESTORE));

open_type!(
    /// Where backups are stored.
    #[derive(Debug)]
    BackupStorageLocationSpec
);

/// One key of a Secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CredentialKey<'a> {
    /// Name of the Secret; empty where none is given.
    pub name: &'a str,
    /// Key inside it; empty where none is given.
    pub key: &'a str,
}

impl BackupStorageLocationSpec {
    pub fn provider(&self) -> Option<&str> {
        self.text("provider")
    }

    pub fn bucket(&self) -> Option<&str> {
        self.object_storage("bucket")
    }

    pub fn prefix(&self) -> Option<&str> {
        self.object_storage("prefix")
    }

    /// Certificates in base64.
    pub fn ca_cert(&self) -> Option<&str> {
        self.object_storage("caCert")
    }

    pub fn config(&self) -> Option<BTreeMap<&str, &str>> {
        self.text_map("config")
    }

    pub fn credential(&self) -> Option<CredentialKey<'_>> {
        let credential = self.get("credential")?;
        let text = |field| credential.get(field).and_then(Value::as_str).unwrap_or_default();
        Some(CredentialKey { name: text("name"), key: text("key") })
    }

    pub fn access_mode(&self) -> Option<&str> {
        self.text("accessMode")
    }

    /// A duration as Go writes it, for example `1m30s`.
    pub fn backup_sync_period(&self) -> Option<&str> {
        self.text("backupSyncPeriod")
    }

    pub fn is_default(&self) -> bool {
        self.flag("default").unwrap_or_default()
    }

    fn object_storage(&self, field: &str) -> Option<&str> {
        self.get("objectStorage")?.get(field)?.as_str().filter(|text| !text.is_empty())
    }
}

open_schema!(BackupStorageLocationSpec, storage_location_schema());

fn storage_location_schema() -> Schema {
    let mut schema = schema_of(fields::LOCATION);
    schema.insert("required".to_owned(), json!(["provider", "objectStorage"]));
    let described = |text: &str, mut schema: Schema| {
        schema.insert("description".into(), json!(text));
        schema
    };
    let object_storage = json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "required": ["bucket"],
        "properties": {
            "bucket": { "type": "string", "description": "Name of the bucket." },
            "prefix": { "type": "string", "description": "Path inside the bucket, below the one of the namespace." },
            "caCert": { "type": "string", "format": "byte", "description": "Certificates (PEM, in base64) the server's own is checked against." },
        },
    });
    let credential = json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["key"],
        "properties": {
            "name": { "type": "string", "default": "", "description": "Name of a Secret in this namespace." },
            "key": { "type": "string", "description": "Key inside the Secret." },
            "optional": { "type": "boolean", "description": "Whether Secret or key may be missing." },
        },
    });
    let properties = json!({
        "provider": described("Kind of the storage: `aws` for everything that speaks S3.", json_schema!({ "type": "string" })),
        "config": described("Settings of the provider, for example `region` and `s3Url`.", schema_of_shape(Shape::TextMap)),
        "credential": described("Key of a Secret in this namespace that holds the access keys.", credential),
        "objectStorage": described("Where in the storage.", object_storage),
        "accessMode": described("`ReadWrite` (default) or `ReadOnly`.", json_schema!({ "type": "string", "enum": ["ReadOnly", "ReadWrite"] })),
        "backupSyncPeriod": described("How often the bucket is searched for backups, for example `1m`.", schema_of_shape(Shape::Duration)),
        "validationFrequency": described("How often the location is checked, for example `1m`.", schema_of_shape(Shape::Duration)),
        "default": described("Must be false or left out.", schema_of_shape(Shape::Flag)),
    });
    schema.insert("properties".into(), properties);
    schema
}

open_type!(
    /// Which backup to delete.
    #[derive(Debug)]
    DeleteBackupRequestSpec
);

impl DeleteBackupRequestSpec {
    pub fn for_backup(name: &str) -> Self {
        let mut spec = Self::default();
        spec.set("backupName", name);
        spec
    }

    pub fn backup_name(&self) -> Option<&str> {
        self.text("backupName")
    }
}

open_type!(
    /// Which file to sign a URL for.
    #[derive(Debug)]
    DownloadRequestSpec
);

impl DownloadRequestSpec {
    pub fn for_target(kind: &str, name: &str) -> Self {
        let mut spec = Self::default();
        spec.set("target", json!({ "kind": kind, "name": name }));
        spec
    }

    pub fn target_kind(&self) -> Option<&str> {
        self.get("target")?.get("kind")?.as_str()
    }

    pub fn target_name(&self) -> Option<&str> {
        self.get("target")?.get("name")?.as_str()
    }
}

open_type!(
    /// The spec of a kind of which we read only the phase.
    #[derive(Debug)]
    WorkSpec
);
