//! Nothing that anybody can write into an object of ours makes its reading or its checks panic.

#[allow(dead_code, reason = "shared with the tests of the core, which use all of it")]
#[path = "../../core/tests/arbitrary/json.rs"]
mod json;

use std::{fmt::Debug, fs, path::Path};

use croft_api::{Problem, backup, namespaces, open::OpenObject, storage, velero};
use croft_core::{
    namespaces::{manifest::Stamp, params::Texts, template::Facts},
    problem::MOST_PROBLEMS,
    storage::QuotaAsked,
};
use proptest::{collection::btree_map, prelude::*};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use self::json::{any_or_bent, bent, map, text};

fn every_example() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let yaml = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    yaml.flat_map(|path| serde_saphyr::from_multiple::<Value>(&fs::read_to_string(path).unwrap()).unwrap()).collect()
}

fn examples(kind: &str) -> Vec<Value> {
    let found: Vec<_> = every_example().into_iter().filter(|manifest| manifest["kind"] == kind).collect();
    assert!(!found.is_empty(), "no example of {kind}");
    found
}

/// The object, if it is one of the kind; then it can be written and read again.
fn read<K: DeserializeOwned + Serialize>(value: &Value) -> Option<K> {
    let object: K = serde_json::from_value(value.clone()).ok()?;
    let written = serde_json::to_value(&object).unwrap();
    let again: K = serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(serde_json::to_value(&again).unwrap(), written);
    Some(object)
}

/// An object of the kind with anything in it.
fn object<K: DeserializeOwned + Serialize + Debug>(kind: &str) -> impl Strategy<Value = K> + use<K> {
    bent(examples(kind)).prop_filter_map("cannot be read", |value| read(&value))
}

fn facts() -> impl Strategy<Value = Facts> {
    let texts = || btree_map(text(), text(), 0..4);
    (text(), text(), texts(), texts()).prop_map(|(name, uid, labels, annotations)| Facts {
        name,
        uid,
        labels,
        annotations,
    })
}

fn assert_told(problems: &[Problem]) {
    assert!(
        problems.len() <= MOST_PROBLEMS && problems.iter().all(|problem| !problem.field.is_empty()),
        "{problems:?}"
    );
}

proptest! {
    #[test]
    fn any_namespace_class_is_checked_and_filled_in(
        class in object::<namespaces::NamespaceClass>("NamespaceClass"), facts in facts(),
    ) {
        use namespaces::validate::{blueprint, not_namespaced, policy, readable_secrets, validate};
        let _ = (not_namespaced(&class, |_, _| true), readable_secrets(&class), policy(&class));
        assert_told(&validate(&class).err().unwrap_or_default());
        // A class that is stored is rendered although it is not valid.
        match blueprint(&class).items(&facts, &Texts::new()) {
            Ok(furnished) => {
                let stamp = Stamp { namespace: &facts.name, class: "c", binding_uid: "u", protect: class.spec.protect };
                assert!(furnished.items.into_iter().all(|item| item.stamped(&stamp).manifest.is_object()));
                for misfit in furnished.misfits {
                    assert_told(&misfit.problems);
                }
            }
            Err(problems) => assert_told(&problems),
        }
    }

    #[test]
    fn any_claim_is_checked(claim in object::<storage::S3UserClaim>("S3UserClaim")) {
        match storage::validate::claim(&claim) {
            Ok(spec) => {
                let quota = spec.quota.or_default(&QuotaAsked::default());
                prop_assert_eq!(storage::validate::granted(&storage::validate::reported(&quota)), Some(quota));
            }
            Err(problems) => assert_told(&problems),
        }
    }

    #[test]
    fn any_bucket_is_checked(bucket in object::<storage::S3Bucket>("S3Bucket")) {
        assert_told(&storage::validate::bucket(&bucket).err().unwrap_or_default());
    }

    #[test]
    fn any_storage_class_is_checked(class in object::<storage::S3Class>("S3Class")) {
        assert_told(&storage::validate::class(&class).err().unwrap_or_default());
    }

    #[test]
    fn any_recorded_quota_is_read_back_or_not(user in object::<storage::S3User>("S3User")) {
        let quota = serde_json::to_value(&user).unwrap().pointer("/spec/quota").cloned().unwrap_or_default();
        if let Ok(quota) = serde_json::from_value(quota) {
            let _ = storage::validate::granted(&quota);
        }
    }

    #[test]
    fn any_location_is_checked(
        location in object::<backup::NonAdminBackupStorageLocation>("NonAdminBackupStorageLocation"),
    ) {
        if let Ok(spec) = backup::validate::location(&location, &croft_core::backup::Policy::default()) {
            let _ = spec.store();
        }
    }

    #[test]
    fn any_object_is_read_as_any_kind_or_not(value in bent(every_example())) {
        let _ = (read::<namespaces::NamespaceClass>(&value), read::<namespaces::NamespaceClassBinding>(&value));
        let _ = (read::<storage::S3UserClaim>(&value), read::<storage::S3User>(&value), read::<storage::S3Bucket>(&value));
        let _ = (read::<storage::S3Class>(&value), read::<storage::S3TeamQuota>(&value));
        let _ = (read::<storage::S3QuotaLedger>(&value), read::<storage::UserMigration>(&value));
        let _ = (read::<backup::NonAdminBackup>(&value), read::<backup::NonAdminRestore>(&value));
        let _ = read::<backup::NonAdminBackupStorageLocation>(&value);
        let _ = read::<backup::NonAdminBackupStorageLocationRequest>(&value);
        let _ = read::<backup::NonAdminDownloadRequest>(&value);
    }

    #[test]
    fn any_field_of_somebody_elses_object_is_read_or_not(fields in map(), name in text()) {
        let object = OpenObject(fields.clone());
        for field in fields.keys().chain([&name]) {
            let _ = (object.text(field), object.flag(field), object.integer(field), object.texts(field));
            let _ = (object.text_map(field), object.timestamp(field));
        }
    }

    #[test]
    fn any_object_of_veleros_is_read_or_not(
        value in any_or_bent(vec![serde_json::json!({
            "metadata": {"name": "b"},
            "spec": {"objectStorage": {"bucket": "b", "prefix": "p"}, "credential": {"name": "n", "key": "k"}, "config": {"a": "b"},
                     "target": {"kind": "k", "name": "n"}, "namespaceMapping": {"a": "b"}},
            "status": {"phase": "Completed", "startTimestamp": "2024-11-27T10:48:45Z", "expiration": "2024-11-27T10:48:45Z", "errors": ["e"]},
        })]),
    ) {
        if let Ok(location) = serde_json::from_value::<velero::BackupStorageLocation>(value.clone()) {
            let spec = &location.spec;
            let _ = (location.phase(), spec.bucket(), spec.prefix(), spec.credential(), spec.config(), spec.is_default());
        }
        if let Ok(restore) = serde_json::from_value::<velero::Restore>(value.clone()) {
            let _ = (restore.spec.namespace_mapping(), restore.status.as_ref().map(velero::RestoreStatus::start_timestamp));
        }
        if let Ok(request) = serde_json::from_value::<velero::DownloadRequest>(value) {
            let _ = (request.spec.target_kind(), format!("{request:?}"));
        }
    }
}

#[test]
fn a_class_beyond_its_schema_is_told_in_few_words() {
    let class = namespaces::NamespaceClass {
        spec: namespaces::NamespaceClassSpec { resources: vec![Map::new(); 100_000], ..Default::default() },
        ..Default::default()
    };
    assert_eq!(namespaces::validate::validate(&class).unwrap_err().len(), 1);
    assert!(namespaces::validate::not_namespaced(&class, |_, _| true).len() <= MOST_PROBLEMS);
}
