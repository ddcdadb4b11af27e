//! What is checked at the door.

use croft_api::{
    Problem,
    namespaces::{NamespaceClass, validate},
};

use crate::admission::{Checked, ClusterScoped, Hook, Operation, WhenDown, review};

pub(super) const HOOKS: &[Hook] = &[Hook {
    name: "vnamespaceclass.croft.dev",
    path: "/validate-akuity-io-v1alpha1-namespaceclass",
    group: "akuity.io",
    version: "v1alpha1",
    resource: "namespaceclasses",
    scope: "Cluster",
    operations: &[Operation::Create, Operation::Update],
    writes: false,
    when_down: WhenDown::Refuse,
    review: review::<NamespaceClass>,
}];

impl Checked for NamespaceClass {
    fn problems(&self, cluster_scoped: &ClusterScoped) -> Vec<Problem> {
        let mut problems = validate::validate(self).err().unwrap_or_default();
        problems.extend(validate::not_namespaced(self, |group, kind| cluster_scoped.has(group, kind)));
        problems
    }

    fn warnings(&self) -> Vec<String> {
        validate::readable_secrets(self)
    }
}
