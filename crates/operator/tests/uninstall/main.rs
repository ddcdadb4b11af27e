//! What `croft uninstall` leaves behind, on a real API server.

#[path = "../support/mod.rs"]
mod support;

use std::{path::Path, process::Output};

use anyhow::{Context, Result};
use croft_api::{namespaces::CLASS_LABEL, storage::S3UserClaim};
use croft_testbed::{Testbed, wait};
use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingWebhookConfiguration},
        core::v1::{Namespace, ResourceQuota, Secret},
        networking::v1::NetworkPolicy,
        rbac::v1::ClusterRole,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde::de::DeserializeOwned;

use crate::support::{PATIENCE, World, apply, croft, eventually};

const CLASS: &str = r#"{"apiVersion": "akuity.io/v1alpha1", "kind": "NamespaceClass", "metadata": {"name": "team"}, "spec": {
  "protect": true, "policy": {"onClassDelete": "Block"}, "resources": [
  {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny-all"}, "spec": {"podSelector": {}}},
  {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": {"pods": "10"}}}]}}"#;

async fn uninstall(kubeconfig: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = tokio::process::Command::new(croft());
    command.arg("uninstall").args(arguments).arg("--kubeconfig").arg(kubeconfig);
    Ok(command.output().await?)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn names<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug>(
    client: &Client,
) -> Result<Vec<String>> {
    let all = Api::<K>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(all.items.iter().map(ResourceExt::name_any).collect())
}

/// A namespace of a class that protects what it stamps.
async fn furnished(bed: &Testbed) -> Result<String> {
    let namespace = bed.namespace("kept").await?;
    apply(bed.admin(), CLASS).await?;
    let label = format!("{CLASS_LABEL}=team");
    bed.admin().kubectl(&["label", "namespace", &namespace, &label]).await?;
    let policies: Api<NetworkPolicy> = Api::namespaced(bed.admin().client.clone(), &namespace);
    eventually("the class's objects", || async { Ok(policies.get_opt("deny-all").await?) }).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(bed.admin().client.clone(), &namespace);
    eventually("the class's objects", || async { Ok(quotas.get_opt("team").await?) }).await;
    Ok(namespace)
}

/// Nothing by which the API server, or anybody in it, would know that Croft was here.
async fn nothing_is_left(client: &Client) -> Result<()> {
    let ours = |names: Vec<String>| names.into_iter().filter(|name| name.contains("croft")).collect::<Vec<_>>();
    assert_eq!(ours(names::<ValidatingAdmissionPolicy>(client).await?), [""; 0]);
    assert_eq!(ours(names::<ValidatingWebhookConfiguration>(client).await?), [""; 0]);
    assert_eq!(ours(names::<ClusterRole>(client).await?), [""; 0]);
    let groups = ["akuity.io", "snappcloud.io", "oadp.openshift.io", "croft.dev"];
    let kinds = names::<CustomResourceDefinition>(client).await?;
    assert!(!kinds.iter().any(|kind| groups.iter().any(|group| kind.ends_with(group))), "{kinds:?}");
    Ok(())
}

async fn goes(client: &Client, namespace: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete(namespace, &DeleteParams::default()).await?;
    wait::until_true("the namespace to be gone", PATIENCE, || async {
        Ok(namespaces.get_opt(namespace).await?.is_none())
    })
    .await
}

#[tokio::test]
async fn with_data_kept_no_fence_falls_with_the_operator_and_nothing_else_of_it_is_left() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let client = world.client();
    let namespace = furnished(&world.bed).await?;
    let kubeconfig = world.bed.admin().kubeconfig.clone();

    let told = uninstall(&kubeconfig, &["--dry-run"]).await?;
    let text = said(&told);
    assert!(told.status.success() && text.contains("namespaces: 1 NetworkPolicy, 1 ResourceQuota"), "{text}");
    assert!(names::<ValidatingAdmissionPolicy>(&client).await?.iter().any(|name| name == "croft-bindings"));

    drop(world.operator);
    let done = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(done.status.success(), "{}", said(&done));
    nothing_is_left(&client).await?;
    let policy = Api::<NetworkPolicy>::namespaced(client.clone(), &namespace).get("deny-all").await?;
    assert_eq!((policy.owner_references().len(), policy.labels().len()), (0, 0), "{:?}", policy.metadata);
    Api::<ResourceQuota>::namespaced(client.clone(), &namespace).get("team").await?;
    // The Secret with the gateway's keys would be somebody else's; here there is none.
    eventually("the operator's namespace to go", || async {
        let here = Api::<Namespace>::all(client.clone()).get_opt("croft-system").await?;
        Ok((here.is_none() || here.is_some_and(|here| here.metadata.deletion_timestamp.is_some())).then_some(()))
    })
    .await;
    goes(&client, &namespace).await?;

    let again = uninstall(&kubeconfig, &["--keep-data"]).await?;
    assert!(again.status.success() && said(&again).contains("nothing of Croft is here"), "{}", said(&again));
    Ok(())
}

#[tokio::test]
async fn while_an_operator_runs_outside_of_the_cluster_nothing_is_let_go_of() -> Result<()> {
    let world = World::own(Testbed::kubernetes()).await?;
    let namespace = furnished(&world.bed).await?;
    let kubeconfig = world.bed.admin().kubeconfig.clone();
    let refused = uninstall(&kubeconfig, &["--timeout", "2"]).await?;
    assert!(!refused.status.success() && said(&refused).contains("stopped by hand"), "{}", said(&refused));
    let policy = Api::<NetworkPolicy>::namespaced(world.client(), &namespace).get("deny-all").await?;
    assert_eq!(policy.owner_references().len(), 1);
    Ok(())
}

#[tokio::test]
async fn keys_stay_with_the_tenant_and_her_user_in_ceph_or_all_of_it_goes() -> Result<()> {
    for (choice, stays) in [("--keep-data", true), ("--purge", false)] {
        let world = World::own(Testbed::kubernetes().with_ceph()).await?;
        let client = world.client();
        let namespace = world.bed.namespace("blue").await?;
        let claim = format!(
            r#"{{"apiVersion": "s3.snappcloud.io/v1alpha1", "kind": "S3UserClaim", "metadata": {{"name": "app", "namespace": "{namespace}"}},
                "spec": {{"adminSecretName": "app-admin", "readSecretName": "app-read", "quota": {{"size": "1Gi", "objects": "10", "buckets": 2}}}}}}"#
        );
        apply(world.bed.admin(), &claim).await?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        eventually("her keys", || async { Ok(secrets.get_opt("app-admin").await?) }).await;
        let claims: Api<S3UserClaim> = Api::namespaced(client.clone(), &namespace);
        assert!(claims.get("app").await?.finalizers().len() == 1);
        let kubeconfig = world.bed.admin().kubeconfig.clone();
        let running = tokio::spawn(async move { uninstall(&kubeconfig, &[choice, "--timeout", "60"]).await });
        // Outside of the cluster it is stopped by hand, once it has done its work.
        if stays {
            drop(world.operator);
        } else {
            eventually("the user to be gone", || async {
                Ok((!world.bed.ceph().admin(&["user", "list"]).await?.contains(&namespace)).then_some(()))
            })
            .await;
            drop(world.operator);
        }
        let done = running.await.context("croft uninstall")??;
        assert!(done.status.success(), "{}", said(&done));
        nothing_is_left(&client).await?;
        assert_eq!(world.bed.ceph().admin(&["user", "list"]).await?.contains(&namespace), stays, "{choice}");
        assert_eq!(secrets.get_opt("app-admin").await?.is_some(), stays, "{choice}");
        goes(&client, &namespace).await?;
    }
    Ok(())
}
