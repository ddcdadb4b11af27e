//! What is checked at the door.

use croft_api::{
    Problem,
    storage::{S3Bucket, S3UserClaim, validate},
};

use super::door;
use crate::admission::{Checked, ClusterScoped, Context, Hook, Operation, Refusal, Request, WhenDown, review};

pub(super) const HOOKS: &[Hook] = &[
    Hook {
        name: "vs3userclaim.kb.io",
        path: "/validate-s3-snappcloud-io-v1alpha1-s3userclaim",
        group: "s3.snappcloud.io",
        version: "v1alpha1",
        resource: "s3userclaims",
        scope: "Namespaced",
        operations: &[Operation::Create, Operation::Update],
        writes: true,
        when_down: WhenDown::Refuse,
        review: review::<S3UserClaim>,
    },
    Hook {
        name: "vs3bucket.kb.io",
        path: "/validate-s3-snappcloud-io-v1alpha1-s3bucket",
        group: "s3.snappcloud.io",
        version: "v1alpha1",
        resource: "s3buckets",
        scope: "Namespaced",
        operations: &[Operation::Create, Operation::Update],
        writes: false,
        when_down: WhenDown::Refuse,
        review: review::<S3Bucket>,
    },
];

impl Checked for S3UserClaim {
    fn problems(&self, _: &ClusterScoped) -> Vec<Problem> {
        validate::claim(self).err().unwrap_or_default()
    }

    async fn among_others(request: &Request<Self>, context: &Context) -> Result<(), Refusal> {
        door::reserve(request, context).await
    }
}

impl Checked for S3Bucket {
    fn problems(&self, _: &ClusterScoped) -> Vec<Problem> {
        validate::bucket(self).err().unwrap_or_default()
    }
}
