use serde_json::json;

use super::*;
use crate::backup::Enforced;

#[expect(clippy::needless_pass_by_value, reason = "called with literals")]
fn fields(value: Value) -> Fields {
    value.as_object().cloned().expect("an object")
}

fn refusal<T: fmt::Debug>(checked: Result<T, Invalid>) -> String {
    checked.expect_err("a refusal").0
}

#[test]
fn a_backup_may_name_its_own_namespace_or_none() {
    for included in [json!(null), json!([]), json!(["shop"]), json!(["shop", "shop"])] {
        assert!(
            backup(&fields(json!({ "includedNamespaces": included })), "shop", &Policy::default()).is_ok(),
            "{included}"
        );
    }
}

#[test]
fn a_backup_is_confined_to_its_namespace() {
    let message = |spec: Value| refusal(backup(&fields(spec), "shop", &Policy::default()));
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
fn nobody_makes_velero_wait_for_long() {
    let message = |spec: Value| backup(&fields(spec), "shop", &Policy::default()).err().map(|invalid| invalid.0);
    let hook = |timeout: &str| json!({ "hooks": { "resources": [{ "name": "h", "post": [{ "exec": { "command": ["x"], "timeout": timeout } }] }] } });
    for within in ["0s", "30s", "10m", "0h10m0s", "+1ms"] {
        assert_eq!(message(hook(within)), None, "{within}");
    }
    for beyond in ["-1s", "-1ns", "10m1ns", "5000h", "600.1s"] {
        assert_eq!(
            message(hook(beyond)).as_deref(),
            Some(
                "NonAdminBackup spec.backupSpec.hooks.resources[0].post[0].exec.timeout is restricted, \
                 can only be from 0s to 10m"
            ),
            "{beyond}"
        );
    }
    for (field, most) in [("csiSnapshotTimeout", "10m"), ("itemOperationTimeout", "4h")] {
        assert_eq!(message(json!({ field: most })), None);
        assert!(message(json!({ field: "5h" })).is_some_and(|told| told.contains("is restricted")), "{field}");
        assert!(message(json!({ field: "-5h" })).is_some_and(|told| told.contains("is restricted")), "{field}");
    }
    let patient = Enforced { backup: fields(json!({ "itemOperationTimeout": "8h" })), ..Enforced::default() };
    let policy = Policy { enforced: patient, ..Policy::default() };
    assert!(backup(&fields(json!({ "itemOperationTimeout": "8h" })), "shop", &policy).is_ok(), "as enforced");
    let told = refusal(restored(json!({ "backupName": "nightly", "itemOperationTimeout": "5h" })));
    assert_eq!(
        told,
        "NonAdminRestore spec.restoreSpec.itemOperationTimeout is restricted, can only be from 0s to 240m"
    );
}

#[test]
fn no_length_of_time_is_less_than_nothing() {
    let message = |spec: Value| backup(&fields(spec), "shop", &Policy::default()).err().map(|invalid| invalid.0);
    assert_eq!(
        message(json!({ "ttl": "-5h" })).as_deref(),
        Some(
            "NonAdminBackup spec.backupSpec.ttl must not be negative: give a duration such as 30m or 720h, or leave it out"
        )
    );
    for fine in ["5h", "0s", "-0s", "+1h"] {
        assert_eq!(message(json!({ "ttl": fine })), None, "{fine}");
    }
    for field in ["backupSyncPeriod", "validationFrequency"] {
        let spec = json!({
            "provider": "aws", "objectStorage": { "bucket": "b" }, "credential": { "name": "n", "key": "k" }, field: "-1s",
        });
        let told = refusal(location(&fields(spec), "shop", &Policy::default()));
        assert!(told.contains(&format!("{field} must not be negative")), "{told}");
    }
    assert_eq!(fields::not_enforceable(fields::BACKUP, &fields(json!({ "ttl": "-5h" }))), Some("ttl"));
    assert_eq!(fields::not_enforceable(fields::BACKUP, &fields(json!({ "ttl": "5h" }))), None);
    let unreadable = json!({ "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Foo" }] } });
    assert_eq!(fields::not_enforceable(fields::BACKUP, &fields(unreadable)), Some("labelSelector"));
}

#[test]
fn nobody_makes_velero_start_more_at_once_than_a_node_bears() {
    for number in [0, 1, 32] {
        let spec = fields(json!({ "uploaderConfig": { "parallelFilesUpload": number } }));
        assert!(backup(&spec, "shop", &Policy::default()).is_ok(), "{number}");
        let spec = json!({ "backupName": "nightly", "uploaderConfig": { "parallelFilesDownload": number } });
        assert!(restored(spec).is_ok(), "{number}");
    }
    for number in [33, -1, i64::MAX, i64::MIN] {
        let spec = fields(json!({ "uploaderConfig": { "parallelFilesUpload": number } }));
        assert_eq!(
            refusal(backup(&spec, "shop", &Policy::default())),
            "NonAdminBackup spec.backupSpec.uploaderConfig.parallelFilesUpload is restricted, can only be from 0 to 32"
        );
        let spec = json!({ "backupName": "nightly", "uploaderConfig": { "parallelFilesDownload": number } });
        assert_eq!(
            refusal(restored(spec)),
            "NonAdminRestore spec.restoreSpec.uploaderConfig.parallelFilesDownload is restricted, can only be from 0 to 32"
        );
    }
    let spec = fields(json!({ "uploaderConfig": { "parallelFilesUpload": 64 } }));
    let policy = Policy { enforced: Enforced { backup: spec.clone(), ..Enforced::default() }, ..Policy::default() };
    assert!(backup(&spec, "shop", &policy).is_ok(), "as enforced");
}

#[test]
fn what_is_no_name_of_an_object_is_refused_before_anybody_asks_for_it() {
    for text in ["../v", "..", "v/status", "a b", "?limit=1", "v?watch=true&timeoutSeconds=3000", "%2e%2e", "V", "a\nb"]
    {
        let told = refusal(backup(&fields(json!({ "storageLocation": text })), "shop", &Policy::default()));
        assert_eq!(told, "NonAdminBackup spec.backupSpec.storageLocation must be the name of an object", "{text}");
        let told = refusal(restored(json!({ "backupName": text })));
        assert_eq!(told, "NonAdminRestore spec.restoreSpec.backupName must be the name of an object", "{text}");
    }
    assert!(backup(&fields(json!({ "storageLocation": "" })), "shop", &Policy::default()).is_ok());
    assert!(backup(&fields(json!({ "storageLocation": "here.too-1" })), "shop", &Policy::default()).is_ok());
}

#[test]
fn a_location_names_a_bucket() {
    for storage in [json!({}), json!({ "bucket": "" }), json!({ "bucket": null, "prefix": "deep" })] {
        let spec =
            json!({ "provider": "aws", "objectStorage": storage, "credential": { "name": "mine", "key": "cloud" } });
        assert_eq!(
            refusal(location(&fields(spec), "shop", &Policy::default())),
            "NonAdminBackupStorageLocation spec.backupStorageLocationSpec.objectStorage.bucket is not set"
        );
    }
}

fn restored(spec: Value) -> Result<RestoreSpec, Invalid> {
    restore(&fields(spec), "shop", &Policy::default())
}

#[test]
fn a_field_of_another_type_than_veleros_is_refused_and_not_guessed_at() {
    let message = |spec: Value| refusal(backup(&fields(spec), "shop", &Policy::default()));
    assert_eq!(
        message(json!({ "excludedResources": "*" })),
        "NonAdminBackup spec.backupSpec.excludedResources must be a list of texts"
    );
    assert_eq!(
        message(json!({ "ttl": "banana" })),
        "NonAdminBackup spec.backupSpec.ttl must be a duration such as 30m or 720h"
    );
    let hook = json!({ "hooks": { "resources": [{ "pre": [{ "exec": { "timeout": "x" } }] }] } });
    assert_eq!(
        message(hook),
        "NonAdminBackup spec.backupSpec.hooks.resources[0].pre[0].exec.timeout must be a duration such as 30m or 720h"
    );
    assert!(restored(json!({ "backupName": "b", "excludedResources": "*" })).is_err());
    for storage in [json!(null), json!("b"), json!([{ "bucket": "b" }])] {
        assert!(location_with(json!({ "objectStorage": storage })).is_err(), "{storage}");
    }
}

#[test]
fn what_nobody_here_knows_is_refused() {
    let told = refusal(backup(&fields(json!({ "ofTomorrow": {} })), "shop", &Policy::default()));
    assert_eq!(told, "spec.backupSpec.ofTomorrow is not known to this operator and is restricted");
    let told = refusal(restored(json!({ "backupName": "b", "uploaderConfig": { "x": 1 } })));
    assert_eq!(told, "spec.restoreSpec.uploaderConfig.x is not known to this operator and is restricted");
    let told = refusal(location_with(json!({ "objectStorage": { "bucket": "b", "x": 1 } })));
    assert_eq!(told, "spec.backupStorageLocationSpec.objectStorage.x is not known to this operator and is restricted");
}

#[test]
fn what_a_program_in_go_writes_for_nothing_is_nothing() {
    let zero = json!({
        "backupName": "b", "scheduleName": "", "hooks": {}, "itemOperationTimeout": "0s", "includedNamespaces": null,
        "resourceModifier": null, "restoreStatus": null, "existingResourcePolicy": "",
    });
    assert!(restored(zero).is_ok());
}

#[test]
fn a_restore_runs_no_commands_and_brings_no_status_back() {
    for (field, value) in [
        ("hooks.resources", json!({ "resources": [{ "name": "a" }] })),
        ("restoreStatus", json!({ "includedResources": ["*"] })),
        ("resourceModifier", json!({ "kind": "configmap", "name": "x" })),
        ("resourcePolicy", json!({ "kind": "configmap", "name": "x" })),
    ] {
        let name = field.split('.').next().unwrap_or_default();
        assert_eq!(
            refusal(restored(json!({ "backupName": "b", name: value }))),
            format!("NonAdminRestore nonAdminRestore.spec.restoreSpec.{field} is restricted")
        );
    }
    assert!(restored(json!({ "backupName": "b", "existingResourcePolicy": "replace" })).is_err());
}

#[test]
fn the_administrator_may_enforce_what_tenants_may_not_choose() {
    let enforced = fields(json!({ "resourcePolicy": { "kind": "configmap", "name": "volumes" }, "ttl": "36h" }));
    let policy = Policy { enforced: Enforced { backup: enforced, ..Enforced::default() }, ..Policy::default() };
    let backup = |spec: Value| backup(&fields(spec), "shop", &policy);
    let spec = backup(json!({})).expect("allowed");
    assert_eq!(spec.fields()["resourcePolicy"]["name"], "volumes");
    assert!(backup(json!({ "resourcePolicy": { "kind": "configmap", "name": "volumes" }, "ttl": "2160m" })).is_ok());
    assert!(backup(json!({ "resourcePolicy": { "kind": "configmap", "name": "mine" } })).is_err());
    assert_eq!(
        refusal(backup(json!({ "ttl": "1h" }))),
        "the administrator has restricted spec.backupSpec.ttl field value to 36h0m0s"
    );
}

#[test]
fn a_location_is_told_nothing_but_what_concerns_its_tenant() {
    let with = |config: Value| location_with(json!({ "config": config }));
    assert!(with(json!({ "region": "eu", "s3Url": "https://s3.example.com", "s3ForcePathStyle": "true" })).is_ok());
    for key in [
        "publicUrl",
        "kmsKeyId",
        "customerKeyEncryptionFile",
        "customerKeyEncryptionSecret",
        "signatureVersion",
        "credentialsFile",
        "profile",
        "insecureSkipTLSVerify",
        "enableSharedConfig",
        "ofTomorrow",
    ] {
        assert_eq!(
            refusal(with(json!({ key: "x" }))),
            format!("NonAdminBackupStorageLocation spec.backupStorageLocationSpec.config.{key} is restricted")
        );
    }
    assert_eq!(
        refusal(with(json!({ "s3Url": "http://169.254.169.254" }))),
        "NonAdminBackupStorageLocation spec.backupStorageLocationSpec.config.s3Url is restricted, must not name an address inside \
         the cluster or this machine"
    );
}

#[test]
fn other_providers_are_the_administrators_to_allow() {
    assert_eq!(
        refusal(location_with(json!({ "provider": "azure" }))),
        "NonAdminBackupStorageLocation spec.backupStorageLocationSpec.provider is restricted, can only be set to: aws"
    );
    let policy = Policy { providers: vec!["azure".into()], ..Policy::default() };
    let spec = json!({
        "provider": "azure", "objectStorage": { "bucket": "b" }, "credential": { "name": "keys", "key": "cloud" },
        "config": { "storageAccount": "x" },
    });
    assert!(location(&fields(spec), "shop", &policy).is_ok());
}

#[test]
fn a_restore_names_a_backup_and_no_namespaces() {
    let message = |spec: Value| refusal(restore(&fields(spec), "shop", &Policy::default()));
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
        assert!(restored(json!({ "backupName": "b", "includeClusterResources": unclear })).is_err());
    }
    assert!(restored(json!({ "backupName": "b", "includeClusterResources": false })).is_ok());
}

fn location_with(changes: Value) -> Result<LocationSpec, Invalid> {
    let mut spec = fields(json!({
        "provider": "aws",
        "objectStorage": { "bucket": "b" },
        "credential": { "name": "keys", "key": "cloud" },
    }));
    spec.extend(fields(changes));
    location(&spec, "shop", &Policy::default())
}

#[test]
fn a_location_needs_a_credential_of_its_own_and_is_never_the_default() {
    let message = |changes: Value| refusal(location_with(changes));
    assert_eq!(message(json!({ "default": true })), "NonAdminBackupStorageLocation cannot be used as a default BSL");
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

/// Two values of a shape that differ, of which any is allowed where the administrator says so.
fn samples(shape: fields::Shape) -> [Value; 2] {
    use fields::Shape;
    let first = |table: &[fields::Field], sample: usize| {
        let Some(field) = table.first() else { return json!({}) };
        if field.name == "matchExpressions" {
            return json!({ "matchLabels": samples(Shape::TextMap)[sample] });
        }
        json!({ field.name: samples(field.shape)[sample] })
    };
    match shape {
        Shape::Text | Shape::Name => [json!("none"), json!("update")],
        Shape::Duration => [json!("1m"), json!("2m")],
        Shape::Flag => [json!(false), json!(true)],
        Shape::Number => [json!(1), json!(2)],
        Shape::Texts => [json!(["configmaps"]), json!(["secrets"])],
        Shape::TextMap => [json!({ "region": "a" }), json!({ "region": "b" })],
        Shape::Object(table) => [first(table, 0), first(table, 1)],
        Shape::Objects(table) => [json!([first(table, 0)]), json!([first(table, 1)])],
    }
}

/// Holds every field of a table that can be enforced against `check`, which gives the fields as they are carried out.
fn every_field_is_enforced(
    table: &[fields::Field],
    base: &Fields,
    check: impl Fn(&Fields, Fields) -> Result<Fields, Invalid>,
) -> usize {
    let with = |field: &str, value: &Value| {
        let mut spec = base.clone();
        spec.insert(field.to_owned(), value.clone());
        spec
    };
    let enforceable = |name: &str, value: &Value| {
        let alone = Fields::from_iter([(name.to_owned(), value.clone())]);
        fields::not_enforceable(table, &alone).is_none().then_some(alone)
    };
    let mut tried = 0;
    for field in table.iter().filter(|field| {
        !matches!(field.shape, fields::Shape::Object([fields::Field { rule: fields::Rule::Forbidden, .. }]))
    }) {
        let [value, other] = samples(field.shape);
        let Some(enforced) = enforceable(field.name, &value) else { continue };
        let mut open = base.clone();
        open.remove(field.name);
        let given = check(&enforced, open).map(|spec| spec[field.name].clone());
        assert_eq!(given, Ok(value.clone()), "{}: whoever says nothing gets it", field.name);
        assert!(check(&enforced, with(field.name, &value)).is_ok(), "{}: whoever says the same", field.name);
        assert!(check(&enforced, with(field.name, &other)).is_err(), "{}: whoever says otherwise", field.name);
        tried += 1;
    }
    tried
}

#[test]
fn whatever_an_administrator_enforces_counts_for_backups_restores_and_locations() {
    let policy = |change: &dyn Fn(&mut Enforced)| {
        let providers = vec!["none".to_owned(), "update".to_owned()];
        let mut policy = Policy { providers, ..Policy::default() };
        change(&mut policy.enforced);
        policy
    };
    let backups = every_field_is_enforced(fields::BACKUP, &Fields::new(), |enforced, spec| {
        backup(&spec, "shop", &policy(&|it| it.backup = enforced.clone())).map(|spec| spec.fields().clone())
    });
    let restores =
        every_field_is_enforced(fields::RESTORE, &fields(json!({ "backupName": "nightly" })), |enforced, spec| {
            restore(&spec, "shop", &policy(&|it| it.restore = enforced.clone())).map(|spec| spec.fields().clone())
        });
    let base =
        json!({ "provider": "aws", "objectStorage": { "bucket": "b" }, "credential": { "name": "k", "key": "c" } });
    let locations = every_field_is_enforced(fields::LOCATION, &fields(base), |enforced, spec| {
        location(&spec, "shop", &policy(&|it| it.location = enforced.clone())).map(|spec| spec.fields().clone())
    });
    assert!(backups >= 18 && restores >= 8 && locations >= 6, "{backups} {restores} {locations}");
}
