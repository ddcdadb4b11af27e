//! What is checked, where, under which name.

use croft_api::{
    Problem,
    namespaces::{self, NamespaceClass},
    storage::{self, S3Bucket, S3UserClaim},
};

use super::{
    review::{Answer, Checked, review},
    scopes::ClusterScoped,
};

/// One webhook: its place in the configuration and on the server.
#[derive(Clone, Copy)]
pub(super) struct Hook {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) resource: &'static str,
    pub(super) scope: &'static str,
    pub(super) review: fn(&[u8], &ClusterScoped) -> Answer,
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
    fn problems(&self, _: &ClusterScoped) -> Vec<Problem> {
        storage::validate::claim(self).err().unwrap_or_default()
    }
}

impl Checked for S3Bucket {
    fn problems(&self, _: &ClusterScoped) -> Vec<Problem> {
        storage::validate::bucket(self).err().unwrap_or_default()
    }
}

impl Checked for NamespaceClass {
    fn problems(&self, cluster_scoped: &ClusterScoped) -> Vec<Problem> {
        let mut problems = namespaces::validate::validate(self).err().unwrap_or_default();
        problems.extend(namespaces::validate::not_namespaced(self, |group, kind| cluster_scoped.has(group, kind)));
        problems
    }

    fn warnings(&self) -> Vec<String> {
        namespaces::validate::readable_secrets(self)
    }
}
