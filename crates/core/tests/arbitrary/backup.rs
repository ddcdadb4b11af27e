//! Requests of tenants with any spec, in any state: planned, reported, and never more than their own namespace.

use std::time::Duration;

use croft_core::{
    backup::{
        Fields, Object, OnDelete, Phase, Settings, Victim,
        approval::Standing,
        backup::{self, Deletion, Location, LocationPhase, VeleroBackup},
        location::{self, Copy, VeleroLocation, Version},
        ownership::{Marks, Origin},
        restore::{self, Source, VeleroRestore},
        validate,
    },
    time::Timestamp,
};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    dice::{Dice, assert_storable, dice, now},
    json::{any_or_bent, bent, map},
};

const NAMESPACE: &str = "shop";
const UID: &str = "0d0b7b2c-ee76-412d-a867-2c23b8aa51ab";
const NACUUID: &str = "shop-nightly-0d0b7b2c-ee76-412d-a867-2c23b8aa51ab";

fn fields(good: Vec<Value>) -> impl Strategy<Value = Fields> {
    any_or_bent(good).prop_filter_map("not an object", |value| match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    })
}

fn backup_spec() -> impl Strategy<Value = Fields> {
    fields(vec![
        json!({"includedNamespaces": ["shop"], "excludedResources": ["pods"], "includeClusterResources": false, "ttl": "1h", "storageLocation": "here"}),
        json!({"includedNamespaceScopedResources": ["configmaps"], "includedClusterScopedResources": [], "excludedClusterScopedResources": ["*"]}),
    ])
}

fn restore_spec() -> impl Strategy<Value = Fields> {
    fields(vec![json!({"backupName": "nightly", "excludedResources": ["pods"], "includeClusterResources": false})])
}

fn location_spec() -> impl Strategy<Value = Fields> {
    fields(vec![json!({
        "provider": "aws", "objectStorage": {"bucket": "b", "prefix": "deep/er", "caCert": "eA=="}, "default": false,
        "credential": {"name": "keys", "key": "cloud"}, "config": {"s3Url": "http://rgw:80/x", "region": "eu"},
    })])
}

/// A status as it may have been stored by anybody.
fn status<S: DeserializeOwned + Default + std::fmt::Debug>(reference: &str) -> impl Strategy<Value = S> + use<S> {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let recorded = json!({"nacuuid": NACUUID, "name": NACUUID, "namespace": "velero", "spec": {}, "status": {"phase": "InProgress"}});
    let good = |phase: &str| {
        json!({
            "phase": phase, "conditions": [condition("Accepted"), condition("Queued")], reference: recorded, "queueInfo": {"estimatedQueuePosition": 1},
        })
    };
    bent(vec![json!({}), good("New"), good("Created"), good("Deleting")])
        .prop_map(|value| serde_json::from_value(value).unwrap_or_default())
}

fn object(dice: &mut Dice) -> Object {
    Object {
        namespace: NAMESPACE.into(),
        name: "nightly".into(),
        uid: UID.into(),
        generation: 1,
        has_finalizer: dice.roll(4) > 0,
        is_deleting: dice.roll(4) == 0,
        namespace_is_terminating: dice.roll(4) == 0,
    }
}

fn settings(dice: &mut Dice) -> Settings {
    let on_delete = if dice.flip() { OnDelete::Hold } else { OnDelete::Release };
    Settings { velero_namespace: "velero".into(), on_delete }
}

fn marks(dice: &mut Dice) -> Marks {
    let ours = Origin { namespace: NAMESPACE.into(), name: "nightly".into(), nacuuid: NACUUID.into() }.marks();
    if dice.roll(4) > 0 { ours } else { Marks::default() }
}

fn victims(dice: &mut Dice) -> Vec<Victim> {
    (0..dice.roll(3)).map(|number| Victim { name: format!("x{number}"), uid: "u".into() }).collect()
}

fn deletion(dice: &mut Dice, status: &Fields) -> Deletion {
    Deletion {
        name: "d".into(),
        uid: "u".into(),
        marks: marks(dice),
        created: Timestamp("2026-01-01T00:00:00Z".into()),
        age: if dice.flip() { Duration::MAX } else { Duration::ZERO },
        status: status.clone(),
    }
}

fn storage(dice: &mut Dice) -> Location {
    match dice.roll(4) {
        0 => Location::Default,
        1 => Location::Missing { name: "here".into() },
        _ => Location::Found {
            phase: dice.some(Phase::Created),
            nacuuid: dice.some("there".into()),
            velero: dice.some(if dice.clone().flip() { LocationPhase::Available } else { LocationPhase::Other }),
        },
    }
}

/// Velero is asked for this namespace and nothing that belongs to the cluster.
fn assert_confined(spec: &Fields) {
    assert_eq!(spec["includedNamespaces"], json!([NAMESPACE]), "{spec:?}");
    let cluster = spec.get("includeClusterResources");
    assert!(matches!(cluster, None | Some(Value::Null | Value::Bool(false))), "{spec:?}");
    let kinds = spec.get("includedClusterScopedResources");
    assert!(kinds.is_none_or(|kinds| kinds.is_null() || *kinds == json!([])), "{spec:?}");
    let excludes = |list: &str| {
        let names = spec.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        ["*", "clusterrolebindings"].iter().any(|name| names.contains(&json!(name)))
    };
    assert!(excludes("excludedResources") || excludes("excludedClusterScopedResources"), "{spec:?}");
    for field in
        ["excludedNamespaces", "volumeSnapshotLocations", "resourcePolicy", "namespaceMapping", "resourceModifier"]
    {
        assert!(spec.get(field).is_none_or(Value::is_null), "{spec:?}");
    }
}

/// Velero stores below the namespace's prefix, with the copied Secret.
fn assert_below_prefix(spec: &Fields, secret: &str) {
    let prefix = spec["objectStorage"]["prefix"].as_str().unwrap_or_else(|| panic!("no prefix: {spec:?}"));
    assert!(prefix.split('/').next() == Some(NAMESPACE) && !prefix.split('/').any(|part| part == ".."), "{prefix:?}");
    assert_eq!(spec["credential"]["name"], json!(secret));
    assert!(!matches!(spec.get("default"), Some(Value::Bool(true))));
}

proptest! {
    #[test]
    fn any_backup_is_planned_and_reported_and_stays_in_its_namespace(
        spec in backup_spec(), status in status::<backup::Status>("veleroBackup"), velero in map(), mut dice in dice(),
    ) {
        let velero_backup = VeleroBackup { uid: "u".into(), marks: marks(&mut dice), spec: velero.clone(), status: velero.clone(), position: u64::MAX };
        let seen = backup::Observed {
            object: object(&mut dice),
            spec,
            delete_backup: dice.roll(4) == 0,
            force_delete_backup: dice.roll(4) == 0,
            status,
            location: storage(&mut dice),
            velero: dice.some(velero_backup),
            deletions: (0..dice.roll(3)).map(|_| deletion(&mut dice, &velero)).collect(),
            restores: victims(&mut dice),
        };
        let settings = settings(&mut dice);
        let plan = backup::plan(&seen, &settings);
        for step in plan.iter() {
            if let backup::Step::CreateBackup { spec, .. } = step {
                assert_confined(spec);
            }
        }
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = backup::report(&seen, &settings, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.status.conditions);
        }
    }

    #[test]
    fn any_restore_is_planned_and_reported_and_stays_in_its_namespace(
        spec in restore_spec(), status in status::<restore::Status>("veleroRestore"), velero in map(), mut dice in dice(),
    ) {
        let velero_restore = VeleroRestore {
            uid: "u".into(),
            marks: marks(&mut dice),
            status: velero,
            is_deleting: dice.flip(),
            position: 1,
        };
        let seen = restore::Observed {
            object: object(&mut dice),
            spec,
            status,
            source: match dice.roll(4) {
                0 => Source::Missing,
                1 => Source::NotReady,
                _ => Source::Ready { velero_backup: "b".into() },
            },
            velero: dice.some(velero_restore),
        };
        let plan = restore::plan(&seen);
        for step in plan.iter() {
            if let restore::Step::CreateRestore { spec, .. } = step {
                assert_confined(spec);
            }
        }
        let settings = settings(&mut dice);
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = restore::report(&seen, &settings, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.status.conditions);
        }
    }

    #[test]
    fn any_location_is_planned_and_reported_and_stays_below_its_prefix(
        spec in location_spec(), status in status::<location::Status>("veleroBackupStorageLocation"), velero in map(), mut dice in dice(),
    ) {
        if let Ok(spec) = validate::location(&spec, NAMESPACE) {
            let _ = spec.store();
        }
        let there = VeleroLocation { uid: "u".into(), marks: marks(&mut dice), spec: velero.clone(), status: velero };
        let seen = location::Observed {
            object: object(&mut dice),
            spec,
            status,
            secret: dice.some(Version { uid: "u".into(), resource_version: "1".into() }),
            copy: dice.some(Copy { uid: "u".into(), marks: marks(&mut dice.clone()), copy_of: None }),
            velero: dice.some(there),
            twin: (dice.roll(8) == 0).then(|| "other".to_owned()),
            backups: victims(&mut dice),
            standing: match dice.roll(4) {
                0 => Standing::Pending,
                1 => Standing::Rejected,
                _ => Standing::Vault,
            },
        };
        let plan = location::plan(&seen);
        for step in plan.iter() {
            if let location::Step::CreateLocation { spec, .. } | location::Step::UpdateLocation { spec, .. } = step {
                assert_below_prefix(spec, &seen.origin().nacuuid);
            }
        }
        let settings = settings(&mut dice);
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = location::report(&seen, &settings, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.status.conditions);
        }
    }
}
