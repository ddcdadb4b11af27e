//! The testbed's own promises, on one shared instance where that is possible.

mod faults;
mod identities;
mod lifetime;
mod parts;

use std::time::Duration;

use croft_testbed::{Testbed, shared};
use k8s_openapi::api::{core::v1::ConfigMap, rbac::v1::PolicyRule};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};

const SOON: Duration = Duration::from_secs(20);

async fn bed() -> anyhow::Result<&'static Testbed> {
    shared(Testbed::kubernetes().with_ceph().with_velero()).await
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

async fn create(client: &Client, namespace: &str, name: &str) -> kube::Result<ConfigMap> {
    Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &config_map(name)).await
}

async fn exists(client: &Client, namespace: &str, name: &str) -> kube::Result<bool> {
    Ok(Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await?.is_some())
}

fn all_config_maps() -> Vec<PolicyRule> {
    vec![PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["configmaps".into()]),
        verbs: vec!["*".into()],
        ..PolicyRule::default()
    }]
}
