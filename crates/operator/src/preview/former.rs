//! What objects were last applied as: the operator takes away what a class has dropped, whoever says that it is his as well.

use std::{collections::BTreeMap, sync::Arc};

use croft_api::namespaces::{NamespaceClass, validate::validate};
use croft_core::namespaces::{
    resources::{ClassSeen, Observed},
    template::Facts,
    witness::Seal,
};
use kube::{Client, ResourceExt};
use tokio::sync::Mutex;

use crate::{
    namespaces::{
        described::present,
        revisions::{Revision, class_at},
    },
    steering::revisions,
};

/// Earlier revisions of classes, each class's listed once.
pub(super) struct Former {
    client: Client,
    /// The operator's own.
    namespace: String,
    kept: Mutex<BTreeMap<String, Arc<Vec<Revision>>>>,
}

impl Former {
    pub(super) fn new(client: &Client, namespace: &str) -> Self {
        Self { client: client.clone(), namespace: namespace.to_owned(), kept: Mutex::default() }
    }

    /// As the operator learns it. Of Secrets it cannot be told: only the operator has the key of their digests.
    pub(super) async fn learn(
        &self,
        classes: &BTreeMap<String, NamespaceClass>,
        seen: &mut Observed,
        seal: &Seal,
        namespace: &Facts,
    ) {
        let status = &seen.binding.status;
        let names: Vec<_> = status.classes().chain(status.observed_class_name.as_deref()).map(str::to_owned).collect();
        for class in names.iter().filter_map(|name| classes.get(name)) {
            if !seen.lacks_former() {
                return;
            }
            for revision in self.kept(class).await.iter() {
                let then = class_at(class, revision);
                if let ClassSeen::Present(then) = present(&then, &validate(&then), seal, &seen.binding, namespace) {
                    seen.learn_former(then.items);
                }
            }
        }
    }

    /// Who may not read revisions sees what is planned without them.
    async fn kept(&self, class: &NamespaceClass) -> Arc<Vec<Revision>> {
        let mut all = self.kept.lock().await;
        if let Some(known) = all.get(&class.name_any()) {
            return known.clone();
        }
        let kept = Arc::new(revisions(&self.client, &self.namespace, class).await.unwrap_or_default());
        all.insert(class.name_any(), kept.clone());
        kept
    }
}
