//! Velero's objects: open JSON, of which we read and write a few fields.

use serde_json::{Map, Value, json};

use super::{
    Policy, hosts,
    restorable::{Kinds, USUAL},
    validate::{BackupSpec, LocationSpec, RestoreSpec},
};
use crate::time::Timestamp;

/// A spec or status of Velero's. Fields we do not know pass through untouched.
pub type Fields = Map<String, Value>;

/// The provider of everything that speaks S3.
pub(super) const S3: &str = "aws";

/// Never part of a tenant's backup: the requests themselves.
const OUR_KINDS: [&str; 3] = ["nonadminbackups", "nonadminrestores", "nonadminbackupstoragelocations"];

/// Never part of a tenant's backup or restore: what reaches beyond one namespace.
const CLUSTER_KINDS: [&str; 7] = [
    "securitycontextconstraints",
    "clusterroles",
    "clusterrolebindings",
    "priorityclasses",
    "customresourcedefinitions",
    "virtualmachineclusterinstancetypes",
    "virtualmachineclusterpreferences",
];

/// Lists that choose by scope. Velero refuses them together with `excludedResources`.
pub(super) const SCOPED_LISTS: [&str; 4] = [
    "includedClusterScopedResources",
    "excludedClusterScopedResources",
    "includedNamespaceScopedResources",
    "excludedNamespaceScopedResources",
];

/// A field that is there; `null` is not, to the programs that own these objects.
pub(super) fn field<'a>(fields: &'a Fields, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// A text that is there and not empty.
pub(super) fn text<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    field(fields, name)?.as_str().filter(|text| !text.is_empty())
}

/// How far Velero is with a Backup or Restore, read from its status.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a>(pub &'a Fields);

impl<'a> Progress<'a> {
    pub fn phase(self) -> Option<&'a str> {
        text(self.0, "phase")
    }

    /// Velero is done with it. One that failed, or failed validation, may get no completion time.
    pub fn is_finished(self) -> bool {
        self.completed().is_some() || matches!(self.phase(), Some("Failed" | "FailedValidation"))
    }

    /// The place Velero gives to one that waits.
    pub fn queue_position(self) -> Option<u64> {
        let place = field(self.0, "queuePosition")?.as_u64().filter(|place| *place > 0);
        place.filter(|_| self.phase() == Some("Queued"))
    }

    /// Velero has not come to it: nothing of it is stored.
    pub fn is_waiting(self) -> bool {
        !self.is_finished() && matches!(self.phase(), None | Some("New" | "Queued"))
    }

    /// Its turn has come, and Velero looks at it in a moment.
    pub fn is_next(self) -> bool {
        !self.is_finished() && self.phase() == Some("ReadyToStart")
    }

    /// Velero has begun and is not done. It looks for what is deleted under its hands again and again, and nobody else is served
    /// meanwhile.
    pub fn is_at_work(self) -> bool {
        let begun = [
            "ReadyToStart",
            "InProgress",
            "WaitingForPluginOperations",
            "WaitingForPluginOperationsPartiallyFailed",
            "Finalizing",
            "FinalizingPartiallyFailed",
        ];
        !self.is_finished() && self.phase().is_some_and(|phase| begun.contains(&phase))
    }

    /// Velero has brought back what it could and does what is to be done afterwards.
    pub fn is_being_finished(self) -> bool {
        !self.is_finished() && self.phase().is_some_and(|phase| phase.starts_with("Finalizing"))
    }

    pub fn completed(self) -> Option<Timestamp> {
        text(self.0, "completionTimestamp").map(|time| Timestamp(time.to_owned()))
    }
}

impl BackupSpec {
    /// What Velero is asked to do: this namespace and nothing else, into `location` (Velero's default if there is none).
    pub(super) fn for_velero(&self, namespace: &str, location: Option<&str>) -> Fields {
        let mut spec = self.fields().clone();
        spec.retain(|_, value| !value.is_null());
        spec.insert("includedNamespaces".into(), json!([namespace]));
        if let Some(location) = location {
            spec.insert("storageLocation".into(), json!(location));
        }
        spec.entry("snapshotVolumes").or_insert(json!(false));
        if SCOPED_LISTS.iter().any(|list| has_items(&spec, list)) {
            append(&mut spec, "excludedNamespaceScopedResources", &OUR_KINDS);
            // What belongs to the cluster gets in by way of what refers to it, unless nothing may.
            spec.insert("excludedClusterScopedResources".into(), json!(["*"]));
            spec.remove("includeClusterResources");
        } else {
            append(&mut spec, "excludedResources", &OUR_KINDS);
            append(&mut spec, "excludedResources", &CLUSTER_KINDS);
            spec.insert("includeClusterResources".into(), json!(false));
        }
        spec
    }
}

/// Notes on an object that make Velero pass its filters by, or restore its status.
pub const BYPASS_ANNOTATIONS: [&str; 3] = [
    "backup.velero.io/must-include-additional-items",
    "restore.velero.io/must-include-additional-items",
    "velero.io/restore-status",
];

/// Annotations by which a pod tells Velero to run something in it: what they begin with, and how they go on.
const HOOK_ANNOTATIONS: [(&str, &[&str]); 5] = [
    ("hook.backup.velero.io", &["container", "command", "on-error", "timeout"]),
    ("pre.hook.backup.velero.io", &["container", "command", "on-error", "timeout"]),
    ("post.hook.backup.velero.io", &["container", "command", "on-error", "timeout"]),
    (
        "post.hook.restore.velero.io",
        &["container", "command", "on-error", "exec-timeout", "wait-timeout", "wait-for-ready"],
    ),
    ("init.hook.restore.velero.io", &["container-image", "container-name", "command", "timeout"]),
];

/// The rules by which Velero changes what it restores for tenants, in its own namespace: an object is of the kind it is filed
/// under, claims find volumes of their own, and nothing comes with a status, with somebody who has to let it go, or with a note
/// that is the administrator's to set; pods, where hooks are not allowed, without any.
pub const MODIFIERS: &str = "croft-restore-modifiers";

/// What [`MODIFIERS`] says.
pub fn modifiers(no_hooks: bool) -> String {
    let claims = json!({ "spec": { "volumeName": null, "selector": null, "dataSource": null, "dataSourceRef": null } });
    let no_notes: Fields = BYPASS_ANNOTATIONS.iter().map(|note| ((*note).to_owned(), Value::Null)).collect();
    let all = json!({ "metadata": { "finalizers": null, "annotations": no_notes } });
    let rule = |kind: &str, patch: Value| json!({ "conditions": { "groupResource": kind }, "mergePatches": [{ "patchData": patch.to_string() }] });
    let named =
        USUAL.iter().map(|usual| rule(usual.name, json!({ "apiVersion": usual.api_version, "kind": usual.kind })));
    let no_hook: Fields = hook_annotations().into_iter().map(|annotation| (annotation, Value::Null)).collect();
    let hooks = no_hooks.then(|| rule("pods", json!({ "metadata": { "annotations": no_hook } })));
    let rules: Vec<_> =
        named.chain([rule("persistentvolumeclaims", claims)]).chain(hooks).chain([rule("**", all)]).collect();
    json!({ "version": "v1", "resourceModifierRules": rules }).to_string()
}

/// Every annotation by which a pod tells Velero to run something in it.
pub fn hook_annotations() -> Vec<String> {
    let all = HOOK_ANNOTATIONS.iter();
    all.flat_map(|(prefix, names)| names.iter().map(move |name| format!("{prefix}/{name}"))).collect()
}

/// How long a restore waits for a pod's volumes. Velero works on one restore at a time: everybody else waits, too.
pub const VOLUME_TIMEOUT: &str = "30m";

impl RestoreSpec {
    /// What Velero is asked to do: from this Velero Backup, into this namespace, these kinds and nothing else.
    pub(super) fn for_velero(&self, namespace: &str, backup: &str, policy: &Policy) -> Fields {
        let mut spec = self.fields().clone();
        spec.retain(|_, value| !value.is_null() && *value != json!("") && *value != json!({}));
        spec.insert("backupName".into(), json!(backup));
        spec.insert("includedNamespaces".into(), json!([namespace]));
        // Patterns match what the archive calls itself; an exact list does not.
        spec.insert("includedResources".into(), json!(Kinds::of(self.fields(), policy).restored));
        spec.remove("excludedResources");
        spec.insert("includeClusterResources".into(), json!(false));
        spec.entry("restorePVs").or_insert(json!(false));
        spec.insert("resourceModifier".into(), json!({ "kind": "ConfigMap", "name": MODIFIERS }));
        spec
    }
}

impl LocationSpec {
    /// What Velero gets: the copied Secret instead of the tenant's, and a place below the namespace's own prefix.
    pub(super) fn for_velero(&self, secret: &str) -> Fields {
        let mut spec = self.fields().clone();
        // What is not there is not compared with either.
        spec.retain(|field, value| !value.is_null() && field != "default");
        if self.is_s3()
            && let Some(Value::Object(config)) = spec.get_mut("config")
        {
            tidy_s3(config);
        }
        spec.insert("credential".into(), json!({ "name": secret, "key": self.credential().key }));
        if let Some(Value::Object(storage)) = spec.get_mut("objectStorage") {
            storage.insert("prefix".into(), json!(self.prefix()));
        }
        spec
    }

    pub(super) fn is_s3(&self) -> bool {
        text(self.fields(), "provider") == Some(S3)
    }

    /// Whether the location can serve an image registry; Azure without an account key cannot.
    pub(super) fn serves_registry(&self) -> bool {
        let config = field(self.fields(), "config").and_then(Value::as_object);
        match (text(self.fields(), "provider"), config) {
            (Some("azure"), Some(config)) => text(config, "storageAccountKeyEnvVar").is_some(),
            _ => true,
        }
    }
}

/// What of a Backup's spec is the administrator's: when its turn comes Velero adds the namespaces it passes over, whosever they are, and
/// where snapshots go.
const OF_OTHERS: [&str; 2] = ["excludedNamespaces", "volumeSnapshotLocations"];

/// A Backup's spec as its tenant is told of it.
pub(super) fn without_others(spec: &Fields) -> Fields {
    let mut told = spec.clone();
    told.retain(|field, _| !OF_OTHERS.contains(&field.as_str()));
    told
}

/// Where a location stores. Two locations of one store would show each other's backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    provider: String,
    server: String,
    bucket: String,
    prefix: String,
}

impl Store {
    /// The store of a location as Velero has it.
    pub fn of(spec: &Fields) -> Self {
        let inside = |outer: &str, name: &str| {
            let outer = field(spec, outer).and_then(Value::as_object);
            outer.and_then(|outer| text(outer, name)).unwrap_or_default().to_owned()
        };
        Self {
            provider: text(spec, "provider").unwrap_or_default().to_owned(),
            server: hosts::place(&inside("config", "s3Url")),
            bucket: inside("objectStorage", "bucket"),
            prefix: inside("objectStorage", "prefix"),
        }
    }
}

impl LocationSpec {
    /// Where Velero will store.
    pub fn store(&self) -> Store {
        Store::of(&self.for_velero(""))
    }
}

/// Not every S3 server knows checksums, and a default port in the URL breaks the signature.
fn tidy_s3(config: &mut Fields) {
    if let Some(url) = text(config, "s3Url") {
        let tidy = without_default_port(url);
        config.insert("s3Url".into(), json!(tidy));
    }
    config.entry("checksumAlgorithm").or_insert_with(|| json!(""));
}

fn without_default_port(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return url.to_owned(),
    };
    let (host, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    format!("{scheme}://{}{path}", host.strip_suffix(port).unwrap_or(host))
}

pub(super) fn has_items(spec: &Fields, list: &str) -> bool {
    field(spec, list).and_then(Value::as_array).is_some_and(|items| !items.is_empty())
}

/// Adds names to a list. Velero refuses names beside `*`, which covers them all anyway.
fn append(spec: &mut Fields, list: &str, names: &[&str]) {
    let mut items = field(spec, list).and_then(Value::as_array).cloned().unwrap_or_default();
    if items.iter().any(|item| item == "*") {
        return;
    }
    items.extend(names.iter().map(|name| json!(name)));
    spec.insert(list.to_owned(), Value::Array(items));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::{Hosts, validate};

    #[expect(clippy::needless_pass_by_value, reason = "called with literals")]
    fn fields(value: Value) -> Fields {
        value.as_object().cloned().expect("an object")
    }

    fn backup(spec: Value) -> Value {
        let spec = validate::backup(&fields(spec), "shop", &Policy::default()).expect("a valid spec");
        Value::Object(spec.for_velero("shop", Some("there")))
    }

    fn location(spec: Value) -> LocationSpec {
        let hosts = Hosts { listed: vec!["*.example".into(), "one".into(), "two".into()], ..Hosts::default() };
        let policy = Policy { providers: vec!["azure".into()], hosts, ..Policy::default() };
        validate::location(&fields(spec), "shop", &policy).expect("a valid spec")
    }

    #[test]
    fn a_backup_covers_its_own_namespace_and_leaves_out_what_is_not_the_tenants() {
        assert_eq!(
            backup(json!({ "ttl": "36h", "excludedResources": ["pods"] })),
            json!({
                "ttl": "36h",
                "snapshotVolumes": false,
                "includeClusterResources": false,
                "includedNamespaces": ["shop"],
                "storageLocation": "there",
                "excludedResources": [
                    "pods", "nonadminbackups", "nonadminrestores", "nonadminbackupstoragelocations",
                    "securitycontextconstraints", "clusterroles", "clusterrolebindings", "priorityclasses",
                    "customresourcedefinitions", "virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences",
                ],
            })
        );
    }

    #[test]
    fn lists_by_scope_are_kept_apart() {
        let spec =
            backup(json!({ "includedNamespaceScopedResources": ["configmaps"], "includeClusterResources": false }));
        assert_eq!(
            spec["excludedNamespaceScopedResources"],
            json!(["nonadminbackups", "nonadminrestores", "nonadminbackupstoragelocations"])
        );
        assert_eq!(spec["excludedClusterScopedResources"], json!(["*"]));
        assert_eq!((spec.get("excludedResources"), spec.get("includeClusterResources")), (None, None));
    }

    #[test]
    fn a_restore_stays_inside_the_namespace_and_brings_named_kinds_only() {
        let spec = json!({
            "backupName": "nightly", "includedResources": ["configmaps", "roles"], "excludedResources": ["pods"], "hooks": {},
            "scheduleName": "", "existingResourcePolicy": "update", "includedNamespaces": null,
        });
        let policy = Policy::default();
        let spec = validate::restore(&fields(spec), "shop", &policy).expect("a valid spec");
        assert_eq!(
            Value::Object(spec.for_velero("shop", "shop-nightly-1", &policy)),
            json!({
                "backupName": "shop-nightly-1",
                "includedNamespaces": ["shop"],
                "includedResources": ["configmaps"],
                "includeClusterResources": false,
                "restorePVs": false,
                "existingResourcePolicy": "update",
                "resourceModifier": { "kind": "ConfigMap", "name": MODIFIERS },
            })
        );
    }

    /// What the rules make of the annotations of a kind.
    fn annotations(no_hooks: bool, kind: &str) -> Value {
        let rules: Value = serde_json::from_str(&modifiers(no_hooks)).expect("rules");
        let rules = rules["resourceModifierRules"].as_array().cloned().expect("a list");
        let of_kind = rules.iter().filter(|rule| rule["conditions"]["groupResource"] == kind);
        let patches = of_kind.filter_map(|rule| rule["mergePatches"][0]["patchData"].as_str());
        let mut patches = patches.filter_map(|patch| serde_json::from_str::<Value>(patch).ok());
        patches.find_map(|patch| patch.pointer("/metadata/annotations").cloned()).unwrap_or_default()
    }

    #[test]
    fn no_note_that_is_the_administrators_to_set_comes_back() {
        for note in BYPASS_ANNOTATIONS {
            assert_eq!(annotations(false, "**").get(note), Some(&Value::Null), "{note}");
        }
    }

    #[test]
    fn pods_come_back_without_hooks_where_there_are_none() {
        assert_eq!(annotations(false, "pods"), Value::Null);
        for hook in ["pre.hook.backup.velero.io/command", "post.hook.restore.velero.io/exec-timeout"] {
            assert_eq!(annotations(true, "pods").get(hook), Some(&Value::Null), "{hook}");
        }
    }

    #[test]
    fn a_location_gets_the_copied_secret_and_the_namespaces_prefix() {
        let wanted = json!({
            "provider": "aws",
            "objectStorage": { "bucket": "b", "prefix": "deep/er" },
            "credential": { "name": "mine", "key": "cloud" },
            "config": { "s3Url": "http://rgw.example:80/x", "region": "eu" },
        });
        assert_eq!(
            Value::Object(location(wanted).for_velero("copied")),
            json!({
                "provider": "aws",
                "objectStorage": { "bucket": "b", "prefix": "shop/deep/er" },
                "credential": { "name": "copied", "key": "cloud" },
                "config": { "s3Url": "http://rgw.example/x", "region": "eu", "checksumAlgorithm": "" },
            })
        );
    }

    #[test]
    fn the_place_is_server_bucket_and_prefix() {
        let place = |bucket: &str, url: &str| {
            location(json!({
                "provider": "aws",
                "objectStorage": { "bucket": bucket },
                "credential": { "name": "mine", "key": "cloud" },
                "config": { "s3Url": url },
            }))
            .store()
        };
        assert_eq!(place("b", "http://one"), place("b", "http://one:80"));
        let spelt = ["https://s3.example", "https://S3.Example", "https://s3.example/", "https://s3.example.:443//"];
        for url in spelt {
            assert_eq!(place("b", spelt[0]), place("b", url), "{url}");
        }
        assert_ne!(place("b", spelt[0]), place("b", "https://s3.example/deeper"));
        assert_ne!(place("b", spelt[0]), place("b", "https://s3.example:8443"));
        assert_ne!(place("b", "http://one"), place("b", "http://two"));
        assert_ne!(place("b", "http://one"), place("c", "http://one"));
    }

    #[test]
    fn only_azure_without_an_account_key_cannot_serve_a_registry() {
        let with = |provider: &str, config: Value| {
            location(json!({
                "provider": provider,
                "objectStorage": { "bucket": "b" },
                "credential": { "name": "mine", "key": "cloud" },
                "config": config,
            }))
            .serves_registry()
        };
        assert!(with("aws", json!({})) && with("azure", Value::Null));
        assert!(with("azure", json!({ "storageAccountKeyEnvVar": "KEY" })));
        assert!(!with("azure", json!({})));
    }

    #[test]
    fn a_default_port_is_dropped_and_others_stay() {
        assert_eq!(without_default_port("https://s3.example:443"), "https://s3.example");
        assert_eq!(without_default_port("https://s3.example:80/a:443"), "https://s3.example:80/a:443");
        assert_eq!(without_default_port("http://s3.example:8000"), "http://s3.example:8000");
        assert_eq!(without_default_port("s3.example:80"), "s3.example:80");
    }

    #[test]
    fn failure_is_an_end() {
        let finished = |status: Value| Progress(&fields(status)).is_finished();
        assert!(finished(json!({ "phase": "FailedValidation" })));
        assert!(finished(json!({ "phase": "Failed", "failureReason": "the bucket is gone" })));
        assert!(finished(json!({ "phase": "Completed", "completionTimestamp": "2026-01-01T00:00:00Z" })));
        assert!(!finished(json!({ "phase": "InProgress" })) && !finished(json!({})));
    }
}
