//! A tenant with the rights `edit` gives in one namespace, and no others.

use anyhow::{Result, ensure};
use croft_testbed::Identity;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{Api, api::PostParams};
use serde_json::json;

use crate::{plot::Plot, support::eventually};

impl Plot {
    /// Whoever edits the namespace, once the API server knows of it.
    pub(crate) async fn tenant(&self) -> Result<Identity> {
        let name = format!("tenant-of-{}", self.namespace);
        let tenant = self.world.bed.tenant(&name, &self.namespace, Vec::new()).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "editors" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name }],
        });
        let bindings: Api<RoleBinding> = self.api();
        bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        eventually("the tenant's rights to count", || async {
            let may = tenant.can("create", "oadp.openshift.io/nonadminbackups", Some(&self.namespace)).await?;
            ensure!(may, "they do not");
            Ok(Some(()))
        })
        .await;
        Ok(tenant)
    }
}
