//! What is checked at the door.

use croft_api::{
    Problem,
    namespaces::{NamespaceClass, validate},
};

use super::author::Authors;
use crate::admission::{Checked, ClusterScoped, Context, Hook, Operation, Refusal, Request, WhenDown, review};

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
        problems.extend(validate::own_labels(self));
        problems.extend(validate::not_namespaced(self, |group, kind| cluster_scoped.has(group, kind)));
        problems
    }

    async fn among_others(request: &Request<Self>, context: &Context) -> Result<(), Refusal> {
        match context.ground::<Authors>() {
            Some(authors) => authors.judge(request).await,
            None => Ok(()),
        }
    }

    fn warnings(&self) -> Vec<String> {
        validate::readable_secrets(self)
    }
}
