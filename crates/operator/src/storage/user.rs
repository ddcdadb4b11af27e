//! S3User objects in the core's words and back, and keys for new users.

use std::time::Duration;

use croft_api::backup::BackupVault;
use croft_api::storage::{
    ADOPT_ANNOTATION, ADOPT_CEPH_S3_OPERATOR, ClaimReference, KeyRotation, MigrationReference, MovedBucket, S3User,
    S3UserClaim, S3UserPhase, S3UserPurge, S3UserSpec, S3UserStatus, validate,
};
use croft_core::{
    backup::vault,
    conditions::Truth,
    storage::{
        CephUser, Place, Reason,
        bucket::Note,
        claim::{
            ClaimIdentity, FreshKeys, Holder, Mark, Phase, Purge, PurgeSeen, Record, RecordBody, Rotation, SetAside,
        },
        migration::MovedIn,
        record_name,
    },
    time::Timestamp,
};
use kube::{Resource, ResourceExt};
use rand::{Rng, seq::IndexedRandom};
use serde_json::{Value, json};

use crate::conditions;

/// What names of keys are made of that no other key has, in the form S3 clients expect: three digits follow.
pub(super) fn fresh_keys() -> FreshKeys {
    let mut source = rand::rng();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    FreshKeys(std::iter::repeat_with(|| char::from(pick(&mut source, alphabet))).take(17).collect())
}

fn pick(source: &mut impl Rng, alphabet: &[u8]) -> u8 {
    alphabet.choose(source).copied().unwrap_or(b'0')
}

/// An S3User as stored.
pub(super) fn record(object: &S3User) -> Record {
    record_called(object, record_name)
}

/// The S3User of a vault as stored.
pub(super) fn vault_record(object: &S3User) -> Record {
    record_called(object, vault::names::record_name)
}

/// One whose name does not follow from that of its claim or vault is not ours.
fn record_called(object: &S3User, called: fn(&str, &str) -> String) -> Record {
    let spec = &object.spec;
    let status = object.status.as_ref();
    let reference = spec.claim_ref.as_ref();
    let uid = reference.and_then(|claim| claim.uid.clone()).filter(|uid| !uid.is_empty());
    let place = reference
        .and_then(|claim| Some(Place { namespace: claim.namespace.clone()?, name: claim.name.clone()? }))
        .filter(|place| object.name_any() == called(&place.namespace, &place.name));
    let misnamed = reference.zip(uid.clone()).filter(|_| place.is_none()).map(|(claim, uid)| ClaimIdentity {
        namespace: claim.namespace.clone().unwrap_or_default(),
        name: claim.name.clone().unwrap_or_default(),
        uid,
    });
    let (claim, offered_to) = match (place, uid) {
        (Some(Place { namespace, name }), Some(uid)) => (Some(ClaimIdentity { namespace, name, uid }), None),
        (offered_to, _) => (None, offered_to),
    };
    Record {
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        body: RecordBody {
            claim,
            offered_to,
            taken_over_from: spec.taken_over_from.clone(),
            held_by: spec.held_by.as_ref().map(|by| Holder { name: by.name.clone(), uid: by.uid.clone() }),
            moved_away: spec.moved_away,
            class: spec.s3_class_name.clone().or_else(|| spec.s3_user_class.clone()),
            user: spec.ceph_user.as_deref().and_then(|user| user.parse().ok()),
            read_secret: spec.read_secret_name.clone(),
            admin_secret: spec.admin_secret_name.clone(),
            subusers: spec.subusers.iter().cloned().collect(),
            rotation: spec.key_rotation.as_ref().map(|rotation| Rotation {
                asked: rotation.asked.clone(),
                retired: rotation.retired_keys.iter().cloned().collect(),
            }),
            quota: spec.quota.as_ref().and_then(validate::granted),
        },
        phase: status.and_then(|status| status.phase).map(|phase| match phase {
            S3UserPhase::Bound => Phase::Bound,
            S3UserPhase::Removing => Phase::Removing,
            S3UserPhase::Released => Phase::Released,
        }),
        reason: status.and_then(|status| conditions::from_api(&status.conditions).reason("Ready").map(str::to_owned)),
        set_aside: status.map(set_aside).unwrap_or_default(),
        purge: status.and_then(|status| status.purge.as_ref()).map(purge_seen),
        returns_to: status.and_then(|status| status.returns_to.clone()),
        adopts: object.annotations().get(ADOPT_ANNOTATION).is_some_and(|whose| whose == ADOPT_CEPH_S3_OPERATOR),
        misnamed,
    }
}

fn set_aside(status: &S3UserStatus) -> SetAside {
    let names = |names: &[String]| names.iter().cloned().collect();
    SetAside {
        everything: status.keeps_all_buckets,
        kept: names(&status.kept_buckets),
        left: names(&status.left_buckets),
    }
}

fn purge_seen(purge: &S3UserPurge) -> PurgeSeen {
    let written: Option<jiff::Timestamp> = purge.time.parse().ok();
    let age = written.and_then(|written| Duration::try_from(jiff::Timestamp::now().duration_since(written)).ok());
    PurgeSeen {
        purge: Purge {
            buckets: usize::try_from(purge.buckets).unwrap_or_default(),
            bucket: purge.bucket.clone(),
            objects: u64::try_from(purge.objects).unwrap_or_default(),
        },
        age: age.unwrap_or_default(),
    }
}

pub(super) fn record_spec(body: &RecordBody) -> S3UserSpec {
    let claim = body.claim.as_ref().map(|claim| ClaimReference {
        api_version: Some(S3UserClaim::api_version(&()).into_owned()),
        kind: Some(S3UserClaim::kind(&()).into_owned()),
        namespace: Some(claim.namespace.clone()),
        name: Some(claim.name.clone()),
        uid: Some(claim.uid.clone()),
    });
    S3UserSpec {
        s3_class_name: body.class.clone(),
        s3_user_class: body.class.clone(),
        ceph_user: body.user.as_ref().map(CephUser::to_string),
        read_secret_name: body.read_secret.clone(),
        admin_secret_name: body.admin_secret.clone(),
        subusers: body.subusers.iter().cloned().collect(),
        key_rotation: body.rotation.as_ref().map(|rotation| KeyRotation {
            asked: rotation.asked.clone(),
            retired_keys: rotation.retired.iter().cloned().collect(),
        }),
        claim_ref: claim,
        taken_over_from: body.taken_over_from.clone(),
        moved_away: body.moved_away,
        held_by: body.held_by.as_ref().map(|by| MigrationReference { name: by.name.clone(), uid: by.uid.clone() }),
        quota: body.quota.as_ref().map(validate::reported),
        // A migration's to write: a patch leaves what it does not name.
        moved_buckets: Vec::new(),
    }
}

/// What an S3User says of buckets that came from others.
pub(super) fn moved_in(object: &S3User) -> Vec<MovedIn> {
    let moved = object.spec.moved_buckets.iter();
    let moved = moved.map(|MovedBucket { name, id, former_tenants }| MovedIn {
        name: name.clone(),
        id: id.clone(),
        former: former_tenants.iter().cloned().collect(),
    });
    moved.collect()
}

/// A merge patch to an S3User that says so.
pub(super) fn moved_in_patch(moved_in: &[MovedIn]) -> Value {
    let moved = moved_in.iter().map(|it| MovedBucket {
        name: it.name.clone(),
        id: it.id.clone(),
        former_tenants: it.former.iter().cloned().collect(),
    });
    json!({ "spec": { "movedBuckets": moved.collect::<Vec<_>>() } })
}

/// The spec of a vault's S3User.
fn vault_record_spec(body: &RecordBody) -> S3UserSpec {
    let mut spec = record_spec(body);
    if let Some(claim) = &mut spec.claim_ref {
        claim.api_version = Some(BackupVault::api_version(&()).into_owned());
        claim.kind = Some(BackupVault::kind(&()).into_owned());
    }
    spec
}

/// The S3User of a vault.
pub(super) fn vault_user(name: &str, body: &RecordBody) -> S3User {
    S3User::new(name, vault_record_spec(body))
}

/// A merge patch to the spec of a vault's S3User.
pub(super) fn vault_record_patch(body: &RecordBody) -> Value {
    patch_to(&vault_record_spec(body))
}

/// A merge patch to this spec. What is gone is named: a merge patch leaves what it does not name.
pub(super) fn record_patch(body: &RecordBody) -> Value {
    patch_to(&record_spec(body))
}

fn patch_to(spec: &S3UserSpec) -> Value {
    let mut spec = json!(spec);
    if let Value::Object(spec) = &mut spec {
        for field in ["keyRotation", "takenOverFrom", "heldBy", "movedAway"] {
            spec.entry(field).or_insert(Value::Null);
        }
    }
    json!({ "spec": spec })
}

pub(super) fn record_status(object: Option<&S3User>, mark: &Mark, now: &Timestamp) -> S3UserStatus {
    let old = object.and_then(|object| object.status.as_ref()).map(|status| conditions::from_api(&status.conditions));
    let mut conditions = old.unwrap_or_default();
    let generation = object.and_then(|object| object.metadata.generation);
    let ready = Truth::from(mark.reason == Reason::Provisioned);
    conditions.set_observed("Ready", ready, mark.reason.as_str(), mark.message.clone(), generation, now);
    S3UserStatus {
        observed_generation: generation,
        phase: Some(match mark.phase {
            Phase::Bound => S3UserPhase::Bound,
            Phase::Removing => S3UserPhase::Removing,
            Phase::Released => S3UserPhase::Released,
        }),
        keeps_all_buckets: mark.set_aside.everything,
        kept_buckets: mark.set_aside.kept.iter().cloned().collect(),
        left_buckets: mark.set_aside.left.iter().cloned().collect(),
        purge: mark.purge.as_ref().map(|purge| S3UserPurge {
            buckets: u32::try_from(purge.buckets).unwrap_or(u32::MAX),
            bucket: purge.bucket.clone(),
            objects: i64::try_from(purge.objects).unwrap_or(i64::MAX),
            time: now.0.clone(),
        }),
        returns_to: mark.returns_to.clone(),
        conditions: conditions::to_api(&conditions),
    }
}

/// The status of an S3User with a note about one of its buckets.
pub(super) fn noted(object: &S3User, bucket: &str, note: Note) -> S3UserStatus {
    let status = object.status.clone().unwrap_or_default();
    let SetAside { everything, kept, left } = set_aside(&status).noted(bucket, note);
    S3UserStatus {
        keeps_all_buckets: everything,
        kept_buckets: kept.into_iter().collect(),
        left_buckets: left.into_iter().collect(),
        ..status
    }
}

#[cfg(test)]
mod tests {
    use croft_core::storage::claim::UNCOUNTED;

    use super::*;

    #[test]
    fn what_a_bucket_to_purge_holds_is_read_as_it_was_written() {
        let purge = Purge { buckets: 3, bucket: "photos".into(), objects: UNCOUNTED };
        let mark = Mark {
            phase: Phase::Removing,
            reason: Reason::Deleting,
            message: String::new(),
            set_aside: SetAside::default(),
            purge: Some(purge.clone()),
            returns_to: None,
        };
        let status = record_status(None, &mark, &Timestamp("2026-01-01T00:00:00Z".into()));
        assert_eq!(status.purge.as_ref().map(|written| purge_seen(written).purge), Some(purge));
    }

    #[test]
    fn fresh_keys_differ_and_suit_s3() {
        let (FreshKeys(one), FreshKeys(other)) = (fresh_keys(), fresh_keys());
        assert_ne!(one, other);
        assert!(one.len() == 17 && one.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
