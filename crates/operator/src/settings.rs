//! The configuration file: read at start, re-read when it changes, strict about keys.

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use croft_core::{backup::fields, network::Network};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The settings in force; a reload swaps them as a whole.
pub type SharedSettings = Arc<ArcSwap<Settings>>;

/// More calls at once than this only queue at the API server.
const MOST_AT_ONCE: usize = 1024;

/// Everything the configuration file may say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// How many objects are worked on at once, and how many calls are under way for all of them: 1 to 1024. Takes effect at the
    /// next start.
    pub concurrency: usize,
    pub namespaces: NamespacesSettings,
    pub storage: StorageSettings,
    pub backup: BackupSettings,
    pub admission: AdmissionSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 32,
            namespaces: NamespacesSettings::default(),
            storage: StorageSettings::default(),
            backup: BackupSettings::default(),
            admission: AdmissionSettings::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespacesSettings {
    /// Namespaces no class is ever applied to, besides those whose name starts with `kube-`.
    pub system_namespaces: Vec<String>,
}

impl Default for NamespacesSettings {
    fn default() -> Self {
        Self {
            system_namespaces: vec!["default".into(), "croft-system".into(), "velero".into(), "openshift-adp".into()],
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageSettings {
    /// Accounts that restore objects, as the API server names them. They may bring an S3Bucket before its claim, and a claim whose
    /// Secrets are there already.
    pub restorers: Vec<String>,
}

impl Default for StorageSettings {
    fn default() -> Self {
        let velero_in = |namespace: &str| format!("system:serviceaccount:{namespace}:velero");
        Self { restorers: ["velero", "openshift-adp"].map(velero_in).into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupSettings {
    /// The namespace Velero runs in. Takes effect at the next start.
    pub velero_namespace: String,
    /// What a plain `kubectl delete` of a NonAdminBackup does.
    pub on_delete: OnDelete,
    /// Whether backups that name no location go to Velero's own default one, where the namespace has no BackupVault.
    pub default_location: DefaultLocation,
    /// What becomes of locations in buckets of tenants' own. Velero acts on what is in a bucket with the cluster's rights, so
    /// whoever can write one is trusted with those. BackupVaults need no such trust.
    pub own_buckets: OwnBuckets,
    /// Providers of storage tenants' locations may name besides `aws`. Their settings and credentials are passed on as they are.
    pub providers: Vec<String>,
    /// Servers inside the cluster or its networks that tenants' locations may name, as `host`, `host:port` or `*.domain`. Those
    /// outside and the endpoints of S3 classes need not be listed.
    pub hosts: Vec<String>,
    /// Kinds tenants' restores bring back besides the usual ones, as `plural` or `plural.group`. Whoever may write a bucket can
    /// make objects of these kinds in its namespace, whatever its own rights.
    pub restorable_kinds: Vec<String>,
    /// Whether tenants' backups may run commands in their own pods. If not, none is made unless the policies of
    /// `croft manifests --without-hooks` are in force.
    pub hooks: bool,
    /// Fields of every `backupSpec`: whoever leaves one open gets this value, whoever says otherwise is refused.
    pub enforce_backup_spec: Map<String, Value>,
    /// The same of every `restoreSpec`.
    pub enforce_restore_spec: Map<String, Value>,
    /// The same of every `backupStorageLocationSpec`.
    #[serde(rename = "enforceBSLSpec")]
    pub enforce_bsl_spec: Map<String, Value>,
    /// How much one namespace may have at a time. What comes after that waits.
    pub limits: BackupLimits,
}

/// 0 does not limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupLimits {
    /// NonAdminBackups that Velero is not done with.
    pub unfinished_backups: u64,
    /// NonAdminRestores that Velero is not done with.
    pub unfinished_restores: u64,
    /// Every NonAdminBackupStorageLocation that is not of a BackupVault.
    pub locations: u64,
    /// Every BackupSchedule.
    pub schedules: u64,
    /// Download requests that Velero has been asked for and has not answered: it answers one after the other.
    pub unanswered_downloads: u64,
    /// Every BackupVault: Velero checks the place of each every minute, one after the other.
    pub vaults: u64,
}

impl Default for BackupLimits {
    fn default() -> Self {
        Self {
            unfinished_backups: 20,
            unfinished_restores: 10,
            locations: 10,
            schedules: 20,
            unanswered_downloads: 10,
            vaults: 5,
        }
    }
}

impl Default for BackupSettings {
    fn default() -> Self {
        Self {
            velero_namespace: "velero".into(),
            on_delete: OnDelete::Hold,
            default_location: DefaultLocation::Deny,
            own_buckets: OwnBuckets::Approve,
            providers: Vec::new(),
            hosts: Vec::new(),
            restorable_kinds: Vec::new(),
            hooks: true,
            enforce_backup_spec: Map::new(),
            enforce_restore_spec: Map::new(),
            enforce_bsl_spec: Map::new(),
            limits: BackupLimits::default(),
        }
    }
}

impl BackupSettings {
    /// What is enforced but cannot be.
    fn check(&self) -> Result<(), SettingsError> {
        for (key, table, enforced) in [
            ("enforceBackupSpec", fields::BACKUP, &self.enforce_backup_spec),
            ("enforceRestoreSpec", fields::RESTORE, &self.enforce_restore_spec),
            ("enforceBSLSpec", fields::LOCATION, &self.enforce_bsl_spec),
        ] {
            if let Some(field) = fields::not_enforceable(table, enforced) {
                return Err(SettingsError(format!("backup.{key}.{field} is non-enforceable by admins: leave it out")));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDelete {
    /// The object stays until `spec.deleteBackup` or `spec.forceDeleteBackup` is set.
    #[default]
    Hold,
    /// The Velero Backup object is removed, the stored data is kept.
    Release,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OwnBuckets {
    /// Each waits until an administrator approves its NonAdminBackupStorageLocationRequest.
    #[default]
    Approve,
    /// They are used without asking.
    Allow,
    /// None is used.
    Deny,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DefaultLocation {
    /// They are refused.
    #[default]
    Deny,
    /// They go there, beside those of everybody else.
    Allow,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionSettings {
    /// Secret in the operator's namespace with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager makes it, to serve admission
    /// with. Default: the operator makes and renews its own certificates.
    pub certificate_secret: Option<String>,
    /// Addresses of the API servers, as `10.0.0.0/28` or `10.0.0.5`: admission answers nobody else. Default: whoever can reach
    /// it, which in most networks is every pod. A forged question changes no object, but it can reserve a team's quota for two
    /// minutes.
    pub callers: Vec<String>,
}

impl AdmissionSettings {
    /// Whether admission answers this address.
    pub fn answers(&self, address: IpAddr) -> bool {
        let mut callers = self.callers.iter().filter_map(|caller| Network::parse(caller));
        self.callers.is_empty() || callers.any(|caller| caller.holds(address))
    }

    fn check(&self) -> Result<(), SettingsError> {
        if self.certificate_secret.as_deref() == Some("") {
            return Err(SettingsError(
                "admission.certificateSecret: must name a Secret; leave the key out to use our own certificates".into(),
            ));
        }
        match self.callers.iter().find(|caller| Network::parse(caller).is_none()) {
            Some(caller) => Err(SettingsError(format!(
                "admission.callers: `{caller}` is neither an address nor a range; write for example `10.0.0.0/28`"
            ))),
            None => Ok(()),
        }
    }
}

/// Why a configuration file is not accepted. Each message names the key and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError(String);

impl fmt::Display for SettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// Reads YAML. An unknown key is an error that names it and the nearest known one.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        let value: serde_json::Value = match text.trim() {
            "" => serde_json::json!({}),
            text => serde_saphyr::from_str(text).map_err(|error| SettingsError(format!("not valid YAML: {error}")))?,
        };
        let value = if value.is_null() { serde_json::json!({}) } else { value };
        let schema = serde_json::to_value(schemars::schema_for!(Settings)).unwrap_or_default();
        let mut problems = Vec::new();
        unknown_keys(&value, &schema, &schema, "", &mut problems);
        if !problems.is_empty() {
            return Err(SettingsError(problems.join("; ")));
        }
        let settings: Settings = serde_json::from_value(value).map_err(|error| SettingsError(error.to_string()))?;
        settings.check()?;
        Ok(settings)
    }

    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            SettingsError(format!("cannot read {}: {error}; name an existing file with --config", path.display()))
        })?;
        Self::parse(&text).map_err(|error| SettingsError(format!("{}: {error}", path.display())))
    }

    fn check(&self) -> Result<(), SettingsError> {
        if !(1..=MOST_AT_ONCE).contains(&self.concurrency) {
            return Err(SettingsError(format!("concurrency: must be between 1 and {MOST_AT_ONCE}")));
        }
        if self.backup.velero_namespace.is_empty() {
            return Err(SettingsError("backup.veleroNamespace: must name a namespace, for example `velero`".into()));
        }
        self.backup.check()?;
        self.admission.check()
    }
}

/// Collects every key of `value` that `schema` does not know, with the nearest one it does.
fn unknown_keys(
    value: &serde_json::Value,
    schema: &serde_json::Value,
    root: &serde_json::Value,
    path: &str,
    problems: &mut Vec<String>,
) {
    let schema = resolve(schema, root);
    let (Some(given), Some(known)) = (value.as_object(), schema["properties"].as_object()) else { return };
    for (key, inner) in given {
        let full = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match known.get(key) {
            Some(schema) => unknown_keys(inner, schema, root, &full, problems),
            None => problems.push(unknown_key(&full, key, known.keys().map(String::as_str))),
        }
    }
}

fn unknown_key<'a>(full: &str, key: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<_> = known.collect();
    known.sort_by(|a, b| strsim::jaro_winkler(b, key).total_cmp(&strsim::jaro_winkler(a, key)));
    let nearest = known.first().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    format!("unknown key `{full}`{nearest}")
}

fn resolve<'a>(schema: &'a serde_json::Value, root: &'a serde_json::Value) -> &'a serde_json::Value {
    match schema["$ref"].as_str().and_then(|reference| root.pointer(reference.trim_start_matches('#'))) {
        Some(target) => target,
        None => schema,
    }
}

/// How often the file is looked at: mounted ConfigMaps change by swapping links, which no portable notification covers.
const RELOAD: Duration = Duration::from_secs(1);

/// Re-reads the file when its content changes, then calls `reloaded` if that says something else than what is in force. A bad file
/// changes nothing and is said once.
pub async fn follow(path: PathBuf, settings: SharedSettings, reloaded: impl Fn(), stop: CancellationToken) {
    // It may have changed since the settings in force were read.
    let mut last = None;
    while stop.run_until_cancelled(tokio::time::sleep(RELOAD)).await.is_some() {
        let now = tokio::fs::read(&path).await.ok();
        if now == last {
            continue;
        }
        last = now;
        match Settings::read(&path) {
            Ok(new) if new == **settings.load() => {}
            Ok(new) => {
                info!(path = %path.display(), "settings reloaded");
                settings.store(Arc::new(new));
                reloaded();
            }
            Err(error) => warn!(%error, "settings not reloaded; the old ones stay in force"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_of_admission_that_is_no_address_is_refused_by_name() {
        let error = Settings::parse("admission: {callers: [10.0.0.1, apiserver]}").unwrap_err();
        assert!(
            error.to_string().starts_with("admission.callers: `apiserver` is neither an address nor a range"),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_changed_before_it_was_followed_is_read_and_one_that_says_the_same_wakes_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.yaml");
        std::fs::write(&path, "concurrency: 3").unwrap();
        let settings: SharedSettings = Arc::new(arc_swap::ArcSwap::from_pointee(Settings::read(&path).unwrap()));
        std::fs::write(&path, "concurrency: 4").unwrap();
        let (sender, mut reloads) = tokio::sync::mpsc::unbounded_channel();
        let reloaded = move || {
            let _ = sender.send(());
        };
        let following = follow(path.clone(), settings.clone(), reloaded, CancellationToken::new());
        let _following = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(following));
        assert_eq!((reloads.recv().await, settings.load().concurrency), (Some(()), 4));
        std::fs::write(&path, "# the same\nconcurrency: 4").unwrap();
        assert!(tokio::time::timeout(RELOAD * 5, reloads.recv()).await.is_err());
        std::fs::write(&path, "concurrency: 5").unwrap();
        assert_eq!((reloads.recv().await, settings.load().concurrency), (Some(()), 5));
    }

    #[test]
    fn an_empty_file_means_the_defaults() {
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        assert_eq!(Settings::parse("# nothing\n").unwrap(), Settings::default());
    }

    #[test]
    fn an_unknown_key_is_named_together_with_the_nearest_known_one() {
        let error = Settings::parse("backup:\n  veleroNamspace: x\n").unwrap_err().to_string();
        assert_eq!(error, "unknown key `backup.veleroNamspace`; did you mean `veleroNamespace`?");
    }

    #[test]
    fn all_unknown_keys_are_listed_at_once() {
        let error = Settings::parse("concurency: 3\nbackups: {}\n").unwrap_err().to_string();
        assert!(
            error.contains("`concurency`") && error.contains("`concurrency`") && error.contains("`backups`"),
            "{error}"
        );
    }

    #[test]
    fn values_are_checked() {
        for concurrency in ["0", "1025", "18446744073709551615"] {
            let error = Settings::parse(&format!("concurrency: {concurrency}")).unwrap_err().to_string();
            assert!(error.contains("between 1 and 1024"), "{concurrency}: {error}");
        }
        assert_eq!(Settings::parse("concurrency: 1024").unwrap().concurrency, 1024);
        assert!(Settings::parse("backup: {onDelete: Maybe}").unwrap_err().to_string().contains("Maybe"));
        assert_eq!(Settings::parse("backup: {onDelete: Release}").unwrap().backup.on_delete, OnDelete::Release);
        assert!(Settings::parse("backup: {enforceBackupSpec: {ttl: 36h, snapshotVolumes: false}}").is_ok());
        let error =
            Settings::parse("backup: {enforceRestoreSpec: {namespaceMapping: {a: b}}}").unwrap_err().to_string();
        assert_eq!(error, "backup.enforceRestoreSpec.namespaceMapping is non-enforceable by admins: leave it out");
    }
}
