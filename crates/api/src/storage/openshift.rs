//! The part of OpenShift's quota for several namespaces that limits storage; there only where OpenShift is.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::Quantity;

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "quota.openshift.io",
    version = "v1",
    kind = "ClusterResourceQuota",
    plural = "clusterresourcequotas",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(default)]
pub struct ClusterResourceQuotaSpec {
    pub quota: HardLimits,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HardLimits {
    pub hard: BTreeMap<String, Quantity>,
}
