//! Deletions people would regret or wait for: refused with what to do first. The finalizers protect the data; these guards only
//! save people a wait, so they let pass whenever nobody answers, and never stand in the way of Croft itself, of Kubernetes' own
//! controllers or of a namespace that goes.

use croft_api::storage::{S3Bucket, S3Class, S3UserClaim};
use croft_core::storage::{
    class::in_use,
    door::{Asker, BUCKETS_FIRST},
};
use kube::{Api, ResourceExt, api::ListParams};

use super::{
    CLAIM_INDEX, CLASS_INDEX,
    door::{Door, unchecked},
    place,
};
use crate::{
    admission::{Context, Refusal, Request, Rule, Verdict},
    engine::{
        is_deleting,
        write::{call, read},
    },
};

const PASSES: Verdict = Ok(Vec::new());

/// A claim that still has S3Buckets.
pub(super) struct ClaimGuard;

impl Rule for ClaimGuard {
    type Kind = S3UserClaim;

    async fn judge(request: Request<S3UserClaim>, context: &Context) -> Verdict {
        let (Some(door), Some(claim)) = (context.ground::<Door>(), &request.old) else { return PASSES };
        let (namespace, name) = (request.namespace.as_str(), claim.name_any());
        let caches = door.caches();
        let is_going = is_deleting(&claim.metadata) || caches.is_terminating(namespace);
        if is_going || caches.buckets.by(CLAIM_INDEX, &place(&claim.metadata, &name)).is_empty() {
            return PASSES;
        }
        if door.asker(&request.requester).await? == Asker::Machine {
            return PASSES;
        }
        let is_dying = read(door.namespaces().get_opt(namespace)).await.map_err(unchecked)?;
        if is_dying.is_none_or(|namespace| is_deleting(&namespace.metadata)) {
            return PASSES;
        }
        let buckets: Api<S3Bucket> = Api::namespaced(door.client(), namespace);
        let buckets = call("list", buckets.list(&ListParams::default())).await.map_err(unchecked)?;
        // Those on their way out the claim waits for by itself; one of them may wait for the claim.
        let stays = |bucket: &S3Bucket| bucket.spec.s3_user_ref == name && !is_deleting(&bucket.metadata);
        let has_some = buckets.items.iter().any(stays);
        if has_some { Err(Refusal::NotNow(BUCKETS_FIRST.to_owned())) } else { PASSES }
    }
}

/// A class that still has users.
pub(super) struct ClassGuard;

impl Rule for ClassGuard {
    type Kind = S3Class;

    async fn judge(request: Request<S3Class>, context: &Context) -> Verdict {
        let (Some(door), Some(class)) = (context.ground::<Door>(), &request.old) else { return PASSES };
        let name = class.name_any();
        let users = door.caches().users.by(CLASS_INDEX, &name);
        let users = users.iter().map(|user| user.name_any()).collect();
        let Some(why) = in_use(&name, &users).filter(|_| !is_deleting(&class.metadata)) else { return PASSES };
        match door.asker(&request.requester).await? {
            Asker::Machine => PASSES,
            Asker::Person | Asker::Restorer => Err(Refusal::NotNow(why)),
        }
    }
}
