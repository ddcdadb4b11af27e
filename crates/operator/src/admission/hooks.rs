//! What is checked, where, under which name.

use croft_api::{
    Problem,
    namespaces::{self, NamespaceClass},
    storage::{self, S3Bucket, S3UserClaim},
};

use super::review::{Answer, Checked, review};

/// One webhook: its place in the configuration and on the server.
pub(super) struct Hook {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) resource: &'static str,
    pub(super) scope: &'static str,
    pub(super) review: fn(&[u8]) -> Answer,
}

pub(super) const HOOKS: &[Hook] = &[
    Hook {
        name: "vs3userclaim.kb.io",
        path: "/validate-s3-snappcloud-io-v1alpha1-s3userclaim",
        group: "s3.snappcloud.io",
        version: "v1alpha1",
        resource: "s3userclaims",
        scope: "Namespaced",
        review: review::<S3UserClaim>,
    },
    Hook {
        name: "vs3bucket.kb.io",
        path: "/validate-s3-snappcloud-io-v1alpha1-s3bucket",
        group: "s3.snappcloud.io",
        version: "v1alpha1",
        resource: "s3buckets",
        scope: "Namespaced",
        review: review::<S3Bucket>,
    },
    Hook {
        name: "vnamespaceclass.croft.dev",
        path: "/validate-akuity-io-v1alpha1-namespaceclass",
        group: "akuity.io",
        version: "v1alpha1",
        resource: "namespaceclasses",
        scope: "Cluster",
        review: review::<NamespaceClass>,
    },
];

impl Checked for S3UserClaim {
    fn problems(&self) -> Vec<Problem> {
        storage::validate::claim(self).err().unwrap_or_default()
    }
}

impl Checked for S3Bucket {
    fn problems(&self) -> Vec<Problem> {
        storage::validate::bucket(self).err().unwrap_or_default()
    }
}

impl Checked for NamespaceClass {
    fn problems(&self) -> Vec<Problem> {
        namespaces::validate::validate(self).err().unwrap_or_default()
    }
}
