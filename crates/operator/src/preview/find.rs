//! A kind by any of the names kubectl takes.

use anyhow::{Context as _, bail};
use croft_core::namespaces::manifest::Identity;
use kube::{
    Client,
    api::ApiResource,
    core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery},
};

use super::because;
use crate::engine::{discover, write::crd_name};

/// A kind, found by name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) resource: ApiResource,
    pub(super) namespaced: bool,
}

impl Found {
    pub(super) fn identity(&self, name: &str) -> Identity {
        Identity { group: self.resource.group.clone(), kind: self.resource.kind.clone(), name: name.to_owned() }
    }
}

/// Splits `KIND/NAME`.
pub(super) fn split(object: &str) -> anyhow::Result<(&str, &str)> {
    match object.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => Ok((kind, name)),
        _ => bail!("{object}: give KIND/NAME, for example configmap/settings"),
    }
}

/// Asks the API server for a kind: `ConfigMap`, `configmaps`, `cm`, `deployments.apps`.
pub(super) async fn find(client: &Client, kind: &str) -> anyhow::Result<Found> {
    let groups = discover(client).await.map_err(because("discovering kinds"))?;
    find_in(&groups, kind).with_context(|| format!("the cluster knows no kind {kind}"))
}

/// The first kind that goes by this name; groups come in the API server's order, their preferred version first.
fn find_in(groups: &[APIGroupDiscovery], name: &str) -> Option<Found> {
    let name = name.to_lowercase();
    groups.iter().find_map(|group| {
        let group_name = group.metadata.as_ref().and_then(|metadata| metadata.name.clone()).unwrap_or_default();
        group.versions.iter().find_map(|version| {
            let resource = version.resources.iter().find(|resource| goes_by(resource, &group_name, &name))?;
            described(&group_name, version.version.as_deref()?, resource)
        })
    })
}

fn goes_by(resource: &APIResourceDiscovery, group: &str, name: &str) -> bool {
    let kind = resource.response_kind.as_ref().and_then(|kind| kind.kind.as_deref()).map(str::to_lowercase);
    let names = [resource.resource.as_deref(), resource.singular_resource.as_deref(), kind.as_deref()];
    let mut names = names.into_iter().flatten().chain(resource.short_names.iter().map(String::as_str));
    names.any(|known| known == name || crd_name(known, group) == name)
}

fn described(group: &str, version: &str, resource: &APIResourceDiscovery) -> Option<Found> {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let resource_found = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: resource.response_kind.as_ref()?.kind.clone()?,
        plural: resource.resource.clone()?,
    };
    Some(Found { resource: resource_found, namespaced: resource.scope.as_deref() == Some("Namespaced") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn groups() -> Vec<APIGroupDiscovery> {
        let resource = |kind: &str, plural: &str, short: &[&str], scope: &str| json!({"resource": plural, "singularResource": kind.to_lowercase(), "responseKind": {"kind": kind}, "scope": scope, "shortNames": short});
        serde_json::from_value(json!([
            {"metadata": {"name": ""}, "versions": [{"version": "v1", "resources": [
                resource("ConfigMap", "configmaps", &["cm"], "Namespaced"), resource("Namespace", "namespaces", &["ns"], "Cluster")]}]},
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [resource("Deployment", "deployments", &["deploy"], "Namespaced")]}]},
        ]))
        .unwrap()
    }

    #[test]
    fn a_kind_goes_by_kind_plural_singular_short_name_and_group() {
        for name in ["ConfigMap", "configmap", "CONFIGMAPS", "cm"] {
            assert_eq!(find_in(&groups(), name).unwrap().resource.plural, "configmaps", "{name}");
        }
        for name in ["deploy", "deployments.apps", "Deployment.apps"] {
            assert_eq!(find_in(&groups(), name).unwrap().resource.api_version, "apps/v1", "{name}");
        }
        assert!(!find_in(&groups(), "ns").unwrap().namespaced);
        assert_eq!(find_in(&groups(), "gadget"), None);
    }

    #[test]
    fn an_object_is_given_as_kind_and_name() {
        assert_eq!(split("cm/a").unwrap(), ("cm", "a"));
        for wrong in ["cm", "cm/", "/a", "a/b/c"] {
            assert!(split(wrong).unwrap_err().to_string().contains("KIND/NAME"));
        }
    }
}
