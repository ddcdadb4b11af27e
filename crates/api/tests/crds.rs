//! What the CRDs promise to `kubectl` and to tenants.

use croft_api::{crds, crds_yaml};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

struct Promise {
    kind: &'static str,
    group: &'static str,
    plural: &'static str,
    scope: &'static str,
    short_names: &'static [&'static str],
    has_status: bool,
    columns: &'static [&'static str],
}

const NAMESPACES: &str = "akuity.io";
const STORAGE: &str = "s3.snappcloud.io";
const BACKUP: &str = "oadp.openshift.io";
const OURS: &str = "croft.dev";

const PROMISES: &[Promise] = &[
    Promise {
        kind: "NamespaceClass",
        group: NAMESPACES,
        plural: "namespaceclasses",
        scope: "Cluster",
        short_names: &["nc", "nsclass"],
        has_status: true,
        columns: &["Resources", "Namespaces", "Rollout", "Ready", "Age"],
    },
    Promise {
        kind: "NamespaceClassBinding",
        group: NAMESPACES,
        plural: "namespaceclassbindings",
        scope: "Namespaced",
        short_names: &["ncb"],
        has_status: true,
        columns: &["Class", "Ready", "Reason", "Age"],
    },
    Promise {
        kind: "S3UserClaim",
        group: STORAGE,
        plural: "s3userclaims",
        scope: "Namespaced",
        short_names: &["s3u"],
        has_status: true,
        columns: &[
            "S3USERCLASS",
            "S3USER",
            "MAX OBJECTS",
            "MAX SIZE",
            "MAX BUCKETS",
            "USED SIZE",
            "USED OBJECTS",
            "USED BUCKETS",
            "AGE",
        ],
    },
    Promise {
        kind: "S3User",
        group: STORAGE,
        plural: "s3users",
        scope: "Cluster",
        short_names: &[],
        has_status: true,
        columns: &["S3USERCLASS", "CLAIM NS", "CLAIM NAME", "MAX OBJECTS", "MAX SIZE", "MAX BUCKETS", "AGE"],
    },
    Promise {
        kind: "S3Bucket",
        group: STORAGE,
        plural: "s3buckets",
        scope: "Namespaced",
        short_names: &["s3b"],
        has_status: true,
        columns: &["S3USERREF", "READY", "USED SIZE", "USED OBJECTS", "AGE"],
    },
    Promise {
        kind: "S3Class",
        group: STORAGE,
        plural: "s3classes",
        scope: "Cluster",
        short_names: &[],
        has_status: true,
        columns: &["Endpoint", "Default", "OnDelete", "Ready", "Age"],
    },
    Promise {
        kind: "S3TeamQuota",
        group: STORAGE,
        plural: "s3teamquotas",
        scope: "Cluster",
        short_names: &[],
        has_status: true,
        columns: &["Size", "Used Size", "Objects", "Used Objects", "Buckets", "Used Buckets", "Age"],
    },
    Promise {
        kind: "S3QuotaLedger",
        group: STORAGE,
        plural: "s3quotaledgers",
        scope: "Cluster",
        short_names: &[],
        // One write decides over the whole ledger, so there is no second half to write.
        has_status: false,
        columns: &["Team", "Namespace", "Age"],
    },
    Promise {
        kind: "UserMigration",
        group: STORAGE,
        plural: "usermigrations",
        scope: "Cluster",
        short_names: &[],
        has_status: true,
        columns: &["From NS", "From", "To NS", "To", "Phase", "Moved", "Why", "Age"],
    },
    Promise {
        kind: "NonAdminBackup",
        group: BACKUP,
        plural: "nonadminbackups",
        scope: "Namespaced",
        short_names: &["nab"],
        has_status: true,
        columns: &["Request-Phase", "Velero-Phase", "Age"],
    },
    Promise {
        kind: "NonAdminRestore",
        group: BACKUP,
        plural: "nonadminrestores",
        scope: "Namespaced",
        short_names: &["nar"],
        has_status: true,
        columns: &["Request-Phase", "Velero-Phase", "Age"],
    },
    Promise {
        kind: "NonAdminBackupStorageLocation",
        group: BACKUP,
        plural: "nonadminbackupstoragelocations",
        scope: "Namespaced",
        short_names: &["nabsl"],
        has_status: true,
        columns: &["Request-Approved", "Request-Phase", "Velero-Phase", "Age"],
    },
    Promise {
        kind: "NonAdminBackupStorageLocationRequest",
        group: BACKUP,
        plural: "nonadminbackupstoragelocationrequests",
        scope: "Namespaced",
        short_names: &["nabslrequest"],
        has_status: true,
        columns: &["Request-Phase", "Request-Namespace", "Request-Name", "Age"],
    },
    Promise {
        kind: "NonAdminDownloadRequest",
        group: BACKUP,
        plural: "nonadmindownloadrequests",
        scope: "Namespaced",
        short_names: &["nadr"],
        has_status: true,
        columns: &["Request-Phase", "Age"],
    },
    Promise {
        kind: "BackupVault",
        group: OURS,
        plural: "backupvaults",
        scope: "Namespaced",
        short_names: &["vault"],
        has_status: true,
        columns: &["Ready", "Reason", "Used", "Size", "Last-Backup", "Age"],
    },
    Promise {
        kind: "BackupSchedule",
        group: OURS,
        plural: "backupschedules",
        scope: "Namespaced",
        short_names: &[],
        has_status: true,
        columns: &["Schedule", "Suspend", "Reason", "Last", "Next", "Age"],
    },
];

/// Kinds that tenants write. A reference in them must not reach another namespace.
const TENANT_KINDS: &[&str] = &[
    "S3UserClaim",
    "S3Bucket",
    "NonAdminBackup",
    "NonAdminRestore",
    "NonAdminBackupStorageLocation",
    "NonAdminBackupStorageLocationRequest",
    "NonAdminDownloadRequest",
    "BackupVault",
    "BackupSchedule",
];

fn as_json(crd: &CustomResourceDefinition) -> Value {
    serde_json::to_value(crd).unwrap()
}

fn schema(crd: &CustomResourceDefinition) -> Value {
    as_json(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Calls `visit` with every schema below `schema` and the path to it.
fn walk(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            walk(property, &format!("{path}.{name}"), visit);
        }
    }
    for nested in ["items", "additionalProperties"] {
        if schema[nested].is_object() {
            walk(&schema[nested], &format!("{path}[]"), visit);
        }
    }
}

#[test]
fn every_kind_has_the_names_scope_and_columns_promised() {
    let crds = crds();
    assert_eq!(crds.len(), PROMISES.len());
    for (crd, promise) in crds.iter().zip(PROMISES) {
        let kind = promise.kind;
        let version = &crd.spec.versions[0];
        assert_eq!(crd.spec.names.kind, kind);
        assert_eq!(crd.metadata.name.as_deref(), Some(&*format!("{}.{}", promise.plural, promise.group)));
        assert_eq!(crd.spec.group, promise.group, "{kind}");
        assert_eq!(version.name, "v1alpha1", "{kind}");
        assert!(version.served && version.storage, "{kind}");
        assert_eq!(crd.spec.scope, promise.scope, "{kind}");
        assert_eq!(crd.spec.names.short_names.clone().unwrap_or_default(), promise.short_names, "{kind}");
        let has_status = version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
        assert_eq!(has_status, promise.has_status, "{kind}");
        let columns: Vec<_> =
            version.additional_printer_columns.iter().flatten().map(|column| column.name.as_str()).collect();
        assert_eq!(columns, promise.columns, "{kind}");
    }
}

#[test]
fn no_reference_a_tenant_writes_can_name_a_namespace() {
    let crds = crds();
    for kind in TENANT_KINDS {
        let crd = crds.iter().find(|crd| crd.spec.names.kind == *kind).unwrap();
        walk(&schema(crd)["properties"]["spec"], "spec", &mut |path, _| {
            let field = path.rsplit('.').next().unwrap().to_lowercase();
            assert!(!field.ends_with("namespace"), "{kind}: {path}");
        });
    }
}

#[test]
fn conditions_merge_by_type_except_where_their_order_is_the_interface() {
    for crd in crds() {
        let conditions = schema(&crd)["properties"]["status"]["properties"]["conditions"].clone();
        if conditions.is_null() {
            continue;
        }
        let (list_type, keys) =
            if crd.spec.group == BACKUP { (json!("atomic"), Value::Null) } else { (json!("map"), json!(["type"])) };
        assert_eq!(conditions["x-kubernetes-list-type"], list_type, "{}", crd.spec.names.kind);
        assert_eq!(conditions["x-kubernetes-list-map-keys"], keys, "{}", crd.spec.names.kind);
    }
}

#[test]
fn every_field_outside_velero_specs_says_what_it_is() {
    for crd in crds() {
        walk(&schema(&crd), "", &mut |path, schema| {
            let is_open = ["backupSpec", "restoreSpec", "resources[]"].iter().any(|open| path.contains(open));
            let is_element = path.ends_with("[]");
            if !is_open && !is_element {
                assert!(schema["description"].is_string(), "{}: {path}", crd.spec.names.kind);
            }
        });
    }
}

#[test]
fn copied_velero_phases_are_open() {
    for crd in crds() {
        walk(&schema(&crd)["properties"]["status"], "status", &mut |path, schema| {
            if path.contains(".velero") && path.ends_with(".status") {
                assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], json!(true), "{path}");
                assert!(schema["properties"].is_null(), "{path}");
            }
        });
    }
}

#[test]
fn the_yaml_stream_holds_the_crds_and_is_always_the_same() {
    let yaml = crds_yaml();
    assert_eq!(yaml, crds_yaml());
    let documents: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&yaml).unwrap();
    assert_eq!(documents, crds());
}
