//! What a platform that installs Velero may say about tenants' backups. The kind is that platform's; we only read it.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::open::OpenObject;

/// The part of a DataProtectionApplication that is read.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "oadp.openshift.io",
    version = "v1alpha1",
    kind = "DataProtectionApplication",
    plural = "dataprotectionapplications",
    namespaced,
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct DataProtectionApplicationSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub non_admin: Option<OpenObject>,
}
