//! What the Rust types promise to the code that sends them.

use std::fs;
use std::path::Path;

use croft_api::velero::{self, BackupSpec};
use croft_api::{Condition, Quantity, Time, backup, namespaces, storage};
use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn assert_no_nulls(value: &Value, at: &str) {
    match value {
        Value::Null => panic!("null in {at}"),
        Value::Array(items) => items.iter().for_each(|item| assert_no_nulls(item, at)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| assert_no_nulls(field, &format!("{at}.{name}")));
        }
        _ => {}
    }
}

fn assert_default_is_sparse<T: Default + Serialize>() {
    let value = serde_json::to_value(T::default()).unwrap();
    assert_no_nulls(&value, std::any::type_name::<T>());
}

#[test]
fn nothing_serialises_as_null() {
    assert_default_is_sparse::<namespaces::NamespaceClass>();
    assert_default_is_sparse::<namespaces::NamespaceClassStatus>();
    assert_default_is_sparse::<namespaces::AppliedResource>();
    assert_default_is_sparse::<namespaces::Param>();
    assert_default_is_sparse::<namespaces::NamespaceClassBindingStatus>();
    assert_default_is_sparse::<storage::S3UserClaim>();
    assert_default_is_sparse::<storage::S3UserClaimStatus>();
    assert_default_is_sparse::<storage::QuotaRequest>();
    assert_default_is_sparse::<storage::QuotaLimits>();
    assert_default_is_sparse::<storage::ReportedQuota>();
    assert_default_is_sparse::<storage::S3User>();
    assert_default_is_sparse::<storage::S3UserStatus>();
    assert_default_is_sparse::<storage::S3BucketStatus>();
    assert_default_is_sparse::<storage::S3Class>();
    assert_default_is_sparse::<storage::S3TeamQuotaStatus>();
    assert_default_is_sparse::<storage::LedgerEntry>();
    assert_default_is_sparse::<storage::UserMigrationStatus>();
    assert_default_is_sparse::<backup::NonAdminBackup>();
    assert_default_is_sparse::<backup::NonAdminBackupStatus>();
    assert_default_is_sparse::<backup::VeleroBackupReference>();
    assert_default_is_sparse::<backup::NonAdminRestoreStatus>();
    assert_default_is_sparse::<backup::NonAdminBackupStorageLocationStatus>();
    assert_default_is_sparse::<backup::RequestedLocation>();
    assert_default_is_sparse::<backup::NonAdminDownloadRequestStatus>();
    assert_default_is_sparse::<velero::Backup>();
}

#[test]
fn an_empty_status_is_an_empty_object() {
    assert_eq!(serde_json::to_value(namespaces::NamespaceClassBindingStatus::default()).unwrap(), json!({}));
    assert_eq!(serde_json::to_value(storage::S3UserClaimStatus::default()).unwrap(), json!({}));
    assert_eq!(serde_json::to_value(backup::NonAdminBackupStatus::default()).unwrap(), json!({}));
    assert_eq!(serde_json::to_value(backup::DataMoverCounts::default()).unwrap(), json!({}));
}

/// Every value of `part` is in `whole`, which may have defaults besides.
fn assert_contains(whole: &Value, part: &Value, at: &str) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                let at = format!("{at}.{name}");
                assert_contains(whole.get(name).unwrap_or_else(|| panic!("{at} is lost")), value, &at);
            }
        }
        // A quantity may be written as a number and is always sent as text.
        (Value::Array(whole), Value::Array(part)) => {
            assert_eq!(whole.len(), part.len(), "{at}");
            for (index, (whole, part)) in whole.iter().zip(part).enumerate() {
                assert_contains(whole, part, &format!("{at}[{index}]"));
            }
        }
        (Value::String(whole), Value::Number(part)) => assert_eq!(*whole, part.to_string(), "{at}"),
        _ => assert_eq!(whole, part, "{at}"),
    }
}

fn assert_survives<K: Serialize + DeserializeOwned>(manifest: &Value, file: &str) {
    let typed: K = serde_json::from_value(manifest.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_contains(&serde_json::to_value(typed).unwrap(), manifest, file);
}

/// Whether it is of a kind of ours; if so, nothing of it is lost when it is read.
fn is_read_without_loss(manifest: &Value, file: &str) -> bool {
    match manifest["kind"].as_str().unwrap() {
        "NamespaceClass" => assert_survives::<namespaces::NamespaceClass>(manifest, file),
        "NamespaceClassBinding" => assert_survives::<namespaces::NamespaceClassBinding>(manifest, file),
        "S3UserClaim" => assert_survives::<storage::S3UserClaim>(manifest, file),
        "S3User" => assert_survives::<storage::S3User>(manifest, file),
        "S3Bucket" => assert_survives::<storage::S3Bucket>(manifest, file),
        "S3Class" => assert_survives::<storage::S3Class>(manifest, file),
        "S3TeamQuota" => assert_survives::<storage::S3TeamQuota>(manifest, file),
        "S3QuotaLedger" => assert_survives::<storage::S3QuotaLedger>(manifest, file),
        "UserMigration" => assert_survives::<storage::UserMigration>(manifest, file),
        "NonAdminBackup" => assert_survives::<backup::NonAdminBackup>(manifest, file),
        "NonAdminRestore" => assert_survives::<backup::NonAdminRestore>(manifest, file),
        "NonAdminBackupStorageLocation" => assert_survives::<backup::NonAdminBackupStorageLocation>(manifest, file),
        "NonAdminBackupStorageLocationRequest" => {
            assert_survives::<backup::NonAdminBackupStorageLocationRequest>(manifest, file);
        }
        "NonAdminDownloadRequest" => assert_survives::<backup::NonAdminDownloadRequest>(manifest, file),
        "BackupVault" => assert_survives::<backup::BackupVault>(manifest, file),
        "BackupSchedule" => assert_survives::<backup::BackupSchedule>(manifest, file),
        _ => return false,
    }
    true
}

#[test]
fn every_example_is_read_without_loss() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut seen = Vec::new();
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let manifests: Vec<Value> = serde_saphyr::from_multiple(&fs::read_to_string(&path).unwrap()).unwrap();
        let ours = manifests.iter().filter(|manifest| is_read_without_loss(manifest, &file));
        seen.extend(ours.map(|manifest| manifest["kind"].as_str().unwrap().to_owned()));
    }
    for crd in croft_api::crds() {
        assert!(seen.contains(&crd.spec.names.kind), "no example of {}", crd.spec.names.kind);
    }
}

#[test]
fn both_spellings_of_a_claim_mean_the_same() {
    let ours: storage::S3UserClaimSpec = serde_json::from_value(json!({
        "s3ClassName": "fast", "readSecretName": "r", "adminSecretName": "a",
        "quota": { "size": "5Gi", "objects": "1k", "buckets": 2 },
    }))
    .unwrap();
    let other: storage::S3UserClaimSpec = serde_json::from_value(json!({
        "s3UserClass": "fast", "readonlySecret": "r", "adminSecret": "a",
        "quota": { "maxSize": "5Gi", "maxObjects": "1k", "maxBuckets": 2 },
    }))
    .unwrap();
    for spec in [&ours, &other] {
        let quota = spec.quota.as_ref().unwrap();
        assert_eq!(spec.class(), Some("fast"));
        assert_eq!((spec.read_secret(), spec.admin_secret()), (Some("r"), Some("a")));
        assert_eq!(quota.requested_size(), Some(&Quantity("5Gi".to_owned())));
        assert_eq!(quota.requested_objects(), Some(&Quantity("1k".to_owned())));
        assert_eq!(quota.requested_buckets(), Some(2));
    }
}

#[test]
fn a_velero_object_passes_through_unchanged() {
    let object = json!({
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": { "name": "b", "namespace": "velero" },
        "spec": { "storageLocation": "s", "ttl": "0s", "fromTheFuture": { "deep": [1, null] } },
        "status": { "phase": "ReadyToStart", "queuePosition": 3, "startTimestamp": "2024-11-27T10:48:45Z", "completionTimestamp": null },
    });
    let backup: velero::Backup = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(backup.phase(), Some("ReadyToStart"));
    assert_eq!(backup.spec.storage_location(), Some("s"));
    let status = backup.status.as_ref().unwrap();
    assert_eq!(status.start_timestamp(), Some("2024-11-27T10:48:45Z".parse().unwrap()));
    assert_eq!(status.completion_timestamp(), None);
    assert_eq!(velero::Backup::url_path(&(), Some("velero")), "/apis/velero.io/v1/namespaces/velero/backups");
    assert_eq!(serde_json::to_value(&backup).unwrap(), object);
}

#[test]
fn an_empty_list_is_not_an_absent_list() {
    let spec: BackupSpec =
        serde_json::from_value(json!({ "excludedNamespaces": [], "includedNamespaces": null })).unwrap();
    assert_eq!(spec.excluded_namespaces(), Some(vec![]));
    assert_eq!(spec.included_namespaces(), None);
}

#[test]
fn a_signed_url_is_not_printed() {
    let status: velero::DownloadRequestStatus =
        serde_json::from_value(json!({ "phase": "Processed", "downloadURL": "https://signed.example.com/?key" }))
            .unwrap();
    assert_eq!(status.download_url(), Some("https://signed.example.com/?key"));
    let request = velero::DownloadRequest { status: Some(status), ..Default::default() };
    assert!(!format!("{request:?}").contains("signed.example.com"));
}

#[test]
fn conditions_use_the_standard_type() {
    let condition = Condition {
        type_: "Ready".to_owned(),
        status: "True".to_owned(),
        reason: "ReconcileSuccess".to_owned(),
        message: String::new(),
        last_transition_time: Time("2024-11-27T10:48:45Z".parse().unwrap()),
        observed_generation: None,
    };
    let status = namespaces::NamespaceClassBindingStatus { conditions: vec![condition], ..Default::default() };
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({ "conditions": [{
            "type": "Ready", "status": "True", "reason": "ReconcileSuccess", "message": "",
            "lastTransitionTime": "2024-11-27T10:48:45Z",
        }]})
    );
}
