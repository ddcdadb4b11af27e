//! What a tenant may ask for. Raw specs go in; specs that are allowed, in types of their own, come out.
//!
//! These checks look at the spec alone, so admission and reconciling can call the same function. Whether the world is
//! ready for a request (a location, a backup, a Secret it names) is for the plans.

use std::fmt;

use serde_json::Value;

use super::{
    Policy, enforcement,
    fields::{self, Check},
    filters, hooks,
    policy::HeldBack,
    restorable::Kinds,
    selectors,
    velero::{Fields, S3, field, text},
};
use crate::problem::Problem;

/// What is wrong with a request, in words for the one who made it: only an edit can cure it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(pub String);

impl fmt::Display for Invalid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Why a request is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Invalid(Invalid),
    /// It rests on something that is not there, and only an edit cures that.
    Groundless {
        reason: &'static str,
        message: String,
    },
    /// Nothing is wrong with it: it goes on by itself once the world is ready.
    NotYet {
        reason: &'static str,
        message: String,
    },
}

impl Refusal {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Refusal::Invalid(Invalid(message.into()))
    }

    pub(super) fn not_yet(reason: &'static str, message: impl Into<String>) -> Self {
        Refusal::NotYet { reason, message: message.into() }
    }

    /// What is done for tenants is fenced, or not done.
    pub(super) fn unfenced(what: &str, missing: &[String]) -> Self {
        let missing = missing.join(", ");
        Self::not_yet(
            "PoliciesMissing",
            format!(
                "nothing is {what} for tenants until the administrator installs these admission policies: {missing}"
            ),
        )
    }
}

impl From<HeldBack> for Refusal {
    fn from(HeldBack(message): HeldBack) -> Self {
        Refusal::NotYet { reason: HeldBack::REASON, message }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Refusal::Invalid(invalid)
    }
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid(message.into()))
}

/// What is forbidden, told at the field it stands in: of many the first in Velero's order.
fn first(problems: Vec<Problem>) -> Result<(), Invalid> {
    problems.into_iter().next().map_or(Ok(()), |problem| Err(Invalid(problem.message)))
}

/// A `backupSpec` that is allowed in its namespace, with what the administrator enforces.
#[derive(Clone, Debug, PartialEq)]
pub struct BackupSpec(Fields);

impl BackupSpec {
    pub fn fields(&self) -> &Fields {
        &self.0
    }
}

pub fn backup(spec: &Fields, namespace: &str, policy: &Policy) -> Result<BackupSpec, Invalid> {
    let enforced = &policy.enforced.backup;
    let check = Check {
        kind: "NonAdminBackup",
        place: "spec.backupSpec",
        restricted: "NonAdminBackup spec.backupSpec",
        namespace,
        enforced,
    };
    first(check.problems(fields::BACKUP, spec))?;
    let cluster_scoped = field(spec, "includedClusterScopedResources").and_then(Value::as_array);
    if cluster_scoped.is_some_and(|kinds| !kinds.is_empty()) {
        return refuse("NonAdminBackup spec.backupSpec.includedScopedResources is restricted, must remain empty");
    }
    if policy.no_hooks && field(spec, "hooks").and_then(Value::as_object).is_some_and(|hooks| !hooks.is_empty()) {
        return refuse("NonAdminBackup spec.backupSpec.hooks is restricted");
    }
    if let Some(objection) = hooks::objection(spec).filter(|_| enforced.get("hooks") != spec.get("hooks")) {
        return refuse(objection);
    }
    let spec = enforcement::apply(fields::BACKUP, enforced, spec.clone(), |field, value| {
        format!("the administrator has restricted spec.backupSpec.{field} field value to {value}")
    })?;
    let spec = BackupSpec(spec);
    let place = "NonAdminBackup spec.backupSpec";
    let unreadable = || selectors::objection(place, spec.fields());
    match filters::objection(place, &spec.for_velero(namespace, None)).or_else(unreadable) {
        Some(objection) => refuse(objection),
        None => Ok(spec),
    }
}

/// A `restoreSpec` that is allowed, with what the administrator enforces.
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

    /// What its author should know: kinds that were asked for and will not come back.
    pub fn in_vain(&self, policy: &Policy) -> Option<String> {
        let kinds = Kinds::of(&self.fields, policy).in_vain;
        (!kinds.is_empty())
            .then(|| format!("not restored, because the administrator does not list them: {}", kinds.join(", ")))
    }
}

pub fn restore(spec: &Fields, namespace: &str, policy: &Policy) -> Result<RestoreSpec, Invalid> {
    let enforced = &policy.enforced.restore;
    let check = Check {
        kind: "NonAdminRestore",
        place: "spec.restoreSpec",
        restricted: "NonAdminRestore nonAdminRestore.spec.restoreSpec",
        namespace,
        enforced,
    };
    let problems = check.problems(fields::RESTORE, spec);
    let Some(backup_name) = text(spec, "backupName") else {
        let scheduled = problems.into_iter().filter(|problem| problem.field.ends_with(".scheduleName")).collect();
        first(scheduled)?;
        return refuse("NonAdminRestore spec.restoreSpec.backupName is not set");
    };
    first(problems)?;
    if let Some(policy) = text(spec, "existingResourcePolicy").filter(|policy| !matches!(*policy, "none" | "update")) {
        return refuse(format!(
            "NonAdminRestore spec.restoreSpec.existingResourcePolicy must be none or update, not {policy}"
        ));
    }
    let fields = enforcement::apply(fields::RESTORE, enforced, spec.clone(), |field, value| {
        format!("the administrator has restricted spec.restoreSpec.{field} field value to {value}")
    })?;
    let place = "NonAdminRestore spec.restoreSpec";
    let unreadable = || selectors::objection(place, &fields);
    if let Some(objection) = filters::two_selectors(place, &fields).or_else(unreadable) {
        return refuse(objection);
    }
    // To Velero an empty list means everything.
    if Kinds::of(&fields, policy).restored.is_empty() {
        return refuse("NonAdminRestore spec.restoreSpec.includedResources leaves nothing that may be restored");
    }
    Ok(RestoreSpec { fields, backup_name: backup_name.to_owned() })
}

const LOCATION: &str = "NonAdminBackupStorageLocation";

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

pub fn location(spec: &Fields, namespace: &str, policy: &Policy) -> Result<LocationSpec, Invalid> {
    if field(spec, "default").is_some_and(|wanted| *wanted != Value::Bool(false)) {
        return refuse(format!("{LOCATION} cannot be used as a default BSL"));
    }
    let credential = credential(spec)?;
    let enforced = &policy.enforced.location;
    let check = Check {
        kind: LOCATION,
        place: "spec.backupStorageLocationSpec",
        restricted: "NonAdminBackupStorageLocation spec.backupStorageLocationSpec",
        namespace,
        enforced,
    };
    first(check.problems(fields::LOCATION, spec))?;
    let spec = enforcement::apply(fields::LOCATION, enforced, spec.clone(), |field, value| {
        format!("the administrator has restricted spec.backupStorageLocationSpec.{field} field to: {value}")
    })?;
    let prefix = prefix(&spec, namespace)?;
    checked_provider(&spec, policy)?;
    Ok(LocationSpec { fields: spec, credential, prefix })
}

/// The spec of a vault's location, which nobody but the operator writes: what is decided about tenants' own does not apply.
pub fn vault_location(spec: &Fields, namespace: &str) -> Result<LocationSpec, Invalid> {
    if spec.is_empty() {
        return refuse("the BackupVault of this location is not ready");
    }
    let (credential, prefix) = (credential(spec)?, prefix(spec, namespace)?);
    Ok(LocationSpec { fields: spec.clone(), credential, prefix })
}

fn credential(spec: &Fields) -> Result<SecretKey, Invalid> {
    let Some(credential) = field(spec, "credential").and_then(Value::as_object) else {
        return refuse(format!("{LOCATION} spec.bslSpec.credential is not set"));
    };
    let (Some(name), Some(key)) = (text(credential, "name"), text(credential, "key")) else {
        return refuse(format!("{LOCATION} spec.bslSpec.credential.name or spec.bslSpec.credential.key is not set"));
    };
    Ok(SecretKey { name: name.to_owned(), key: key.to_owned() })
}

/// Without storage there is no place for the prefix that keeps tenants apart.
fn prefix(spec: &Fields, namespace: &str) -> Result<String, Invalid> {
    let Some(storage) = field(spec, "objectStorage").and_then(Value::as_object) else {
        return refuse(format!("{LOCATION} spec.backupStorageLocationSpec.objectStorage is not set"));
    };
    if text(storage, "bucket").is_none() {
        return refuse(format!("{LOCATION} spec.backupStorageLocationSpec.objectStorage.bucket is not set"));
    }
    Ok(match text(storage, "prefix") {
        None => namespace.to_owned(),
        Some(own) => format!("{namespace}/{}", checked_prefix(own)?),
    })
}

/// Settings of the S3 plugin that concern nobody but who uses the location.
const TENANTS_SETTINGS: [&str; 6] =
    ["region", "s3Url", "s3ForcePathStyle", "serverSideEncryption", "tagging", "checksumAlgorithm"];

/// Other providers are the administrator's to judge, with everything they can be told.
fn checked_provider(spec: &Fields, policy: &Policy) -> Result<(), Invalid> {
    let place = "NonAdminBackupStorageLocation spec.backupStorageLocationSpec";
    let provider = text(spec, "provider").unwrap_or_default();
    if provider != S3 {
        if policy.providers.iter().any(|listed| listed == provider) {
            return Ok(());
        }
        let allowed = std::iter::once(S3).chain(policy.providers.iter().map(String::as_str)).collect::<Vec<_>>();
        return refuse(format!("{place}.provider is restricted, can only be set to: {}", allowed.join(", ")));
    }
    let enforced = field(&policy.enforced.location, "config").and_then(Value::as_object);
    let config = field(spec, "config").and_then(Value::as_object);
    for (key, value) in config.into_iter().flatten() {
        let is_enforced = enforced.is_some_and(|enforced| enforced.get(key) == Some(value));
        if !is_enforced && !TENANTS_SETTINGS.contains(&key.as_str()) {
            return refuse(format!("{place}.config.{key} is restricted"));
        }
        let refused =
            value.as_str().filter(|_| key == "s3Url" && !is_enforced).and_then(|url| policy.hosts.refused(url));
        if let Some(why) = refused {
            return refuse(format!("{place}.config.s3Url is restricted, {why}"));
        }
    }
    Ok(())
}

/// Velero cleans the paths it builds, so that `..` would lead out of the namespace's part of the bucket.
fn checked_prefix(prefix: &str) -> Result<&str, Invalid> {
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
mod tests;
