//! What is checked at the door.

use croft_api::{
    Problem,
    storage::{S3Bucket, S3Class, S3UserClaim, validate},
};

use super::{
    door,
    guards::{ClaimGuard, ClassGuard},
};
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
    Hook {
        name: "vs3class.croft.dev",
        path: "/validate-s3-snappcloud-io-v1alpha1-s3class",
        group: "s3.snappcloud.io",
        version: "v1alpha1",
        resource: "s3classes",
        scope: "Cluster",
        operations: &[Operation::Create, Operation::Update],
        writes: false,
        // Classes can be set up before the operator runs; one that will not do is found out by its reconciler all the same.
        when_down: WhenDown::LetPass,
        review: review::<S3Class>,
    },
    Hook {
        name: "gs3userclaim.croft.dev",
        path: "/guard-s3-snappcloud-io-v1alpha1-s3userclaim",
        group: "s3.snappcloud.io",
        version: "v1alpha1",
        resource: "s3userclaims",
        scope: "Namespaced",
        operations: &[Operation::Delete],
        writes: false,
        when_down: WhenDown::LetPass,
        review: review::<ClaimGuard>,
    },
    Hook {
        name: "gs3class.croft.dev",
        path: "/guard-s3-snappcloud-io-v1alpha1-s3class",
        group: "s3.snappcloud.io",
        version: "v1alpha1",
        resource: "s3classes",
        scope: "Cluster",
        operations: &[Operation::Delete],
        writes: false,
        when_down: WhenDown::LetPass,
        review: review::<ClassGuard>,
    },
];

impl Checked for S3UserClaim {
    fn problems(&self, _: &ClusterScoped) -> Vec<Problem> {
        validate::claim(self).err().unwrap_or_default()
    }

    async fn among_others(request: &Request<Self>, context: &Context) -> Result<(), Refusal> {
        door::claim(request, context).await
    }
}

impl Checked for S3Bucket {
    fn problems(&self, _: &ClusterScoped) -> Vec<Problem> {
        validate::bucket(self).err().unwrap_or_default()
    }

    async fn among_others(request: &Request<Self>, context: &Context) -> Result<(), Refusal> {
        door::bucket(request, context).await
    }
}

impl Checked for S3Class {
    fn problems(&self, _: &ClusterScoped) -> Vec<Problem> {
        validate::class(self).err().unwrap_or_default()
    }

    async fn among_others(request: &Request<Self>, context: &Context) -> Result<(), Refusal> {
        door::class(request, context)
    }
}
