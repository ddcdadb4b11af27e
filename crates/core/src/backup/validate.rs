//! What a tenant may ask for. Raw specs go in; specs that are allowed, in types of their own, come out.
//!
//! These checks look at the spec alone, so admission and reconciling can call the same function. Whether the world is
//! ready for a request (a location, a backup, a Secret it names) is for the plans.

use std::fmt;

use serde_json::Value;

use super::{
    duration,
    velero::{Fields, field, text},
};

/// Why a request is not carried out, in words for the one who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(pub String);

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn refuse<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(message.into()))
}

/// Refuses what Velero could not read as a length of time.
fn readable_durations(spec: &Fields, place: &str) -> Result<(), Refusal> {
    match duration::unreadable(spec) {
        Some(field) => refuse(format!("{place}.{field} must be a duration such as 30m or 720h")),
        None => Ok(()),
    }
}

/// Lists of a `backupSpec` that are read or added to here. What is no list could mean anything to Velero.
const LISTS: [&str; 6] = [
    "includedNamespaces",
    "excludedResources",
    "includedClusterScopedResources",
    "excludedClusterScopedResources",
    "includedNamespaceScopedResources",
    "excludedNamespaceScopedResources",
];

/// A `backupSpec` that is allowed in its namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupSpec(Fields);

impl BackupSpec {
    pub fn fields(&self) -> &Fields {
        &self.0
    }
}

pub fn backup(spec: &Fields, namespace: &str) -> Result<BackupSpec, Refusal> {
    readable_durations(spec, "NonAdminBackup spec.backupSpec")?;
    let restricted = |field: &str| refuse(format!("NonAdminBackup spec.backupSpec.{field} is restricted"));
    if let Some(list) = LISTS.iter().find(|list| field(spec, list).is_some_and(|items| !items.is_array())) {
        return refuse(format!("NonAdminBackup spec.backupSpec.{list} must be a list"));
    }
    let included = field(spec, "includedNamespaces").and_then(Value::as_array);
    if included.is_some_and(|included| included.iter().any(|other| other != namespace)) {
        return refuse(format!(
            "NonAdminBackup spec.backupSpec.includedNamespaces is restricted, can not contain namespaces other than: {namespace}"
        ));
    }
    if field(spec, "excludedNamespaces").is_some() {
        return restricted("excludedNamespaces");
    }
    if field(spec, "includeClusterResources").is_some_and(|wanted| *wanted != Value::Bool(false)) {
        return refuse(
            "NonAdminBackup spec.backupSpec.includeClusterResources is restricted, can only be set to false",
        );
    }
    let cluster_scoped = field(spec, "includedClusterScopedResources").and_then(Value::as_array);
    if cluster_scoped.is_some_and(|kinds| !kinds.is_empty()) {
        return refuse("NonAdminBackup spec.backupSpec.includedScopedResources is restricted, must remain empty");
    }
    // These two name objects in Velero's own namespace, which is none of the tenant's business.
    for foreign in ["volumeSnapshotLocations", "resourcePolicy"] {
        if field(spec, foreign).is_some() {
            return restricted(foreign);
        }
    }
    Ok(BackupSpec(spec.clone()))
}

/// A `restoreSpec` that is allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoreSpec {
    fields: Fields,
    backup_name: String,
}

impl RestoreSpec {
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The `NonAdminBackup` to restore from.
    pub fn backup_name(&self) -> &str {
        &self.backup_name
    }
}

pub fn restore(spec: &Fields) -> Result<RestoreSpec, Refusal> {
    readable_durations(spec, "NonAdminRestore spec.restoreSpec")?;
    let restricted =
        |field: &str| refuse(format!("NonAdminRestore nonAdminRestore.spec.restoreSpec.{field} is restricted"));
    if text(spec, "scheduleName").is_some() {
        return restricted("scheduleName");
    }
    let Some(backup_name) = text(spec, "backupName") else {
        return refuse("NonAdminRestore spec.restoreSpec.backupName is not set");
    };
    if field(spec, "excludedResources").is_some_and(|items| !items.is_array()) {
        return refuse("NonAdminRestore spec.restoreSpec.excludedResources must be a list");
    }
    for chosen_for_them in ["includedNamespaces", "excludedNamespaces", "namespaceMapping", "resourceModifier"] {
        if field(spec, chosen_for_them).is_some() {
            return restricted(chosen_for_them);
        }
    }
    if field(spec, "includeClusterResources").is_some_and(|wanted| *wanted != Value::Bool(false)) {
        return refuse(
            "NonAdminRestore spec.restoreSpec.includeClusterResources is restricted, can only be set to false",
        );
    }
    Ok(RestoreSpec { fields: spec.clone(), backup_name: backup_name.to_owned() })
}

/// One key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    pub name: String,
    pub key: String,
}

/// A `backupStorageLocationSpec` that is allowed in its namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct LocationSpec {
    fields: Fields,
    credential: SecretKey,
    prefix: String,
}

impl LocationSpec {
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// In the tenant's namespace.
    pub fn credential(&self) -> &SecretKey {
        &self.credential
    }

    /// Where in the bucket: always below the namespace's own name.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

pub fn location(spec: &Fields, namespace: &str) -> Result<LocationSpec, Refusal> {
    readable_durations(spec, "NonAdminBackupStorageLocation spec.backupStorageLocationSpec")?;
    if field(spec, "default").is_some_and(|wanted| *wanted != Value::Bool(false)) {
        return refuse("NonAdminBackupStorageLocation cannot be used as a default BSL");
    }
    let Some(credential) = field(spec, "credential").and_then(Value::as_object) else {
        return refuse("NonAdminBackupStorageLocation spec.bslSpec.credential is not set");
    };
    let (Some(name), Some(key)) = (text(credential, "name"), text(credential, "key")) else {
        return refuse(
            "NonAdminBackupStorageLocation spec.bslSpec.credential.name or spec.bslSpec.credential.key is not set",
        );
    };
    // Without it there is no place for the prefix that keeps tenants apart.
    let Some(storage) = field(spec, "objectStorage").and_then(Value::as_object) else {
        return refuse("NonAdminBackupStorageLocation spec.backupStorageLocationSpec.objectStorage is not set");
    };
    if field(storage, "caCertRef").is_some() {
        return refuse(
            "NonAdminBackupStorageLocation spec.backupStorageLocationSpec.objectStorage.caCertRef is restricted, use caCert",
        );
    }
    let prefix = match text(storage, "prefix") {
        None => namespace.to_owned(),
        Some(own) => format!("{namespace}/{}", checked_prefix(own)?),
    };
    let credential = SecretKey { name: name.to_owned(), key: key.to_owned() };
    Ok(LocationSpec { fields: spec.clone(), credential, prefix })
}

/// Velero cleans the paths it builds, so that `..` would lead out of the namespace's part of the bucket.
fn checked_prefix(prefix: &str) -> Result<&str, Refusal> {
    let wrong = if prefix.starts_with('/') {
        "must not begin with /"
    } else if prefix.chars().any(char::is_control) {
        "must not contain control characters"
    } else if prefix.split('/').any(|segment| matches!(segment, "." | "..")) {
        "must not contain . or .. as a segment"
    } else if prefix.split('/').any(str::is_empty) {
        "must not contain empty segments or end with /"
    } else {
        return Ok(prefix);
    };
    refuse(format!("NonAdminBackupStorageLocation spec.backupStorageLocationSpec.objectStorage.prefix {wrong}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "called with literals")]
    fn fields(value: Value) -> Fields {
        value.as_object().cloned().expect("an object")
    }

    fn refusal<T: fmt::Debug>(checked: Result<T, Refusal>) -> String {
        checked.expect_err("a refusal").0
    }

    #[test]
    fn a_backup_may_name_its_own_namespace_or_none() {
        for included in [json!(null), json!([]), json!(["shop"]), json!(["shop", "shop"])] {
            assert!(backup(&fields(json!({ "includedNamespaces": included })), "shop").is_ok(), "{included}");
        }
    }

    #[test]
    fn a_backup_is_confined_to_its_namespace() {
        let message = |spec: Value| refusal(backup(&fields(spec), "shop"));
        assert_eq!(
            message(json!({ "includedNamespaces": ["shop", "bank"] })),
            "NonAdminBackup spec.backupSpec.includedNamespaces is restricted, can not contain namespaces other than: shop"
        );
        assert_eq!(
            message(json!({ "excludedNamespaces": [] })),
            "NonAdminBackup spec.backupSpec.excludedNamespaces is restricted"
        );
        assert_eq!(
            message(json!({ "includeClusterResources": true })),
            "NonAdminBackup spec.backupSpec.includeClusterResources is restricted, can only be set to false"
        );
        assert_eq!(
            message(json!({ "includedClusterScopedResources": ["nodes"] })),
            "NonAdminBackup spec.backupSpec.includedScopedResources is restricted, must remain empty"
        );
        assert_eq!(
            message(json!({ "volumeSnapshotLocations": [] })),
            "NonAdminBackup spec.backupSpec.volumeSnapshotLocations is restricted"
        );
        assert_eq!(
            message(json!({ "resourcePolicy": { "kind": "configmap", "name": "x" } })),
            "NonAdminBackup spec.backupSpec.resourcePolicy is restricted"
        );
    }

    #[test]
    fn a_field_of_another_type_than_veleros_is_refused_and_not_guessed_at() {
        for list in LISTS {
            let told = refusal(backup(&fields(json!({ list: "*" })), "shop"));
            assert_eq!(told, format!("NonAdminBackup spec.backupSpec.{list} must be a list"));
        }
        assert!(backup(&fields(json!({ "includeClusterResources": "true" })), "shop").is_err());
        assert!(restore(&fields(json!({ "backupName": "b", "excludedResources": "*" }))).is_err());
        assert!(location_with(json!({ "default": "true" })).is_err());
        for storage in [json!(null), json!("b"), json!([{ "bucket": "b" }])] {
            assert!(location_with(json!({ "objectStorage": storage })).is_err(), "{storage}");
        }
    }

    #[test]
    fn a_restore_names_a_backup_and_no_namespaces() {
        let message = |spec: Value| refusal(restore(&fields(spec)));
        assert_eq!(
            message(json!({ "scheduleName": "s", "backupName": "b" })),
            "NonAdminRestore nonAdminRestore.spec.restoreSpec.scheduleName is restricted"
        );
        assert_eq!(message(json!({ "backupName": "" })), "NonAdminRestore spec.restoreSpec.backupName is not set");
        for list in ["includedNamespaces", "excludedNamespaces", "namespaceMapping"] {
            assert_eq!(
                message(json!({ "backupName": "b", list: [] })),
                format!("NonAdminRestore nonAdminRestore.spec.restoreSpec.{list} is restricted")
            );
        }
        assert_eq!(
            message(json!({ "backupName": "b", "includeClusterResources": true })),
            "NonAdminRestore spec.restoreSpec.includeClusterResources is restricted, can only be set to false"
        );
        for unclear in [json!("true"), json!(1), json!([])] {
            assert!(restore(&fields(json!({ "backupName": "b", "includeClusterResources": unclear }))).is_err());
        }
        assert!(restore(&fields(json!({ "backupName": "b", "includeClusterResources": false }))).is_ok());
    }

    fn location_with(changes: Value) -> Result<LocationSpec, Refusal> {
        let mut spec = fields(json!({
            "provider": "aws",
            "objectStorage": { "bucket": "b" },
            "credential": { "name": "keys", "key": "cloud" },
        }));
        spec.extend(fields(changes));
        location(&spec, "shop")
    }

    #[test]
    fn a_location_needs_a_credential_of_its_own_and_is_never_the_default() {
        let message = |changes: Value| refusal(location_with(changes));
        assert_eq!(
            message(json!({ "default": true })),
            "NonAdminBackupStorageLocation cannot be used as a default BSL"
        );
        assert_eq!(
            message(json!({ "credential": null })),
            "NonAdminBackupStorageLocation spec.bslSpec.credential is not set"
        );
        for incomplete in [json!({ "key": "k" }), json!({ "name": "n", "key": "" })] {
            assert_eq!(
                message(json!({ "credential": incomplete })),
                "NonAdminBackupStorageLocation spec.bslSpec.credential.name or spec.bslSpec.credential.key is not set"
            );
        }
    }

    #[test]
    fn a_prefix_stays_below_the_namespace() {
        let with = |prefix: &str| location_with(json!({ "objectStorage": { "bucket": "b", "prefix": prefix } }));
        assert_eq!(with("").map(|spec| spec.prefix().to_owned()), Ok("shop".into()));
        assert_eq!(with("foo/bar..baz").map(|spec| spec.prefix().to_owned()), Ok("shop/foo/bar..baz".into()));
        for escape in ["..", "../bank", "a/../../bank", "a/..", "/bank", "a//b", "a/", "./a", "a\nb", "a\u{7f}"] {
            assert!(with(escape).is_err(), "{escape:?}");
        }
    }
}
