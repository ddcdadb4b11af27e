//! Requests of tenants with any spec, in any state: planned, reported, and never more than their own namespace.

use std::time::Duration;

use croft_core::{
    backup::{
        Fields, Handed, Hosts, Object, OnDelete, OwnBucket, Phase, Policy, Presence, Reach, Transfers, Tried, Victim,
        approval::Standing,
        backup::{self, Deletion, Location, LocationPhase},
        left_out::{Asked, List, Listing, Tally},
        location::{self, Copy, InQueue, Keys, LetGo, VeleroLocation, Version},
        ownership::{Lies, Marks, Origin},
        restorable,
        restore::{self, Source},
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

fn listing(dice: &mut Dice, list: List) -> Listing {
    let asked = Asked { uid: "u".into(), age: Duration::from_secs(u64::from(dice.flip()) * 600) };
    let read = if dice.flip() { Ok(Tally::default()) } else { Err("torn".to_owned()) };
    Listing { list, asked: dice.some(asked), read: dice.some(read) }
}

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
        namespace_is_excluded: dice.roll(8) == 0,
        velero: match dice.roll(8) {
            0 => Presence::Gone,
            1 => Presence::Hidden,
            _ => Presence::Here,
        },
        is_brought_back: dice.roll(8) == 0,
        ahead: dice.roll(4).into(),
        tried: dice.some(Tried { at: Timestamp("2026-01-01T00:00:00Z".into()), ago: Duration::MAX }),
    }
}

fn policy(dice: &mut Dice) -> Policy {
    let on_delete = if dice.flip() { OnDelete::Hold } else { OnDelete::Release };
    let hosts = Hosts { listed: vec!["rgw".into()], ..Hosts::default() };
    Policy { velero_namespace: "velero".into(), on_delete, hosts, no_hooks: dice.flip(), ..Policy::default() }
}

fn marks(dice: &mut Dice) -> Marks {
    let ours = Origin { namespace: NAMESPACE.into(), name: "nightly".into(), nacuuid: NACUUID.into() }.marks();
    if dice.roll(4) > 0 { ours } else { Marks::default() }
}

fn handed(dice: &mut Dice, content: &Fields) -> Handed {
    Handed {
        uid: "u".into(),
        version: "1".into(),
        marks: marks(dice),
        made_for: dice.some("other".into()),
        spec: content.clone(),
        status: content.clone(),
        is_deleting: dice.flip(),
        position: u64::MAX,
        transfers: Transfers { file_system: vec![String::new()], data_mover: vec!["Canceled".into()] },
    }
}

fn victims(dice: &mut Dice) -> Vec<Victim> {
    (0..dice.roll(3)).map(|number| Victim { name: format!("x{number}"), uid: "u".into() }).collect()
}

fn deletion(dice: &mut Dice, status: &Fields) -> Deletion {
    Deletion {
        name: "d".into(),
        uid: "u".into(),
        version: "1".into(),
        marks: marks(dice),
        age: if dice.flip() { Duration::MAX } else { Duration::ZERO },
        status: status.clone(),
    }
}

fn storage(dice: &mut Dice) -> Location {
    match dice.roll(4) {
        0 => Location::Default { velero: dice.some(LocationPhase::ReadOnly) },
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
    let kinds = spec.get("includedClusterScopedResources");
    assert!(kinds.is_none_or(|kinds| kinds.is_null() || *kinds == json!([])), "{spec:?}");
    for field in
        ["excludedNamespaces", "volumeSnapshotLocations", "resourcePolicy", "namespaceMapping", "restoreStatus"]
    {
        assert!(spec.get(field).is_none_or(|value| value.is_null() || *value == json!({})), "{spec:?}");
    }
}

fn assert_backs_up_nothing_of_the_cluster(spec: &Fields) {
    let nothing = spec.get("includeClusterResources") == Some(&json!(false));
    assert!(nothing || spec.get("excludedClusterScopedResources") == Some(&json!(["*"])), "{spec:?}");
}

/// Named kinds and no others, changed by our rules.
fn assert_restores_named_kinds(spec: &Fields) {
    let kinds = spec["includedResources"].as_array().cloned().unwrap_or_default();
    assert!(
        !kinds.is_empty() && kinds.iter().all(|kind| restorable::USUAL.iter().any(|usual| kind == usual.name)),
        "{spec:?}"
    );
    assert_eq!((&spec["includeClusterResources"], &spec["restorePVs"]), (&json!(false), &json!(false)), "{spec:?}");
    assert_eq!(spec["resourceModifier"]["name"], "croft-restore-modifiers");
    assert!(
        spec.get("hooks")
            .is_none_or(|hooks| hooks.get("resources").is_none_or(|list| list == &json!([]) || list.is_null()))
    );
}

fn own_bucket(dice: &mut Dice) -> OwnBucket {
    let names = |count: u8| vec!["x".to_owned(); count.into()];
    let reach = Reach {
        snapshot_locations: names(dice.roll(2)),
        snapshots_are_hidden: dice.flip(),
        missing_fences: names(dice.roll(2)),
    };
    let left = Duration::from_secs(dice.roll(2).into());
    OwnBucket { reach, expires_in: dice.some(left), lacks_label: dice.flip() }
}

/// Velero stores where it did, and does not synchronise any more.
fn is_silenced(before: &Fields, after: &Fields) -> bool {
    let mut silent = before.clone();
    silent.insert("backupSyncPeriod".into(), json!("0s"));
    silent == *after
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
        let velero_backup = handed(&mut dice, &velero);
        let seen = backup::Observed {
            is_synced: dice.roll(6) == 0,
            unnoted_in: victims(&mut dice).pop(),
            own_bucket: (dice.roll(3) == 0).then(|| own_bucket(&mut dice)),
            missing_fences: (dice.roll(8) == 0).then(|| "a".to_owned()).into_iter().collect(),
            overdue: if dice.flip() { Duration::MAX } else { Duration::ZERO },
            ended: dice.flip().then_some(Duration::MAX),
            object: object(&mut dice),
            spec,
            delete_backup: dice.roll(4) == 0,
            force_delete_backup: dice.roll(4) == 0,
            status,
            location: storage(&mut dice),
            velero: dice.some(velero_backup),
            lies: match dice.roll(4) {
                0 => Lies::Nowhere,
                1 => Lies::WithAdministrator,
                _ => Lies::WithTenant(NAMESPACE.into()),
            },
            deletions: (0..dice.roll(3)).map(|_| deletion(&mut dice, &velero)).collect(),
            restores: victims(&mut dice),
        };
        let policy = policy(&mut dice);
        let plan = backup::plan(&seen, &policy);
        for step in plan.iter() {
            if let backup::Step::CreateBackup { spec, .. } = step {
                assert_confined(spec);
                assert_backs_up_nothing_of_the_cluster(spec);
            }
        }
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = backup::report(&seen, &policy, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.status.conditions);
        }
    }

    #[test]
    fn any_restore_is_planned_and_reported_and_stays_in_its_namespace(
        spec in restore_spec(), status in status::<restore::Status>("veleroRestore"), velero in map(), mut dice in dice(),
    ) {
        let velero_restore = handed(&mut dice, &velero);
        let seen = restore::Observed {
            object: object(&mut dice),
            spec,
            status,
            source: match dice.roll(6) {
                0 => Source::Missing,
                1 => Source::NotReady,
                2 => Source::OutOfReach,
                _ => Source::Ready { velero_backup: "b".into() },
            },
            velero: dice.some(velero_restore),
            counts_as_unfinished: dice.flip(),
            missing_fences: (dice.roll(8) == 0).then(|| "a".to_owned()).into_iter().collect(),
            ahead: (dice.roll(8) == 0).then(|| "a".to_owned()),
            has_modifiers: dice.flip(),
            lists: List::ALL.map(|list| listing(&mut dice, list)),
            ended: dice.some(Duration::from_secs(60)),
            finishing: dice.some(Duration::from_secs(3600)),
        };
        let policy = policy(&mut dice);
        let plan = restore::plan(&seen, &policy);
        for step in plan.iter() {
            if let restore::Step::CreateRestore { spec, .. } = step {
                assert_confined(spec);
                assert_restores_named_kinds(spec);
            }
        }
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = restore::report(&seen, &policy, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.status.conditions);
        }
    }

    #[test]
    fn any_location_is_planned_and_reported_and_stays_below_its_prefix(
        spec in location_spec(), status in status::<location::Status>("veleroBackupStorageLocation"), velero in map(), mut dice in dice(),
    ) {
        if let Ok(spec) = validate::location(&spec, NAMESPACE, &Policy::default()) {
            let _ = spec.store();
        }
        let there = VeleroLocation { uid: "u".into(), marks: marks(&mut dice), is_own_bucket: dice.flip(), spec: velero.clone(), status: velero };
        let seen = location::Observed {
            object: object(&mut dice),
            spec,
            is_readable: dice.roll(8) != 0,
            status,
            keys: if dice.roll(4) == 0 { Keys::Refused("x".into()) } else { Keys::Fine },
            secret: dice.some(Version { uid: "u".into(), resource_version: "1".into() }),
            copy: dice.some(Copy {
                version: Version { uid: "u".into(), resource_version: "1".into() },
                marks: marks(&mut dice.clone()),
                copy_of: None,
            }),
            rest: dice.some(Duration::MAX).unwrap_or_default(),
            velero: dice.some(there),
            answer: None,
            twin: (dice.roll(8) == 0).then(|| "other".to_owned()),
            backups: victims(&mut dice),
            may_move: dice.flip(),
            let_go: victims(&mut dice)
                .into_iter()
                .map(|Victim { name, .. }| LetGo { name, since: None, velero_has_it: dice.flip() })
                .collect(),
            standing: match dice.roll(6) {
                0 => Standing::Pending,
                1 => Standing::Rejected,
                2 => Standing::Vault,
                3 => Standing::GrandfatheredAsItWas,
                _ => Standing::Grandfathered,
            },
            missing_fences: dice.some("a-fence".to_owned()).into_iter().collect(),
            taken_in: dice.some(usize::MAX).unwrap_or_default(),
            in_queue: victims(&mut dice)
                .into_iter()
                .map(|backup| InQueue { backup, version: "1".into(), marks: marks(&mut dice), is_next: dice.flip() })
                .collect(),
        };
        let policy = policy(&mut dice);
        let plan = location::plan(&seen, &policy);
        for step in plan.iter() {
            if let location::Step::CreateLocation { spec, .. } | location::Step::UpdateLocation { spec, .. } = step
                && !seen.velero.as_ref().is_some_and(|velero| is_silenced(&velero.spec, spec))
            {
                assert_below_prefix(spec, &seen.origin().nacuuid);
            }
        }
        let outcomes = dice.outcomes(&plan);
        if let Some(status) = location::report(&seen, &policy, &outcomes, &now()) {
            assert_storable(&status.conditions, &seen.status.conditions);
        }
    }
}
