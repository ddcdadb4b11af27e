//! S3User objects in the core's words and back, and keys for new users.

use croft_api::storage::{
    ClaimReference, KeyRotation, S3User, S3UserClaim, S3UserPhase, S3UserSpec, S3UserStatus, validate,
};
use croft_core::{
    conditions::Truth,
    storage::{
        CephUser, Reason,
        claim::{ClaimIdentity, FreshKeys, Mark, Phase, Record, RecordBody, Rotation},
    },
    time::Timestamp,
};
use kube::{Resource, ResourceExt};
use rand::{Rng, seq::IndexedRandom};

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
    let spec = &object.spec;
    let status = object.status.as_ref();
    let claim = spec.claim_ref.as_ref().and_then(|claim| {
        let (namespace, name, uid) = (claim.namespace.clone()?, claim.name.clone()?, claim.uid.clone()?);
        Some(ClaimIdentity { namespace, name, uid })
    });
    Record {
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        body: RecordBody {
            claim,
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
            S3UserPhase::Released => Phase::Released,
        }),
        reason: status.and_then(|status| conditions::from_api(&status.conditions).reason("Ready").map(str::to_owned)),
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
        quota: body.quota.as_ref().map(validate::reported),
    }
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
            Phase::Released => S3UserPhase::Released,
        }),
        conditions: conditions::to_api(&conditions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_keys_differ_and_suit_s3() {
        let (FreshKeys(one), FreshKeys(other)) = (fresh_keys(), fresh_keys());
        assert_ne!(one, other);
        assert!(one.len() == 17 && one.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }
}
