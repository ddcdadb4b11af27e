//! Claims and their Secrets in the core's words, and back.

use std::{collections::BTreeMap, time::Duration};

use croft_api::storage::{CLAIM_FINALIZER, ROTATE_KEYS_ANNOTATION, S3UserClaim, S3UserClaimStatus, validate};
use croft_core::{
    conditions::cut,
    storage::{
        self,
        claim::{Claim, SecretBody, SecretSeen, Status},
    },
};
use k8s_openapi::{
    ByteString,
    api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{Resource, ResourceExt};

use crate::{
    conditions,
    engine::{Target, is_deleting},
    objects::{self, controller, controlling, seen as target},
};

/// On every Secret of ours, so that they can be found with `kubectl get secrets -l`.
pub(in crate::storage) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "croft");

/// How much of a wish for new keys counts.
const LONGEST_WISH: usize = 253;

/// A claim as stored.
pub(in crate::storage) fn claim_seen(claim: &S3UserClaim) -> Claim {
    let status = claim.status.clone().unwrap_or_default();
    Claim {
        target: target(&claim.metadata),
        generation: claim.metadata.generation.unwrap_or_default(),
        deleting: is_deleting(&claim.metadata),
        finalizer: objects::has_finalizer(&claim.metadata, CLAIM_FINALIZER),
        rotate: rotation_asked(claim),
        spec: validate::claim(claim),
        status: Status {
            observed_generation: status.observed_generation,
            class: status.s3_class_name,
            s3_user: status.s3_user_name,
            quota: status.quota.as_ref().and_then(validate::granted),
            subusers: status.subusers.into_iter().collect(),
            observed_key_rotation: status.observed_key_rotation,
            used: status.used.as_ref().and_then(validate::usage),
            conditions: conditions::from_api(&status.conditions),
        },
    }
}

/// For how long it has said whether it is ready.
pub(super) fn unchanged_for(claim: &Claim) -> Duration {
    let since = claim.status.conditions.get("Ready").map(|ready| ready.last_transition_time.0.parse());
    let passed = since.and_then(Result::ok).map(|since| jiff::Timestamp::now().duration_since(since));
    passed.and_then(|passed| Duration::try_from(passed).ok()).unwrap_or_default()
}

/// The wish for new keys, if there is one. It is repeated in two statuses, so that its beginning must do.
pub(in crate::storage) fn rotation_asked(claim: &S3UserClaim) -> Option<String> {
    let asked = claim.annotations().get(ROTATE_KEYS_ANNOTATION).filter(|asked| !asked.is_empty())?;
    Some(cut(asked.clone(), LONGEST_WISH))
}

pub(super) fn claim_status(new: &Status) -> S3UserClaimStatus {
    S3UserClaimStatus {
        observed_generation: new.observed_generation,
        s3_class_name: new.class.clone(),
        s3_user_name: new.s3_user.clone(),
        quota: new.quota.as_ref().map(validate::reported),
        subusers: new.subusers.iter().cloned().collect(),
        observed_key_rotation: new.observed_key_rotation.clone(),
        used: new.used.map(validate::reported_usage),
        conditions: conditions::to_api(&new.conditions),
    }
}

pub(super) fn secret_seen(secret: &Secret) -> SecretSeen {
    let text = |value: &ByteString| croft_core::secret::Secret::new(String::from_utf8_lossy(&value.0));
    SecretSeen {
        target: target(&secret.metadata),
        owner: controller(&secret.metadata),
        owner_claim: owner_claim(&secret.metadata),
        labelled: is_labelled(&secret.metadata),
        immutable: secret.immutable == Some(true),
        data: secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect(),
    }
}

pub(super) fn secret(namespace: &str, name: &str, body: &SecretBody) -> Secret {
    Secret {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())])),
            owner_references: Some(vec![owner(&body.owner)]),
            ..ObjectMeta::default()
        },
        data: Some(body.data.iter().map(|(key, value)| (key.clone(), ByteString(value.expose().into()))).collect()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

pub(super) fn owner((claim, uid): &(String, String)) -> OwnerReference {
    OwnerReference {
        api_version: S3UserClaim::api_version(&()).into_owned(),
        kind: S3UserClaim::kind(&()).into_owned(),
        name: claim.clone(),
        uid: uid.clone(),
        controller: Some(true),
        // Kubernetes may ask for a right on the owner's finalizers otherwise.
        block_owner_deletion: Some(false),
    }
}

pub(super) fn is_labelled(metadata: &ObjectMeta) -> bool {
    metadata.labels.as_ref().and_then(|labels| labels.get(MANAGED_BY.0)).is_some_and(|value| value == MANAGED_BY.1)
}

pub(super) fn owner_claim(metadata: &ObjectMeta) -> Option<String> {
    controlling(metadata).filter(|owner| owner.kind == S3UserClaim::kind(&())).map(|owner| owner.name.clone())
}

pub(in crate::storage) fn exactly(target: &storage::Target) -> Target<'_> {
    Target { namespace: &target.namespace, name: &target.name, uid: &target.uid }
}

pub(super) fn cluster<'a>(name: &'a str, uid: &'a str) -> Target<'a> {
    Target { namespace: "", name, uid }
}
